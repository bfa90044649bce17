"""The law of one step's privacy loss under the exponential tilt, and exact samplers of its sums.

Notation: s noise multiplier, q Poisson rate, r(x) = exp((2x - 1) / (2 s^2)), L(x) = log(1 - q + q r(x)).
Remove: loss L(x) with x ~ P = (1-q) N(0, s^2) + q N(1, s^2).  Add: loss -L(x) with x ~ P = N(0, s^2).
The tilted law has density p(x) e^{lam loss(x)} / e^K, K(lam) = log E_P e^{lam loss}.

Nothing here is shared with `dpbudget.accounting`: the formulas are written again, so that a mistake there shows here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_ndtr, logsumexp, ndtri_exp

from dpbudget.errors import InputError

Array = NDArray[np.float64]

CHUNK = 16_000  # doubles that are worked on at a time: 125 KB, which stays in the cache
MAX_EXPONENT = 600.0
REACH = 40.0  # a standard normal is never drawn beyond this many deviations


@dataclass(frozen=True, slots=True)
class Phase:
    """`steps` noisy updates at one noise multiplier (> 0) and one Poisson rate in (0, 1]; 1 is a full batch."""

    sigma: float
    rate: float
    steps: int

    def __post_init__(self) -> None:
        if not (0.0 < self.sigma < math.inf):
            raise InputError("noise_multiplier", f"{self.sigma} is not a positive number")
        if not (0.0 < self.rate <= 1.0):
            raise InputError("sampling_rate", f"{self.rate} is not in (0, 1]")
        if not (self.steps >= 0):
            raise InputError("steps", f"{self.steps} is negative")


class Law(Protocol):
    """log_moment: K(lam), nats.  missing: P-mass of one step that was cut away.  error: bound on the error of K.

    log_share: log of the share of its draws that a rejection keeps, where that may be next to none; else 0.
    """

    log_moment: float
    missing: float
    error: float
    log_share: float

    def sums(self, rng: np.random.Generator, rows: int, steps: int) -> Array:
        """Shape (rows,): independent sums of `steps` losses under the tilted law."""
        ...


def log_ratio(rate: float, exponent: Array, *, wide: bool) -> Array:
    """L = log(1 - q + q e^u), computed in place of `exponent`. wide: |u| may be large or q near 1."""
    if rate == 1.0:
        return exponent
    if wide:
        return np.logaddexp(math.log1p(-rate), exponent + math.log(rate), out=exponent)
    np.expm1(exponent, out=exponent)
    exponent *= rate
    return np.log1p(exponent, out=exponent)


def row_sums(values: Array, rows: int) -> Array:
    """Shape (rows,), from values of shape (rows * m,), row by row; pairwise summation."""
    return np.asarray(values.reshape(rows, -1).sum(axis=1), dtype=np.float64)


def _is_wide(sigma: float, rate: float, mean: float) -> bool:
    return rate > 0.5 or (abs(mean) + 1.0 + REACH * sigma) / sigma**2 > MAX_EXPONENT


def remove_weights(sigma: float, rate: float, lam: int, ceiling: float = math.inf) -> tuple[Array, Array]:
    """(k, log weight), shapes (m,): the mixture of Gaussians N(k, s^2) that P e^{lam L} is for an integer lam.

    Expanding (1 - q + q r)^{lam+1}: the weight is C(lam+1, k) (1-q)^{lam+1-k} q^k e^{(k^2-k)/(2 s^2)}, their sum is e^K.
    ceiling: the density is cut to x <= ceiling.
    """
    n = lam + 1
    k = np.array([n], dtype=np.float64) if rate == 1.0 else np.arange(n + 1, dtype=np.float64)
    log_weight = (k * k - k) / (2 * sigma**2)
    if rate < 1.0:
        log_weight += gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        log_weight += (n - k) * math.log1p(-rate) + k * math.log(rate)
    if math.isfinite(ceiling):
        log_weight += log_ndtr((ceiling - k) / sigma)
    return k, log_weight


class RemoveLaw:
    """Integer tilt: an exact Gaussian mixture (`remove_weights`).

    ceiling: steps with x above it are cut away. Under a large tilt an event of P-mass e^{-2000} can carry the whole
    moment; without it the tilt finds the samples that matter. The caller adds `missing` to the upper end.
    """

    log_share = 0.0

    def __init__(self, sigma: float, rate: float, lam: int, ceiling: float = math.inf) -> None:
        self.sigma, self.rate, self.ceiling = sigma, rate, ceiling
        k, log_weight = remove_weights(sigma, rate, lam, ceiling)
        self.log_moment = float(logsumexp(log_weight))
        self.missing = 0.0
        if math.isfinite(ceiling):
            hit = log_ndtr((1 - ceiling) / sigma) + math.log(rate)
            self.missing = math.exp(min(0.0, float(np.logaddexp(hit, log_ndtr(-ceiling / sigma)))))
        self.error = 4e-16 * (4.0 + float(gammaln(lam + 2)) * (rate < 1.0) + abs(float(log_weight.max())))
        self._mix(k, log_weight)

    def _mix(self, k: Array, log_weight: Array) -> None:
        # Components whose total mass is below the resolution of the random numbers are left out.
        kept = np.flatnonzero(log_weight > log_weight.max() - 46.0)
        order = kept[np.argsort(-log_weight[kept])]
        self.centre = k[order]
        weight = np.exp(log_weight[order] - log_weight.max())
        self.weight = weight / weight.sum()
        self.ladder = np.cumsum(self.weight)[:-1]
        self.shift = (self.centre - 0.5) / self.sigma**2
        self.wide = _is_wide(self.sigma, self.rate, float(self.centre.max()))

    def sums(self, rng: np.random.Generator, rows: int, steps: int) -> Array:
        total = np.zeros(rows)
        for first in range(0, steps, CHUNK):
            total += self._block(rng, rows, min(CHUNK, steps - first))
        return total

    def _block(self, rng: np.random.Generator, rows: int, steps: int) -> Array:
        return row_sums(self._losses(rng, rows, steps), rows)

    def _losses(self, rng: np.random.Generator, rows: int, steps: int) -> Array:
        """Shape (rows * steps,); the order inside a row means nothing."""
        u = rng.standard_normal(rows * steps)
        u *= 1.0 / self.sigma
        shift = self._shifts(rng, rows, steps)
        u += shift
        if math.isfinite(self.ceiling):
            self._below_ceiling(rng, u, shift)
        return log_ratio(self.rate, u, wide=self.wide)

    def _shifts(self, rng: np.random.Generator, rows: int, steps: int) -> Array | float:
        """(k - 1/2) / s^2 of the component that each of the rows x steps draws comes from."""
        parts = self.shift.size
        if parts == 1:
            return float(self.shift[0])
        if steps >= 4 * parts:  # the order of the steps does not matter: count, then lay out in runs
            counts = rng.multinomial(steps, self.weight, size=rows)
            return np.repeat(np.tile(self.shift, rows), counts.ravel())
        uniform = rng.random(rows * steps)
        other = np.flatnonzero(uniform >= self.ladder[0])
        out = np.full(rows * steps, self.shift[0])
        out[other] = self.shift[1 + np.searchsorted(self.ladder[1:], uniform[other], side="right")]
        return out

    def _below_ceiling(self, rng: np.random.Generator, u: Array, shift: Array | float) -> None:
        """Draw the steps above the ceiling again, from their component's law below it (inverse distribution)."""
        over = np.flatnonzero(u > (self.ceiling - 0.5) / self.sigma**2)
        if over.size == 0:
            return
        start = shift[over] if isinstance(shift, np.ndarray) else np.full(over.size, shift)
        centre = np.rint(start * self.sigma**2 + 0.5)
        log_mass = log_ndtr((self.ceiling - centre) / self.sigma)
        u[over] = ndtri_exp(log_mass - rng.standard_exponential(over.size)) / self.sigma + start


