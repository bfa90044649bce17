"""The certified accountant: both directions composed apart, the larger taken at the end, both ends proven."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from dpbudget.accounting import (
    contour,
    lattice,
    rdp,
    sampling,
    tuning,
    tuning_base,
    tuning_laws,
    tuning_pairs,
)
from dpbudget.accounting.ledger import Ledger, Parts
from dpbudget.errors import ContradictionError, InputError
from dpbudget.model import (
    Adjacency,
    ApproxDP,
    Gaussian,
    Guarantee,
    Interval,
    Kind,
    Release,
    SampledGaussian,
    Tuned,
)

NARROW = 1e-7
"""Relative width below which the middle of a certified interval is as good an estimate as the contour's value."""


def _estimate_inside(
    bracket: lattice.Bracket, parts: Parts, argument: float, contour_at: Callable[[Parts, float], float | None]
) -> float | None:
    """The middle of a narrow interval; inside a wider one the contour's value, where it has one that lies there.

    A contour value outside the certified interval is worthless: it is dropped, never the certificate.
    """
    if not math.isfinite(bracket.upper):
        return None
    if bracket.upper - bracket.lower <= NARROW * bracket.upper:
        return (bracket.lower + bracket.upper) / 2
    estimate = contour_at(parts, argument)
    if estimate is None or not bracket.lower <= estimate <= bracket.upper:
        return (bracket.lower + bracket.upper) / 2 if bracket.met_tolerance else None
    return estimate


def _pld(
    ledger: Ledger,
    argument: float,
    tolerance: float,
    certify: Callable[..., lattice.Bracket],
    contour_at: Callable[[Parts, float], float | None],
) -> Guarantee:
    directions: dict[str, Interval] = {}
    detail: dict[str, object] = {}
    attained = True
    for name, parts in ledger.directions.items():
        bracket = certify(parts, argument, tolerance=tolerance)
        known = ledger.attained_directions[name]
        if known != parts:
            # What is only bounded from above says nothing from below: a part of the releases costs no more than all.
            lower = certify(known, argument, tolerance=tolerance).lower if known else 0.0
            bracket = replace(bracket, lower=min(lower, bracket.upper))
        if not bracket.lower <= bracket.upper:
            raise ContradictionError(f"the certified ends are crossed: [{bracket.lower!r}, {bracket.upper!r}]")
        directions[name] = Interval(
            float(bracket.lower), float(bracket.upper), _estimate_inside(bracket, parts, argument, contour_at)
        )
        detail[name] = dict(bracket.detail)
        attained = attained and len(known) == len(parts)
    ends = [
        (end.lower or 0.0, math.inf if end.upper is None else end.upper, end.estimate) for end in directions.values()
    ]
    lower, upper = max(end[0] for end in ends), max(end[1] for end in ends)
    estimates = [end[2] for end in ends if end[1] >= lower]  # a direction that lies below the other does not matter
    value = Interval(lower, upper, None if None in estimates else max(e for e in estimates if e is not None))
    met = lower == upper or (math.isfinite(upper) and upper - lower <= tolerance * upper)
    return Guarantee(
        "pld",
        Kind.INTERVAL,
        value,
        {
            "directions": directions,
            "gap": "numerical" if attained else "analysis",
            "met_tolerance": met,
            "engine": detail,
        },
    )


def _beside_zcdp(
    ledger: Ledger, upper: Callable[[Parts, float], float], lower: Callable[[Ledger], Guarantee]
) -> Guarantee:
    """No one pair is close to every rho-zCDP mechanism. Above: one moment, as `rdp`. Below: a Gaussian release, which is
    rho-zCDP at sigma = 1 / sqrt(2 rho) (Bun, Steinke 2016, arXiv:1605.02065, Prop. 1.6), beside the other releases.

    upper: the bound of one direction of the others, and of rho; lower: the same question without zCDP.
    """
    high = max(upper(parts, ledger.rho) for parts in ledger.without_zcdp().directions.values())
    low = lower(ledger.without_zcdp(Gaussian((1 + 1e-12) / math.sqrt(2 * ledger.rho)))).value.lower
    if low is not None and not low <= high:
        raise ContradictionError(f"a zCDP bound contradicts the Gaussian that it covers: {low!r} > {high!r}")
    reason = "for the worst mechanism with the stated zCDP"
    return Guarantee(
        "pld", Kind.INTERVAL, Interval(low, high), {"gap": "analysis", "met_tolerance": True, "reason": reason}
    )


