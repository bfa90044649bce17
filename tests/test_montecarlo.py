"""The sampling checks: unbiased, intervals that cover, as fast as promised, and they catch what is broken."""

from __future__ import annotations

import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from conftest import patience
from scipy.special import ndtr

import dpbudget
from dpbudget.errors import InputError
from dpbudget.montecarlo import (
    Canary,
    Phase,
    PositionCanary,
    agrees,
    audit,
    convicts,
    from_counts,
    from_scores,
    refutes,
    sample_delta,
    sampling,
)
from dpbudget.montecarlo import laws as mc_laws
from dpbudget.montecarlo.intervals import Tally, mean_interval, success_upper

DATA = Path(__file__).parent / "data" / "golden.csv"
BASE = [Phase(1.0, 0.01, 1000)]
# Certified epsilon of BASE at delta 1e-5 (remove): 1.828237; of one Gaussian release, sigma 1: 4.377178.
FULL_BATCH_EPSILON = 4.37718
BASE_EPSILON = 1.82824
SURE = 1 - 1e-6


def golden(sigma: float, rate: float, steps: int, delta: float) -> tuple[float, float]:
    for line in DATA.read_text().splitlines()[1:]:
        cells = line.split(",")
        if [float(c) for c in cells[:4]] == [rate, sigma, steps, delta]:
            return float(cells[4]), float(cells[5])
    raise AssertionError("no such row")


def gaussian_delta(epsilon: float, mu: float) -> float:
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


# --- intervals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["betting", "kl", "bernstein"])
@pytest.mark.parametrize(("shape", "n"), [((0.3, 40.0), 50), ((2.0, 5.0), 400), ((0.02, 0.02), 30), ((1.0, 1e4), 100)])
def test_intervals_cover_any_bounded_law(method: str, shape: tuple[float, float], n: int) -> None:
    """90 % asked for: at most 10 % + 5 binomial standard deviations of 400 repetitions may miss."""
    a, b = shape
    truth, misses = a / (a + b), 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        pilot, tally = Tally(), Tally()
        pilot.add(rng.beta(a, b, 10))
        tally.add(rng.beta(a, b, n))
        low, high = mean_interval(tally, 0.9, method, pilot)
        misses += not low <= truth <= high
    assert misses <= 40 + 30


def test_zero_hits_do_not_mean_zero() -> None:
    tally = Tally()
    tally.add(np.zeros(1000))
    for method in ("betting", "kl"):
        low, high = mean_interval(tally, 0.99, method)
        assert low == 0.0
        assert high > 1 - 0.005 ** (1 / 1000)  # the exact bound for coins; nothing may be below it


def test_tally_keeps_the_mean_and_refuses_nan() -> None:
    values = np.random.default_rng(0).random(5000) ** 8
    tally = Tally()
    tally.add(values)
    edges = sampling.Tally().weight.size
    assert tally.weight.size == edges
    assert float(tally.weight.sum()) == pytest.approx(5000, rel=1e-12)
    assert tally.variance == pytest.approx(values.var(ddof=1), rel=1e-10)
    with pytest.raises(InputError):
        tally.add(np.array([0.5, math.nan]))


def test_betting_is_narrower_than_kl_for_weights_of_small_spread() -> None:
    tally = Tally()
    tally.add(0.2 + 0.02 * np.random.default_rng(1).random(20_000))
    pilot = Tally()
    pilot.add(0.2 + 0.02 * np.random.default_rng(2).random(500))
    width = {m: np.subtract(*mean_interval(tally, 0.99, m, pilot)[::-1]) for m in ("betting", "kl", "bernstein")}
    assert width["betting"] < width["bernstein"] < width["kl"]


def test_clopper_pearson_against_the_binomial_tail() -> None:
    p = success_upper(3, 50, 1e-7)
    tail = sum(math.comb(50, k) * p**k * (1 - p) ** (50 - k) for k in range(4))
    assert tail == pytest.approx(1e-7, rel=1e-5)
    assert tail <= 1e-7
    assert success_upper(50, 50, 0.05) == 1.0


