"""Balls in bins: each epoch puts every record into one of its t batches, uniformly and independently.

The law of one epoch is that of random allocation with one participation. The pair P = (1/t) sum_i N(e_i, s^2 I),
Q = N(0, s^2 I) dominates it in both directions, adaptively, and is attained. Its likelihood ratio is R = (1/t) sum_i r_i,
r_i = e^{(2 x_i - 1) / (2 s^2)} independent lognormals of mean 1 under Q, and both profiles are expectations of convex
functions of R under Q: E(R - y)_+ and E(1 - y R)_+. Hence the convex order decides: a law of r that is a mean-preserving
spread of the true one bounds *both* directions from above, a contraction (conditional means of cells) from below, and
sums of independent variables keep the order. So the sum is built by doubling on a grid; after each addition a spread
splits what lies between two grid points over both, a contraction merges each cell into its mean. Both errors are of
second order in the mesh, and the interval is numerical, not analysis. Proofs: docs/math-sampling.md, 5.

Sources of the mechanism and the pair: Chua et al. 2025, arXiv:2412.16802; Feldman, Shenfeld 2025, arXiv:2502.08202.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from dpbudget.accounting.atoms import atomic_pair, composed_delta, composed_epsilon
from dpbudget.accounting.discrete_pairs import AtomicPair
from dpbudget.accounting.pair import Array
from dpbudget.errors import InputError, NotCertified
from dpbudget.model import Interval

LEAST_SIGMA = 0.05
MOST_POINTS = 4000
_BLOCK = 400_000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


@dataclass(frozen=True)
class Law:
    """A law of S on finitely many points, S a sum of `terms` likelihood ratios: increasing values and their masses.

    value: S - origin * terms; origin 1 keeps the digits where all ratios are near 1, origin 0 where they are near 0.
    lost: expectation by which an upper law may fall short, E (S - S')_+ of what was cut off on the right.
    """

    terms: int
    value: Array
    mass: Array
    lost: float = 0.0


@dataclass(frozen=True)
class _Setting:
    """sigma, the mesh per standard deviation, log of the P-mass to be cut on the right and the Q-mass on the left."""

    sigma: float
    mesh: float
    log_right: float
    log_left: float

    @property
    def origin(self) -> float:
        return 1.0 if self.sigma > 0.7 else 0.0

    @property
    def spread(self) -> float:
        """Standard deviation of one likelihood ratio under Q."""
        return math.sqrt(math.expm1(1 / self.sigma**2))

    def ratio(self, x: Array) -> Array:
        """r(x) - origin."""
        exponent = (2 * x - 1) / (2 * self.sigma**2)
        return np.expm1(exponent) if self.origin else np.exp(exponent)

    def place(self, value: Array) -> Array:
        """The inverse of `ratio`."""
        return np.asarray(self.sigma**2 * (np.log1p(value) if self.origin else np.log(value)) + 0.5)

    def grid(self, terms: int, low: float, high: float) -> Array:
        """Values from S = 0, then from low to high at distances mesh * min(S, hypot(S - terms, std of S))."""
        width = self.spread * math.sqrt(terms)
        unit = self.mesh * max(1.0, 1 / self.sigma)
        zero, mean = -self.origin * terms, (1 - self.origin) * terms
        half = mean - terms / 2
        fine = [zero + np.geomspace(low - zero, high - zero, 8000)]
        if width < terms / 4:
            inner = np.linspace(math.asinh((max(low, half) - mean) / width), math.asinh((high - mean) / width), 4000)
            fine = [mean + width * np.sinh(inner)]
            if low < half:
                fine.insert(0, zero + np.geomspace(low - zero, half - zero, 4000))
        points = np.unique(np.concatenate(fine))
        gap = unit * np.minimum(points - zero, np.hypot(points - mean, width))
        count = np.concatenate([[0.0], np.cumsum(np.diff(points) * (1 / gap[1:] + 1 / gap[:-1]) / 2)])
        size = max(4, math.ceil(count[-1]))
        if size > MOST_POINTS:
            raise NotCertified(f"the sum of likelihood ratios needs {size} points", hint="Loosen the tolerance.")
        inside = np.interp(np.linspace(0, count[-1], size + 1), count, points)
        return np.unique(np.concatenate([[zero], inside]))


def _single(setting: _Setting, upper: bool) -> Law:
    """One likelihood ratio: quadrature in each cell of the grid; the tails in closed form."""
    s, o = setting.sigma, setting.origin
    cut = np.array([-s * _z(setting.log_left), 1 + s * _z(setting.log_right)])
    grid = setting.grid(1, *(float(v) for v in setting.ratio(cut)))
    edges = setting.place(grid[1:])
    half = np.diff(edges)[:, None] / 2
    x = (edges[:-1, None] + half * (1 + _NODES)).ravel()
    mass = (half * _WEIGHTS).ravel() * np.exp(-0.5 * (x / s) ** 2) / (s * math.sqrt(2 * math.pi))
    ends = np.array([edges[0], -edges[-1]])
    log_q, log_p = log_ndtr(ends / s), log_ndtr((ends + np.array([-1.0, 1.0])) / s)
    q, p = np.exp(log_q), np.exp(log_p)
    if not upper:
        law = _contract(setting.ratio(x), mass, grid, 1)
        value = np.concatenate([np.exp(log_p - log_q) - o, law.value])
        order = np.argsort(value)
        return Law(1, value[order], np.concatenate([q, law.mass])[order])
    law = _spread(setting.ratio(x), mass, grid, 1)
    weights = law.mass.copy()
    share = min(float(np.exp(log_p[0] - np.log(grid[1] + o))), float(q[0]))
    weights[0] += q[0] - share
    weights[1] += share
    weights[-1] += q[1]
    return Law(1, law.value, weights, max(0.0, float(p[1] - q[1] * (grid[-1] + o))))


def _z(log_tail: float) -> float:
    return -float(ndtri_exp(log_tail))


def _spread(value: Array, mass: Array, grid: Array, terms: int) -> Law:
    """Split each value over the two grid points around it so that the mean stays; what lies beyond is cut off."""
    lost = float(mass @ np.maximum(value - grid[-1], 0.0))
    value = np.minimum(value, grid[-1])
    i = np.clip(np.searchsorted(grid, value, side="right") - 1, 0, grid.size - 2)
    share = mass * np.clip((value - grid[i]) / (grid[i + 1] - grid[i]), 0.0, 1.0)
    out = np.bincount(i, mass - share, grid.size) + np.bincount(i + 1, share, grid.size)
    return Law(terms, grid, np.asarray(out, dtype=np.float64), lost)


def _contract(value: Array, mass: Array, grid: Array, terms: int) -> Law:
    """Merge the values of each cell into their mean; beyond the ends too."""
    i = np.clip(np.searchsorted(grid, value, side="right") - 1, 0, grid.size - 1)
    total = np.bincount(i, mass, grid.size)
    excess = np.bincount(i, mass * (value - grid[i]), grid.size)
    used = total > 0
    value = grid[used] + excess[used] / total[used]
    return Law(terms, np.maximum.accumulate(value), np.asarray(total[used], dtype=np.float64))


def _add(a: Law, b: Law, setting: _Setting, upper: bool) -> Law:
    """The sum of two independent laws, back on a grid; in blocks of bounded memory, a square in half the work."""
    terms, square = a.terms + b.terms, a is b
    deviation = setting.spread * math.sqrt(terms)
    mean = (1 - setting.origin) * terms
    high = float(a.value[-1] + b.value[-1])
    high = min(high, 1.5 * float(max(a.value[-1], b.value[-1])) + mean + (_z(setting.log_right) + 1) * deviation)
    low = max(_least(a, setting) + _least(b, setting), mean - (1 + _z(setting.log_left)) * deviation)
    grid = setting.grid(terms, low, high)
    pieces, start = [], 0
    while start < a.value.size:
        first = start if square else 0
        stop = min(a.value.size, start + max(1, _BLOCK // (b.value.size - first)))
        value = a.value[start:stop, None] + b.value[first:]
        mass = a.mass[start:stop, None] * b.mass[first:]
        if square:
            mass[:, stop - start :] *= 2
            mass[:, : stop - start] *= 2 * np.triu(np.ones((stop - start, stop - start)), 1) + np.eye(stop - start)
        pieces.append((_spread if upper else _contract)(value.ravel(), mass.ravel(), grid, terms))
        start = stop
    if upper:
        lost = a.lost + b.lost + sum(piece.lost for piece in pieces)
        return Law(terms, grid, np.sum([piece.mass for piece in pieces], axis=0), lost)
    value = np.concatenate([piece.value for piece in pieces])
    return _contract(value, np.concatenate([piece.mass for piece in pieces]), grid, terms)


def _least(law: Law, setting: _Setting) -> float:
    """The least S > 0 that matters: below it lies less mass than the left cut leaves aside."""
    inside = law.value > -setting.origin * law.terms
    i = int(np.searchsorted(np.cumsum(law.mass[inside]), math.exp(max(setting.log_left, -600.0))))
    return float(law.value[inside][min(i, int(inside.sum()) - 1)])


def _sum(terms: int, setting: _Setting, upper: bool) -> Law:
    power, result = _single(setting, upper), None
    while True:
        if terms & 1:
            result = power if result is None else _add(result, power, setting, upper)
        terms >>= 1
        if not terms:
            assert result is not None
            return result
        power = _add(power, power, setting, upper)


@dataclass(frozen=True)
class Epoch:
    """One epoch in one direction, as pairs below and above the true one; both finite, both compose."""

    lower: AtomicPair
    upper: AtomicPair


def epoch_pairs(sigma: float, steps_per_epoch: int, delta: float, *, mesh: float = 0.02) -> dict[str, Epoch]:
    """Pairs around one epoch in the directions "remove" and "add".

    delta: the size of delta that matters, which places the cuts: they cost about 1e-8 of it. mesh: of the sums, in
    standard deviations; the gap falls like its square. The masses are computed with positive sums alone, so that their
    relative error stays below 1e-14 t + 1e-11, which the pairs include on the safe side.
    """
    _check(sigma, steps_per_epoch)
    if not (0 < delta < 1):
        raise InputError("delta", f"{delta} is not in (0, 1)")
    setting = _Setting(sigma, mesh, math.log(delta) - 20.0, math.log(delta) - math.log(steps_per_epoch) - 25.0)
    error = 1e-11 + 1e-14 * steps_per_epoch
    with np.errstate(under="ignore"):
        below = _directions(_sum(steps_per_epoch, setting, False), setting.origin, error, -1)
        above = _directions(_sum(steps_per_epoch, setting, True), setting.origin, error, 1)
    return {name: Epoch(below[name], above[name]) for name in below}


@lru_cache(maxsize=16)
def _kept_pairs(sigma: float, steps_per_epoch: int, level: int, mesh: float) -> dict[str, Epoch]:
    """`epoch_pairs` for delta = 4^level: a smaller delta than asked for only moves the cuts out, and serves many epochs."""
    return epoch_pairs(sigma, steps_per_epoch, 4.0**level, mesh=mesh)


def _directions(law: Law, origin: float, error: float, side: int) -> dict[str, AtomicPair]:
    """P = R Q against Q, and Q against P: losses log R and -log R; R = 0 is an infinite loss of the second."""
    empty = law.value <= -origin * law.terms
    ratio = law.value[~empty] / law.terms
    mass, loss = law.mass[~empty], np.log1p(ratio) if origin else np.log(ratio)
    nothing = float(law.mass[empty].sum()) * (1 + side * error)
    cut = law.lost / law.terms * (1 + error)
    return {
        "remove": atomic_pair(loss, mass * (origin + ratio), infinite=cut if side > 0 else 0.0, error=error, side=side),
        "add": atomic_pair(-loss, mass, infinite=nothing if side > 0 else 0.0, error=error, side=side),
    }


def directions(
    sigma: float, steps_per_epoch: int, epochs: int, delta: float, *, tolerance: float = 1e-4
) -> dict[str, Interval]:
    """[lower, upper] of epsilon in each direction; as `epsilon`."""
    _check(sigma, steps_per_epoch)
    if not (epochs >= 1):
        raise InputError("epochs", f"{epochs} is not a positive number of epochs")
    mesh = 0.04
    found: dict[str, Interval] = {}
    for _ in range(4):
        try:
            pairs = _kept_pairs(sigma, steps_per_epoch, math.floor(math.log(delta / epochs, 4)), mesh)
        except NotCertified:
            if found:
                break
            raise
        found = {
            name: Interval(
                composed_epsilon(pair.lower, epochs, delta, tolerance / 10)[0],
                composed_epsilon(pair.upper, epochs, delta, tolerance / 10)[1],
            )
            for name, pair in pairs.items()
        }
        worst = max(found.values(), key=_upper)
        width = (_upper(worst) - (worst.lower or 0.0)) / max(_upper(worst), 1e-300)
        if not (width > tolerance):
            break
        mesh *= min(0.7, max(0.9 * math.sqrt(tolerance / width), 0.1))
    return found


@lru_cache(maxsize=64)
def epsilon(sigma: float, steps_per_epoch: int, epochs: int, delta: float, *, tolerance: float = 1e-4) -> Interval:
    """[lower, upper] of epsilon for balls-in-bins sampling, fresh bins each epoch, add-or-remove-one (or zero-out).

    Kept for a while: a search over steps asks again and again for the epochs that they begin and end.

    sigma: noise over the clipping norm, at least 0.05. tolerance: wanted relative width; the mesh is halved until it is
    met or the grids get too large. Both ends are proven, the gap is numerical.
    """
    ends = directions(sigma, steps_per_epoch, epochs, delta, tolerance=tolerance).values()
    return Interval(max(end.lower or 0.0 for end in ends), max(_upper(end) for end in ends))


def delta(
    sigma: float, steps_per_epoch: int, epochs: int, epsilon: float, *, guess: float = 1e-6, mesh: float = 0.01
) -> Interval:
    """[lower, upper] of delta at epsilon; as `epsilon`. guess: the rough size of delta, which places the cuts."""
    if not (epochs >= 1):
        raise InputError("epochs", f"{epochs} is not a positive number of epochs")
    pairs = epoch_pairs(sigma, steps_per_epoch, guess / epochs, mesh=mesh).values()
    return Interval(
        max(composed_delta(pair.lower, epochs, epsilon, guess)[0] for pair in pairs),
        min(1.0, max(composed_delta(pair.upper, epochs, epsilon, guess)[1] for pair in pairs)),
    )


def _upper(interval: Interval) -> float:
    return math.inf if interval.upper is None else interval.upper


def _check(sigma: float, steps_per_epoch: int) -> None:
    if not (0 < sigma < math.inf):
        raise InputError("noise_multiplier", f"{sigma} is not a positive number")
    if not (steps_per_epoch >= 1):
        raise InputError("steps", f"{steps_per_epoch} is not a positive number of batches per epoch")
    if sigma < LEAST_SIGMA:
        raise NotCertified(
            f"balls-in-bins is not computed below a noise multiplier of {LEAST_SIGMA}",
            hint="Without amplification an epoch is one Gaussian release.",
        )
