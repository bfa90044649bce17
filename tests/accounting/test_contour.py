"""The contour estimate: golden values, closed forms at q = 1 and T = 1, small T by brute force, and a second library.

It promises 1e-8 or None. A wrong number would be the defect, so that every test compares with another method.
"""

import csv
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from dpbudget.accounting import contour, rdp
from dpbudget.accounting.pairs import SampledGaussianAdd, SampledGaussianRemove, dominating_pairs
from dpbudget.errors import InputError
from dpbudget.model import Adjacency, Laplace, PureDP

DATA = Path(__file__).parents[1] / "data"


def golden():
    with (DATA / "golden.csv").open() as file:
        for row in csv.DictReader(file):
            sigma, rate, steps = float(row["noise_multiplier"]), float(row["sampling_rate"]), int(row["steps"])
            yield SampledGaussianRemove(sigma, rate), steps, float(row["delta"]), float(row["epsilon_remove"])
            yield SampledGaussianAdd(sigma, rate), steps, float(row["delta"]), float(row["epsilon_add"])


@pytest.mark.parametrize(("pair", "steps", "delta", "truth"), list(golden()))
def test_golden_values(pair, steps, delta, truth):
    found = contour.epsilon([(pair, steps)], delta)
    assert found is not None
    assert abs(found - truth) <= 1e-8 * truth + 5e-10  # the file has nine decimals
    back = contour.log_delta([(pair, steps)], found)
    assert back == pytest.approx(math.log(delta), abs=3e-8)


@pytest.mark.parametrize(
    ("sigma", "rate", "delta", "truth"),
    [(1.0, 0.00105, 1e-3, 0.0), (1.0, 0.00105, 1e-4, 0.00240434), (1.0, 0.00105, 1e-5, 0.00977620)],
)
def test_single_step_published(sigma, rate, delta, truth):
    assert contour.epsilon([(SampledGaussianRemove(sigma, rate), 1)], delta) == pytest.approx(truth, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.floats(-3.0, 13.8), st.floats(-20.7, -0.001), st.floats(-100.0, -0.31))
def test_single_step_is_the_closed_form(log_sigma, log_rate, log10_delta):
    """delta = q Sf((x-1)/s) - (e^eps - 1 + q) Sf(x/s), x the point where the loss is eps; 60 digits."""
    sigma, rate, delta = math.exp(log_sigma), math.exp(log_rate), 10**log10_delta
    found = contour.epsilon([(SampledGaussianRemove(sigma, rate), 1)], delta)
    mpmath.mp.dps = 80
    s, q, e = mpmath.mpf(sigma), mpmath.mpf(rate), mpmath.exp(mpmath.mpf(found))
    x = s * s * mpmath.log((e - 1 + q) / q) + mpmath.mpf(1) / 2
    sf = lambda z: mpmath.erfc(z / mpmath.sqrt(2)) / 2  # noqa: E731
    exact = float(q * sf((x - 1) / s) - (e - 1 + q) * sf(x / s))
    # the loss is good to 1e-15, and delta falls by e^-z^2/2 with z up to 21 standard deviations
    assert exact == pytest.approx(delta, rel=1e-7) if found > 0.0 else exact <= delta * (1 + 1e-9)


def gaussian_log_delta(mu, epsilon):
    a, b = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return a + math.log(-math.expm1(b - a))


@settings(max_examples=60, deadline=None)
@given(st.floats(0.05, 20.0), st.integers(2, 10**9), st.floats(-50.0, -0.5))
def test_plain_gaussian_is_the_closed_form(mu, steps, log10_delta):
    """T steps of sigma sqrt(T) / mu are one Gaussian of shift mu."""
    delta = 10**log10_delta
    found = contour.epsilon([(SampledGaussianRemove(math.sqrt(steps) / mu, 1.0), steps)], delta)
    assert found is not None
    if found == 0.0:
        assert gaussian_log_delta(mu, 1e-12) <= math.log(delta) + 1e-8
    else:
        slope = abs(gaussian_log_delta(mu, found * 1.001) - gaussian_log_delta(mu, found)) / 0.001
        assert abs(gaussian_log_delta(mu, found) - math.log(delta)) <= 1e-8 * max(1.0, slope) + 1e-9 * max(1.0, found)


