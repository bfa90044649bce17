"""Certified intervals by the lattice: meshes that are refined until the two measures around each pair are close."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dpbudget.accounting.convolve import (
    MAX_POINTS,
    Composition,
    compose,
    evaluate,
    invert,
    log_gmax,
    log_sum,
    tilt,
    window,
)
from dpbudget.accounting.discretise import MOST_STEP, Discretised, discretise, panel_edges
from dpbudget.accounting.fourier import chernoff_log_delta, is_atomic, tail_level
from dpbudget.accounting.pair import Array, Pair
from dpbudget.accounting.quadrature import Nodes, first_panels, place_nodes
from dpbudget.accounting.tilted import find_tilt, tilt_nodes

Parts = Sequence[tuple[Pair, int]]
MAX_CELLS = 2**19
MAX_MESHES = 5
FEW_PARTS = 8
"""Up to so many different pairs share the largest lattice; more take coarser ones, so that the work stays the same."""
LOG_UNIMPORTANT = -37.0
"""Losses l with e^{lam l} below e^this / T of the one-step moment are not resolved."""
FIRST_CELLS = 1500
TABLE_POINTS = 2**19
TABLE_CELLS = 2**17
TABLE_TERMS = 2**22
"""Cells, times the members of a group: each of them is a term of the loss."""
PROBES = 69  # 1.5^68 1e-12 is just below 1


@dataclass(frozen=True)
class _Mesh:
    """All parts on one lattice, and the tilt."""

    step: float
    cells: int
    parts: Sequence[tuple[Discretised, int]]
    lam: float
    predicted: float


def _moments(parts: Sequence[tuple[Discretised, int]], upper: bool) -> list[tuple[Array, Array, int]]:
    out = []
    for item, count in parts:
        measure = item.upper if upper else item.lower
        used = np.flatnonzero(measure.mass)
        out.append((measure.mass[used], measure.losses[used], count))
    return out


def _mesh(parts: Parts, step: float, log_tail: float, lam: float, floors: Sequence[float]) -> _Mesh:
    """Discretise at one step, and predict the width in epsilon from the moments of the two measures at the tilt."""
    items = [
        (discretise(pair, step, log_tail, floor), count) for (pair, count), floor in zip(parts, floors, strict=True)
    ]
    above, below = _moments(items, True), _moments(items, False)
    gap = sum(n * log_sum(m, lam * x) for m, x, n in above) - sum(
        n * log_sum(m, lam * x) if m.size else -np.inf for m, x, n in below
    )
    cells = max(item.upper.mass.size for item, _ in items)
    return _Mesh(step, cells, items, lam, max(float(gap), 0.0) / lam)


def _span(parts: Parts, log_tail: float, floors: Sequence[float]) -> float:
    """Width of the widest one-step range of losses."""
    spans = [1e-300]
    for (pair, _), floor in zip(parts, floors, strict=True):
        edges = panel_edges(pair, log_tail, floor)
        ends = [loss for loss, _ in pair.atoms]
        if edges.size:
            ends += [float(v) for v in pair.loss(edges[[0, -1]])]
        spans.append(max(ends) - min(ends))
    return max(spans)


def _refine(
    parts: Parts,
    log_tail: float,
    goal: Callable[[_Mesh], float],
    log_delta: float | None,
    epsilon: float | None,
    tolerance: float,
) -> _Mesh:
    """Meshes of falling step until the predicted width meets `goal`, or a limit on cells, points or tries is reached.

    What is handed back fits into all of them: where the goal can't be met, it is the mesh that comes nearest.
    """
    nodes = [place_nodes(pair, n, first_panels(pair, log_tail)) for pair, n in parts]
    lam = find_tilt(nodes, log_delta, epsilon)
    log_moment = sum(n * tilt_nodes(part, lam).log_moment for part, (_, n) in zip(nodes, parts, strict=True))
    around = epsilon if log_delta is None else (log_moment - log_delta + float(log_gmax(lam))) / lam
    scale = tolerance * max(around or 0.0, 0.0)
    floors = _floors(nodes, lam)
    span = _span(parts, log_tail, floors)
    unit = _affordable(common_unit(parts), span, len(parts), MAX_CELLS)
    total = sum(n for _, n in parts)
    coarse = 0.0
    if scale > 0:  # the expected width is about T (1 + lam) h^2 / 4
        coarse = float(np.sqrt(2 * scale / total / (1 + lam)))
    step = max(span / FIRST_CELLS, coarse)
    if unit > 0 and all(is_atomic(pair) for pair, _ in parts):
        step = unit
    return _finer(parts, log_tail, goal, lam, floors, step, MAX_POINTS, MAX_CELLS)


def _finer(
    parts: Parts,
    log_tail: float,
    goal: Callable[[_Mesh], float],
    lam: float,
    floors: Sequence[float],
    first: float,
    most_points: int,
    most_cells: int,
) -> _Mesh:
    """From the step `first` on; as `_refine`."""
    unit = _affordable(common_unit(parts), _span(parts, log_tail, floors), len(parts), most_cells)
    step = _snapped(min(first, MOST_STEP), unit)
    crowd = max(1.0, len(parts) / FEW_PARTS)
    for _ in range(MAX_MESHES):
        mesh = _mesh(parts, step, log_tail, lam, floors)
        target, finest = goal(mesh), crowd * max(_finest(mesh, most_points), mesh.step * mesh.cells / most_cells)
        fits = finest <= mesh.step
        if fits and mesh.predicted <= target:
            break
        ratio = float(np.sqrt(target / mesh.predicted)) * 0.9 if mesh.predicted > target else 1.0
        step = _snapped(max(mesh.step * float(np.clip(ratio, 1 / 64, 0.7)), 1.05 * finest), unit)
        if step == mesh.step or (fits and step > 0.8 * mesh.step):
            break
    return mesh


def _floors(nodes: Sequence[Nodes], lam: float) -> list[float]:
    """For each part the loss below which nothing matters at this tilt."""
    unimportant = LOG_UNIMPORTANT - float(np.log(sum(part.count for part in nodes)))
    return [(tilt_nodes(part, lam).log_moment + unimportant) / lam for part in nodes]


def _finest(mesh: _Mesh, most_points: int) -> float:
    """About the least step at which the window of the composition fits into so many points."""
    low, high = window([tilt(item.upper, count, mesh.lam) for item, count in mesh.parts], mesh.step)
    return mesh.step * (high - low + 2) / most_points


def common_unit(parts: Parts) -> float:
    """A length that divides the gaps between the atoms of the part whose atoms weigh most in the sum; 0 without atoms.

    On a lattice of a whole fraction of it these atoms are met exactly and cost nothing.
    """
    weight, unit = 0.0, 0.0
    for pair, count in parts:
        losses = sorted({loss for loss, _ in pair.atoms})
        if len(losses) < 2 or count * sum(p for _, p in pair.atoms) <= weight:
            continue
        gaps = np.diff(losses)
        least = float(gaps.min())
        multiples = gaps / least
        if np.all(np.abs(multiples - np.round(multiples)) < 1e-9):
            weight, unit = count * sum(p for _, p in pair.atoms), least
    return unit


def _affordable(unit: float, span: float, parts: int, most_cells: int) -> float:
    """The unit, or 0 where it is so short beside the widest pair that a lattice of it would not fit."""
    return unit if unit * most_cells >= 2 * max(1.0, parts / FEW_PARTS) * span else 0.0


def _snapped(step: float, unit: float) -> float:
    """The largest whole fraction of the unit that is not above step; the unit itself if step is larger."""
    return unit / max(1, int(np.ceil(unit / step))) if unit > 0 else step


def _compositions(mesh: _Mesh) -> tuple[Composition, Composition]:
    mass_errors = [item.mass_error for item, _ in mesh.parts]
    loss_errors = [item.loss_error for item, _ in mesh.parts]
    lower = compose([(d.lower, n) for d, n in mesh.parts], mesh.lam, -1, mass_errors, loss_errors)
    upper = compose([(d.upper, n) for d, n in mesh.parts], mesh.lam, 1, mass_errors, loss_errors)
    return lower, upper


def _detail(mesh: _Mesh, upper: Composition) -> dict[str, object]:
    return {
        "method": "lattice",
        "mesh": mesh.step,
        "levels": 1,
        "tilt": mesh.lam,
        "cells": mesh.cells,
        "points": upper.mass.size,
        "error_budget": {
            "discretisation": mesh.predicted,
            "fft_entry": upper.entry_error,
            "relative": upper.relative_error,
            "loss": upper.loss_error,
            "infinite": upper.infinite,
        },
    }


def mesh_epsilon(
    parts: Parts, delta: float, tolerance: float, epsilon: float | None = None
) -> tuple[float, float, dict[str, object]]:
    """(lower, upper, detail) for epsilon at delta in (0, 1). Raises NotCertified where the lattice gets too large.

    epsilon: a rough value, for a tilt that is made for it and not for the Chernoff bound.
    """
    log_delta = float(np.log(delta))
    log_tail = tail_level(parts, log_delta, 4e-4 * tolerance)

    def goal(mesh: _Mesh) -> float:
        around = _epsilon_guess(mesh, log_delta) if epsilon is None else epsilon
        return tolerance * max(around, 1e-3 / mesh.lam) * 0.8

    mesh = _refine(parts, log_tail, goal, None if epsilon is not None else log_delta, epsilon, tolerance)
    lower, upper = _compositions(mesh)
    reference = _epsilon_guess(mesh, log_delta) if epsilon is None else epsilon
    low, high = invert(lower, delta, -1, reference), invert(upper, delta, 1, reference)
    return low or _probe(lower, delta, high), high, _detail(mesh, upper)


def _probe(lower: Composition, delta: float, high: float) -> float:
    """A lower end left of the window, where the table has no point: about the largest epsilon below `high` that is proven.

    Sought among high (1 - 1.5^k 1e-12): the delta of the lower measure falls in epsilon.
    """
    if not (0 < high < np.inf):
        return 0.0
    candidates = high * (1 - 1e-12 * 1.5 ** np.arange(PROBES))
    bad, good = -1, PROBES - 1
    if not evaluate(lower, float(candidates[good]), -1) > delta:
        return 0.0
    while good - bad > 1:
        middle = (bad + good) // 2
        if evaluate(lower, float(candidates[middle]), -1) > delta:
            good = middle
        else:
            bad = middle
    return float(candidates[good])


def _epsilon_guess(mesh: _Mesh, log_delta: float) -> float:
    """The Chernoff bound of epsilon at the tilt: some percent high."""
    lam = mesh.lam
    k = sum(n * log_sum(m, lam * x) for m, x, n in _moments(mesh.parts, True))
    return max(0.0, (k - log_delta + float(log_gmax(lam))) / lam)


def mesh_delta(
    parts: Parts, epsilon: float, log_delta: float, tolerance: float
) -> tuple[float, float, dict[str, object]]:
    """(lower, upper, detail) for delta at epsilon >= 0; log_delta: a rough estimate, which only places the tails."""
    log_tail = tail_level(parts, log_delta - 5.0, 4e-4 * tolerance)
    mesh = _refine(parts, log_tail, lambda m: 0.8 * tolerance / m.lam, None, epsilon, 0.0)
    lower, upper = _compositions(mesh)
    return evaluate(lower, epsilon, -1), evaluate(upper, epsilon, 1), _detail(mesh, upper)


def upper_composition(parts: Parts, log_delta: float, tolerance: float) -> Composition:
    """The measure above the composition of `parts`, tilted and refined for delta = e^log_delta; for many epsilons."""
    return both_compositions(parts, log_delta, tolerance)[1]


def both_compositions(parts: Parts, log_delta: float, tolerance: float) -> tuple[Composition, Composition]:
    """The measures below and above; `evaluate` gives ends of delta at any epsilon, sharp around e^log_delta."""
    log_tail = tail_level(parts, log_delta, 4e-4 * tolerance)

    def goal(mesh: _Mesh) -> float:
        return tolerance * max(_epsilon_guess(mesh, log_delta), 1e-3 / mesh.lam) * 0.8

    return _compositions(_refine(parts, log_tail, goal, log_delta, None, tolerance))


def table_compositions(
    parts: Parts, epsilon: float, *, ahead: float, tolerance: float
) -> tuple[Composition, Composition]:
    """The measures below and above for `tabulated`, which serve every epsilon around this one.

    ahead: how many standard deviations of the tilted sum the tilt lies beyond that of epsilon. tolerance: wanted relative
    width of delta there, met as far as TABLE_POINTS allow. Raises NotCertified where no mesh of so few points composes.
    """
    level = chernoff_log_delta(parts, epsilon)
    deep = -0.5 * (float(np.sqrt(-2 * level)) + ahead) ** 2
    log_tail = deep + float(np.log(0.02 * tolerance / sum(n for _, n in parts)))
    nodes = [place_nodes(pair, n, first_panels(pair, log_tail)) for pair, n in parts]
    lam = find_tilt(nodes, None, epsilon)
    if ahead:  # not so far that a few extreme losses decide, which have a spread of their own
        spread = float(np.sqrt(sum(part.count * tilt_nodes(part, lam).variance for part in nodes)))
        lam = max(lam, min(lam + ahead / spread, find_tilt(nodes, deep, None)))
    else:  # far below all that is likely, where every tilt close to 0 does as well
        spread = sum(part.count * abs(tilt_nodes(part, lam).mean) for part in nodes)
        lam = max(lam, 1 / spread)
    floors = _floors(nodes, lam / 8)  # what a smaller tilt needs stays
    first = _span(parts, log_tail, floors) / FIRST_CELLS
    cells = min(TABLE_CELLS, TABLE_TERMS // max(getattr(pair, "group", 1) for pair, _ in parts))
    mesh = _finer(parts, log_tail, lambda m: tolerance / m.lam, lam, floors, first, TABLE_POINTS, cells)
    return _compositions(mesh)
