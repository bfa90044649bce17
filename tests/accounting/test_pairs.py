"""Every pair against its definition: densities that integrate to one, losses, inverses, tails, growth, oscillation."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from dpbudget.accounting.discretise import discretise, panel_edges
from dpbudget.accounting.pairs import (
    AnalyticPair,
    GroupAdd,
    GroupRemove,
    Pair,
    SampledGaussianAdd,
    SampledGaussianRemove,
    SampledGaussianReplace,
    SampledLaplaceAdd,
    SampledLaplaceRemove,
    approximate_dp_pair,
    dominating_pairs,
    fixed_size_replace_pair,
    fixed_size_zero_out_pairs,
    log_mixture_ratio,
    randomized_response_pair,
    randomized_response_zero_out_pairs,
)
from dpbudget.accounting.quadrature import panel_errors, place_nodes
from dpbudget.accounting.tilted import characteristic, tilt_nodes
from dpbudget.errors import InputError
from dpbudget.model import (
    ZCDP,
    Adjacency,
    Laplace,
    Mechanism,
    RandomizedResponse,
    SampledGaussian,
    Sampling,
)

SMOOTH: list[AnalyticPair] = [
    SampledGaussianRemove(1.0, 0.01),
    SampledGaussianRemove(0.4, 0.3),
    SampledGaussianRemove(2.0, 1.0),
    SampledGaussianAdd(1.0, 0.01),
    SampledGaussianAdd(0.4, 0.3),
    SampledGaussianReplace(1.0, 0.05),
    SampledGaussianReplace(0.6, 1.0),
    GroupRemove(1.5, 0.1, 3),
    GroupAdd(1.5, 0.1, 3),
    SampledLaplaceRemove(2.0, 0.2),
    SampledLaplaceAdd(2.0, 0.2),
    SampledLaplaceRemove(0.7, 1.0),
    fixed_size_replace_pair(2.0, 0.1),
    *fixed_size_zero_out_pairs(1.2, 0.1),
]
ATOMIC: list[Pair] = [
    approximate_dp_pair(0.7, 0.0),
    approximate_dp_pair(2.0, 0.01),
    randomized_response_pair(4, 0.2),
    *randomized_response_zero_out_pairs(4, 0.2),
]
CENTRES = {SampledGaussianRemove: 0.5, SampledGaussianAdd: -0.5}


def fine_nodes(pair: Pair):
    return place_nodes(pair, 1, panel_edges(pair, -40.0))


@pytest.mark.parametrize("rate", [1e-300, 1e-40, 1e-15, 0.3])
def test_mixture_ratio_keeps_its_digits_where_its_two_terms_cancel(rate: float) -> None:
    """log(1 - q + q e^g) against 700 digits, from where it is next to log(1 - q) to where it is g + log q."""
    exponents = np.array([-700.0, 29.0, 31.0, 60.0, 90.0, 300.0, 650.0, 689.0, 699.0, 701.0, 1e4])
    with mpmath.workdps(700):
        q = mpmath.mpf(rate)
        want = [float(mpmath.log(1 - q + q * mpmath.exp(mpmath.mpf(g)))) for g in exponents.tolist()]
    np.testing.assert_allclose(log_mixture_ratio(rate, exponents), want, rtol=1e-14)


@pytest.mark.parametrize("pair", SMOOTH + ATOMIC, ids=repr)
def test_p_and_q_are_probabilities(pair: Pair) -> None:
    nodes = fine_nodes(pair)
    assert abs(nodes.mass.sum() + pair.infinite_mass - 1) < 1e-12
    q_mass = float(nodes.mass @ np.exp(-nodes.loss))
    assert q_mass <= 1 + 1e-9
    # an opaque guarantee keeps delta of Q for losses of -inf, a perfect answer (k - 1)/k of nothing; the rest keep all
    if pair.infinite_mass == 0:
        assert abs(q_mass - 1) < 1e-9


@pytest.mark.parametrize("pair", SMOOTH, ids=repr)
def test_the_loss_increases_and_inverts(pair: AnalyticPair) -> None:
    lo, hi = pair.support(-30.0)
    x = np.linspace(lo, hi, 4001)[1:-1]
    loss = pair.loss(x)
    assert (np.diff(loss) >= -1e-13 * np.abs(loss[1:])).all()
    back = pair.loss(pair.inverse_loss(loss[5:-5]))
    clear = np.gradient(loss, x)[5:-5] > 1e-9
    assert np.allclose(back[clear], loss[5:-5][clear], rtol=1e-8, atol=1e-10)  # conditioned by the slope of the loss


@pytest.mark.parametrize("pair", SMOOTH, ids=repr)
def test_tails_are_bounds(pair: AnalyticPair) -> None:
    x = np.linspace(*pair.support(-40.0), 200_001)
    density = np.exp(pair.log_p(x))
    mass = np.append(0.0, np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(x)))
    for k in (140_000, 180_000):
        assert mass[-1] - mass[k] <= np.exp(pair.log_upper_tail(x[k])) * (1 + 1e-6)
    for k in (20_000, 60_000):
        assert mass[k] <= np.exp(pair.log_lower_tail(x[k])) * (1 + 1e-6)


@pytest.mark.parametrize("pair", SMOOTH, ids=repr)
def test_oscillation_bounds_the_characteristic_function(pair: AnalyticPair) -> None:
    for t in (0.4, 3.0):
        edges = panel_edges(pair, -30.0)[::4]
        variation = pair.oscillation(edges, t)
        for a, b, v in zip(edges[:-1], edges[1:], variation, strict=True):
            x = a + (b - a) * (np.arange(20_000) + 0.5) / 20_000
            loss, log_p = pair.loss_and_log_p(x)
            for y in (3.0, 30.0):
                value = np.abs(np.exp(log_p + t * loss + 1j * y * loss).mean() * (b - a))
                assert value <= v / y * (1 + 1e-6) + 1e-9  # midpoint rule


@pytest.mark.parametrize("pair", SMOOTH, ids=repr)
@pytest.mark.parametrize("frequency", [0.0, 20.0])
def test_quadrature_errors_are_bounded(pair: AnalyticPair, frequency: float) -> None:
    """Coarse panels against fine ones: the proven bound holds, panel by panel."""
    t = 1.5
    edges = np.union1d(panel_edges(pair, -30.0)[::6], pair.breaks)
    bounds = np.exp(panel_errors(pair, edges, t, frequency))
    for k in range(edges.size - 1):

        def integral(cuts: np.ndarray) -> complex:
            nodes = place_nodes(pair, 1, cuts)
            inner = slice(0, 16 * (cuts.size - 1))
            return complex(np.sum(nodes.mass[inner] * np.exp((t + 1j * frequency) * nodes.loss[inner])))

        exact = integral(np.linspace(edges[k], edges[k + 1], 65))
        assert abs(integral(edges[k : k + 2]) - exact) <= bounds[k] + 1e-12 * abs(exact) + 1e-15


@pytest.mark.parametrize("pair", SMOOTH + ATOMIC, ids=repr)
@pytest.mark.parametrize("step", [0.3, 0.02])
def test_lattice_measures_bracket_the_hockey_stick(pair: Pair, step: float) -> None:
    """H of the upper measure lies above, of the lower one below that of the pair, at every y."""
    found = discretise(pair, step, -40.0)
    levels = np.linspace(-1.5, 2.5, 83)
    nodes = place_nodes(pair, 1, panel_edges(pair, -40.0, extra=pair.inverse_loss(levels)))  # no kink inside a panel
    for epsilon in levels:
        truth = pair.infinite_mass + float(nodes.mass @ np.maximum(-np.expm1(epsilon - nodes.loss), 0.0))
        values = []
        for measure in (found.lower, found.upper):
            gain = np.maximum(-np.expm1(np.minimum(epsilon - measure.losses, 0.0)), 0.0)
            values.append(measure.infinite + float(measure.mass @ gain))
        slack = 1e-13 + 1e-11 * truth  # round-off of the kink's place
        assert values[0] <= truth + slack and values[1] >= truth - slack


def test_the_tilted_characteristic_function_of_a_gaussian() -> None:
    """Unsampled noise: the loss is normal, so that the tilted one is too, with variance 1 / s^2."""
    part = tilt_nodes(fine_nodes(SampledGaussianRemove(2.0, 1.0)), 1.5)
    y = np.array([0.3, 2.0, 9.0])
    assert np.allclose(1 + characteristic(part, y), np.exp(-(y**2) / 8), atol=1e-13)


@pytest.mark.parametrize(
    ("mechanism", "adjacency"),
    [
        (SampledGaussian(1.0, 0.1, Sampling.FIXED_SIZE), Adjacency.ADD_OR_REMOVE_ONE),
        (SampledGaussian(1.0, 0.1, Sampling.SHUFFLE), Adjacency.ZERO_OUT),
        (SampledGaussian(1.0, 0.1, group_size=2), Adjacency.REPLACE_ONE),
        (SampledGaussian(float("nan"), 0.1), Adjacency.ADD_OR_REMOVE_ONE),
        (SampledGaussian(1.0, float("nan")), Adjacency.ADD_OR_REMOVE_ONE),
        (RandomizedResponse(4, 0.2), Adjacency.ADD_OR_REMOVE_ONE),
        (Laplace(1.0, 0.1), Adjacency.REPLACE_ONE),
        (ZCDP(0.5), Adjacency.ADD_OR_REMOVE_ONE),
    ],
)
def test_combinations_without_a_proven_pair(mechanism: Mechanism, adjacency: Adjacency) -> None:
    with pytest.raises(InputError):
        dominating_pairs(mechanism, adjacency)


def test_group_of_one_is_a_single_record() -> None:
    x = np.linspace(-6, 8, 301)
    assert np.allclose(
        GroupRemove(1.3, 0.2, 1).loss(x), SampledGaussianRemove(1.3, 0.2).loss(x), rtol=1e-12, atol=1e-15
    )
    assert np.allclose(GroupAdd(1.3, 0.2, 1).loss(x), SampledGaussianAdd(1.3, 0.2).loss(x), rtol=1e-12, atol=1e-15)


def test_only_spliced_pairs_are_not_attained() -> None:
    assert all(pair.tight for pair in [*SMOOTH[:12], *ATOMIC])
    assert not any(pair.tight for pair in SMOOTH[12:])
