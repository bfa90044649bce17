"""Composition theorems against exact sums in 50 digits, published numbers and certified truths."""

from __future__ import annotations

import csv
import itertools
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

import mpmath
import numpy as np
import pytest
from conftest import patience

from dpbudget import binomial
from dpbudget.accounting import composition, gaussian, kov
from dpbudget.accounting.composition_rules import LEAST_SLACK, Steps, left, total_delta
from dpbudget.errors import InputError, NotCertified

DATA = Path(__file__).parents[1] / "data"


def truths() -> list[tuple[float, float, int, float, float]]:
    """(sigma, q, steps, delta, an epsilon that is not above the truth) of the golden and the certified runs."""
    rows = [
        (
            float(r["noise_multiplier"]),
            float(r["sampling_rate"]),
            int(r["steps"]),
            float(r["delta"]),
            max(float(r["epsilon_remove"]), float(r["epsilon_add"])),
        )
        for r in csv.DictReader((DATA / "golden.csv").read_text().splitlines())
    ]
    for r in json.loads((DATA / "brackets.json").read_text())["cases"]:
        rows.append((r["noise_multiplier"], r["sampling_rate"], r["steps"], r["delta"], r["epsilon_lower"]))
    return rows


def exact_tail(k: int, eps0: float, epsilon: float) -> mpmath.mpf:
    """S(epsilon) of `kov`, summed term by term."""
    with mpmath.workdps(50):
        e0 = mpmath.mpf(eps0)
        p = 1 / (1 + mpmath.exp(-e0))
        return mpmath.fsum(
            mpmath.binomial(k, j) * p**j * (1 - p) ** (k - j) * (1 - mpmath.exp(epsilon - (2 * j - k) * e0))
            for j in range(k + 1)
            if (2 * j - k) * e0 > epsilon
        )


# --- theorems ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("eps0", "delta0", "k", "total", "expected"),
    [(0.1, 0, 100, 1e-6, 4.77457), (1, 0.001, 30, 0.06, 21.7096), (1, 0.001, 30, 0.1, 19.8174)],
)
def test_kov_exact_named_values(eps0: float, delta0: float, k: int, total: float, expected: float) -> None:
    # As many digits as are published.
    assert composition.kov_exact(eps0, delta0, k, total) == pytest.approx(expected, rel=3e-6)


def test_closed_forms_named_values() -> None:
    # eps0 0.1, k 100, slack 1e-6.
    assert composition.basic(0.1, 100) == pytest.approx(10, rel=1e-13)
    assert composition.strong(0.1, 100, 1e-6) == pytest.approx(6.3082, abs=5e-5)
    assert composition.kov_closed(0.1, 100, 1e-6) == pytest.approx(5.7561, abs=5e-5)


def test_exact_optimum_against_term_by_term_sums() -> None:
    rng = random.Random(20131104)
    for _ in range(60):
        k, eps0, slack = rng.randint(1, 150), 10 ** rng.uniform(-6, 1.3), 10 ** rng.uniform(-100, -0.05)
        found = kov.optimal_epsilon(k, eps0, slack)
        assert exact_tail(k, eps0, found) <= slack, (k, eps0, slack)
        if 0 < found < k * eps0:
            # 1e-10 is what the 1e-13 of S may cost in epsilon where S is flat.
            assert exact_tail(k, eps0, found * (1 - 1e-10)) > slack, (k, eps0, slack)
        truth = exact_tail(k, eps0, 0.7 * found)
        assert truth <= kov.least_slack(k, eps0, 0.7 * found) <= truth * (1 + 1e-11) + mpmath.mpf("1e-300")


@pytest.mark.parametrize(("k", "eps0"), [(1, 0.3), (40, 2.0), (3000, 0.01), (10**6, 0.5), (10**9, 3e-5), (10**9, 2.0)])
def test_binomial_probabilities_stay_inside_their_error(k: int, eps0: float) -> None:
    mean, deviation = k / (1 + math.exp(-eps0)), math.sqrt(k) / (2 * math.cosh(eps0 / 2))
    j = np.unique(np.clip(np.rint(mean + deviation * np.linspace(-25, 25, 31)), 0, k))
    values, errors = binomial.log_mass(j, k, 1 / (1 + math.exp(-eps0)), 1 / (1 + math.exp(eps0)))
    with mpmath.workdps(60):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(eps0)))
        for x, value, error in zip(j, values, errors, strict=True):
            x = int(x)
            choose = mpmath.loggamma(k + 1) - mpmath.loggamma(x + 1) - mpmath.loggamma(k - x + 1)
            truth = choose + x * mpmath.log(p) + (k - x) * mpmath.log1p(-p)
            # 25 deviations out, the bound is a relative 8e-9 of a probability at a billion steps: no more than that.
            assert abs(truth - value) <= error <= 1e-12 + 2.5e-13 * math.sqrt(k)