@pytest.mark.parametrize(
    ("successes", "trials", "failure"),
    [(10, 375_000, 5e-7), (368_021, 375_000, 5e-7), (999, 1000, 1e-10), (1, 10**9, 1e-9), (3, 40, 1e-100), (1, 2, 0.3)],
)
def test_clopper_pearson_is_never_below_the_exact_tail(successes: int, trials: int, failure: float) -> None:
    """SciPy 1.11's inverse beta function answers the first with 0.036 in place of 9.4e-5; the bound is 1e-10 sharp."""

    def tail(p: float) -> mpmath.mpf:
        """Pr[Bin(trials, p) <= successes] from the largest term down."""
        with mpmath.workdps(40):
            odds = mpmath.mpf(p) / (1 - mpmath.mpf(p))
            term = (
                mpmath.binomial(trials, successes)
                * mpmath.mpf(p) ** successes
                * (1 - mpmath.mpf(p)) ** (trials - successes)
            )
            total, k = term, successes
            while k and term > total * mpmath.mpf("1e-25"):
                term *= k / (odds * (trials - k + 1))
                total, k = total + term, k - 1
            return total

    p = success_upper(successes, trials, failure)
    assert tail(p) <= failure < tail(p * (1 - 1e-10))


def test_counts_beyond_all_sums_have_a_wider_bound() -> None:
    """Pr[Bin(1e15, p) <= 4] = 0.001 at p = 1.4766e-14, by the law of small numbers."""
    assert 1.4766e-14 < success_upper(4, 10**15, 1e-3) < 1.3 * 1.4766e-14


# --- sampling --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0, 0.5, 1, 2, 2.5, 3])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_moments_and_samplers_agree_with_quadrature(direction: str, lam: float) -> None:
    """K(lam) and the mean of the tilted law against adaptive quadrature; 200,000 draws: 5 standard errors."""
    from scipy.integrate import quad

    sigma, rate = 0.9, 0.15
    law = sampling._law(Phase(sigma, rate, 1), lam, direction, math.inf)

    def density(x: float, power: float) -> float:
        ratio = 1 - rate + rate * math.exp((2 * x - 1) / (2 * sigma**2))
        return math.exp(-0.5 * (x / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi)) * ratio**power

    sign, power = (1, lam + 1) if direction == "remove" else (-1, -lam)
    moment = quad(density, -12, 16, args=(power,), epsabs=0, epsrel=1e-12, limit=400)[0]
    assert law.log_moment == pytest.approx(math.log(moment), abs=1e-11)
    mean = quad(
        lambda x: density(x, power) * math.log(1 - rate + rate * math.exp((2 * x - 1) / (2 * sigma**2))),
        -12, 16, epsabs=0, epsrel=1e-10, limit=400,
    )[0] / moment  # fmt: skip
    draws = law.sums(np.random.default_rng(3), 20_000, 10) / 10
    assert draws.mean() == pytest.approx(sign * mean, abs=5 * draws.std() / math.sqrt(draws.size))


