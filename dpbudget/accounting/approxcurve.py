"""What (epsilon, delta) alone says of an attacker, to be put beside what the run's own trade-off curve says.

The curve of (epsilon, delta)-DP is f(alpha) = max {0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha)} (Dong, Roth, Su
2022, arXiv:1905.02383, Prop. 2.5, after Wasserman, Zhou 2010): the worst mechanism that has this one guarantee.
"""

from __future__ import annotations

import math

from dpbudget.accounting.tradeoff import MOST, check_probability
from dpbudget.errors import InputError


def approx_advantage(epsilon: float, delta: float) -> float:
    """The largest advantage that (epsilon, delta)-DP leaves: (e^eps - 1 + 2 delta) / (e^eps + 1)."""
    _check_dp(epsilon, delta)
    return min(1.0, (-math.expm1(-epsilon) + 2 * delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon)))


def approx_fnr(epsilon: float, delta: float, fpr: float) -> float:
    """f of (epsilon, delta)-DP: max {0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha)}."""
    _check_dp(epsilon, delta)
    check_probability("fpr", fpr)
    steep = 1.0 - delta - math.exp(min(epsilon, MOST)) * fpr
    return max(0.0, steep, math.exp(-epsilon) * (1.0 - delta - fpr))


def approx_tpr(epsilon: float, delta: float, fpr: float) -> float:
    """The largest TPR, or reconstruction success at baseline `fpr`, that (epsilon, delta)-DP leaves."""
    return 1.0 - approx_fnr(epsilon, delta, fpr)


def approx_bayes_error(epsilon: float, delta: float, prior: float) -> float:
    """The least Bayes error that (epsilon, delta)-DP leaves: the least over the corners of its curve."""
    check_probability("prior", prior)
    _check_dp(epsilon, delta)
    corner = (1.0 - delta) * math.exp(-epsilon) / (1.0 + math.exp(-epsilon))
    return min(prior * (1.0 - delta), (1.0 - prior) * (1.0 - delta), corner)


def approx_loss_bound(epsilon: float, delta: float, failure: float) -> float:
    """The loss that (epsilon, delta)-DP lets be exceeded with probability `failure` at most; inf if failure <= delta.

    delta >= E (1 - e^{eps - L})_+ >= P(L > eps') (1 - e^{eps - eps'}), solved for eps'.
    """
    _check_dp(epsilon, delta)
    return math.inf if not failure > delta else epsilon - math.log1p(-delta / failure)


def posterior(prior: float, loss: float) -> float:
    """The belief that prior odds times e^loss give: pi e^L / (1 - pi + pi e^L)."""
    check_probability("prior", prior)
    if prior in (0.0, 1.0):
        return prior
    odds = math.log(prior) - math.log1p(-prior) + loss
    return 1.0 / (1.0 + math.exp(-odds)) if odds > -MOST else math.exp(odds)


def _check_dp(epsilon: float, delta: float) -> None:
    if not (epsilon >= 0.0):
        raise InputError("epsilon", f"{epsilon} is not >= 0")
    check_probability("delta", delta)
