"""Gaussian differential privacy by the central limit theorem, and the textbook rule of thumb: ESTIMATES, never bounds.

Neither is an upper or a lower bound on epsilon at a finite number of steps. At delta = 1e-5:

    sigma   q          steps   CLT        truth
    0.7     256/60000  10530    5.0614     5.6351     below the truth
    0.5     256/60000  23400   31.08      below 30.78, which RDP proves: above the truth
    4       0.01       10000    rule of thumb 0.8482, truth 0.9469: below
    10      1          1        rule of thumb 0.1517 at delta = 0.1, truth 0: above

Nothing here may pass a check. Infinite results say that the formula ran out of range (sigma below about 0.0375).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from dpbudget.accounting import gaussian
from dpbudget.errors import InputError

Step = tuple[float, float, int]
"""(noise multiplier, sampling rate, count)."""


def mu_clt_poisson(parts: Iterable[Step]) -> float:
    """mu of the limit under Poisson sampling: sqrt(sum q^2 T (e^(1/sigma^2) - 1)). An estimate.

    Source: Bu, Dong, Long, Su 2020, arXiv:1911.11607, Thm 5 and Cor. 4; phases add in squares (Dong, Roth, Su 2019,
    arXiv:1905.02383, Cor. 3.3).
    """
    return _root_of_sum(parts, lambda m: _expm1(m * m))


def epsilon(mu: float, delta: float) -> float:
    """epsilon of mu-GDP at delta: exact for mu-GDP itself, an estimate where mu comes from the limit theorem.

    mu: >= 0.  delta: in [0, 1].  Source: Dong, Roth, Su 2019, arXiv:1905.02383, Cor. 2.13.
    """
    return gaussian.epsilon(delta, _sigma(mu))


def delta(mu: float, epsilon: float) -> float:
    """delta of mu-GDP at epsilon; see `epsilon`."""
    return gaussian.delta(epsilon, _sigma(mu))


def rule_of_thumb(parts: Iterable[Step], delta: float) -> float:
    """q sqrt(T ln(1/delta)) / sigma, phases added in squares. An estimate of the order of magnitude.

    Source: the O() of Abadi et al. 2016, arXiv:1607.00133, Thm 1, with its constant taken as 1.
    """
    if not (0.0 < delta <= 1.0):
        raise InputError("delta", f"{delta} is not in (0, 1]")
    return _root_of_sum(parts, lambda m: m * m) * math.sqrt(-math.log(delta))


def rule_of_thumb_delta(parts: Iterable[Step], epsilon: float) -> float:
    """The delta at which `rule_of_thumb` gives this epsilon. An estimate."""
    if not epsilon >= 0.0:
        raise InputError("epsilon", f"{epsilon} is not a number >= 0")
    size = _root_of_sum(parts, lambda m: m * m)
    if size == 0.0 or math.isinf(epsilon):
        return 0.0
    ratio = epsilon / size
    return math.exp(-ratio * ratio)


def _sigma(mu: float) -> float:
    if not mu >= 0.0:
        raise InputError("mu", f"{mu} is not a number >= 0")
    return math.inf if mu == 0.0 else 1.0 / mu


def _root_of_sum(parts: Iterable[Step], variance: Callable[[float], float]) -> float:
    """sqrt(sum (q sqrt(T v))^2) where v is the variance of one step of multiplier 1 / m."""
    sizes = []
    for sigma, rate, count in parts:
        if not sigma >= 0.0:
            raise InputError("noise_multiplier", f"{sigma} is not a number >= 0")
        if not 0.0 <= rate <= 1.0:
            raise InputError("sampling_rate", f"{rate} is not in [0, 1]")
        if not count >= 0:
            raise InputError("steps", f"{count} is not a number >= 0")
        if count and rate:
            sizes.append(rate * math.sqrt(count) * math.sqrt(variance(1.0 / sigma) if sigma > 0.0 else math.inf))
    return math.hypot(*sizes)


def _expm1(exponent: float) -> float:
    return math.expm1(exponent) if exponent < 709.0 else math.inf
