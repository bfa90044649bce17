"""The Gaussian mechanism against 60-digit arithmetic, the committed table, and itself."""

from __future__ import annotations

import csv
import math
import random
from pathlib import Path

import mpmath
import pytest

from dpbudget.accounting import gaussian
from dpbudget.errors import InputError

DATA = Path(__file__).parents[1] / "data"
ROWS = list(csv.DictReader((DATA / "gaussian.csv").read_text().splitlines()))


def log_delta_60(epsilon: float, sigma: float) -> mpmath.mpf:
    """log delta of Balle, Wang 2018, Thm 8, from its textbook form with enough digits to survive the cancellation."""
    with mpmath.workdps(80 + int(2 * abs(math.log10(sigma)))):
        e, s = mpmath.mpf(epsilon), mpmath.mpf(sigma)
        x = e * s - 1 / (2 * s)
        y = x + 1 / s

        def upper_tail(t: mpmath.mpf) -> mpmath.mpf:
            return mpmath.erfc(t / mpmath.sqrt(2)) / 2

        if x < -1:
            return mpmath.log1p(-upper_tail(-x) - mpmath.exp(e) * upper_tail(y))
        return mpmath.log(upper_tail(x) - mpmath.exp(e) * upper_tail(y))


def random_points(count: int) -> list[tuple[float, float]]:
    """The whole range, and the ridge epsilon ~ 1/(2 sigma^2) where the two terms of x cancel."""
    rng = random.Random(20180516)
    points = []
    while len(points) < count:
        sigma = 10 ** rng.uniform(-3, 9)
        ridge = 1 / (2 * sigma**2) * (1 + rng.gauss(0, 1) * 10 ** rng.uniform(-8, 0))
        epsilon = rng.choice([0.0, 10 ** rng.uniform(-12, 3.7), abs(ridge)])
        if epsilon <= 1e6:
            points.append((epsilon, sigma))
    return points


def test_log_delta_is_within_its_margin_of_60_digits() -> None:
    for epsilon, sigma in random_points(400):
        value, truth = gaussian.log_delta(epsilon, sigma), log_delta_60(epsilon, sigma)
        assert abs(value - truth) <= gaussian.log_delta_margin(value), (epsilon, sigma)
        # The promised accuracy; below the floor delta is 1 to the last digit of a double.
        assert abs(value - truth) <= 1e-13 * abs(truth) + mpmath.mpf("1e-17"), (epsilon, sigma)


def test_delta_encloses_60_digits() -> None:
    for epsilon, sigma in random_points(200):
        truth = mpmath.exp(log_delta_60(epsilon, sigma))
        lower, upper = gaussian.delta_interval(epsilon, sigma)
        assert lower <= truth <= upper, (epsilon, sigma)
        assert gaussian.delta(epsilon, sigma) == upper > 0.0


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['epsilon']}-{row['delta']}")
def test_table(row: dict[str, str]) -> None:
    epsilon, delta = float(row["epsilon"]), float(row["delta"])
    assert gaussian.sigma(epsilon, delta) == pytest.approx(float(row["sigma_exact"]), rel=1e-10, abs=0)
    if row["sigma_classical"]:
        classical = gaussian.classical_sigma(epsilon, delta)
        assert classical.sigma == pytest.approx(float(row["sigma_classical"]), rel=1e-13, abs=0)
        assert classical.proven == (epsilon < 1)
        truth = gaussian.delta(epsilon, classical.sigma)
        # The column has 8 significant digits, so half a unit in the eighth is 5e-8 at worst.
        assert truth == pytest.approx(float(row["true_delta_of_classical"]), rel=5.1e-8, abs=0)