def two_steps(pair, epsilon):
    """delta of two uses, by a double quadrature with the kink resolved: independent of every transform."""
    lo, hi = pair.support(-80.0)
    nodes, weights = np.polynomial.legendre.leggauss(16)

    def integral(function, a, b, pieces):
        edges = np.linspace(a, b, pieces + 1)
        half = np.diff(edges)[:, None] / 2
        x = edges[:-1, None] + half * (1 + nodes)
        return np.sum(half * weights * function(x.ravel()).reshape(x.shape))

    def gain(x, left):
        return np.exp(pair.log_p(x)) * -np.expm1(np.minimum(left - pair.loss(x), 0.0))

    def inner(x1):
        out = np.zeros_like(x1)
        for i, loss in enumerate(pair.loss(x1)):
            start = max(lo, float(pair.inverse_loss(np.array([epsilon - loss]))[0]))
            if start < hi:
                out[i] = integral(lambda x, left=epsilon - loss: gain(x, left), start, hi, 30)
        return out

    return integral(lambda x: np.exp(pair.log_p(x)) * inner(x), lo, hi, 120)


@pytest.mark.parametrize("delta", [1e-3, 1e-7, 1e-12])
@pytest.mark.parametrize("pair", [SampledGaussianRemove(1.0, 0.1), SampledGaussianAdd(1.0, 0.1)])
def test_two_steps_by_double_quadrature(pair, delta):
    found = contour.epsilon([(pair, 2)], delta)
    assert found is not None
    assert two_steps(pair, found) == pytest.approx(delta, rel=1e-7)  # the test's own panels are good to 1e-8


@pytest.mark.parametrize("delta", [1e-4, 1e-7, 1e-12])
@pytest.mark.parametrize("pair", [SampledGaussianRemove(2.0, 1e-3), SampledGaussianRemove(0.8, 1e-5)])
def test_two_rarely_sampled_steps_are_right_or_refused(pair, delta):
    found = contour.epsilon([(pair, 2)], delta)
    if found is not None and found > 0.0:
        assert two_steps(pair, found) == pytest.approx(delta, rel=1e-6)


def test_small_rate_needs_the_core():
    """Few steps, rarely sampled: the characteristic function hardly decays, and nothing else is left to converge."""
    assert contour.epsilon([(SampledGaussianRemove(0.8, 0.001), 100)], 1e-6) == pytest.approx(0.260337094, abs=5e-10)
    assert contour.epsilon([(SampledGaussianRemove(0.5, 1e-4), 10_000)], 1e-6) == pytest.approx(1.953224322, abs=1e-8)


def test_heterogeneous_parts():
    a, b = SampledGaussianRemove(1.0, 0.01), SampledGaussianRemove(2.0, 0.1)
    mixed = contour.epsilon([(a, 300), (b, 70)], 1e-6)
    assert mixed == pytest.approx(contour.epsilon([(b, 70), (a, 100), (a, 200)], 1e-6), rel=1e-9)
    assert max(contour.epsilon([(a, 300)], 1e-6), contour.epsilon([(b, 70)], 1e-6)) < mixed
    assert mixed < rdp.epsilon([(a, 300), (b, 70)], 1e-6).epsilon
    # two Gaussians, not sampled, are one
    one = contour.epsilon([(SampledGaussianRemove(3.0, 1.0), 4), (SampledGaussianRemove(4.0, 1.0), 9)], 1e-7)
    mu = math.sqrt(4 / 9 + 9 / 16)
    assert gaussian_log_delta(mu, one) == pytest.approx(math.log(1e-7), abs=1e-7)


@settings(max_examples=25, deadline=None)
@given(st.floats(-0.7, 4.6), st.floats(-9.0, 0.0), st.floats(0.0, 16.0), st.floats(-15.0, -2.0))
def test_between_nothing_and_rdp_and_monotone(log_sigma, log_rate, log_steps, log10_delta):
    def cost(sigma=1.0, rate=1.0, steps=1.0, delta=1.0):
        pair = SampledGaussianRemove(math.exp(log_sigma) * sigma, math.exp(log_rate) * rate)
        parts = [(pair, math.ceil(math.exp(log_steps) * steps))]
        found = contour.epsilon(parts, 10**log10_delta * delta)
        return parts, found

    parts, here = cost()
    if here is None:
        return
    assert 0.0 <= here <= rdp.epsilon(parts, 10**log10_delta).epsilon * (1 + 1e-9)
    changes = (({"sigma": 1.01}, True), ({"rate": 0.99}, True), ({"steps": 2.0}, False), ({"delta": 0.9}, False))
    for change, falls in changes:
        other = cost(**change)[1]
        if other is not None:
            assert other <= here * (1 + 1e-8) if falls else other >= here * (1 - 1e-8)


