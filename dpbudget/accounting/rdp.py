"""Renyi differential privacy: an upper bound from one exponential moment of the privacy loss, at any real order.

The moment is the exact one, K(lam) = log E_P[e^{lam L}] = lam D_{lam+1}(P || Q), by quadrature; the order is found by
solving the optimality condition, so that there is no grid of orders and no edge to sit on.

Why the upper tail may be cut before moments are taken. Let P_j' be P_j restricted to {X_j <= x_j}, m_j the P-mass it
loses. For the product of T steps and every event S
    P(S) <= P'(S) + P(some X_j > x_j) = P'(S) + 1 - prod (1 - m_j),
hence delta(eps) <= H'(eps) + 1 - prod (1 - m_j), H'(eps) = int (dP' - e^eps dQ)_+ = E_{P'}[(1 - e^{eps - L})_+].
H' needs no normalisation of P': with d = L - eps,
    (1 - e^{-d})_+ <= e^{lam d} lam^lam / (1 + lam)^{1 + lam}        for all real d and lam > 0
(the maximum over d > 0 of e^{-lam d} (1 - e^{-d}) is attained at e^{-d} = lam / (1 + lam)), so that
    H'(eps) <= exp(K'(lam) - lam eps) lam^lam / (1 + lam)^{1 + lam},  K' = sum_j log E_{P_j}[e^{lam L_j}; X_j <= x_j].
Without the cut an event of probability e^{-2000} can rule K; with it the event costs its probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpbudget.accounting import closed_form
from dpbudget.accounting.cumulant import on_panels, panel_edges, quadrature, resolved_moment
from dpbudget.accounting.cutmoments import CutTotal, cut_total
from dpbudget.accounting.pairs import Pair, SampledGaussianRemove
from dpbudget.accounting.single import single_log_delta
from dpbudget.errors import InputError, NotCertified

Array = NDArray[np.float64]
Parts = Sequence[tuple[Pair, int]]
Conversion = Literal["improved", "classic"]

# Shares of delta that the cut tails may use. The first costs nothing; where a heavy tail rules the moment, a larger
# share buys up to 10 %, and the next is tried as long as the last one helped.
CUT_ROUNDS = 4
CUTS = (1e-9, 1e-3, 0.1, 0.5, 0.8)
REFINE = (4.0, 16.0)  # finer panels, where the best order is beyond what the panels resolve
MAX_NODES = 40_000  # no refinement above this
UNSEEN = 1e-32
"""Covers the panels left out of a whole moment, where three densities are below e^-80 of their largest value."""
ROUND = 4e-15  # covers the round-off of the few operations after the moments, relative to the sum of their sizes


@dataclass(frozen=True, slots=True)
class RdpBound:
    """epsilon at delta (or the reverse) from one moment; both are upper bounds.

    order: alpha = lam + 1 that attains it; nan where the bound comes without a moment (epsilon 0 by total variation).
    rdp: the Renyi divergence of the composition at that order, after the cut.
    log_delta: log of delta, which itself may underflow.  delta_truncated: the part of delta spent on the cut tails.
    """

    epsilon: float
    delta: float
    order: float
    rdp: float
    log_delta: float
    delta_truncated: float


def _merge(parts: Parts) -> list[tuple[Pair, int]]:
    for _, count in parts:
        if not count >= 0:
            raise InputError("steps", f"{count} is not a number of steps >= 0")
    return [(pair, count) for pair, count in parts if count > 0]


def _conversion_term(lam: float, kind: Conversion) -> float:
    """log of the largest e^{-lam d} (1 - e^{-d}): lam log lam - (1 + lam) log(1 + lam); 0 for the 2017 conversion."""
    if kind == "classic":
        return 0.0
    return -lam * math.log1p(1.0 / lam) - math.log1p(lam)


def epsilon(parts: Parts, delta: float, *, conversion: Conversion = "improved", rho: float = 0.0) -> RdpBound:
    """Smallest epsilon that one moment proves for the composition of `parts`, in one direction.

    parts: (pair, count).  delta: in (0, 1].  rho: what releases have together of which only zCDP is known.
    Errs upwards only; math.inf where nothing finite is proven.
    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Prop. 12 ("improved"; also Balle et al. 2020,
    arXiv:1905.09982, Thm 21); Mironov 2017, arXiv:1702.07476, Prop. 3 ("classic").
    """
    if not delta > 0.0:
        raise InputError("delta", f"{delta} is not in (0, 1]")
    live = _merge(parts)
    if not (live or rho > 0.0) or delta >= 1.0 or _variation(live, rho) <= delta:
        return RdpBound(0.0, delta, math.nan, 0.0, math.log(min(delta, 1.0)), 0.0)
    best, chosen = _epsilon_once(live, rho, delta, conversion, CUTS[0]), 0
    for i in range(1, len(CUTS) if conversion == "improved" else 1):
        trial = _epsilon_once(live, rho, delta, conversion, CUTS[i])
        if not trial.epsilon < best.epsilon:
            break
        best, chosen = trial, i
    if chosen == 0:
        return best
    low, middle, high = CUTS[chosen - 1], CUTS[chosen], CUTS[min(chosen + 1, len(CUTS) - 1)]
    for _ in range(CUT_ROUNDS):  # where the cut matters, closer to the best share of it
        for share in (math.sqrt(low * middle), math.sqrt(middle * high)):
            trial = _epsilon_once(live, rho, delta, conversion, share)
            if trial.epsilon < best.epsilon:
                best = trial
                low, middle, high = (low, share, middle) if share < middle else (middle, share, high)
                break
        else:
            low, high = math.sqrt(low * middle), math.sqrt(middle * high)
    return best


def _epsilon_once(parts: list[tuple[Pair, int]], rho: float, delta: float, kind: Conversion, share: float) -> RdpBound:
    log_delta = math.log(delta)
    total = cut_total(parts, rho, log_delta + math.log(share), 1.0)
    left = delta - total.cut
    if not left > 0.0:
        return RdpBound(math.inf, delta, math.nan, math.inf, log_delta, total.cut)
    if _by_divergence(total) <= delta:
        return RdpBound(0.0, delta, math.nan, 0.0, log_delta, total.cut)
    log_left = math.log(left)
    lam = _best_order(total, log_left, kind)
    for refine in REFINE:
        if lam < 0.98 * total.limit or total.size * refine > MAX_NODES:
            break
        total = cut_total(parts, rho, log_delta + math.log(share), refine)
        lam = _best_order(total, log_left, kind)
    value = total.moment(lam)[0]
    constant = _conversion_term(lam, kind)
    bound = (value + constant - log_left) / lam
    bound += ROUND * (abs(value) + abs(constant) + abs(log_left)) / lam
    if not math.isfinite(bound):
        raise NotCertified("the RDP bound is not finite")
    return RdpBound(max(0.0, bound), delta, lam + 1.0, value / lam, log_delta, total.cut)


def delta(parts: Parts, epsilon: float, *, conversion: Conversion = "improved", rho: float = 0.0) -> RdpBound:
    """Smallest delta that one moment proves at `epsilon` >= 0, for the composition of `parts` in one direction.

    The cut needs delta: a first pass with next to no cut finds its size, the next ones cut in proportion; each pass
    is a valid bound, and the smallest is returned. Errs upwards only. Sources as for `epsilon`.
    """
    if not epsilon >= 0.0:
        raise InputError("epsilon", f"{epsilon} is not a number >= 0")
    live = _merge(parts)
    if not (live or rho > 0.0) or epsilon == math.inf:
        infinite = -math.expm1(sum(count * _log_finite(pair) for pair, count in live))
        return RdpBound(epsilon, infinite, math.nan, 0.0, math.log(infinite) if infinite > 0.0 else -math.inf, 0.0)
    best = _delta_once(live, rho, epsilon, conversion, -690.0)
    if epsilon == 0.0 and (distance := _variation(live, rho)) < best.delta:
        log_distance = math.log(distance) if distance > 0.0 else -math.inf
        best = RdpBound(0.0, distance, math.nan, 0.0, log_distance, 0.0)
    for share in CUTS if conversion == "improved" else CUTS[:1]:
        start = best.log_delta
        for _ in range(6):
            trial = _delta_once(live, rho, epsilon, conversion, max(best.log_delta, -660.0) + math.log(share))
            gain = best.log_delta - trial.log_delta
            best = min(best, trial, key=lambda bound: bound.log_delta)
            if not gain > 1e-3:
                break
        if best.log_delta >= start and share != CUTS[0]:
            break
    return best


def _log_finite(pair: Pair) -> float:
    return math.log1p(-pair.infinite_mass) if pair.infinite_mass < 1.0 else -math.inf


def _delta_once(
    parts: list[tuple[Pair, int]], rho: float, epsilon: float, kind: Conversion, log_cut: float
) -> RdpBound:
    total = cut_total(parts, rho, log_cut, 1.0)
    lam = _best_moment(total, epsilon, kind) if total.cut < 1.0 else 1.0
    for refine in REFINE:
        if lam < 0.98 * total.limit or total.size * refine > MAX_NODES:
            break
        total = cut_total(parts, rho, log_cut, refine)
        lam = _best_moment(total, epsilon, kind)
    value = total.moment(lam)[0]
    constant = _conversion_term(lam, kind)
    log_delta = value + constant - lam * epsilon + ROUND * (abs(value) + abs(constant) + lam * epsilon)
    if math.isnan(log_delta):
        raise NotCertified("the RDP bound is not a number")
    log_delta = min(0.0, float(np.logaddexp(log_delta, math.log(total.cut) if total.cut > 0.0 else -math.inf)))
    bound, order = math.exp(log_delta), lam + 1.0
    if epsilon == 0.0 and (by_distance := _by_divergence(total)) < bound:
        bound, order, log_delta = by_distance, math.nan, math.log(by_distance) if by_distance > 0.0 else -math.inf
    return RdpBound(epsilon, bound, order, value / lam, log_delta, total.cut)


def _best_moment(total: CutTotal, epsilon: float, kind: Conversion) -> float:
    """The lam that minimises the convex K(lam) + c(lam) - lam epsilon, where the increasing derivative vanishes."""
    lam, lo, hi, most = 1.0, 0.0, math.inf, 1e13 / max(epsilon, 1e-60)  # beyond it round-off eats the gain
    for _ in range(120):
        _, slope, curvature = total.moment(lam)
        improved = kind == "improved"
        gap = slope - epsilon - (math.log1p(1.0 / lam) if improved else 0.0)
        if gap < 0.0:
            lo = lam
        else:
            hi = lam
        if (hi < math.inf and hi - lo <= 1e-9 * hi) or not 1e-80 < lam < most:
            break
        growth = lam * curvature + (1.0 / (1.0 + lam) if improved else 0.0)
        step = -gap / growth if growth > 0.0 else math.copysign(3.0, -gap)
        if abs(step) < 1e-7:
            break
        lam = _inside(lam * math.exp(min(max(step, -4.0), 4.0)), lo, hi)
    return min(lam, most)


def rdp_curve(pair: Pair, orders: Array) -> Array:
    """Renyi divergence D_alpha(P || Q) of one use, nothing cut. orders: shape (k,), each > 1; same shape returned.

    Relative accuracy about 1e-12 for every order, also for alpha -> 1 and for pairs that are nearly equal; rates
    below 1e-25, where the far tails count, err upwards by UNSEEN times the largest loss.
    math.inf where the pair has infinite mass or the moment overflows.
    """
    lam = np.asarray(orders, dtype=np.float64) - 1.0
    if not np.all(lam > 0.0):
        raise InputError("orders", "an order is not a number > 1")
    if pair.infinite_mass > 0.0:
        return np.full(lam.shape, np.inf)
    return np.array([_whole_moment(pair, float(v)) / float(v) for v in lam.ravel()]).reshape(lam.shape)


def _whole_moment(pair: Pair, lam: float) -> float:
    """log E_P[e^{lam L}], nothing cut: panels wherever p, q or p e^{lam L} is within e^{-80} of its largest value."""
    if isinstance(pair, SampledGaussianRemove) and pair.rate == 1.0:
        return 0.5 * (lam / pair.sigma) * ((1.0 + lam) / pair.sigma) * (1.0 + ROUND)
    lo, hi = pair.support(-700.0)
    while lo < hi:
        edges = panel_edges(pair, lo, hi, 1.0)
        log_p, loss = pair.log_p(edges), pair.loss(edges)
        tilted = log_p + lam * loss
        if tilted[-1] < np.max(tilted) - 80.0 or not pair.log_upper_tail(hi) > -np.inf:
            break
        hi += hi - lo
    else:
        return float(resolved_moment(quadrature(pair, -700.0), np.array([lam])).value[0])
    matters = np.zeros(edges.size, dtype=bool)
    for density in (log_p, log_p - loss, tilted):
        matters |= density > np.max(density) - 80.0
    keep = matters[1:] | matters[:-1]
    nodes = on_panels(pair, edges[:-1][keep], edges[1:][keep])
    unseen = UNSEEN * min(lam * float(np.max(np.abs(loss))), 1.0)
    return max(0.0, float(resolved_moment(nodes, np.array([lam])).value[0])) + unseen


def rdp_total(parts: Parts, orders: Array) -> Array:
    """Renyi divergence of the composition at fixed orders: the sum over `parts`. Shape of `orders`."""
    curve = np.zeros(np.shape(orders))
    for pair, count in _merge(parts):
        curve = curve + count * rdp_curve(pair, orders)
    return curve


def _best_order(total: CutTotal, log_delta: float, kind: Conversion) -> float:
    """The lam that minimises (K(lam) + c(lam) - log delta) / lam.

    The derivative vanishes where G(lam) = lam K' - K + [log(1 + lam)] equals log(1/delta). K is convex with K(0) <= 0,
    so that G increases and the minimum is unique. Newton on log G against log lam inside a bracket;
    whatever lam it ends with gives a valid bound.
    """
    target = -log_delta
    lam = math.sqrt(2.0 * target / total.square) if 0.0 < total.square < math.inf else 1.0
    lo, hi = 0.0, math.inf
    for _ in range(80):
        value, slope, curvature = total.moment(lam)
        gap = lam * slope - value + (math.log1p(lam) if kind == "improved" else 0.0)
        if gap < target:
            lo = lam
        else:
            hi = lam
        if (hi < math.inf and hi - lo <= 1e-9 * hi) or lam >= 1e80:
            break
        growth = lam * lam * curvature + (lam / (1.0 + lam) if kind == "improved" else 0.0)
        step = math.log(target / gap) * gap / growth if gap > 0.0 and growth > 0.0 else 3.0
        if abs(step) < 1e-7:
            break
        lam = _inside(lam * math.exp(min(max(step, -6.0), 6.0)), lo, hi)
    return lam


def _inside(guess: float, lo: float, hi: float) -> float:
    """guess if it lies well inside (lo, hi), else the geometric middle, or a factor 8 outwards where an end is open."""
    if lo < guess < hi:
        return guess
    if hi == math.inf:
        return 8.0 * lo
    return hi / 8.0 if lo == 0.0 else math.sqrt(lo * hi)


def _variation(parts: list[tuple[Pair, int]], rho: float) -> float:
    """An upper bound on the total variation distance of the composition: the sum of the single steps' (triangle inequality).

    A step's is in closed form, or the integral of (1 - e^{-L}) over L > 0 on panels that begin where the loss passes 0:
    across that point the integrand has a kink, which a quadrature does not see. Of rho-zCDP, as in `_by_divergence`.
    """
    try:
        total = sum(count * _one_variation(pair) for pair, count in parts)
    except NotCertified:
        return 1.0
    return min(1.0, total * (1.0 + 1e-11) + _distance(rho))


def _one_variation(pair: Pair) -> float:
    if closed_form.has_closed_form(pair):
        return closed_form.delta_interval(pair, 0.0)[1]
    return math.exp(single_log_delta(pair, 0.0)[0])


def _distance(divergence: float) -> float:
    """The total variation that a Kullback-Leibler divergence allows: Pinsker, or Bretagnolle-Huber."""
    return min(math.sqrt(divergence / 2.0), math.sqrt(-math.expm1(-divergence))) * (1.0 + 1e-15)


def _by_divergence(total: CutTotal) -> float:
    """An upper bound on delta(0): int (dP' - dQ)_+ <= TV(P'', Q) for P'' = P' / P'(1), and the cut mass."""
    return _distance(total.divergence) + total.cut
