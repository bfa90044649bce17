"""Contracts over the registries: every mechanism x adjacency x direction x accountant; every format.

The checks stand in contracts.py, the truth in neighbours.py; test_wrong_parts.py shows that they catch what is wrong.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import get_args

import contracts
import neighbours
import numpy as np
import pytest
from conftest import rows
from contracts import ADD, BOUNDS, run, short

from dpbudget.accounting import account
from dpbudget.accounting.account import ACCOUNTANTS, Ledger
from dpbudget.accounting.pairs import dominating_pairs
from dpbudget.errors import InputError, NotCertified
from dpbudget.model import (
    ZCDP,
    Adjacency,
    ApproxDP,
    Gaussian,
    GaussianMixture,
    Guarantee,
    Laplace,
    Mechanism,
    PureDP,
    RandomizedResponse,
    Release,
    SampledGaussian,
    Sampling,
    Tuned,
)
from dpbudget.render import FORMATS, renderer

MECHANISMS: list[Mechanism] = [
    SampledGaussian(1.0, 0.25),
    SampledGaussian(2.0, 0.1, group_size=2),
    SampledGaussian(1.0, 1.0, Sampling.FULL_BATCH),
    SampledGaussian(2.0, 0.1, Sampling.FIXED_SIZE),
    SampledGaussian(2.0, 0.25, Sampling.SHUFFLE),
    SampledGaussian(2.0, 0.25, Sampling.BALLS_IN_BINS),
    SampledGaussian(2.0, 0.1, max_batch=20, dataset_size=100),
    GaussianMixture(2.0, (0.7, 0.2, 0.1)),
    Gaussian(4.0),
    Laplace(10.0),
    Laplace(5.0, 0.1),
    RandomizedResponse(4, 0.2),
    PureDP(0.1),
    ApproxDP(0.1, 1e-7),
    ZCDP(0.01),
    Tuned(SampledGaussian(4.0, 0.1), 1, "geometric", 2.0),
]
CASES = list(itertools.product(MECHANISMS, Adjacency))
WHOLE = (ZCDP, Tuned)  # known by a curve or a bound, not by a pair
LINE = ("epsilon", "-s", "1", "-q", "0.01", "-t", "100", "-d", "1e-5")


def test_every_mechanism_and_sampling_is_here() -> None:
    assert {type(mechanism) for mechanism in MECHANISMS} == set(get_args(Mechanism))
    assert {m.sampling for m in MECHANISMS if isinstance(m, SampledGaussian)} == set(Sampling)


# --- pairs ------------------------------------------------------------------------------------------------------------


def test_the_truth_is_the_closed_form() -> None:
    """The cells of neighbours.py against Balle and Wang, once and twice."""
    laws = neighbours.truth(Gaussian(1.0), ADD)
    assert laws is not None
    for uses in (1, 2):
        exact = neighbours.gaussian_delta(contracts.GRID, 1 / math.sqrt(uses))
        for direction in contracts.DIRECTIONS:
            assert np.abs(laws.delta(direction, contracts.GRID, uses) / exact - 1).max() < neighbours.ERROR


def by_step(mechanism: Mechanism) -> bool:
    """Whether one step has a pair of its own."""
    if isinstance(mechanism, SampledGaussian):
        return mechanism.max_batch is None and mechanism.sampling not in (Sampling.SHUFFLE, Sampling.BALLS_IN_BINS)
    return not isinstance(mechanism, WHOLE)


@pytest.mark.parametrize(("mechanism", "adjacency"), CASES, ids=short)
def test_every_pair_dominates(mechanism: Mechanism, adjacency: Adjacency) -> None:
    if by_step(mechanism):
        contracts.dominates(mechanism, adjacency, dominating_pairs)
    else:
        contracts.refused(lambda: dominating_pairs(mechanism, adjacency))


# --- accountants ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mechanism", "adjacency"), CASES, ids=short)
def test_every_accountant_covers_every_mechanism(mechanism: Mechanism, adjacency: Adjacency) -> None:
    for name in ACCOUNTANTS:
        if not (isinstance(mechanism, Tuned) and name == "pld"):  # seconds: below, and in test_tuning.py
            contracts.covers(name, mechanism, adjacency)


def test_two_uses_cost_what_two_uses_cost() -> None:
    for mechanism in (RandomizedResponse(4, 0.2), Laplace(5.0, 0.1), SampledGaussian(2.0, 0.5)):
        for name in ("pld", "rdp"):
            contracts.covers(name, mechanism, Adjacency.ZERO_OUT, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "adjacency"), CASES, ids=short)
def test_two_uses_of_everything(mechanism: Mechanism, adjacency: Adjacency) -> None:
    for name, delta in itertools.product(ACCOUNTANTS, (1e-3, 1e-6, 1e-9)):
        contracts.covers(name, mechanism, adjacency, 2, delta)


@pytest.mark.parametrize(("mechanism", "adjacency"), CASES, ids=short)
def test_copies_are_one_release_with_a_count(mechanism: Mechanism, adjacency: Adjacency) -> None:
    """Every accountant is handed a ledger, and the ledgers are equal; epochs that were begun four times are not one epoch."""
    if isinstance(mechanism, SampledGaussian) and mechanism.sampling in (Sampling.SHUFFLE, Sampling.BALLS_IN_BINS):
        contracts.refused(lambda: Ledger.of([Release(mechanism)] * 4, adjacency))
        return
    assert Ledger.of([Release(mechanism)] * 4, adjacency) == Ledger.of([Release(mechanism, 4)], adjacency)


@pytest.mark.parametrize("name", [n for n in BOUNDS if n not in ("zcdp", "kov-exact")])
def test_no_bound_below_the_truth(name: str) -> None:
    contracts.not_below(name, contracts.cases())


def test_kov_exact_not_below_the_truth() -> None:
    contracts.not_below("kov-exact", contracts.cases()[::6])  # the slowest of them: a sample here, all of it under slow


@pytest.mark.slow
def test_kov_exact_never_below_the_truth() -> None:
    contracts.not_below("kov-exact", contracts.cases())


@pytest.mark.parametrize("name", BOUNDS)
def test_every_bound_adds_up_and_inverts(name: str) -> None:
    contracts.adds_up(name)
    contracts.inverts(name)


def test_published_rows() -> None:
    contracts.meets_published(rows("published.csv"))


def test_mixture_of_gaussians() -> None:
    """dp-accounting's own test value for three steps of one mixture and two of another, at most and about."""
    first, second = GaussianMixture(1.0, (0.2, 0.6, 0.2)), GaussianMixture(2.0, (0.33, 0.0, 0.34, 0.33))
    found = account.epsilon(Ledger.of([Release(first, 3), Release(second, 2)], ADD), 1e-6)
    assert found.value.lower <= 17.193115 <= found.value.upper  # six decimals, from a grid of 1e-4
    assert found.value.upper == pytest.approx(17.193115, rel=1e-5)  # our tolerance
    binomial = GaussianMixture(2.0, (0.95**2, 2 * 0.95 * 0.05, 0.05**2))
    group = SampledGaussian(2.0, 0.05, group_size=2)
    ends = [account.epsilon(Ledger.of([Release(m, 50)], ADD), 1e-6).value for m in (binomial, group)]
    assert ends[0].lower <= ends[1].upper and ends[1].lower <= ends[0].upper