def test_named_values() -> None:
    assert gaussian.sigma(0, 1e-6) == pytest.approx(398942.2804, abs=5e-5)
    assert gaussian.sigma(10, 1e-5) > gaussian.classical_sigma(10, 1e-5).sigma  # the classical one under-noises


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1e-3, 0.5, 1.0, 30.0, 5000.0, 1e5])
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-30, 1e-5, 0.1, 0.5, 0.99])
def test_round_trips_stay_on_the_safe_side(epsilon: float, delta: float) -> None:
    below, sigma = gaussian.sigma_interval(epsilon, delta)
    if math.isinf(sigma):
        assert delta == 1e-300 and epsilon < 1e-3  # beyond the largest multiplier that is searched
        return
    assert log_delta_60(epsilon, sigma) <= mpmath.log(mpmath.mpf(delta)) <= log_delta_60(epsilon, below)
    # Near the total variation distance of a tiny sigma, sigma and epsilon are badly determined by log delta.
    assert sigma - below <= 1e-11 * sigma
    assert gaussian.delta(epsilon, sigma) <= delta * (1 + 1e-10)
    lower, upper = gaussian.epsilon_interval(delta, sigma)
    assert lower <= epsilon
    assert upper <= epsilon * (1 + 1e-10) + 1e-12 / sigma
    assert log_delta_60(upper, sigma) <= mpmath.log(mpmath.mpf(delta))


def test_epsilon_encloses_the_root() -> None:
    rng = random.Random(7)
    for _ in range(150):
        sigma, delta = 10 ** rng.uniform(-2, 6), 10 ** rng.uniform(-100, -0.1)
        lower, upper = gaussian.epsilon_interval(delta, sigma)
        target = mpmath.log(mpmath.mpf(delta))
        assert log_delta_60(upper, sigma) <= target
        assert upper == 0 or log_delta_60(lower, sigma) >= target
        assert upper - lower <= 1e-9 * upper


def test_from_the_total_variation_on_epsilon_is_exactly_zero() -> None:
    for sigma in (0.3, 1.0, 50.0, 1e6):
        variation = gaussian.delta(0, sigma)
        assert gaussian.epsilon_interval(variation * (1 + 1e-12), sigma) == (0.0, 0.0)
        assert gaussian.epsilon(variation * (1 - 1e-9), sigma) > 0.0
        # Inside the margin neither 0 nor a positive epsilon is certain: a tiny one is proven.
        assert 0.0 <= gaussian.epsilon(variation, sigma) <= 1e-12


def test_limits() -> None:
    assert gaussian.log_delta(3, 0) == 0 and gaussian.delta(3, 0) == 1
    assert gaussian.delta(3, math.inf) == 0 and gaussian.epsilon(1e-5, math.inf) == 0
    assert gaussian.epsilon(0, 1) == math.inf and gaussian.epsilon(1e-5, 0) == math.inf
    assert gaussian.epsilon(1, 0) == 0 and gaussian.sigma(0, 1) == 0 and gaussian.sigma(2, 0) == math.inf
    assert gaussian.delta(1e6, 1e6) > 0  # underflow is rounded up, never to "no risk"
    assert gaussian.epsilon(5e-324, 1.0) > gaussian.epsilon(1e-300, 1.0) > 36


@pytest.mark.parametrize("bad", [math.nan, -1.0])
def test_bad_input_fails_closed(bad: float) -> None:
    for call in (
        lambda: gaussian.delta(bad, 1.0),
        lambda: gaussian.delta(1.0, bad),
        lambda: gaussian.epsilon(bad, 1.0),
        lambda: gaussian.epsilon(1e-5, bad),
        lambda: gaussian.sigma(bad, 1e-5),
        lambda: gaussian.sigma(1.0, bad),
        lambda: gaussian.classical_sigma(bad, 1e-5),
        lambda: gaussian.classical_sigma(1.0, bad),
    ):
        with pytest.raises(InputError):
            call()


def test_composition_is_one_release_and_errs_downwards() -> None:
    sigma = gaussian.combined_sigma([(2.0, 3), (0.5, 1), (7.0, 0)])
    exact = (3 / mpmath.mpf(4) + 4) ** (-mpmath.mpf(1) / 2)
    assert exact * (1 - 1e-14) <= sigma <= exact
    assert gaussian.combined_sigma([]) == math.inf and gaussian.combined_sigma([(0.0, 1)]) == 0
