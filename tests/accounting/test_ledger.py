"""What a ledger hands to the accountants: releases merged and sorted, each multiplier on its safe side."""

from __future__ import annotations

import itertools
import math

import pytest
from contracts import ADD

from dpbudget.accounting import account
from dpbudget.accounting.account import Ledger
from dpbudget.accounting.gaussian_pairs import MixtureAdd, MixtureRemove
from dpbudget.accounting.pairs import dominating_pairs
from dpbudget.model import (
    ZCDP,
    Adjacency,
    Gaussian,
    GaussianMixture,
    Laplace,
    Release,
    SampledGaussian,
    Sampling,
)

MIXED = [SampledGaussian(1.0, 0.25), SampledGaussian(2.0, 0.1, group_size=2), Gaussian(4.0), Laplace(10.0), ZCDP(0.01)]


def test_the_order_of_releases_does_not_matter() -> None:
    """Accountants are handed equal ledgers."""
    mixed = [Release(m, 2) for m in MIXED if not isinstance(m, ZCDP)][:5]
    first = Ledger.of(mixed, Adjacency.ZERO_OUT)
    for order in itertools.islice(itertools.permutations(mixed), 1, 120, 7):
        assert Ledger.of(order, Adjacency.ZERO_OUT) == first


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
    """A millionth of a millionth that is missing in each of a million steps is a millionth of delta."""
    for pair in dominating_pairs(GaussianMixture(1.0, (0.3, 0.7 - 9e-13)), ADD).values():
        assert isinstance(pair, (MixtureRemove, MixtureAdd)) and abs(math.fsum(pair.masses) - 1) < 3e-16


@pytest.mark.parametrize("sampling", [Sampling.FIXED_SIZE, Sampling.SHUFFLE, Sampling.BALLS_IN_BINS])
def test_delta_of_one_batch_an_epoch_is_that_of_a_full_batch(sampling: Sampling) -> None:
    adjacency = Adjacency.ZERO_OUT
    found = account.delta(Ledger.of([Release(SampledGaussian(2.0, 1.0, sampling), 3)], adjacency), 1.0)
    plain = account.delta(Ledger.of([Release(Gaussian(2.0), 3)], adjacency), 1.0)
    assert (found.lower, found.upper) == pytest.approx((plain.lower, plain.upper), rel=1e-13)