def exact_tail_beyond(k: int, n: int, p: float) -> mpmath.mpf:
    """Pr[Bin(n, p) > k] as a sum of ratios in 40 digits."""
    p = mpmath.mpf(p)
    log_first = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 2) - mpmath.loggamma(n - k)
    term = mpmath.exp(log_first + (k + 1) * mpmath.log(p) + (n - k - 1) * mpmath.log1p(-p))
    total = mpmath.mpf(0)
    for j in range(k + 1, n + 1):
        total += term
        term *= mpmath.mpf(n - j) / (j + 1) * p / (1 - p)
        if j > n * p and term < total * mpmath.mpf("1e-30"):
            break
    return total


@pytest.mark.parametrize(
    ("n", "p", "deviations"),
    [(60_000, 256 / 60_000, 3), (60_000, 256 / 60_000, -4), (700, 0.6, 9), (30, 0.01, 2), (12, 0.9, 1),
     (707_195, 0.17, 2), (10**9, 2e-5, 5), (10**9, 2e-5, -3), (10**9, 3e-10, 4)],
)  # fmt: skip
def test_binomial_tails_enclose_the_exact_sums(n: int, p: float, deviations: float) -> None:
    k = min(max(round(n * p + deviations * math.sqrt(n * p * (1 - p))), 0), n - 1)
    found = binomial.tails(k, n, p)
    with mpmath.workdps(40):
        above = exact_tail_beyond(k, n, p)
        for (low, high), truth in ((found.above, above), (found.below, 1 - above)):
            assert low <= truth <= high
            assert high - low <= 1e-9 * high


def test_exact_at_a_million_and_a_billion_steps_approaches_the_gaussian_limit() -> None:
    """eps0 = mu / sqrt(k): k responses tend to mu-GDP at the rate 1/k, up to the round-off bound of the sum."""
    limit = gaussian.epsilon(1e-6, 1.0)
    million, billion = (kov.optimal_epsilon(k, 1 / math.sqrt(k), 1e-6) for k in (10**6, 10**9))
    assert million == pytest.approx(limit, rel=3e-6)
    assert billion == pytest.approx(limit, rel=3e-9)


def test_ordering_of_the_rules() -> None:
    rng = random.Random(4)
    for _ in range(200):
        k, eps0, slack = int(10 ** rng.uniform(0, 5)), 10 ** rng.uniform(-5, 1), 10 ** rng.uniform(-60, -0.3)
        closed, exact = composition.kov_closed(eps0, k, slack), composition.kov_exact(eps0, 0.0, k, slack)
        assert exact <= closed * (1 + 1e-9)
        assert closed <= min(composition.basic(eps0, k), composition.strong(eps0, k, slack)) * (1 + 1e-12)
        assert exact >= 0.9 * (composition.kov_exact(eps0, 0.0, k, 2 * slack) if slack < 0.4 else 0.0)


@pytest.mark.parametrize("rule", composition.RULES)
def test_least_slack_inverts_the_rule(rule: str) -> None:
    rng = random.Random(8)
    for _ in range(40):
        k, eps0, slack = int(10 ** rng.uniform(0, 4)), 10 ** rng.uniform(-4, 0), 10 ** rng.uniform(-30, -0.5)
        steps = [Steps(eps0, 0.0, k)]
        forward = {
            "basic": composition.basic(eps0, k),
            "strong": composition.strong(eps0, k, slack),
            "kov": composition.kov_closed(eps0, k, slack),
            "kov-exact": composition.kov_exact(eps0, 0.0, k, slack),
        }[rule]
        assert LEAST_SLACK[rule](steps, forward) <= slack * (1 + 1e-9)