def _alone(ledger: Ledger) -> tuple[SampledGaussian, int] | None:
    """The one run of the ledger, where its sampling has an engine of its own."""
    if len(ledger.counts) == 1:
        [(mechanism, count)] = ledger.counts
        if isinstance(mechanism, SampledGaussian) and sampling.is_special(mechanism):
            return mechanism, count
    return None


def _special(run: tuple[SampledGaussian, int], value: Interval, tolerance: float) -> Guarantee:
    lower, upper = value.lower, value.upper
    met = lower is not None and upper is not None and upper - lower <= max(tolerance, 1e-4) * upper
    gap = sampling.gap(run[0])
    kind = Kind.UPPER_BOUND if lower is None else Kind.INTERVAL
    return Guarantee("pld", kind, value, {"gap": gap, "met_tolerance": met or gap == "analysis"})


def _search(mechanism: Tuned, adjacency: Adjacency, delta: float) -> tuple[tuning_base.BaseRun, tuning_laws.Law]:
    base = Ledger.of([Release(mechanism.step, mechanism.steps)], adjacency)
    law = tuning.law_named(mechanism.law, mechanism.trials, eta=mechanism.eta, most_trials=mechanism.most_trials)
    return tuning_pairs.base_of(base, delta), law


@lru_cache(maxsize=256)
def _search_epsilon(mechanism: Tuned, adjacency: Adjacency, delta: float) -> float:
    """An upper bound for one search; kept, since a question about other releases beside it asks for it again."""
    return float(tuning.epsilon(*_search(mechanism, adjacency, delta), delta))


def _pld_with_searches(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
    """A search alone takes the least of its bounds; beside others it enters as the (epsilon, delta) guarantee that it has
    at its share of delta, which is sound for the worst mechanism with that guarantee. From below only the others count."""
    rest = ledger.instead_of_tuned()
    total = sum(count for _, count in ledger.tuned)
    share = delta if total == 1 and not rest.counts else delta / 2 / total
    stand_ins, parts = [], []
    for mechanism, count in ledger.tuned:
        upper = _search_epsilon(mechanism, ledger.adjacency, share)
        stand_ins.append(Release(ApproxDP(upper, share), count))
        parts.append(upper)
    lower = epsilon(rest, delta, tolerance=tolerance).value.lower if rest.counts else 0.0
    if total == 1 and not rest.counts:
        value = Interval(lower, parts[0])
    elif not all(map(math.isfinite, parts)):
        value = Interval(lower, math.inf)
    else:
        value = Interval(lower, epsilon(ledger.instead_of_tuned(*stand_ins), delta, tolerance=tolerance).value.upper)
    return Guarantee("pld", Kind.INTERVAL, value, {"gap": "analysis", "met_tolerance": True})


def epsilon(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
    if ledger.tuned:
        return _pld_with_searches(ledger, delta, tolerance)
    if (run := _alone(ledger)) is not None:
        return _special(run, sampling.epsilon(*run, ledger.adjacency, delta, tolerance), tolerance)
    if ledger.rho > 0:
        return _beside_zcdp(
            ledger,
            lambda parts, rho: rdp.epsilon(parts, delta, rho=rho).epsilon,
            lambda others: epsilon(others, delta, tolerance),
        )
    found = _pld(ledger, delta, tolerance, lattice.certify_epsilon, contour.epsilon)
    if found.value.upper == 0:
        return replace(
            found, detail={**found.detail, "reason": "delta is above the total variation distance: epsilon is 0"}
        )
    return found


def delta(ledger: Ledger, epsilon: float, tolerance: float) -> Guarantee:
    if ledger.tuned:
        if len(ledger.counts) > 1 or ledger.tuned[0][1] > 1:
            raise InputError(
                "epsilon", "delta of a search beside other releases is not implemented", hint="Ask for epsilon."
            )
        bound = tuning.delta(*_search(ledger.tuned[0][0], ledger.adjacency, 1e-9), epsilon)
        return Guarantee(
            "pld", Kind.INTERVAL, Interval(0.0, bound.value.upper), {"gap": "analysis", "met_tolerance": True}
        )
    if (run := _alone(ledger)) is not None:
        return _special(run, sampling.delta(*run, ledger.adjacency, epsilon, tolerance), tolerance)
    if ledger.rho > 0:
        return _beside_zcdp(
            ledger,
            lambda parts, rho: rdp.delta(parts, epsilon, rho=rho).delta,
            lambda others: delta(others, epsilon, tolerance),
        )
    return _pld(ledger, epsilon, tolerance, lattice.certify_delta, contour.delta)
