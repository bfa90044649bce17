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
class SampledGaussianRemove(Pair):
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


@dataclass(frozen=True)
class SampledGaussianAdd(Pair):
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
