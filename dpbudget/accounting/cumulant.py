"""Moments of the privacy loss on a quadrature of x: the one place where E_P[f(L)] becomes a finite sum.

Every engine over moments (RDP, moments accountant, contour) reads a pair through `quadrature`. The upper tail above the
last node is not integrated: its P-mass is `missing`, and the engine has to pay for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

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
    step: largest rise of the loss across one panel; e^{lam L} is resolved while lam * step stays below about 8.
    """

    log_weight: Array
    loss: Array
    missing: float
    below: float
    infinite: float
    bottom: float
    top: float
    step: float

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


def _edges(pair: Pair, lo: float, hi: float, refine: float) -> Array:
    """Panel edges from lo to hi, no panel longer than pair.panel / refine nor across a break."""
    inner = sorted(b for b in pair.breaks if lo < b < hi)
    corners = [lo, *inner, hi]
    pieces = []
    for a, b in zip(corners, corners[1:], strict=False):
        n = max(1, math.ceil((b - a) * refine / pair.panel))
        if not n <= MAX_PANELS:
            raise NotCertified("the loss needs too many quadrature panels", hint="Raise the noise multiplier.")
        pieces.append(np.linspace(a, b, n + 1)[:-1])
    return np.append(np.concatenate(pieces), hi)


def quadrature(pair: Pair, log_tail: float, *, log_below: float | None = None, refine: float = 1.0) -> Quadrature:
    """Gauss-Legendre quadrature of P up to the point above which P has at most mass exp(log_tail).

    log_below: the same for the lower end, exp(log_tail) unless given.  refine: how many times more panels than the pair
    asks for.  Raises NotCertified when there are too many panels or a density or loss is NaN.
    """
    hi = pair.support(log_tail)[1]
    lo = pair.support(log_tail if log_below is None else log_below)[0]
    weights = [np.log(np.array([m for _, m in pair.atoms if m > 0.0], dtype=np.float64))]
    losses = [np.array([v for v, m in pair.atoms if m > 0.0], dtype=np.float64)]
    step, missing, below = 0.0, pair.infinite_mass, 0.0
    bottom = -math.inf
    if lo < hi:
        edges = _edges(pair, lo, hi, refine)
        half = np.diff(edges)[:, None] / 2
        x = (edges[:-1, None] + half * (1.0 + GAUSS_X)).ravel()
        with np.errstate(divide="ignore"):
            weights.append(pair.log_p(x) + np.log(half * GAUSS_W).ravel())
        losses.append(pair.loss(x))
        ends = pair.loss(edges)
        step, bottom = float(np.max(np.diff(ends))), float(ends[0])
        missing += math.exp(pair.log_upper_tail(hi))
        below = math.exp(pair.log_lower_tail(lo))
    log_weight, loss = np.concatenate(weights), np.concatenate(losses)
    if np.any(np.isnan(log_weight)) or np.any(np.isnan(loss)) or not missing >= 0.0:
        raise NotCertified("a density or privacy loss is not a number")
    keep = (log_weight > -np.inf) & (loss > -np.inf)
    log_weight, loss = log_weight[keep], loss[keep]
    top = float(np.max(loss)) if loss.size else 0.0
    if lo < hi:
        top = max(top, float(ends[-1]))
    return Quadrature(log_weight, loss, missing, below, pair.infinite_mass, bottom, top, step)


@dataclass(frozen=True)
class Moment:
    """K(lam) = log E_P[e^{lam L}; kept] with slope and curvature in lam, and a bound on the error of K; arrays over lam."""

    value: Array
    slope: Array
    curvature: Array
    error: Array


def log_moment(nodes: Quadrature, lam: Array) -> Moment:
    """The cumulant of the kept loss at real lam > 0, shape (k,).

    Below lam * step = 8 it is exact up to `error`; above, where a panel no longer resolves e^{lam L}, it is continued by
    K(r) + (lam - r) top, an upper bound because e^{(lam - r) L} <= e^{(lam - r) top}; curvature is 0 there.
    Mass dropped on top is not counted (missing), mass dropped at the bottom is counted in full: errs upwards.
    """
    lam = np.asarray(lam, dtype=np.float64)
    if not np.all(lam > 0.0):
        raise NotCertified("an order of the moments is not a positive number")
    resolved = np.minimum(lam, 8.0 / nodes.step) if nodes.step > 0.0 else lam
    per_block = max(1, _BLOCK // max(1, nodes.loss.size))
    blocks = [_resolved(nodes, resolved[i : i + per_block]) for i in range(0, lam.size, per_block)]
    value, slope, curvature, error = (np.concatenate(column) for column in zip(*blocks, strict=True))
    beyond = lam > resolved
    value = np.where(beyond, value + (lam - resolved) * nodes.top, value)
    return Moment(value, np.where(beyond, nodes.top, slope), np.where(beyond, 0.0, curvature), error)


def _resolved(nodes: Quadrature, lam: Array) -> tuple[Array, Array, Array, Array]:
    t = lam[:, None] * nodes.loss
    exponent = t + nodes.log_weight
    shift = np.maximum(np.max(exponent, axis=1, initial=-np.inf), 0.0)
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        tilted = np.exp(exponent - shift[:, None])
        total = np.sum(tilted, axis=1)
        low = nodes.below * np.exp(np.minimum(lam * nodes.bottom, 700.0)) if nodes.below > 0.0 else 0.0 * lam
        first = tilted @ nodes.loss
        small = np.abs(t) < 0.5
        second = np.where(small, psi(np.where(small, t, 0.0)) * nodes.weight, tilted - (1.0 + t) * nodes.weight)
        rest = np.sum(second, axis=1)
        near = shift == 0.0
        change = np.where(near, lam * nodes.mean + rest - nodes.infinite + low, 0.0)
        size = np.where(near, rest + lam * nodes.mean_size, 1.0)
        value = np.where(near, np.log1p(np.maximum(change, -1.0)), shift + np.log(total + low * np.exp(-shift)))
        slope = first / total
        curvature = np.sum(tilted * np.square(nodes.loss[None, :] - slope[:, None]), axis=1) / total
        error = 2e-14 * size / np.where(near, 1.0 + change, 1.0) + 2e-15 * (lam * np.abs(slope) + lam * nodes.mean_size)
    if np.any(np.isnan(value)) or np.any(np.isnan(slope)):
        raise NotCertified("the moments of the privacy loss are not numbers")
    return value, slope, curvature, error
