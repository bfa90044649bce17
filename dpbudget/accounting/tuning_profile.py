"""The cost of releasing the best of K runs, from the whole privacy profile of one run.

Setting. K >= 0 runs, K independent of data and runs; the best score wins, ties broken without looking at the data.
With z = (score, tie-breaker) and F(z), F'(z) the chances of {z' < z} under Q (data D) and Q' (data D'), the winner has
density phi'(F) with respect to Q. F <= g(F') where g(x) = sup {Q(S): Q'(S) <= x} is the upper edge of the testing
region of (Q, Q'): this is all that the bounds use. The direction of g is the direction of the claim, A(D) against A(D').
Statements and proofs: docs/math.md, "The cost of tuning". Every bound errs upwards only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbudget.accounting.pairs import Array
from dpbudget.accounting.tuning_base import REVERSE, ROUND, BaseRun, least_passing, profile
from dpbudget.accounting.tuning_laws import Binomial, Poisson, RandomLaw, TruncatedNegativeBinomial
from dpbudget.errors import InputError, NotCertified

CELLS = 1500
KNOTS = 500
LINES = 200
LARGEST = 300.0
"""Largest c = log phi'(F) / phi'(F') for which psi is built: beyond it no bound is worth having."""
TINY = -640.0
TAIL = 1e-8
"""Quantiles whose weight differs by less than this are not told apart: looseness, never an error."""


def _at(base: BaseRun, direction: str, epsilon: float) -> float:
    return float(profile(base, direction, np.array([epsilon]))[0])


def ratio_exponent(base: BaseRun, law: RandomLaw, direction: str) -> float:
    """c = sup over the testing region of log phi'(F) / phi'(F'), rounded up, for A(D) against A(D').

    Negative binomial: (eta + 1) e*, e* the root of e^e - 1 = (1 - gamma) / gamma * delta_{Q'|Q}(e), the reversed
    direction. Binomial: (n - 1) e*, e^e - 1 = p / (1 - p) * delta_{Q|Q'}(e). Poisson: E[K] delta(0).
    With the other direction the bound is false for an asymmetric base. An upper bound of delta gives one of c.
    """
    match law:
        case Poisson(expected):
            distance = min(_at(base, direction, 0.0), _at(base, REVERSE[direction], 0.0))
            return expected * distance * (1 + 2 * ROUND)
        case TruncatedNegativeBinomial() | Binomial():
            used = REVERSE[direction] if isinstance(law, TruncatedNegativeBinomial) else direction
            if law.power == 0.0 or law.weight == 0.0:
                return 0.0
            weight = law.weight * (1 + 4 * ROUND)
            # weight * delta / (e^e - 1) decreases; at e = log(1 + weight) it is at most 1
            root = least_passing(
                lambda e: weight * _at(base, used, e) / max(math.expm1(e) * (1 - 4 * ROUND), 1e-320),
                1.0,
                0.0,
                math.log1p(weight) * (1 + 1e-12) + 1e-300,
            )
            return law.power * root * (1 + 4 * ROUND)
    raise InputError("law", f"no bound is known for {law!r}")


def ratio_exponent_from_point(base: BaseRun, law: RandomLaw, direction: str) -> float:
    """The same c from one (e, delta) of the base in place of the whole region: larger, never smaller.

    (eta + 1) log(e^e + delta (1 - gamma) / gamma), (n - 1) log(1 + p (e^e - 1) + delta p / (1 - p)), E[K] (e^e - 1 +
    delta), at the best e >= 0. (For the binomial law p delta without the 1 / (1 - p) is false: take F' = 0.)
    Source: Koskela, Redberg, Wang 2024, arXiv:2402.06701, with the direction as in `ratio_exponent`.
    """
    if isinstance(law, Poisson):  # the best e is 0
        return ratio_exponent(base, law, direction)
    used = REVERSE[direction] if isinstance(law, TruncatedNegativeBinomial) else direction

    def exponent(e: Array) -> Array:
        delta = profile(base, used, e)
        with np.errstate(over="ignore"):
            if isinstance(law, Binomial):
                return law.power * np.log1p(law.chance * np.expm1(e) + law.weight * delta)
            weight = law.weight if isinstance(law, TruncatedNegativeBinomial) else math.inf
            return law.power * (e + np.log1p(weight * delta * np.exp(-e)))

    grid = np.linspace(0.0, _reach(base, used, TAIL / max(law.steepest, 1.0)), 65)
    for _ in range(4):
        values = exponent(grid)
        best = int(np.argmin(values))
        grid = np.linspace(grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)], 17)
    return float(np.min(exponent(grid))) * (1 + 16 * ROUND)


