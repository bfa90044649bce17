"""Random Laplace, randomized response and mixed compositions against independent truth.

Binary randomized response: exact binomial sums in 40 digits. One Laplace release: closed form. Laplace many times, and
mixtures: dp-accounting's pessimistic distribution as a ceiling for our lower end, RDP as one for it too.
"""

from __future__ import annotations

import math
import os
import random

import mpmath
import pytest
from dp_accounting.pld import privacy_loss_distribution as peer

from dpbudget.accounting import lattice, pairs, rdp
from dpbudget.model import Adjacency, Laplace, PureDP, SampledGaussian

ADD = Adjacency.ADD_OR_REMOVE_ONE
TOLERANCE = 1e-4
CASES = int(os.environ.get("DPBUDGET_CASES", "300"))


def response_epsilon(eps0: float, steps: int, delta: float) -> float:
    """Epsilon of `steps` worst eps0-DP mechanisms at delta: the root of the exact binomial tail."""
    with mpmath.workdps(40):
        q = 1 / (1 + mpmath.exp(-eps0))
        mass = [mpmath.binomial(steps, j) * q**j * (1 - q) ** (steps - j) for j in range(steps + 1)]

        def value(eps: mpmath.mpf) -> mpmath.mpf:
            return sum(
                m * (1 - mpmath.exp(eps - (2 * j - steps) * eps0))
                for j, m in enumerate(mass)
                if (2 * j - steps) * eps0 > eps
            )

        if value(mpmath.mpf(0)) <= delta:
            return 0.0
        low, high = mpmath.mpf(0), mpmath.mpf(steps) * eps0
        for _ in range(90):
            middle = (low + high) / 2
            low, high = (middle, high) if value(middle) > delta else (low, middle)
        return float(low)


def check_response(draw: random.Random) -> None:
    eps0, steps, delta = 10 ** draw.uniform(-2, 0.7), draw.randint(1, 60), 10 ** draw.uniform(-12, -2)
    [pair] = pairs.dominating_pairs(PureDP(eps0), ADD).values()
    found = lattice.certify_epsilon([(pair, steps)], delta, tolerance=TOLERANCE)
    truth = response_epsilon(eps0, steps, delta)
    slack = 1e-11 * max(truth, 1)  # round-off of the case itself: eps0 is a double on both sides
    assert found.lower <= truth + slack, (eps0, steps, delta, found, truth)
    assert truth <= found.upper + slack, (eps0, steps, delta, found, truth)


def check_laplace(draw: random.Random) -> None:
    scale, delta = 10 ** draw.uniform(-0.5, 1.5), 10 ** draw.uniform(-12, -2)
    [pair] = {repr(p): p for p in pairs.dominating_pairs(Laplace(scale), ADD).values()}.values()
    one = lattice.certify_epsilon([(pair, 1)], delta, tolerance=TOLERANCE)
    truth = max(0.0, 1 / scale + 2 * math.log1p(-delta))  # delta = 1 - e^{(eps - 1/b) / 2}
    assert one.lower <= truth * (1 + 1e-10) + 1e-12 and truth <= one.upper * (1 + 1e-10) + 1e-12, (
        scale,
        delta,
        one,
        truth,
    )
    steps = draw.randint(2, 40)
    many = lattice.certify_epsilon([(pair, steps)], delta, tolerance=TOLERANCE)
    ceiling = peer.from_laplace_mechanism(scale, value_discretization_interval=1e-3).self_compose(steps)
    assert many.lower <= ceiling.get_epsilon_for_delta(delta) * (1 + 1e-12)
    assert many.lower <= rdp.epsilon([(pair, steps)], delta).epsilon
    assert many.upper <= steps / scale * (1 + 1e-9)


def check_mixture(draw: random.Random) -> None:
    sigma, rate, scale = 10 ** draw.uniform(-0.1, 0.7), 10 ** draw.uniform(-3, -0.5), 10 ** draw.uniform(0.3, 1.5)
    steps, releases, delta = draw.randint(2, 300), draw.randint(1, 20), 10 ** draw.uniform(-9, -3)
    gauss, laplace = (pairs.dominating_pairs(m, ADD) for m in (SampledGaussian(sigma, rate), Laplace(scale)))
    lowers = []
    for name, pair in gauss.items():
        parts = [(pair, steps), (laplace.get(name) or laplace["both"], releases)]
        found = lattice.certify_epsilon(parts, delta, tolerance=TOLERANCE)
        assert found.lower <= found.upper
        assert found.lower <= rdp.epsilon(parts, delta).epsilon
        lowers.append(found.lower)
    ceiling = peer.from_gaussian_mechanism(sigma, sampling_prob=rate, value_discretization_interval=1e-3).self_compose(
        steps
    )
    ceiling = ceiling.compose(
        peer.from_laplace_mechanism(scale, value_discretization_interval=1e-3).self_compose(releases)
    )
    assert max(lowers) <= ceiling.get_epsilon_for_delta(delta) * (1 + 1e-12)


CHECKS = (check_response, check_laplace, check_mixture)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("seed", range(4))
def test_sample(check, seed: int) -> None:
    check(random.Random(seed))


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_many(check) -> None:
    for seed in range(100, 100 + CASES):
        check(random.Random(seed))
