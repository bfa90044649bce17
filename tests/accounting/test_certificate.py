"""The certified interval under attack: random compositions against truth that shares no code with it.

Truth is, in this order: the closed form at rate 1 and at one step, quadrature over x at two and three steps, and elsewhere a
contour of the tests' own (`contour_reference`) that has to agree with itself under finer panels, more frequencies, a longer
period and another tilt. What it cannot decide is counted as skipped. Two ceilings hold always: RDP, and dp-accounting's
pessimistic privacy loss distribution where it is cheap, may not lie below a proven lower end.
"""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import contour_reference as reference
import mpmath
import numpy as np
import pytest
from numpy.random import Generator

from dpbudget.accounting import mesh, rdp
from dpbudget.accounting.discrete_pairs import AtomicPair, SampledLaplaceRemove, approximate_dp_pair
from dpbudget.accounting.discretise import ROUNDS, _sweep, convex_minorant, discretise
from dpbudget.accounting.lattice import Bracket, certify_delta, certify_epsilon
from dpbudget.accounting.pair import Pair
from dpbudget.accounting.pairs import SampledGaussianAdd, SampledGaussianRemove
from dpbudget.errors import NotCertified

DATA = Path(__file__).parents[1] / "data"
PAIRS = {"remove": SampledGaussianRemove, "add": SampledGaussianAdd}
HALF_UNIT = 5e-10  # golden.csv has nine decimals
STABLE = 1e-6  # in log delta: a reference that moves by more under refinement decides nothing
SECONDS = 20


@dataclass(frozen=True)
class Case:
    direction: str
    sigma: float
    rate: float
    steps: int
    delta: float
    tolerance: float

    @property
    def parts(self):
        return [(PAIRS[self.direction](self.sigma, self.rate), self.steps)]


def random_case(rng: Generator) -> Case:
    """The ranges that the project promises: sigma .1 to 100, rate 1e-6 to 1, 1 to 1e7 steps, delta 1e-15 to 1e-2."""

    def spread(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    kind = rng.random()
    steps = 1 if kind < 0.05 else int(rng.integers(2, 4)) if kind < 0.15 else round(spread(1, 1e7))
    rate = 1.0 if rng.random() < 0.05 else spread(1e-6, 1)
    direction = str(rng.choice(["remove", "add"]))
    tolerance = float(rng.choice([1e-4, 1e-5, 1e-6]))
    return Case(direction, spread(0.1, 100), rate, steps, spread(1e-15, 1e-2), tolerance)


def true_log_delta(case: Case, epsilon: float, work: float) -> tuple[float, float]:
    """log delta at epsilon and how far it may be off."""
    sigma, q, steps, log_delta = case.sigma, case.rate, case.steps, math.log(case.delta)
    if q == 1.0 or steps == 1:
        direction = "remove" if q == 1.0 else case.direction  # without sampling the pair is its own reverse
        value = reference.delta_mp(direction, mpmath.mpf(sigma) / mpmath.sqrt(steps), q, epsilon)
        return float(mpmath.log(value)) if value > 0 else -math.inf, 1e-12
    if steps in (2, 3):
        coarse, fine = (
            reference.delta_few(case.direction, sigma, q, steps, log_delta, epsilon, f) for f in (1.0, 1.37)
        )
    if steps > 3 or not (coarse == fine or abs(fine - coarse) < STABLE):
        for reach in (100, 400, 1500):  # frequencies over the scale, where the power does not decay before
            ends = [
                reference.line(case.direction, sigma, q, steps, log_delta, epsilon, fineness, lean, work, reach)
                for fineness, lean in ((1.0, 0.78), (1.7, 0.9))
            ]
            coarse, fine = (end.delta(epsilon) for end in ends)
            if abs(fine - coarse) < STABLE / 10:
                break
    if coarse == fine == -math.inf:
        return -math.inf, 0.0
    return fine, abs(fine - coarse)


class TookTooLong(Exception):
    pass


def _alarm(*_: object) -> None:
    raise TookTooLong


@dataclass
class Tally:
    """What a campaign found; `wrong` must stay empty."""

    cases: int = 0
    decided: int = 0
    unmet: int = 0
    refused: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def attack(self, case: Case, work: float) -> None:
        self.cases += 1
        old = signal.signal(signal.SIGALRM, _alarm)
        try:
            signal.alarm(SECONDS)
            bracket = certify_epsilon(case.parts, case.delta, tolerance=case.tolerance)
        except TookTooLong:
            self.slow.append(f"{case}: slow")
        except NotCertified as why:
            self.refused.append(f"{case}: {why}")
        else:
            self._judge(case, bracket, work)
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, old)

    def _judge(self, case: Case, bracket: Bracket, work: float) -> None:
        signal.alarm(0)
        self.unmet += not bracket.met_tolerance
        if not (0 <= bracket.lower <= bracket.upper) or (bracket.met_tolerance and math.isinf(bracket.upper)):
            self.wrong.append(f"{case}: no interval: {bracket}")
            return
        # a ceiling, so that no lower end goes unchecked; 1e-9 is what the RDP quadrature itself may be off
        if bracket.lower > rdp.epsilon(case.parts, case.delta).epsilon * (1 + 1e-9):
            self.wrong.append(f"{case}: above RDP: {bracket}")
        if (
            bracket.upper == 0
            and case.steps * reference.delta_mp(case.direction, case.sigma, case.rate, 0.0) <= case.delta
        ):
            self.decided += 1  # the total variations of the steps add up to no more than delta
            return
        try:
            signal.alarm(SECONDS)
            self._compare(case, bracket, work)
        except (TookTooLong, reference.Unstable) as why:
            self.undecided.append(f"{case}: {why or 'the reference takes too long'}")

    def _compare(self, case: Case, bracket: Bracket, work: float) -> None:
        target = math.log(case.delta)
        for end, sign in ((bracket.lower, 1), (bracket.upper, -1)):
            if end == 0 if sign > 0 else math.isinf(end):
                continue
            with np.errstate(all="ignore"):
                value, error = true_log_delta(case, end, work)
            if not error < STABLE:
                raise reference.Unstable(f"the reference moves by {error}")
            if value == -math.inf and end < sum(n * pair.largest_loss for pair, n in case.parts):
                raise reference.Unstable("the reference finds no delta below the largest loss")
            # three times the observed change, and the round-off of a sum of a hundred thousand terms
            if sign * (value - target) < -(3 * error + 3e-11):
                self.wrong.append(f"{case}: {bracket} but log delta there is {value}, off {error}")
        self.decided += 1

    def report(self) -> str:
        lines = [
            f"{self.cases} cases, {self.decided} decided, {len(self.undecided)} left open by the reference, "
            f"{len(self.slow)} slow, {len(self.refused)} refused, {self.unmet} wider than asked"
        ]
        return "\n".join(lines + self.wrong + self.slow + self.refused + self.undecided)


