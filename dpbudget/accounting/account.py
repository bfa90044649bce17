"""Releases in, guarantees out: the one place that knows counts, directions and which accountant can do what.

Every accountant here accounts for fixed counts, rates and noise, chosen without looking at earlier outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from dpbudget.accounting import composition, concentrated, contour, gdp, lattice, moments, pairs, rdp, sampling, zcdp
from dpbudget.accounting.pairs import Pair
from dpbudget.errors import ContradictionError, InputError, NotCertified
from dpbudget.model import (
    ZCDP,
    Adjacency,
    ApproxDP,
    Gaussian,
    Guarantee,
    Interval,
    Kind,
    Laplace,
    Mechanism,
    PureDP,
    Release,
    SampledGaussian,
    Sampling,
)

Parts = list[tuple[Pair, int]]
DEFAULT_TOLERANCE = 1e-5
NARROW = 1e-7
"""Relative width below which the middle of a certified interval is as good an estimate as the contour's value."""
NO_NOISE = "no noise is added: the output reveals a record, and no epsilon is finite"


def _canonical(mechanism: Mechanism, adjacency: Adjacency) -> Mechanism:
    """A full batch, or a rate of 1, is a plain Gaussian release, its multiplier relative to what neighbours can move.

    A group moves the sum by its size times the clipping norm, and a replaced record by twice what a removed one does.
    """
    if isinstance(mechanism, SampledGaussian) and (
        mechanism.sampling is Sampling.FULL_BATCH
        or (mechanism.sampling is Sampling.POISSON and mechanism.sampling_rate == 1)
    ):
        distance = mechanism.group_size * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
        return Gaussian(mechanism.noise_multiplier / distance)
    return mechanism


def _order(mechanism: Mechanism) -> tuple[str, str]:
    return type(mechanism).__name__, repr(mechanism)


@dataclass(frozen=True)
class Ledger:
    """Releases merged and sorted, so that neither order nor repetition changes any answer."""

    counts: tuple[tuple[Mechanism, int], ...]
    adjacency: Adjacency

    @classmethod
    def of(cls, releases: Iterable[Release], adjacency: Adjacency) -> Ledger:
        totals: dict[Mechanism, int] = {}
        for release in releases:
            mechanism = _canonical(release.mechanism, adjacency)
            if release.count:
                totals[mechanism] = totals.get(mechanism, 0) + release.count
        return cls(tuple(sorted(totals.items(), key=lambda item: _order(item[0]))), adjacency)

    @property
    def unbounded(self) -> str:
        """Why no epsilon is finite; empty where there may be one."""
        silent = any(getattr(mechanism, "noise_multiplier", 1.0) == 0 for mechanism, _ in self.counts)
        return NO_NOISE if silent else ""

    @property
    def rho(self) -> float:
        """The sum over releases of which only zCDP is known: rho adds up (Bun, Steinke 2016, Lemma 1.7)."""
        return sum(count * mechanism.rho for mechanism, count in self.counts if isinstance(mechanism, ZCDP))

    def without_zcdp(self, *instead: Mechanism) -> Ledger:
        """The releases that have a pair, and others in place of those of which only zCDP is known."""
        kept = [Release(mechanism, count) for mechanism, count in self.counts if not isinstance(mechanism, ZCDP)]
        return Ledger.of([*kept, *(Release(mechanism) for mechanism in instead)], self.adjacency)

    def with_gaussians(self) -> Ledger:
        """The same with every rho-zCDP release a Gaussian one of that rho: a likely case, for estimates."""
        return self.without_zcdp(Gaussian(1 / math.sqrt(2 * self.rho))) if self.rho > 0 else self.without_zcdp()

    @cached_property
    def directions(self) -> Mapping[str, Parts]:
        """The dominating pairs with their counts, one composition for each direction of the adjacency.

        Plain Gaussians are one Gaussian: mu^2 adds up (Dong, Roth, Su 2022, arXiv:1905.02383, Cor. 3.3).
        """
        found = []
        precision = 0.0
        for mechanism, count in self.counts:
            if isinstance(mechanism, Gaussian):
                precision += count / mechanism.noise_multiplier**2
                continue
            special = None
            if isinstance(mechanism, SampledGaussian) and sampling.is_special(mechanism):
                special = sampling.composable(mechanism, count, self.adjacency)
            found.append(special or (pairs.dominating_pairs(mechanism, self.adjacency), count))
        if precision > 0:
            found.append(({"both": pairs.SampledGaussianRemove(1 / math.sqrt(precision), 1.0)}, 1))
        names = sorted({name for by_direction, _ in found for name in by_direction if name != "both"}) or ["both"]
        return {
            name: [(by_direction.get(name) or by_direction["both"], count) for by_direction, count in found]
            for name in reversed(names)
        }

    def gaussian_steps(self, accountant: str) -> list[tuple[float, float, int]]:
        """(sigma, q, count) for accountants that only know Poisson-sampled Gaussian steps."""
        steps = []
        for mechanism, count in self.counts:
            if isinstance(mechanism, Gaussian):
                steps.append((mechanism.noise_multiplier, 1.0, count))
            elif (
                isinstance(mechanism, SampledGaussian)
                and mechanism.sampling is Sampling.POISSON
                and mechanism.group_size == 1
                and self.adjacency is not Adjacency.REPLACE_ONE
            ):
                steps.append((mechanism.noise_multiplier, mechanism.sampling_rate, count))
            else:
                raise InputError(
                    "accountant",
                    f"{accountant} has no proof for this mechanism under {self.adjacency}",
                    hint="Use --accountant pld.",
                )
        return steps


