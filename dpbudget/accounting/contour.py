"""delta(epsilon) by a contour integral over the cumulant of the loss: ten digits in milliseconds, and no proof.

With K(z) = sum_j T_j log E_{P_j}[e^{z L_j}] and any t > 0
    delta(eps) = (1 / 2 pi) int exp(K(t + iy) - eps (t + iy)) / ((t + iy)(1 + t + iy)) dy.
The trapezoid rule with step dy converges exponentially: its error is sum_{k != 0} e^{t k R} delta(eps + k R), R = 2 pi / dy.
t is the saddle point, so that the integrand does not cancel and delta = 1e-50 costs what 1e-5 does.
Every value is compared with the same sum on half the nodes and with finer panels in x; what can't be trusted to 1e-8 is
None, never a number. Estimates only: they steer the solvers, certified bounds come from elsewhere.
Source: Alghamdi et al. 2023, arXiv:2208.09595; the trapezoid error by Poisson summation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dpbudget.accounting.core import Core, find_core
from dpbudget.accounting.cumulant import Quadrature, quadrature, resolved_moment
from dpbudget.accounting.pairs import Pair
from dpbudget.accounting.single import single_log_delta
from dpbudget.errors import InputError, NotCertified

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
Parts = Sequence[tuple[Pair, int]]

LOG_CUT, LOG_ENOUGH = math.log(1e-12), math.log(1e-10)  # share of delta above the last node: aimed at, accepted
LOG_CUT_CORE = math.log(1e-24)  # the same with a core: a cut is a jump, and its transform is all that decays slowly
MAX_WORK = 400_000_000  # nodes in x times nodes in y
MAX_NODES = 100_000  # nodes in x
TURN = 10.0  # radians by which e^{iyL} may turn across a panel of 16 nodes
DECAYED = 32.0  # the integrand is over where it has fallen by e^-32


class NoConvergence(Exception):
    """The quadrature did not pass its own check; private to this module."""


Nodes = list[tuple[Quadrature, int]]

@dataclass(frozen=True)
class _Cut:
    """The composition with the upper tails cut at exp(log_mass) of P together, on quadratures as fine as y needs them."""

    parts: list[tuple[Pair, int]]
    log_mass: float
    cache: dict[tuple[int, int], Nodes] = field(default_factory=dict)

    def nodes(self, t: float, y: float) -> Nodes:
        """Quadratures that resolve e^{(t + iy)L}, built in steps of a factor 2: a panel turns it by at most 10 radians."""
        level = (math.ceil(math.log2(max(t, y, 2.0))), math.ceil(math.log2(t)))
        if level not in self.cache:
            per_step = self.log_mass - math.log(sum(count for _, count in self.parts))
            step = TURN / 2.0 ** level[0]
            self.cache[level] = [
                (quadrature(pair, per_step, log_below=per_step - 20.0, loss_step=step, tilt=t), count)
                for pair, count in self.parts
            ]
        return self.cache[level]

    def rough(self, t: float) -> tuple[float, float, float]:
        """As `real`, with an absolute error of K of some 1e-15 a step: to place the contour."""
        value = slope = curvature = 0.0
        for nodes, count in self.nodes(t, t):
            exponent = t * nodes.loss + nodes.log_weight
            top = float(np.max(exponent))
            with np.errstate(under="ignore"):
                p = np.exp(exponent - top)
            size = float(np.sum(p))
            mean = float(p @ nodes.loss) / size
            value += count * (top + math.log(size))
            slope += count * mean
            curvature += count * float(p @ np.square(nodes.loss - mean)) / size
        return value, slope, curvature

    def real(self, t: float) -> tuple[float, float, float]:
        """K, K', K'' at real t, on panels across which e^{tL} grows by at most e^TURN."""
        value = slope = curvature = 0.0
        for nodes, count in self.nodes(t, t):
            m = resolved_moment(nodes, np.array([t]))
            value += count * float(m.value[0])
            slope += count * float(m.slope[0])
            curvature += count * float(m.curvature[0])
        return value, slope, curvature


def _infinite(parts: Parts) -> float:
    """1 - prod (1 - p_inf)^T."""
    if any(pair.infinite_mass >= 1.0 for pair, _ in parts):
        return 1.0
    return -math.expm1(sum(count * math.log1p(-pair.infinite_mass) for pair, count in parts))


