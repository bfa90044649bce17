"""Composition of (epsilon, delta) guarantees, and the accountants that feed it with subsampled Gaussian steps.

Rules, each an upper bound on the epsilon of steps (epsilon_i, delta_i), count_i times, for one total delta:

    basic      sum of epsilons, sum of deltas
    strong     Dwork, Rothblum, Vadhan 2010 (FOCS), Thm III.3
    kov        Kairouz, Oh, Viswanath 2015, arXiv:1311.0776, Thm 3.4 and 3.5
    kov-exact  the optimum for steps that share one epsilon_i (ibid., Thm 3.3; `kov.py`)

One step of DP-SGD is (e, d)-DP by the exact Gaussian mechanism, and by Poisson sampling under add-or-remove
(log(1 + q (e^e - 1)), q d)-DP: Balle, Barthe, Gaboardi 2018, arXiv:1807.01647, Thm 8. The first-order q e in its place,
as in Abadi et al. 2016, is no bound. How much of delta goes into the steps is free: each split is valid, the best is
searched for, so an imperfect search only costs tightness. Everything errs upwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dpbudget.accounting import gaussian
from dpbudget.accounting.composition_rules import (
    DOWN,
    EPSILON,
    LEAST_SLACK,
    PRODUCT,
    RULES,
    UP,
    Steps,
    basic_sum,
    budget,
    check,
    kov_optimal,
    kov_sum,
    left,
    strong_sum,
    total_delta,
    used,
)
from dpbudget.accounting.gaussian import falling_root
from dpbudget.errors import InputError

__all__ = [
    "RULES",
    "CompositionBound",
    "amplified",
    "basic",
    "delta_subsampled",
    "epsilon_subsampled",
    "kov_closed",
    "kov_exact",
    "strong",
]


@dataclass(frozen=True, slots=True)
class CompositionBound:
    """epsilon: the total.  eps0, delta0: of one step (the largest).  delta_slack: what composition itself may lose."""

    epsilon: float
    eps0: float
    delta0: float
    delta_slack: float


# --- the theorems, for k equal steps --------------------------------------------------------------------------------


def basic(eps0: float, k: int) -> float:
    """k eps0; the total delta is k delta0."""
    return basic_sum([Steps(eps0, 0.0, k)])


def strong(eps0: float, k: int, delta_slack: float) -> float:
    """eps0 sqrt(2 k log(1/slack)) + k eps0 (e^eps0 - 1); the total delta is k delta0 + slack.

    Source: Dwork, Rothblum, Vadhan 2010, Thm III.3, as in Dwork, Roth 2014, Thm 3.20.
    """
    return strong_sum([Steps(eps0, 0.0, k)], delta_slack)


def kov_closed(eps0: float, k: int, delta_slack: float) -> float:
    """The least of the three closed forms; the total delta is 1 - (1 - delta0)^k (1 - slack).

    Source: Kairouz, Oh, Viswanath 2015, arXiv:1311.0776, Thm 3.4.
    """
    return kov_sum([Steps(eps0, 0.0, k)], delta_slack)


def kov_exact(eps0: float, delta0: float, k: int, delta_total: float) -> float:
    """The optimal epsilon of k (eps0, delta0)-DP steps at this total delta; infinite where k steps need more delta.

    Source: Kairouz, Oh, Viswanath 2015, arXiv:1311.0776, Thm 3.3, at every real epsilon.
    """
    steps = [Steps(eps0, delta0, k)]
    check(steps)
    return kov_optimal(steps, left("kov-exact", steps, _delta(delta_total)))


# --- the accountants ------------------------------------------------------------------------------------------------


def epsilon_subsampled(rule: str, parts: Iterable[tuple[float, float, int]], delta: float) -> CompositionBound:
    """The epsilon that a rule proves for Poisson-sampled Gaussian steps at a total delta, with the best split of delta.

    rule: one of RULES.  parts: (noise multiplier, sampling rate, count), under add-or-remove-one.  delta: in (0, 1).
    Unlike parts share the conditional delta d of the Gaussian (delta_i = q_i d). `kov-exact` needs one epsilon0: unlike
    parts then share epsilon0 instead and pay for it in delta_i; where `kov` is lower, that is the answer.
    Raises InputError on a value out of range or NaN.
    """
    run = _Run(rule, parts)
    delta = _delta(delta)
    if not run.parts:
        return CompositionBound(0.0, 0.0, 0.0, delta)
    if rule == "basic":
        return run.bound(run.spending(1.0, delta) or [], 0.0)
    best = run.best_split(delta)
    if run.shared_epsilon:
        return min(best, _Run("kov", run.parts).best_split(delta), key=lambda bound: bound.epsilon)
    return best


def delta_subsampled(rule: str, parts: Iterable[tuple[float, float, int]], epsilon: float) -> float:
    """The total delta that a rule proves at epsilon, in (0, 1]; the inverse of `epsilon_subsampled`.

    It is the delta of one split that was evaluated, raised where needed until `epsilon_subsampled` gives at most
    epsilon back; the best split may be lower, by a relative 1e-8 as a rule, by 1e-3 where the exact tail is a coarse
    lattice, by up to 1e-2 for `kov-exact` beyond a million steps, where the search is short.
    Raises InputError on a value out of range or NaN.
    """
    if not epsilon >= 0.0:
        raise InputError("epsilon", f"{epsilon} is not a number >= 0")
    run = _Run(rule, parts)
    if not run.parts or math.isinf(epsilon):
        return 0.0
    answer, step = run.least_delta(epsilon), 1e-9 if run.patience == 36 else 1e-4
    if run.shared_epsilon:
        answer = min(answer, _Run("kov", run.parts).least_delta(epsilon))
    while answer < 1.0 and not epsilon_subsampled(run.rule, run.parts, answer).epsilon <= epsilon:
        answer, step = min(1.0, answer * (1.0 + step)), 4.0 * step
    return answer


def amplified(epsilon: float, rate: float) -> float:
    """log(1 + q (e^epsilon - 1)), rounded up, without overflow."""
    if rate == 1.0 or epsilon == 0.0:
        return epsilon
    if epsilon < 700.0:
        return math.log1p(rate * math.expm1(epsilon)) * UP
    return max(0.0, epsilon * UP + math.log(rate) + math.log1p((1.0 - rate) / rate * math.exp(-700.0))) * UP


LOG_EPSILONS = (-60.0, 14.0)
"""Where a shared epsilon0 is looked for, as logarithms."""


class _Run:
    """One rule over checked, merged parts; `weight` = sum count q, the delta of the steps over the conditional d."""

    def __init__(self, rule: str, parts: Iterable[tuple[float, float, int]]) -> None:
        if rule not in RULES:
            hint = f"Use one of {', '.join(RULES)}."
            raise InputError("accountant", f"{rule!r} is not a composition rule", hint=hint)
        merged: dict[tuple[float, float], int] = {}
        for sigma, rate, count in parts:
            if not sigma >= 0.0:
                raise InputError("noise_multiplier", f"{sigma} is not a number >= 0")
            if not 0.0 <= rate <= 1.0:
                raise InputError("sampling_rate", f"{rate} is not in [0, 1]")
            if not count >= 0:
                raise InputError("steps", f"{count} is not a number >= 0")
            if count and rate and not math.isinf(sigma):
                merged[sigma, rate] = merged.get((sigma, rate), 0) + count
        self.rule = rule
        self.parts = [(sigma, rate, count) for (sigma, rate), count in merged.items()]
        self.weight = math.fsum(rate * count for _, rate, count in self.parts)
        self.count = sum(count for _, _, count in self.parts)

    def at_conditional_delta(self, d: float) -> list[Steps]:
        """The steps where every Gaussian is taken at delta d, or at its total variation distance if that is less."""
        steps = []
        for sigma, rate, count in self.parts:
            variation = gaussian.delta(0.0, sigma)
            e = gaussian.epsilon(d, sigma) if d < variation else 0.0
            steps.append(Steps(amplified(e, rate), min(1.0, rate * min(d, variation) * UP), count))
        return steps

    def at_epsilon(self, log_eps0: float) -> list[Steps]:
        """The steps where every one is (eps0, delta_i)-DP with the same eps0."""
        steps, eps0 = [], math.exp(log_eps0)
        for sigma, rate, count in self.parts:
            # Rounded down, so that the sampled step is eps0 or less.
            inner = math.expm1(eps0) / rate if eps0 < 600.0 else math.inf
            e = math.log1p(inner) if inner < math.inf else eps0 + math.log(-math.expm1(-eps0)) - math.log(rate)
            steps.append(Steps(eps0, min(1.0, rate * gaussian.delta(e * DOWN, sigma) * UP), count))
        return steps

    def spending(self, share: float, delta: float) -> list[Steps] | None:
        """Steps that use up a share of delta themselves; of one epsilon0 for `kov-exact`. None if that cannot be."""
        allowed = budget(self.rule, delta) * share * DOWN
        if self.shared_epsilon:
            low, high = LOG_EPSILONS

            def excess(log_eps0: float) -> float:
                return used(self.rule, self.at_epsilon(log_eps0)) / allowed - 1.0

            if not (allowed > 0.0 and excess(high) <= 0.0):
                return None
            return self.at_epsilon(low if excess(low) <= 0.0 else falling_root(excess, low, high) + 1e-12)
        if self.rule in PRODUCT and len(self.parts) == 1:
            return self.at_conditional_delta(-math.expm1(-allowed / self.count) / self.parts[0][1])
        # -log(1 - x) <= x / (1 - x), so that this spends no more than allowed in either form.
        form = 1.0 + allowed if self.rule in PRODUCT else 1.0
        return self.at_conditional_delta(allowed / form / self.weight)

    def bound(self, steps: Sequence[Steps], slack: float) -> CompositionBound:
        eps0, delta0 = max(s.epsilon for s in steps), max(s.delta for s in steps)
        return CompositionBound(EPSILON[self.rule](steps, slack), eps0, delta0, slack)

    def at_share(self, t: float, delta: float) -> CompositionBound:
        """The bound where the steps get the share e^t / (1 + e^t) of delta; infinite where that cannot be."""
        steps = self.spending(1.0 / (1.0 + math.exp(-t)), delta)
        slack = left(self.rule, steps, delta) if steps else -1.0
        if not steps or slack < 0.0:
            return CompositionBound(math.inf, math.inf, delta, 0.0)
        return self.bound(steps, slack)

    def best_share(self, delta: float) -> float:
        """The t of `at_share` with about the least epsilon: a coarse scan, then golden section."""

        def epsilon_at(t: float) -> float:
            return self.at_share(t, delta).epsilon

        grid = [2.0 * i for i in range(-12, 14)]
        if self.patience < 36:  # a few places, and where the closed form is best, which is not far
            grid = [-8.0, -1.0, 2.0, _Run("kov", self.parts).best_share(delta)]
        best = min(grid, key=epsilon_at)
        return min(best, _golden(epsilon_at, best - 2.5, best + 2.5, self.patience), key=epsilon_at)

    def best_split(self, delta: float) -> CompositionBound:
        return self.at_share(self.best_share(delta), delta)

    def least_delta(self, epsilon: float) -> float:
        """The least total delta over the conditional delta d of the steps, or over their shared epsilon0."""
        # At a billion steps the closed form finds the neighbourhood: its best d and the exact one are close.
        scout = "kov" if self.patience < 36 else self.rule

        def steps_at(x: float) -> list[Steps]:
            return self.at_epsilon(-x) if self.shared_epsilon else self.at_conditional_delta(math.exp(x))

        def total(x: float) -> float:
            steps = steps_at(x)
            return total_delta(self.rule, steps, LEAST_SLACK[self.rule](steps, epsilon))

        def balance(x: float) -> float:
            steps = steps_at(x)
            slack = LEAST_SLACK[scout](steps, epsilon)
            return math.log(max(slack, 1e-320)) - math.log(max(used("basic", steps), 1e-320))

        # Beyond the total variation distance nothing changes any more.
        low, high = -700.0, math.log(max(gaussian.delta(0.0, sigma) for sigma, _, _ in self.parts))
        if self.shared_epsilon:
            low, high = -LOG_EPSILONS[1], -LOG_EPSILONS[0]
        if balance(low) <= 0.0:
            return total(low)
        if balance(high) > 0.0:
            return total(high)
        start = falling_root(balance, low, high)
        edge = _walk_up(total, start, 1e-14 if self.patience == 36 else 1e-5)
        if self.rule == "basic":  # a cliff: beyond it the slack is 0, before it 1
            return edge
        # The least sum of a falling and a rising term lies near their crossing.
        return min(edge, total(_golden(total, start - 8.0, min(high, start + 3.0), self.patience)))

    @property
    def shared_epsilon(self) -> bool:
        """Whether unlike parts have to be brought to one epsilon0, which is all that the exact optimum can do."""
        return self.rule == "kov-exact" and len(self.parts) > 1

    @property
    def patience(self) -> int:
        """How many evaluations a search may take: an exact tail has about 20 sqrt(count) terms."""
        if self.rule != "kov-exact" or self.count <= 10**6:
            return 36
        return 14 if self.count <= 10**8 else 8


def _delta(delta: float) -> float:
    if not (0.0 < delta < 1.0):
        raise InputError("delta", f"{delta} is not in (0, 1)")
    return delta


def _golden(f: Callable[[float], float], low: float, high: float, rounds: int) -> float:
    """A near-minimum of f by golden section; any point is valid, so nothing is promised but that it was evaluated."""
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    fa, fb = f(a), f(b)
    best = min((fa, a), (fb, b))
    for _ in range(rounds):
        if fa < fb:  # on a plateau of "impossible" go right, to where the steps may spend more
            high, b, fb = b, a, fa
            a = high - ratio * (high - low)
            fa = f(a)
            best = min(best, (fa, a))
        else:
            low, a, fa = a, b, fb
            b = low + ratio * (high - low)
            fb = f(b)
            best = min(best, (fb, b))
    return best[1]


def _walk_up(total: Callable[[float], float], start: float, step: float) -> float:
    """The value just beyond the cliff at `start` (in log d), or 1 if there is none within about 0.1."""
    while step < 0.1:
        value = total(start)
        if value < 1.0:
            return value
        start = start + step
        step *= 4.0
    return 1.0
