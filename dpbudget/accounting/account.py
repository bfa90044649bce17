"""Guarantees by any accountant: one way to ask."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dpbudget.accounting import coarse
from dpbudget.accounting.accountants import ACCOUNTANTS as ACCOUNTANTS
from dpbudget.accounting.accountants import Accountant, Question
from dpbudget.accounting.ledger import NO_NOISE as NO_NOISE
from dpbudget.accounting.ledger import Ledger as Ledger
from dpbudget.accounting.ledger import Parallel as Parallel
from dpbudget.accounting.ledger import Parts as Parts
from dpbudget.checks import choice
from dpbudget.errors import ContradictionError, NotCertified
from dpbudget.model import Guarantee, Interval, Kind

DEFAULT_TOLERANCE = 1e-5


def get(name: str) -> Accountant:
    return ACCOUNTANTS[choice("accountant", name, ACCOUNTANTS)]


def _trivial(accountant: Accountant, value: float, reason: str) -> Guarantee:
    if accountant.kind is Kind.ESTIMATE:
        return Guarantee(accountant.name, accountant.kind, Interval(None, None, value), {"reason": reason})
    lower = value if accountant.kind is Kind.INTERVAL else None
    return Guarantee(accountant.name, accountant.kind, Interval(lower, value, lower), {"reason": reason})


def _ask(
    accountant: Accountant,
    quantity: Question,
    ledger: Ledger,
    argument: float,
    tolerance: float,
    at_most: float,
) -> Guarantee:
    if not ledger.counts:
        return _trivial(accountant, 0.0, "nothing is released")
    if ledger.unbounded:
        return _trivial(accountant, at_most, ledger.unbounded)
    if accountant.kind is Kind.ESTIMATE:
        guarantee = quantity(ledger, argument, tolerance)
    else:
        guarantee = coarse.between(ledger, lambda few: quantity(few, argument, tolerance))
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
