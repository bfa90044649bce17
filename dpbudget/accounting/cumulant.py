"""Moments of the privacy loss on a quadrature of x: the one place where E_P[f(L)] becomes a finite sum.

Every engine over moments (RDP, moments accountant, contour) reads a pair through `quadrature`. The upper tail above the
last node is not integrated: its P-mass is `missing`, and the engine has to pay for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpbudget.accounting.pairs import Pair
from dpbudget.errors import NotCertified

Array = NDArray[np.float64]

GAUSS_X, GAUSS_W = np.polynomial.legendre.leggauss(16)
MAX_PANELS = 400_000
_BLOCK = 4_000_000
_INVERSE_FACTORIAL = [1.0 / math.factorial(k) for k in range(2, 18)]


def psi(t: Array) -> Array:
    """e^t - 1 - t >= 0 to a few units of round-off, also near 0. Overflows to inf for t > 709."""
    small = np.abs(t) < 0.5
    s = np.where(small, t, 0.0)
    series = np.full_like(s, _INVERSE_FACTORIAL[-1])
    for c in _INVERSE_FACTORIAL[-2::-1]:
        series = series * s + c
    with np.errstate(over="ignore"):
        return np.where(small, series * s * s, np.expm1(t) - t)


@dataclass(frozen=True, eq=False)
class Quadrature:
    """E_P[f(L); kept] = sum exp(log_weight) f(loss), atoms included; both arrays have shape (n,).

    missing: upper bound on the P-mass above the nodes, `infinite` included.
    below: upper bound on the P-mass under the nodes, where the loss is at most `bottom`.
    infinite: P-mass at infinite loss.  top: no kept loss is larger.
    edge_log_p, edge_loss: log density and loss at the left and right edge of every panel, shape (2, panels).
    atoms: how many of the last nodes are point masses.
    """

    log_weight: Array
    loss: Array
    missing: float
    below: float
    infinite: float
    bottom: float
    top: float
    edge_log_p: Array
    edge_loss: Array
    atoms: int

    @cached_property
    def limit(self) -> float:
        """The largest lam up to which the panels resolve p e^{lam L}; math.inf for a pair of atoms alone.

        16-point Gauss-Legendre integrates e^{g} to 1e-13 where g changes by at most 14 over the panel; panels that lie
        e^{-45} below the largest do not matter.
        """
        if self.edge_loss.size == 0:
            return math.inf
        step = float(np.max(self.edge_loss[1] - self.edge_loss[0]))
        if not step > 0.0:
            return math.inf
        grid = np.exp2(np.minimum(np.log2(4.0 / step) + np.arange(120) / 2.0, 1000.0))
        g = self.edge_log_p[:, None, :] + grid[:, None] * self.edge_loss[:, None, :]
        matters = np.max(g, axis=0) > np.max(g, axis=(0, 2))[:, None] - 45.0
        rough = np.any(matters & (np.abs(g[1] - g[0]) > 14.0), axis=1)
        first = int(np.argmax(rough)) if np.any(rough) else grid.size
        return float(grid[max(first - 1, 0)])

    @cached_property
    def weight(self) -> Array:
        return np.exp(self.log_weight)

    @cached_property
    def mean_size(self) -> float:
        """E_P|L| of the kept part."""
        return float(self.weight @ np.abs(self.loss))

    @cached_property
    def mean(self) -> float:
        """E_P[L] of the kept part, with relative accuracy however close the pair is.

        E[L] = E[psi(-L)] - E[e^{-L} - 1], where the second term is Q's mass minus P's mass on the kept set. It is zero
        for a pair of equivalent probabilities; when it is below the round-off of its own sum it is taken as zero.
        """
        with np.errstate(over="ignore", under="ignore"):
            q = np.exp(self.log_weight - self.loss)
        if not np.all(np.isfinite(q)):
            return float(self.weight @ self.loss)
        change = np.where(np.abs(self.loss) < 1.0, self.weight * np.expm1(-np.clip(self.loss, -1, 1)), q - self.weight)
        linear = float(np.sum(change))
        if abs(linear) <= 1e-14 * float(np.sum(np.abs(change))):
            linear = 0.0
        large = np.abs(self.loss) >= 1.0
        second = np.where(large, q - self.weight * (1.0 - self.loss), self.weight * psi(-np.clip(self.loss, -1, 1)))
        return float(np.sum(second)) - linear


def panel_edges(
    pair: Pair, lo: float, hi: float, refine: float, loss_step: float = math.inf, tilt: float = 0.0
) -> Array:
    """Panel edges from lo to hi, none longer than pair.panel / refine, across a break, or across more than loss_step.

    The last does not bind where p e^{tilt L} over the panel is below e^-60: no integral at that tilt can see it.
    """
    inner = sorted(b for b in pair.breaks if lo < b < hi)
    pieces = []
    for a, b in pairwise([lo, *inner, hi]):
        if not (b - a) * refine <= MAX_PANELS * pair.panel:
            raise NotCertified("the loss needs too many quadrature panels", hint="Raise the noise multiplier.")
        n = max(1, math.ceil((b - a) * refine / pair.panel))
        pieces.append(np.linspace(a, b, n + 1)[:-1])
    edges = np.append(np.concatenate(pieces), hi)
    if loss_step == math.inf:
        return edges
    loss = pair.loss(edges)
    split = np.maximum(1.0, np.ceil(np.diff(loss) / loss_step))
    with np.errstate(divide="ignore"):
        size = pair.log_p(edges) + tilt * loss
    split[np.maximum(size[1:], size[:-1]) + np.log(np.diff(edges)) < -60.0] = 1.0
    if not np.sum(split) <= MAX_PANELS:
        raise NotCertified("the loss needs too many quadrature panels", hint="Raise the noise multiplier.")
    repeat = split.astype(np.int64)
    first = np.repeat(np.cumsum(repeat) - repeat, repeat)
    part = (np.arange(first.size) - first) / np.repeat(split, repeat)
    return np.append(np.repeat(edges[:-1], repeat) + part * np.repeat(np.diff(edges), repeat), hi)


def quadrature(
    pair: Pair,
    log_tail: float,
    *,
    log_below: float | None = None,
    refine: float = 1.0,
    loss_step: float = math.inf,
    tilt: float = 0.0,
) -> Quadrature:
    """Gauss-Legendre quadrature of P up to the point above which P has at most mass exp(log_tail).

    log_below: the same for the lower end, exp(log_tail) unless given.  refine: how many times more panels than the pair
    asks for.  Raises NotCertified when there are too many panels or a density or loss is NaN.
    """
    hi = pair.support(log_tail)[1]
    lo = pair.support(log_tail if log_below is None else log_below)[0]
    edges = panel_edges(pair, lo, hi, refine, loss_step, tilt) if lo < hi else np.empty(0)
    return on_panels(pair, edges[:-1], edges[1:])


def on_panels(pair: Pair, left: Array, right: Array, *, atoms: bool = True) -> Quadrature:
    """The quadrature on given panels, in increasing order; mass is counted above the last and below the first only."""
    half = (right - left)[:, None] / 2
    x = (left[:, None] + half * (1.0 + GAUSS_X)).ravel()
    edges = np.stack([left, right])
    with np.errstate(divide="ignore"):
        points = [(v, math.log(m)) for v, m in pair.atoms if atoms and m > 0.0]
        at = np.array(points, dtype=np.float64).reshape(-1, 2)
        log_weight = np.append(pair.log_p(x) + np.log(half * GAUSS_W).ravel(), at[:, 1]) if x.size else at[:, 1]
        loss = np.append(pair.loss(x), at[:, 0]) if x.size else at[:, 0]
        edge_log_p = pair.log_p(edges) if x.size else edges
        edge_loss = pair.loss(edges) if x.size else edges
    missing, below, bottom = pair.infinite_mass, 0.0, -math.inf
    if x.size:
        missing += math.exp(pair.log_upper_tail(float(right[-1])))
        below, bottom = math.exp(pair.log_lower_tail(float(left[0]))), float(edge_loss[0, 0])
    if np.any(np.isnan(log_weight)) or np.any(np.isnan(loss)) or not missing >= 0.0 or not below >= 0.0:
        raise NotCertified("a density or privacy loss is not a number")
    keep = (log_weight > -np.inf) & (loss > -np.inf)
    atoms_kept = int(np.sum(keep[x.size :]))
    log_weight, loss = log_weight[keep], loss[keep]
    top = max(float(np.max(loss, initial=-np.inf)), float(np.max(edge_loss, initial=-np.inf)))
    return Quadrature(
        log_weight, loss, missing, below, pair.infinite_mass, bottom, top, edge_log_p, edge_loss, atoms_kept
    )


@dataclass(frozen=True)
class Moment:
    """K(lam) = log E_P[e^{lam L}; kept], its slope and curvature in lam, a bound on the error of K; arrays over lam."""

    value: Array
    slope: Array
    curvature: Array
    error: Array


def log_moment(nodes: Quadrature, lam: Array) -> Moment:
    """The cumulant of the kept loss at real lam > 0, shape (k,).

    Up to r = nodes.limit it is exact up to `error`; above, where a panel no longer resolves e^{lam L}, it continues as
    K(r) + (lam - r) top, an upper bound because e^{(lam - r) L} <= e^{(lam - r) top}; curvature is 0 there.
    Mass dropped on top is not counted (missing), mass dropped at the bottom is counted in full: errs upwards.
    """
    lam = np.asarray(lam, dtype=np.float64)
    resolved = np.minimum(lam, nodes.limit)
    m = resolved_moment(nodes, resolved)
    beyond = lam > resolved
    value = np.where(beyond, m.value + (lam - resolved) * nodes.top, m.value)
    return Moment(value, np.where(beyond, nodes.top, m.slope), np.where(beyond, 0.0, m.curvature), m.error)


def resolved_moment(nodes: Quadrature, lam: Array) -> Moment:
    """log_moment for lam that the panels are known to resolve, in blocks of bounded memory."""
    if not np.all(lam > 0.0):
        raise NotCertified("an order of the moments is not a positive number")
    size = max(1, _BLOCK // max(1, nodes.loss.size))
    blocks = [_moment_block(nodes, lam[i : i + size]) for i in range(0, lam.size, size)]
    return Moment(*(np.concatenate(column) for column in zip(*blocks, strict=True)))


def _moment_block(nodes: Quadrature, lam: Array) -> tuple[Array, Array, Array, Array]:
    t = lam[:, None] * nodes.loss
    exponent = t + nodes.log_weight
    shift = np.maximum(np.max(exponent, axis=1, initial=-np.inf), 0.0)
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        tilted = np.exp(exponent - shift[:, None])
        total = np.sum(tilted, axis=1)
        low = nodes.below * np.exp(lam * min(nodes.bottom, 700.0)) if nodes.below > 0.0 else 0.0 * lam
        first = tilted @ nodes.loss
        small = np.abs(t) < 0.5
        second = np.where(small, psi(np.where(small, t, 0.0)) * nodes.weight, tilted - (1.0 + t) * nodes.weight)
        rest = np.sum(second, axis=1)
        near = shift == 0.0
        change = np.where(near, lam * nodes.mean + rest - nodes.infinite + low * (nodes.bottom > 0.0), 0.0)
        size = np.where(near, rest + lam * nodes.mean_size, 1.0)
        value = np.where(near, np.log1p(np.maximum(change, -1.0)), shift + np.log(total + low * np.exp(-shift)))
        slope = first / total
        curvature = np.sum(tilted * np.square(nodes.loss[None, :] - slope[:, None]), axis=1) / total
        error = 2e-14 * size / np.where(near, 1.0 + change, 1.0) + 2e-15 * (lam * np.abs(slope) + lam * nodes.mean_size)
    if np.any(np.isnan(value)) or np.any(np.isnan(slope)):
        raise NotCertified("the moments of the privacy loss are not numbers")
    return value, slope, curvature, error
