"""Certified Fourier inversion: two-sided bounds on delta from the tilted characteristic function, at any T.

For the finite part of a composition truncated to a bounded range of x, with M(z) = prod_j E[e^{z L_j}]^{T_j}, t > 0:

    (1/P) sum_n M(z_n) e^{-i y_n eps} / (z_n (1 + z_n)) = sum_k e^{t (eps + kP)} delta(eps + kP),   z_n = t + i y_n,

y_n = 2 pi n / P (Poisson summation for e^{t eps} delta(eps); Alghamdi et al. 2023, arXiv:2208.09595, for the
transform). All terms on the right are positive and those with k != 0 are bounded by Chernoff; the terms left out on
the left by |E e^{iyL}| on an interval of y and beyond; the quadrature by Bernstein ellipses. So the result is a proof,
not an estimate, and its width hardly depends on T. It needs parts that are smooth enough for |M| to decay.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpbudget.accounting.cutoff import MAX_WORK, cutoff
from dpbudget.accounting.pair import AnalyticPair, Pair
from dpbudget.accounting.quadrature import ORDER, first_panels, place_nodes, refine_panels
from dpbudget.accounting.spectrum import Spectrum as Spectrum
from dpbudget.accounting.spectrum import assemble
from dpbudget.accounting.tilted import DRIFT, Tilted, find_tilt, log_gmax, settled, tilt_nodes
from dpbudget.accounting.tilted import TooRough as TooRough


def build(
    pairs: Sequence[tuple[Pair, int]],
    log_delta: float,
    epsilon: float | None,
    tolerance: float,
    *,
    of_delta: bool = False,
    share: float = 1e-3,
) -> Spectrum:
    """Everything that does not depend on epsilon. Raises TooRough where the work would exceed MAX_WORK.

    log_delta: the delta of interest. epsilon: where it is known, at least roughly, the tilt is made for it; otherwise
    for the Chernoff bound, which is far off where a few large losses decide. tolerance: relative, of epsilon or
    `of_delta`; each error is to take `share` of it.
    """
    smooth = [isinstance(pair, AnalyticPair) for pair, _ in pairs]
    if not any(smooth) or not all(s or is_atomic(pair) for s, (pair, _) in zip(smooth, pairs, strict=True)):
        raise TooRough
    log_tail = tail_level(pairs, log_delta, share * tolerance)
    nodes = [place_nodes(pair, count, first_panels(pair, log_tail)) for pair, count in pairs]
    t = find_tilt(nodes, None if epsilon is not None else log_delta, epsilon)
    steps = sum(part.count for part in nodes)
    parts = [settled(part, t, steps) for part in nodes]
    log_moment = sum(part.nodes.count * part.log_moment for part in parts)
    chernoff = max((log_moment + log_gmax(t) - log_delta) / t, 0.0) if epsilon is None else epsilon
    variance = sum(part.nodes.count * part.variance for part in parts)
    gain = 1.0 if of_delta else max(t * chernoff, 1e-3)
    wanted = float(np.clip(share * tolerance * gain, 1e-14, 1e-6))
    log_value = -np.log(t * (1 + t)) - 0.5 * np.log(2 * np.pi * (variance + 1 / t**2))
    if epsilon is not None:
        log_value = min(log_value, log_delta + t * epsilon - log_moment)
    log_goal = float(np.log(wanted) + log_value)

    right = _right_alias(parts, t, log_moment, variance, log_goal, chernoff)
    period = (right[1] - log_goal) / right[0] - 0.8 * chernoff
    period = max(period, (chernoff - log_delta - np.log(wanted)) / (1 + t), 2 * np.sqrt(variance))
    limit = cutoff(parts, t, log_goal, np.sqrt(variance))
    step = 2 * np.pi / period
    count = int(min(np.ceil(limit / step), 1e9)) + 1
    if count * sum(part.nodes.loss.size for part in parts) > MAX_WORK:
        raise TooRough

    final: list[Tilted] = []
    quadrature = 0.0
    for part in parts:
        n = part.nodes.count
        allowed = part.log_moment + float(np.log(wanted / 10) - np.log(n))
        fine, log_error = refine_panels(part.nodes.pair, part.nodes.edges, t, step * count, allowed)
        quadrature += 2 * n * float(np.exp(min(log_error - part.log_moment, 0.0)))  # at y and at 0, which is set to 1
        if count * fine.size * ORDER > MAX_WORK:
            raise TooRough
        final.append(tilt_nodes(place_nodes(part.nodes.pair, n, fine), t))
    # the alias was put over a moment of fewer digits: over the final one, and the least that this may be
    over = log_moment - sum(part.nodes.count * part.log_moment for part in final)
    over += quadrature + sum(part.moment_error for part in final)
    return assemble(final, t, period, step, count, quadrature, log_goal, (right[0], right[1] + over))


def _right_alias(
    parts: Sequence[Tilted], t: float, log_moment: float, variance: float, log_goal: float, epsilon: float
) -> tuple[float, float]:
    """(t' - t, log of M(t') gmax(t') / M(t)) for the t' > t that allows the shortest period.

    e^{t kP} delta(eps + kP), over M(t) e^{-t eps}, is at most e^{that - (t' - t)(eps + kP)}.
    """
    if not variance > 0:
        raise TooRough
    options = []
    for c in (0.2, 0.5, 1.0, 2.0, 4.0, 7.0):
        gap = c / float(np.sqrt(variance))
        moved = 0.0
        for part in parts:
            exponent = gap * part.centred
            with np.errstate(under="ignore", over="ignore"):
                moved += part.nodes.count * (float(np.log(part.weight @ np.exp(exponent))) + gap * part.mean)
        options.append((gap, moved + log_gmax(t + gap)))
    gap, _ = min(options, key=lambda option: (option[1] - log_goal) / option[0])
    proven = log_gmax(t + gap) - log_moment + DRIFT
    for part in parts:
        nodes = part.nodes
        fresh = tilt_nodes(nodes, t + gap)
        allowed = fresh.log_moment + float(np.log(1e-3 / nodes.count))
        edges, log_error = refine_panels(nodes.pair, nodes.edges, t + gap, 0.0, allowed)
        if edges.size != nodes.edges.size:
            fresh = tilt_nodes(place_nodes(nodes.pair, nodes.count, edges), t + gap)
        proven += (
            nodes.count * (fresh.log_moment + float(np.exp(min(log_error - fresh.log_moment, 50.0))))
            + fresh.moment_error
        )
    return gap, proven


def tail_level(pairs: Sequence[tuple[Pair, int]], log_delta: float, precision: float) -> float:
    """log of the one-step tail that may go to infinity: a small share of delta, but not smaller than it must be.

    A lower level would let the tilt seek events of probability far below delta, where e^{tL} may outgrow the density.
    """
    share = min(5 * precision * max(1.0, -log_delta), 1e-5)
    return log_delta - float(np.log(sum(count for _, count in pairs))) + float(np.log(share))


def single_jump_epsilon(pairs: Sequence[tuple[Pair, int]], log_delta: float) -> float:
    """epsilon if one large loss on top of the mean of all others decided: a rough value where Chernoff is far too high."""
    nodes = [place_nodes(pair, count, first_panels(pair, log_delta - 40.0)) for pair, count in pairs]
    mean = sum(part.count * float(part.mass @ part.loss) for part in nodes)
    loss = np.concatenate([part.loss for part in nodes])
    mass = np.concatenate([part.count * part.mass for part in nodes])
    low, high = 0.0, max(float(loss.max()), 0.0)
    for _ in range(50):
        middle = (low + high) / 2
        gain = float(mass @ -np.expm1(np.minimum(middle - loss, 0.0)))
        low, high = (middle, high) if gain > np.exp(log_delta) else (low, middle)
    return max(high + mean, 0.0)


def chernoff_epsilon(pairs: Sequence[tuple[Pair, int]], delta: float) -> float:
    """A proven upper bound on epsilon by one exponential moment, for want of anything sharper; inf where it has none.

    delta(eps) <= M(t) gmax(t) e^{-t eps} + (mass dropped or infinite): Canonne, Kamath, Steinke 2020, arXiv:2004.00010.
    """
    log_tail = float(np.log(delta)) - float(np.log(sum(count for _, count in pairs))) - 5.0
    nodes = [place_nodes(pair, count, first_panels(pair, log_tail)) for pair, count in pairs]
    t = find_tilt(nodes, float(np.log(delta)), None)
    log_moment = rest = 0.0
    for part in nodes:
        allowed = tilt_nodes(part, t).log_moment + float(np.log(1e-9 / part.count))
        edges, log_error = refine_panels(part.pair, part.edges, t, 0.0, allowed)
        fine = tilt_nodes(place_nodes(part.pair, part.count, edges), t)
        log_moment += part.count * (fine.log_moment + float(np.exp(min(log_error - fine.log_moment, 50.0))))
        log_moment += fine.moment_error + 1e-12 * abs(part.count * fine.log_moment)
        rest -= part.count * float(np.log1p(-fine.nodes.dropped) + np.log1p(-part.pair.infinite_mass))
    left = delta + float(np.expm1(-rest)) * (1 + 1e-9)
    if not (left > 0):
        return np.inf
    return max(0.0, (log_moment + log_gmax(t) - float(np.log(left))) / t * (1 + 1e-12))


def chernoff_log_delta(pairs: Sequence[tuple[Pair, int]], epsilon: float) -> float:
    """An estimate of the Chernoff bound of log delta at epsilon, the tails cut where they no longer matter to it."""
    log_delta = -40.0
    for _ in range(40):
        log_tail = log_delta - float(np.log(sum(count for _, count in pairs))) - 25.0
        nodes = [place_nodes(pair, count, first_panels(pair, log_tail)) for pair, count in pairs]
        t = find_tilt(nodes, None, epsilon)
        moments = (part.count * tilt_nodes(part, t).log_moment for part in nodes)
        bound = min(0.0, sum(moments) - t * epsilon + log_gmax(t))
        if not (bound < log_delta) or log_delta < -1000.0:
            return max(bound, -1000.0)
        log_delta = max(1.5 * bound, 4 * log_delta)
    return log_delta


def is_atomic(pair: Pair) -> bool:
    """Whether the pair has no continuous part."""
    lo, hi = pair.support(-30.0)
    return not (hi > lo)
