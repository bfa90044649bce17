"""The narrow bulk of a rarely sampled step, taken out of the contour integral.

With a small rate almost every step has a loss next to one value, and the characteristic function of the sum decays only
as fast as that bulk is wide: millions of nodes. Split each step smoothly, M = M_core + M_rest, where the core is the
loss within a radius of its median. The term M_core^T of M^T is a sum that never comes near epsilon:
  - all below epsilon: it contributes nothing;
  - all above epsilon: it contributes prod M_core(0)^T - e^epsilon prod M_core(-1)^T exactly.
What is left, M^T - M_core^T, decays as fast as the rest is smooth. What "never" costs is bounded by Chernoff, and the
radius is the largest at which that is below 1e-11 of delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

from dpbudget.accounting.cumulant import Quadrature

Array = NDArray[np.float64]
Moments = tuple[float, float, float]

NEGLIGIBLE = math.log(1e-11)
_TILTS = np.geomspace(0.5, 300.0, 24)


@dataclass(frozen=True)
class Core:
    """Per part: nodes and count, the median loss; one radius. above: the core's sum lies above epsilon, not below."""

    parts: list[tuple[Quadrature, int]]
    medians: tuple[float, ...]
    radius: float
    above: bool

    def outside(self, loss: Array, part: int) -> Array:
        """1 - the smooth indicator of the core of one part; shape of loss."""
        return np.asarray(0.5 * erfc(6.0 * (1.0 - np.abs(loss - self.medians[part]) / self.radius)))

    def log_power(self, s: float) -> float:
        """log prod M_core(s)^T."""
        total = 0.0
        for j, (nodes, count) in enumerate(self.parts):
            shift = self.medians[j]
            inside = 1.0 - self.outside(nodes.loss, j)
            near = inside > 0.0
            with np.errstate(under="ignore"):
                change = np.sum(nodes.weight[near] * inside[near] * np.expm1(s * (nodes.loss[near] - shift)))
            lost = float(nodes.weight @ (1.0 - inside)) + nodes.missing
            if not change - lost > -1.0:
                return math.inf
            total += count * (math.log1p(float(change) - lost) + s * shift)
        return total

    def without(self, parts: list[tuple[Quadrature, int]], t: float, whole: Moments) -> Moments:
        """log(M^T - M_core^T) at t, its slope and curvature, from those of log M^T; nodes that resolve e^{tL}."""
        gap = slope = curvature = 0.0
        for j, (nodes, count) in enumerate(parts):
            exponent = t * nodes.loss + nodes.log_weight
            with np.errstate(under="ignore"):
                p = np.exp(exponent - np.max(exponent))
            p /= np.sum(p)
            outside = self.outside(nodes.loss, j)
            inside = p * (1.0 - outside)
            size = float(np.sum(inside))
            if not size > 0.0:
                return whole
            mean = float(inside @ nodes.loss) / size
            gap += count * math.log1p(-min(float(p @ outside), 1.0 - 1e-16))
            slope += count * mean
            curvature += count * float(inside @ np.square(nodes.loss - mean)) / size
        ratio, left = math.exp(gap), -math.expm1(gap)
        if not left > 0.0:
            return whole
        first = (whole[1] - ratio * slope) / left
        second = (whole[2] + whole[1] ** 2 - ratio * (curvature + slope**2)) / left - first**2
        return whole[0] + math.log(left), first, max(second, 0.0)

    def negligible(self, epsilon: float, log_delta: float) -> bool:
        """Whether the core's sum passes epsilon, to the wrong side, with less than 1e-11 of delta."""
        sign = -1.0 if self.above else 1.0
        best = math.inf
        for c in _TILTS:
            s = sign * c / self.radius
            best = min(best, self.log_power(s) - s * epsilon)
            if best < log_delta + NEGLIGIBLE:
                return True
        return False

    def contribution(self, epsilon: float, height: float) -> tuple[float, float]:
        """pi e^{-height} times the core's part of delta, and its derivative in epsilon."""
        log_p, log_q = self.log_power(0.0), self.log_power(-1.0) + epsilon
        with np.errstate(over="ignore"):
            scale = math.pi * float(np.exp(log_p - height))
        return -scale * math.expm1(log_q - log_p), -scale * math.exp(log_q - log_p)


def find_core(parts: list[tuple[Quadrature, int]], epsilon: float, log_delta: float) -> Core | None:
    """The largest core that stays away from epsilon, or None."""
    medians = []
    for nodes, _ in parts:
        order = np.argsort(nodes.loss)
        cumulated = np.cumsum(nodes.weight[order])
        medians.append(float(nodes.loss[order][np.searchsorted(cumulated, 0.5 * cumulated[-1])]))
    distance = epsilon - sum(count * m for m, (_, count) in zip(medians, parts, strict=True))
    if distance == 0.0:
        return None
    for divisor in 2.0 ** np.arange(0.0, 10.0):
        core = Core(parts, tuple(medians), abs(distance) / float(divisor), distance < 0.0)
        if core.negligible(epsilon, log_delta):
            return core
    return None
