"""Inverse questions: the least noise, the most steps, the largest rate for a target. The proven side, always."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpbudget.accounting import account, coarse, lattice
from dpbudget.accounting.account import DEFAULT_TOLERANCE, Ledger, Parallel
from dpbudget.accounting.search import DecimalGrid, crossing, least, most
from dpbudget.checks import MAX_STEPS
from dpbudget.errors import Infeasible, InputError, NotCertified
from dpbudget.model import Guarantee, Interval, Kind

LEAST_SIGMA, MOST_SIGMA = 1e-3, 1e12
LEAST_RATE = 1e-12
STEER_TOLERANCE = 1e-4
ROUGH_TOLERANCE = 1e-3
"""For samplings with an engine of their own, which takes seconds at 1e-4."""
Account = Ledger | Parallel


@dataclass(frozen=True)
class Target:
    """What has to be shown: epsilon at delta, by one accountant at one tolerance."""

    epsilon: float
    delta: float
    accountant: str = "pld"
    tolerance: float = DEFAULT_TOLERANCE

    def __post_init__(self) -> None:
        if account.get(self.accountant).kind is Kind.ESTIMATE:
            raise InputError(
                "accountant",
                f"{self.accountant} is an estimate and can't promise a target",
                hint="Use --accountant pld, or any other that is a bound.",
            )

    def guarantee(self, ledger: Account) -> Guarantee:
        return account.epsilon(ledger, self.delta, accountant=self.accountant, tolerance=self.tolerance)

    def shown(self, guarantee: Guarantee) -> bool:
        upper = guarantee.value.upper
        return upper is not None and upper <= self.epsilon


@dataclass(frozen=True)
class Solution:
    """`value` was proven to meet the target, `beside` (its neighbour on the grid, if any) was not."""

    value: float
    guarantee: Guarantee
    beside: float | None
    guarantee_beside: Guarantee | None

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        beside = "" if self.beside is None else f"; {self.beside!r} was not shown to suffice"
        return f"<{self.value!r} by {self.guarantee!r}{beside}>"


class _Prover:
    """Evaluates a candidate once; what can't be certified does not pass."""

    def __init__(self, target: Target, ledger_at: Callable[[float], Account]) -> None:
        self.target = target
        self.ledger_at = ledger_at
        self.seen: dict[float, Guarantee | None] = {}
        self.dearest = ""

    def guarantee(self, value: float) -> Guarantee | None:
        if value not in self.seen:
            try:
                self.seen[value] = self.target.guarantee(self.ledger_at(value))
            except NotCertified:
                self.seen[value] = None
        return self.seen[value]

    def passes(self, value: float) -> bool:
        found = self.guarantee(value)
        return found is not None and self.target.shown(found)

    def steer(self, value: float) -> float:
        """A cheap epsilon near the certified one: it only chooses where to prove."""
        account_ = self.ledger_at(value)
        ledgers = account_.ledgers if isinstance(account_, Parallel) else (account_,)
        if self.target.accountant != "pld":
            found = self.guarantee(value)
            return math.inf if found is None or found.value.upper is None else found.value.upper
        return max(self._estimate(ledger) for ledger in ledgers)

    def _estimate(self, ledger: Ledger) -> float:
        if not ledger.counts:
            return 0.0
        if ledger.unbounded:
            return math.inf
        if not ledger.is_ordinary:
            return _middle(account.epsilon(ledger, self.target.delta, tolerance=ROUGH_TOLERANCE).value)
        ledger = coarse.around(ledger.with_gaussians())[0]
        directions = ledger.directions
        # The direction that costs more at the first value most likely does at the next; the proof takes both.
        names = [self.dearest] if self.dearest in directions else list(directions)
        try:
            rough = {
                name: lattice.certify_epsilon(directions[name], self.target.delta, tolerance=STEER_TOLERANCE)
                for name in names
            }
        except NotCertified:
            return math.inf
        middle = {name: (found.lower + found.upper) / 2 for name, found in rough.items()}
        self.dearest = max(middle, key=lambda name: middle[name])
        return middle[self.dearest]

    def solution(self, value: float, beside: float | None) -> Solution:
        found = self.guarantee(value)
        assert found is not None  # a value is handed back only after it passed
        return Solution(value, found, beside, None if beside is None else self.guarantee(beside))

    def refusal(self, what: str, value: float) -> Infeasible:
        found = self.guarantee(value)
        upper = None if found is None else found.value.upper
        if upper is None or not math.isfinite(upper):
            return Infeasible(f"{what}: {self.target.accountant} shows no finite epsilon", hint="Use --accountant pld.")
        return Infeasible(
            f"{what}: {self.target.accountant} shows epsilon {upper:.5g} there, the target is {self.target.epsilon:g}",
            nearest={"epsilon": upper},
        )


