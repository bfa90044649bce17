"""Certified intervals for epsilon and delta of a composition of dominating pairs, one direction at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpbudget.accounting.convolve import Composition, compose, evaluate, invert, log_sum, saddle
from dpbudget.accounting.discretise import Discretised, discretise
from dpbudget.accounting.pairs import Array, Pair
from dpbudget.errors import InputError, NotCertified

Parts = Sequence[tuple[Pair, int]]
MAX_CELLS = 2**20
FIRST_CELLS = 1500


@dataclass(frozen=True)
class Bracket:
    """lower <= truth <= upper, both proven for the composition of the pairs; upper may be inf.

    met_tolerance: upper - lower <= tolerance * upper. detail: method, mesh, tilt, sizes, where the width comes from.
    """

    lower: float
    upper: float
    met_tolerance: bool
    detail: Mapping[str, object] = field(default_factory=dict)


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
        out.append((measure.mass[used], measure.step * (measure.first + used).astype(np.float64), count))
    return out


def _mesh(parts: Parts, step: float, log_tail: float, log_delta: float | None, epsilon: float | None) -> _Mesh:
    """Discretise at one step; the tilt by saddle point, and the width in epsilon that the two measures predict."""
    items = [(discretise(pair, step, log_tail), count) for pair, count in parts]
    above, below = _moments(items, True), _moments(items, False)
    lam = saddle(above, log_delta, epsilon)
    gap = sum(n * log_sum(m, lam * x) for m, x, n in above) - sum(
        n * log_sum(m, lam * x) if m.size else np.inf for m, x, n in below
    )
    cells = max(item.upper.mass.size for item, _ in items)
    return _Mesh(step, cells, items, lam, max(float(gap), 0.0) / lam)


def _span(parts: Parts, log_tail: float) -> float:
    """Width of the widest one-step range of losses."""
    spans = []
    for pair, _ in parts:
        lo, hi = pair.support(log_tail)
        ends = [loss for loss, _ in pair.atoms]
        if hi > lo:
            ends += [float(v) for v in pair.loss(np.array([lo, hi]))]
        spans.append(max(ends) - min(ends))
    return max(max(spans), 1e-300)


def _checked(parts: Parts, tolerance: float) -> list[tuple[Pair, int]]:
    if not (0 < tolerance < 1):
        raise InputError("tolerance", f"{tolerance} is not in (0, 1)")
    kept: dict[Pair, int] = {}
    for pair, count in parts:
        if not (0 <= count <= 10**12):
            raise InputError("count", f"{count} is not a number of steps")
        if count:
            kept[pair] = kept.get(pair, 0) + int(count)
    return list(kept.items())


def _refine(
    parts: Parts, log_tail: float, goal: Callable[[_Mesh], float], log_delta: float | None, epsilon: float | None
) -> _Mesh:
    """Meshes of falling step until the predicted width meets `goal`, or the cells reach MAX_CELLS."""
    step = _span(parts, log_tail) / FIRST_CELLS
    while True:
        mesh = _mesh(parts, step, log_tail, log_delta, epsilon)
        target = goal(mesh)
        if mesh.predicted <= target or mesh.cells >= MAX_CELLS / 2:
            return mesh
        ratio = float(np.sqrt(target / mesh.predicted)) * 0.9
        step *= float(np.clip(ratio, max(1 / 64, mesh.cells / MAX_CELLS), 0.7))


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


def certify_epsilon(
    parts: Parts, delta: float, *, tolerance: float = 1e-5, guess: float | None = None
) -> Bracket:
    """Interval for the least epsilon >= 0 at which the composition of `parts` has hockey-stick divergence <= delta.

    parts: (pair, count). tolerance: wanted (upper - lower) / upper. guess: an estimate of epsilon, which saves work.
    lower is exactly 0 where nothing larger was proven; upper is inf where the mass at infinity alone may exceed delta.
    """
    if not (0 < delta <= 1):
        raise InputError("delta", f"{delta} is not in (0, 1]")
    kept = _checked(parts, tolerance)
    if not kept or delta == 1:
        return Bracket(0.0, 0.0, True, {"method": "trivial"})
    if sum(n * np.log1p(-pair.infinite_mass) if pair.infinite_mass < 1 else -np.inf for pair, n in kept) < np.log1p(
        -delta
    ):
        return Bracket(float("inf"), float("inf"), True, {"method": "trivial"})
    log_tail = float(np.log(delta) - np.log(sum(n for _, n in kept))) - 28.0
    log_delta = float(np.log(delta))

    def goal(mesh: _Mesh) -> float:
        return tolerance * max(_epsilon_guess(mesh, log_delta), 1e-3 / mesh.lam) * 0.8

    mesh = _refine(kept, log_tail, goal, log_delta, None)
    lower, upper = _compositions(mesh)
    reference = _epsilon_guess(mesh, log_delta)
    lo, hi = invert(lower, delta, -1, reference), invert(upper, delta, 1, reference)
    if not (lo <= hi):
        raise NotCertified("the ends of the interval are crossed")
    return Bracket(lo, hi, hi - lo <= tolerance * hi, _detail(mesh, upper))


def _epsilon_guess(mesh: _Mesh, log_delta: float) -> float:
    """Chernoff bound of epsilon at the tilt less the usual prefactor: good to a few percent."""
    k = sum(n * log_sum(m, mesh.lam * x) for m, x, n in _moments(mesh.parts, True))
    lam = mesh.lam
    return max(0.0, (k - log_delta - np.log1p(lam) - lam * np.log1p(1 / lam)) / lam)


def certify_delta(
    parts: Parts, epsilon: float, *, tolerance: float = 1e-5, guess: float | None = None
) -> Bracket:
    """Interval for the hockey-stick divergence of the composition of `parts` at epsilon >= 0.

    tolerance: wanted (upper - lower) / upper, relative in delta. guess: unused unless given an estimate of delta.
    """
    if not (epsilon >= 0):
        raise InputError("epsilon", f"{epsilon} is not >= 0")
    kept = _checked(parts, tolerance)
    if not kept or epsilon == np.inf:
        return Bracket(0.0, 0.0, True, {"method": "trivial"})
    log_guess = float(np.log(guess)) if guess else _log_delta_guess(kept, epsilon)
    log_tail = log_guess - float(np.log(sum(n for _, n in kept))) - 28.0
    mesh = _refine(kept, log_tail, lambda m: 0.8 * tolerance / m.lam, None, epsilon)
    lower, upper = _compositions(mesh)
    lo, hi = evaluate(lower, epsilon, -1), evaluate(upper, epsilon, 1)
    if not (lo <= hi):
        raise NotCertified("the ends of the interval are crossed")
    return Bracket(lo, hi, hi - lo <= tolerance * hi, _detail(mesh, upper))


def _log_delta_guess(parts: Parts, epsilon: float) -> float:
    """Chernoff bound of log delta on coarse meshes, the tail lowered until it no longer matters."""
    log_tail = -60.0
    for _ in range(12):
        mesh = _mesh(parts, _span(parts, log_tail) / FIRST_CELLS, log_tail, None, epsilon)
        lam = mesh.lam
        k = sum(n * log_sum(m, lam * x) for m, x, n in _moments(mesh.parts, False))
        bound = min(0.0, k - lam * epsilon - float(np.log1p(lam) + lam * np.log1p(1 / lam)))
        wanted = bound - float(np.log(sum(n for _, n in parts))) - 30.0
        if wanted >= log_tail:
            return bound
        log_tail = max(2 * log_tail, wanted)
    return log_tail
