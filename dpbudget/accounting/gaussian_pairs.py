"""Pairs of Gaussian releases under Poisson sampling, one record or a group of records added, removed or zeroed out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from dpbudget.accounting.pair import (
    LOG_SQRT_2PI,
    AnalyticPair,
    Array,
    invert_increasing,
    lipschitz_variation,
    log_mixture_ratio,
    segment_variation,
)


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
        return np.asarray(-0.5 * (x / self.sigma) ** 2 - np.log(self.sigma) - LOG_SQRT_2PI + self.loss(x))

    def log_q(self, x: Array) -> Array:
        return np.asarray(-0.5 * (x / self.sigma) ** 2 - np.log(self.sigma) - LOG_SQRT_2PI)

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
        return segment_variation(edges, log_f, np.maximum(np.abs(low), np.abs(high)) / s2, 1 / s2)


@dataclass(frozen=True)
class SampledGaussianAdd(AnalyticPair):
    """P = N(0, s^2), Q = (1-q) N(0, s^2) + q N(-1, s^2): Poisson sampling, a record added or restored.

    The mirror image x -> -x of the textbook pair, so that the loss increases; the loss never exceeds -log(1-q).
    Source: Zhu, Dong, Wang 2022, arXiv:2106.08567, Thm 11.
    """

    sigma: float
    rate: float

    @property
    def largest_loss(self) -> float:
        return -float(np.log1p(-self.rate)) if self.rate < 1 else np.inf

    @property
    def panel(self) -> float:  # type: ignore[override]
        return min(self.sigma / 2, np.pi * self.sigma**2 / 2)

    def loss(self, x: Array) -> Array:
        return -log_mixture_ratio(self.rate, -(2 * x + 1) / (2 * self.sigma**2))

    def inverse_loss(self, loss: Array) -> Array:
        return -SampledGaussianRemove(self.sigma, self.rate).inverse_loss(-np.asarray(loss, dtype=np.float64))

    def log_p(self, x: Array) -> Array:
        return np.asarray(-0.5 * (x / self.sigma) ** 2 - np.log(self.sigma) - LOG_SQRT_2PI)

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
        return segment_variation(edges, log_f, np.maximum(np.abs(low), np.abs(high)) / s2, curvature)


def binomial_weights(group: int, rate: float) -> tuple[float, ...]:
    """Bin(group, rate; k) for k = 0..group, each with relative accuracy."""
    weights = [1.0]
    for k in range(group):
        weights.append(weights[-1] * (group - k) / (k + 1))
    return tuple(w * rate**k * (1 - rate) ** (group - k) for k, w in enumerate(weights))


@dataclass(frozen=True)
class _GroupPair(AnalyticPair):
    """What the two directions of sum_k Bin(group, rate; k) N(k, s^2) against N(0, s^2) share.

    Tight for example-level sampling where a unit owns `group` examples (Ganesh 2024, arXiv:2401.10294; Charles et al.
    2024, arXiv:2407.07737).
    """

    sigma: float
    rate: float
    group: int

    @property
    def panel(self) -> float:  # type: ignore[override]
        return min(self.sigma / 2, np.pi * self.sigma**2 / 2 / self.group)

    @property
    def weights(self) -> tuple[float, ...]:
        return binomial_weights(self.group, self.rate)

    def _log_ratio(self, x: Array) -> tuple[Array, Array]:
        """log sum_k w_k e^{(2kx - k^2) / 2 s^2}, and s^2 times its slope: the mean of k."""
        total, excess, first = np.zeros(x.shape), np.zeros(x.shape), np.zeros(x.shape)
        top = np.maximum(0.0, self.group * x / self.sigma**2 - 600.0)
        for k, w in enumerate(self.weights):
            exponent = (2 * k * x - k * k) / (2 * self.sigma**2)
            with np.errstate(under="ignore"):
                term = w * np.exp(exponent - top)
            total += term
            first += k * term
            excess += w * np.expm1(np.minimum(exponent, 700.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            log = np.where((excess > -0.5) & (excess < 1e100), np.log1p(excess), top + np.log(total))
        return log, first / total

    def _tail(self, x: float) -> float:
        """log of the mixture's mass above x."""
        with np.errstate(divide="ignore"):
            logs = [np.log(w) + log_ndtr((k - x) / self.sigma) for k, w in enumerate(self.weights)]
        return float(np.logaddexp.reduce(logs))

    def _growth_ratio(self, height: Array, share: Array) -> tuple[Array, Array]:
        """Bounds at Im x = height: cos of half the spread of the arguments, |Im log ratio|."""
        angle = height / self.sigma**2
        cosine = np.cos(np.minimum(self.group * angle / 2, 1.5))
        return cosine, np.minimum(self.group * angle, angle * share / cosine)

    def _spread(self, edges: Array, tilt: float) -> Array:
        """Slope bound of log f: |x| + (1 + tilt) mean k + group, over s^2; (log L')' <= group / s^2 as Var k <= group E k."""
        reach = np.maximum(np.abs(edges[1:]), np.abs(edges[:-1]))
        return np.asarray((reach + (1 + tilt) * self.group + self.group) / self.sigma**2)