def test_delta_budget_is_never_overspent() -> None:
    rng = random.Random(9)
    for _ in range(300):
        delta = 10 ** rng.uniform(-30, -0.1)
        steps = [Steps(0.1, delta * rng.random() / 20, 10), Steps(0.2, delta * rng.random() / 2, 1)]
        for rule in composition.RULES:
            slack = left(rule, steps, delta)
            with mpmath.workdps(60):
                if rule in ("basic", "strong"):
                    total = sum(s.count * mpmath.mpf(s.delta) for s in steps) + slack
                else:
                    total = 1 - (1 - mpmath.mpf(slack)) * mpmath.fprod(
                        (1 - mpmath.mpf(s.delta)) ** s.count for s in steps
                    )
            assert total <= delta * (1 + mpmath.mpf("1e-30"))
            assert total <= total_delta(rule, steps, slack) <= delta * (1 + 1e-12)


def test_more_delta_than_there_is_proves_nothing() -> None:
    assert composition.kov_exact(0.1, 1e-3, 100, 1e-3) == math.inf
    assert composition.kov_exact(0.1, 1.0, 1, 0.5) == math.inf
    assert composition.kov_exact(0.0, 0.0, 100, 1e-9) == 0 and composition.kov_exact(3.0, 0.0, 0, 1e-9) == 0


def test_nan_fails_closed() -> None:
    for call in (
        lambda: composition.basic(math.nan, 3),
        lambda: composition.kov_exact(math.nan, 0, 3, 0.1),
        lambda: composition.kov_exact(1, math.nan, 3, 0.1),
    ):
        with pytest.raises(NotCertified):
            call()
    for call in (
        lambda: composition.strong(1, 3, math.nan),
        lambda: composition.kov_closed(1, 3, math.nan),
        lambda: composition.kov_exact(1, 0, 3, math.nan),
        lambda: composition.epsilon_subsampled("kov", [(math.nan, 0.1, 3)], 1e-5).epsilon,
        lambda: composition.epsilon_subsampled("kov", [(1.0, math.nan, 3)], 1e-5).epsilon,
        lambda: composition.epsilon_subsampled("kov", [(1.0, 0.1, 3)], math.nan).epsilon,
        lambda: composition.delta_subsampled("kov", [(1.0, 0.1, 3)], math.nan),
        lambda: composition.epsilon_subsampled("best", [(1.0, 0.1, 3)], 1e-5).epsilon,
    ):
        with pytest.raises(InputError):
            call()


# --- accountants ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "most"), [("basic", 223.50), ("strong", 16.845), ("kov", 14.185), ("kov-exact", 12.448)]
)
def test_subsampled_named_values(rule: str, most: float) -> None:
    bound = composition.epsilon_subsampled(rule, [(4, 0.01, 10_000)], 1e-5)
    assert 0.946867 <= bound.epsilon <= most
    assert bound.epsilon >= most - 0.011  # a value far below the literature's would be wrong as well


@pytest.mark.parametrize("rule", composition.RULES)
def test_never_below_the_truth(rule: str) -> None:
    for sigma, rate, steps, delta, truth in truths():
        assert composition.epsilon_subsampled(rule, [(sigma, rate, steps)], delta).epsilon >= truth


def test_a_full_batch_step_is_the_gaussian_mechanism() -> None:
    for rule in composition.RULES:
        bound = composition.epsilon_subsampled(rule, [(2.0, 1.0, 1)], 1e-5).epsilon
        exact = gaussian.epsilon(1e-5, 2.0)
        assert bound >= exact * (1 - 1e-12)
        if rule != "strong":  # one step costs the slack next to nothing in the others
            assert bound <= exact * (1 + 1e-6)


def test_amplification_against_60_digits() -> None:
    for epsilon, rate in itertools.product([1e-12, 1e-3, 1.0, 40.0, 699.0, 701.0, 1e5], [1e-9, 0.01, 0.5, 1.0]):
        with mpmath.workdps(60):
            truth = mpmath.log1p(rate * mpmath.expm1(mpmath.mpf(epsilon)))
        assert truth <= composition.amplified(epsilon, rate) <= truth * (1 + mpmath.mpf("1e-13"))


WIDE = list(itertools.product((0.05, 1.0, 1e6), (1e-9, 0.01, 1.0), (1, 10**4, 10**9), (1e-100, 1e-5, 0.5)))


