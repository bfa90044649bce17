"""Pairs of sampled Gaussian releases where the records of the batch that stay can matter: replace-one, fixed size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from dpbudget.accounting.gaussian_pairs import SampledGaussianAdd, SampledGaussianRemove
from dpbudget.accounting.pair import (
    LOG_SQRT_2PI,
    AnalyticPair,
    Array,
    invert_increasing,
    lipschitz_variation,
    log_mixture_ratio,
)


def _share(rate: float, exponent: Array, log_ratio: Array) -> Array:
    """q e^v / (1 - q + q e^v) from log of the denominator."""
    return np.asarray(np.exp(np.minimum(np.log(rate) + exponent - log_ratio, 0.0)))


@dataclass(frozen=True)
class SampledGaussianReplace(AnalyticPair):
    """P = (1-q) N(0, s^2) + q N(1, s^2), Q = (1-q) N(0, s^2) + q N(-1, s^2): Poisson sampling, a record replaced.

    The same in both directions, and attained by opposite gradients.
    Source: Lebeda, Regehr, Kamath, Steinke 2024, arXiv:2405.20769, Prop. 13. Rate 1 is the Gaussian at distance 2.
    """

    sigma: float
    rate: float

    @property
    def panel(self) -> float:  # type: ignore[override]
        return min(self.sigma / 2, np.pi * self.sigma**2 / 2)

    def _logs(self, x: Array) -> tuple[Array, Array]:
        s2 = self.sigma**2
        return log_mixture_ratio(self.rate, (2 * x - 1) / (2 * s2)), log_mixture_ratio(
            self.rate, (-2 * x - 1) / (2 * s2)
        )

    def _log_centre(self, x: Array) -> Array:
        return np.asarray(-0.5 * (x / self.sigma) ** 2 - np.log(self.sigma) - LOG_SQRT_2PI)

    def loss(self, x: Array) -> Array:
        # Odd in x; for x > 0 as one log1p, so that the relative accuracy survives near x = 0.
        s2, q = self.sigma**2, self.rate
        far = np.abs(x)
        behind = log_mixture_ratio(q, (-2 * far - 1) / (2 * s2))
        gap = np.exp(np.log(q) - (2 * far + 1) / (2 * s2) - behind)
        turn = 2 * far / s2
        with np.errstate(over="ignore"):
            close = np.log1p(gap * np.expm1(np.minimum(turn, 600.0)))
        ahead = log_mixture_ratio(q, (2 * far - 1) / (2 * s2)) - behind
        return np.asarray(np.sign(x) * np.where(turn < 600.0, close, ahead))

    def log_p(self, x: Array) -> Array:
        return self._log_centre(x) + self._logs(x)[0]

    def inverse_loss(self, loss: Array) -> Array:
        half = np.asarray(loss, dtype=np.float64) / 2
        ratio = (1 - self.rate) / self.rate
        log_a = np.log(ratio) + 1 / (2 * self.sigma**2) if ratio > 0 else -np.inf
        with np.errstate(over="ignore", invalid="ignore"):
            inner = np.exp(log_a + np.minimum(np.abs(half), 300.0)) * -np.expm1(-2 * np.abs(half)) / 2
            near = np.arcsinh(inner)
        shift = np.where(np.isfinite(inner) & (np.abs(half) < 300.0), near, log_a + np.abs(half))
        return np.asarray(self.sigma**2 * (half + np.sign(half) * np.maximum(shift, 0.0)))

    def support(self, log_tail: float) -> tuple[float, float]:
        z = -float(ndtri_exp(log_tail))
        return -self.sigma * z, 1.0 + self.sigma * z

    def log_upper_tail(self, x: float) -> float:
        return SampledGaussianRemove(self.sigma, self.rate).log_upper_tail(x)

    def log_lower_tail(self, x: float) -> float:
        return SampledGaussianRemove(self.sigma, self.rate).log_lower_tail(x)

    def growth(self, mid: Array, reach: Array, height: Array, tilt: float, frequency: float) -> Array:
        # p e^{zL} = N_0 B_+^{1+z} B_-^{-z}; log B_+- are convex on the line, |B_-| >= cos(a/2) of its real value
        s2 = self.sigma**2
        left, right = mid - reach, mid + reach
        (ahead, behind), (ahead_r, behind_r) = self._logs(left), self._logs(right)
        ends = (
            self._log_centre(left) + (1 + tilt) * ahead - tilt * behind,
            self._log_centre(right) + (1 + tilt) * ahead_r - tilt * behind_r,
        )
        back = _share(self.rate, (-2 * left - 1) / (2 * s2), behind)
        front = _share(self.rate, (2 * right - 1) / (2 * s2), ahead_r)
        angle = height / s2
        cosine = np.cos(np.minimum(angle / 2, 1.5))
        turn = np.minimum(angle, angle * front / cosine) + np.minimum(angle, angle * back / cosine)
        curvature = 1 / s2 + tilt * np.minimum(back, 0.25) / s2**2
        bound = np.maximum(*ends) + reach**2 / 2 * curvature + height**2 / (2 * s2) + frequency * turn
        return np.where(angle < 3.0, bound - tilt * np.log(cosine), np.inf)

    def oscillation(self, edges: Array, tilt: float) -> Array:
        # L' = (u + v) / s^2 with the shares u, v; |(log L')'| = |u(1-u) - v(1-v)| / (s^2 (u + v)) <= 1 / s^2
        s2 = self.sigma**2
        ahead, behind = self._logs(edges)
        speed = _share(self.rate, (2 * edges - 1) / (2 * s2), ahead)
        speed = (speed + _share(self.rate, (-2 * edges - 1) / (2 * s2), behind)) / s2
        with np.errstate(divide="ignore"):
            log_f = self._log_centre(edges) + (1 + tilt) * ahead - tilt * behind - np.log(speed)
        reach = np.maximum(np.abs(edges[1:]), np.abs(edges[:-1]))
        return lipschitz_variation(edges, log_f, (reach + 2 + 2 * tilt) / s2)


@dataclass(frozen=True)
class OpposedRemove(AnalyticPair):
    """P = (1-q) N(-1, s^2) + q N(1, s^2), Q = (1-q) N(-1, s^2) + q N(0, s^2), for x > 1/2: one half of a splice."""

    sigma: float
    rate: float

    @property
    def panel(self) -> float:  # type: ignore[override]
        return min(self.sigma / 2, np.pi * self.sigma**2 / 4)

    def loss_and_log_p(self, x: Array) -> tuple[Array, Array]:
        s2, q = self.sigma**2, self.rate
        log_base = np.logaddexp(np.log1p(-q) - (2 * x + 1) / (2 * s2), np.log(q)) if q < 1 else np.zeros(x.shape)
        rise = (2 * x - 1) / (2 * s2)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            near = np.log1p(np.exp(np.log(q) - log_base) * np.expm1(np.minimum(rise, 600.0)))
        far = np.logaddexp(0.0, np.log(q) + rise - log_base)
        loss = np.where(rise < 600.0, near, far)
        return loss, -0.5 * (x / self.sigma) ** 2 - np.log(self.sigma) - LOG_SQRT_2PI + log_base + loss

    def loss(self, x: Array) -> Array:
        return self.loss_and_log_p(x)[0]

    def log_p(self, x: Array) -> Array:
        return self.loss_and_log_p(x)[1]

    def inverse_loss(self, loss: Array) -> Array:
        return invert_increasing(self.loss, loss, 0.5, 1.5 + 40 * self.sigma)

    def support(self, log_tail: float) -> tuple[float, float]:
        return 0.5, 1.0 + self.sigma * -float(ndtri_exp(log_tail))

    def log_upper_tail(self, x: float) -> float:
        return float(log_ndtr((1 - x) / self.sigma))

    def log_lower_tail(self, x: float) -> float:
        return 0.0

    def growth(self, mid: Array, reach: Array, height: Array, tilt: float, frequency: float) -> Array:
        # p e^{tL} = P^{1+t} Q^{-t} over N_0; relative to N_0 both logs are convex, with second derivative <= 4 / 4 s^4
        s2 = self.sigma**2
        ends = []
        for x in (mid - reach, mid + reach):
            loss, log_p = self.loss_and_log_p(x)
            ends.append(log_p + tilt * loss)
        angle = height / s2
        cosine = np.cos(np.minimum(angle / 2, 1.5))
        bound = np.maximum(*ends) + reach**2 / 2 * (1 / s2 + tilt / (4 * s2**2)) + height**2 / (2 * s2)
        return np.where(angle < 1.5, bound + 2 * frequency * angle - tilt * np.log(cosine), np.inf)

    def oscillation(self, edges: Array, tilt: float) -> Array:
        return np.full(edges.size - 1, np.inf)


@dataclass(frozen=True)
class OpposedAdd(AnalyticPair):
    """The reverse of OpposedRemove, mirrored: P = (1-q) N(1, s^2) + q N(0, s^2), for x < -1/2."""

    sigma: float
    rate: float

    @property
    def panel(self) -> float:  # type: ignore[override]
        return min(self.sigma / 2, np.pi * self.sigma**2 / 4)

    def loss_and_log_p(self, x: Array) -> tuple[Array, Array]:
        loss, log_p = OpposedRemove(self.sigma, self.rate).loss_and_log_p(-x)
        return -loss, log_p - loss

    def loss(self, x: Array) -> Array:
        return self.loss_and_log_p(x)[0]

    def log_p(self, x: Array) -> Array:
        return self.loss_and_log_p(x)[1]

    def inverse_loss(self, loss: Array) -> Array:
        return -OpposedRemove(self.sigma, self.rate).inverse_loss(-np.asarray(loss, dtype=np.float64))

    def support(self, log_tail: float) -> tuple[float, float]:
        return self.sigma * float(ndtri_exp(log_tail)), -0.5

    def log_upper_tail(self, x: float) -> float:
        return 0.0

    def log_lower_tail(self, x: float) -> float:
        return float(log_ndtr(x / self.sigma))

    def growth(self, mid: Array, reach: Array, height: Array, tilt: float, frequency: float) -> Array:
        # p e^{tL} = Q^{1+t} P^{-t} of the forward pair at -x
        s2 = self.sigma**2
        ends = []
        for x in (mid - reach, mid + reach):
            loss, log_p = self.loss_and_log_p(x)
            ends.append(log_p + tilt * loss)
        angle = height / s2
        cosine = np.cos(np.minimum(angle, 1.5))
        bound = np.maximum(*ends) + reach**2 / 2 * (1 / s2 + tilt / s2**2) + height**2 / (2 * s2)
        return np.where(angle < 1.5, bound + 2 * frequency * angle - tilt * np.log(cosine), np.inf)

    def oscillation(self, edges: Array, tilt: float) -> Array:
        return np.full(edges.size - 1, np.inf)


@dataclass(frozen=True)
class SplicedPair(AnalyticPair):
    """Positive losses from one pair (its x > 1/2), negative ones from another (its x < -1/2), the rest at loss 0.

    With z = x - 1/2 > 0 and z = x + 1/2 < 0 the whole has one coordinate with a break at 0. Such a pair is an upper
    bound made of two data sets: not attained.
    """

    above: AnalyticPair
    below: AnalyticPair
    rest: float
    tight = False
    breaks = (0.0,)

    @property
    def panel(self) -> float:  # type: ignore[override]
        return min(self.above.panel, self.below.panel)

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:  # type: ignore[override]
        return ((0.0, self.rest),) if self.rest > 0 else ()

    def loss_and_log_p(self, x: Array) -> tuple[Array, Array]:
        up, up_p = self.above.loss_and_log_p(np.maximum(x, 0.0) + 0.5)
        down, down_p = self.below.loss_and_log_p(np.minimum(x, 0.0) - 0.5)
        return np.where(x >= 0, up, down), np.where(x >= 0, up_p, down_p)

    def loss(self, x: Array) -> Array:
        return self.loss_and_log_p(x)[0]

    def log_p(self, x: Array) -> Array:
        return self.loss_and_log_p(x)[1]

    def inverse_loss(self, loss: Array) -> Array:
        loss = np.asarray(loss, dtype=np.float64)
        up = np.maximum(self.above.inverse_loss(np.maximum(loss, 0.0)) - 0.5, 0.0)
        down = np.minimum(self.below.inverse_loss(np.minimum(loss, 0.0)) + 0.5, 0.0)
        return np.where(loss > 0, up, np.where(loss < 0, down, 0.0))

    def support(self, log_tail: float) -> tuple[float, float]:
        lo = self.below.support(log_tail)[0] + 0.5
        return min(lo, -self.panel), max(self.above.support(log_tail)[1] - 0.5, self.panel)

    def log_upper_tail(self, x: float) -> float:
        return self.above.log_upper_tail(x + 0.5) if x >= 0 else 0.0

    def log_lower_tail(self, x: float) -> float:
        return self.below.log_lower_tail(x - 0.5) if x <= 0 else 0.0

    def growth(self, mid: Array, reach: Array, height: Array, tilt: float, frequency: float) -> Array:
        up = self.above.growth(np.maximum(mid, 0.0) + 0.5, reach, height, tilt, frequency)
        down = self.below.growth(np.minimum(mid, 0.0) - 0.5, reach, height, tilt, frequency)
        return np.where(mid >= 0, up, down)

    def oscillation(self, edges: Array, tilt: float) -> Array:
        # the parts of a segment on either side of 0; where there is none, both edges coincide and add 2 f: drop it
        up = self.above.oscillation(np.maximum(edges, 0.0) + 0.5, tilt)
        down = self.below.oscillation(np.minimum(edges, 0.0) - 0.5, tilt)
        return np.where(edges[1:] > 0, up, 0.0) + np.where(edges[:-1] < 0, down, 0.0)


def fixed_size_replace_pair(sigma: float, rate: float) -> SplicedPair:
    """Fixed-size sampling without replacement, a record replaced; sigma relative to the clipping norm C.

    The inclusions lie 2C apart, so that the noise is sigma / 2 in units of the distance. Positive losses as in
    R = ((1-q) N(0) + q N(1), N(0)), negative ones as in its reverse. The relation is symmetric: R alone, or the larger
    of R and its reverse after composing, is not an upper bound.
    """
    s = sigma / 2
    above, below = SampledGaussianRemove(s, rate), SampledGaussianAdd(s, rate)
    rest = (1 - rate) * (1 - 2 * float(np.exp(log_ndtr(-1 / (2 * s)))))
    return SplicedPair(above, below, rest)


def fixed_size_zero_out_pairs(sigma: float, rate: float) -> tuple[SplicedPair, SplicedPair]:
    """Fixed-size sampling, a record zeroed out (first) or restored (second); the batch without it may sit at -C.

    Positive losses from batch mates opposite to the record, negative ones from batch mates that equal it. The rest is
    1 - P_1(L > 0) - P_2(L < 0) = (1 - q) (Phi(1/2s) - PhiBar(3/2s)).
    """
    half, far = float(np.exp(log_ndtr(0.5 / sigma))), float(np.exp(log_ndtr(-1.5 / sigma)))
    rest = (1 - rate) * (half - far)
    removed = SplicedPair(OpposedRemove(sigma, rate), SampledGaussianAdd(sigma, rate), rest)
    added = SplicedPair(SampledGaussianRemove(sigma, rate), OpposedAdd(sigma, rate), rest)
    return removed, added
