"""Releases of which only rho-zCDP is known, beside releases with a dominating pair.

No single pair dominates every rho-zCDP mechanism closely, so that the total is an interval for the worst of them: its
upper end is a sum of Renyi divergences, its lower end from one mechanism that has the guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpbudget.accounting import zcdp
from dpbudget.errors import ContradictionError
from dpbudget.model import Interval

Array = NDArray[np.float64]
ORDERS: Array = 1 + np.geomspace(0.2, 300, 60)
ROUND = 1e-12


def _by_renyi(rho: float, delta: float, curve: Array) -> float:
    """Renyi divergences add up, whatever the mechanisms; any order proves a bound.

    curve: what the other releases have at ORDERS. Source of the conversion: Canonne, Kamath, Steinke 2020,
    arXiv:2004.00010, Prop. 12. Errs upwards by the distance of ORDERS from the best order.
    """
    if not delta > 0:
        return math.inf
    constant = np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
    with np.errstate(invalid="ignore"):
        bounds = rho * ORDERS + curve + constant
    finite = bounds[np.isfinite(bounds)]
    return max(0.0, float(finite.min())) * (1 + ROUND) if finite.size else math.inf


def epsilon(
    rho: float,
    delta: float,
    *,
    curve: Array | None,
    failure: float,
    gaussian: Callable[[float], float | None],
) -> Interval:
    """Epsilon at delta of rho-zCDP composed with other releases.

    curve: the others' Renyi divergence at ORDERS, in the worse direction and apart from an event of probability at most
    `failure`, in which they reveal everything; None where there are no others. gaussian(sigma): a proven lower end for the
    others with a Gaussian release, which is rho-zCDP at sigma = 1 / sqrt(2 rho) (Bun, Steinke 2016, arXiv:1605.02658,
    Prop. 1.6): no bound that holds for all such mechanisms is below it.
    """
    upper = zcdp.epsilon(rho, delta) if curve is None else _by_renyi(rho, (delta - failure) * (1 - ROUND), curve)
    lower = gaussian((1 + ROUND) / math.sqrt(2 * rho))
    if lower is not None and not lower <= upper:
        raise ContradictionError(f"a zCDP bound contradicts the Gaussian that it covers: {lower!r} > {upper!r}")
    return Interval(lower, upper)