class FractionalRemoveLaw(RemoveLaw):
    """Tilt m + f with m whole and 0 < f < 1, by rejection from a mixture of the laws of tilts m and m + 1.

    With y = e^L and y0 = A_{m+1} / A_m, A = e^K, the concave y^f is below its tangent (1-f) y0^f + f y0^{f-1} y, which
    makes the proposal (1-f) P_m + f P_{m+1}; the share accepted is A_{m+f} / (A_m^{1-f} A_{m+1}^f), near 1 for small losses
    and about e^{-f (1-f) / (2 s^2)} for large ones.
    """

    def __init__(self, sigma: float, rate: float, lam: float) -> None:
        super().__init__(sigma, rate, int(lam))
        self.fraction = lam - int(lam)
        k, low = remove_weights(sigma, rate, int(lam))
        k_next, high = remove_weights(sigma, rate, int(lam) + 1)
        a, a_next = float(logsumexp(low)), float(logsumexp(high))
        self.log_anchor = a_next - a
        if rate == 1.0:
            centre, log_weight = np.array([lam + 1.0]), np.zeros(1)
        else:
            centre = k_next
            log_weight = math.log(self.fraction) + high - a_next
            log_weight[: k.size] = np.logaddexp(log_weight[: k.size], math.log1p(-self.fraction) + low - a)
        self._mix(centre, log_weight)
        self.log_moment = lam * (lam + 1.0) / (2 * sigma**2) if rate == 1.0 else self._quadrature(lam)
        self.log_share = 0.0 if rate == 1.0 else self.log_moment - (1.0 - self.fraction) * a - self.fraction * a_next
        self.error = 4e-16 * (8.0 + abs(self.log_moment))

    def _quadrature(self, lam: float) -> float:
        """log E_{N(0, s^2)} (1 - q + q r)^{lam+1} by the trapezoid rule, which converges exponentially here."""
        s = self.sigma
        step = min(s / 8, math.pi * s**2 / 16)
        x = step * np.arange(-math.ceil(14 * s / step), math.ceil((lam + 1 + 14 * s) / step) + 1, dtype=np.float64)
        log_density = -0.5 * (x / s) ** 2 + (lam + 1) * log_ratio(self.rate, (x - 0.5) / s**2, wide=True)
        return float(logsumexp(log_density)) + math.log(step / (s * math.sqrt(2 * math.pi)))

    def _block(self, rng: np.random.Generator, rows: int, steps: int) -> Array:
        loss = self._losses(rng, rows, steps)
        if self.rate == 1.0:
            return row_sums(loss, rows)
        missing = self._refused(rng, loss)
        while missing.size:
            loss[missing] = again = self._losses(rng, missing.size, 1)
            missing = missing[self._refused(rng, again)]
        return row_sums(loss, rows)

    def _refused(self, rng: np.random.Generator, loss: Array) -> NDArray[np.intp]:
        t = loss - self.log_anchor
        f = self.fraction
        with np.errstate(over="ignore"):
            accept = np.exp(f * t) / (1.0 - f + f * np.exp(t))
        # Where e^t overflows the share is f^{-1} e^{(f-1) t}, below e^{-600 (1 - f)}.
        accept = np.where(t < 600.0, accept, np.exp((f - 1.0) * np.maximum(t, 600.0)) / f)
        return np.flatnonzero(rng.random(loss.size) >= accept)