@dataclass(frozen=True)
class Parallel:
    """Ledgers over disjoint parts of the data: a record is in one of them, so the total is the largest of them."""

    ledgers: tuple[Ledger, ...]


@dataclass(frozen=True)
class Accountant:
    """One engine behind one interface: epsilon at a delta, delta at an epsilon."""

    name: str
    kind: Kind
    title: str
    source: str
    epsilon: Callable[[Ledger, float, float], Guarantee]
    delta: Callable[[Ledger, float, float], Guarantee]


def _bound(name: str, value: float, **detail: object) -> Guarantee:
    return Guarantee(name, Kind.UPPER_BOUND, Interval(None, value), detail)


def _estimate(name: str, value: float, **detail: object) -> Guarantee:
    return Guarantee(name, Kind.ESTIMATE, Interval(None, None, value), detail)


# --- certified two-sided accounting ------------------------------------------------------------------------------


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
        known = [(pair, count) for pair, count in parts if pair.tight]
        if len(known) < len(parts):
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


@lru_cache(maxsize=256)
def _curve(pair: Pair) -> rdp.Array:
    return rdp.rdp_curve(pair, concentrated.ORDERS)


def _pld_with_zcdp(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
    """An (e, d)-DP release is e-DP apart from an event of probability d (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776)."""
    rest = ledger.without_zcdp()
    pure = [Release(PureDP(m.epsilon) if isinstance(m, ApproxDP) else m, count) for m, count in rest.counts]
    directions = Ledger.of(pure, ledger.adjacency).directions.values()
    totals = [np.sum([count * _curve(pair) for pair, count in parts], axis=0) for parts in directions]
    value = concentrated.epsilon(
        ledger.rho,
        delta,
        curve=np.max(totals, axis=0) if rest.counts else None,
        failure=sum(count * m.delta for m, count in rest.counts if isinstance(m, ApproxDP)),
        gaussian=lambda sigma: epsilon(ledger.without_zcdp(Gaussian(sigma)), delta, tolerance=tolerance).value.lower,
    )
    reason = "for the worst mechanism with the stated zCDP"
    return Guarantee("pld", Kind.INTERVAL, value, {"gap": "analysis", "met_tolerance": True, "reason": reason})


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
    kind = sampling.gap(run[0])
    return Guarantee("pld", Kind.INTERVAL, value, {"gap": kind, "met_tolerance": met or kind == "analysis"})


def _pld_epsilon(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
    if (run := _alone(ledger)) is not None:
        return _special(run, sampling.epsilon(*run, ledger.adjacency, delta, tolerance), tolerance)
    if ledger.rho > 0:
        return _pld_with_zcdp(ledger, delta, tolerance)
    found = _pld(ledger, delta, tolerance, lattice.certify_epsilon, contour.epsilon)
    if found.value.upper == 0:
        return replace(
            found, detail={**found.detail, "reason": "delta is above the total variation distance: epsilon is 0"}
        )
    return found


def _pld_delta(ledger: Ledger, epsilon: float, tolerance: float) -> Guarantee:
    if (run := _alone(ledger)) is not None:
        return _special(run, sampling.delta(*run, ledger.adjacency, epsilon, tolerance), tolerance)
    return _pld(ledger, epsilon, tolerance, lattice.certify_delta, contour.delta)


# --- upper bounds -----------------------------------------------------------------------------------------------------


def _rdp(name: str, conversion: rdp.Conversion) -> tuple[Callable[[Ledger, float, float], Guarantee], ...]:
    def epsilon(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
        bounds = [rdp.epsilon(parts, delta, conversion=conversion) for parts in ledger.directions.values()]
        worst = max(bounds, key=lambda bound: bound.epsilon)
        return _bound(name, worst.epsilon, order=worst.order)

    def delta(ledger: Ledger, epsilon: float, tolerance: float) -> Guarantee:
        bounds = [rdp.delta(parts, epsilon, conversion=conversion) for parts in ledger.directions.values()]
        worst = max(bounds, key=lambda bound: bound.delta)
        return _bound(name, worst.delta, order=worst.order)

    return epsilon, delta


def _both_directions(ledger: Ledger) -> tuple[Parts, Parts | None]:
    """The moments accountant takes the larger direction moment by moment, for the steps that it is defined for."""
    ledger.gaussian_steps("moments")
    first, *others = ledger.directions.values()
    return first, others[0] if others else None


def _moments_epsilon(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
    parts, reverse = _both_directions(ledger)
    bound = moments.epsilon(parts, delta, reverse=reverse)
    return _bound("moments", bound.epsilon, order=bound.order)


def _moments_delta(ledger: Ledger, epsilon: float, tolerance: float) -> Guarantee:
    parts, reverse = _both_directions(ledger)
    bound = moments.delta(parts, epsilon, reverse=reverse)
    return _bound("moments", bound.delta, order=bound.order)


def _composition(rule: str) -> tuple[Callable[[Ledger, float, float], Guarantee], ...]:
    def epsilon(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
        bound = composition.epsilon_subsampled(rule, ledger.gaussian_steps(rule), delta)
        return _bound(rule, bound.epsilon, epsilon_per_step=bound.eps0, delta_per_step=bound.delta0)

    def delta(ledger: Ledger, epsilon: float, tolerance: float) -> Guarantee:
        return _bound(rule, composition.delta_subsampled(rule, ledger.gaussian_steps(rule), epsilon))

    return epsilon, delta


def _rho(ledger: Ledger) -> float:
    total = 0.0
    for mechanism, count in ledger.counts:
        if isinstance(mechanism, PureDP):
            total += count * mechanism.epsilon**2 / 2
        elif isinstance(mechanism, Laplace) and mechanism.sampling_rate == 1:
            # pure DP, at twice the distance where a record is replaced
            distance = 2 if ledger.adjacency is Adjacency.REPLACE_ONE else 1
            total += count * (distance / mechanism.scale) ** 2 / 2
        elif hasattr(mechanism, "rho"):
            total += count * mechanism.rho
        elif isinstance(mechanism, Gaussian):
            [(sigma, _, _)] = Ledger(((mechanism, count),), ledger.adjacency).gaussian_steps("zcdp")
            total += count * zcdp.rho_of_gaussian(sigma)
        else:
            raise InputError(
                "accountant",
                "zcdp accounts for full-batch releases only: sampling has no useful zCDP guarantee",
                hint="Use --accountant rdp or pld.",
            )
    return total


def _zcdp_epsilon(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
    rho = _rho(ledger)
    return _bound("zcdp", zcdp.epsilon(rho, delta), rho=rho)


def _zcdp_delta(ledger: Ledger, epsilon: float, tolerance: float) -> Guarantee:
    rho = _rho(ledger)
    return _bound("zcdp", zcdp.delta(rho, epsilon), rho=rho)


# --- estimates --------------------------------------------------------------------------------------------------------


def _gdp_epsilon(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
    mu = gdp.mu_clt_poisson(ledger.gaussian_steps("gdp-clt"))
    return _estimate("gdp-clt", gdp.epsilon(mu, delta), mu=mu)


def _gdp_delta(ledger: Ledger, epsilon: float, tolerance: float) -> Guarantee:
    mu = gdp.mu_clt_poisson(ledger.gaussian_steps("gdp-clt"))
    return _estimate("gdp-clt", gdp.delta(mu, epsilon), mu=mu)


def _thumb_epsilon(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
    return _estimate("rule-of-thumb", gdp.rule_of_thumb(ledger.gaussian_steps("rule-of-thumb"), delta))


def _thumb_delta(ledger: Ledger, epsilon: float, tolerance: float) -> Guarantee:
    return _estimate("rule-of-thumb", gdp.rule_of_thumb_delta(ledger.gaussian_steps("rule-of-thumb"), epsilon))


ACCOUNTANTS: Mapping[str, Accountant] = {
    accountant.name: accountant
    for accountant in (
        Accountant(
            "pld",
            Kind.INTERVAL,
            "privacy loss distribution, certified from both sides",
            "docs/math.md",
            _pld_epsilon,
            _pld_delta,
        ),
        Accountant(
            "rdp",
            Kind.UPPER_BOUND,
            "Renyi DP at the best real order, 2020 conversion",
            "arXiv:1908.10530, arXiv:2004.00010",
            *_rdp("rdp", "improved"),
        ),
        Accountant(
            "rdp-classic",
            Kind.UPPER_BOUND,
            "Renyi DP at the best real order, 2017 conversion",
            "arXiv:1908.10530, arXiv:1702.07476",
            *_rdp("rdp-classic", "classic"),
        ),
        Accountant(
            "moments",
            Kind.UPPER_BOUND,
            "moments accountant, integer moments 1 to 32",
            "arXiv:1607.00133",
            _moments_epsilon,
            _moments_delta,
        ),
        Accountant("basic", Kind.UPPER_BOUND, "sum of the steps", "arXiv:1807.01647", *_composition("basic")),
        Accountant("strong", Kind.UPPER_BOUND, "Dwork-Rothblum-Vadhan", "FOCS 2010", *_composition("strong")),
        Accountant(
            "kov", Kind.UPPER_BOUND, "Kairouz-Oh-Viswanath, closed form", "arXiv:1311.0776", *_composition("kov")
        ),
        Accountant(
            "kov-exact",
            Kind.UPPER_BOUND,
            "Kairouz-Oh-Viswanath, optimal",
            "arXiv:1311.0776",
            *_composition("kov-exact"),
        ),
        Accountant("zcdp", Kind.UPPER_BOUND, "zero-concentrated DP", "arXiv:1605.02658", _zcdp_epsilon, _zcdp_delta),
        Accountant(
            "gdp-clt",
            Kind.ESTIMATE,
            "Gaussian DP central limit, neither an upper nor a lower bound",
            "arXiv:1911.11607",
            _gdp_epsilon,
            _gdp_delta,
        ),
        Accountant(
            "rule-of-thumb",
            Kind.ESTIMATE,
            "q sqrt(T ln(1/delta)) / sigma, proven by nobody",
            "folklore",
            _thumb_epsilon,
            _thumb_delta,
        ),
    )
}


def get(name: str) -> Accountant:
    if name not in ACCOUNTANTS:
        raise InputError(
            "accountant", f"{name!r} is not an accountant", hint=f"Choose from {', '.join(ACCOUNTANTS)}, all."
        )
    return ACCOUNTANTS[name]


def _trivial(accountant: Accountant, value: float, reason: str) -> Guarantee:
    if accountant.kind is Kind.ESTIMATE:
        return replace(_estimate(accountant.name, value), detail={"reason": reason})
    lower = value if accountant.kind is Kind.INTERVAL else None
    return Guarantee(accountant.name, accountant.kind, Interval(lower, value, lower), {"reason": reason})


def _ask(
    accountant: Accountant,
    quantity: Callable[[Ledger, float, float], Guarantee],
    ledger: Ledger,
    argument: float,
    tolerance: float,
    at_most: float,
) -> Guarantee:
    if not ledger.counts:
        return _trivial(accountant, 0.0, "nothing is released")
    if ledger.unbounded:
        return _trivial(accountant, at_most, ledger.unbounded)
    guarantee = quantity(ledger, argument, tolerance)
    numbers = [guarantee.value.lower, guarantee.value.upper, guarantee.value.estimate]
    if any(number is not None and math.isnan(number) for number in numbers):
        raise NotCertified(f"{accountant.name} met a number that is not one; no bound is reported")
    return guarantee


def _largest(guarantees: Sequence[Guarantee]) -> Guarantee:
    """The guarantee of the worst part, with the ends of the maximum: both ends of a maximum are maxima of ends."""
    worst = max(guarantees, key=lambda g: math.inf if g.value.upper is None else g.value.upper)
    lowers = [g.value.lower for g in guarantees]
    estimates = [g.value.estimate for g in guarantees]
    value = Interval(
        None if None in lowers else max(x for x in lowers if x is not None),
        worst.value.upper,
        None if None in estimates else max(x for x in estimates if x is not None),
    )
    return replace(worst, value=value)


def epsilon(
    ledger: Ledger | Parallel, delta: float, *, accountant: str = "pld", tolerance: float = DEFAULT_TOLERANCE
) -> Guarantee:
    """Epsilon of all releases at delta, by one accountant. Upper ends err upwards only, lower ends downwards only.

    Raises InputError where the accountant has no proof for a mechanism, NotCertified where no bound was reached.
    """
    if isinstance(ledger, Parallel):
        return _largest([epsilon(part, delta, accountant=accountant, tolerance=tolerance) for part in ledger.ledgers])
    chosen = get(accountant)
    return _ask(chosen, chosen.epsilon, ledger, delta, tolerance, math.inf)


def delta(
    ledger: Ledger | Parallel, epsilon: float, *, accountant: str = "pld", tolerance: float = DEFAULT_TOLERANCE
) -> Guarantee:
    """Delta of all releases at epsilon >= 0, by one accountant. Directions of error as for epsilon."""
    if isinstance(ledger, Parallel):
        return _largest([delta(part, epsilon, accountant=accountant, tolerance=tolerance) for part in ledger.ledgers])
    chosen = get(accountant)
    return _ask(chosen, chosen.delta, ledger, epsilon, tolerance, 1.0)


def cross_check(guarantees: Sequence[Guarantee]) -> None:
    """A certified lower end above another certified upper end is a defect: raise instead of reporting either."""
    for low in guarantees:
        for high in guarantees:
            if low.value.lower is not None and high.value.upper is not None and low.value.lower > high.value.upper:
                raise ContradictionError(
                    f"{low.accountant} proves at least {low.value.lower!r}, "
                    f"{high.accountant} at most {high.value.upper!r}: one of them is wrong",
                    hint="No result is reported. Please report this with the exact command line.",
                )


def epsilons(
    ledger: Ledger, deltas: Sequence[float], *, accountant: str = "pld", tolerance: float = DEFAULT_TOLERANCE
) -> list[Guarantee]:
    """Epsilon at several deltas; the work that does not depend on delta is shared where the engine can."""
    return [epsilon(ledger, delta, accountant=accountant, tolerance=tolerance) for delta in deltas]