@dataclass(frozen=True)
class _Saddle:
    """The tilt t, the epsilon whose saddle point it is, log delta there to leading order and its upper bound, F''(t)."""

    t: float
    epsilon: float
    log_delta: float
    log_bound: float
    curvature: float


def _saddle(cut: _Cut, t: float, core: Core | None = None) -> _Saddle:
    """F(t) = K(t) - eps t - log t - log(1 + t) is stationary at t for this eps; delta ~ e^F / sqrt(2 pi F'').

    With a core, K = log(M^T - M_core^T): its saddle point is not held up by the bulk.
    """
    value, slope, curvature = cut.rough(t)
    if core is not None:
        value, slope, curvature = core.without(cut.nodes(t, t), t, (value, slope, curvature))
    epsilon = slope - 1.0 / t - 1.0 / (1.0 + t)
    second = curvature + t**-2 + (1.0 + t) ** -2
    log_delta = value - t * epsilon - math.log(t) - math.log1p(t) - 0.5 * math.log(2.0 * math.pi * second)
    log_bound = value - t * epsilon - t * math.log1p(1.0 / t) - math.log1p(t)
    return _Saddle(t, epsilon, log_delta, log_bound, second)


def _solve(cut: _Cut, wanted: str, target: float, t: float, core: Core | None = None) -> _Saddle:
    """The saddle point whose `epsilon` (increasing in t) or `log_delta` (decreasing) is the target, to about 1e-3.

    Secant steps in log t inside a bracket, every third a bisection: a tail that is barely cut puts a kink there. The
    result only places the contour: any t near it will do.
    """
    lo, hi = 0.0, math.inf
    best, before = _saddle(cut, t, core), None
    for round_ in range(90):
        gap = (best.epsilon - target) if wanted == "epsilon" else (target - best.log_delta)
        lo, hi = (best.t, hi) if gap < 0.0 else (lo, best.t)
        scale = 0.02 / best.t if wanted == "epsilon" else 0.02
        if abs(gap) < scale or hi < lo * (1.0 + 1e-6) or not 1e-30 < best.t < 1e30:
            break
        step = math.copysign(1.0, -gap)
        if before is not None and before[1] != gap:
            step = -gap * (math.log(best.t) - before[0]) / (gap - before[1])
        before = (math.log(best.t), gap)
        guess = best.t * math.exp(min(max(step, -2.0), 2.0))
        if not lo < guess < hi or (round_ % 3 == 2 and lo > 0.0 and hi < math.inf):
            guess = math.sqrt(lo * hi) if lo > 0.0 and hi < math.inf else (8.0 * lo if hi == math.inf else hi / 8.0)
        best = _saddle(cut, guess, core)
    return best


def _tilted(nodes: Quadrature, t: float) -> tuple[Array, Array, Array]:
    """The tilted law on the nodes that matter: probabilities p', losses, losses around their mean; shapes (n,)."""
    exponent = t * nodes.loss + nodes.log_weight
    with np.errstate(under="ignore"):
        p = np.exp(exponent - np.max(exponent))
    p /= np.sum(p)
    keep = p > 1e-24
    p, loss = p[keep], nodes.loss[keep]
    return p, loss, loss - p @ loss


def _log_turn(real: Array, imag: Array) -> Complex:
    """log(1 + real + i imag); the modulus is floored at 1e-8, far below what a sum of steps can see."""
    size = 0.5 * np.log1p(np.maximum(2.0 * real + real * real + imag * imag, -1.0 + 1e-16))
    return np.asarray(size + 1j * np.arctan2(imag, 1.0 + real))


def _log_outside(cores: Complex) -> Complex:
    """log(1 - e^cores), floored at log 1e-300."""
    left = -np.expm1(cores)
    return np.asarray(np.log(np.where(left == 0.0, 1e-300, left)))


