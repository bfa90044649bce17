"""delta(epsilon) of one use of one pair, by direct quadrature above the point where the loss passes epsilon."""

from __future__ import annotations

import math

import numpy as np

from dpbudget.accounting.cumulant import on_panels, panel_edges
from dpbudget.accounting.pairs import Pair
from dpbudget.errors import NotCertified


def single_log_delta(pair: Pair, epsilon: float) -> tuple[float, float]:
    """log delta(epsilon) and its derivative in epsilon; (-inf, 0) where delta is 0.

    delta = int (1 - e^{eps - L})_+ dP: every term is positive, so that the relative accuracy is that of the densities,
    at any delta. The derivative of delta is delta - P(L > eps).
    """
    gain, above = pair.infinite_mass, pair.infinite_mass
    for loss, mass in pair.atoms:
        if loss > epsilon:
            gain, above = gain + mass * -math.expm1(epsilon - loss), above + mass
    low, high = pair.support(-60.0)
    if low < high:
        start = float(pair.inverse_loss(np.array([epsilon]))[0])
        start = max(start, pair.support(-745.0)[0])
        if start < math.inf:
            high = pair.support(max(pair.log_upper_tail(start), -690.0) - 50.0)[1]
        if start < high:
            edges = panel_edges(pair, start, high, 2.0)
            nodes = on_panels(pair, edges[:-1], edges[1:], atoms=False)
            gain += float(nodes.weight @ -np.expm1(np.minimum(epsilon - nodes.loss, 0.0)))
            above += float(np.sum(nodes.weight))
    if not gain > 0.0:
        return -math.inf, 0.0
    return math.log(gain), (gain - above) / gain


def single_epsilon(pair: Pair, target: float) -> float:
    """epsilon of one use: bisection and Newton on log delta, which falls and flattens towards 0."""
    low, high = 0.0, math.inf
    if single_log_delta(pair, 0.0)[0] <= target:
        return 0.0
    guess = 1.0
    for _ in range(300):
        value, slope = single_log_delta(pair, guess)
        low, high = (guess, high) if value > target else (low, guess)
        step = (target - value) / slope if slope < 0.0 else math.nan
        if abs(step) <= 1e-13 * guess or (high < math.inf and high - low <= 1e-15 * high):
            return guess
        guess += step
        if not low < guess < high:
            guess = 2.0 * low if high == math.inf else (low + high) / 2.0 if low > 0.0 else high / 16.0
        if not guess < 1e300:
            return math.inf
    raise NotCertified("epsilon of a single use was not found")
