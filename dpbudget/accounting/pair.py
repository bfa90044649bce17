"""Dominating pairs on the real line: all that an engine ever sees of a mechanism.

A pair (P, Q) dominates a mechanism in one direction if H(e^eps) = sup_S P(S) - e^eps Q(S) is, at every real eps, at
least the hockey-stick divergence of the mechanism on any two neighbours in that direction (Zhu, Dong, Wang 2022,
arXiv:2106.08567, Def. 7). Products of dominating pairs dominate adaptive compositions (ibid., Thm 10).

Every pair is parametrised so that its privacy loss L(x) = log dP/dQ (x) never decreases in x.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LOG_SQRT_2PI = 0.9189385332046727


class Pair(ABC):
    """One direction of one mechanism. The continuous part lives on x in R; `atoms` and `infinite_mass` sit beside it.

    tight: whether some mechanism attains the pair, so that lower bounds on it are lower bounds on the mechanism.
    atoms: (loss, P-mass) of point masses with finite loss.
    infinite_mass: P-mass of the event where Q vanishes.
    breaks: points x where a density or the loss is not analytic.
    panel: length in x over which the integrands f(x) e^{z L(x)} are so smooth that a 16-point Gauss-Legendre
        panel is exact to round-off.
    """

    tight: bool = True
    atoms: tuple[tuple[float, float], ...] = ()
    infinite_mass: float = 0.0
    breaks: tuple[float, ...] = ()
    panel: float

    @property
    def largest_loss(self) -> float:
        """No finite loss exceeds this, to within round-off; inf where there is no such limit."""
        return np.inf

    @abstractmethod
    def log_p(self, x: Array) -> Array:
        """Log density of the continuous part of P. Same shape as x."""

    @abstractmethod
    def loss(self, x: Array) -> Array:
        """L(x) in nats, relative accuracy a few units of round-off. Same shape as x."""

    @abstractmethod
    def inverse_loss(self, loss: Array) -> Array:
        """The x with L(x) = loss; -inf below the infimum of L and +inf above its supremum."""

    @abstractmethod
    def support(self, log_tail: float) -> tuple[float, float]:
        """(lo, hi) such that P(X < lo) and P(X > hi) are each at most exp(log_tail)."""

    @abstractmethod
    def log_upper_tail(self, x: float) -> float:
        """An upper bound on log P(X > x)."""

    @abstractmethod
    def log_lower_tail(self, x: float) -> float:
        """An upper bound on log P(X < x)."""

    def log_q(self, x: Array) -> Array:
        """Log density of the continuous part of Q where Q > 0."""
        return self.log_p(x) - self.loss(x)

    def loss_and_log_p(self, x: Array) -> tuple[Array, Array]:
        """(loss(x), log_p(x)), for pairs whose density is written with the loss."""
        return self.loss(x), self.log_p(x)


class AnalyticPair(Pair):
    """A pair without atoms in between, whose density and loss are analytic between the breaks."""

    @abstractmethod
    def growth(self, mid: Array, reach: Array, height: Array, tilt: float, frequency: float) -> Array:
        """An upper bound on log |p(x) e^{(tilt + i y) L(x)}| over |Re x - mid| <= reach, |Im x| <= height, |y| <= frequency.

        The branch is the one that is analytic at `mid`. +inf where it is not analytic on all of the rectangle.
        """

    @abstractmethod
    def oscillation(self, edges: Array, tilt: float) -> Array:
        """V_i with |int over [edges_i, edges_{i+1}] of p e^{(tilt + i y) L} dx| <= V_i / |y| for every real y.

        By parts: f(a) + f(b) + the total variation of f = p e^{tilt L} / L' on the segment.
        """


def log_mixture_ratio(rate: float, exponent: Array) -> Array:
    """log(1 - rate + rate e^exponent) with relative accuracy, rate in (0, 1], also for huge |exponent|."""
    if rate == 1.0:
        return np.asarray(exponent, dtype=np.float64)
    small = np.minimum(exponent, 700.0)
    shift = rate * np.expm1(small)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(shift > -0.5, np.log1p(shift), np.log((1.0 - rate) + rate * np.exp(small)))
    high = exponent + np.log(rate) + np.log1p((1.0 / rate - 1.0) * np.exp(-np.maximum(exponent, 30.0)))
    # At a tiny rate the two large terms of `high` cancel: one log1p as long as the mixture is mostly the other part.
    return np.where((exponent <= 30.0) | ((shift <= 1.0) & (exponent <= 700.0)), low, high)


def segment_variation(edges: Array, log_f: Array, slope: Array, curvature: Array | float) -> Array:
    """f(a) + f(b) + TV(f) on each segment, where |(log f)'| <= slope and (log f)'' >= -curvature."""
    width = np.diff(edges)
    top = np.maximum(log_f[1:], log_f[:-1])
    with np.errstate(over="ignore", under="ignore"):
        variation = width * slope * np.exp(top + curvature * width**2 / 8)
        return np.asarray(np.exp(log_f[1:]) + np.exp(log_f[:-1]) + variation)


def lipschitz_variation(edges: Array, log_f: Array, slope: Array) -> Array:
    """`segment_variation` where only |(log f)'| <= slope is known."""
    width = np.diff(edges)
    top = (log_f[1:] + log_f[:-1] + slope * width) / 2
    with np.errstate(over="ignore", under="ignore"):
        variation = width * slope * np.exp(top)
        return np.asarray(np.exp(log_f[1:]) + np.exp(log_f[:-1]) + variation)


def invert_increasing(loss: Callable[[Array], Array], target: Array, lo: float, hi: float) -> Array:
    """x in [lo, hi] with loss(x) = target, all at once; -inf and +inf outside of the range of losses.

    Regula falsi with the Illinois weight inside the cells of a grid, where the loss is almost straight: a few steps.
    """
    target = np.asarray(target, dtype=np.float64)
    grid = np.linspace(lo, hi, 2049)
    values = loss(grid)
    place = np.clip(np.searchsorted(values, target), 1, grid.size - 1)
    low, high = grid[place - 1], grid[place]
    below, over = values[place - 1] - target, values[place] - target
    x = (low + high) / 2
    last = np.zeros(target.shape)
    close = 4 * np.finfo(np.float64).eps
    for _ in range(45):
        with np.errstate(divide="ignore", invalid="ignore"):
            guess = low - below * (high - low) / (over - below)
        guess = np.where((guess >= low) & (guess <= high), guess, (low + high) / 2)
        moved, x = np.abs(guess - x), guess
        value = loss(x) - target
        above = value > 0
        side = np.where(above, 1.0, -1.0)
        below = np.where(above, np.where(last > 0, below / 2, below), value)
        over = np.where(above, value, np.where(last < 0, over / 2, over))
        high, low, last = np.where(above, x, high), np.where(above, low, x), side
        if (moved <= close * (np.abs(x) + (hi - lo) / grid.size)).all():
            break
    return np.where(target <= values[0], -np.inf, np.where(target >= values[-1], np.inf, x))
