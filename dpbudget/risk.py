"""What a privacy budget means: the attacker's chances, from the run's whole loss distribution.

Every answer is an interval that contains the chance of the best attacker there is. Upper ends hold for every attacker;
where the dominating pair is the mechanism's own, lower ends are reached by one. The attacker knows everything but the one
record: all other records, the model at every step, and which two data sets are in question.

With add-or-remove pairs the curve covers both directions at once, testing "in" against "out" and the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from dpbudget.accounting import approxcurve, gdpsummary, tradeoff
from dpbudget.accounting.account import Ledger, Parallel
from dpbudget.accounting.profiles import ledger_profiles, upper_only
from dpbudget.accounting.search import DecimalGrid, crossing, least, most
from dpbudget.accounting.solve import LEAST_RATE, LEAST_SIGMA, MOST_SIGMA
from dpbudget.accounting.tradeoff import Curve, Point, Profile, largest
from dpbudget.checks import MAX_STEPS
from dpbudget.errors import Infeasible, InputError, NotCertified
from dpbudget.model import Adjacency, Interval

Account = Ledger | Parallel

DEFAULT_FLOOR = 1e-5
LOSS_LIMIT = 1e4


class RiskCurves:
    """The curves of one account; what was computed once is kept. Every function below takes one in place of an account.

    attained: lower ends say something of the mechanism. profiles: delta by direction.
    """

    def __init__(self, account: Account) -> None:
        self._known, self.attained = ledger_profiles(account)

    @classmethod
    def of(cls, account: Account | RiskCurves) -> RiskCurves:
        return account if isinstance(account, RiskCurves) else cls(account)

    @classmethod
    def covering(cls, profile: Profile) -> RiskCurves:
        """Those of any mechanism whose delta has this one as its largest, in both directions."""
        curves = cls(Ledger.of([], Adjacency.ADD_OR_REMOVE_ONE))
        curves._known = {"both": profile}
        return curves

    @cached_property
    def profiles(self) -> dict[str, Profile]:
        return {name: self._shown(profile) for name, profile in self._known.items()}

    @cached_property
    def all(self) -> Profile:
        # lower ends are dropped after this: they tell which direction need not be known any better
        return self._shown(largest(list(self._known.values())))

    def _shown(self, profile: Profile) -> Profile:
        return profile if self.attained else upper_only(profile)

    @cached_property
    def both(self) -> Curve:
        """The convex minorant of the curves of both directions (Dong, Roth, Su 2022, arXiv:1905.02383, Prop. 2.14)."""
        return Curve(self.all, self.all)

    @cached_property
    def directed(self) -> dict[str, Curve]:
        """ "remove": null hypothesis "out", alternative "in" (the usual membership attack); "add": the reverse."""
        if "both" in self.profiles:
            return {"both": self.both}
        remove, add = self.profiles["remove"], self.profiles["add"]
        return {"remove": Curve(remove, add), "add": Curve(add, remove)}


@dataclass(frozen=True)
class Posterior:
    """Beliefs: with probability >= 1 - failure over the output, the belief in the true world, `prior` before, is at most
    `value`. loss: the bound on the log likelihood ratio behind it; both are intervals around the smallest that holds.
    """

    prior: float
    failure: float
    loss: Interval
    value: Interval


def advantage(account: Account | RiskCurves) -> Interval:
    """The largest TPR - FPR of any membership attack: the total variation distance delta(0)."""
    return Interval(*RiskCurves.of(account).both.advantage())


def tpr(account: Account | RiskCurves, fpr: float, *, tolerance: float = 1e-6) -> Interval:
    """The largest TPR of any membership attack at this FPR; also of singling-out and attribute inference."""
    return Interval(*point(account, fpr, tolerance=tolerance).tpr)


def point(account: Account | RiskCurves, fpr: float, *, tolerance: float = 1e-6) -> Point:
    """TPR and FNR at one FPR, on the curve of both directions."""
    return RiskCurves.of(account).both.point(fpr, tolerance=tolerance)


def tradeoff_curve(account: Account | RiskCurves, fprs: Sequence[float]) -> list[Point]:
    """The trade-off curve f: certified FNR (and TPR = 1 - f) at every FPR."""
    curves = RiskCurves.of(account)
    return [point(curves, fpr) for fpr in fprs]


def bayes_error(account: Account | RiskCurves, prior: float) -> Interval:
    """The error probability of the best guess where "in" has probability `prior`."""
    return Interval(*RiskCurves.of(account).both.bayes_error(prior))


def reconstruction(account: Account | RiskCurves, baseline: float) -> Interval:
    """The largest success of a reconstruction whose success without the output is at most `baseline`: 1 - f(baseline).

    Source: Hayes, Mahloujifar, Balle 2023, arXiv:2302.07225; Kulynych et al. 2024, arXiv:2407.02191. The upper end is a
    bound for any attack; the lower end is reached by the worst prior, not by every data set.
    """
    return tpr(account, baseline)


def posterior(account: Account | RiskCurves, prior: float, failure: float) -> Posterior:
    """The belief that one output can give, up to outputs of total probability `failure`, in (0, 1).

    Uses P(L > epsilon) <= failure, which is not delta(epsilon): outputs of probability delta may carry any loss, and
    more outputs than that exceed epsilon. Takes the worse direction.
    """
    tradeoff.check_probability("prior", prior)
    if not (0.0 < failure < 1.0):
        raise InputError("failure", f"{failure} is not in (0, 1)")
    curves = RiskCurves.of(account).directed.values()

    def tail(epsilon: float, side: int) -> float:
        return max(curve.tail(epsilon, failure)[side] for curve in curves)

    upper = _first(lambda e: tail(e, 1) <= failure)
    lower = _last(lambda e: tail(e, 0) > failure, upper)
    loss = Interval(lower, upper)
    return Posterior(prior, failure, loss, Interval(_belief(prior, lower), _belief(prior, upper)))


def _belief(prior: float, loss: float) -> float:
    return approxcurve.posterior(prior, loss) if math.isfinite(loss) else 1.0


def _first(holds: Callable[[float], bool]) -> float:
    """The least epsilon >= 0 at which a test that holds from some point on holds; inf if not below LOSS_LIMIT."""
    if holds(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, 2.0 * high
        if high > LOSS_LIMIT:
            return math.inf
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _last(holds: Callable[[float], bool], limit: float) -> float:
    """The largest epsilon in [0, limit] at which a test that holds up to some point holds; 0 if nowhere."""
    low, high = 0.0, min(limit, LOSS_LIMIT)
    if not holds(0.0):
        return 0.0
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def gdp_mu(account: Account | RiskCurves, floor: float = DEFAULT_FLOOR, *, tolerance: float = 1e-5) -> Interval:
    """The smallest mu whose Gaussian curve lies above delta(epsilon) wherever delta(epsilon) >= floor."""
    return Interval(*gdpsummary.gdp_summary(RiskCurves.of(account).all, floor, tolerance=tolerance))


# --- the inverse ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RiskTarget:
    """What has to be shown: the upper end of `quantity` is at most `value`. fpr: only for "tpr"."""

    quantity: str
    value: float
    fpr: float | None = None

    def __post_init__(self) -> None:
        if self.quantity not in ("advantage", "tpr"):
            raise InputError("quantity", f"{self.quantity!r} is neither advantage nor tpr")
        if not (0.0 < self.value < 1.0):
            raise InputError(self.quantity, f"{self.value} is not in (0, 1)")
        if self.quantity == "tpr":
            if self.fpr is None or not (0.0 < self.fpr < 1.0):
                raise InputError("fpr", f"{self.fpr} is not in (0, 1)")
            if not self.value > self.fpr:
                raise InputError("tpr", f"{self.value} is not above the FPR {self.fpr}, which a coin reaches")

    def measure(self, account: Account, tolerance: float = 1e-6) -> Interval:
        if self.fpr is not None and self.quantity == "tpr":
            return tpr(account, self.fpr, tolerance=tolerance)
        return advantage(account)


@dataclass(frozen=True)
class RiskSolution:
    """`value` was proven to meet the target with `risk`; `beside`, its neighbour on the grid, was not."""

    value: float
    risk: Interval
    beside: float | None
    risk_beside: Interval | None

    def __float__(self) -> float:
        return float(self.value)


class _Prover:
    def __init__(self, target: RiskTarget, account_at: Callable[[float], Account]) -> None:
        self.target, self.account_at = target, account_at
        self.seen: dict[float, Interval | None] = {}

    def risk(self, value: float) -> Interval | None:
        if value not in self.seen:
            try:
                self.seen[value] = self.target.measure(self.account_at(value))
            except NotCertified:
                self.seen[value] = None
        return self.seen[value]

    def passes(self, value: float) -> bool:
        found = self.risk(value)
        return found is not None and found.upper is not None and found.upper <= self.target.value

    def steer(self, value: float) -> float:
        """How far above a coin: the part of the risk that moves over decades with the unknown."""
        try:
            found = self.target.measure(self.account_at(value), 1e-4)
        except NotCertified:
            return math.inf
        return math.inf if found.upper is None else found.upper - (self.target.fpr or 0.0)

    def solution(self, value: float, beside: float | None) -> RiskSolution:
        found = self.risk(value)
        assert found is not None  # a value is handed back only after it passed
        return RiskSolution(value, found, beside, None if beside is None else self.risk(beside))

    def refusal(self, what: str, value: float) -> Infeasible:
        found = self.risk(value)
        upper = 1.0 if found is None or found.upper is None else found.upper
        shown = f"{what}: {self.target.quantity} {upper:.5g} is shown there, the target is {self.target.value:g}"
        return Infeasible(shown, nearest={self.target.quantity: upper})

    def guess(self, start: float, low: float, high: float, *, rising: bool, relative: float) -> float:
        goal = self.target.value - (self.target.fpr or 0.0)
        return crossing(self.steer, goal, start, rising=rising, low=low, high=high, relative=relative)


def solve_sigma(
    account_at: Callable[[float], Account], target: RiskTarget, *, digits: int = 5, start: float = 1.0
) -> RiskSolution:
    """The least noise multiplier with `digits` significant digits that is proven to meet the target."""
    prover, grid = _Prover(target, account_at), DecimalGrid(digits)
    guess = prover.guess(start, LEAST_SIGMA, MOST_SIGMA, rising=False, relative=0.1 * 10.0**-digits)
    low, high = grid.near(LEAST_SIGMA), grid.near(MOST_SIGMA)
    index = least(lambda i: prover.passes(grid.value(i)), grid.at_most(guess) + 1, low, high)
    if index is None:
        raise prover.refusal("no noise multiplier meets the target", grid.value(high))
    return prover.solution(grid.value(index), grid.value(index - 1) if index > low else None)


def solve_steps(account_at: Callable[[int], Account], target: RiskTarget, *, start: int = 1000) -> RiskSolution:
    """The most steps that are proven to meet the target."""
    prover = _Prover(target, lambda value: account_at(max(1, round(value))))
    guess = prover.guess(start, 1, MAX_STEPS, rising=True, relative=1e-4)
    index = most(lambda t: prover.passes(t), math.floor(guess), 1, MAX_STEPS)
    if index is None:
        raise prover.refusal("not even one step meets the target", 1)
    return prover.solution(index, index + 1 if index < MAX_STEPS else None)


def solve_rate(
    account_at: Callable[[float], Account], target: RiskTarget, *, digits: int = 5, start: float = 0.01
) -> RiskSolution:
    """The largest sampling rate with `digits` significant digits that is proven to meet the target."""
    prover, grid = _Prover(target, account_at), DecimalGrid(digits)
    guess = prover.guess(start, LEAST_RATE, 1.0, rising=True, relative=0.1 * 10.0**-digits)
    low, high = grid.near(LEAST_RATE), grid.near(1.0)
    index = most(lambda i: prover.passes(grid.value(i)), grid.at_most(guess), low, high)
    if index is None:
        raise prover.refusal("no sampling rate meets the target", grid.value(low))
    return prover.solution(grid.value(index), grid.value(index + 1) if index < high else None)