def test_random_sample() -> None:
    """A share of the long campaign: bounded in time, the reference in work, so that a slow machine checks fewer cases."""
    rng = np.random.default_rng(20240229)
    tally = Tally()
    start = time.monotonic()
    while tally.cases < 60 and time.monotonic() - start < 12:
        tally.attack(random_case(rng), 1e8)
    print(tally.report())
    assert not tally.wrong, tally.report()
    assert tally.decided > tally.cases / 2, tally.report()


@pytest.mark.slow
def test_three_thousand_random_configurations() -> None:
    """DPBUDGET_CASES and DPBUDGET_SEED choose another number and another start."""
    rng = np.random.default_rng(int(os.environ.get("DPBUDGET_SEED", "3000")))
    tally = Tally()
    for _ in range(int(os.environ.get("DPBUDGET_CASES", "3000"))):
        tally.attack(random_case(rng), 3e9)
    print(tally.report())
    assert not tally.wrong, tally.report()
    assert len(tally.slow) + len(tally.refused) <= 0.02 * tally.cases, tally.report()
    # the reference cannot follow a few rarely sampled steps: there only the ceiling has been checked
    assert len(tally.undecided) <= 0.12 * tally.cases, tally.report()


@pytest.mark.slow
def test_lower_ends_stay_below_the_pessimistic_ceiling_of_dp_accounting() -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    rng = np.random.default_rng(7)
    for _ in range(60):
        sigma, q, steps = rng.uniform(0.5, 5), float(np.exp(rng.uniform(-9, -0.1))), int(np.exp(rng.uniform(0, 7)))
        delta = float(np.exp(rng.uniform(-23, -5)))
        lower = max(certify_epsilon([(pair(sigma, q), steps)], delta).lower for pair in PAIRS.values())
        ceiling = (
            pld.from_gaussian_mechanism(sigma, value_discretization_interval=1e-3, sampling_prob=q)
            .self_compose(steps)
            .get_epsilon_for_delta(delta)
        )
        assert lower <= ceiling * (1 + 1e-9), (sigma, q, steps, delta, lower, ceiling)


def golden() -> list[tuple[Case, float]]:
    with (DATA / "golden.csv").open() as file:
        return [
            (
                Case(
                    d, float(r["noise_multiplier"]), float(r["sampling_rate"]), int(r["steps"]), float(r["delta"]), 1e-4
                ),
                float(r[f"epsilon_{d}"]),
            )
            for r in csv.DictReader(file)
            for d in PAIRS
        ]


