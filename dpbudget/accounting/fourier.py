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
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbudget.accounting.discretise import ROUND
from dpbudget.accounting.pair import AnalyticPair, Array, Pair
from dpbudget.accounting.quadrature import ORDER, Nodes, first_panels, panel_errors, place_nodes, refine_panels

MAX_WORK = 2.5e7
"""Largest number of (frequency, node) pairs."""


DRIFT = 0.1
"""Log of the error of M(t) where it only normalises the budget of what is left out."""


class TooRough(Exception):
    """The characteristic function does not decay soon enough; the lattice has to answer."""


def log_gmax(t: float) -> float:
    """log max_s e^{-ts} (1 - e^{-s}) = t log t - (1 + t) log(1 + t)."""
    return float(-t * np.log1p(1 / t) - np.log1p(t))


@dataclass(frozen=True)
class Tilted:
    """One part at a tilt t: normalised masses, centred losses and the cumulants that the bounds need.

    log_moment: log E[e^{tL}] over the truncated part; moment_error bounds the error of its T-fold multiple.
    phase_slope: the error of E_t[e^{iy(L - mean)}] is at most |y| * phase_slope (round-off).
    """

    nodes: Nodes
    weight: Array
    centred: Array
    mean: float
    variance: float
    log_moment: float
    moment_error: float
    phase_slope: float


def tilt_nodes(nodes: Nodes, t: float) -> Tilted:
    """log E[e^{tL}] as log1p of E[expm1(tL)]: no cancellation however close to 1 the moment is."""
    loss, mass, n = nodes.loss, nodes.mass, nodes.count
    per_sum = ROUND * (loss.size + 32)
    with np.errstate(under="ignore", over="ignore"):
        top = max(0.0, float((t * loss).max()) - 600.0)
        grown = mass * np.exp(t * loss - top)
        change = mass * np.expm1(t * loss) if top == 0.0 else grown
        if top == 0.0:
            excess = float(change.sum()) - (1.0 - nodes.finite)
            log_moment = float(np.log1p(excess))
            moment = 1.0 + excess
        else:
            moment = float(grown.sum())
            log_moment = top + float(np.log(moment))
        each = nodes.rounding + per_sum + 8 * ROUND * (1 + t * np.abs(loss))
        blur = float(np.abs(change) @ each) + nodes.dropped + 4 * ROUND * abs(1 - nodes.finite)
    weight = grown / moment
    mean = float(weight @ loss)
    centred = loss - mean
    spread = np.abs(centred)
    slope = float(
        weight @ (spread * (nodes.rounding + per_sum + 16 * ROUND * (1 + t * np.abs(loss))) + 4 * ROUND * np.abs(loss))
    ) + 4 * ROUND * abs(mean)
    return Tilted(nodes, weight, centred, mean, float(weight @ centred**2), log_moment, n * blur / moment * 1.01, slope)


def characteristic(part: Tilted, y: Array) -> NDArray[np.complex128]:
    """E_t[e^{iy(L - mean)}] - 1 at each y, by half angles: relative to the deviation, not to 1."""
    half = y[:, None] * (part.centred / 2)
    sine, cosine = np.sin(half), np.cos(half)
    out = np.empty(y.size, dtype=np.complex128)
    out.real = -2 * ((sine * sine) @ part.weight)
    out.imag = 2 * ((sine * cosine) @ part.weight)
    return out


