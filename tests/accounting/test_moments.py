"""The moments accountant against the published tables, brute force and the RDP engine."""

import csv
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest

from dpbudget.accounting import moments
from dpbudget.accounting.pairs import SampledGaussianAdd, SampledGaussianRemove
from dpbudget.accounting.rdp import rdp_curve
from dpbudget.errors import InputError

DATA = Path(__file__).parents[1] / "data"


def published(accountant):
    with (DATA / "published.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["accountant"] == accountant]


@pytest.mark.parametrize("row", published("moments"), ids=lambda row: row["name"])
def test_published_tables_to_six_decimals(row):
    sigma, rate, steps = float(row["noise_multiplier"]), float(row["sampling_rate"]), int(row["steps"])
    remove, add = [(SampledGaussianRemove(sigma, rate), steps)], [(SampledGaussianAdd(sigma, rate), steps)]
    bound = moments.epsilon(remove, float(row["delta"]), reverse=add)
    assert f"{bound.epsilon:.6f}" == row["epsilon"]
    assert moments.delta(remove, bound.epsilon).delta == pytest.approx(float(row["delta"]), rel=1e-9)


@pytest.mark.parametrize(("sigma", "rate"), [(0.7, 0.01), (4.0, 1e-9), (1e6, 0.5), (0.05, 0.3), (1.0, 1.0)])
def test_log_moments_are_relatively_exact(sigma, rate):
    mpmath.mp.dps = 60
    got = moments.log_moments(SampledGaussianRemove(sigma, rate))
    q = mpmath.mpf(rate)
    for lam in (1, 2, 7, 32):
        a = lam + 1
        exact = mpmath.log(
            mpmath.fsum(
                mpmath.binomial(a, k)
                * (1 - q) ** (a - k)
                * q**k
                * mpmath.exp((k * k - k) / (2 * mpmath.mpf(sigma) ** 2))
                for k in range(a + 1)
            )
        )
        assert got[lam - 1] == pytest.approx(float(exact), rel=1e-13)  # the sum has positive terms only


def test_closed_form_agrees_with_quadrature():
    pair = SampledGaussianRemove(1.3, 0.02)
    np.testing.assert_allclose(
        moments.log_moments(pair), moments.ORDERS * rdp_curve(pair, moments.ORDERS + 1), rtol=1e-12
    )


def test_remove_dominates_add():
    """Mironov, Talwar, Zhang 2019, Thm 5: otherwise the tables above would need the other direction."""
    remove, add = (moments.log_moments(pair(0.8, 0.05)) for pair in (SampledGaussianRemove, SampledGaussianAdd))
    assert np.all(remove > add)


def test_copies_add_up_and_order_does_not_matter():
    a, b = SampledGaussianRemove(1.0, 0.01), SampledGaussianRemove(2.0, 0.1)
    once = moments.epsilon([(a, 30), (b, 7)], 1e-6).epsilon
    assert moments.epsilon([(b, 7), (a, 10), (a, 20)], 1e-6).epsilon == pytest.approx(once, rel=1e-13)


def test_limits_and_bad_input():
    pair = SampledGaussianRemove(1.0, 0.01)
    assert moments.epsilon([], 1e-5).epsilon == 0.0
    assert moments.epsilon([(pair, 0)], 1e-5).epsilon == 0.0
    assert moments.delta([(pair, 10)], 0.0).delta == 1.0
    assert moments.delta([(pair, 10)], math.inf).delta == 0.0
    for bad in (math.nan, 0.0, -1.0, 1.5):
        with pytest.raises(InputError):
            moments.epsilon([(pair, 1)], bad)
    with pytest.raises(InputError):
        moments.epsilon([(pair, -1)], 1e-5)
    with pytest.raises(InputError):
        moments.delta([(pair, 1)], math.nan)
