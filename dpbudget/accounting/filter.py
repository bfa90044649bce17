"""Releases that may depend on earlier outputs: a Renyi privacy filter at a few orders that are fixed beforehand.

Theorem (proven in docs/math.md, 12; first by Feldman, Zrnic 2021, arXiv:2008.11193, and Lecuyer 2021, arXiv:2103.01379):
let mechanisms be chosen one after the other, each as any function of the earlier outputs, and let rho_i be a bound on the
i-th one's Renyi divergence of order alpha given those outputs. If sum rho_i <= B almost surely, the whole is
(alpha, B)-RDP. The order and B must not depend on outputs: here both follow from the budget alone.

Several orders share delta. Let order k have the part w_k of delta, sum w_k = 1, and the cap B_k that turns into
(epsilon, w_k delta)-DP, and go on while at least one order is below its cap. Let M be the whole and M_k the same run,
stopped before order k would pass its cap. M_k is (epsilon, w_k delta)-DP by the theorem. Every transcript y of M is below
the cap of some order; let k(y) be the first. Given k(y) = k, M and M_k do the same, so that for every event S

    P(M in S) = sum_k P(M_k in S, k(y) = k) <= sum_k (e^epsilon Q(M_k in S, k(y) = k) + w_k delta) = e^epsilon Q(M in S) + delta.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dpbudget.accounting import rdp
from dpbudget.accounting.account import Ledger, Parallel
from dpbudget.errors import InputError
from dpbudget.model import ZCDP, ApproxDP, Guarantee, Interval, Kind, Tuned


def conversion(order: float, delta: float) -> float:
    """What turns (order, rho)-RDP into (rho + conversion, delta)-DP.

    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Prop. 12.
    """
    return math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def order(epsilon: float, delta: float) -> float:
    """The order at which the budget affords the largest rho / order, that is the most Gaussian noise. Public.

    A fixed grid of 2,000 orders, geometric in order - 1 from 1e-3 to 1e6; any order is sound, this one is about best for
    releases that are close to Gaussian.
    """
    orders = 1 + np.geomspace(1e-3, 1e6, 2000)
    afford = np.array([(epsilon - conversion(float(a), delta)) / float(a) for a in orders])
    return float(orders[int(np.argmax(afford))])


SCALES: Mapping[float, float] = {1.0: 1 / 2, 1 / 8: 1 / 8, 1 / 4: 1 / 8, 1 / 2: 1 / 8, 2.0: 1 / 8}
"""Orders of the filter: (order - 1) over that of `order`, and its part of delta. Sampled steps need smaller orders."""


CURVE = 1 + 1e-11
"""Covers the relative error of a Renyi curve by quadrature."""


def _together(spent: float, turned: float) -> float:
    """spent + turned, at least 0, rounded up where the two nearly cancel."""
    return max(0.0, spent + turned + 4e-15 * (spent + abs(turned)))


def check(ledger: Ledger) -> None:
    """Raises InputError where a release has no Renyi guarantee that the filter could add up."""
    for mechanism, _ in ledger.counts:
        if isinstance(mechanism, Tuned) or (isinstance(mechanism, ApproxDP) and mechanism.delta > 0):
            name = "a search" if isinstance(mechanism, Tuned) else "an approx-dp release"
            raise InputError(
                "adaptive",
                f"{name} has no Renyi guarantee here, and the filter for adaptive budgets needs one",
                hint="Describe the release by its mechanism, or drop adaptive = true.",
            )


def _spent(ledger: Ledger, alpha: float) -> float:
    """The sum of the releases' Renyi divergences at alpha, in the worse direction."""
    if ledger.unbounded:
        return math.inf
    rho = sum(count * mechanism.rho for mechanism, count in ledger.counts if isinstance(mechanism, ZCDP))
    rest = Ledger(tuple(item for item in ledger.counts if not isinstance(item[0], ZCDP)), ledger.adjacency)
    check(rest)
    if not rest.counts:
        return rho * alpha
    totals = [float(rdp.rdp_total(parts, np.array([alpha]))[0]) for parts in rest.directions.values()]
    return rho * alpha + max(totals)


def epsilon(what: Ledger | Parallel, budget: float, delta: float) -> Guarantee:
    """Epsilon at delta of adaptively chosen releases, by the filter that belongs to (budget, delta). Errs upwards only.

    Valid as a statement about the past only while it stays at or below `budget`: that is the filter's stopping rule.
    """
    ledgers = what.ledgers if isinstance(what, Parallel) else (what,)
    middle = order(budget, delta)
    best, value = middle, math.inf
    for scale, weight in SCALES.items():
        alpha = 1 + (middle - 1) * scale
        spent = max((_spent(ledger, alpha) for ledger in ledgers), default=0.0)
        bound = 0.0 if spent == 0 else _together(spent * CURVE, conversion(alpha, weight * delta))
        if bound < value:
            best, value = alpha, bound
    detail = {"order": best, "reason": "Renyi filter at orders fixed by the budget"}
    return Guarantee("rdp-filter", Kind.UPPER_BOUND, Interval(None, value), detail)
