"""Gauss-Legendre panels for E[e^{zL}] with a proven error, refined until it is as small as asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbudget.accounting.discretise import ROUND, panel_count, truncated_mass
from dpbudget.accounting.pair import AnalyticPair, Array, Pair

ORDER = 16
_X, _W = (np.polynomial.legendre.leggauss(ORDER)[0] + 1) / 2, np.polynomial.legendre.leggauss(ORDER)[1] / 2
_RHO = np.array([1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 12.0, 18.0])[:, None]
_REACH, _HEIGHT = (_RHO + 1 / _RHO) / 2, (_RHO - 1 / _RHO) / 2
_RATE = np.log(64 / 15) - 2 * (ORDER - 1) * np.log(_RHO) - np.log1p(-(_RHO**-2))
MAX_PANELS = 20_000


@dataclass(frozen=True)
class Nodes:
    """Points of the truncated P: losses, masses and the relative round-off error of each mass, shape (n,) each.

    panels: number of panels; the nodes of panel i are the ORDER entries from ORDER * i on, atoms stand at the end.
    edges: shape (panels + 1,). dropped: P-mass outside, at most. finite: P-mass of all finite losses.
    """

    pair: Pair
    count: int
    edges: Array
    loss: Array
    mass: Array
    rounding: Array
    dropped: float
    finite: float


def place_nodes(pair: Pair, count: int, edges: Array) -> Nodes:
    """ORDER points on each panel, then the atoms."""
    x = (edges[:-1, None] + np.diff(edges)[:, None] * _X).ravel()
    weight = (np.diff(edges)[:, None] * _W).ravel()
    loss, log_p = pair.loss_and_log_p(x) if x.size else (x, x)
    with np.errstate(under="ignore"):
        mass = weight * np.exp(log_p)
    rounding = ROUND * (16 + 4 * np.abs(log_p) + 6 * np.abs(loss))  # log p is a difference of a square and the loss
    if pair.atoms:
        atoms = np.asarray(pair.atoms, dtype=np.float64)
        loss, mass = np.append(loss, atoms[:, 0]), np.append(mass, atoms[:, 1])
        rounding = np.append(rounding, np.full(len(atoms), 16 * ROUND))
    return Nodes(pair, count, edges, loss, mass, rounding, sum(truncated_mass(pair, edges)), 1.0 - pair.infinite_mass)


def panel_errors(pair: AnalyticPair, edges: Array, tilt: float, frequency: float) -> Array:
    """log of a bound on the quadrature error of each panel, for int p e^{(tilt + iy) L} dx and every |y| <= frequency.

    |error| <= (64/15) H M rho^{-2 (m-1)} / (1 - rho^{-2}) for m points on a panel of half-width H, M the maximum of
    the integrand in the Bernstein ellipse rho (Trefethen, Approximation Theory and Approximation Practice, Thm 19.3).
    """
    half = np.diff(edges) / 2
    mid = edges[:-1] + half
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        growth = pair.growth(mid, half * _REACH, half * _HEIGHT, tilt, frequency)
        bound = np.where(np.isnan(growth), np.inf, growth) + _RATE + np.log(half)
    return np.asarray(bound.min(axis=0))


def refine_panels(pair: Pair, edges: Array, tilt: float, frequency: float, log_allowed: float) -> tuple[Array, float]:
    """Halve panels until the summed error is at most e^log_allowed, or MAX_PANELS are reached; edges and log error.

    Where the tilt or what is allowed is not a number, nothing is refined, and no comparison with the error holds.
    """
    if edges.size < 2:
        return edges, -np.inf
    if not isinstance(pair, AnalyticPair):
        return edges, np.inf
    while True:
        errors = panel_errors(pair, edges, tilt, frequency)
        total = float(np.logaddexp.reduce(errors))
        if total <= log_allowed or edges.size > MAX_PANELS:
            return edges, total
        coarse = errors > log_allowed - np.log(2 * errors.size)
        if not coarse.any():
            return edges, np.inf
        middle = (edges[:-1] + edges[1:])[coarse] / 2
        edges = np.insert(edges, np.flatnonzero(coarse) + 1, middle)


def first_panels(pair: Pair, log_tail: float) -> Array:
    """Panels four times as wide as `Pair.panel`, good to a few digits: where refinement starts."""
    lo, hi = pair.support(log_tail)
    if not (hi > lo):
        return np.empty(0)
    count = max(2, -(-panel_count(pair, hi - lo) // 4))
    edges = np.linspace(lo, hi, count + 1)
    inside = [x for x in pair.breaks if lo < x < hi]
    return np.unique(np.append(edges, inside)) if inside else edges