@pytest.mark.parametrize("name", BOUNDS)
def test_nothing_and_no_noise(name: str) -> None:
    assert account.epsilon(Ledger.of([], ADD), 1e-5, accountant=name).value.upper == 0
    assert account.epsilon(run(0.0, 0.1, 5), 1e-5, accountant=name).value.upper == math.inf


@pytest.mark.parametrize("name", ["pld", "rdp", "moments", "strong"])
def test_monotone(name: str) -> None:
    """Never ordered the wrong way round: what should cost less has a lower end (or, alone, a value) not above."""

    def ends(sigma: float, rate: float, steps: int, delta: float) -> tuple[float, float]:
        value = account.epsilon(run(sigma, rate, steps), delta, accountant=name).value
        assert value.upper is not None
        slack = (
            0.02 if name == "rdp" else 1e-9
        )  # rdp shares delta with a cut in one of five ways: monotone to a percent
        return (value.upper * (1 - slack) if value.lower is None else value.lower), value.upper

    base = (1.0, 0.01, 500, 1e-6)
    for cheaper in ((1.1, 0.01, 500, 1e-6), (1.0, 0.009, 500, 1e-6), (1.0, 0.01, 450, 1e-6), (1.0, 0.01, 500, 2e-6)):
        assert ends(*cheaper)[0] <= ends(*base)[1]
        assert ends(*cheaper)[1] <= ends(*base)[1] * (1.02 if name == "rdp" else 1 + 1e-6)