def _phase(parts: Nodes, t: float, y: Array, core: Core | None = None) -> Complex:
    """K(t + iy) - K(t) - iy K'(t), shape of y, with small absolute error also after 1e9 steps.

    With p' the tilted law and d = L - E_{p'}[L]: log(1 + E_{p'}[e^{iyd} - 1]), where e^{ia} - 1 = -2 sin^2(a/2) + 2i
    sin(a/2) cos(a/2) has no cancellation. With a core, log(M^T - M_core^T) in place of log M^T.
    """
    total = np.zeros(y.size, dtype=np.complex128)
    cores = np.zeros(y.size, dtype=np.complex128)
    for j, (nodes, count) in enumerate(parts):
        p, loss, d = _tilted(nodes, t)
        half = np.multiply.outer(y / 2.0, d)
        sine = np.sin(half)
        real, imag = -2.0 * np.square(sine), 2.0 * (sine * np.cos(half))
        turn = np.asarray(real @ p + 1j * (imag @ p), dtype=np.complex128)
        total += count * _log_turn(turn.real, turn.imag)
        if core is not None:
            rest = p * core.outside(loss, j)
            cores += count * np.log1p(-((1.0 + real + 1j * imag) @ rest) / (1.0 + turn))
    return total if core is None else total + _log_outside(cores)


def _phase_grid(parts: Nodes, t: float, y: Array, step: float, core: Core | None) -> Complex:
    """_phase on equidistant y, as a product of two thin matrices: e^{i(a B + b)} = e^{iaB} e^{ib}.

    Absolute error about 1e-16 times the number of steps.
    """
    inner = math.ceil(math.sqrt(y.size))
    outer = math.ceil(y.size / inner)
    low, high = step * np.arange(inner), y[0] + step * inner * np.arange(outer)
    total = np.zeros(y.size, dtype=np.complex128)
    cores = np.zeros(y.size, dtype=np.complex128)
    for j, (nodes, count) in enumerate(parts):
        p, loss, d = _tilted(nodes, t)
        rest = p * core.outside(loss, j) if core is not None else p[:0]
        whole = np.zeros((outer, inner), dtype=np.complex128)
        outside = np.zeros((outer, inner), dtype=np.complex128)
        for i in range(0, d.size, 4096):
            rows = slice(i, i + 4096)
            left = np.exp(1j * np.multiply.outer(high, d[rows]))
            right = np.exp(1j * np.multiply.outer(d[rows], low))
            whole += (left * p[rows]) @ right
            if core is not None:
                outside += (left * rest[rows]) @ right
        flat = whole.ravel()[: y.size] - np.sum(p)
        total += count * _log_turn(flat.real, flat.imag)
        if core is not None:
            cores += count * np.log1p(-outside.ravel()[: y.size] / (1.0 + flat))
    return total if core is None else total + _log_outside(cores)


def _atoms_survive(parts: Nodes, t: float, core: Core | None) -> bool:
    """Whether the characteristic function may come back however far y goes: the atoms' share of the tilted law, to the T.

    With a core, atoms inside it are gone with it, so that only atoms outside matter.
    """
    share, outside = 0.0, core is None
    for j, (nodes, count) in enumerate(parts):
        exponent = t * nodes.loss + nodes.log_weight
        with np.errstate(under="ignore"):
            p = np.exp(exponent - np.max(exponent))
        at = p[p.size - nodes.atoms :]
        share += count * math.log(max(float(np.sum(at)) / float(np.sum(p)), 1e-300))
        if core is not None and nodes.atoms > 0:
            outside = outside or bool(np.any(at * core.outside(nodes.loss[-nodes.atoms :], j) > 1e-18 * np.sum(p)))
    return outside and share > -DECAYED


def _reach(cut: _Cut, t: float, unit: float, core: Core | None) -> float:
    """A y beyond which the integrand has fallen by e^-DECAYED, from a scan of powers of 1.3 upwards from `unit`."""
    if _atoms_survive(cut.nodes(t, t), t, core):
        raise NoConvergence
    y = unit * 1.3 ** np.arange(-4.0, 4.0)
    start = float(_phase(cut.nodes(t, t), t, np.zeros(1), core)[0].real)
    for _ in range(12):
        nodes = cut.nodes(t, float(y[-1]))
        if max(n.loss.size for n, _ in nodes) > MAX_NODES:
            raise NoConvergence
        size = _phase(nodes, t, y, core).real
        size = size - 0.5 * (np.log1p(np.square(y / t)) + np.log1p(np.square(y / (1.0 + t))))
        alive = np.flatnonzero(size > start - DECAYED)
        last = int(alive[-1]) + 1 if alive.size else 0
        if last <= y.size - 2:
            return float(y[last])
        y = y * 1.3**y.size
    raise NoConvergence


