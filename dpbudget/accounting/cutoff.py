"""Where the frequencies may end: bounds on |E_t e^{iyL}| that hold on whole intervals of y, and from a y on for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbudget.accounting.pair import AnalyticPair, Array
from dpbudget.accounting.quadrature import ORDER, panel_errors, place_nodes, refine_panels
from dpbudget.accounting.tilted import DRIFT, Tilted, TooRough, tilt_nodes

MAX_WORK = 2.5e7
"""Largest number of (frequency, node) pairs."""


def cutoff(parts: Sequence[Tilted], t: float, log_goal: float, scale: float) -> float:
    """Y such that (sup over y >= Y of |prod E_t[e^{iyL}]^T|) / (pi Y) <= e^log_goal.

    Far out by segments of integration by parts, nearer by interpolation: R = |phi|^2 has R'' >= -2 var, so that
    between neighbours R is at most the larger one plus gap^2 var / 4.
    """
    goal = log_goal - np.log(2.0) - DRIFT  # half for either range; the moments normalise with an error of e^DRIFT
    far = np.asarray(1.25 ** np.arange(-3, 90) / scale, dtype=np.float64)
    log_far = np.zeros(far.size)
    for part in parts:
        log_far += part.nodes.count * _log_segments(part, t, far)
    good = np.flatnonzero(log_far <= goal + np.log(np.pi * far))
    if not good.size:
        raise TooRough
    end = float(far[good[0]])
    guards = [_guard(part, t, end, -goal / (4 * len(parts))) for part in parts]
    points = _guard_points(3.0 / scale, end, max(guard.spread for guard in guards))
    if points.size < 2 or points.size * max(guard.weight.size for guard in guards) > MAX_WORK:
        return end
    modulus = [guard.modulus(points) for guard in guards]
    log_near = _between(guards, modulus, np.diff(points))
    wanted = goal + np.log(np.pi * points[:-1])
    if (log_near > wanted).any():
        pieces = np.ones(points.size - 1, dtype=int)
        for n in (16, 10, 6, 4, 3, 2):
            finer = _between(guards, modulus, np.diff(points) / n)
            pieces[(log_near > wanted) & (finer <= wanted - 0.02)] = n
        points = _subdivide(points, pieces)
        if points.size * max(guard.weight.size for guard in guards) > 4 * MAX_WORK:
            return end
        modulus = [guard.modulus(points) for guard in guards]
        log_near = _between(guards, modulus, np.diff(points))
    worst = np.maximum.accumulate(log_near[::-1])[::-1]
    fit = np.flatnonzero(worst <= goal + np.log(np.pi * points[:-1]))
    return float(points[fit[0]]) if fit.size else end


def _between(guards: Sequence[_Guard], modulus: Sequence[Array], gap: Array) -> Array:
    """log of the bound on prod |phi|^T between neighbouring points that lie `gap` apart."""
    out = np.zeros(gap.size)
    for guard, size in zip(guards, modulus, strict=True):
        square = np.maximum(size[1:], size[:-1]) ** 2 + (gap * guard.spread) ** 2 * (1.01 / 4)
        out += guard.count * np.log(np.minimum(np.sqrt(square) + guard.rest, 1.0))
    return out


def _subdivide(points: Array, pieces: NDArray[np.int_]) -> Array:
    """Cut the i-th gap into pieces_i equal ones."""
    starts = np.cumsum(pieces) - pieces
    inner = np.arange(int(pieces.sum())) - np.repeat(starts, pieces)
    return np.append(np.repeat(points[:-1], pieces) + inner * np.repeat(np.diff(points) / pieces, pieces), points[-1])


@dataclass(frozen=True)
class _Guard:
    """The core of a tilted part, without the rare largest and smallest losses, of total mass `rest`.

    |phi| <= |phi_core| + rest, and the second derivative of |phi_core|^2 is at least -2 spread^2.
    """

    count: int
    weight: Array
    centred: Array
    spread: float
    rest: float
    error: float
    phase_slope: float

    def modulus(self, points: Array) -> Array:
        """Upper bounds on |phi_core|."""
        real, imag = np.empty(points.size), np.empty(points.size)
        rows = max(1, int(1e6) // self.weight.size)
        for start in range(0, points.size, rows):
            block = slice(start, start + rows)
            half = points[block, None] * (self.centred / 2)
            sine = np.sin(half)
            real[block] = float(self.weight.sum()) - 2 * ((sine * sine) @ self.weight)
            imag[block] = 2 * ((sine * np.cos(half)) @ self.weight)
        return np.asarray(np.hypot(real, imag) + 2 * self.error + points * self.phase_slope)


def _guard_points(start: float, end: float, spread: float) -> Array:
    """From `start` to `end`, first in proportion, then in steps of 0.4 / spread."""
    if not (end > start):
        return np.empty(0)
    turn = min(1 / spread, end)
    count = max(1, int(np.ceil(np.log(max(turn / start, 1.0)) / 0.35)))
    near = start * (max(turn / start, 1.0)) ** (np.arange(count) / count)
    rest = int(np.ceil((end - turn) * spread / 0.4))
    if rest > 1500:
        return np.empty(0)
    return np.unique(np.concatenate([near, np.linspace(max(turn, start), end, max(rest, 1) + 1)]))


def _guard(part: Tilted, t: float, end: float, allowance: float) -> _Guard:
    """Core of a part such that the rest costs at most e^allowance in T steps, on panels good enough up to y = end."""
    pair, n, edges = part.nodes.pair, part.nodes.count, part.nodes.edges
    if edges.size < 2:
        return _Guard(n, part.weight, part.centred, float(np.sqrt(part.variance)), 0.0, 0.0, part.phase_slope)
    panels = edges.size - 1
    mass = part.weight[: ORDER * panels].reshape(panels, ORDER).sum(axis=1)
    budget = min(allowance / n, 0.1) / 2
    first = int(np.searchsorted(np.cumsum(mass), budget))
    last = panels - int(np.searchsorted(np.cumsum(mass[::-1]), budget))
    edges = edges[first : last + 1]
    rough = part.log_moment + float(np.log(min(0.02, 0.5 / n)))
    fine, log_error = refine_panels(pair, edges, t, end, rough)
    error = float(np.exp(min(log_error - part.log_moment, 50.0)))
    core = tilt_nodes(place_nodes(pair, n, fine), t)
    weight = core.weight * np.exp(core.log_moment - part.log_moment)
    total = float(weight.sum())
    mean = float(weight @ core.nodes.loss) / total
    centred = core.nodes.loss - mean
    spread = float(np.sqrt(total * float(weight @ centred**2)))
    return _Guard(
        n, weight, centred, spread, max(1 - total, 0.0) + 2 * error + 1e-12, error, core.phase_slope + part.phase_slope
    )


def _log_segments(part: Tilted, t: float, y: Array) -> Array:
    """log of 1 - sum_i (m_i - V_i / y)_+, a bound on |E_t e^{iyL}| that decreases in y; the best of several cuts."""
    pair, coarse = part.nodes.pair, part.nodes.edges
    if not isinstance(pair, AnalyticPair) or coarse.size < 2:
        return np.zeros(y.size)
    panels = coarse.size - 1
    panel_mass = part.weight[: ORDER * panels].reshape(panels, ORDER).sum(axis=1)
    panel_mass -= np.exp(panel_errors(pair, coarse, t, 0.0) - part.log_moment)
    best = np.ones(y.size)
    for width in (1, 2, 4):
        starts = np.arange(0, panels, width)
        mass = np.add.reduceat(panel_mass, starts) * (1 - 1e-9)
        variation = pair.oscillation(np.append(coarse[starts], coarse[-1]), t) * np.exp(-part.log_moment) * (1 + 2e-9)
        lost = np.maximum(mass - variation / y[:, None], 0.0).sum(axis=1)
        best = np.minimum(best, 1 - lost)
    return np.log(np.maximum(best, 1e-12))