def test_ceiling_cuts_exactly_what_it_says() -> None:
    law = mc_laws.RemoveLaw(1.0, 0.1, 3, ceiling=1.5)
    draws = law.sums(np.random.default_rng(0), 50_000, 1)
    assert draws.max() <= math.log(0.9 + 0.1 * math.exp(1.0)) + 1e-12
    assert law.missing == pytest.approx(0.1 * ndtr(-0.5) + ndtr(-1.5), rel=1e-9)
    full = mc_laws.RemoveLaw(1.0, 0.1, 3).sums(np.random.default_rng(1), 400_000, 1)
    inside = full[full <= draws.max() + 1e-9]
    assert draws.mean() == pytest.approx(inside.mean(), abs=5 * draws.std() / math.sqrt(50_000))


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "delta"),
    [(3.0, 0.1, 512, 1e-6), (10.0, 0.08192, 875, 1e-5), (0.8, 0.05, 100, 1e-6), (0.8, 0.2, 100, 1e-6),
     (1.0, 0.01, 1000, 1e-50), (4.0, 0.00033, 10000, 1.1e-18)],
)  # fmt: skip
def test_sampled_delta_meets_the_golden_values(
    direction: str, sigma: float, rate: float, steps: int, delta: float
) -> None:
    epsilon = golden(sigma, rate, steps, delta)[direction == "add"]
    samples = min(2000, 1_500_000 // steps)
    found = sample_delta(
        [Phase(sigma, rate, steps)], epsilon, samples=samples, confidence=1 - 1e-6, seed=7, directions=(direction,)
    )
    assert found[direction].lower <= delta <= found[direction].upper
    assert found[direction].estimate == pytest.approx(delta, abs=5 * found[direction].standard_error)
    assert found[direction].upper < 30 * delta


def test_phases_of_any_kind_together_and_gaussian_in_closed_form() -> None:
    """Full batches and a huge number of tiny steps; one Gaussian whose delta is known."""
    exact = sample_delta([Phase(2.0, 1.0, 4)], 5.0, samples=4000, seed=1)
    truth = gaussian_delta(5.0, 1.0)
    for name in ("remove", "add", "both"):
        assert exact[name].lower <= truth <= exact[name].upper
    plain = sample_delta([Phase(0.7, 0.2, 20), Phase(1.5, 1.0, 3)], 4.0, samples=20_000, seed=1, tilted=False)
    tilted = sample_delta([Phase(0.7, 0.2, 20), Phase(1.5, 1.0, 3)], 4.0, samples=20_000, seed=2)
    assert plain["remove"].tilt == 0 < tilted["remove"].tilt
    assert agrees(plain["both"], tilted["both"].lower, tilted["both"].upper)


def test_more_steps_than_a_block_holds() -> None:
    """steps > CHUNK; in the limit of a large sigma the sum is one Gaussian of mu = q sqrt(T) / sigma, to 1 % here."""
    steps, sigma, rate = 40_000, 20.0, 0.05
    assert steps > mc_laws.CHUNK
    found = sample_delta([Phase(sigma, rate, steps)], 2.0, samples=60, seed=3, confidence=1 - 1e-6)
    assert found["both"].lower <= gaussian_delta(2.0, rate * math.sqrt(steps * math.expm1(sigma**-2)))
    assert found["both"].upper >= gaussian_delta(2.0, rate * math.sqrt(steps * math.expm1(sigma**-2)))


def test_beyond_the_largest_loss_delta_is_zero() -> None:
    found = sample_delta([Phase(1.0, 0.01, 10)], 0.2, samples=500, seed=0)
    assert found["add"].upper == 0.0
    assert found["remove"].upper > 0.0


def test_standard_error_and_refutation() -> None:
    """The issue's precision, at a tenth of its samples: errors grow by sqrt(10)."""
    for delta, share in ((1e-5, 0.015), (1e-10, 0.03)):
        chosen = sampling.plan(BASE, epsilon_at(delta), "remove")
        found = sampling.sample_direction(chosen, np.random.default_rng(2), samples=2000)
        assert found.standard_error / delta < share * math.sqrt(10)
        assert agrees(found, delta, delta)
        assert refutes(found, delta / 2)
        assert not refutes(found, delta)
        assert refutes(found, math.nan)


def epsilon_at(delta: float) -> float:
    """Epsilon of BASE in the remove direction; at 1e-10 from the certified interval [3.29044374994, 3.29044375336]."""
    return {1e-5: golden(1.0, 0.01, 1000, 1e-5)[0], 1e-10: 3.29044375}[delta]


def test_seeds_repeat_and_precision_chooses_the_samples() -> None:
    one = sample_delta([Phase(3.0, 0.1, 50)], 1.0, samples=500, seed=11)
    two = sample_delta([Phase(3.0, 0.1, 50)], 1.0, samples=500, seed=11)
    assert one == two
    done: list[tuple[int, int]] = []
    found = sample_delta(
        [Phase(3.0, 0.1, 50)], 1.0, precision=0.05, seed=1, directions=("remove",), progress=lambda *p: done.append(p)
    )["remove"]
    assert (
        found.upper - found.lower
    ) / 2 < 0.06 * found.estimate  # a forecast from the pilot: a fifth too wide at most
    assert done[-1] == (found.samples, found.samples)


@pytest.mark.parametrize(
    "call",
    [
        lambda: sample_delta(BASE, math.nan, samples=10),
        lambda: sample_delta(BASE, 1.0),
        lambda: sample_delta(BASE, 1.0, samples=10, precision=0.1),
        lambda: sample_delta(BASE, 1.0, samples=10, confidence=math.nan),
        lambda: sample_delta(BASE, 1.0, samples=10, interval="normal"),
        lambda: Phase(math.nan, 0.1, 1),
        lambda: Phase(1.0, math.nan, 1),
        lambda: from_counts(1, 0, 1, 0, delta=math.nan, confidence=0.9),
        lambda: from_counts(0, 0, 1, 0, delta=1e-5, confidence=0.9),
        lambda: from_scores(np.array([math.nan] * 8), np.zeros(8), delta=0.0, confidence=0.9),
    ],
)
def test_nonsense_is_refused(call) -> None:
    with pytest.raises(InputError):
        call()


@pytest.mark.slow
def test_coverage_of_the_99_percent_interval() -> None:
    """500 seeds at 99 %: 5 misses are expected at most, 12 have probability 0.002 even if all the level is used."""
    epsilon = golden(1.0, 0.01, 1000, 1e-5)[0]
    chosen = sampling.plan(BASE, epsilon, "remove")
    misses = 0
    for seed in range(500):
        found = sampling.sample_direction(chosen, np.random.default_rng(seed), samples=1000, confidence=0.99)
        misses += not found.lower <= 1e-5 <= found.upper
    assert misses <= 12


@pytest.mark.slow
def test_standard_error_of_twenty_thousand_samples() -> None:
    for delta, share in ((1e-5, 0.015), (1e-10, 0.03)):
        chosen = sampling.plan(BASE, epsilon_at(delta), "remove")
        found = sampling.sample_direction(chosen, np.random.default_rng(2), samples=20_000)
        assert found.standard_error / delta < share


# --- attacks ---------------------------------------------------------------------------------------------------------


def test_counts_of_the_issue() -> None:
    found = from_counts(100, 0, 100, 0, delta=1e-5, confidence=0.9)
    assert 3.4929 < found.epsilon < 3.4930
    assert from_counts(50, 50, 50, 50, delta=1e-5, confidence=0.9).epsilon == 0.0


def test_full_batch_with_half_the_noise_is_caught() -> None:
    found = audit(Canary(0.5, 1.0, 1), 1_000_000, delta=1e-5, confidence=SURE, seed=1)
    assert convicts(found, FULL_BATCH_EPSILON)
    assert not convicts(audit(Canary(1.0, 1.0, 1), 1_000_000, delta=1e-5, confidence=SURE, seed=1), FULL_BATCH_EPSILON)


def test_fixed_batches_by_position_are_caught() -> None:
    found = audit(PositionCanary(1.0, 0.01, 1000, position=17), 2000, delta=1e-5, confidence=SURE, seed=1)
    assert convicts(found, BASE_EPSILON)


def clipping_after_the_noise(rng: np.random.Generator, world: bool, runs: int) -> np.ndarray:
    """One full batch in 20 dimensions: a gradient of norm 100 that nobody clipped, unit noise, then the clip."""
    seen = rng.standard_normal((runs, 20))
    seen[:, 0] += 100.0 if world else 0.0
    return seen[:, 0] / np.maximum(1.0, np.linalg.norm(seen, axis=1))


def clipping_before_the_noise(rng: np.random.Generator, world: bool, runs: int) -> np.ndarray:
    seen = rng.standard_normal((runs, 20))
    seen[:, 0] += 1.0 if world else 0.0
    return seen[:, 0]


def test_clipping_after_the_noise_is_caught_through_the_hook() -> None:
    wrong = audit(clipping_after_the_noise, 20_000, delta=1e-5, confidence=SURE, seed=1)
    right = audit(clipping_before_the_noise, 20_000, delta=1e-5, confidence=SURE, seed=1)
    assert convicts(wrong, FULL_BATCH_EPSILON)
    assert not convicts(right, FULL_BATCH_EPSILON)


def check_right_mechanisms(seeds: range) -> None:
    for seed in seeds:
        for mechanism, runs, bound in (
            (Canary(1.0, 1.0, 1), 100_000, FULL_BATCH_EPSILON),
            (Canary(1.0, 0.01, 1000), 400, BASE_EPSILON),
            (clipping_before_the_noise, 2000, FULL_BATCH_EPSILON),
        ):
            assert not convicts(audit(mechanism, runs, delta=1e-5, confidence=SURE, seed=seed), bound)


def test_right_mechanisms_pass_five_seeds() -> None:
    check_right_mechanisms(range(5))


@pytest.mark.slow
def test_right_mechanisms_pass_a_hundred_seeds() -> None:
    check_right_mechanisms(range(100))
    for seed in range(100):
        for mechanism, runs, bound in (
            (Canary(1.0, 1.0, 1), 1_000_000, FULL_BATCH_EPSILON),
            (Canary(1.0, 0.01, 1000), 2000, BASE_EPSILON),
        ):
            assert not convicts(audit(mechanism, runs, delta=1e-5, confidence=SURE, seed=seed), bound)


def test_the_threshold_is_not_chosen_on_the_judged_runs() -> None:
    """Pure noise, chosen after looking, would show epsilon > 0 far more often than the level of 10 % allows."""
    shown = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        shown += from_scores(rng.random(40), rng.random(40), delta=0.0, confidence=0.9, seed=seed).epsilon > 0
    assert shown <= 20 + 5 * math.sqrt(200 * 0.1 * 0.9)


def test_scores_with_a_threshold_of_ones_own_and_infinite_scores() -> None:
    inside, outside = np.array([3.0] * 100), np.array([0.0] * 100)
    assert from_scores(inside, outside, delta=1e-5, confidence=0.9, threshold=1).epsilon > 3.4929
    assert from_scores(inside * math.inf, outside, delta=1e-5, confidence=0.9).epsilon > 3.0


def test_a_nan_bound_convicts_and_a_wrong_shape_is_refused() -> None:
    assert convicts(from_counts(5, 5, 5, 5, delta=0.0, confidence=0.9), math.nan)
    with pytest.raises(InputError):
        audit(lambda rng, world, runs: np.zeros(3), 100, delta=1e-5, confidence=0.9)


@pytest.mark.parametrize(("sigma", "epsilon"), [(0.05, 280.0), (0.1, 70.0)])
def test_little_noise_does_not_refuse_nearly_every_draw(sigma: float, epsilon: float) -> None:
    """Between integers the proposal keeps e^{-f (1-f) / (2 s^2)} of its draws: e^{-50} of them is a hang."""
    with patience(20):
        sampled = sample_delta([Phase(sigma, 0.5, 2)], epsilon, samples=200)["both"]
    truth = dpbudget.delta(noise_multiplier=sigma, sampling_rate=0.5, steps=2, epsilon=epsilon)
    assert agrees(sampled, truth.lower, truth.upper)