def characteristic_grid(part: Tilted, step: float, count: int) -> NDArray[np.complex128]:
    """`characteristic` at 0, step, 2 step, ...: e^{i(a+b)} - 1 = (e^{ia} - 1) e^{ib} + (e^{ib} - 1) as one product."""
    grid = step * np.arange(count, dtype=np.float64)
    if count < 24:
        return characteristic(part, grid)
    block = int(np.ceil(np.sqrt(count)))
    blocks = -(-count // block)
    coarse = _turns(part.centred, step * block * np.arange(blocks, dtype=np.float64))
    fine = _turns(part.centred, grid[:block])
    out = ((coarse + 1) * part.weight) @ fine.T + (coarse @ part.weight)[:, None]
    return np.asarray(out.ravel()[:count])


def _turns(angle: Array, y: Array) -> NDArray[np.complex128]:
    """e^{i y angle} - 1, shape (y, angle), relative to its own size."""
    half = y[:, None] * (angle / 2)
    sine, cosine = np.sin(half), np.cos(half)
    out = np.empty(half.shape, dtype=np.complex128)
    out.real = -2 * sine * sine
    out.imag = 2 * sine * cosine
    return out


def find_tilt(parts: Sequence[Nodes], log_delta: float | None, epsilon: float | None) -> float:
    """The t of the best Chernoff bound: t K' - K + log(1 + t) = -log delta, or K' + log(t / (1 + t)) = epsilon.

    Newton in log t inside a bracket. Its accuracy does not matter for the validity of the bounds.
    """
    loss = np.concatenate([part.loss for part in parts])
    counts = np.concatenate([np.full(part.loss.size, float(part.count)) for part in parts])
    splits = np.cumsum([0] + [part.loss.size for part in parts])
    mass = np.concatenate([part.mass for part in parts])
    spread = float(np.sqrt((counts * mass) @ loss**2))
    with np.errstate(divide="ignore"):
        log_mass = np.log(mass)
    drop = 30.0 if log_delta is None else -log_delta
    low, high, u = -np.inf, np.inf, float(np.log(np.sqrt(2 * drop) / max(spread, 1e-300)))
    for _ in range(60):
        t = float(np.exp(u))
        k = slope = curve = 0.0
        for j, part in enumerate(parts):
            section = slice(splits[j], splits[j + 1])
            x = loss[section]
            exponent = log_mass[section] + t * x  # in logarithms: a large t leaves only nodes of next to no mass
            top = float(exponent.max())
            with np.errstate(under="ignore"):
                w = np.exp(exponent - top)
            total = float(w.sum())
            mean = float(w @ x) / total
            k += part.count * (top + float(np.log(total)))
            slope += part.count * mean
            curve += part.count * float(w @ (x - mean) ** 2) / total
        if log_delta is not None:
            value = t * slope - k + float(np.log1p(t)) + log_delta
            steep = t * (t * curve + 1 / (1 + t))
        else:
            value = slope + float(np.log(t / (1 + t))) - (epsilon or 0.0)
            steep = t * curve + 1 / (1 + t)
        if value > 0:
            high = min(high, u)
        else:
            low = max(low, u)
        step = value / max(steep, 1e-300)
        if log_delta is not None and value > log_delta / 2:
            ratio = (value - log_delta) / -log_delta  # Newton on the logarithm: psi grows like t^2
            step = np.log(ratio) * (value - log_delta) / max(steep, 1e-300)
        following = u - float(np.clip(step, -3.0, 3.0))
        if not (low < following < high):
            following = (low + high) / 2 if np.isfinite(low + high) else following
        if abs(following - u) < 1e-4:
            return float(np.exp(following))
        u = following
    return float(np.exp(u))


@dataclass(frozen=True)
class Spectrum:
    """The trapezoid sum, ready to be evaluated at any epsilon, and its error budget (relative to M(t) e^{-t eps})."""

    t: float
    period: float
    log_moment: float
    centre: float
    frequency: Array
    term: NDArray[np.complex128]
    truncation: float
    rounding: Array
    relative: float
    right: tuple[float, float]
    dropped: float
    infinite: tuple[float, float]
    nodes: int

    def bounds(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) bound of delta at epsilon >= 0."""
        value, error = self.relative_value(epsilon)
        log_scale = self.log_moment - self.t * epsilon
        slack = self.relative + 8 * ROUND * (2 + abs(self.log_moment) + self.t * epsilon)
        with np.errstate(over="ignore", under="ignore"):
            lower = max(value - error, 0.0) * float(np.exp(log_scale - slack))
            upper = max(value + error, 0.0) * float(np.exp(log_scale + slack))
            left = float(np.exp(-self.t * self.period))
            left /= -np.expm1(-self.t * self.period)
            decay = (1 + self.t) * self.period
            overlap = float(np.exp(epsilon - decay)) / -float(np.expm1(-decay))
        lower -= left * (1 + 1e-14)
        upper += overlap - left * (1 - self.dropped - self.infinite[1]) * (1 - 1e-14)
        lower = max(lower, 0.0) + self.infinite[0]
        upper = upper + self.dropped + self.infinite[1]
        return lower, min(upper, 1.0)

    def relative_value(self, epsilon: float) -> tuple[float, float]:
        """The sum at epsilon over M(t) e^{-t eps}, and its error: truncation, round-off, aliases from the right."""
        shift = epsilon - self.centre
        phase = np.exp(-1j * shift * self.frequency)
        value = float((self.term * phase).real.sum())
        size = np.abs(self.term)
        error = self.truncation + float(size @ (self.rounding + 8 * ROUND * (1 + np.abs(shift) * self.frequency)))
        error += float(size.sum()) * ROUND * (4 + np.sqrt(size.size))
        gap, log_excess = self.right
        log_alias = log_excess - gap * (epsilon + self.period)
        alias = float(np.exp(min(log_alias, 600.0))) / -float(np.expm1(-gap * self.period))
        return value, error + alias


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
    parts = [_settled(part, t, steps) for part in nodes]
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
    limit = _cutoff(parts, t, log_goal, np.sqrt(variance))
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
    return _assemble(final, t, period, step, count, quadrature, log_goal, (right[0], right[1] + over))


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


def _settled(part: Nodes, t: float, steps: int) -> Tilted:
    """The part at tilt t, on panels that give its moment so well that all steps together move M(t) by e^DRIFT at most."""
    tilted = tilt_nodes(part, t)
    allowed = tilted.log_moment + float(np.log(min(1e-9, 0.5 * DRIFT / steps)))
    edges, log_error = refine_panels(part.pair, part.edges, t, 0.0, allowed)
    if not log_error <= allowed:
        raise TooRough
    if edges.size == part.edges.size:
        return tilted
    return tilt_nodes(place_nodes(part.pair, part.count, edges), t)


def _right_alias(
    parts: Sequence[Tilted], t: float, log_moment: float, variance: float, log_goal: float, epsilon: float
) -> tuple[float, float]:
    """(t' - t, log of M(t') gmax(t') / M(t)) for the t' > t that allows the shortest period.

    e^{t kP} delta(eps + kP), over M(t) e^{-t eps}, is at most e^{that - (t' - t)(eps + kP)}.
    """
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


def _cutoff(parts: Sequence[Tilted], t: float, log_goal: float, scale: float) -> float:
    """Y such that (sup over y >= Y of |prod E_t[e^{iyL}]^T|) / (pi Y) <= e^log_goal.

    Far out by segments of integration by parts, nearer by interpolation: R = |phi|^2 has R'' >= -2 var, so that
    between neighbours R is at most the larger one plus gap^2 var / 4.
    """
    goal = log_goal - np.log(2.0) - DRIFT  # half for either range; the moments normalise with an error of e^DRIFT
    far = np.asarray(1.25 ** np.arange(-3, 90) / scale, dtype=np.float64)
    log_far = np.zeros(far.size)
    for part in parts:
        log_far += part.nodes.count * _log_segments(part, t, far)
    good = np.flatnonzero(log_far <= goal + np.log(np.pi * far))
    if not good.size:
        raise TooRough
    end = float(far[good[0]])
    guards = [_guard(part, t, end, -goal / (4 * len(parts))) for part in parts]
    points = _guard_points(3.0 / scale, end, max(guard.spread for guard in guards))
    if points.size < 2 or points.size * max(guard.weight.size for guard in guards) > MAX_WORK:
        return end
    modulus = [guard.modulus(points) for guard in guards]
    log_near = _between(guards, modulus, np.diff(points))
    wanted = goal + np.log(np.pi * points[:-1])
    if (log_near > wanted).any():
        pieces = np.ones(points.size - 1, dtype=int)
        for n in (16, 10, 6, 4, 3, 2):
            finer = _between(guards, modulus, np.diff(points) / n)
            pieces[(log_near > wanted) & (finer <= wanted - 0.02)] = n
        points = _subdivide(points, pieces)
        if points.size * max(guard.weight.size for guard in guards) > 4 * MAX_WORK:
            return end
        modulus = [guard.modulus(points) for guard in guards]
        log_near = _between(guards, modulus, np.diff(points))
    worst = np.maximum.accumulate(log_near[::-1])[::-1]
    fit = np.flatnonzero(worst <= goal + np.log(np.pi * points[:-1]))
    return float(points[fit[0]]) if fit.size else end


def _between(guards: Sequence[_Guard], modulus: Sequence[Array], gap: Array) -> Array:
    """log of the bound on prod |phi|^T between neighbouring points that lie `gap` apart."""
    out = np.zeros(gap.size)
    for guard, size in zip(guards, modulus, strict=True):
        square = np.maximum(size[1:], size[:-1]) ** 2 + (gap * guard.spread) ** 2 * (1.01 / 4)
        out += guard.count * np.log(np.minimum(np.sqrt(square) + guard.rest, 1.0))
    return out


def _subdivide(points: Array, pieces: NDArray[np.int_]) -> Array:
    """Cut the i-th gap into pieces_i equal ones."""
    starts = np.cumsum(pieces) - pieces
    inner = np.arange(int(pieces.sum())) - np.repeat(starts, pieces)
    return np.append(np.repeat(points[:-1], pieces) + inner * np.repeat(np.diff(points) / pieces, pieces), points[-1])


@dataclass(frozen=True)
class _Guard:
    """The core of a tilted part, without the rare largest and smallest losses, of total mass `rest`.

    |phi| <= |phi_core| + rest, and the second derivative of |phi_core|^2 is at least -2 spread^2.
    """

    count: int
    weight: Array
    centred: Array
    spread: float
    rest: float
    error: float
    phase_slope: float

    def modulus(self, points: Array) -> Array:
        """Upper bounds on |phi_core|."""
        real, imag = np.empty(points.size), np.empty(points.size)
        rows = max(1, int(1e6) // self.weight.size)
        for start in range(0, points.size, rows):
            block = slice(start, start + rows)
            half = points[block, None] * (self.centred / 2)
            sine = np.sin(half)
            real[block] = float(self.weight.sum()) - 2 * ((sine * sine) @ self.weight)
            imag[block] = 2 * ((sine * np.cos(half)) @ self.weight)
        return np.asarray(np.hypot(real, imag) + 2 * self.error + points * self.phase_slope)


def _guard_points(start: float, end: float, spread: float) -> Array:
    """From `start` to `end`, first in proportion, then in steps of 0.4 / spread."""
    if not (end > start):
        return np.empty(0)
    turn = min(1 / spread, end)
    count = max(1, int(np.ceil(np.log(max(turn / start, 1.0)) / 0.35)))
    near = start * (max(turn / start, 1.0)) ** (np.arange(count) / count)
    rest = int(np.ceil((end - turn) * spread / 0.4))
    if rest > 1500:
        return np.empty(0)
    return np.unique(np.concatenate([near, np.linspace(max(turn, start), end, max(rest, 1) + 1)]))


def _guard(part: Tilted, t: float, end: float, allowance: float) -> _Guard:
    """Core of a part such that the rest costs at most e^allowance in T steps, on panels good enough up to y = end."""
    pair, n, edges = part.nodes.pair, part.nodes.count, part.nodes.edges
    if edges.size < 2:
        return _Guard(n, part.weight, part.centred, float(np.sqrt(part.variance)), 0.0, 0.0, part.phase_slope)
    panels = edges.size - 1
    mass = part.weight[: ORDER * panels].reshape(panels, ORDER).sum(axis=1)
    budget = min(allowance / n, 0.1) / 2
    first = int(np.searchsorted(np.cumsum(mass), budget))
    last = panels - int(np.searchsorted(np.cumsum(mass[::-1]), budget))
    edges = edges[first : last + 1]
    rough = part.log_moment + float(np.log(min(0.02, 0.5 / n)))
    fine, log_error = refine_panels(pair, edges, t, end, rough)
    error = float(np.exp(min(log_error - part.log_moment, 50.0)))
    core = tilt_nodes(place_nodes(pair, n, fine), t)
    weight = core.weight * np.exp(core.log_moment - part.log_moment)
    total = float(weight.sum())
    mean = float(weight @ core.nodes.loss) / total
    centred = core.nodes.loss - mean
    spread = float(np.sqrt(total * float(weight @ centred**2)))
    return _Guard(
        n, weight, centred, spread, max(1 - total, 0.0) + 2 * error + 1e-12, error, core.phase_slope + part.phase_slope
    )


def _log_segments(part: Tilted, t: float, y: Array) -> Array:
    """log of 1 - sum_i (m_i - V_i / y)_+, a bound on |E_t e^{iyL}| that decreases in y; the best of several cuts."""
    pair, coarse = part.nodes.pair, part.nodes.edges
    if not isinstance(pair, AnalyticPair) or coarse.size < 2:
        return np.zeros(y.size)
    panels = coarse.size - 1
    panel_mass = part.weight[: ORDER * panels].reshape(panels, ORDER).sum(axis=1)
    panel_mass -= np.exp(panel_errors(pair, coarse, t, 0.0) - part.log_moment)
    best = np.ones(y.size)
    for width in (1, 2, 4):
        starts = np.arange(0, panels, width)
        mass = np.add.reduceat(panel_mass, starts) * (1 - 1e-9)
        variation = pair.oscillation(np.append(coarse[starts], coarse[-1]), t) * np.exp(-part.log_moment) * (1 + 2e-9)
        lost = np.maximum(mass - variation / y[:, None], 0.0).sum(axis=1)
        best = np.minimum(best, 1 - lost)
    return np.log(np.maximum(best, 1e-12))


def _assemble(
    parts: Sequence[Tilted],
    t: float,
    period: float,
    step: float,
    count: int,
    quadrature: float,
    log_goal: float,
    right: tuple[float, float],
) -> Spectrum:
    """log M along the line, as T log1p(phi - 1) + i y T mean, divided by z (1 + z)."""
    frequency = step * np.arange(count, dtype=np.float64)
    log_m = np.zeros(frequency.size, dtype=np.complex128)
    rounding = np.zeros(frequency.size)
    for part in parts:
        n = part.nodes.count
        phi = characteristic_grid(part, step, count)
        size2 = 2 * phi.real + phi.real**2 + phi.imag**2
        modulus = np.sqrt(np.maximum(1 + size2, 1e-300))
        log_m.real += 0.5 * n * np.log1p(np.maximum(size2, -1 + 1e-300))
        log_m.imag += n * np.arctan2(phi.imag, 1 + phi.real)
        blur = (part.phase_slope * frequency + quadrature / n) / modulus + 8 * ROUND * np.abs(np.log(modulus))
        rounding += n * blur + 8 * ROUND * n * np.abs(phi) / modulus
    z = t + 1j * frequency
    with np.errstate(under="ignore"):
        term = np.asarray(np.exp(log_m) / (z * (1 + z)) * (2 / period), dtype=np.complex128)
    term[0] /= 2
    rounding = np.where(rounding < 0.5, np.expm1(np.minimum(rounding, 1.0)), np.inf)
    if np.isinf(rounding).any():
        raise TooRough
    centre = sum(part.nodes.count * part.mean for part in parts)
    moment = sum(part.nodes.count * part.log_moment for part in parts)
    relative = sum(part.moment_error for part in parts) + quadrature + 1e-14
    dropped = -float(np.expm1(sum(p.nodes.count * np.log1p(-p.nodes.dropped) for p in parts))) * (1 + 1e-9)
    infinite = -float(np.expm1(sum(p.nodes.count * np.log1p(-p.nodes.pair.infinite_mass) for p in parts)))
    return Spectrum(
        t,
        period,
        moment,
        centre,
        frequency,
        term,
        float(np.exp(log_goal)),
        rounding,
        relative,
        right,
        dropped,
        (max(infinite * (1 - 1e-12) - dropped, 0.0) if infinite else 0.0, infinite * (1 + 1e-12)),
        sum(part.nodes.loss.size for part in parts),
    )


def detail(spectrum: Spectrum) -> dict[str, object]:
    """What a report may say about how the bounds came about."""
    return {
        "method": "fourier",
        "tilt": spectrum.t,
        "frequencies": int(spectrum.frequency.size),
        "nodes": spectrum.nodes,
        "error_budget": {
            "truncation": spectrum.truncation,
            "relative": spectrum.relative,
            "dropped": spectrum.dropped,
        },
    }


def epsilon_bounds(spectrum: Spectrum, delta: float) -> tuple[float, float]:
    """[lower, upper] for epsilon at delta: a secant for the central value, then ends that are verified one by one."""
    if spectrum.bounds(0.0)[1] <= delta:
        return 0.0, 0.0
    start = max(0.0, (spectrum.log_moment + log_gmax(spectrum.t) - float(np.log(delta))) / spectrum.t)
    middle, slope = _central(spectrum, delta, start)
    return _verified(spectrum, delta, middle, slope, -1), _verified(spectrum, delta, middle, slope, 1)


def _central(spectrum: Spectrum, delta: float, start: float) -> tuple[float, float]:
    """epsilon where the middle of the bounds equals delta (clipped at 0), and -d log delta / d epsilon there."""
    target = float(np.log(delta))

    def height(e: float) -> float:
        lower, upper = spectrum.bounds(e)
        return float(np.log(max((lower + upper) / 2, 1e-320))) - target

    a, slope = max(start, 0.0), spectrum.t
    fa = height(a)
    for _ in range(25):
        b = max(a + fa / slope, 0.0)
        if abs(b - a) <= 1e-12 * b + 1e-300:
            break
        fb = height(b)
        fresh = (fa - fb) / (b - a)
        slope = float(np.clip(fresh, spectrum.t / 10, 20 * (spectrum.t + 1))) if np.isfinite(fresh) else slope
        a, fa = b, fb
    return a, slope


def _verified(spectrum: Spectrum, delta: float, middle: float, slope: float, side: int) -> float:
    """An epsilon near `middle` at which the bound proves that the truth lies on the other side."""
    lower, upper = spectrum.bounds(middle)
    off = abs(np.log(max(upper if side > 0 else lower, 1e-320) / delta)) / slope
    move = max(1.05 * float(off), 1e-15 * max(middle, 1e-300))
    for _ in range(80):
        candidate = middle + side * move
        if candidate <= 0 and side < 0:
            return 0.0
        lower, upper = spectrum.bounds(candidate)
        if (upper <= delta) if side > 0 else (lower > delta):
            return candidate
        move *= 2
    return np.inf if side > 0 else 0.0