def test_tilt_is_near():
    lam, guess = contour.tilt([(SampledGaussianRemove(1.1, 0.0042666), 14_040)], 1e-5)
    assert guess == pytest.approx(2.3795, rel=0.02)
    assert 5.0 < lam < 10.0


def test_limits_and_bad_input():
    pair = SampledGaussianRemove(1.0, 0.01)
    assert contour.epsilon([], 1e-5) == 0.0
    assert contour.epsilon([(pair, 0)], 1e-5) == 0.0
    assert contour.epsilon([(pair, 7)], 1.0) == 0.0
    assert contour.delta([(pair, 7)], math.inf) == 0.0
    assert contour.epsilons([(pair, 700)], [1e-5, 1e-6])[0] < contour.epsilons([(pair, 700)], [1e-6])[0]
    for bad in (math.nan, 0.0, -1.0):
        with pytest.raises(InputError):
            contour.epsilon([(pair, 1)], bad)
    with pytest.raises(InputError):
        contour.epsilon([(pair, -1)], 1e-5)
    with pytest.raises(InputError):
        contour.delta([(pair, 1)], math.nan)


def test_atoms_alone_are_refused():
    """Their characteristic function never dies out: it looks decayed for a while and comes back at y = pi / loss."""
    response = dominating_pairs(PureDP(0.998), Adjacency.ADD_OR_REMOVE_ONE)["both"]
    for steps in (2, 30, 1000):
        assert contour.epsilon([(response, steps)], 1e-6) is None
        assert contour.delta([(response, steps)], 1.0) is None
    both = [(response, 3), (SampledGaussianRemove(1.0, 0.3), 200)]  # the Gaussian steps make the sum smooth
    assert contour.epsilon([(SampledGaussianRemove(1.0, 0.3), 200)], 1e-6) < contour.epsilon(both, 1e-6)


def test_atoms_of_many_laplace_steps_die_out():
    """Compared with the sum's own law: 300 plain Laplace losses, convolved on a fine grid, both ways of rounding."""
    pair = dominating_pairs(Laplace(4.0), Adjacency.ADD_OR_REMOVE_ONE)["both"]
    found = contour.epsilon([(pair, 300)], 1e-6)
    bounds = []
    grid = 1 / 4000
    edges = np.arange(-1000, 1001) * grid
    middle = (edges[1:] + edges[:-1]) / 2
    inside = (
        np.exp(pair.log_p(np.clip(pair.inverse_loss(middle), 0, 1))) * 2.0 * grid * (np.abs(middle) < 0.25)
    )  # b / 2
    for up in (0, 1):
        law = np.zeros(edges.size)
        law[up : inside.size + up] += inside
        for loss, mass in pair.atoms:
            law[round(loss / grid) + 1000] += mass
        size = 1 << 20
        total = np.fft.irfft(np.fft.rfft(law / law.sum(), size) ** 300, size)
        losses = (np.arange(size) - 300 * 1000) * grid
        bounds.append(float(np.sum(np.maximum(total, 0) * -np.expm1(np.minimum(found - losses, 0.0)))))
    assert bounds[0] <= 1e-6 <= bounds[1]
    assert bounds[1] < 1.3e-6


def test_a_law_that_lies_outside_its_core_whole():
    """At the tilt of few steps of a small rate all mass may lie outside: log(1 - 1) must not reach the sum."""
    assert contour.epsilon([(SampledGaussianAdd(0.56051, 0.009056), 3)], 2.74e-9) is None
    found = contour.epsilon([(SampledGaussianRemove(0.56051, 0.009056), 3)], 2.74e-9)
    assert found == pytest.approx(5.720818, rel=1e-6)


def test_a_value_that_stays_and_is_not_trusted_is_given_up(monkeypatch):
    """Five rarely sampled steps: each further contour would cost as much as the certificate, and say the same."""
    drawn = []
    around = contour.contour_around
    monkeypatch.setattr(contour, "contour_around", lambda *given: drawn.append(given) or around(*given))
    assert contour.epsilon([(SampledGaussianRemove(1.1, 0.01), 5)], 1e-5) is None
    assert len(drawn) == 3  # one without a core, two with it
