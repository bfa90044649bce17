"""Certified intervals against independent truth: golden values, closed forms, multiprecision, peers and exact discrete sums."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
import scipy.optimize
import scipy.special

from dpbudget.accounting import gaussian, mesh
from dpbudget.accounting.convolve import LOG_OUTSIDE, Tilted, evaluate, falling_sums, window
from dpbudget.accounting.discretise import discretise
from dpbudget.accounting.lattice import certify_delta, certify_epsilon
from dpbudget.accounting.pairs import (
    Pair,
    SampledGaussianAdd,
    SampledGaussianRemove,
    approximate_dp_pair,
    dominating_pairs,
)
from dpbudget.errors import InputError, NotCertified
from dpbudget.model import (
    Adjacency,
    ApproxDP,
    Gaussian,
    Laplace,
    PureDP,
    RandomizedResponse,
    SampledGaussian,
    Sampling,
)

DATA = Path(__file__).parents[1] / "data"
HALF_UNIT = 5e-10  # golden.csv has nine decimals
PAIRS = {"remove": SampledGaussianRemove, "add": SampledGaussianAdd}


def golden() -> list[dict[str, float]]:
    with (DATA / "golden.csv").open() as file:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]


def brackets() -> list[dict[str, float]]:
    return json.loads((DATA / "brackets.json").read_text())["cases"]


def larger(mechanisms: list[tuple[object, int]], adjacency: Adjacency, delta: float, tolerance: float = 1e-5):
    """The larger ends over both directions."""
    ends = []
    for name in ("remove", "add"):
        parts = [(dominating_pairs(m, adjacency), n) for m, n in mechanisms]
        bracket = certify_epsilon([(d.get(name) or d["both"], n) for d, n in parts], delta, tolerance=tolerance)
        ends.append((bracket.lower, bracket.upper))
    return max(lo for lo, _ in ends), max(hi for _, hi in ends)


@pytest.mark.parametrize("tolerance", [1e-4, 1e-5, 1e-6])
@pytest.mark.parametrize("row", golden(), ids=lambda row: f"{row['sampling_rate']:.3g}-{row['noise_multiplier']}")
def test_golden(row: dict[str, float], tolerance: float) -> None:
    for name, kind in PAIRS.items():
        pair = kind(row["noise_multiplier"], row["sampling_rate"])
        found = certify_epsilon([(pair, int(row["steps"]))], row["delta"], tolerance=tolerance)
        truth = row[f"epsilon_{name}"]
        assert found.lower - HALF_UNIT <= truth <= found.upper + HALF_UNIT
        assert found.met_tolerance and found.upper - found.lower <= tolerance * found.upper


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6])
@pytest.mark.parametrize("case", brackets(), ids=lambda case: case["name"])
def test_brackets_intersect(case: dict[str, float], tolerance: float) -> None:
    mechanism = SampledGaussian(case["noise_multiplier"], case["sampling_rate"])
    low, high = larger([(mechanism, int(case["steps"]))], Adjacency.ADD_OR_REMOVE_ONE, case["delta"], tolerance)
    assert low <= case["epsilon_upper"] and high >= case["epsilon_lower"]
    assert high - low <= tolerance * high


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "delta", "truth", "margin"),
    [
        (0.8, 0.125, 1000, 1e-6, 56.725950, 5e-7),
        (4, 0.00033, 10000, 1.1e-18, 0.067213614, 5e-10),
        (1, 1e-5, 10**6, 1e-10, 0.0706445, 5e-8),
        (1, 0.00105, 1, 1e-4, 0.00240434, 5e-9),
        (1, 0.00105, 1, 1e-5, 0.00977620, 5e-9),
        (0.5, 1e-3, 10**5, 1e-8, 17.938, 5e-4),
    ],
)
def test_hard_public_cases(sigma: float, rate: float, steps: int, delta: float, truth: float, margin: float) -> None:
    low, high = larger([(SampledGaussian(sigma, rate), steps)], Adjacency.ADD_OR_REMOVE_ONE, delta)
    assert low - margin <= truth <= high + margin  # half a unit of the printed value
    assert high - low <= 1e-5 * high


def test_large_runs_stay_below_known_ceilings() -> None:
    assert certify_epsilon([(SampledGaussianRemove(0.1, 1.024e-5), 976562)], 1e-7).upper <= 1199.90
    assert certify_epsilon([(SampledGaussianRemove(1, 0.00105), 1)], 1e-3).upper == 0.0
    for kind in PAIRS.values():
        assert certify_epsilon([(kind(1, 1e-4), 10**7)], 1e-9).met_tolerance
        assert certify_epsilon([(kind(2, 1e-4), 10**8)], 1e-6).met_tolerance


@pytest.mark.parametrize("sigma", [0.7, 5.0, 80.0])
@pytest.mark.parametrize("steps", [2, 17, 4000])
@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-40])
def test_unsampled_steps_match_the_gaussian_mechanism(sigma: float, steps: int, delta: float) -> None:
    low, high = gaussian.epsilon_interval(delta, sigma / math.sqrt(steps))
    found = certify_epsilon([(SampledGaussianRemove(sigma, 1.0), steps)], delta, tolerance=1e-6)
    assert found.lower <= high * (1 + 1e-13) and found.upper >= low * (1 - 1e-13)
    assert found.met_tolerance


def delta_by_mpmath(kind: str, sigma: float, rate: float, steps: int, epsilon: float) -> float:
    """delta of two or three steps by nested quadrature at 30 digits; the innermost step in closed form."""
    with mpmath.workdps(30):
        q, s, e = mpmath.mpf(rate), mpmath.mpf(sigma), mpmath.mpf(epsilon)

        def log_ratio(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.log(1 - q + q * mpmath.exp((2 * x - 1) / (2 * s * s)))

        def one(eps: mpmath.mpf) -> mpmath.mpf:
            if kind == "remove":
                inside = (mpmath.exp(eps) - 1 + q) / q
                if inside <= 0:
                    return 1 - mpmath.exp(eps)
                x = s * s * mpmath.log(inside) + mpmath.mpf(1) / 2
                tail = mpmath.ncdf(-x / s)
                return (1 - q) * tail + q * mpmath.ncdf((1 - x) / s) - mpmath.exp(eps) * tail
            inside = (mpmath.exp(-eps) - 1 + q) / q
            if inside <= 0:
                return mpmath.mpf(0)
            x = s * s * mpmath.log(inside) + mpmath.mpf(1) / 2
            return mpmath.ncdf(x / s) - mpmath.exp(eps) * ((1 - q) * mpmath.ncdf(x / s) + q * mpmath.ncdf((x - 1) / s))

        def several(count: int, eps: mpmath.mpf) -> mpmath.mpf:
            if count == 1:
                return one(eps)

            def term(x: mpmath.mpf) -> mpmath.mpf:
                ratio = log_ratio(x)
                if kind == "remove":
                    return mpmath.npdf(x, 0, s) * mpmath.exp(ratio) * several(count - 1, eps - ratio)
                return mpmath.npdf(x, 0, s) * several(count - 1, eps + ratio)

            limit = eps - mpmath.log(1 - q) if kind == "remove" else -mpmath.log(1 - q) - eps
            points = [-9 * s, -3 * s, mpmath.mpf(1) / 2, 3 * s + 1, 6 * s + 1, 12 * s + 1]
            inside = (mpmath.exp(limit) - 1 + q) / q
            if inside > 0:  # the integrand has a kink where the rest of the steps can just reach what is left of eps
                points = sorted([*points, s * s * mpmath.log(inside) + mpmath.mpf(1) / 2])
            return mpmath.quad(term, points, maxdegree=5)

        return float(several(steps, e))


@pytest.mark.parametrize("kind", ["remove", "add"])
@pytest.mark.parametrize(("sigma", "rate", "epsilon"), [(1.0, 0.1, 0.3), (0.7, 0.02, 0.02), (2.0, 0.5, 0.6)])
def test_two_steps_match_multiprecision(kind: str, sigma: float, rate: float, epsilon: float) -> None:
    truth = delta_by_mpmath(kind, sigma, rate, 2, epsilon)
    found = certify_delta([(PAIRS[kind](sigma, rate), 2)], epsilon)
    slack = 1e-9 * truth  # of the quadrature
    assert found.lower <= truth + slack and found.upper >= truth - slack
    assert found.met_tolerance


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["remove", "add"])
def test_three_steps_match_multiprecision(kind: str) -> None:
    truth = delta_by_mpmath(kind, 1.0, 0.1, 3, 0.4)
    found = certify_delta([(PAIRS[kind](1.0, 0.1), 3)], 0.4)
    assert found.lower <= truth * (1 + 1e-5) and found.upper >= truth * (1 - 1e-5)


@pytest.mark.parametrize("kind", PAIRS.values())
@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "delta"), [(1.0, 0.01, 100, 1e-5), (2.0, 0.3, 20, 1e-8), (0.7, 0.01, 120, 1e-5)]
)
def test_the_lattice_agrees_with_fourier_inversion(
    kind: type[Pair], sigma: float, rate: float, steps: int, delta: float
) -> None:
    parts = [(kind(sigma, rate), steps)]
    sharp = certify_epsilon(parts, delta)
    low, high, _ = mesh.mesh_epsilon(parts, delta, 1e-4)
    assert sharp.detail["method"] == "fourier"
    assert low <= sharp.lower and sharp.upper <= high  # the lattice is two orders wider, so that it must contain it
    assert high - low <= 1e-3 * high


def exact_randomized_response(epsilon0: float, steps: int, epsilon: float) -> float:
    with mpmath.workdps(60):
        e0, e = mpmath.mpf(epsilon0), mpmath.mpf(epsilon)
        p = mpmath.exp(e0) / (1 + mpmath.exp(e0))
        total = mpmath.mpf(0)
        for ups in range(steps + 1):
            loss = (2 * ups - steps) * e0
            if loss > e:
                total += mpmath.binomial(steps, ups) * p**ups * (1 - p) ** (steps - ups) * (1 - mpmath.exp(e - loss))
        return float(total)


@pytest.mark.parametrize(("epsilon0", "steps"), [(0.1, 100), (1.0, 30), (0.01, 600)])
@pytest.mark.parametrize("level", [0.2, 0.6, 0.93])
def test_randomized_response_is_met_exactly(epsilon0: float, steps: int, level: float) -> None:
    epsilon = level * epsilon0 * steps
    truth = exact_randomized_response(epsilon0, steps, epsilon)
    found = certify_delta([(approximate_dp_pair(epsilon0, 0.0), steps)], epsilon)
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower <= 1e-7 * truth  # its atoms lie on the lattice


def test_guarantees_compose_as_kairouz_oh_viswanath() -> None:
    low, high = larger([(PureDP(0.1), 100)], Adjacency.ADD_OR_REMOVE_ONE, 1e-6)
    assert low - 5e-6 <= 4.77457 <= high + 5e-6
    low, high = larger([(ApproxDP(1.0, 0.001), 30)], Adjacency.ADD_OR_REMOVE_ONE, 0.06)
    assert low - 5e-5 <= 21.7096 <= high + 5e-5
    assert certify_epsilon([(approximate_dp_pair(1.0, 0.001), 30)], 0.01).upper == math.inf


def test_six_unlike_releases() -> None:
    releases = [
        (SampledGaussian(1.1, 0.01), 1000),
        (SampledGaussian(2.0, 0.05), 200),
        (Gaussian(8.0), 1),
        (Laplace(10.0), 1),
        (RandomizedResponse(4, 0.2), 1),
        (ApproxDP(0.1, 1e-7), 1),
    ]
    low, high = larger(releases, Adjacency.ZERO_OUT, 1e-5)
    assert low - 5e-5 <= 2.6703 <= high + 5e-5
    assert (low, high) == larger(releases[::-1], Adjacency.ZERO_OUT, 1e-5)


def test_mixed_composition_with_laplace() -> None:
    releases = [(SampledGaussian(0.8, 0.005), 100), (Gaussian(8.0 / math.sqrt(200)), 1), (Laplace(10.0), 100)]
    low, high = larger(releases, Adjacency.ADD_OR_REMOVE_ONE, 1e-6)
    assert low <= 11.1495 and high >= 11.1485
    assert high - low <= 1e-5 * high


@pytest.mark.parametrize(
    ("mechanism", "steps", "adjacency", "delta", "value", "unit"),
    [
        (SampledGaussian(1.0, 0.01), 1000, Adjacency.REPLACE_ONE, 1e-5, 2.843440, 2e-5),
        (SampledGaussian(1.0, 0.01, Sampling.FIXED_SIZE), 1000, Adjacency.REPLACE_ONE, 1e-5, 14.8207, 1e-4),
        (SampledGaussian(4.0, 0.05, Sampling.FIXED_SIZE), 500, Adjacency.REPLACE_ONE, 1e-5, 2.8772, 1e-4),
        (SampledGaussian(10.0, 0.01, Sampling.FIXED_SIZE), 1000, Adjacency.REPLACE_ONE, 1e-5, 0.22644, 1e-5),
        (SampledGaussian(1.0, 0.01, Sampling.FIXED_SIZE), 1000, Adjacency.ZERO_OUT, 1e-5, 10.50, 5e-3),
    ],
)
def test_other_adjacencies(
    mechanism: SampledGaussian, steps: int, adjacency: Adjacency, delta: float, value: float, unit: float
) -> None:
    low, high = larger([(mechanism, steps)], adjacency, delta)
    assert low - unit <= value <= high + unit
    assert high - low <= 1e-5 * high


@pytest.mark.parametrize("name", ["remove", "add"])
def test_delta_and_epsilon_are_inverse(name: str) -> None:
    parts = [(PAIRS[name](1.1, 0.01), 500)]
    for delta in (1e-3, 1e-8, 1e-30):
        epsilon = certify_epsilon(parts, delta)
        back = certify_delta(parts, epsilon.upper)
        assert back.lower <= delta and certify_delta(parts, epsilon.lower).upper >= delta
        assert back.met_tolerance


@pytest.mark.parametrize("name", ["remove", "add"])
def test_counts_and_order_do_not_matter(name: str) -> None:
    a, b = PAIRS[name](1.1, 0.01), PAIRS[name](2.0, 0.05)
    once = certify_epsilon([(a, 300), (b, 40)], 1e-6)
    assert certify_epsilon([(b, 40), (a, 100), (a, 200), (a, 0)], 1e-6) == once


@pytest.mark.parametrize("name", ["remove", "add"])
def test_intervals_are_ordered(name: str) -> None:
    kind = PAIRS[name]

    def ends(sigma: float = 1.0, rate: float = 0.01, steps: int = 1000, delta: float = 1e-6) -> tuple[float, float]:
        found = certify_epsilon([(kind(sigma, rate), steps)], delta)
        return found.lower, found.upper

    low, high = ends()
    for worse in (ends(sigma=0.98), ends(rate=0.0102), ends(steps=1020), ends(delta=9e-7)):
        assert worse[0] > high
    for better in (ends(sigma=1.02), ends(rate=0.0098), ends(steps=980), ends(delta=1.1e-6)):
        assert better[1] < low


def test_limits() -> None:
    pair = SampledGaussianRemove(1.0, 0.01)
    assert certify_epsilon([], 1e-5).upper == 0.0 and certify_epsilon([(pair, 0)], 1e-5).upper == 0.0
    assert certify_epsilon([(pair, 10)], 1.0).upper == 0.0
    assert certify_epsilon([(pair, 10)], 0.5).upper == 0.0  # beyond the total variation
    assert certify_delta([(pair, 10)], math.inf).upper == 0.0
    add = SampledGaussianAdd(1.0, 0.01)
    assert certify_epsilon([(add, 1000)], 1e-30).upper <= -1000 * math.log1p(-0.01) * (1 + 1e-12)


@pytest.mark.parametrize("delta", [0.0, -1.0, 1.5, math.nan])
def test_bad_delta(delta: float) -> None:
    with pytest.raises(InputError):
        certify_epsilon([(SampledGaussianRemove(1.0, 0.01), 10)], delta)


@pytest.mark.parametrize("tolerance", [0.0, 1.0, math.nan])
def test_bad_tolerance(tolerance: float) -> None:
    with pytest.raises(InputError):
        certify_epsilon([(SampledGaussianRemove(1.0, 0.01), 10)], 1e-5, tolerance=tolerance)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan])
def test_bad_epsilon(epsilon: float) -> None:
    with pytest.raises(InputError):
        certify_delta([(SampledGaussianRemove(1.0, 0.01), 10)], epsilon)


def test_random_unsampled_runs_contain_the_closed_form() -> None:
    rng = np.random.default_rng(11)
    for _ in range(60):
        sigma, steps = float(np.exp(rng.uniform(-2, 5))), int(np.exp(rng.uniform(0.7, 16)))
        delta = float(10 ** -rng.uniform(2, 15))
        low, high = gaussian.epsilon_interval(delta, sigma / math.sqrt(steps))
        found = certify_epsilon([(SampledGaussianRemove(sigma, 1.0), steps)], delta)
        assert found.lower <= high * (1 + 1e-12) and found.upper >= low * (1 - 1e-12)


def test_one_step_at_any_rate_contains_sixty_digits() -> None:
    """Down to rates where log(1 + q (e^x - 1)) is far below the round-off of its terms: each end on its own side."""
    mpmath.mp.dps = 120
    random = np.random.default_rng(20)
    for _ in range(150):
        sigma, rate = 10 ** random.uniform(-1.3, 2), 10 ** random.uniform(-100, -0.01)
        delta = rate * 10 ** random.uniform(-30, -0.5)
        bracket = certify_epsilon([(SampledGaussianRemove(sigma, rate), 1)], delta)
        s, q = mpmath.mpf(sigma), mpmath.mpf(rate)

        def exact(epsilon: float, s: mpmath.mpf = s, q: mpmath.mpf = q) -> mpmath.mpf:
            x = s * s * mpmath.log1p(mpmath.expm1(mpmath.mpf(epsilon)) / q) + mpmath.mpf(1) / 2
            sf = lambda z: mpmath.erfc(z / mpmath.sqrt(2)) / 2  # noqa: E731
            return q * sf((x - 1) / s) - (mpmath.expm1(mpmath.mpf(epsilon)) + q) * sf(x / s)

        assert exact(bracket.upper) <= delta, (sigma, rate, delta)
        assert bracket.lower == 0 or exact(bracket.lower) > delta, (sigma, rate, delta)
        assert bracket.upper - bracket.lower <= 1e-9 * bracket.upper, (sigma, rate, delta)


def separated_delta(epsilon: float, sigma: float, rate: float, steps: int) -> float:
    """delta of a Poisson-sampled run whose noise is so small that every step shows whether the record took part.

    A step's loss is then log(1 - q) or log q + N(1 / 2 s^2, 1 / s^2), to within e^(-1 / 8 s^2); the sum given the number
    of steps that it took part in is Gaussian, and delta a binomial mean of closed forms.
    """
    k = np.arange(steps + 1)
    log_weight = scipy.special.gammaln(steps + 1) - scipy.special.gammaln(k + 1) - scipy.special.gammaln(steps - k + 1)
    log_weight += k * math.log(rate) + (steps - k) * math.log1p(-rate)
    shift = k * math.log(rate) + (steps - k) * math.log1p(-rate)
    spread = np.sqrt(np.maximum(k, 1)) / sigma
    z = (shift + spread**2 / 2 - epsilon) / spread
    with np.errstate(over="ignore", under="ignore"):
        each = np.exp(scipy.special.log_ndtr(z)) - np.exp(epsilon - shift + scipy.special.log_ndtr(z - spread))
        each[0] = max(0.0, -math.expm1(min(700.0, epsilon - shift[0])))
    return float(np.exp(log_weight) @ each)


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-10])
@pytest.mark.parametrize(
    ("sigma", "rate", "steps"),
    [(0.05, 0.1, 1000), (0.04, 0.02, 300), (0.03, 0.003, 300), (0.03, 0.1, 100), (0.02, 0.003, 100), (0.02, 0.1, 100)],
)
def test_losses_of_thousands_from_the_lattice(sigma: float, rate: float, steps: int, delta: float) -> None:
    """Where e^loss is beyond any double: sums of terms that fall by thousands of nats across the lattice."""
    low, high, _ = mesh.mesh_epsilon([(SampledGaussianRemove(sigma, rate), steps)], delta, 1e-3)
    assert separated_delta(high, sigma, rate, steps) <= delta
    assert separated_delta(low, sigma, rate, steps) >= delta
    assert high - low <= 1.5e-3 * high


def test_falling_sums() -> None:
    """Against the plain double sum, whatever the step: one block, several, one for each point."""
    rng = np.random.default_rng(3)
    for step in (1e-9, 0.013, 0.7, 20.0, 45.0, 1e4):
        terms = rng.standard_normal(257) * np.exp(-rng.uniform(0, 60, 257))
        exact = [math.fsum(terms[j:] * np.exp(-step * np.arange(257 - j))) for j in range(257)]
        size = np.cumsum(np.abs(terms)[::-1])[::-1]
        assert np.all(np.abs(falling_sums(terms, step) - exact) <= 1e-13 * size)


def test_window_holds_all_but_nothing_of_the_sum() -> None:
    """Against the sum itself, for masses with a bulk that rare jumps leave; and not much wider than it has to be."""
    rng = np.random.default_rng(5)
    for jump in (1.0, 1e-2, 1e-4, 1e-6):
        mass = jump * rng.exponential(size=400) * np.exp(-0.02 * np.arange(400))
        mass[40] += 1.0
        part = Tilted(-40, mass / mass.sum(), 0.0, 50)
        total = np.ones(1)
        for _ in range(part.count):
            total = np.convolve(total, part.mass)
        low, high = window([part], 0.01)
        place = np.arange(total.size) + part.start * part.count
        assert total[place < low].sum() <= math.exp(LOG_OUTSIDE) >= total[place > high].sum()
        needed = np.flatnonzero(total > 1e-18)
        assert high - low <= 1.5 * (needed[-1] - needed[0]) + 40


def test_window_is_one_of_cells_however_small_a_cell_is() -> None:
    mass = np.array([0.25, 0.5, 0.25])
    assert len({window([Tilted(-1, mass, 0.0, 1000)], step) for step in (1.0, 1e-200, 1e-300)}) == 1


@pytest.mark.parametrize(("sigma", "steps"), [(0.15, 10**7), (0.1, 10**6), (0.05, 10**9)])
def test_millions_of_steps_at_a_tiny_rate(sigma: float, steps: int) -> None:
    """A record takes part once in all: the bulk of every step stays where it is, and only jumps make the window."""
    parts = [(SampledGaussianRemove(sigma, 1.0 / steps), steps)]
    low, high, _ = mesh.mesh_epsilon(parts, 1e-9, 1e-3)
    assert high - low <= 1.5e-3 * high
    jumps = 1000  # the same number of participations in far fewer steps: the law of small numbers
    assert low * 0.99 <= certify_epsilon([(SampledGaussianRemove(sigma, 1 / jumps), jumps)], 1e-9, tolerance=1e-3).upper


def test_so_little_noise_that_no_lattice_serves_is_no_bound() -> None:
    """e^step leaves the doubles: told as such, before numbers are made of it; the first mesh of a wide loss stays below."""
    with pytest.raises(NotCertified, match="too far apart"):
        discretise(SampledGaussianRemove(1.0, 0.5), 701.0, -50.0)


@pytest.mark.parametrize("sigma", [9e-4, 5e-3, 0.02, 0.3])  # the first mesh has steps of 352, 64, 16 and 1.3
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_the_coarsest_meshes_hold_the_truth(sigma: float, steps: int) -> None:
    """Composed releases are one with less noise. Where e^step outweighs 2^53, no difference may pass for an integral."""
    found = mesh.both_compositions([(SampledGaussianRemove(sigma, 1.0), steps)], math.log(1e-5), 0.999)
    assert found[0].step == found[1].step > 1
    middle = gaussian.epsilon(1e-5, sigma / math.sqrt(steps))
    for epsilon in middle * np.linspace(0.998, 1.0005, 4):
        with mpmath.workdps(60):
            s, e = mpmath.mpf(sigma) / mpmath.sqrt(steps), mpmath.mpf(float(epsilon))
            truth = mpmath.ncdf(1 / (2 * s) - e * s) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s)
        assert evaluate(found[0], float(epsilon), -1) <= truth <= evaluate(found[1], float(epsilon), 1)


@pytest.mark.parametrize("below", [0.0244313, 0.0022401])
def test_near_the_largest_loss_against_the_drops_from_it(below: float) -> None:
    """Where almost no step may lose anything: the drops log(1 + q r / (1 - q)) on a lattice of their own, rounded either way.

    The truth lies between the two, a factor of 1.4 apart or less: an exponentially tilted power of one law by FFT, no part
    of which the engine has.
    """
    sigma, rate, steps = 0.12, 0.00314, 142_336
    epsilon = -steps * math.log1p(-rate) - below
    cell, tiny, count = below / 6e4, 1e-10, 2**17
    edges = np.append(tiny, cell * np.arange(1, count + 1))
    x = (2 * sigma**2 * np.log(np.expm1(edges) * (1 - rate) / rate) + 1) / 2
    cumulative = scipy.special.ndtr(x / sigma)
    ends = []
    for up in (1, 0):
        mass = np.zeros(count + 1)
        mass[0] = cumulative[0]
        mass[up : count + up] += np.diff(cumulative)
        drops = cell * np.arange(mass.size)

        def mean(tilt: float, mass: np.ndarray = mass, drops: np.ndarray = drops) -> float:
            tilted = mass * np.exp(-tilt * drops)
            return float(steps * (tilted @ drops) / tilted.sum())

        tilt = scipy.optimize.brentq(lambda t, mean=mean: mean(t) - below / 2, 1.0, 1e7)
        tilted = mass * np.exp(-tilt * drops)
        power = np.fft.irfft(np.fft.rfft(tilted / tilted.sum(), 2 * count) ** steps)
        total = cell * np.arange(power.size) + up * steps * tiny
        gain = -np.expm1(np.minimum(total - below, 0.0))
        with np.errstate(over="ignore", invalid="ignore"):
            weight = np.where(gain > 0, np.exp(steps * np.log(tilted.sum()) + tilt * total), 0.0)
        ends.append(float(power @ (gain * weight)))
    found = certify_delta([(SampledGaussianAdd(sigma, rate), steps)], epsilon, tolerance=1e-4)
    assert ends[0] < found.lower <= found.upper < ends[1] < 1.5 * ends[0]
