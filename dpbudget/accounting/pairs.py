"""Dominating pairs on the real line: all that an engine ever sees of a mechanism.

A pair (P, Q) dominates a mechanism in one direction if H(e^eps) = sup_S P(S) - e^eps Q(S) is, at every real eps, at
least the hockey-stick divergence of the mechanism on any two neighbours in that direction (Zhu, Dong, Wang 2022,
arXiv:2106.08567, Def. 7). Products of dominating pairs dominate adaptive compositions (ibid., Thm 10).

Every pair is parametrised so that its privacy loss L(x) = log dP/dQ (x) never decreases in x.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from dpbudget.errors import InputError
from dpbudget.model import Adjacency, Mechanism, SampledGaussian, Sampling

Array = NDArray[np.float64]

LOG_SQRT_2PI = 0.9189385332046727


class Pair(ABC):
    """One direction of one mechanism. The continuous part lives on x in R; `atoms` and `infinite_mass` sit beside it.

    atoms: (loss, P-mass) of point masses with finite loss.
    infinite_mass: P-mass of the event where Q vanishes.
    breaks: points x where a density or the loss is not analytic.
    panel: length in x over which the integrands f(x) e^{z L(x)} are so smooth that a 16-point Gauss-Legendre
        panel is exact to round-off.
    """

    atoms: tuple[tuple[float, float], ...] = ()
    infinite_mass: float = 0.0
    tight: bool = True
    breaks: tuple[float, ...] = ()
    panel: float

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
    small = np.minimum(exponent, 30.0)
    shift = rate * np.expm1(small)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(shift > -0.5, np.log1p(shift), np.log((1.0 - rate) + rate * np.exp(small)))
    high = exponent + np.log(rate) + np.log1p((1.0 / rate - 1.0) * np.exp(-np.maximum(exponent, 30.0)))
    return np.where(exponent <= 30.0, low, high)


@dataclass(frozen=True)
class SampledGaussianRemove(AnalyticPair):
    """P = (1-q) N(0, s^2) + q N(1, s^2), Q = N(0, s^2): Poisson sampling, a record removed or zeroed out.

    Exact and attained, so that lower bounds on this pair are lower bounds on the mechanism.
    Source: Zhu, Dong, Wang 2022, arXiv:2106.08567, Thm 11; q = 1 is the plain Gaussian.
    """

    sigma: float
    rate: float

    @property
    def panel(self) -> float:  # type: ignore[override]
        return min(self.sigma / 2, np.pi * self.sigma**2 / 2)

    def loss(self, x: Array) -> Array:
        return log_mixture_ratio(self.rate, (2 * x - 1) / (2 * self.sigma**2))

    def inverse_loss(self, loss: Array) -> Array:
        q, s2 = self.rate, self.sigma**2
        loss = np.asarray(loss, dtype=np.float64)
        if q == 1.0:
            return s2 * loss + 0.5
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            low = np.log1p(np.expm1(np.minimum(loss, 1.0)) / q)
            high = loss - np.log(q) + np.log1p((q - 1.0) * np.exp(-np.maximum(loss, 1.0)))
        x = s2 * np.where(loss <= 1.0, low, high) + 0.5
        return np.where(loss > np.log1p(-q), x, -np.inf)

    def log_p(self, x: Array) -> Array:
        return -0.5 * (x / self.sigma) ** 2 - np.log(self.sigma) - LOG_SQRT_2PI + self.loss(x)

    def log_q(self, x: Array) -> Array:
        return -0.5 * (x / self.sigma) ** 2 - np.log(self.sigma) - LOG_SQRT_2PI

    def loss_and_log_p(self, x: Array) -> tuple[Array, Array]:
        loss = self.loss(x)
        return loss, self.log_q(x) + loss

    def support(self, log_tail: float) -> tuple[float, float]:
        z = -float(ndtri_exp(log_tail))
        return -self.sigma * z, 1.0 + self.sigma * z

    def log_upper_tail(self, x: float) -> float:
        s, q = self.sigma, self.rate
        parts = np.log(q) + log_ndtr((1 - x) / s)
        return float(parts if q == 1.0 else np.logaddexp(parts, np.log1p(-q) + log_ndtr(-x / s)))

    def log_lower_tail(self, x: float) -> float:
        s, q = self.sigma, self.rate
        parts = np.log(q) + log_ndtr((x - 1) / s)
        return float(parts if q == 1.0 else np.logaddexp(parts, np.log1p(-q) + log_ndtr(x / s)))


    def growth(self, mid: Array, reach: Array, height: Array, tilt: float, frequency: float) -> Array:
        # |1-q + q r e^{i a}| <= 1-q + q r, and its argument is at most |a| and at most |a| sup|L'| s^2. On the real
        # line f = log p + tilt L has f'' >= -1/s^2 (L is convex), so that f is at most reach^2 / 2s^2 above its ends.
        s2 = self.sigma**2
        ends = []
        for x in (mid - reach, mid + reach):
            loss, log_p = self.loss_and_log_p(x)
            ends.append(log_p + tilt * loss)
        angle = height / s2
        share = np.exp(np.minimum(np.log(self.rate) + (2 * x - 1) / (2 * s2) - loss, 0.0))
        turn = np.minimum(angle, angle * share / np.cos(np.minimum(angle / 2, 1.5)))
        bound = np.maximum(*ends) + (reach**2 + height**2) / (2 * s2) + frequency * turn
        return np.where(angle < 3.0, bound, np.inf)

    def oscillation(self, edges: Array, tilt: float) -> Array:
        # log f = log_q + (2 + tilt) L - (2x - 1) / 2s^2 + const, its slope s^-2 (-x - 1 + (2 + tilt) s^2 L')
        s2 = self.sigma**2
        loss, log_p = self.loss_and_log_p(edges)
        v = np.log(self.rate) + (2 * edges - 1) / (2 * s2) - loss
        share = np.exp(v)
        log_f = log_p + tilt * loss - v + np.log(s2)
        low = -edges[1:] - 1 + (2 + tilt) * share[:-1]
        high = -edges[:-1] - 1 + (2 + tilt) * share[1:]
        return _segment_variation(edges, log_f, np.maximum(np.abs(low), np.abs(high)) / s2, 1 / s2)


@dataclass(frozen=True)
class SampledGaussianAdd(AnalyticPair):
    """P = N(0, s^2), Q = (1-q) N(0, s^2) + q N(-1, s^2): Poisson sampling, a record added or restored.

    The mirror image x -> -x of the textbook pair, so that the loss increases; the loss never exceeds -log(1-q).
    Source: Zhu, Dong, Wang 2022, arXiv:2106.08567, Thm 11.
    """

    sigma: float
    rate: float

    @property
    def panel(self) -> float:  # type: ignore[override]
        return min(self.sigma / 2, np.pi * self.sigma**2 / 2)

    def loss(self, x: Array) -> Array:
        return -log_mixture_ratio(self.rate, -(2 * x + 1) / (2 * self.sigma**2))

    def inverse_loss(self, loss: Array) -> Array:
        return -SampledGaussianRemove(self.sigma, self.rate).inverse_loss(-np.asarray(loss, dtype=np.float64))

    def log_p(self, x: Array) -> Array:
        return -0.5 * (x / self.sigma) ** 2 - np.log(self.sigma) - LOG_SQRT_2PI

    def support(self, log_tail: float) -> tuple[float, float]:
        z = -float(ndtri_exp(log_tail))
        return -self.sigma * z, self.sigma * z

    def log_upper_tail(self, x: float) -> float:
        return float(log_ndtr(-x / self.sigma))

    def log_lower_tail(self, x: float) -> float:
        return float(log_ndtr(x / self.sigma))

    def growth(self, mid: Array, reach: Array, height: Array, tilt: float, frequency: float) -> Array:
        # |1-q + q r e^{i a}| >= cos(a/2) (1-q + q r); L'' = -(s^2 L')(1 - s^2 L') / s^4, and L' falls in x.
        s2 = self.sigma**2
        right = mid + reach
        end = self.log_p(right) + tilt * self.loss(right)
        left = mid - reach
        loss = self.loss(left)
        share = np.exp(np.minimum(np.log(self.rate) - (2 * left + 1) / (2 * s2) + loss, 0.0))
        curvature = 1 / s2 + tilt * np.minimum(share, 0.25) / s2**2
        angle = height / s2
        cosine = np.cos(np.minimum(angle / 2, 1.5))
        turn = np.minimum(angle, angle * share / cosine)
        bound = np.maximum(self.log_p(left) + tilt * loss, end) + reach**2 / 2 * curvature + height**2 / (2 * s2)
        return np.where(angle < 3.0, bound - tilt * np.log(cosine) + frequency * turn, np.inf)

    def oscillation(self, edges: Array, tilt: float) -> Array:
        # log f = log_p + (tilt - 1) L + (2x + 1) / 2s^2 + const, its slope s^-2 (-x + 1 + (tilt - 1) s^2 L')
        s2 = self.sigma**2
        loss, log_p = self.loss_and_log_p(edges)
        v = np.log(self.rate) - (2 * edges + 1) / (2 * s2) + loss
        share = np.exp(v)
        log_f = log_p + tilt * loss - v + np.log(s2)
        ends = (tilt - 1) * share[:-1], (tilt - 1) * share[1:]
        low = -edges[1:] + 1 + np.minimum(*ends)
        high = -edges[:-1] + 1 + np.maximum(*ends)
        curvature = 1 / s2 + max(tilt - 1, 0.0) * np.minimum(share[:-1], 0.25) / s2**2
        return _segment_variation(edges, log_f, np.maximum(np.abs(low), np.abs(high)) / s2, curvature)


def _segment_variation(edges: Array, log_f: Array, slope: Array, curvature: Array | float) -> Array:
    """f(a) + f(b) + TV(f) on each segment, where |(log f)'| <= slope and (log f)'' >= -curvature."""
    width = np.diff(edges)
    top = np.maximum(log_f[1:], log_f[:-1])
    with np.errstate(over="ignore", under="ignore"):
        variation = width * slope * np.exp(top + curvature * width**2 / 8)
        return np.asarray(np.exp(log_f[1:]) + np.exp(log_f[:-1]) + variation)


def dominating_pairs(mechanism: Mechanism, adjacency: Adjacency) -> dict[str, Pair]:
    """The pair of each direction of a mechanism: keys "remove" and "add", or "both" for a symmetric one.

    Raises InputError where no dominating pair is proven.
    """
    if (
        isinstance(mechanism, SampledGaussian)
        and mechanism.sampling is Sampling.POISSON
        and mechanism.group_size == 1
        and adjacency is not Adjacency.REPLACE_ONE
    ):
        sigma, rate = mechanism.noise_multiplier, mechanism.sampling_rate
        return {"remove": SampledGaussianRemove(sigma, rate), "add": SampledGaussianAdd(sigma, rate)}
    raise InputError("adjacency", f"{adjacency} has no proven dominating pair for {mechanism}")