# --- formats ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_keeps_its_side(form: str) -> None:
    contracts.keeps_its_side(form, renderer(form))


def extreme(seed: int) -> tuple[Ledger, float]:
    """A release at the edge of what is taken, and a delta."""
    draw = random.Random(seed)

    def between(low: float, high: float) -> float:
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    many = max(1, int(between(1, 1e9)))
    mechanism, count = draw.choice(
        [
            (Gaussian(between(0.02, 1e6)), many),
            (SampledGaussian(between(0.05, 1e6), between(1e-9, 1)), 1),
            (SampledGaussian(between(0.3, 30), draw.uniform(0.1, 1)), 1),
            (RandomizedResponse(draw.choice((2, 3, 1000)), 1 - between(1e-9, 1)), draw.choice((1, 2, 5))),
            (PureDP(between(1e-6, 30)), draw.choice((1, 10, 100))),
            (ApproxDP(between(1e-6, 20), between(1e-100, 1e-2)), draw.choice((1, 2, 10))),
            (ZCDP(between(1e-9, 100)), many % 1000 + 1),
        ]
    )
    adjacency = Adjacency.ZERO_OUT if isinstance(mechanism, RandomizedResponse) else ADD
    delta = draw.choice((between(1e-100, 0.5), between(1e-12, 1e-2), draw.uniform(1e-3, 0.9)))
    return Ledger.of([Release(mechanism, count)], adjacency), delta


def answers(ask: Callable[..., Guarantee], ledger: Ledger, argument: float, names: Sequence[str]) -> list[Guarantee]:
    """What every accountant proves, pld first; those without a proof or a finite answer left out."""
    found = []
    for name in names:
        with contextlib.suppress(InputError, NotCertified):
            found.append(ask(ledger, argument, accountant=name))
    return found


def no_bound_below_the_certificate(ledger: Ledger, delta: float, names: Sequence[str]) -> None:
    epsilons = answers(account.epsilon, ledger, delta, names)
    account.cross_check(epsilons)
    assert epsilons[0].accountant == "pld"
    upper = epsilons[0].value.upper
    for epsilon in (0.0, 1.0) if upper is None or math.isinf(upper) else (0.0, 0.7 * upper, upper):
        account.cross_check(answers(account.delta, ledger, epsilon, names))


@pytest.mark.parametrize("seed", range(12))
def test_no_bound_is_below_the_certificate_at_extremes(seed: int) -> None:
    no_bound_below_the_certificate(*extreme(seed), [name for name in BOUNDS if name != "kov-exact"])


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_no_bound_is_below_the_certificate_at_a_thousand_extremes(block: int) -> None:
    for seed in range(12 + 50 * block, 62 + 50 * block):
        no_bound_below_the_certificate(*extreme(seed), BOUNDS)
