"""zCDP against its literature and the exact Gaussian; GDP and the rule of thumb as what they are: estimates."""

from __future__ import annotations

import csv
import math
import random
from pathlib import Path

import mpmath
import numpy as np
import pytest

from dpbudget.accounting import gaussian, gdp, zcdp
from dpbudget.errors import InputError

DATA = Path(__file__).parents[1] / "data"
PUBLISHED = list(csv.DictReader((DATA / "published.csv").read_text().splitlines()))
CLT = [row for row in PUBLISHED if row["accountant"] == "gdp-clt"]


@pytest.mark.parametrize(("rho", "delta", "classical", "least"), [(0.81, 1e-10, 9.447, 8.922), (1, 1e-5, 7.786, 7.077)])
def test_zcdp_named_values(rho: float, delta: float, classical: float, least: float) -> None:
    # Three digits are printed.
    assert zcdp.classical_epsilon(rho, delta) == pytest.approx(classical, abs=5e-4)
    assert zcdp.epsilon(rho, delta) == pytest.approx(least, abs=5e-4)


def test_zcdp_is_the_minimum_over_all_orders() -> None:
    rng = random.Random(11)
    lam = np.geomspace(1e-8, 1e12, 40001)
    for _ in range(60):
        rho, delta = 10 ** rng.uniform(-12, 5), 10 ** rng.uniform(-100, -0.1)
        grid = float(np.min(rho * (1 + lam) + (-math.log(delta) - np.log1p(lam)) / lam - np.log1p(1 / lam)))
        found = zcdp.epsilon(rho, delta)
        assert found <= max(0.0, grid) + 1e-12 * (1 + abs(grid))
        # The grid is 0.1 % fine in lam, so that its least value is within 1e-6 of the minimum.
        assert found >= grid - 1e-5 * (abs(grid) + rho + 2 * math.sqrt(-rho * math.log(delta)))


def test_zcdp_is_never_below_the_gaussian_truth() -> None:
    rng = random.Random(3)
    for _ in range(400):
        sigma, delta = 10 ** rng.uniform(-2, 6), 10 ** rng.uniform(-100, -0.01)
        rho = zcdp.rho_of_gaussian(sigma)
        bound = zcdp.epsilon(rho, delta)
        assert bound >= gaussian.epsilon_interval(delta, sigma)[0]
        assert bound <= zcdp.classical_epsilon(rho, delta)
        epsilon = 10 ** rng.uniform(-3, 3)
        assert zcdp.delta(rho, epsilon) >= gaussian.delta_interval(epsilon, sigma)[0]


def test_zcdp_delta_is_the_conversion_evaluated_in_60_digits() -> None:
    with mpmath.workdps(60):
        rho, epsilon, lam = (
            mpmath.mpf(1),
            mpmath.mpf(7),
            mpmath.findroot(lambda x: 1 + 2 * x - 7 - mpmath.log(1 + 1 / x), 3),
        )
        truth = mpmath.exp(lam * (rho * (1 + lam) - epsilon) + lam * mpmath.log(lam / (1 + lam))) / (1 + lam)
        found = zcdp.delta(1.0, 7.0)
        assert truth <= found <= truth * (1 + mpmath.mpf("1e-12"))


def test_zcdp_round_trips() -> None:
    rng = random.Random(5)
    for _ in range(300):
        epsilon, delta = 10 ** rng.uniform(-4, 4), 10 ** rng.uniform(-100, -0.3)
        rho = zcdp.rho(epsilon, delta)
        assert zcdp.epsilon(rho, delta) <= epsilon
        # rho is fixed by epsilon to about the round-off of epsilon's largest term, at worst 1e-9 at epsilon 1e-4.
        assert zcdp.epsilon(rho * (1 + 1e-8), delta) > epsilon
        assert zcdp.delta(rho, epsilon) == pytest.approx(delta, rel=1e-8)


def test_zcdp_limits() -> None:
    assert zcdp.epsilon(0, 1e-5) == 0 and zcdp.delta(0, 1) == 0 and zcdp.epsilon(math.inf, 1e-5) == math.inf
    assert zcdp.epsilon(1e-13, 1e-5) == 0  # so little that the total variation is below delta
    assert zcdp.rho(0, 1e-5) > 0 and zcdp.epsilon(zcdp.rho(0, 1e-5), 1e-5) == 0
    assert zcdp.delta(1e6, 1.0) == 1 and zcdp.rho_of_gaussian(0) == math.inf
    assert zcdp.delta(1e-300, 1.0) > 0 and zcdp.delta(1e-3, 1e4) > 0
    for bad in (math.nan, -1.0):
        with pytest.raises(InputError):
            zcdp.epsilon(bad, 1e-5)
        with pytest.raises(InputError):
            zcdp.epsilon(1.0, bad)
        with pytest.raises(InputError):
            zcdp.delta(1.0, bad)
        with pytest.raises(InputError):
            zcdp.rho_of_gaussian(bad)


@pytest.mark.parametrize("row", CLT, ids=lambda row: row["name"])
def test_gdp_published(row: dict[str, str]) -> None:
    parts = [(float(row["noise_multiplier"]), float(row["sampling_rate"]), int(row["steps"]))]
    # Six decimals are printed.
    found = gdp.epsilon(gdp.mu_clt_poisson(parts), float(row["delta"]))
    assert found == pytest.approx(float(row["epsilon"]), abs=5.1e-7)


def test_estimates_are_not_bounds() -> None:
    """Truths of golden.csv: the estimates fall below some and above others, as the docstring says."""
    clt = gdp.mu_clt_poisson([(0.7, 256 / 60000, 10530)])
    assert gdp.epsilon(clt, 1e-5) < 5.6
    assert gdp.rule_of_thumb([(4.0, 0.01, 10000)], 1e-5) < 0.9469
    assert gdp.rule_of_thumb([(10.0, 1.0, 1)], 0.1) > 0.15 and gaussian.epsilon(0.1, 10.0) == 0


def test_estimates_compose_and_run_out_of_range_quietly() -> None:
    whole, halves = [(2.0, 0.02, 300)], [(2.0, 0.02, 100), (2.0, 0.02, 200), (1.0, 0.5, 0)]
    mu = gdp.mu_clt_poisson
    assert mu(whole) == pytest.approx(mu(halves), rel=1e-14)
    assert mu([]) == 0 and mu([(0.01, 0.01, 10)]) == math.inf and mu([(0.0, 0.1, 1)]) == math.inf
    assert mu([(1e6, 1e-9, 1)]) > 0
    assert gdp.epsilon(math.inf, 1e-5) == math.inf and gdp.delta(math.inf, 3) == 1 and gdp.delta(0, 3) == 0
    delta = gdp.rule_of_thumb_delta(whole, 0.4)
    assert gdp.rule_of_thumb(whole, delta) == pytest.approx(0.4, rel=1e-12)
    with pytest.raises(InputError):
        gdp.mu_clt_poisson([(math.nan, 0.1, 1)])
    with pytest.raises(InputError):
        gdp.mu_clt_poisson([(1.0, math.nan, 1)])
