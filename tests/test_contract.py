"""Contracts over the registries: every accountant x mechanism x adjacency, and what happens when one of them is wrong."""

from __future__ import annotations

import itertools
import json
import math

import pytest
from conftest import DATA, rows

from dpbudget.accounting import account, certified, lattice
from dpbudget.accounting.account import ACCOUNTANTS, Ledger
from dpbudget.accounting.pairs import dominating_pairs
from dpbudget.errors import ContradictionError, InputError, NotCertified
from dpbudget.model import (
    ZCDP,
    Adjacency,
    ApproxDP,
    Gaussian,
    GaussianMixture,
    Guarantee,
    Interval,
    Kind,
    Laplace,
    PureDP,
    RandomizedResponse,
    Release,
    SampledGaussian,
    Sampling,
)

ADD = Adjacency.ADD_OR_REMOVE_ONE
BOUNDS = [name for name, item in ACCOUNTANTS.items() if item.kind is not Kind.ESTIMATE]
MECHANISMS = [
    SampledGaussian(1.0, 0.01),
    SampledGaussian(2.0, 0.05, group_size=2),
    GaussianMixture(2.0, (0.7, 0.2, 0.1)),
    Gaussian(8.0),
    Laplace(10.0),
    Laplace(5.0, 0.1),
    RandomizedResponse(4, 0.2),
    PureDP(0.1),
    ApproxDP(0.1, 1e-7),
    ZCDP(0.01),
]


def run(sigma: float, rate: float, steps: int, adjacency: Adjacency = ADD) -> Ledger:
    return Ledger.of([Release(SampledGaussian(sigma, rate), steps)], adjacency)


def cases() -> list[tuple[float, float, int, float, float]]:
    """(sigma, q, T, delta, a value that the truth reaches): golden values and certified lower ends."""
    golden = [
        (float(r["noise_multiplier"]), float(r["sampling_rate"]), int(r["steps"]), float(r["delta"]),
         max(float(r["epsilon_remove"]), float(r["epsilon_add"])) - 5e-10)
        for r in rows("golden.csv")
    ]  # fmt: skip
    brackets = json.loads((DATA / "brackets.json").read_text())["cases"]
    keys = ("noise_multiplier", "sampling_rate", "steps", "delta", "epsilon_lower")
    return golden + [tuple(case[key] for key in keys) for case in brackets]


@pytest.mark.parametrize("name", [n for n in BOUNDS if n not in ("zcdp", "kov-exact")])
def test_no_bound_below_the_truth(name: str) -> None:
    for sigma, rate, steps, delta, truth in cases():
        upper = account.epsilon(run(sigma, rate, steps), delta, accountant=name).value.upper
        assert upper is not None and upper >= truth, (name, sigma, rate, steps, delta)


def test_kov_exact_not_below_the_truth() -> None:
    for sigma, rate, steps, delta, truth in cases()[::6]:  # the slowest of them: a sample here, all of it under slow
        assert float(account.epsilon(run(sigma, rate, steps), delta, accountant="kov-exact")) >= truth


@pytest.mark.slow
def test_kov_exact_never_below_the_truth() -> None:
    for sigma, rate, steps, delta, truth in cases():
        assert float(account.epsilon(run(sigma, rate, steps), delta, accountant="kov-exact")) >= truth


def test_published_rows() -> None:
    for row in rows("published.csv"):
        ledger = run(float(row["noise_multiplier"]), float(row["sampling_rate"]), int(row["steps"]))
        found = account.epsilon(ledger, float(row["delta"]), accountant=row["accountant"])
        value = found.value.estimate if found.kind is Kind.ESTIMATE else found.value.upper
        published = float(row["epsilon"])
        assert value is not None
        if row["accountant"] == "rdp":
            assert value <= published * (1 + 1e-4)  # their orders are a grid, ours are not
        else:
            assert value == pytest.approx(published, abs=5.1e-7)  # six decimals are published


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_every_mechanism_composes(mechanism, adjacency: Adjacency) -> None:
    """compose(n) is n copies, in one guarantee to the last bit; more releases, or a smaller delta, never cost less."""
    try:
        three = account.epsilon(Ledger.of([Release(mechanism, 3)], adjacency), 1e-6, tolerance=1e-3)
    except InputError as error:
        assert error.message and adjacency is not Adjacency.ZERO_OUT
        return
    copies = account.epsilon(Ledger.of([Release(mechanism)] * 3, adjacency), 1e-6, tolerance=1e-3)
    assert copies == three
    assert three.value.lower is not None and three.value.upper is not None
    assert 0 <= three.value.lower <= three.value.upper < math.inf
    one = account.epsilon(Ledger.of([Release(mechanism)], adjacency), 1e-6, tolerance=1e-3)
    looser = account.epsilon(Ledger.of([Release(mechanism, 3)], adjacency), 1e-4, tolerance=1e-3)
    for cheap in (one, looser):
        assert cheap.value.lower <= three.value.upper


def test_the_order_of_releases_does_not_matter() -> None:
    mixed = [Release(m, 2) for m in MECHANISMS if not isinstance(m, ZCDP)][:5]
    first = account.epsilon(Ledger.of(mixed, Adjacency.ZERO_OUT), 1e-5, tolerance=1e-3)
    for order in itertools.islice(itertools.permutations(mixed), 1, 120, 40):
        assert account.epsilon(Ledger.of(order, Adjacency.ZERO_OUT), 1e-5, tolerance=1e-3) == first


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


# --- deliberately wrong parts, each of which must be caught ---------------------------------------------------------