def shifted_delta(base: BaseRun, law: RandomLaw, direction: str, c: float, epsilon: float) -> float:
    """delta_{A|A'}(epsilon) <= E[K] delta_{Q|Q'}(epsilon - c) for epsilon >= 0, where phi'(F) <= e^c phi'(F').

    The symbol for K = 0 adds Pr[K = 0] (1 - e^epsilon)_+, which is 0 for epsilon >= 0.
    """
    if c == math.inf:
        return 1.0
    return min(1.0, law.mean * (1 + 1e-12) * _at(base, direction, epsilon - c))


@dataclass(frozen=True)
class Edge:
    """The upper edge g of the testing region as the least of many lines, each above g.

    A line is e^eps x + delta_{Q|Q'}(eps), eps any real. In w = 1 - x, and 1 - g as the quantity bounded from below:
    ahead (eps >= 0): (1 - delta) - e^eps x;  behind (eps < 0): e^eps (w - delta_{Q'|Q}(-eps)). No digit is lost in
    either form where it rules. Shapes: slopes (m,) and offsets (m,); the first `split` lines are ahead.
    """

    slope: Array
    offset: Array
    split: int

    @classmethod
    def of(cls, base: BaseRun, direction: str, resolution: float) -> Edge:
        """Lines at losses up to where delta falls below `resolution`."""
        ahead = _losses(base, direction, resolution)
        behind = _losses(base, REVERSE[direction], resolution)
        up, down = profile(base, direction, ahead), profile(base, REVERSE[direction], behind)
        with np.errstate(over="ignore"):
            slope = np.concatenate([np.exp(ahead) * (1 + 2 * ROUND), np.exp(-behind)])
        return cls(slope, np.concatenate([1.0 - up * (1 + 2 * ROUND), down]), ahead.size)

    def lines(self, x: Array, w: Array, which: Array | slice = slice(None)) -> Array:
        """Values of 1 - line at points x = 1 - w of shape (n,): shape (m, n), or (n,) for the line `which` (n,)."""
        if isinstance(which, slice):
            slope, offset = self.slope[:, None], self.offset[:, None]
            ahead = (np.arange(self.slope.size) < self.split)[:, None]
        else:
            slope, offset, ahead = self.slope[which], self.offset[which], which < self.split
        with np.errstate(over="ignore", invalid="ignore"):
            falls = offset - slope * x - 4 * ROUND
            near = w - offset * (1 + 4 * ROUND) - np.where(w > 0.5, 4 * ROUND, 0.0)  # w > 1/2 was rounded from x
            rises = slope * near * (1 - np.copysign(4 * ROUND, near))
        return np.where(ahead, falls, rises)

    def where(self, level: Array) -> tuple[Array, Array]:
        """About the points (x, w) at which 1 - g takes the values `level`; used to place a grid, proves nothing."""
        k = self.split
        x = np.max(np.maximum(self.offset[:k, None] - level, 0.0) / self.slope[:k, None], axis=0)
        w = np.min(level / self.slope[k:, None] + self.offset[k:, None], axis=0)
        w = np.minimum(w, 1.0 - x)
        return np.where(w > 0.5, np.maximum(x, 1.0 - w), 1.0 - w), w


def _losses(base: BaseRun, direction: str, resolution: float) -> Array:
    """Losses >= 0 on a linear and on a geometric scale, up to where delta is below `resolution` or stops falling."""
    high = _reach(base, direction, resolution)
    return np.unique(np.concatenate([np.linspace(0.0, high, LINES), high * np.geomspace(1e-4, 1.0, LINES)]))


def _reach(base: BaseRun, direction: str, resolution: float) -> float:
    """About the epsilon at which delta falls to `resolution` or stops falling, at most 700; it places grids only."""
    high, before = 1e-6, 1.0
    while high < 700.0:
        here = _at(base, direction, high)
        if here <= resolution or (high > 8.0 and here >= 0.999 * before):
            break
        high, before = 4.0 * high, here
    high, low = min(high, 700.0), high / 4.0
    for _ in range(5):
        middle = (low + high) / 2
        if _at(base, direction, middle) <= resolution:
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True)
class Selection:
    """delta_{A|A'}(eps) <= sum_k weight_k delta_{Q|Q'}(eps - shift_k) for eps >= 0, in one direction.

    It is E_Q[psi(e^eps dQ'/dQ)] with psi(t) = sup_x (phi'(g(x)) - t phi'(x))_+ bounded from above by a convex
    piecewise linear function sum_k s_k (t_k - t)_+: weight = s t, shift = log t. Shapes (k,).
    """

    base: BaseRun
    direction: str
    weight: Array
    shift: Array

    def delta(self, epsilon: float) -> float:
        """The bound at epsilon >= 0; K = 0 adds nothing there."""
        values = profile(self.base, self.direction, epsilon - self.shift)
        return min(1.0, float(self.weight @ values))


