"""What it costs to release the best of several runs: every bound that applies, the least of them first.

Conditions. The number of trials K is drawn independently of the data, before the first run, and never revealed. The
trials are independent and identically distributed given the data; a trial includes the draw of its hyper-parameters
and its score, so that the score is part of what the guarantee of a trial covers. The trial with the best score is
released, ties broken without looking at the data; if K = 0, a symbol that says so.

A fixed number of trials, or one that depends on the results ("until it is good enough"), is no random K: account for it
as composition. Tuning on public data costs nothing.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dpbudget.accounting import tuning_renyi
from dpbudget.accounting.pairs import Array
from dpbudget.accounting.search import DecimalGrid, most
from dpbudget.accounting.tuning_base import BaseRun, epsilon_of, least_passing, profile
from dpbudget.accounting.tuning_laws import (
    Binomial,
    Fixed,
    Law,
    Logarithmic,
    Poisson,
    RandomLaw,
    TruncatedNegativeBinomial,
)
from dpbudget.accounting.tuning_profile import (
    ratio_exponent,
    ratio_exponent_from_point,
    selection,
    shifted_delta,
)
from dpbudget.errors import InputError, NotCertified
from dpbudget.model import Guarantee, Interval, Kind

Delta = Callable[[float], float]
MOST_EPSILON = 1e6


@dataclass(frozen=True)
class Bound:
    """One theorem: its name, what it says in words, where it is from, and delta as a function of epsilon >= 0.

    epsilon: a closed form of the inverse, where there is one.
    """

    name: str
    delta: Delta
    epsilon: Callable[[float], float] | None = None


SOURCES: Mapping[str, tuple[str, str]] = {
    "composition": ("every run counted as a release", "docs/math.md"),
    "published": ("Renyi DP theorem for a random number of trials", "arXiv:2110.03620, Thm 2, Thm 6"),
    "published-pure": ("pure DP theorem for a random number of trials", "arXiv:1811.07971; arXiv:2110.03620, Cor. 3"),
    "profile": ("privacy profile, one point of the testing region", "arXiv:2402.06701"),
    "ratio": ("privacy profile, largest ratio over the testing region", "docs/math.md"),
    "divergence": ("privacy profile, f-divergence over the testing region", "docs/math.md"),
}


def law_named(name: str, trials: float, *, eta: float | None = None, most_trials: int | None = None) -> Law:
    """The law of K with `trials` expected trials: fixed, poisson, binomial, geometric, logarithmic, negative-binomial.

    eta: for negative-binomial alone.  most_trials: for binomial alone.  Raises InputError with the way out.
    """
    if not (0.0 < trials < math.inf):
        raise InputError("trials", f"{trials} is not a positive number of trials")
    if (eta is not None) != (name == "negative-binomial"):
        raise InputError("eta", "is needed with the negative-binomial law, and has no meaning with another")
    if (most_trials is not None) != (name == "binomial"):
        raise InputError("most_trials", "is needed with the binomial law, and has no meaning with another")
    match name:
        case "fixed":
            return Fixed(int(trials) if trials == int(trials) else trials)  # type: ignore[arg-type]
        case "poisson":
            return Poisson(float(trials))
        case "binomial":
            return Binomial.expecting(float(trials), most_trials or 0)
        case "geometric":
            return TruncatedNegativeBinomial.expecting(float(trials), 1.0)
        case "logarithmic":
            return Logarithmic(float(trials))
        case "negative-binomial":
            return TruncatedNegativeBinomial.expecting(float(trials), float(eta or 0.0))
    raise InputError(
        "trials",
        f"{name!r} is not a law of the number of trials",
        hint="Choose from fixed, geometric, negative-binomial, logarithmic, poisson, binomial.",
    )


def _worst(base: BaseRun, one: Callable[[str], Delta]) -> Delta:
    """The larger of the directions: the guarantee is the maximum of the whole expression."""
    each = [one(direction) for direction in base.directions]
    return lambda epsilon: max(delta(epsilon) for delta in each)


def _composition(base: BaseRun, runs: int) -> Bound:
    repeated = base.repeated(runs)

    def delta(epsilon: float) -> float:
        return max(float(profile(repeated, d, _one(epsilon))[0]) for d in repeated.directions)

    return Bound("composition", delta, lambda target: max(epsilon_of(repeated, d, target) for d in repeated.directions))


def _published(base: BaseRun, law: RandomLaw) -> Bound | None:
    curves = [tuning_renyi.winner_curve(base, law, direction) for direction in base.directions]
    used = [curve for curve in curves if curve is not None]
    if not used:
        return None
    return Bound(
        "published",
        lambda epsilon: max(tuning_renyi.delta(curve, epsilon)[0] for curve in used),
        lambda target: max(tuning_renyi.epsilon(curve, target)[0] for curve in used),
    )


def _pure(base: BaseRun, law: RandomLaw) -> Bound | None:
    """(2 + eta) epsilon for an epsilon-DP trial, at delta = 0; three epsilon for geometric stopping."""
    if base.pure_epsilon == math.inf or not isinstance(law, TruncatedNegativeBinomial):
        return None
    total = (2.0 + law.eta) * base.pure_epsilon * (1 + 1e-15)
    return Bound("published-pure", lambda epsilon: 0.0 if epsilon >= total else 1.0, lambda target: total)


def _shifted(name: str, base: BaseRun, law: RandomLaw, exponent: Callable[[BaseRun, RandomLaw, str], float]) -> Bound:
    def one(direction: str) -> Delta:
        c = exponent(base, law, direction)
        return lambda epsilon: shifted_delta(base, law, direction, c, epsilon)

    return Bound(name, _worst(base, one))


def _divergence(base: BaseRun, law: RandomLaw) -> Bound | None:
    chosen = [selection(base, law, direction) for direction in base.directions]
    used = [one for one in chosen if one is not None]
    if len(used) < len(chosen):
        return None
    return Bound("divergence", lambda epsilon: max(one.delta(epsilon) for one in used))


def bounds(base: BaseRun, law: Law) -> list[Bound]:
    """All theorems that apply to this law, in the order of SOURCES."""
    if isinstance(law, Fixed):
        return [_composition(base, law.trials)]
    if not isinstance(law, RandomLaw):
        raise InputError("law", f"no bound is known for {law!r}")
    found: list[Bound | None] = []
    if isinstance(law, Binomial):
        with contextlib.suppress(NotCertified):
            found.append(_composition(base, law.most))  # at most this many runs, whatever K is
    found += [
        _published(base, law),
        _pure(base, law),
        _shifted("profile", base, law, ratio_exponent_from_point),
        _shifted("ratio", base, law, ratio_exponent),
        _divergence(base, law),
    ]
    return [bound for bound in found if bound is not None]


def epsilon_bounds(base: BaseRun, law: Law, delta: float) -> list[Guarantee]:
    """An upper bound on epsilon >= 0 at delta in (0, 1) by each theorem, the least first; math.inf where one says nothing.

    Each epsilon was evaluated and passes: bound.delta(epsilon) <= delta.
    """
    if not (0.0 < delta < 1.0):
        raise InputError("delta", f"{delta} is not in (0, 1)")
    return _ranked({bound.name: _epsilon(bound, delta) for bound in bounds(base, law)}, law)


def delta_bounds(base: BaseRun, law: Law, epsilon: float) -> list[Guarantee]:
    """An upper bound on delta at epsilon >= 0 by each theorem, the least first."""
    if not (0.0 <= epsilon < math.inf):
        raise InputError("epsilon", f"{epsilon} is not a number >= 0")
    return _ranked({bound.name: bound.delta(epsilon) for bound in bounds(base, law)}, law)


def epsilon(base: BaseRun, law: Law, delta: float) -> Guarantee:
    """The least proven epsilon at delta; `detail["bounds"]` holds them all by name. Errs upwards only."""
    return _least(epsilon_bounds(base, law, delta))


def delta(base: BaseRun, law: Law, epsilon: float) -> Guarantee:
    """The least proven delta at epsilon; `detail["bounds"]` holds them all by name. Errs upwards only."""
    return _least(delta_bounds(base, law, epsilon))


def within(base: BaseRun, law: Law, epsilon: float, delta: float) -> bool:
    """Whether some bound proves (epsilon, delta). One evaluation of each bound and no search: for inverse questions."""
    return any(bound.delta(epsilon) <= delta for bound in reversed(bounds(base, law)))


def most_trials(
    base: BaseRun, family: Callable[[float], Law], epsilon: float, delta: float, *, digits: int = 4, least: float = 1.0
) -> float | None:
    """The largest expected number of trials, of `digits` digits and at most 1e9, that is proven to fit.

    family: the law with a given expected number, such as tuning_laws.Geometric or tuning_laws.Poisson.
    least: the smallest number to try. None where not even that fits. The answer passed `within`.
    """
    grid = DecimalGrid(digits)

    def fits(index: int) -> bool:
        return within(base, family(grid.value(index)), epsilon, delta)

    found = most(fits, grid.near(max(least, 10.0)), grid.near(least), grid.near(1e9))
    return None if found is None else grid.value(found)


def most_fixed_trials(base: BaseRun, epsilon: float, delta: float) -> int:
    """The largest fixed number of trials, at most 1e9, whose composition is proven to fit; 0 where not even one fits."""
    found = most(lambda k: k == 0 or within(base, Fixed(k), epsilon, delta), 4, 0, 10**9)
    return found or 0


def _one(epsilon: float) -> Array:
    return np.array([epsilon])


def _epsilon(bound: Bound, delta: float) -> float:
    if bound.epsilon is not None:
        return bound.epsilon(delta)
    high = 1.0
    while high < MOST_EPSILON and not bound.delta(high) <= delta:
        high *= 2.0
    return least_passing(bound.delta, delta, 0.0, high)


def _ranked(values: Mapping[str, float], law: Law) -> list[Guarantee]:
    if any(math.isnan(value) for value in values.values()):
        raise NotCertified("a bound on the cost of tuning is not a number")
    return [
        Guarantee(
            name,
            Kind.UPPER_BOUND,
            Interval(None, value),
            {"title": SOURCES[name][0], "source": SOURCES[name][1], "expected_trials": law.mean, "zero": law.zero},
        )
        for name, value in sorted(values.items(), key=lambda item: item[1])
    ]


def _least(ranked: list[Guarantee]) -> Guarantee:
    best = ranked[0]
    everything = {bound.accountant: bound.value.upper for bound in ranked}
    return Guarantee(best.accountant, best.kind, best.value, {**best.detail, "bounds": everything})
