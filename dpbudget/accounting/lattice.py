"""Certified intervals for epsilon and delta of a composition of dominating pairs, one direction at a time.

Three engines stand behind them, each two-sided and proven: the closed form of a single step, Fourier inversion where the
parts are smooth enough for their characteristic function to decay, and the lattice, which takes every pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpbudget.accounting import closed_form, fourier, mesh, rdp
from dpbudget.accounting.pair import Pair
from dpbudget.errors import ContradictionError, InputError, NotCertified

Parts = Sequence[tuple[Pair, int]]
Ends = tuple[float, float, dict[str, object]]
Engine = Callable[["Bracket | None"], Ends]

LOG_NOTHING = -690.0
SHARP = 1e-7
"""Fourier inversion costs the same at any tolerance down to here; its middle then serves as the estimate."""


@dataclass(frozen=True)
class Bracket:
    """lower <= truth <= upper, both proven for the composition of the pairs; upper may be inf.

    met_tolerance: upper - lower <= tolerance * upper. detail: "method" (closed form, fourier, lattice), and what the
    engine knows of its mesh, tilt, sizes and error budget.
    """

    lower: float
    upper: float
    met_tolerance: bool
    detail: Mapping[str, object] = field(default_factory=dict)


def certify_epsilon(parts: Parts, delta: float, *, tolerance: float = 1e-5) -> Bracket:
    """Interval for the least epsilon >= 0 at which the composition of `parts` has hockey-stick divergence <= delta.

    parts: (pair, count); order and repetition do not matter. tolerance: wanted (upper - lower) / upper, in (0, 1).
    lower is 0 where nothing larger was proven; both ends are exactly 0 where delta is shown to be at least the total
    variation. upper is inf where the mass at infinity may exceed delta.
    Raises InputError for a delta outside of (0, 1], NotCertified where no engine reaches a finite bound.
    """
    if not (0 < delta <= 1):
        raise InputError("delta", f"{delta} is not in (0, 1]")
    kept = _merged(parts, tolerance)
    if not kept or delta == 1:
        return Bracket(0.0, 0.0, True, {"method": "closed form"})
    if -float(np.expm1(_log_finite(kept))) * (1 - 1e-12) > delta:
        reason = "the probability of an infinite loss exceeds delta"
        return Bracket(float("inf"), float("inf"), True, {"method": "closed form", "reason": reason})
    if len(kept) == 1 and kept[0][1] == 1 and closed_form.has_closed_form(kept[0][0]):
        low, high = closed_form.epsilon_interval(kept[0][0], delta)
        return _bracket((low, high, {"method": "closed form"}), tolerance)
    if _total_variation(kept) <= delta:
        return Bracket(0.0, 0.0, True, {"method": "closed form"})
    log_delta = float(np.log(delta))

    def by_fourier(near: float | None, share: float) -> Ends:
        spectrum = fourier.build(kept, log_delta, near, min(tolerance, SHARP), share=share)
        return *spectrum.epsilon_bounds(delta), spectrum.detail()

    def jump(best: Bracket | None) -> float | None:
        found = fourier.single_jump_epsilon(kept, log_delta)
        return found if 0 < found < (best.upper if best else np.inf) else _finite_upper(best)

    asked: set[float | None] = set()

    def by_mesh(near: float | None) -> Ends:
        if near in asked:
            raise NotCertified("")  # the same mesh again
        asked.add(near)
        return mesh.mesh_epsilon(kept, delta, tolerance, near)

    found = _first_sharp(
        [
            lambda best: by_fourier(None, 1e-3),
            lambda best: by_fourier(jump(best), 1e-5),
            lambda best: by_fourier(_finite_upper(best), 1e-5),
        ],
        [
            lambda best: by_mesh(None),
            lambda best: by_mesh(jump(best)),
            lambda best: by_mesh(_finite_upper(best)),
            lambda best: _crude(kept, delta),
        ],
        tolerance,
    )
    cap = _largest_loss(kept)
    if found.upper > cap and _infinite_mass(kept) <= delta:  # from there on delta is the mass at infinity
        return _bracket((min(found.lower, cap), cap, dict(found.detail)), tolerance)
    return found


def certify_delta(parts: Parts, epsilon: float, *, tolerance: float = 1e-5) -> Bracket:
    """Interval for the hockey-stick divergence of the composition of `parts` at epsilon >= 0.

    As `certify_epsilon`; the tolerance is relative to delta.
    """
    if not (epsilon >= 0):
        raise InputError("epsilon", f"{epsilon} is not a number >= 0")
    kept = _merged(parts, tolerance)
    if not kept:
        return Bracket(0.0, 0.0, True, {"method": "closed form"})
    if epsilon == np.inf:
        mass = -float(np.expm1(_log_finite(kept)))
        return Bracket(mass * (1 - 1e-12), min(mass * (1 + 1e-12), 1.0), True, {"method": "closed form"})
    if len(kept) == 1 and kept[0][1] == 1 and closed_form.has_closed_form(kept[0][0]):
        low, high = closed_form.delta_interval(kept[0][0], epsilon)
        return _bracket((low, high, {"method": "closed form"}), tolerance)
    if epsilon >= _largest_loss(kept) and _log_finite(kept) == 0.0:
        return Bracket(0.0, 0.0, True, {"method": "closed form"})
    try:
        with np.errstate(all="ignore"):
            log_delta = fourier.chernoff_log_delta(kept, epsilon)
    except (ArithmeticError, ValueError):
        log_delta = LOG_NOTHING  # far beyond any loss that matters

    def by_fourier(level: float, share: float) -> Ends:
        spectrum = fourier.build(kept, level, epsilon, min(tolerance, SHARP), of_delta=True, share=share)
        return *spectrum.bounds(epsilon), spectrum.detail()

    def level(best: Bracket | None) -> float:
        return float(np.log(best.upper)) if best and best.upper > 0 else log_delta

    return _first_sharp(
        [lambda best: by_fourier(level(best), 1e-3), lambda best: by_fourier(level(best), 1e-5)],
        [
            lambda best: mesh.mesh_delta(kept, epsilon, level(best), tolerance),
            lambda best: mesh.mesh_delta(kept, epsilon, level(best), tolerance / 4),
            lambda best: _crude_delta(kept, epsilon),
        ],
        tolerance,
    )


def _merged(parts: Parts, tolerance: float) -> list[tuple[Pair, int]]:
    """Equal pairs together, in an order that does not depend on that of the input; counts of 0 left out."""
    if not (0 < tolerance < 1):
        raise InputError("tolerance", f"{tolerance} is not in (0, 1)")
    kept: dict[Pair, int] = {}
    for pair, count in parts:
        if not (0 <= count <= 10**12):
            raise InputError("steps", f"{count} is not a number of steps")
        if count:
            kept[pair] = kept.get(pair, 0) + int(count)
    return sorted(kept.items(), key=lambda item: repr(item[0]))


def _total_variation(parts: Parts) -> float:
    """An upper bound on the total variation: the sum over all steps (a hybrid argument); 1 where a step has none."""
    if not all(closed_form.has_closed_form(pair) for pair, _ in parts):
        return 1.0
    return min(1.0, sum(n * closed_form.delta_interval(pair, 0.0)[1] for pair, n in parts) * (1 + 1e-12))


def _largest_loss(parts: Parts) -> float:
    """No sum of finite losses exceeds this."""
    return float(sum(n * pair.largest_loss for pair, n in parts)) * (1 + 1e-12) + 1e-300


def _log_finite(parts: Parts) -> float:
    """log of the P-mass of all finite losses."""
    return float(sum(n * np.log1p(-p.infinite_mass) if p.infinite_mass < 1 else -np.inf for p, n in parts))


def _infinite_mass(parts: Parts) -> float:
    """The P-mass of infinite losses, rounded up; exact where one step has it all."""
    heavy = [(pair.infinite_mass, n) for pair, n in parts if pair.infinite_mass > 0]
    if not heavy:
        return 0.0
    if len(heavy) == 1 and heavy[0][1] == 1:
        return heavy[0][0]
    return -float(np.expm1(_log_finite(parts))) * (1 + 1e-12)


def _crude(parts: Parts, delta: float) -> Ends:
    """What is certain where no engine copes: one exponential moment above, the largest single step below."""
    low = max(
        (closed_form.epsilon_interval(p, delta)[0] for p, _ in parts if closed_form.has_closed_form(p)), default=0.0
    )
    return low, fourier.chernoff_epsilon(parts, delta), {"method": "moment bound"}


def _crude_delta(parts: Parts, epsilon: float) -> Ends:
    """One moment above, nothing below; never below what a double can hold."""
    return 0.0, max(min(1.0, rdp.delta(parts, epsilon).delta), 1e-300), {"method": "moment bound"}


def _finite_upper(best: Bracket | None) -> float | None:
    return best.upper if best and 0 < best.upper < np.inf else None


def _bracket(ends: Ends, tolerance: float) -> Bracket:
    low, high, detail = ends
    if not (low <= high):
        raise ContradictionError(f"the certified ends are crossed: [{low!r}, {high!r}]")
    return Bracket(low, high, bool(np.isfinite(high) and high - low <= tolerance * high), detail)


def _first_sharp(smooth: Sequence[Engine], rough: Sequence[Engine], tolerance: float) -> Bracket:
    """The first engine that meets the tolerance, else the intersection of what all of them proved.

    Each is handed the best interval so far. The rest of a family is skipped once one of it gives up.
    """
    best: Bracket | None = None
    reasons = []
    for family in (smooth, rough):
        for engine in family:
            try:
                with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
                    found = _bracket(engine(best), tolerance)
            except (fourier.TooRough, NotCertified, ArithmeticError, MemoryError, ValueError) as why:
                if isinstance(why, InputError):
                    raise
                reasons.append(str(why))
                if family is smooth:
                    break
                continue
            if best is not None:
                low, high = max(best.lower, found.lower), min(best.upper, found.upper)
                sharper = found if found.upper <= best.upper else best
                found = _bracket((low, high, dict(sharper.detail)), tolerance)
            if found.met_tolerance:
                return found
            best = found
    if best is None:
        raise NotCertified("; ".join(dict.fromkeys(filter(None, reasons))) or "no engine reached a bound")
    return best
