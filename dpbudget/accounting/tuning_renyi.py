"""The published Renyi bounds on releasing the best of K runs, with the direction of every term explicit.

For any set of orders the moment of the winner (the symbol for K = 0 apart) is at most

    sum A^lam A'^{1 - lam} <= e^{(lam - 1) R(lam)},      R(lam) = D_lam(Q || Q') + c(lam) + log E[K] / (lam - 1),

with c from D(Q' || Q) for the truncated negative binomial law (Papernot, Steinke 2022, arXiv:2110.03620, Thm 2) and
from the exact profile of Q' against Q for the Poisson law (ibid., Thm 6). delta follows by Canonne, Kamath, Steinke
2020, arXiv:2004.00010, Prop. 12. For epsilon >= 0 the symbol for K = 0 adds nothing to delta, which makes R right to use
also where log E[K] < 0; it is a Renyi bound of the release only after the term Pr[K = 0] has been added to the moment.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpbudget.accounting.pairs import Array
from dpbudget.accounting.tuning_base import REVERSE, ROUND, BaseRun, profile
from dpbudget.accounting.tuning_laws import Poisson, RandomLaw, TruncatedNegativeBinomial
from dpbudget.errors import NotCertified

Curve = Callable[[Array], Array]
FIRST = np.geomspace(0.1, 100.0, 16)  # orders less 1; extended while the best is at an end
FACTOR = FIRST[1] / FIRST[0]
ROUNDS = 3


def winner_curve(base: BaseRun, law: RandomLaw, direction: str) -> Curve | None:
    """R as a function of lam - 1, for A(D) against A(D'); None for laws without a published theorem."""
    log_mean = math.log(law.mean)

    def divergence(x: Array) -> Array:
        return _checked(base.rdp(direction, 1.0 + x)) * (1 + 1e-11)

    match law:
        case TruncatedNegativeBinomial():
            c = law.power * _reverse_cost(base, REVERSE[direction], law.log_inverse)
            return lambda x: divergence(x) + c + log_mean / x
        case Poisson(expected):

            def curve(x: Array) -> Array:
                hat = np.log1p(1.0 / x) * (1 - 2 * ROUND)
                return divergence(x) + expected * profile(base, REVERSE[direction], hat) + log_mean / x

            return curve
    return None


def _reverse_cost(base: BaseRun, direction: str, log_inverse: float) -> float:
    """min over lam^ >= 1 of (1 - 1/lam^) D_{lam^}(Q' || Q) + log(1 / gamma) / lam^; at lam^ = 1 it is log(1 / gamma)."""

    def cost(x: Array) -> Array:
        return (x * _checked(base.rdp(direction, 1.0 + x)) * (1 + 1e-11) + log_inverse) / (1.0 + x)

    return min(log_inverse, _least(cost)[0]) * (1 + 8 * ROUND)


def epsilon(curve: Curve, delta: float) -> tuple[float, float]:
    """(epsilon >= 0, order) at delta in (0, 1], at the best order. Errs upwards only."""
    log_delta = math.log(delta)

    def bound(x: Array) -> Array:
        terms = np.log1p(1.0 / x), (log_delta + np.log1p(x)) / x
        return curve(x) - terms[0] - terms[1] + 8 * ROUND * (terms[0] + np.abs(terms[1]))

    value, x = _least(bound)
    return max(0.0, value), 1.0 + x


def delta(curve: Curve, epsilon: float) -> tuple[float, float]:
    """(delta <= 1, order) at epsilon >= 0, at the best order. Errs upwards only."""

    def log_bound(x: Array) -> Array:
        shift = x * (curve(x) - epsilon)
        return shift - x * np.log1p(1.0 / x) - np.log1p(x) + 8 * ROUND * (np.abs(shift) + x * epsilon + 2.0)

    value, x = _least(log_bound)
    return math.exp(min(value, 0.0)), 1.0 + x


def _least(function: Curve) -> tuple[float, float]:
    """The least value found and where, on a geometric grid that is refined around its best point. Any point is valid."""

    def at(grid: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            values = function(grid)
        if np.any(np.isnan(values)):
            raise NotCertified("a Renyi bound is not a number")
        return values

    grid = FIRST
    values = at(grid)
    while np.argmin(values) == 0 and grid[0] > 1e-6:
        more = grid[0] / FACTOR ** np.arange(4.0, 0.0, -1.0)
        grid, values = np.concatenate([more, grid]), np.concatenate([at(more), values])
    while np.argmin(values) == grid.size - 1 and grid[-1] < 1e12:
        more = grid[-1] * FACTOR ** np.arange(1.0, 5.0)
        grid, values = np.concatenate([grid, more]), np.concatenate([values, at(more)])
    best, where = math.inf, 1.0
    for step in range(ROUNDS):
        i = int(np.argmin(values))
        if values[i] < best:
            best, where = float(values[i]), float(grid[i])
        if step < ROUNDS - 1:
            grid = np.geomspace(grid[max(i - 1, 0)], grid[min(i + 1, grid.size - 1)], 9)
            values = at(grid)
    return best, where


def _checked(values: Array) -> Array:
    if not np.all(values >= 0.0):
        raise NotCertified("a Renyi divergence of a trial is not a number >= 0")
    return values
