"""One use of a sampled Gaussian: its hockey-stick divergence in closed form, as an interval.

With delta_G the profile of the unsampled Gaussian (Balle, Wang 2018, arXiv:1805.06530), the exact maps of Poisson
sampling are (Balle, Barthe, Gaboardi 2018, arXiv:1807.01647, Thm 8, and its mirror image)

    removed:  delta(eps) = q delta_G(eps_0),                        e^{eps_0} = 1 + (e^eps - 1) / q,
    added:    delta(eps) = (1 - (1 - q) e^eps) delta_G(eps_0),      e^{eps_0} = q e^eps / (1 - (1 - q) e^eps),

the second one 0 from eps = -log(1 - q) on.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpbudget.accounting import gaussian
from dpbudget.accounting.pairs import Pair, SampledGaussianAdd, SampledGaussianRemove

SLACK = 2.0**-49
"""Relative round-off of the few elementary operations of a map, rounded up."""


def has_closed_form(pair: Pair) -> bool:
    """Whether `delta_interval` and `epsilon_interval` answer for one use of this pair."""
    return isinstance(pair, SampledGaussianRemove | SampledGaussianAdd)


def delta_interval(pair: Pair, epsilon: float) -> tuple[float, float]:
    """(lower, upper) around delta of one use at epsilon >= 0."""
    assert isinstance(pair, SampledGaussianRemove | SampledGaussianAdd)
    q, sigma = pair.rate, pair.sigma
    if isinstance(pair, SampledGaussianRemove) or q == 1.0:
        inner = _log1p_scaled(epsilon, 1 / q)
        low = gaussian.delta_interval(inner * (1 + SLACK), sigma)[0]
        return q * low * (1 - SLACK), min(1.0, q * gaussian.delta_interval(inner * (1 - SLACK), sigma)[1] * (1 + SLACK))
    return tuple(_added(epsilon, q, sigma, side) for side in (-1, 1))  # type: ignore[return-value]


def epsilon_interval(pair: Pair, delta: float) -> tuple[float, float]:
    """(lower, upper) around the least epsilon >= 0 of one use at delta in (0, 1); 0 from the total variation on."""
    assert isinstance(pair, SampledGaussianRemove | SampledGaussianAdd)
    q, sigma = pair.rate, pair.sigma
    if isinstance(pair, SampledGaussianRemove) or q == 1.0:
        if delta / q >= 1.0:
            return 0.0, 0.0
        low = gaussian.epsilon_interval(min(delta / q * (1 + SLACK), 1.0), sigma)[0]
        high = gaussian.epsilon_interval(delta / q * (1 - SLACK), sigma)[1]
        return _log1p_scaled(low, q) * (1 - SLACK), _log1p_scaled(high, q) * (1 + SLACK)
    if _added(0.0, q, sigma, 1) <= delta:
        return 0.0, 0.0
    cap = -math.log1p(-q)
    if _added(0.0, q, sigma, -1) <= delta:
        low = 0.0
    else:
        low = _bisect(cap, lambda e: _added(e, q, sigma, -1) > delta)[0]
    return low, min(_bisect(cap, lambda e: _added(e, q, sigma, 1) > delta)[1], cap * (1 + SLACK))


def _log1p_scaled(x: float, scale: float) -> float:
    """log(1 + scale (e^x - 1)) for x >= 0, without overflow and to a few units in the last place at any scale."""
    if x == 0.0 or math.isinf(x):
        return x
    log_grown = math.log(scale) + (math.log(math.expm1(x)) if x < 700.0 else x)
    if log_grown > 700.0:
        return log_grown
    return math.log1p(scale * math.expm1(x) if x < 700.0 else scale * math.exp(x / 2) * math.exp(x / 2))


def _added(epsilon: float, q: float, sigma: float, side: int) -> float:
    """delta of one added record, bounded from above (side 1) or below (-1); w below is 1 - (1 - q) e^eps."""
    if epsilon > 40.0 - math.log1p(-q):
        return 0.0
    rise = (1 - q) * math.expm1(epsilon)
    w = q - rise + side * SLACK * (q + rise)
    if not (w > 0):
        return 0.0
    inner = max(0.0, epsilon + math.log(q) - math.log(w) - side * SLACK * (2 + epsilon + abs(math.log(q))))
    found = gaussian.delta_interval(inner, sigma)[(side + 1) // 2]
    return min(1.0, w * found * (1 + side * SLACK))


def _bisect(high: float, above: Callable[[float], bool]) -> tuple[float, float]:
    """Neighbouring values with `above` at the first and not at the second; above(0) holds, above(high) need not fail."""
    low, high = 0.0, high * (1 + SLACK)
    for _ in range(200):
        middle = (low + high) / 2
        if not (low < middle < high) or high - low <= 2 * SLACK * high:
            break
        low, high = (middle, high) if above(middle) else (low, middle)
    return low, high