@pytest.mark.parametrize("rule", composition.RULES)
def test_wide_range_answers_quickly_and_comes_back(rule: str) -> None:
    """A number or infinity, no warning (they are errors here), and delta_subsampled proves its epsilon back."""
    for sigma, rate, steps, delta in WIDE:
        if rule == "kov-exact" and (steps > 10**4 or sigma == 1e6):
            continue  # see the next test
        parts = [(sigma, rate, steps)]
        with patience(20):  # 0.2 s
            bound = composition.epsilon_subsampled(rule, parts, delta)
        assert bound.epsilon >= 0
        back = composition.delta_subsampled(rule, parts, bound.epsilon)
        # The exact tail of coarse steps has ripples in which a search may stop 1e-3 off in delta.
        assert back == pytest.approx(delta, rel=3e-3) or bound.epsilon == 0
        assert back == 1 or composition.epsilon_subsampled(rule, parts, back).epsilon <= bound.epsilon


def test_kov_exact_at_a_million_steps_is_quick() -> None:
    with patience(20):  # 0.2 s; term by term it would be days
        bound = composition.epsilon_subsampled("kov-exact", [(4.0, 0.01, 10**6)], 1e-5)
    assert bound.epsilon < composition.epsilon_subsampled("kov", [(4.0, 0.01, 10**6)], 1e-5).epsilon


@pytest.mark.slow
def test_kov_exact_at_a_billion_steps() -> None:
    for sigma, rate, delta in ((0.05, 1.0, 1e-5), (1.0, 1e-9, 1e-100), (1e6, 0.01, 0.5), (100.0, 1e-4, 1e-5)):
        parts = [(sigma, rate, 10**9)]
        exact, closed = (composition.epsilon_subsampled(rule, parts, delta).epsilon for rule in ("kov-exact", "kov"))
        assert exact <= closed * (1 + 1e-9)


def phases(rng: random.Random) -> Sequence[tuple[float, float, int]]:
    return [(10 ** rng.uniform(-0.3, 1), 10 ** rng.uniform(-3, 0), rng.randint(1, 500)) for _ in range(2)]


@pytest.mark.parametrize("rule", composition.RULES)
def test_phases(rule: str) -> None:
    """The same phase twice is one phase; a phase more costs more; unlike phases lie between the extremes."""
    one = composition.epsilon_subsampled(rule, [(2.0, 0.01, 300)], 1e-6)
    assert composition.epsilon_subsampled(rule, [(2.0, 0.01, 100), (2.0, 0.01, 200), (3.0, 0.1, 0)], 1e-6) == one
    near = composition.epsilon_subsampled(rule, [(2.0, 0.01, 100), (2.0000001, 0.01, 200)], 1e-6)
    assert near.epsilon == pytest.approx(one.epsilon, rel=1e-5)
    rng = random.Random(12)
    for _ in range(5):
        parts = phases(rng)
        both = composition.epsilon_subsampled(rule, parts, 1e-6).epsilon
        assert both >= max(composition.epsilon_subsampled(rule, [p], 1e-6).epsilon for p in parts) * (1 - 1e-6)
        back = composition.delta_subsampled(rule, parts, both)
        assert composition.epsilon_subsampled(rule, parts, back).epsilon <= both
        assert back == pytest.approx(1e-6, rel=3e-3)


def test_limits() -> None:
    for rule in composition.RULES:
        assert composition.epsilon_subsampled(rule, [], 1e-5).epsilon == 0
        assert composition.epsilon_subsampled(rule, [(1.0, 0.1, 0)], 1e-5).epsilon == 0
        assert composition.epsilon_subsampled(rule, [(0.0, 0.1, 5)], 1e-5).epsilon == math.inf
        assert composition.epsilon_subsampled(rule, [(1e6, 1e-3, 5)], 1e-3).epsilon == 0  # below the total variation
        assert 1 - 0.9**100 <= composition.delta_subsampled(rule, [(0.0, 0.1, 100)], 3.0) <= 1  # once sampled, exposed
        assert composition.delta_subsampled(rule, [(1.0, 0.1, 0)], 3.0) == 0
        assert 0 < composition.delta_subsampled(rule, [(1.0, 0.1, 10)], 0.0) <= 1
