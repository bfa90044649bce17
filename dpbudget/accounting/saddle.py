"""Where to lay the contour: the composition with its far tails cut, and the saddle point of its integrand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dpbudget.accounting.core import Core
from dpbudget.accounting.cumulant import Quadrature, quadrature, resolved_moment
from dpbudget.accounting.pairs import Pair

Parts = Sequence[tuple[Pair, int]]
Nodes = list[tuple[Quadrature, int]]

MAX_NODES = 100_000  # nodes in x
TURN = 10.0  # radians by which e^{iyL} may turn across a panel of 16 nodes


class NoConvergence(Exception):
    """The quadrature did not pass its own check; private to the contour engine."""


@dataclass(frozen=True)
class Cut:
    """The composition with the upper tails cut at exp(log_mass) of P together, on quadratures as fine as y needs them."""

    parts: list[tuple[Pair, int]]
    log_mass: float
    cache: dict[tuple[int, int], Nodes] = field(default_factory=dict)

    def nodes(self, t: float, y: float) -> Nodes:
        """Quadratures that resolve e^{(t + iy)L}, built in steps of a factor 2: a panel turns it by at most 10 radians.

        Raises NoConvergence where they need more than MAX_NODES: an estimate is not worth seconds.
        """
        level = (math.ceil(math.log2(max(t, y, 2.0))), math.ceil(math.log2(t)))
        if level not in self.cache:
            per_step = self.log_mass - math.log(sum(count for _, count in self.parts))
            step = TURN / 2.0 ** level[0]
            self.cache[level] = [
                (quadrature(pair, per_step, log_below=per_step - 20.0, loss_step=step, tilt=t), count)
                for pair, count in self.parts
            ]
        if max(nodes.loss.size for nodes, _ in self.cache[level]) > MAX_NODES:
            raise NoConvergence
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


def infinite_mass(parts: Parts) -> float:
    """1 - prod (1 - p_inf)^T."""
    if any(pair.infinite_mass >= 1.0 for pair, _ in parts):
        return 1.0
    return -math.expm1(sum(count * math.log1p(-pair.infinite_mass) for pair, count in parts))


@dataclass(frozen=True)
class Saddle:
    """The tilt t, the epsilon whose saddle point it is, log delta there to leading order and its upper bound, F''(t)."""

    t: float
    epsilon: float
    log_delta: float
    log_bound: float
    curvature: float


def saddle_at(cut: Cut, t: float, core: Core | None = None) -> Saddle:
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
    return Saddle(t, epsilon, log_delta, log_bound, second)


def solve_saddle(cut: Cut, wanted: str, target: float, t: float, core: Core | None = None) -> Saddle:
    """The saddle point whose `epsilon` (increasing in t) or `log_delta` (decreasing) is the target, to about 1e-3.

    Secant steps in log t inside a bracket, every third a bisection: a tail that is barely cut puts a kink there. The
    result only places the contour: any t near it will do.
    """
    lo, hi = 0.0, math.inf
    best, before = saddle_at(cut, t, core), None
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
        best = saddle_at(cut, guess, core)
    return best