def test_an_engine_that_errs_upwards_at_the_lower_end_is_caught(dpbudget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattice, "certify_epsilon", lambda *a, **k: lattice.Bracket(50.0, 50.0001, True, {}))
    ran = dpbudget("epsilon", "-s", "1", "-q", "0.01", "-t", "100", "-d", "1e-5", "--json")
    assert ran.code == 70 and ran.out == "" and "report this" in ran.err


def test_crossed_ends_are_caught(dpbudget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattice, "certify_epsilon", lambda *a, **k: lattice.Bracket(1.0, 0.5, True, {}))
    assert dpbudget("epsilon", "-s", "1", "-q", "0.01", "-t", "100", "-d", "1e-5").code == 70


def test_a_nan_is_never_an_answer(dpbudget, monkeypatch: pytest.MonkeyPatch) -> None:
    nan = Guarantee("pld", Kind.INTERVAL, Interval(0.0, math.nan), {"gap": "numerical", "met_tolerance": True})
    item = ACCOUNTANTS["pld"]
    broken = type(item)(item.name, item.kind, item.title, item.source, lambda *a: nan, lambda *a: nan)
    monkeypatch.setitem(ACCOUNTANTS, "pld", broken)  # type: ignore[arg-type]
    with pytest.raises(NotCertified):
        account.epsilon(run(1.0, 0.01, 10), 1e-5)
    ran = dpbudget("epsilon", "-s", "1", "-q", "0.01", "-t", "10", "-d", "1e-5", "-a", "pld", "--json")
    assert ran.code == 4 and ran.json["result"]["epsilon"].get("upper") is None


def test_contradicting_guarantees_raise() -> None:
    low = Guarantee("pld", Kind.INTERVAL, Interval(3.0, 3.1))
    high = Guarantee("rdp", Kind.UPPER_BOUND, Interval(None, 2.9))
    with pytest.raises(ContradictionError):
        account.cross_check([low, high])
    account.cross_check([Guarantee("pld", Kind.INTERVAL, Interval(2.8, 3.1)), high])


def test_a_contour_value_outside_the_interval_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certified, "NARROW", 0.0)
    monkeypatch.setattr(certified.contour, "epsilon", lambda parts, delta: 99.0)
    found = account.epsilon(run(1.0, 0.01, 100), 1e-5)
    assert found.value.lower <= found.value.estimate <= found.value.upper


def test_merged_gaussians_err_upwards() -> None:
    """Three releases of 2 are one of 2 / sqrt(3), in 40 digits: the merged multiplier is never above it."""
    import mpmath

    for sigma, count in ((2.0, 3), (0.7, 1000), (1e-160, 7)):
        [(pair, uses)] = Ledger.of([Release(Gaussian(sigma), count)], ADD).directions["both"]
        with mpmath.workdps(40):
            assert uses == 1 and pair.sigma <= mpmath.mpf(sigma) / mpmath.sqrt(count)


def test_both_ends_of_merged_gaussians_hold_to_the_last_digit() -> None:
    """The multiplier of the whole is no double: rounded down it would put the lower end above the truth."""
    import mpmath

    def exact(epsilon: float, sigma: mpmath.mpf) -> mpmath.mpf:
        return mpmath.ncdf(1 / (2 * sigma) - epsilon * sigma) - mpmath.exp(epsilon) * mpmath.ncdf(
            -1 / (2 * sigma) - epsilon * sigma
        )

    for sigma, count, group, delta in (
        (0.0313, 11_043, 7, 9.5e-50),
        (0.68, 26_815, 3, 4.8e-75),
        (3.9, 337, 7, 2.5e-43),
    ):
        step = SampledGaussian(sigma, 1.0, Sampling.FULL_BATCH, group_size=group)
        ledger = Ledger.of([Release(step, count)], ADD)
        ends = account.epsilon(ledger, delta)
        at = account.delta(ledger, ends.upper)
        with mpmath.workdps(60):
            whole = mpmath.mpf(sigma) / group / mpmath.sqrt(count)
            assert exact(ends.lower, whole) >= delta >= exact(ends.upper, whole)
            assert at.lower <= exact(ends.upper, whole) <= at.upper


def test_a_gaussian_release_has_its_multiplier_over_the_distance_already() -> None:
    for adjacency in Adjacency:
        [pair] = dominating_pairs(Gaussian(2.0), adjacency).values()
        assert pair.sigma == 2.0
        assert account.epsilon(Ledger.of([Release(Gaussian(2.0))], adjacency), 1e-5).upper == pytest.approx(
            account.epsilon(Ledger.of([Release(SampledGaussian(4.0, 1.0))], Adjacency.REPLACE_ONE), 1e-5).upper
        )


def test_masses_that_nearly_add_up_are_made_to() -> None:
    short = account.delta(Ledger.of([Release(GaussianMixture(1.0, (0.3, 0.7 - 9e-13)), 10**6)], ADD), 0.0)
    whole = account.delta(Ledger.of([Release(GaussianMixture(1.0, (0.3, 0.7)), 10**6)], ADD), 0.0)
    assert short.upper == pytest.approx(whole.upper, rel=1e-9)


@pytest.mark.parametrize("sampling", [Sampling.FIXED_SIZE, Sampling.SHUFFLE, Sampling.BALLS_IN_BINS])
def test_delta_of_one_batch_an_epoch_is_that_of_a_full_batch(sampling: Sampling) -> None:
    adjacency = Adjacency.ZERO_OUT
    found = account.delta(Ledger.of([Release(SampledGaussian(2.0, 1.0, sampling), 3)], adjacency), 1.0)
    plain = account.delta(Ledger.of([Release(Gaussian(2.0), 3)], adjacency), 1.0)
    assert (found.lower, found.upper) == pytest.approx((plain.lower, plain.upper), rel=1e-13)
