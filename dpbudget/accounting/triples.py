"""Hockey sticks of one step of fixed-size sampling under replace-one, and their bounds over boxes of triples.

Given which other records are in the batch, one step compares P = (1-q) N(a) + q N(b) with Q = (1-q) N(a) + q N(b'),
where a, b, b' are the clipped gradients of a third record, of the record and of its replacement; all distances below
are in units of the noise. With u = |b - a|, v = |b' - a|, w = |b - b'| the profile H(y) = int (dP - y dQ)_+ is a function
of the three distances; for y >= 1 it rises in u and w and falls in v, for y <= 1 it rises in v and w and falls in u.
Every triple in a ball of radius C is dominated by a triangle inscribed in the circle of radius C without an obtuse
angle: u = 2C sin z, v = 2C sin y, w = 2C sin x, x + y + z = pi. Statements and proofs: docs/math-sampling.md, 1 and 2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpbudget.errors import InputError, NotCertified

Array = NDArray[np.float64]

PROFILE_ERROR = 2e-14
"""Bound on the absolute error of a computed profile; two trapezoid sums with shifted nodes must agree to a tenth."""

_BLOCK = 300_000
_NEWTON = 60


def profile(log_y: Array, u: float, v: float, w: float, rate: float) -> Array:
    """H(e^log_y) for log_y >= 0, shape (k,), within PROFILE_ERROR; far below that still good to about 1e-8 relative.

    u, v, w: distances |b-a|, |b'-a|, |b-b'| over the noise, the sides of a triangle. Raises NotCertified where two
    quadratures with shifted nodes disagree.

    Along e, the bisector of the angle at b, the exponent of N(b) is the largest of the three, so that P > y Q on each
    line parallel to e is a half-line beyond x0; what it holds is a sum of three normal tails. Across e the
    trapezoid rule converges exponentially.
    """
    slack = 1e-9 * (1 + u + v + w)
    if not (u >= 0 and v >= 0 and w >= 0 and abs(u - w) <= v + slack and v <= u + w + slack):
        raise InputError("distances", f"{u}, {v}, {w} are not the sides of a triangle")
    if w == 0:
        return np.zeros(log_y.shape)
    u = max(u, 1e-12)  # H rises in u
    half = math.acos(min(1.0, max(-1.0, (u * u + w * w - v * v) / (2 * u * w)))) / 2
    b = u * math.cos(half), u * math.sin(half)
    other = b[0] - w * math.cos(half), b[1] + w * math.sin(half)
    step = min(0.5, 0.8 / (1 + abs(b[1]) + abs(other[1])))
    for _ in range(4):
        value, difference = _across(log_y, b, other, rate, step)
        if difference <= PROFILE_ERROR / 10:
            return value
        step /= 2
    raise NotCertified("the profile of a triple was not resolved")


def _across(
    log_y: Array, b: tuple[float, float], other: tuple[float, float], rate: float, step: float
) -> tuple[Array, float]:
    """The mean of two trapezoid sums with shifted nodes, and their largest difference; log_y must increase.

    H falls in y: what follows a block of values below 1e-40 is left at 0.
    """
    across = b[1] + np.arange(-10.0, 10.0 + step, step / 2)
    per_block = max(1, _BLOCK // across.size)
    value, difference = np.zeros(log_y.size), 0.0
    for i in range(0, log_y.size, per_block):
        lines = _on_lines(log_y[i : i + per_block, None], across, b, other, rate)
        even, odd = lines[:, 0::2].sum(axis=1) * step, lines[:, 1::2].sum(axis=1) * step
        value[i : i + per_block] = (even + odd) / 2
        difference = max(difference, float(np.max(np.abs(even - odd))))
        if even.max() < 1e-40:
            break
    return value, difference


def _on_lines(log_y: Array, t: Array, b: tuple[float, float], other: tuple[float, float], rate: float) -> Array:
    """The integral of (P - y Q)_+ along the lines at t across e. log_y: shape (k, 1); t: shape (m,); returns (k, m).

    Newton on log(q e^{b x}) - log(k + q y e^{b' x}), concave and increasing in x, from below: no overshoot, and the
    last change is squared by the next one. A line's value is stationary in its end x0.
    """
    q = rate
    k = (1 - q) * np.expm1(log_y)
    with np.errstate(divide="ignore", under="ignore", over="ignore", invalid="ignore"):
        log_k = np.log(k / q)
        rise = t * b[1] - (b[0] ** 2 + b[1] ** 2) / 2
        fall = log_y + t * other[1] - (other[0] ** 2 + other[1] ** 2) / 2
        x = np.maximum((log_k - rise) / b[0], (fall - rise) / (b[0] - other[0]))
        for _ in range(_NEWTON):
            share = fall + other[0] * x
            total = np.logaddexp(log_k, share)
            slope = b[0] - other[0] * np.exp(share - total)
            change = np.maximum(total - rise - b[0] * x, 0.0) / slope
            x += change
            if not np.max(change, initial=0.0, where=np.abs(x) < 40.0) > 1e-6:
                break
        weight = np.exp(-0.5 * (t - b[1]) ** 2)
        value = weight * (ndtr(b[0] - x) * q)
        value -= (q * np.exp(log_y - 0.5 * (t - other[1]) ** 2)) * ndtr(other[0] - x)
        value -= k * np.exp(-0.5 * t * t) * ndtr(-x)
    return np.asarray(np.maximum(value, 0.0) / math.sqrt(2 * math.pi))


@dataclass(frozen=True)
class Box:
    """Triangles inscribed in the circle, by their angles at b in [y_low, y_high] and at b' in [z_low, z_high]."""

    y_low: float
    y_high: float
    z_low: float
    z_high: float

    @property
    def mirror(self) -> Box:
        """The triangles with b and b' exchanged."""
        return Box(self.z_low, self.z_high, self.y_low, self.y_high)

    def sides(self, diameter: float) -> tuple[float, float, float]:
        """(u, v, w) of a triangle whose H is, for y >= 1, at least that of every triangle of the box.

        u and w are as large, v as small as the box allows; then u or w is raised until the three form a triangle.
        """
        u, v = math.sin(self.z_high), math.sin(self.y_low)
        w = math.sin(min(math.pi / 2, math.pi - self.y_low - self.z_low))
        u, w = max(u, w - v), max(w, u - v)
        return u * diameter, v * diameter, w * diameter


def boxes(edges: Sequence[float]) -> Iterator[Box]:
    """Boxes that cover all triangles without an obtuse angle: y, z <= pi/2 <= y + z.

    edges: increasing from 0 to 1, in units of pi/2, of the cuts of both angles.
    """
    cuts = [math.pi / 2 * edge for edge in edges]
    if not (len(cuts) >= 2 and cuts[0] == 0 and edges[-1] == 1 and all(a < b for a, b in itertools.pairwise(cuts))):
        raise InputError("edges", "the edges must increase from 0 to 1")
    for y_low, y_high in itertools.pairwise(cuts):
        for z_low, z_high in itertools.pairwise(cuts):
            if y_high + z_high >= math.pi / 2 - 1e-12:
                low, left = max(y_low, math.pi / 2 - z_high), max(z_low, math.pi / 2 - y_high)
                yield Box(min(low, y_high), y_high, min(left, z_high), z_high)


@dataclass(frozen=True)
class Kernel:
    """P-masses at the losses step * (first + 0, 1, ...) and at infinity of a measure that dominates a box of triples."""

    first: int
    mass: Array
    infinite: float


def kernels(cover: Sequence[Box], rate: float, diameter: float, step: float, left: int, right: int) -> list[Kernel]:
    """One kernel for each box that is not below another one, on the losses step * (-left, ..., right).

    diameter: 2 C over the noise. The measure is read off the chords of H between points e^{step j}: convex functions
    lie below their chords, so that values at these points are all that is needed; where little mass lies, the chords
    are longer. P-mass beyond the ends goes to infinity on the right and up to the first loss on the left.
    """
    nodes = _nodes(rate, diameter, step, max(left, right))
    above, below = np.append(nodes[nodes < right], right), np.append(nodes[nodes < left], left)
    both = np.union1d(above, below)
    halves: dict[Box, Array] = {}
    for box in cover:
        for half in (box, box.mirror):
            if half not in halves:
                halves[half] = profile(step * both, *half.sides(diameter), rate)
    index = np.concatenate([-below[:0:-1], above])
    excess = []
    for box in cover:
        up = halves[box][np.searchsorted(both, above)]
        down = halves[box.mirror][np.searchsorted(both, below)] * np.exp(-step * below)
        excess.append(np.concatenate([down[:0:-1], [max(up[0], down[0])], up[1:]]))
    return [_kernel(g, index, step) for g in _undominated(excess)]


def _nodes(rate: float, diameter: float, step: float, reach: int) -> NDArray[np.intp]:
    """Indices from 0 to reach, at distances such that long chords add less to the variance than the first ones do.

    The P-mass beyond a loss is measured on the farthest triple, a = b', in either order of P and Q.
    """
    log_y = step * np.arange(reach + 1)
    star = np.log1p(np.expm1(log_y) / rate) / diameter + diameter / 2
    mass = (1 - rate) * ndtr(-star) + rate * ndtr(diameter - star)
    gap = np.clip(0.3 / np.sqrt(np.maximum(mass, 1e-12)), 1, 24)
    count = np.cumsum(1 / gap) - 1 / gap[0]
    return np.unique(np.interp(np.arange(0, count[-1]), count, np.arange(reach + 1)).astype(np.intp))


def _undominated(excess: list[Array]) -> list[Array]:
    """Those that are not below a mixture of two others everywhere: the larger of the two moves is then as good."""
    table = np.array(excess)
    kept = list(range(len(excess)))
    for i in np.argsort(table.sum(axis=1)):
        rest = [j for j in kept if j != i]
        if any(_below_mixture(table[i], table[j], table[[k for k in rest if k >= j]]) for j in rest):
            kept = rest
    return [excess[i] for i in kept]


def _below_mixture(g: Array, first: Array, others: Array) -> bool:
    """Whether g <= (1 - s) first + s other for one of the others, shape (k, n), and one s in [0, 1]."""
    gap, need = others - first, g - first
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = need / gap
    least = np.max(np.where(gap > 0, ratio, 0.0), axis=1, initial=0.0)
    most = np.min(np.where(gap < 0, ratio, 1.0), axis=1, initial=1.0)
    stuck = np.any((gap == 0) & (need > 0), axis=1)
    return bool(np.any((least * (1 + 1e-12) <= most) & ~stuck))


def _kernel(excess: Array, index: NDArray[np.intp], step: float) -> Kernel:
    """Connect the dots: excess = H(y) - (1 - y)_+ at y = e^{step index}, and H(0) = 1."""
    rise, gap = np.diff(excess), step * np.diff(index)
    mass = np.zeros(int(index[-1] - index[0]) + 1)
    at = index - index[0]
    mass[at[1:]] += rise / np.expm1(-gap)
    mass[at[:-1]] += rise / np.expm1(gap)
    mass[0] -= excess[0]
    mass[-index[0]] += 1.0
    return Kernel(int(index[0]), np.maximum(mass, 0.0), float(excess[-1]))