@dataclass(frozen=True)
class GroupRemove(_GroupPair):
    """P = sum_k Bin(group, rate; k) N(k, s^2), Q = N(0, s^2): a group of records removed or zeroed out."""

    def loss(self, x: Array) -> Array:
        return self._log_ratio(x)[0]

    def log_p(self, x: Array) -> Array:
        return np.asarray(-0.5 * (x / self.sigma) ** 2 - np.log(self.sigma) - LOG_SQRT_2PI + self.loss(x))

    def loss_and_log_p(self, x: Array) -> tuple[Array, Array]:
        loss = self.loss(x)
        return loss, -0.5 * (x / self.sigma) ** 2 - np.log(self.sigma) - LOG_SQRT_2PI + loss

    def inverse_loss(self, loss: Array) -> Array:
        return invert_increasing(self.loss, loss, -40 * self.sigma, self.group + 40 * self.sigma)

    def support(self, log_tail: float) -> tuple[float, float]:
        z = -float(ndtri_exp(log_tail))
        return -self.sigma * z, self.group + self.sigma * z

    def log_upper_tail(self, x: float) -> float:
        return self._tail(x)

    def log_lower_tail(self, x: float) -> float:
        return float(log_ndtr(x / self.sigma))

    def growth(self, mid: Array, reach: Array, height: Array, tilt: float, frequency: float) -> Array:
        s2 = self.sigma**2
        ends = []
        for x in (mid - reach, mid + reach):
            loss, share = self._log_ratio(x)
            ends.append(-(x**2) / (2 * s2) - np.log(self.sigma) - LOG_SQRT_2PI + (1 + tilt) * loss)
        _, turn = self._growth_ratio(height, share)
        bound = np.maximum(*ends) + (reach**2 + height**2) / (2 * s2) + frequency * turn
        return np.where(self.group * height / s2 < 3.0, bound, np.inf)

    def oscillation(self, edges: Array, tilt: float) -> Array:
        loss, share = self._log_ratio(edges)
        log_f = -(edges**2) / (2 * self.sigma**2) - np.log(self.sigma) - LOG_SQRT_2PI + (1 + tilt) * loss
        with np.errstate(divide="ignore"):
            log_f -= np.log(share / self.sigma**2)
        return lipschitz_variation(edges, log_f, self._spread(edges, tilt))


@dataclass(frozen=True)
class GroupAdd(_GroupPair):
    """P = N(0, s^2), Q = sum_k Bin(group, rate; k) N(-k, s^2): a group of records added or restored (mirrored)."""

    @property
    def largest_loss(self) -> float:
        return -self.group * float(np.log1p(-self.rate)) if self.rate < 1 else np.inf

    def loss(self, x: Array) -> Array:
        return -self._log_ratio(-x)[0]

    def log_p(self, x: Array) -> Array:
        return np.asarray(-0.5 * (x / self.sigma) ** 2 - np.log(self.sigma) - LOG_SQRT_2PI)

    def inverse_loss(self, loss: Array) -> Array:
        return -GroupRemove(self.sigma, self.rate, self.group).inverse_loss(-np.asarray(loss, dtype=np.float64))

    def support(self, log_tail: float) -> tuple[float, float]:
        z = -float(ndtri_exp(log_tail))
        return -self.sigma * z, self.sigma * z

    def log_upper_tail(self, x: float) -> float:
        return float(log_ndtr(-x / self.sigma))

    def log_lower_tail(self, x: float) -> float:
        return float(log_ndtr(x / self.sigma))

    def growth(self, mid: Array, reach: Array, height: Array, tilt: float, frequency: float) -> Array:
        # L'' >= -Var k / s^4 >= -group^2 / 4 s^4
        s2 = self.sigma**2
        left, right = mid - reach, mid + reach
        log_ratio, share = self._log_ratio(-left)
        cosine, turn = self._growth_ratio(height, share)
        ends = self.log_p(left) - tilt * log_ratio, self.log_p(right) + tilt * self.loss(right)
        curvature = 1 / s2 + tilt * np.minimum(self.group**2 / 4, self.group * share) / s2**2
        bound = np.maximum(*ends) + reach**2 / 2 * curvature + height**2 / (2 * s2)
        bound += frequency * turn - tilt * np.log(cosine)
        return np.where(self.group * height / s2 < 3.0, bound, np.inf)

    def oscillation(self, edges: Array, tilt: float) -> Array:
        log_ratio, share = self._log_ratio(-edges)
        with np.errstate(divide="ignore"):
            log_f = self.log_p(edges) - tilt * log_ratio - np.log(share / self.sigma**2)
        return lipschitz_variation(edges, log_f, self._spread(edges, tilt))


@dataclass(frozen=True)
class MixtureRemove(GroupRemove):
    """P = sum_k masses_k N(k, s^2), Q = N(0, s^2), for any law of how far the sum moves; `group` is the largest move."""

    masses: tuple[float, ...] = ()

    @property
    def weights(self) -> tuple[float, ...]:
        return self.masses


@dataclass(frozen=True)
class MixtureAdd(GroupAdd):
    """The other direction of `MixtureRemove`."""

    masses: tuple[float, ...] = ()

    @property
    def largest_loss(self) -> float:
        return -float(np.log(self.masses[0])) if self.masses[0] > 0 else np.inf

    @property
    def weights(self) -> tuple[float, ...]:
        return self.masses