@pytest.mark.parametrize("tolerance", [1e-4, 1e-5, 1e-6])
def test_golden_values_lie_inside_and_the_width_is_met(tolerance: float) -> None:
    for case, epsilon in golden():
        bracket = certify_epsilon(case.parts, case.delta, tolerance=tolerance)
        assert bracket.lower - HALF_UNIT <= epsilon <= bracket.upper + HALF_UNIT, (case, bracket)
        assert bracket.met_tolerance, (case, bracket)
        assert bracket.upper - bracket.lower <= tolerance * bracket.upper, (case, bracket)


@pytest.mark.parametrize("tolerance", [1e-4, 1e-5, 1e-6])
def test_published_brackets_are_met_and_the_width_is_met(tolerance: float) -> None:
    for case in json.loads((DATA / "brackets.json").read_text())["cases"]:
        ends = [
            certify_epsilon(
                [(pair(case["noise_multiplier"], case["sampling_rate"]), case["steps"])],
                case["delta"],
                tolerance=tolerance,
            )
            for pair in PAIRS.values()
        ]
        lower, upper = max(e.lower for e in ends), max(e.upper for e in ends)
        assert lower <= case["epsilon_upper"], case
        assert upper >= case["epsilon_lower"], case
        assert upper - lower <= tolerance * upper, case


def test_delta_and_epsilon_certify_each_other() -> None:
    """delta at the upper end is proven to be at least nothing more than delta, at the lower end at most nothing less."""
    rng = np.random.default_rng(1)
    for _ in range(12):
        case = random_case(rng)
        if case.steps > 1e5:
            continue
        bracket = certify_epsilon(case.parts, case.delta, tolerance=1e-4)
        if bracket.lower > 0:
            assert certify_delta(case.parts, bracket.lower, tolerance=1e-4).upper >= case.delta, case
        if math.isfinite(bracket.upper):
            assert certify_delta(case.parts, bracket.upper, tolerance=1e-4).lower <= case.delta, case


@pytest.mark.parametrize(
    "case",
    [
        Case("add", 0.118511, 0.10833, 1837, 4.5044e-14, 1e-5),
        Case("add", 0.119027, 0.000366739, 3777612, 2.4536e-15, 1e-4),
        Case("add", 0.2, 0.5, 300, 1e-12, 1e-5),
    ],
)
def test_no_lower_end_above_the_largest_loss(case: Case) -> None:
    """Adding a record costs at most -log(1 - q) a step at any delta: the lattice once claimed more where it proved nothing."""
    bracket = certify_epsilon(case.parts, case.delta, tolerance=case.tolerance)
    assert bracket.lower <= -case.steps * math.log1p(-case.rate)


def test_an_infinite_end_never_passes_for_sharp() -> None:
    case = Case("remove", 0.114505, 1.37454e-5, 839, 8.4764e-8, 1e-6)
    bracket = certify_epsilon(case.parts, case.delta, tolerance=case.tolerance)
    assert math.isfinite(bracket.upper)
    assert bracket.met_tolerance == (bracket.upper - bracket.lower <= case.tolerance * bracket.upper)


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-6, 3e-7, 1e-12])
def test_the_lower_end_is_finite_where_delta_is_the_infinite_mass(delta: float) -> None:
    """An (epsilon, delta) guarantee at its own delta: truth is epsilon, so that infinity is no lower bound."""
    high = (1 - delta) / (1 + math.exp(-0.5))
    pair = AtomicPair(((-0.5, 1 - delta - high), (0.5, high)), delta)
    for target in (delta, math.nextafter(delta, 1)):
        assert certify_epsilon([(pair, 1)], target).lower <= 0.5 + 1e-12


def hockey(losses: np.ndarray, masses: np.ndarray, infinite: float, levels: np.ndarray) -> np.ndarray:
    return infinite + np.maximum(1 - levels[:, None] * np.exp(-losses), 0.0) @ masses


def test_lattice_measures_enclose_random_pairs() -> None:
    """Both hockey sticks, on all y >= 0 and after squaring, for random atoms on coarse and fine lattices."""
    rng = np.random.default_rng(2)
    levels = np.append(0.0, np.exp(np.linspace(-6, 6, 181)))
    for _ in range(150):
        size = int(rng.integers(1, 40))
        losses = np.sort(rng.normal(rng.uniform(-1, 1), rng.uniform(0.05, 1.5), size))
        masses = rng.dirichlet(np.full(size, rng.uniform(0.1, 3)))
        masses = masses / (masses @ np.exp(-losses)) if masses @ np.exp(-losses) > 1 else masses
        infinite = max(0.0, 1 - float(masses.sum())) * 0.5
        pair = AtomicPair(tuple(zip(losses.tolist(), masses.tolist(), strict=True)), infinite)
        found = discretise(pair, float(np.exp(rng.uniform(-6, 0.5))), -60.0)
        exact = hockey(losses, masses, infinite, levels)
        above = hockey(found.upper.losses, found.upper.mass, found.upper.infinite, levels)
        below = hockey(found.lower.losses, found.lower.mass, found.lower.infinite, levels)
        assert np.all(above >= exact - 4e-15)  # masses of total 1, summed in double precision
        assert np.all(below <= exact + 4e-15)