def selection(base: BaseRun, law: RandomLaw, direction: str) -> Selection | None:
    """The bound of the whole testing region for one direction; None where the weight of the best run is constant.

    Cells of x in which both phi'(x) and phi'(g(x)) change by little. In a cell one line lies above g; phi' of a line is
    convex and lies below its chord, phi' itself lies above its tangent at the middle: a difference linear in x, largest
    at an end. So psi(t) <= max over cells and ends of (b - t a), with errors of second order in the cell.
    """
    depth = law.depth
    if not depth > 0.0:
        return None
    steep = law.steepest if isinstance(law, Binomial) else law.power  # how much phi' makes of round-off in 1 - x
    slack = 1e-13 + 16 * ROUND * (depth + steep + 1.0)
    edge = Edge.of(base, direction, TAIL / max(law.steepest, 1.0))
    log_b, log_a = _cell_ends(edge, law, *_grid(edge, law))
    log_b, log_a = log_b + slack, log_a - slack
    top = float(np.max(log_b - log_a))
    if not 0.0 < top < LARGEST:
        return None
    lift = np.maximum(TINY - log_b, 0.0)  # (b - t a)_+ grows with a common factor >= 1; nothing underflows to 0
    with np.errstate(under="ignore"):
        b, a = np.exp(log_b + lift), np.exp(log_a + lift)
    log_knots = np.linspace(-3 * top - 1.0, -3 * top, 40)[:-1], np.linspace(-3 * top, top, KNOTS)
    knots = np.exp(np.concatenate([[-np.inf], *log_knots]))
    psi = np.concatenate([_envelope(b, a, knots[:-1]), [0.0]])
    slopes = np.append(np.diff(psi) / np.diff(knots), 0.0)
    weight = np.maximum(np.diff(slopes), 0.0) * knots[1:] * law.mean * (1.0 + 1e-10)
    if not np.all(np.isfinite(weight)):
        raise NotCertified("the bound on the best of several runs could not be evaluated")
    used = weight > 0.0
    return Selection(base, direction, weight[used], np.log(knots[1:][used]) + 4 * ROUND * top)


def _grid(edge: Edge, law: RandomLaw) -> tuple[Array, Array]:
    """(x, w) of the cell boundaries, x increasing from 0 to 1: equal steps of log phi'(x) and of log phi'(g(x))."""
    level = law.inverse_drop(np.linspace(0.0, law.depth, CELLS))
    level[-1] = 1.0
    x, w = edge.where(level)
    x, w = np.concatenate([1.0 - level, x, [0.0, 1.0]]), np.concatenate([level, w, [1.0, 0.0]])
    x, w = np.clip(x, 0.0, 1.0), np.clip(w, 0.0, 1.0)
    order = np.lexsort((-w, x))
    return x[order], w[order]


def _cell_ends(edge: Edge, law: RandomLaw, x: Array, w: Array) -> tuple[Array, Array]:
    """log b and log a at both ends of every cell, shape (2 cells,) each: psi(t) / E[K] <= max (b - t a)_+."""
    length = np.where(x[1:] < 0.5, np.diff(x), -np.diff(w))
    keep = length > 0.0
    left_x, left_w, length = x[:-1][keep], w[:-1][keep], length[keep]
    right_x, right_w = x[1:][keep], w[1:][keep]
    middle_x, middle_w = left_x + length / 2, right_w + length / 2
    which = np.argmax(edge.lines(middle_x, middle_w), axis=0)
    above_left = edge.lines(left_x, left_w, which)
    above_right = edge.lines(right_x, right_w, which)
    plain = ~((above_right >= 0.0) & (above_left >= above_right))  # there g <= 1 is used
    above_left, above_right = np.where(plain, 0.0, above_left), np.where(plain, 0.0, above_right)
    log_b = -law.drop(np.minimum(np.concatenate([above_left, above_right]), 1.0))
    tilt = law.rate(middle_w) * length / 2 * (1 + 1e-12)
    touch = -law.drop(middle_w)
    straight = tilt < 0.5  # else phi' is taken at its least, at the left end
    tilt = np.where(straight, tilt, 0.0)
    least = -law.drop(left_w)
    log_a = np.concatenate([touch + np.log1p(-tilt), touch + np.log1p(tilt * (1 - 4e-12))])
    return log_b, np.where(np.concatenate([straight, straight]), log_a, np.concatenate([least, least]))


def _envelope(b: Array, a: Array, t: Array) -> Array:
    """max_i (b_i - t a_i)_+ for every t; shape of t."""
    return np.array([max(float(np.max(b - s * a)), 0.0) for s in t])
