"""Composition of lattice measures: exponential tilt, Chernoff window, FFT with a proven error, inversion in epsilon.

    delta(eps) = e^{K - lam eps} sum_s m(s) g(s) + (mass at infinity),   g(s) = e^{-lam (s - eps)} (1 - e^{-(s - eps)})_+,

m the T-fold convolution of the tilted masses p e^{lam l - K_1} and K the sum of the K_1. Everything that is not
exact is bounded and added on the safe side; the bounds are relative to the tilted scale, so that they are as good at
delta = 1e-50 as at 1e-5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft

from dpbudget.accounting.discretise import ROUND, LatticeMeasure
from dpbudget.accounting.pair import Array
from dpbudget.errors import NotCertified

KAPPA = 8.0
"""Assumption on the FFT for sizes 2^k: entrywise error <= KAPPA u log2(N) |x|_1 (measured: below 1)."""

LOG_OUTSIDE = np.log(1e-16)
"""Log of the tilted mass that may lie outside the window, on either side."""

MAX_POINTS = 2**21

BLOCK = 30.0
"""Fall of e^-loss within a block of `falling_sums`, in nats."""


def log_gmax(lam: float | Array) -> Array:
    """log max_s g(s) = lam log(lam) - (1 + lam) log(1 + lam)."""
    return np.asarray(-lam * np.log1p(1 / lam) - np.log1p(lam))


def log_sum(mass: Array, exponent: Array) -> float:
    """log sum mass e^exponent."""
    top = float(exponent.max())
    return top + float(np.log(mass @ np.exp(exponent - top)))


@dataclass(frozen=True)
class Tilted:
    """One part after the tilt: masses of total 1 at the indices start, start + 1, ...; log_total is its K."""

    start: int
    mass: Array
    log_total: float
    count: int


def tilt(measure: LatticeMeasure, count: int, lam: float) -> Tilted:
    """Multiply the masses by e^{lam l} and normalise; ends without mass are cut off."""
    used = np.flatnonzero(measure.mass)
    if not used.size:
        return Tilted(measure.first, np.zeros(1), -np.inf, count)
    mass = measure.mass[used[0] : used[-1] + 1]
    start = measure.first + int(used[0])
    exponent = lam * (measure.offset + measure.step * (start + np.arange(mass.size)))
    with np.errstate(under="ignore"):
        top = float(exponent.max())
        tilted = mass * np.exp(exponent - top)
        total = float(tilted.sum())
    return Tilted(start, tilted / total, top + float(np.log(total)), count)


def window(parts: Sequence[Tilted], step: float) -> tuple[int, int]:
    """First and last index of the sum such that each tail of the tilted product beyond has mass <= e^LOG_OUTSIDE.

    Chernoff: mass above b <= e^{sum n log M(theta) - theta b}, with M bounded by `_grouped`.
    """
    ends = []
    for sign in (1, -1):
        groups = [_grouped(part, sign) for part in parts]
        # in cells, since step^2 can underflow
        variance = sum(n * (float(m @ i**2) - float(m @ i) ** 2) for m, i, n in groups)
        scale = np.sqrt(2 * -LOG_OUTSIDE / max(variance, 1.0)) / step
        theta = scale * np.exp(np.linspace(-8.0, 2.0, 31))
        bound = np.full(theta.shape, -LOG_OUTSIDE + sum(8 * ROUND * part.count * part.mass.size for part in parts))
        for m, i, n in groups:
            centre = float(m @ i)
            exponent = step * theta[:, None] * (i - centre)
            top = exponent.max(axis=1)
            with np.errstate(under="ignore", divide="ignore", invalid="ignore", over="ignore"):
                bound += n * (top + np.log(np.exp(exponent - top[:, None]) @ m) + step * theta * centre)
        hard = sum(n * int(i.max()) for m, i, n in groups)
        end = float(np.nanmin(bound / theta, initial=np.inf)) / step * (1 + 1e-12) + 2
        ends.append(hard if not (-np.inf < end < hard) else int(np.ceil(end)))
    return -ends[1], ends[0]


def _grouped(part: Tilted, sign: int) -> tuple[Array, Array, int]:
    """Some hundred masses in place of the cells, no exponential moment of which is smaller: masses, sign times index.

    The cells between two edges give way to masses on the edges with the same total and mean (the chord of a convex
    function). The edges lie the closer the nearer they are to the heaviest cell, so that a bulk which all but a few of
    a million steps fall into stays where it is.
    """
    index, heavy = np.arange(part.mass.size, dtype=np.int64), int(np.argmax(part.mass))
    apart = np.unique(np.append(np.arange(64), np.floor(64 * 1.05 ** np.arange(1, 300)))).astype(np.int64)
    edges = np.unique(np.clip(np.concatenate([heavy - apart, heavy + apart, [0, index[-1]]]), 0, index[-1]))
    place = np.clip(np.searchsorted(edges, index, side="right") - 1, 0, max(edges.size - 2, 0))
    up = part.mass * (index - edges[place]) / np.diff(edges, append=index[-1] + 1)[place]
    mass = np.asarray(np.bincount(place, part.mass - up, edges.size), dtype=np.float64)
    mass[1:] += np.bincount(place, up, edges.size)[:-1]
    used = mass > 0
    return mass[used], sign * (part.start + edges[used]).astype(np.float64), part.count


def wrap(part: Tilted, points: int) -> Array:
    """The masses summed over indices that are equal mod `points`."""
    shift = part.start % points
    total = -(-(shift + part.mass.size) // points) * points
    out = np.zeros(total)
    out[shift : shift + part.mass.size] = part.mass
    return np.asarray(out.reshape(-1, points).sum(axis=0)) if total > points else out


def power(z: NDArray[np.complex128], n: int) -> NDArray[np.complex128]:
    """z^n by binary powering; relative error at most (1 + sqrt5 u)^(n - 1) - 1."""
    result: NDArray[np.complex128] | None = None
    while n:
        if n & 1:
            result = z if result is None else result * z
        n >>= 1
        if n:
            z = z * z
    assert result is not None
    return result


def convolve(parts: Sequence[Tilted], points: int) -> tuple[Array, float]:
    """The product of all parts on Z / points, and a bound on the error of each entry.

    With c = KAPPA u log2 N |x|_1 the transform of a part is off by at most c in each entry; (|z| + c)^n bounds powers
    of the exact and of the computed one.
    """
    base = KAPPA * ROUND * np.log2(points)
    product: NDArray[np.complex128] | None = None
    log_top, miss, total = np.zeros(points // 2 + 1), np.zeros(points // 2 + 1), 0
    with np.errstate(under="ignore"):
        for part in parts:
            x = wrap(part, points)
            z = rfft(x)
            c = base * float(x.sum()) * (1 + 1e-12)
            size = np.abs(z) * (1 + 4 * ROUND) + c
            log_top += part.count * np.log(size)
            miss += part.count * c / size
            total += part.count
            raised = power(z, part.count)
            product = raised if product is None else product * raised
        inflate = np.exp(4e-15 * total) * (1 + 4 * ROUND * (np.abs(log_top) + 2))
        error = np.exp(log_top) * inflate
        error *= np.minimum(1.0, miss) + np.expm1((total + len(parts)) * np.sqrt(5) * ROUND) + base
        weight = np.full(error.size, 2.0)
        weight[[0, -1]] = 1.0
        assert product is not None
        return np.asarray(irfft(product, points)), float(weight @ error) / points * (1 + 1e-10) + 1e-300


@dataclass(frozen=True)
class Composition:
    """The tilted masses of a composition at the sums offset + step * (first + 0, 1, ...), with every error bound.

    entry_error: of each mass. relative_error: of all masses together, and of the prefactor e^log_total.
    loss_error: of the sums of losses. infinite: mass at infinity, a bound on the side of the measure.
    """

    lam: float
    step: float
    offset: float
    first: int
    mass: Array
    log_total: float
    entry_error: float
    relative_error: float
    loss_error: float
    infinite: float

    @property
    def noise(self) -> float:
        """Error of sum m(s) g(s) at any epsilon: of the FFT, and by what lies outside of the window."""
        gmax = float(np.exp(log_gmax(self.lam)))
        return self.entry_error * (gmax + 1 / (self.step * self.lam * (1 + self.lam))) + OUTSIDE_MASS * gmax

    def table(self, side: int, reference: float) -> Table:
        """The finite part of delta at the lattice points >= 0, bounded from above (side 1) or below (side -1)."""
        lam, h = self.lam, self.step
        base = self.offset + h * self.first
        start = max(0, int(np.floor(-base / h)) - 1, int(np.floor((reference - 500 / lam - base) / h)))
        start = min(start, self.mass.size - 1)
        stop = min(self.mass.size, int(np.ceil((reference + 650 / lam - base) / h)))
        s = np.asarray(self.offset + h * (self.first + np.arange(start, max(stop, start + 1))), dtype=np.float64)
        mass = self.mass[start : start + s.size]
        gap = s - reference
        with np.errstate(under="ignore"):
            weight = np.exp(-lam * gap)
            head = np.cumsum((mass * weight)[::-1])[::-1]
            fall = falling_sums(mass * weight, h)
            size = np.cumsum((np.abs(mass) * weight)[::-1])[::-1]
            error = weight * self.noise + size * (4 * ROUND * s.size + 1e-13)
            value = head - fall + side * error
        return Table(s, head, fall, error, value, self.log_total - lam * reference)


@dataclass(frozen=True)
class Table:
    """delta(eps) = e^log_scale (head_j - e^{eps - s_j} fall_j) for s_{j-1} <= eps <= s_j, give or take error.

    value: the bound at eps = s_j itself, over e^log_scale.
    """

    s: Array
    head: Array
    fall: Array
    error: Array
    value: Array
    log_scale: float


def falling_sums(terms: Array, step: float) -> Array:
    """sum_{i >= j} terms_i e^{-(i - j) step} at every j, to a relative 1e-13 of the sum of the absolute values.

    In blocks across which the factor falls by e^BLOCK, so that no factor leaves the range of a double whatever the
    length of the lattice; what lies more than two blocks on weighs less than e^-2 BLOCK.
    """
    length = int(min(terms.size, BLOCK / step + 1))
    blocks = -(-terms.size // length)
    padded = np.zeros(blocks * length)
    padded[: terms.size] = terms
    factor = np.exp(-step * np.arange(length))
    within = np.cumsum((padded.reshape(blocks, length) * factor)[:, ::-1], axis=1)[:, ::-1] / factor
    later = np.append(within[:, 0], [0.0, 0.0])
    carried = later[1:-1] + np.exp(-step * length) * later[2:]
    rest = np.exp(-step * np.arange(length, 0, -1))
    return np.asarray((within + carried[:, None] * rest).ravel()[: terms.size])


OUTSIDE_MASS = 4 * float(np.exp(LOG_OUTSIDE))


def compose(
    measures: Sequence[tuple[LatticeMeasure, int]],
    lam: float,
    side: int,
    mass_errors: Sequence[float],
    loss_errors: Sequence[float],
) -> Composition:
    """Tilt, window, FFT. Raises NotCertified if the window needs more than MAX_POINTS points.

    side: 1 for measures that lie above, -1 for measures that lie below their pairs.
    """
    step = measures[0][0].step
    parts = [tilt(measure, count, lam) for measure, count in measures]
    log_total = float(sum(part.count * part.log_total for part in parts))
    if not np.isfinite(log_total):
        raise NotCertified("the moments of the lattice measure overflow")
    lo, hi = window(parts, step)
    if not (lo <= hi):
        raise NotCertified("the window of the composition is empty")
    points = max(16, 1 << int(np.ceil(np.log2(hi - lo + 2))))
    if points > MAX_POINTS:
        raise NotCertified(f"the composition needs {points} lattice points", hint="loosen the tolerance")
    out, error = convolve(parts, points)
    relative = 8 * ROUND * (abs(log_total) + 2)
    for part, mass_error in zip(parts, mass_errors, strict=True):
        reach = lam * step * (max(abs(part.start), abs(part.start + part.mass.size)) + 1)
        relative += part.count * (mass_error + 8 * ROUND * (2 + reach + abs(part.log_total)))
    drift = sum(n * e for (_, n), e in zip(measures, loss_errors, strict=True))
    infinite = infinite_mass(measures, side)
    mass = np.roll(out, -(lo % points))
    offset = float(sum(n * mu.offset for mu, n in measures))
    drift += 4 * ROUND * sum(n * abs(mu.offset) for mu, n in measures) + 4 * ROUND * step * max(abs(lo), abs(hi))
    return Composition(lam, step, offset, lo, mass, log_total, error, relative, float(drift), infinite)


def infinite_mass(measures: Sequence[tuple[LatticeMeasure, int]], side: int) -> float:
    """P-mass of an infinite loss in the product: 1 - prod (1 - p)^n above, m - prod (m_j - p_j)^n_j below.

    Below, the total masses m_j may fall short of 1, and 1 - prod (1 - p)^n would be too large.
    """
    if side > 0:
        return float(-np.expm1(sum(n * np.log1p(-min(mu.infinite, 1.0 - 1e-17)) for mu, n in measures))) * (1 + 1e-12)
    if not any(mu.infinite for mu, _ in measures):
        return 0.0
    finite = [(float(mu.mass.sum()), mu.infinite, n) for mu, n in measures]
    log_all = sum(n * np.log(m + p) for m, p, n in finite)
    log_finite = sum(n * (np.log1p(-p / (m + p)) if m > 0 else -np.inf) for m, p, n in finite)
    total = sum(n for _, _, n in finite)
    return float(np.exp(min(0.0, log_all)) * -np.expm1(log_finite)) * max(0.0, 1 - 1e-13 * total)


def invert(composition: Composition, delta: float, side: int, reference: float) -> float:
    """The epsilon at which the bounded delta crosses `delta`: an upper bound for side 1, a lower one for side -1.

    Between lattice points delta is exactly a - b e^eps, so there is no search. May be inf (upper) or 0 (lower).
    """
    finite = delta - composition.infinite
    if not (finite > 0) and not (side < 0 and finite == 0):
        return float("inf")
    table = composition.table(side, reference)
    with np.errstate(divide="ignore", over="ignore"):
        target = float(np.exp(np.log(finite) - table.log_scale - side * composition.relative_error))
    if not np.isfinite(target):
        return float("inf") if side > 0 else 0.0
    # a value that is not a number counts as above for the upper end and as below for the lower one
    above = np.flatnonzero(~(table.value <= target) if side > 0 else table.value > target)
    if not above.size:
        if side < 0:  # nothing is proven even at the first point
            return 0.0
        inside = float(table.s[0])
    elif above[-1] + 1 >= table.s.size:
        return float("inf") if side > 0 else max(0.0, float(table.s[-1]) - composition.loss_error)
    else:
        j = int(above[-1])
        left, right = float(table.s[j]), float(table.s[j + 1])
        ratio = (table.head[j + 1] + side * table.error[j] - target) / max(table.fall[j + 1], 1e-300)
        root = right + float(np.log(ratio)) if ratio > 0 else left
        if side > 0 and not (ratio > 0):
            root = right
        inside = min(max(root, left), right)
    return max(0.0, inside + side * composition.loss_error)


def evaluate(composition: Composition, epsilon: float, side: int) -> float:
    """delta at epsilon: an upper bound for side 1, a lower one for side -1."""
    point = epsilon - side * composition.loss_error  # may be a little below 0
    table = composition.table(side, point)
    j = int(np.searchsorted(table.s, point))
    if j >= table.s.size:
        value = float(table.error[-1]) if side > 0 else 0.0
    else:
        noise = float(table.error[max(j - 1, 0)])
        if j == 0:  # left of the window that of what lies outside grows, to this
            noise += composition.noise
        value = float(table.head[j]) - float(np.exp(point - table.s[j])) * float(table.fall[j]) + side * noise
    finite = max(value, 0.0) * float(np.exp(table.log_scale + side * composition.relative_error))
    if not np.isfinite(finite):
        return 1.0 if side > 0 else 0.0
    return min(max(finite + composition.infinite, 0.0), 1.0)