class AddLaw:
    """Density proportional to N(x; 0, s^2) (1 - q + q r(x))^{-lam}: log-concave, since L is convex in x.

    Sampled by rejection from the Gaussian N(-lam p0, s^2) that the tangent of L at the mode gives; the mean number of
    draws is about sqrt(1 + lam p0 (1 - p0) / s^2), with p0 = q r / (1 - q + q r) at the mode. The loss is at most
    -log(1 - q), so that no ceiling is needed.
    """

    missing = 0.0
    log_share = 0.0

    def __init__(self, sigma: float, rate: float, lam: float) -> None:
        self.sigma, self.rate, self.lam = sigma, rate, lam
        self.mode = self._mode()
        self.slope = self._slope(self.mode)
        self.anchor = (self.mode - 0.5) / sigma**2
        self.level = float(log_ratio(rate, np.array([self.anchor]), wide=True)[0])
        self.wide = _is_wide(sigma, rate, self.mode)
        curve = 1.0 + lam * self.slope * (1.0 - self.slope) / sigma**2
        step = min(sigma / 8, math.pi * sigma**2 / 16, sigma / math.sqrt(curve) / 8)
        reach = math.ceil(14 * sigma / step)
        x = self.mode + step * np.arange(-reach, reach + 1, dtype=np.float64)
        log_density = -0.5 * (x / sigma) ** 2 - lam * log_ratio(rate, (x - 0.5) / sigma**2, wide=True)
        # The trapezoid rule converges exponentially: L is analytic for |Im x| < pi s^2.
        self.log_moment = float(logsumexp(log_density)) + math.log(step / (sigma * math.sqrt(2 * math.pi)))
        self.error = 4e-16 * (8.0 + abs(lam * self.level) + self.mode**2 / sigma**2)

    def _slope(self, x: float) -> float:
        u = (x - 0.5) / self.sigma**2
        if self.rate == 1.0:
            return 1.0
        odds = math.log(self.rate) - math.log1p(-self.rate) + u
        return 1.0 / (1.0 + math.exp(-odds)) if odds > -700.0 else 0.0

    def _mode(self) -> float:
        """The root of x + lam p(x), which increases."""
        low, high = -float(self.lam), 0.0
        for _ in range(200):
            middle = (low + high) / 2
            if middle + self.lam * self._slope(middle) > 0.0:
                high = middle
            else:
                low = middle
        return (low + high) / 2

    def sums(self, rng: np.random.Generator, rows: int, steps: int) -> Array:
        total = np.zeros(rows)
        for first in range(0, steps, CHUNK):
            count = min(CHUNK, steps - first)
            total -= row_sums(self._losses(rng, rows * count), rows)
        return total

    def _losses(self, rng: np.random.Generator, size: int) -> Array:
        out = np.empty(0)
        missing: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        while True:
            u, loss = self._propose(rng, size)
            if not out.size:
                out = loss
            else:
                out[missing] = loss
            if self.lam == 0 or self.rate == 1.0:
                return out
            # Accept with probability exp(-lam (L(x) - tangent(x))): if an exponential exceeds lam (L - tangent).
            u *= -self.lam * self.slope
            u += self.lam * (self.slope * self.anchor - self.level)
            u += self.lam * loss
            refused = np.flatnonzero(u > rng.standard_exponential(size))
            missing = missing[refused] if missing.size else refused
            size = refused.size
            if not size:
                return out

    def _propose(self, rng: np.random.Generator, size: int) -> tuple[Array, Array]:
        u = rng.standard_normal(size)
        u *= 1.0 / self.sigma
        u += (-self.lam * self.slope - 0.5) / self.sigma**2
        return u, log_ratio(self.rate, u.copy(), wide=self.wide)