def test_removing_nodes_one_by_one_ends_below_as_well() -> None:
    """`convex_minorant` hands long chains to a sweep; either way no mass is negative and the hockey stick only falls."""
    rng = np.random.default_rng(4)
    levels = np.append(0.0, np.exp(np.linspace(-1, 8, 300)))
    for _ in range(60):
        size = int(rng.integers(3, 160))
        step = float(rng.uniform(0.001, 0.05))
        masses = np.abs(rng.normal(size=size)) * np.exp(rng.uniform(-2, 2))
        masses[rng.random(size) < 0.3] *= -0.7
        masses[-1] = abs(masses).sum()  # so that the stick itself stays convex enough to have a minorant
        losses = step * np.arange(size)
        before = hockey(losses, masses, 0.0, levels)
        for after in (convex_minorant(masses, step), _sweep(masses, np.arange(size), step)):
            assert after.min() >= 0
            assert np.all(hockey(losses, after, 0.0, levels) <= before + 1e-11 * masses[-1])
    assert ROUNDS < 100


def test_nodes_without_mass_are_no_kinks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the atoms of a finite pair a lattice is empty: a removal that walked over it would take seconds a pair."""
    masses, sparse = np.array([0.3, -0.01, 0.5, -0.02, 0.4]), np.zeros(400_000)
    sparse[[1, 90_000, 100_000, 250_000, 399_990]] = masses
    swept = _sweep(sparse, np.arange(sparse.size), 1e-5)
    monkeypatch.setattr("dpbudget.accounting.discretise._sweep", None)
    assert convex_minorant(sparse, 1e-5) == pytest.approx(swept, abs=1e-9)
    assert convex_minorant(np.append([-0.1, 0.0, 0.3], np.zeros(9)), 0.1) == pytest.approx([0, 0, 0.2] + [0] * 9)


def test_never_ordered_the_wrong_way() -> None:
    rng = np.random.default_rng(9)
    for _ in range(10):
        case = random_case(rng)
        if case.steps > 1e6 or case.rate > 0.9 or case.sigma < 0.4:
            continue
        pair = PAIRS[case.direction]
        base = certify_epsilon(case.parts, case.delta, tolerance=1e-4)
        cheaper = [
            ([(pair(case.sigma * 1.01, case.rate), case.steps)], case.delta),
            ([(pair(case.sigma, case.rate * 0.99), case.steps)], case.delta),
            ([(pair(case.sigma, case.rate), max(1, int(case.steps * 0.99)))], case.delta),
            (case.parts, min(1.0, case.delta * 1.02)),
        ]
        for parts, delta in cheaper:
            assert certify_epsilon(parts, delta, tolerance=1e-4).lower <= base.upper, (case, parts, delta)


def test_noise_too_small_to_be_resolved_takes_no_memory() -> None:
    """Panels as narrow as the law is would fill gigabytes."""
    for sigma in (1e-4, 1e-9):
        with pytest.raises(NotCertified, match="so little noise"):
            certify_epsilon([(SampledGaussianRemove(sigma, 0.01), 3)], 1e-5)


def test_many_different_pairs_share_the_work_of_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh, "MAX_CELLS", 2**14)
    parts = [(approximate_dp_pair(0.01 * (1 + i / 50), 0.0), 1) for i in range(40)]
    found = certify_epsilon(parts, 1e-5, tolerance=1e-9)
    assert 40 * found.detail["cells"] <= mesh.FEW_PARTS * mesh.MAX_CELLS * 1.2
    assert 0 < found.lower < found.upper < 1.1 * found.lower


@pytest.mark.parametrize("tiny", [approximate_dp_pair(1e-9, 0.0), SampledLaplaceRemove(1e12)])
def test_tiny_atoms_beside_large_ones_do_not_set_the_mesh(tiny: Pair) -> None:
    """A lattice that meets atoms 1e-9 apart exactly has billions of points on [-1, 1]."""
    found = certify_epsilon([(SampledLaplaceRemove(2.0), 2), (tiny, 100)], 1e-5)
    assert found.detail["cells"] <= mesh.MAX_CELLS
    assert found.upper - found.lower < 1e-3 * found.upper
    alone = certify_epsilon([(SampledLaplaceRemove(2.0), 2)], 1e-5)
    assert found.upper >= alone.lower and found.lower <= alone.upper + 2e-7
