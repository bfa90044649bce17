"""The moments accountant of 2016: log moments of the privacy loss at the integers 1 to 32, and nothing cut.

alpha(lam) is the larger of the two directions' log E_P[e^{lam L}] for each step; it adds up over steps, and
    delta = min over lam of exp(alpha(lam) - lam epsilon).
An upper bound, kept as the paper has it for comparison: with alpha(lam) = lam * RDP(lam + 1) it is RDP on 32 fixed
orders with the conversion of 2017.
Source: Abadi et al. 2016, arXiv:1607.00133, Thm 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from dpbudget.accounting.pairs import Pair, SampledGaussianRemove
from dpbudget.accounting.rdp import rdp_curve
from dpbudget.errors import InputError, NotCertified

Array = NDArray[np.float64]
Parts = Sequence[tuple[Pair, int]]

ORDERS = np.arange(1.0, 33.0)
MARGIN = 1e-13  # relative, added to every log moment: round-off of the sums


@dataclass(frozen=True, slots=True)
class MomentBound:
    """epsilon and delta from the integer moment `order`; an upper bound on either when the other is given."""

    epsilon: float
    delta: float
    order: int
    log_delta: float


def log_moments(pair: Pair) -> Array:
    """log E_P[e^{lam L}] for lam = 1, ..., 32; shape (32,). math.inf where the pair has infinite mass."""
    if isinstance(pair, SampledGaussianRemove):
        return np.array([_binomial(pair.sigma, pair.rate, int(lam) + 1) for lam in ORDERS])
    return ORDERS * rdp_curve(pair, ORDERS + 1.0)


def _binomial(sigma: float, rate: float, order: int) -> float:
    """log E_N0[(1 - q + q r)^order] by the binomial theorem; every term is positive.

    The terms k = 0, 1 and the total weight 1 of the binomial law are taken together, log(1 + sum w_k (e^x_k - 1)), so
    that nothing cancels at small rates. Source: Mironov, Talwar, Zhang 2019, arXiv:1908.10530, Sec. 3.3.
    """
    exponent = (np.arange(order + 1.0) ** 2 - np.arange(order + 1.0)) / (2.0 * sigma**2)
    if rate == 1.0:
        return float(exponent[-1])
    k = np.arange(2.0, order + 1.0)
    log_weight = gammaln(order + 1.0) - gammaln(k + 1.0) - gammaln(order - k + 1.0)
    log_weight = log_weight + (order - k) * math.log1p(-rate) + k * math.log(rate)
    gain = exponent[2:]
    terms = log_weight + np.where(gain > 30.0, gain, np.log(np.expm1(np.minimum(gain, 31.0))))
    if np.max(terms) > 0.0:
        return float(np.logaddexp(0.0, logsumexp(terms)))
    return math.log1p(float(np.sum(np.exp(terms))))


def total(parts: Parts, reverse: Parts | None = None) -> Array:
    """alpha(1), ..., alpha(32) of the composition; shape (32,).

    parts: (pair, count).  reverse: the same releases in the other direction, in the same order; for each part the larger
    log moment counts, as in the paper.
    """
    if reverse is not None and [n for _, n in parts] != [n for _, n in reverse]:
        raise InputError("parts", "the two directions do not list the same releases")
    alpha = np.zeros(ORDERS.size)
    for i, (pair, count) in enumerate(parts):
        if not count >= 0:
            raise InputError("steps", f"{count} is not a number of steps >= 0")
        if count > 0:
            step = log_moments(pair)
            alpha = alpha + count * (step if reverse is None else np.maximum(step, log_moments(reverse[i][0])))
    if np.any(np.isnan(alpha)):
        raise NotCertified("a log moment is not a number")
    return alpha * (1.0 + MARGIN)


def epsilon(parts: Parts, delta: float, *, reverse: Parts | None = None) -> MomentBound:
    """min over lam of (alpha(lam) + log(1/delta)) / lam. Errs upwards only; math.inf where no moment is finite."""
    if not 0.0 < delta <= 1.0:
        raise InputError("delta", f"{delta} is not in (0, 1]")
    if all(count == 0 for _, count in parts):
        return MomentBound(0.0, delta, 1, math.log(delta))
    bound = (total(parts, reverse) - math.log(delta)) / ORDERS
    best = int(np.argmin(bound))
    return MomentBound(max(0.0, float(bound[best]) * (1.0 + MARGIN)), delta, best + 1, math.log(delta))


def delta(parts: Parts, epsilon: float, *, reverse: Parts | None = None) -> MomentBound:
    """min over lam of exp(alpha(lam) - lam epsilon), at most 1. Errs upwards only."""
    if not epsilon >= 0.0:
        raise InputError("epsilon", f"{epsilon} is not a number >= 0")
    if all(count == 0 for _, count in parts):
        return MomentBound(epsilon, 0.0, 1, -math.inf)
    alpha = total(parts, reverse)
    with np.errstate(invalid="ignore"):
        log_delta = alpha * (1.0 + MARGIN) - ORDERS * epsilon * (1.0 - MARGIN)
    log_delta = np.where(np.isfinite(alpha), log_delta, 0.0)
    best = int(np.argmin(log_delta))
    value = min(0.0, float(log_delta[best]))
    return MomentBound(epsilon, math.exp(value), best + 1, value)