@dataclass(frozen=True)
class _Contour:
    """exp of the transform on the nodes z = t + iy, y = 0, step, 2 step, ...; serves every epsilon near `centre`."""

    t: float
    centre: float
    height: float
    z: Complex
    log_integrand: Complex
    step: float
    core: Core | None

    def trusted(self, epsilon: float, log_delta: float) -> bool:
        """Whether what the core was assumed to contribute holds at this epsilon and delta."""
        return self.core is None or self.core.negligible(epsilon, log_delta)

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """log delta of the part without infinite loss, its derivative in epsilon, and the change on half the nodes."""
        exponent = self.log_integrand - self.z * (epsilon - self.centre)
        if not exponent[0].real < 600.0:
            raise NoConvergence
        terms = np.exp(exponent)
        terms[0] *= 0.5
        value = float(np.sum(terms.real))
        coarse = 2.0 * float(np.sum(terms[::2].real))
        slope = -float(np.sum((terms * self.z).real))
        if self.core is not None and self.core.above:
            surely, fall = self.core.contribution(epsilon, self.height)
            value, coarse, slope = value + surely / self.step, coarse + surely / self.step, slope + fall / self.step
        if not value > 0.0:
            raise NoConvergence
        shift = self.height + math.log(value * self.step / math.pi)
        return shift, slope / value, abs(coarse / value - 1.0)