def _middle(found: Interval) -> float:
    """About where a sharper question would find the upper end: in the middle, unless the gap is more than numerics."""
    lower, upper = found.lower or 0.0, math.inf if found.upper is None else found.upper
    return (lower + upper) / 2 if upper - lower <= 0.02 * upper else upper


def least_value(
    ledger_at: Callable[[float], Account],
    target: Target,
    *,
    digits: int,
    start: float,
    low: float,
    high: float,
    name: str,
) -> Solution:
    """The least decimal of `digits` significant digits in [low, high] that is proven to meet the target.

    `ledger_at(value)` must not cost more where the value is larger. `name` is what the value is called.
    Raises Infeasible where not even `high` is enough.
    """
    prover, grid = _Prover(target, ledger_at), DecimalGrid(digits)
    guess = crossing(
        prover.steer, target.epsilon, start, rising=False, low=low, high=high, relative=0.02 * 10.0**-digits
    )
    bottom, top = grid.near(low), grid.near(high)
    index = least(lambda i: prover.passes(grid.value(i)), grid.at_most(guess) + 1, bottom, top)
    if index is None:
        raise prover.refusal(f"no {name} meets the target, not even {high:g}", grid.value(top))
    return prover.solution(grid.value(index), grid.value(index - 1) if index > bottom else None)


def most_value(
    ledger_at: Callable[[float], Account],
    target: Target,
    *,
    digits: int,
    start: float,
    low: float,
    high: float,
    name: str,
) -> Solution:
    """The largest decimal of `digits` significant digits in [low, high] that is proven to meet the target."""
    prover, grid = _Prover(target, ledger_at), DecimalGrid(digits)
    guess = crossing(
        prover.steer, target.epsilon, start, rising=True, low=low, high=high, relative=0.02 * 10.0**-digits
    )
    bottom, top = grid.near(low), grid.near(high)
    index = most(lambda i: prover.passes(grid.value(i)), grid.at_most(guess), bottom, top)
    if index is None:
        raise prover.refusal(f"no {name} meets the target, not even {low:g}", grid.value(bottom))
    return prover.solution(grid.value(index), grid.value(index + 1) if index < top else None)


def most_count(
    ledger_at: Callable[[int], Account], target: Target, *, start: int, high: int, name: str, steer: bool = True
) -> Solution:
    """The largest whole number in [1, high] that is proven to meet the target."""
    prover = _Prover(target, lambda value: ledger_at(int(value)))
    guess = start
    if steer:
        guess = math.floor(
            crossing(
                lambda t: prover.steer(max(1, round(t))),
                target.epsilon,
                start,
                rising=True,
                low=1,
                high=high,
                relative=1e-4,
            )
        )
    index = most(lambda t: prover.passes(t), guess, 1, high)
    if index is None:
        raise prover.refusal(f"not even one {name} meets the target", 1)
    return prover.solution(index, index + 1 if index < high else None)


def least_count(
    ledger_at: Callable[[int], Account], target: Target, *, start: int, low: int, high: int, name: str
) -> Solution:
    """The least whole number in [low, high] that is proven to meet the target, where a larger one costs less."""
    prover = _Prover(target, lambda value: ledger_at(int(value)))
    guess = crossing(
        lambda n: prover.steer(max(low, round(n))),
        target.epsilon,
        start,
        rising=False,
        low=low,
        high=high,
        relative=1e-4,
    )
    index = least(lambda n: prover.passes(n), math.ceil(guess), low, high)
    if index is None:
        raise prover.refusal(f"not even {high:g} {name} meet the target", high)
    return prover.solution(index, index - 1 if index > low else None)


def sigma(ledger_at: Callable[[float], Account], target: Target, *, digits: int, start: float = 1.0) -> Solution:
    """The least noise multiplier that is proven to meet the target. Raises Infeasible where no noise is enough."""
    return least_value(
        ledger_at, target, digits=digits, start=start, low=LEAST_SIGMA, high=MOST_SIGMA, name="noise multiplier"
    )


def steps(ledger_at: Callable[[int], Account], target: Target, *, start: int = 1000) -> Solution:
    """The most steps that are proven to meet the target. Raises Infeasible where not even one does."""
    return most_count(ledger_at, target, start=start, high=MAX_STEPS, name="step")


def rate(ledger_at: Callable[[float], Account], target: Target, *, digits: int, start: float = 0.01) -> Solution:
    """The largest sampling rate that is proven to meet the target."""
    return most_value(ledger_at, target, digits=digits, start=start, low=LEAST_RATE, high=1.0, name="sampling rate")


def batch(ledger_at: Callable[[int], Account], target: Target, *, dataset_size: int, start: int) -> Solution:
    """The largest whole batch that is proven to meet the target, found from a good `start`."""
    return most_count(ledger_at, target, start=start, high=dataset_size, name="record in a batch", steer=False)
