"""The accountants: each is one engine behind one interface. A new one is two functions and an entry in ACCOUNTANTS.

Reading the names is light, so that help texts can: an engine, and numpy with it, is imported where it is asked.
Every accountant here accounts for fixed counts, rates and noise, chosen without looking at earlier outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbudget.errors import InputError
from dpbudget.model import Adjacency, Gaussian, Guarantee, Interval, Kind, Laplace, PureDP

if TYPE_CHECKING:
    from dpbudget.accounting.ledger import Ledger, Parts
    from dpbudget.accounting.rdp import Conversion

Question = Callable[["Ledger", float, float], Guarantee]
"""(ledger, delta or epsilon, relative tolerance) -> what is asked for."""


@dataclass(frozen=True)
class Accountant:
    """One engine behind one interface: epsilon at a delta, delta at an epsilon."""

    name: str
    kind: Kind
    title: str
    source: str
    epsilon: Question
    delta: Question


# --- certified from both sides ----------------------------------------------------------------------------------------


def _pld_epsilon(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
    from dpbudget.accounting import certified

    return certified.epsilon(ledger, delta, tolerance)


def _pld_delta(ledger: Ledger, epsilon: float, tolerance: float) -> Guarantee:
    from dpbudget.accounting import certified

    return certified.delta(ledger, epsilon, tolerance)


def _bound(name: str, value: float, **detail: float) -> Guarantee:
    """`detail` says where the bound comes from; what is not a number there, such as the order of no moment, is left out."""
    known = {key: number for key, number in detail.items() if not math.isnan(number)}
    return Guarantee(name, Kind.UPPER_BOUND, Interval(None, value), known)


def _estimate(name: str, value: float, **detail: object) -> Guarantee:
    return Guarantee(name, Kind.ESTIMATE, Interval(None, None, value), detail)


# --- upper bounds -----------------------------------------------------------------------------------------------------


def _rdp(name: str, conversion: Conversion) -> tuple[Question, Question]:
    def epsilon(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
        from dpbudget.accounting import rdp

        rho, each = ledger.rho, ledger.without_zcdp().directions.values()
        bounds = [rdp.epsilon(parts, delta, conversion=conversion, rho=rho) for parts in each]
        worst = max(bounds, key=lambda bound: bound.epsilon)
        return _bound(name, worst.epsilon, order=worst.order)

    def delta(ledger: Ledger, epsilon: float, tolerance: float) -> Guarantee:
        from dpbudget.accounting import rdp

        rho, each = ledger.rho, ledger.without_zcdp().directions.values()
        bounds = [rdp.delta(parts, epsilon, conversion=conversion, rho=rho) for parts in each]
        worst = max(bounds, key=lambda bound: bound.delta)
        return _bound(name, worst.delta, order=worst.order)

    return epsilon, delta


def _both_directions(ledger: Ledger) -> tuple[Parts, Parts | None]:
    """The moments accountant takes the larger direction moment by moment, for the steps that it is defined for."""
    ledger.gaussian_steps("moments")
    first, *others = ledger.directions.values()
    return first, others[0] if others else None


def _moments_epsilon(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
    from dpbudget.accounting import moments

    parts, reverse = _both_directions(ledger)
    bound = moments.epsilon(parts, delta, reverse=reverse)
    return _bound("moments", bound.epsilon, order=bound.order)


def _moments_delta(ledger: Ledger, epsilon: float, tolerance: float) -> Guarantee:
    from dpbudget.accounting import moments

    parts, reverse = _both_directions(ledger)
    bound = moments.delta(parts, epsilon, reverse=reverse)
    return _bound("moments", bound.delta, order=bound.order)


def _composition(rule: str) -> tuple[Question, Question]:
    def epsilon(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
        from dpbudget.accounting import composition

        bound = composition.epsilon_subsampled(rule, ledger.gaussian_steps(rule), delta)
        return _bound(rule, bound.epsilon, epsilon_per_step=bound.eps0, delta_per_step=bound.delta0)

    def delta(ledger: Ledger, epsilon: float, tolerance: float) -> Guarantee:
        from dpbudget.accounting import composition

        return _bound(rule, composition.delta_subsampled(rule, ledger.gaussian_steps(rule), epsilon))

    return epsilon, delta


def _rho(ledger: Ledger) -> float:
    from dpbudget.accounting import zcdp

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
            total += count * zcdp.rho_of_gaussian(mechanism.noise_multiplier)
        else:
            raise InputError(
                "accountant",
                "zcdp accounts for full-batch releases only: sampling has no useful zCDP guarantee",
                hint="Use --accountant rdp or pld.",
            )
    return total


def _zcdp_epsilon(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
    from dpbudget.accounting import zcdp

    rho = _rho(ledger)
    return _bound("zcdp", zcdp.epsilon(rho, delta), rho=rho)


def _zcdp_delta(ledger: Ledger, epsilon: float, tolerance: float) -> Guarantee:
    from dpbudget.accounting import zcdp

    rho = _rho(ledger)
    return _bound("zcdp", zcdp.delta(rho, epsilon), rho=rho)


# --- estimates --------------------------------------------------------------------------------------------------------


def _gdp_epsilon(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
    from dpbudget.accounting import gdp

    mu = gdp.mu_clt_poisson(ledger.gaussian_steps("gdp-clt"))
    return _estimate("gdp-clt", gdp.epsilon(mu, delta), mu=mu)


def _gdp_delta(ledger: Ledger, epsilon: float, tolerance: float) -> Guarantee:
    from dpbudget.accounting import gdp

    mu = gdp.mu_clt_poisson(ledger.gaussian_steps("gdp-clt"))
    return _estimate("gdp-clt", gdp.delta(mu, epsilon), mu=mu)


def _thumb_epsilon(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
    from dpbudget.accounting import gdp

    return _estimate("rule-of-thumb", gdp.rule_of_thumb(ledger.gaussian_steps("rule-of-thumb"), delta))


def _thumb_delta(ledger: Ledger, epsilon: float, tolerance: float) -> Guarantee:
    from dpbudget.accounting import gdp

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
        Accountant("zcdp", Kind.UPPER_BOUND, "zero-concentrated DP", "arXiv:1605.02065", _zcdp_epsilon, _zcdp_delta),
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
