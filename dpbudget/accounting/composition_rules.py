"""The composition theorems over unlike steps: epsilon from a slack, the least slack from an epsilon, the total delta.

`composition.py` says what each rule is and where it comes from. Here every function errs upwards in epsilon and delta:
`UP` and `DOWN` cover the 30 or so roundings of the longest formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpbudget.accounting import kov
from dpbudget.accounting.gaussian import ROUND_OFF
from dpbudget.errors import InputError, NotCertified

UP, DOWN = 1 + 32 * ROUND_OFF, 1 - 32 * ROUND_OFF
RULES = ("basic", "strong", "kov", "kov-exact")
PRODUCT = ("kov", "kov-exact")
"""The rules whose total delta is 1 - (1 - slack) prod (1 - delta_i)^count_i; the others add up."""


@dataclass(frozen=True, slots=True)
class Steps:
    """`count` steps, each (epsilon, delta)-DP."""

    epsilon: float
    delta: float
    count: int


def basic_sum(steps: Sequence[Steps], slack: float = 0.0) -> float:
    """sum count epsilon; it has no use for a slack."""
    check(steps)
    return math.fsum(_times(s.count, s.epsilon) for s in steps) * UP


def _drift(steps: Sequence[Steps], mean: Callable[[float], float]) -> float:
    return math.fsum(_times(s.count, s.epsilon) * mean(s.epsilon) for s in steps if s.epsilon > 0.0 and s.count) * UP


def _squares(steps: Sequence[Steps]) -> float:
    """sqrt(sum count epsilon^2)."""
    return math.hypot(*(math.sqrt(s.count) * s.epsilon for s in steps if s.count)) * UP


def _expm1(x: float) -> float:
    return math.expm1(x) if x < 709.0 else math.inf


def strong_sum(steps: Sequence[Steps], slack: float) -> float:
    """sqrt(2 log(1/slack) sum epsilon_i^2) + sum epsilon_i (e^epsilon_i - 1).

    Dwork, Rothblum, Vadhan 2010, Thm III.3, whose proof bounds each loss by epsilon_i and its mean by
    epsilon_i (e^epsilon_i - 1) before it uses Azuma's inequality, and so holds for unlike steps.
    """
    check(steps)
    if not (0.0 <= slack <= 1.0):
        raise InputError("delta", f"{slack} is not in [0, 1]")
    size = _squares(steps)
    if size == 0.0:
        return 0.0
    root = math.sqrt(-2.0 * math.log(slack)) if slack > 0.0 else math.inf
    return (size * root + _drift(steps, _expm1)) * UP


def kov_sum(steps: Sequence[Steps], slack: float) -> float:
    """Thm 3.5: the three forms of Thm 3.4 with sums of epsilon_i tanh(epsilon_i / 2) and of epsilon_i^2."""
    check(steps)
    if not (0.0 <= slack <= 1.0):
        raise InputError("delta", f"{slack} is not in [0, 1]")
    plain, size = basic_sum(steps), _squares(steps)
    if slack == 0.0 or size == 0.0 or math.isinf(plain):
        return plain
    drift = _drift(steps, lambda e: math.tanh(e / 2))
    # The second form is the lower one where size < slack, that is for little loss at a large delta.
    log_second = math.log(math.e + size / slack) if size / slack < 1e300 else math.inf
    second = drift + size * math.sqrt(2.0 * log_second)
    third = drift + size * math.sqrt(-2.0 * math.log(slack))
    return min(plain, second * UP, third * UP)


def kov_optimal(steps: Sequence[Steps], slack: float) -> float:
    """The optimum for steps of one epsilon, whose deltas may differ.

    Kairouz, Oh, Viswanath 2015, Thm 3.3; Murtagh, Vadhan 2016, arXiv:1507.03113, Thm 1.5.
    """
    check(steps)
    if len({s.epsilon for s in steps}) != 1:
        raise NotCertified("the exact optimum is known only for steps that share one epsilon")
    return kov.optimal_epsilon(sum(s.count for s in steps), steps[0].epsilon, slack)


def _least_slack_basic(steps: Sequence[Steps], epsilon: float) -> float:
    return 0.0 if basic_sum(steps) <= epsilon else 1.0


def _least_slack_strong(steps: Sequence[Steps], epsilon: float) -> float:
    return _azuma(steps, epsilon / UP - _drift(steps, _expm1))


def _least_slack_kov(steps: Sequence[Steps], epsilon: float) -> float:
    if basic_sum(steps) <= epsilon:
        return 0.0
    rest, size = epsilon / UP - _drift(steps, lambda e: math.tanh(e / 2)), _squares(steps)
    third = _azuma(steps, rest)
    exponent = 0.5 * (rest / size) ** 2 * DOWN if 0.0 < rest < 1e150 * size < math.inf else 0.0
    if not 1.0 < exponent < 700.0:
        return third
    return min(third, size / (math.exp(exponent) - math.e) * (1 + 1e-12) if exponent > 1.01 else 1.0)


def _least_slack_exact(steps: Sequence[Steps], epsilon: float) -> float:
    return kov.least_slack(sum(s.count for s in steps), steps[0].epsilon, epsilon)


def _azuma(steps: Sequence[Steps], rest: float) -> float:
    """e^(-rest^2 / (2 sum count epsilon^2)), rounded up; 1 where nothing is left for the deviation."""
    size = _squares(steps)
    if size == 0.0:
        return 0.0 if rest >= 0.0 else 1.0
    if not (rest > 0.0 and size < math.inf):
        return 1.0
    ratio = rest / size * DOWN
    return math.nextafter(math.exp(-0.5 * ratio * ratio) * UP, math.inf)


def used(rule: str, steps: Sequence[Steps]) -> float:
    """What the steps themselves use of the budget: sum delta_i, or -log prod (1 - delta_i). Rounded up."""
    if rule not in PRODUCT:
        return math.fsum(s.count * s.delta for s in steps) * UP
    return math.fsum(-s.count * math.log1p(-s.delta) if s.delta < 1.0 else math.inf for s in steps) * UP


def budget(rule: str, delta: float) -> float:
    """delta in the same unit, rounded down."""
    return (-math.log1p(-delta) if rule in PRODUCT else delta) * DOWN


def left(rule: str, steps: Sequence[Steps], delta: float) -> float:
    """What is left of delta for composition itself, rounded down; negative if the steps use more than there is."""
    rest = budget(rule, delta) - used(rule, steps)
    return -math.expm1(-rest * DOWN) * DOWN if rule in PRODUCT and rest > 0.0 else rest


def total_delta(rule: str, steps: Sequence[Steps], slack: float) -> float:
    """The total delta of the steps and the slack, rounded up, at most 1."""
    own = used(rule, steps)
    if not (slack < 1.0 and own < math.inf):
        return 1.0
    total = -math.expm1((math.log1p(-slack) - own) * UP) if rule in PRODUCT else own + slack
    return min(1.0, math.nextafter(total * UP, math.inf))


EPSILON: dict[str, Callable[[Sequence[Steps], float], float]] = {
    "basic": basic_sum,
    "strong": strong_sum,
    "kov": kov_sum,
    "kov-exact": kov_optimal,
}
LEAST_SLACK = {
    "basic": _least_slack_basic,
    "strong": _least_slack_strong,
    "kov": _least_slack_kov,
    "kov-exact": _least_slack_exact,
}


def _times(count: int, value: float) -> float:
    return count * value if count else 0.0


def check(steps: Sequence[Steps]) -> None:
    """Raises NotCertified where a step holds a NaN or a value out of range."""
    for s in steps:
        if not (s.epsilon >= 0.0 and 0.0 <= s.delta <= 1.0 and s.count >= 0):
            raise NotCertified(f"a step of ({s.epsilon}, {s.delta})-DP, {s.count} times, has no meaning")
