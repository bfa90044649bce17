"""Ledgers of many different mechanisms: what stands in for them costs at least, or at most, as much."""

from __future__ import annotations

import random

import pytest
from conftest import patience

from dpbudget.accounting import account, coarse
from dpbudget.accounting.account import Ledger
from dpbudget.errors import NotCertified
from dpbudget.model import (
    ZCDP,
    Adjacency,
    ApproxDP,
    Gaussian,
    Laplace,
    Mechanism,
    PureDP,
    RandomizedResponse,
    Release,
    SampledGaussian,
    Sampling,
)


def _mechanism(draw: random.Random, adjacency: Adjacency) -> Mechanism:
    kinds: list[Mechanism] = [
        SampledGaussian(draw.uniform(0.8, 3), draw.uniform(0.005, 0.05)),
        Laplace(draw.uniform(5, 20)),
        PureDP(draw.choice([0.0, draw.uniform(0.01, 0.2)])),
        ApproxDP(draw.uniform(0.01, 0.2), draw.choice([0.0, draw.uniform(1e-9, 1e-7)])),
    ]
    if adjacency is not Adjacency.REPLACE_ONE:
        kinds.append(SampledGaussian(draw.uniform(4, 9), draw.uniform(0.005, 0.05), group_size=3))
    if adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
        kinds.append(RandomizedResponse(4, draw.uniform(0, 0.1)))
    return draw.choice(kinds)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 30))])
def test_both_ends_contain_the_exact_answer(monkeypatch: pytest.MonkeyPatch, adjacency: Adjacency, seed: int) -> None:
    draw = random.Random(seed)
    releases = [Release(_mechanism(draw, adjacency), draw.randint(1, 4)) for _ in range(14)] + [Release(Gaussian(6.0))]
    ledger = Ledger.of(releases, adjacency)
    exact = account.epsilon(ledger, 1e-5, tolerance=1e-3).value
    monkeypatch.setattr(coarse, "MOST", 8)
    dearer, cheaper = coarse.around(ledger)
    assert len(dearer.counts) <= 9 and dearer != cheaper
    assert sum(n for _, n in dearer.counts) == sum(n for _, n in cheaper.counts) == sum(n for _, n in ledger.counts)
    found = account.epsilon(ledger, 1e-5, tolerance=1e-3)
    assert found.value.lower <= exact.lower and found.value.upper >= exact.upper
    assert found.detail == {"gap": "numerical", "met_tolerance": False}
    only_above = account.epsilon(ledger, 1e-5, accountant="rdp").value
    assert only_above.lower is None and only_above.upper >= exact.lower


@pytest.mark.parametrize(
    ("dear", "cheap"),
    [
        (SampledGaussian(1.0, 0.02), SampledGaussian(1.1, 0.01)),
        (SampledGaussian(2.0, 0.02, group_size=2), SampledGaussian(2.1, 0.01, group_size=2)),
        (Laplace(2.0), Laplace(2.2)),
        (PureDP(0.3), PureDP(0.2)),
        (ApproxDP(0.3, 1e-6), ApproxDP(0.2, 1e-7)),
        (RandomizedResponse(3, 0.2), RandomizedResponse(3, 0.1)),
    ],
)
def test_the_dearer_parameters_are(dear: Mechanism, cheap: Mechanism) -> None:
    group = [(cheap, 2), (dear, 3)]
    assert coarse._merged(group, dear=True) == Release(dear, 5)
    assert coarse._merged(group, dear=False) == Release(cheap, 5)
    costs = [
        account.epsilon(Ledger.of([Release(m, 5)], Adjacency.ZERO_OUT), 1e-5, tolerance=1e-2).value
        for m in (cheap, dear)
    ]
    assert costs[0].upper < costs[1].lower


@pytest.mark.parametrize(("steps", "most"), [(2000, 16), pytest.param(100_000, 256, marks=pytest.mark.slow)])
def test_a_schedule_of_thousands_of_steps(monkeypatch: pytest.MonkeyPatch, steps: int, most: int) -> None:
    monkeypatch.setattr(coarse, "MOST", most)
    ledger = Ledger.of(
        [Release(SampledGaussian(2 - i / steps, 0.01)) for i in range(steps)], Adjacency.ADD_OR_REMOVE_ONE
    )
    with patience(60):  # an hour, one by one
        found = account.epsilon(ledger, 1e-5).value
    assert 0 < found.lower < found.upper < (1 + 3 / most) * found.lower


def test_what_adds_up_is_never_too_much() -> None:
    releases = [
        Release(kind(1 + i / 1000))
        for i in range(3000)
        for kind in (lambda x: Gaussian(100 * x), lambda x: ZCDP(x / 1e6))
    ]
    ledger = Ledger.of(releases, Adjacency.ADD_OR_REMOVE_ONE)
    assert coarse.around(ledger) == (ledger, ledger)


def test_mechanisms_without_an_order_are_refused_in_words() -> None:
    releases = [Release(SampledGaussian(1 + i / 1000, 0.01, Sampling.FIXED_SIZE)) for i in range(coarse.MOST + 1)]
    with pytest.raises(NotCertified, match="257 different releases") as caught:
        account.epsilon(Ledger.of(releases, Adjacency.REPLACE_ONE), 1e-5)
    assert caught.value.hint