def _contour(cut: _Cut, saddle: _Saddle, spread: float, core: Core | None) -> _Contour:
    """Nodes around the saddle point: period `spread` * (24 sqrt(F'') + 45 / t) in epsilon."""
    t, centre = saddle.t, saddle.epsilon
    value, slope, _ = cut.real(t)
    step = 2.0 * math.pi / (spread * (24.0 * math.sqrt(saddle.curvature) + 45.0 / t))
    end = _reach(cut, t, 1.0 / math.sqrt(saddle.curvature), core)
    if not (end / step + 2.0) * max(nodes.loss.size for nodes, _ in cut.nodes(t, end)) <= MAX_WORK:
        raise NoConvergence
    y = step * np.arange(end // step + 2.0)
    phase = np.concatenate([_phase_block(cut, t, block, step, core) for block in _octaves(y)])
    z: Complex = np.asarray(t + 1j * y, dtype=np.complex128)
    log_integrand = phase + 1j * y * (slope - centre) - np.log(z) - np.log1p(z)
    contour = _Contour(t, centre, value - t * centre, z, log_integrand, step, core)
    _check_panels(cut, contour, phase)
    return contour


def _octaves(y: Array) -> list[Array]:
    """y split where it passes a power of 2, so that each block needs one quadrature."""
    cuts = np.searchsorted(y, 2.0 ** np.arange(1.0, max(2.0, math.log2(y[-1]))))
    return [block for block in np.split(y, cuts) if block.size]


def _phase_block(cut: _Cut, t: float, y: Array, step: float, core: Core | None) -> Complex:
    nodes = cut.nodes(t, float(y[-1]))
    if y.size < 64 or sum(count for _, count in nodes) > 100_000:
        return np.concatenate([_phase(nodes, t, part, core) for part in np.array_split(y, 1 + y.size // 512)])
    return _phase_grid(nodes, t, y, step, core)


def _check_panels(cut: _Cut, contour: _Contour, phase: Complex) -> None:
    """Raise NoConvergence unless panels half as long agree at a sample of the nodes, and the last nodes have decayed."""
    size = np.exp(contour.log_integrand)
    allowed = 1e-9 * abs(float(np.sum(size.real)))
    index = np.unique(np.geomspace(1, phase.size - 1, 8).astype(np.int64))
    wrong = 0.0
    for i, before in zip(index, [0, *index[:-1]], strict=True):
        y = float(contour.z[i].imag)
        fine = _phase(cut.nodes(contour.t, 2.0 * y + 4.0), contour.t, np.array([y]), contour.core)[0]
        wrong += float(abs(size[i] * np.expm1(fine - phase[i]))) * (i - before)
    if not wrong + float(np.max(np.abs(size[-2:]))) * phase.size <= allowed:
        raise NoConvergence


def _live(parts: Parts) -> list[tuple[Pair, int]]:
    for _, count in parts:
        if not count >= 0:
            raise InputError("steps", f"{count} is not a number of steps >= 0")
    return [(pair, count) for pair, count in parts if count > 0]


def tilt(parts: Parts, delta: float) -> tuple[float, float]:
    """(t, epsilon): the saddle point of the composition at delta and the epsilon of leading order, within some per cent.

    delta: in (0, 1). Costs about a millisecond.
    """
    if not 0.0 < delta < 1.0:
        raise InputError("delta", f"{delta} is not in (0, 1)")
    cut = _Cut(_live(parts), math.log(delta) + LOG_CUT)
    found = _solve(cut, "log_delta", math.log(delta), _start(cut, math.log(delta)))
    return found.t, found.epsilon


def _start(cut: _Cut, log_delta: float) -> float:
    spread = sum(count * float(n.weight @ np.square(n.loss)) for n, count in cut.nodes(1.0, 1.0))
    return math.sqrt(-2.0 * log_delta / spread) if 0.0 < spread < math.inf else 1.0


def epsilon(parts: Parts, delta: float) -> float | None:
    """epsilon at delta to about 1e-9 relative, or None where the method does not pass its own check. An estimate."""
    return epsilons(parts, [delta])[0]


def epsilons(parts: Parts, deltas: Sequence[float]) -> list[float | None]:
    """epsilon at each delta."""
    live = _live(parts)
    out: list[float | None] = []
    for delta in deltas:
        if not delta > 0.0:
            raise InputError("delta", f"{delta} is not in (0, 1]")
        if not live or delta >= 1.0:
            out.append(0.0)
            continue
        try:
            out.append(_epsilon(live, delta))
        except (NoConvergence, NotCertified):
            out.append(None)
    return out


def _epsilon(parts: list[tuple[Pair, int]], delta: float) -> float:
    if sum(count for _, count in parts) == 1:
        return _single_epsilon(parts[0][0], math.log(delta))
    log_delta = math.log(delta)
    cut, infinite = _Cut(parts, log_delta + LOG_CUT), _infinite(parts)
    if delta <= infinite:
        return math.inf
    if _total_variation(cut) <= delta:
        return 0.0
    target = math.log(delta - infinite) if infinite > 0.0 else log_delta
    saddle = _solve(cut, "log_delta", target, _start(cut, target))
    try:
        return _find_epsilon(cut, saddle, target, False)
    except NoConvergence:
        return _find_epsilon(_Cut(parts, log_delta + LOG_CUT_CORE), saddle, target, True)


def _total_variation(cut: _Cut) -> float:
    """The sum of the steps' total variation distances, which bounds delta(0) from above."""
    return sum(
        count * (float(n.weight @ -np.expm1(-np.maximum(n.loss, 0.0))) + n.missing) for n, count in cut.nodes(1.0, 1.0)
    )


def _find_epsilon(cut: _Cut, saddle: _Saddle, target: float, with_core: bool) -> float:
    """Newton on one contour, a new contour where epsilon moved away from its saddle point, until it stays."""
    core, spread = None, 1.0
    for _ in range(14):
        if with_core:
            core, saddle = _coring(cut, saddle, target)
        contour = _contour(cut, saddle, spread, core)
        found, change = _newton(contour, target)
        moved = abs(found - saddle.epsilon) * saddle.t
        near = _solve(cut, "epsilon", found, saddle.t, core)
        stays = abs(math.log(near.t / saddle.t)) < 0.3 or moved < 1e-3
        if stays and change < 3e-5 and contour.trusted(found, target):
            return max(found, 0.0)
        spread = spread * 1.6 if stays and change >= 3e-5 else spread
        saddle = near
    raise NoConvergence


def _coring(cut: _Cut, saddle: _Saddle, target: float) -> tuple[Core, _Saddle]:
    """A core for about this epsilon, and the saddle point of what it leaves."""
    low, high = 0.0, math.inf
    for _ in range(24):
        core = find_core(cut.nodes(1.0, 1.0), saddle.epsilon, target)
        if core is None:
            raise NoConvergence
        if core.above:
            return core, _solve(cut, "epsilon", saddle.epsilon, saddle.t, core)
        better = _solve(cut, "log_delta", target, saddle.t, core)
        if abs(better.epsilon - saddle.epsilon) < 0.05 * abs(saddle.epsilon):
            return core, better
        if better.epsilon > saddle.epsilon:
            low, guess = saddle.epsilon, better.epsilon
        else:  # also where less than delta lies outside the core, and better.epsilon means nothing
            high, guess = saddle.epsilon, max(better.epsilon, saddle.epsilon / 8.0)
        if not low < guess < high:
            guess = math.sqrt(max(low, high / 64.0) * high)
        saddle = replace(saddle if better.epsilon <= 0.0 else better, epsilon=guess)
    raise NoConvergence


def _newton(contour: _Contour, target: float) -> tuple[float, float]:
    """The epsilon where log delta is the target, and the change on half the nodes there."""
    guess = contour.centre
    for _ in range(30):
        value, slope, change = contour.log_delta(guess)
        if not slope < 0.0:
            raise NoConvergence
        step = (target - value) / slope
        step = min(max(step, -5.0 / contour.t), 5.0 / contour.t)
        guess += step
        if abs(step) < 1e-12 * abs(guess) + 1e-14 / contour.t or abs(guess - contour.centre) * contour.t > 15.0:
            return guess, change
    raise NoConvergence


def _single_epsilon(pair: Pair, target: float) -> float:
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
    raise NoConvergence


def log_delta(parts: Parts, epsilon: float) -> float | None:
    """log delta at epsilon to about 1e-9, or None where the method does not pass its own check. An estimate."""
    if not epsilon >= 0.0:
        raise InputError("epsilon", f"{epsilon} is not a number >= 0")
    live = _live(parts)
    infinite = _infinite(live)
    if not live or epsilon == math.inf or infinite >= 1.0:
        return math.log(infinite) if infinite > 0.0 else -math.inf
    try:
        if sum(count for _, count in live) == 1:
            return single_log_delta(live[0][0], epsilon)[0]
        return float(np.logaddexp(_log_delta(live, epsilon), math.log(infinite) if infinite > 0.0 else -math.inf))
    except (NoConvergence, NotCertified):
        return None


def delta(parts: Parts, epsilon: float) -> float | None:
    """delta at epsilon, as log_delta."""
    value = log_delta(parts, epsilon)
    return None if value is None else math.exp(value)


def _log_delta(parts: list[tuple[Pair, int]], epsilon: float) -> float:
    """The cut must cost a fixed share of delta: cut by a guess, bound delta, and cut anew until the guess holds.

    The bound by one moment, not the leading order, which fails where a far tail still rules the moments.
    """
    guess = -60.0
    for _ in range(12):
        cut = _Cut(parts, guess)
        saddle = _solve(cut, "epsilon", epsilon, _start(cut, -30.0))
        wanted = min(saddle.log_bound, 0.0) + LOG_CUT - 4.0
        if abs(wanted - guess) < 2.0:
            break
        guess = wanted
    try:
        return _value_at(cut, saddle, epsilon, guess, None)
    except NoConvergence:
        guess += LOG_CUT_CORE - LOG_CUT
        cut = _Cut(parts, guess)
        core = find_core(cut.nodes(1.0, 1.0), epsilon, saddle.log_bound)
        if core is None:
            raise
        return _value_at(cut, _solve(cut, "epsilon", epsilon, saddle.t, core), epsilon, guess, core)


def _value_at(cut: _Cut, saddle: _Saddle, epsilon: float, log_cut: float, core: Core | None) -> float:
    for spread in (1.0, 1.6, 2.5):
        contour = _contour(cut, saddle, spread, core)
        value, _, change = contour.log_delta(epsilon)
        if value + LOG_ENOUGH < log_cut or not contour.trusted(epsilon, value):
            raise NoConvergence
        if change < 3e-5:
            return min(value, 0.0)
    raise NoConvergence
