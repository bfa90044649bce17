"""One lattice, every epsilon: tail sums against closed forms and exact sums, on both sides, near the tilt and far from it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpbudget.accounting import gaussian, mesh
from dpbudget.accounting.closed_form import delta_interval
from dpbudget.accounting.convolve import compose, evaluate
from dpbudget.accounting.discretise import discretise
from dpbudget.accounting.pairs import (
    AtomicPair,
    Pair,
    SampledGaussianAdd,
    SampledGaussianRemove,
    approximate_dp_pair,
)
from dpbudget.accounting.tabulated import Tabulated, TailSums

EPSILONS = np.concatenate([[0.0], np.geomspace(1e-6, 300.0, 120)])


def table(parts: list[tuple[Pair, int]], epsilon: float, ahead: float = 2.5, tolerance: float = 1e-5) -> Tabulated:
    return Tabulated.of(*mesh.table_compositions(parts, epsilon, ahead=ahead, tolerance=tolerance))


@pytest.mark.parametrize("ahead", [0.0, 2.5])
@pytest.mark.parametrize("sigma", [0.15, 1.0, 40.0])
@pytest.mark.parametrize("z", [-4.0, 0.5, 4.0, 20.0])
def test_unsampled_steps_lie_between_the_tails(sigma: float, z: float, ahead: float) -> None:
    """Four Gaussian steps, the table made for an epsilon z standard deviations above the mean of the loss."""
    mu = 2 / sigma
    made_for = max(0.0, mu * mu / 2 + mu * z)
    found = table([(SampledGaussianRemove(sigma, 1.0), 4)], made_for, ahead)
    epsilons = np.append(EPSILONS * mu * max(mu, 1.0), made_for)
    low, high = found.below.at(epsilons), found.above.at(epsilons)
    truth = np.array([gaussian.delta_interval(float(e), sigma / 2) for e in epsilons])
    assert np.all(low <= truth[:, 1] * (1 + 1e-12))
    assert np.all(high >= truth[:, 0] * (1 - 1e-12))
    assert high[-1] - low[-1] <= 1e-4 * high[-1]
    assert (float(low[0]), float(high[0])) == found.ends(0.0)


def test_many_epsilons_are_as_good_as_one_at_a_time() -> None:
    parts: list[tuple[Pair, int]] = [(SampledGaussianRemove(0.7, 0.05), 30)]
    below, above = mesh.table_compositions(parts, 1.0, ahead=0.0, tolerance=1e-4)
    epsilons = np.linspace(0.0, 4.0, 41)
    for composition, side in ((below, -1), (above, 1)):
        single = np.array([evaluate(composition, float(e), side) for e in epsilons])
        np.testing.assert_allclose(TailSums.of(composition, side).at(epsilons), single, rtol=1e-7)


@pytest.mark.parametrize("log_delta", [-60.0, -600.0])
def test_left_of_the_window_nothing_is_known(log_delta: float) -> None:
    """A tilt made for a tiny delta sees no mass where delta is large; what the window hides is not to be forgotten there."""
    below, above = mesh.both_compositions([(SampledGaussianRemove(1.0, 1.0), 4)], log_delta, 1e-5)
    for epsilon in (0.0, 1.0, 5.0, 20.0, 60.0):
        low, high = gaussian.delta_interval(epsilon, 0.5)
        assert evaluate(above, epsilon, 1) >= low
        assert evaluate(below, epsilon, -1) <= high
        found = Tabulated.of(below, above).ends(epsilon)
        assert found[0] <= high
        assert found[1] >= low


def test_a_mesh_wider_than_all_losses_is_loose_but_true() -> None:
    """The tilted mass sits in one point far right of every epsilon that matters; 1000 steps of losses up to 1e-9."""
    pair, lam, step = SampledGaussianAdd(1.0, 1e-9), 1.5e9, 7e-3
    item = discretise(pair, step, -60.0)
    above = compose([(item.upper, 1000)], lam, 1, [item.mass_error], [item.loss_error])
    epsilons = np.array([0.0, 1e-9, 2.7e-7])
    single = np.array([delta_interval(pair, float(e))[0] for e in epsilons])  # one step costs no more than all
    assert np.all(TailSums.of(above, 1).at(epsilons) >= single)
    with np.errstate(over="ignore", under="ignore"):
        assert all(evaluate(above, float(e), 1) >= low for e, low in zip(epsilons, single, strict=True))


@pytest.mark.parametrize("infinite", [0.0, 1e-6])
@pytest.mark.parametrize("made_for", [0.0, 3.0, 8.0])
def test_atoms_and_a_mass_at_infinity_against_the_binomial_sum(made_for: float, infinite: float) -> None:
    steps, e = 20, 0.6
    pair = approximate_dp_pair(e, infinite)
    found = table([(pair, steps)], made_for)
    up = (1 - infinite) / (1 + math.exp(-e))
    k = np.arange(steps + 1)
    mass = np.array([math.comb(steps, int(i)) * up**i * (1 - infinite - up) ** (steps - i) for i in k])
    loss = e * (2 * k - steps)
    for epsilon in (0.0, 0.3, 1.2, 1.5, 3.0, 7.0, 8.0, 11.9):
        exact = float(mass @ np.maximum(-np.expm1(epsilon - loss), 0)) - math.expm1(steps * math.log1p(-infinite))
        low, high = found.ends(epsilon)
        assert low <= exact * (1 + 1e-9)
        assert high >= exact * (1 - 1e-9)
        assert high - low <= 1e-4 * high or epsilon != made_for


def test_ends_fall_and_never_leave_the_unit_interval() -> None:
    found = table([(AtomicPair(((-0.4, 0.25), (0.1, 0.5), (0.35, 0.25))), 50)], 2.0)
    for side in (found.below, found.above):
        values = side.at(np.linspace(0.0, 20.0, 2000))
        assert np.all((values >= 0.0) & (values <= 1.0))
        assert np.all(np.diff(values) <= 1e-12)
