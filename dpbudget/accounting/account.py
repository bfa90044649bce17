"""Guarantees by any accountant: one registry, one way to ask.

Every accountant here accounts for fixed counts, rates and noise, chosen without looking at earlier outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dpbudget.accounting import certified, composition, gdp, moments, rdp, zcdp
from dpbudget.accounting.ledger import NO_NOISE as NO_NOISE
from dpbudget.accounting.ledger import Ledger as Ledger
from dpbudget.accounting.ledger import Parallel as Parallel
from dpbudget.accounting.ledger import Parts as Parts
from dpbudget.errors import ContradictionError, InputError, NotCertified
from dpbudget.model import Adjacency, Gaussian, Guarantee, Interval, Kind, Laplace, PureDP

DEFAULT_TOLERANCE = 1e-5


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
            certified.epsilon,
            certified.delta,
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
