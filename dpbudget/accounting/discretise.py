"""A pair on the lattice of losses h, 2h, 3h, ...: the least measure above it and a tangent measure below it.

Both come from the same positive integrals over the cells [l_i, l_i + h] of the loss, so that the masses keep their
relative accuracy in the tails and the two measures agree wherever they should. In P-units, with d = L - l_i:

    mass_i = int_cell dP,   a_i = int_cell (1 - e^-d) dP = int_cell (r - y_i) dQ,   b_i = int_cell (y_{i+1} - r) dQ,

r = e^L, y_i = e^{l_i}. Formally b_i = (e^h - 1) mass_i - e^h a_i, which keeps no digits: it is an integral of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpbudget.accounting.pair import Array, Pair
from dpbudget.errors import NotCertified

ROUND = 2.0**-53
ROUNDS = 24
GROUP = 2**19
"""Points at a time, so that memory stays bounded."""
PANELS_AT_ONCE = 2**16
"""Bounds the memory of a fine discretisation."""

MOST_PANELS = 2**20
MOST_STEP = 700.0  # nats: e^step is a double
BULK = 2**13
"""Nodes on either side of the median that place the lattice."""

_ORDERS = ((1 / 256, 3), (1 / 32, 4), (1 / 8, 6), (1 / 2, 10), (np.inf, 16))


@dataclass(frozen=True)
class LatticeMeasure:
    """P-masses at the losses offset + step * (first + 0, 1, ...) and at infinity; the Q-mass at l is e^-l times it."""

    first: int
    step: float
    offset: float
    mass: Array
    infinite: float

    @property
    def losses(self) -> Array:
        """The finite losses, shape of mass."""
        return np.asarray(self.offset + self.step * (self.first + np.arange(self.mass.size)), dtype=np.float64)


@dataclass(frozen=True)
class Discretised:
    """Two measures around a pair. loss_error: the computed masses belong to losses that are off by at most this.

    mass_error: relative error of each mass (quadrature and round-off).
    """

    upper: LatticeMeasure
    lower: LatticeMeasure
    loss_error: float
    mass_error: float


@lru_cache(maxsize=8)
def _legendre(order: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(order)
    return np.asarray((x + 1) / 2, dtype=np.float64), np.asarray(w / 2, dtype=np.float64)


def panel_count(pair: Pair, width: float) -> int:
    """How many panels of the pair cover a width, at least 1. Raises NotCertified where they would not fit into memory."""
    if not width <= MOST_PANELS * pair.panel:
        raise NotCertified("so little noise is added that its law is too narrow to be resolved")
    return max(1, int(np.ceil(width / pair.panel)))


def panel_edges(pair: Pair, log_tail: float, floor: float = -np.inf, extra: Array | None = None) -> Array:
    """Edges in x of panels no wider than `pair.panel`, covering all but e^log_tail of P on either side.

    Losses below `floor` are left out as well, whatever their mass.

    Breaks of the pair and the points of `extra` (increasing) inside are edges too. Empty for a purely atomic pair.
    """
    lo, hi = pair.support(log_tail)
    if floor > -np.inf and hi > lo:
        lo = max(lo, min(float(pair.inverse_loss(np.array([floor]))[0]), lo + 0.9 * (hi - lo)))
    if not (hi > lo):
        return np.empty(0)
    count = panel_count(pair, hi - lo)
    points = [np.linspace(lo, hi, count + 1), np.asarray(pair.breaks, dtype=np.float64)]
    if extra is not None:
        points.append(extra)
    edges = np.sort(np.concatenate(points), kind="stable")
    edges = edges[(edges >= lo) & (edges <= hi)]
    return np.asarray(edges[np.append(True, np.diff(edges) > 0)])


def panel_nodes(pair: Pair, edges: Array) -> Iterator[tuple[NDArray[np.intp], Array, Array]]:
    """Panels in groups of one quadrature order: their indices, the nodes and the weights, shape (panels, order) each.

    The error of m Gauss-Legendre points on a width w falls like (w / 4a)^(2m), a the distance in the complex plane
    over which the integrand keeps its size; that 16 points are exact on `pair.panel` gives a >= panel / 2, and each
    order below then leaves less than 1e-16 of the panel's mass.
    """
    width = np.diff(edges)
    ratio, previous = width / pair.panel, 0.0
    for bound, order in _ORDERS:
        which = np.flatnonzero((ratio > previous) & (ratio <= bound))
        previous = bound
        x, w = _legendre(order)
        for start in range(0, which.size, GROUP // order):
            group = which[start : start + GROUP // order]
            yield group, edges[group, None] + width[group, None] * x, width[group, None] * w


def truncated_mass(pair: Pair, edges: Array) -> tuple[float, float]:
    """P-mass below and above the panels, rounded up."""
    if not edges.size:
        return 0.0, 0.0
    below, above = np.exp(pair.log_lower_tail(edges[0])), np.exp(pair.log_upper_tail(edges[-1]))
    return float(below) * (1 + 1e-9), float(above) * (1 + 1e-9)


def discretise(pair: Pair, step: float, log_tail: float, floor: float = -np.inf) -> Discretised:
    """Upper and lower lattice measures of a pair; tails of e^log_tail and losses below `floor` are not resolved.

    The upper one is the connect-the-dots measure as stochastic rounding of the loss (Doroshenko et al. 2022,
    arXiv:2207.04380): it keeps int dP and int dQ of every cell, and dominates; what is not resolved
    moves to the first point above it, or to infinity. The lower one is `tangent_measure`; it leaves that mass out.
    Raises NotCertified where one cell would hold ratios that leave the range of doubles.
    """
    if not step <= MOST_STEP:
        raise NotCertified("so little noise is added that losses are too far apart for any lattice")
    with np.errstate(under="ignore", over="ignore"):
        offset = best_offset(pair, step)
        first, half_mass, half_gain, right, loss_error, log_density = _half_cells(pair, step, offset, log_tail, floor)
        edges = panel_edges(pair, log_tail, floor)
        below, above = truncated_mass(pair, edges)
        mass = half_mass[0::2] + half_mass[1::2]
        gain = half_gain[0::2] + half_gain[1::2]
        left = half_gain[0::2]
        dots = connect_the_dots(mass, gain, step)
        tangents = tangent_measure(dots, mass, gain, left, right, step)
        if edges.size:
            first_loss = float(pair.loss(edges[:1])[0])
            dots[min(max(int(np.floor((first_loss - offset) / step)) + 1 - first, 0), dots.size - 1)] += below
    infinite = pair.infinite_mass
    mass_error = ROUND * (24 + 2 * log_density)
    return Discretised(
        LatticeMeasure(first, step, offset, dots, infinite + above),
        LatticeMeasure(first, step, offset, tangents, infinite),
        loss_error,
        mass_error,
    )


def best_offset(pair: Pair, step: float) -> float:
    """Where in [0, step) the lattice should start: so that one of its points is the ratio P / Q of the bulk of P.

    Just above log(1 - q) most of P may sit in a bulk much narrower than the step; with a point at its mean the two
    tangents beside it meet there, and the bulk costs nothing. A pair of atoms starts at its heaviest atom. Every offset
    is sound.
    """
    centre, losses, masses = _bulk(pair)
    for _ in range(3):
        bulk = np.abs(losses - centre) < step / 2
        if not bulk.any():
            break
        centre -= float(np.log1p(masses[bulk] @ np.expm1(centre - losses[bulk]) / masses[bulk].sum()))
    return float(centre - step * np.floor(centre / step))


@lru_cache(maxsize=64)
def _bulk(pair: Pair) -> tuple[float, Array, Array]:
    """The median loss under P, and losses around it with their masses; for a pair of atoms the heaviest, and no others."""
    edges = panel_edges(pair, -7.0)
    if pair.atoms and (not edges.size or sum(p for _, p in pair.atoms) > 0.5):
        return max(pair.atoms, key=lambda atom: atom[1])[0], np.empty(0), np.empty(0)
    loss, mass = [], []
    for _, x, weight in panel_nodes(pair, edges):
        here, log_p = pair.loss_and_log_p(x)
        loss.append(here.ravel())
        mass.append((weight * np.exp(log_p)).ravel())
    losses, masses = np.concatenate(loss), np.concatenate(mass)
    order = np.argsort(losses)
    middle = int(np.searchsorted(np.cumsum(masses[order]), masses.sum() / 2))
    near = order[max(0, middle - BULK) : middle + BULK]
    return float(losses[order[middle]]), losses[near], masses[near]


def _half_cells(
    pair: Pair, step: float, offset: float, log_tail: float, floor: float
) -> tuple[int, Array, Array, Array, float, float]:
    """First cell; P-mass and gain int (1 - e^-d) dP of each half cell; b of each upper half, by itself: the difference
    of the other two would keep no digits; error of the losses; largest |log density|.
    """
    outer = panel_edges(pair, log_tail, floor)
    ends = [loss for loss, _ in pair.atoms]
    if outer.size:
        ends += [float(v) for v in pair.loss(outer[[0, -1]])]
    first = int(np.floor((min(ends) - offset) / step))
    last = int(np.floor((max(ends) - offset) / step)) + 1
    halves = 2 * (last - first)
    mass, gain, right = np.zeros(halves), np.zeros(halves), np.zeros(last - first)
    excess, log_density = 0.0, 0.0
    if outer.size:
        cuts = pair.inverse_loss(np.asarray(offset + step / 2 * np.arange(2 * first + 1, 2 * last), dtype=np.float64))
        edges = panel_edges(pair, log_tail, floor, cuts)
        home = np.searchsorted(cuts, (edges[1:] + edges[:-1]) / 2)
        for which, x, weight in panel_nodes(pair, edges):
            loss, log_p = pair.loss_and_log_p(x)
            here = home[which]
            d = loss - (offset + step * (first + here // 2))[:, None]
            excess = max(excess, -float(d.min()), float(d.max()) - step)
            log_density = max(log_density, -float(log_p.min()))
            p = weight * np.exp(log_p)
            d = np.clip(d, 0.0, step)
            mass += np.bincount(here, p.sum(axis=1), halves)
            gain += np.bincount(here, (p * -np.expm1(-d)).sum(axis=1), halves)
            above = here % 2 == 1
            right += np.bincount(here[above] // 2, (p[above] * np.expm1(step - d[above])).sum(axis=1), last - first)
    for atom, share in pair.atoms:
        cell = min(int(np.floor((atom - offset) / step)), last - 1)
        gap = atom - offset - step * cell
        excess = max(excess, -gap, gap - step)
        half = 2 * (cell - first) + int(gap > step / 2)
        gap = min(max(gap, 0.0), step)
        mass[half] += share
        gain[half] -= share * float(np.expm1(-gap))
        right[half // 2] += share * float(np.expm1(step - gap)) if half % 2 else 0.0
    loss_error = max(excess, 0.0) + 16 * ROUND * max(map(abs, ends))
    return first, mass, gain, right, loss_error, log_density


def connect_the_dots(mass: Array, gain: Array, step: float) -> Array:
    """Masses on the n + 1 edges of n cells: a loss l_i + d goes up with probability (1 - e^-d) / (1 - e^-h)."""
    up = np.minimum(gain / -np.expm1(-step), mass)
    out = np.zeros(mass.size + 1)
    out[:-1] += mass - up
    out[1:] += up
    return out


def tangent_measure(dots: Array, mass: Array, gain: Array, left: Array, right: Array, step: float) -> Array:
    """Masses on the lattice whose hockey-stick function G lies below g, that of the pair, on all of y >= 0.

    In cell i take the tangent of g at the middle loss: g_i exceeds it at y_i by A_i = left_i (int over r <= t of
    (r - y_i) dQ), g_{i+1} at y_{i+1} by B_i = right_i. With c_i = max(A_i, B_{i-1}), G_i = g_i - c_i every chord
    of G lies below a tangent, provided that B_i <= g_{i+1} in each cell (otherwise t = y_{i+1}: A_i = gain_i,
    B_i = 0, always so in the last one). Replacing G by a smaller convex function with kinks on the lattice keeps all
    this, and so does dropping mass. Products of such measures lie below products of pairs, whatever their total
    masses: replace one factor at a time, H_{P1xP2|Q1xQ2}(y) = int p2 H_{P1|Q1}(y q2 / p2).
    """
    h_up, h_down = np.expm1(step), -np.expm1(-step)
    later = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
    floor = np.append(gain[1:] + h_down * later[2:], 0.0)  # at most g_{i+1}: what cell i+1 and all later ones add to it
    fits = right <= floor * (1 - 1e-12)
    c = np.zeros(dots.size)
    c[:-1] = np.where(fits, left, gain)
    c[1:] = np.maximum(c[1:], np.where(fits, right, 0.0))
    jump = np.diff(c)
    p = dots.copy()
    p[:-1] -= jump / h_up
    p[1:] += jump / h_down
    p[0] += c[0]
    spread = np.abs(c) / h_down
    spread[1:] += np.abs(c[:-1]) / h_down
    spread[:-1] += np.abs(c[1:]) / h_up
    p = convex_minorant(p, step)
    return np.asarray(np.maximum(p - 8 * ROUND * (dots + spread), 0.0))


def convex_minorant(p: Array, step: float) -> Array:
    """Remove the nodes of negative mass, where G is concave, each by the chord of its neighbours, until none is left.

    A removed mass goes to the neighbours so that int dP and int dQ are kept; with a negative one this lowers G. Left
    of the first node stands y = 0, which holds no P-mass, so that a first node gives all its P-mass to the second.
    """
    if p.min() >= 0:
        return p
    p, index = p.copy(), np.flatnonzero(p)  # a node without mass is no kink
    for _ in range(ROUNDS):
        bad = p[index] < 0
        if index.size < 2 or not bad.any():
            return np.maximum(p, 0.0)
        crowded = np.zeros(bad.size, dtype=bool)
        crowded[1:] |= bad[:-1]
        crowded[:-1] |= bad[1:]
        where = np.flatnonzero(bad & (~crowded | (np.arange(bad.size) % 2 == 0)))
        inner = where[(where > 0) & (where < index.size - 1)]
        below, here, above = index[inner - 1], index[inner], index[inner + 1]
        up = np.expm1(-step * (here - below)) / np.expm1(-step * (above - below))
        np.add.at(p, above, p[here] * up)
        np.add.at(p, below, p[here] * (1 - up))
        if where[0] == 0:
            p[index[1]] += p[index[0]]
        if where[-1] == index.size - 1:
            p[index[-2]] += p[index[-1]]
        p[index[where]] = 0.0
        index = np.delete(index, where)
    return _sweep(p, index, step)


def _sweep(p: Array, index: NDArray[np.intp], step: float) -> Array:
    """What is left of `convex_minorant` where one removal calls for the next: from left to right, each node once."""
    places: list[int] = []
    masses: list[float] = []
    for place, mass in zip(index.tolist(), p[index].tolist(), strict=True):
        while masses and masses[-1] < 0:
            here, gone = places.pop(), masses.pop()
            if not masses:
                mass += gone
                break
            up = math.expm1(-step * (here - places[-1])) / math.expm1(-step * (place - places[-1]))
            masses[-1] += gone * (1 - up)
            mass += gone * up
        places.append(place)
        masses.append(mass)
    while len(masses) > 1 and masses[-1] < 0:
        places.pop()
        gone = masses.pop()
        masses[-1] += gone
    out = np.zeros(p.size)
    out[places] = np.maximum(masses, 0.0)
    return out
