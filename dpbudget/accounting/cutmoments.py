"""What the parts of a composition add to the moments of the privacy loss, the upper tail of each cut off.

Three kinds of parts: pairs in general, by quadrature; the plain Gaussian release, in closed form at any multiplier; and
releases of which only rho-zCDP is known, K(lam) <= rho lam (1 + lam) by definition (Bun, Steinke 2016, arXiv:1605.02065,
Def. 1.1), of which nothing is cut. What is cut and why it may be: `rdp`. Everything errs upwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.special import erfcx, log_ndtr

from dpbudget.accounting.cumulant import Quadrature, log_moment, quadrature
from dpbudget.accounting.pair import Pair
from dpbudget.accounting.pairs import SampledGaussianRemove

ROUND = 2.0**-52
Moment = tuple[float, float, float]
"""K(lam) = log E_P[e^{lam L}; kept], its slope and its curvature; of K an upper bound."""


class CutPart(Protocol):
    """One use of one release. missing: P-mass that is cut.  limit: lam up to which K is resolved.  size: of the work.

    mean: an upper bound on E_P[L; kept].  square: about E_P[L^2].
    """

    @property
    def missing(self) -> float: ...
    @property
    def limit(self) -> float: ...
    @property
    def size(self) -> int: ...
    @property
    def mean(self) -> float: ...
    @property
    def square(self) -> float: ...
    def moment(self, lam: float) -> Moment: ...


@dataclass(frozen=True)
class ByQuadrature:
    """Any pair; beyond `limit` K continues with the slope of the largest loss, which lies above."""

    nodes: Quadrature

    @property
    def missing(self) -> float:
        return self.nodes.missing

    @property
    def limit(self) -> float:
        return self.nodes.limit

    @property
    def size(self) -> int:
        return int(self.nodes.loss.size)

    @property
    def mean(self) -> float:
        n = self.nodes
        return max(n.mean + max(n.bottom, 0.0) * n.below + 1e-14 * n.mean_size, 0.0)

    @property
    def square(self) -> float:
        return float(self.nodes.weight @ np.square(self.nodes.loss))

    def moment(self, lam: float) -> Moment:
        m = log_moment(self.nodes, np.array([lam]))
        return float(m.value[0]) + float(m.error[0]), float(m.slope[0]), float(m.curvature[0])


@dataclass(frozen=True)
class PlainGaussian:
    """(N(1, s^2), N(0, s^2)), cut where z = (X - 1) / s exceeds `top`.

    A tilt by lam moves the mean by lam: K = lam (1 + lam) / 2s^2 + log Phi(top - lam / s).
    """

    sigma: float
    top: float
    missing: float
    limit = math.inf
    size = 1

    @property
    def mean(self) -> float:
        return 0.5 / self.sigma / self.sigma * (1 + 4 * ROUND)

    @property
    def square(self) -> float:
        return (2.0 + self.mean) * self.mean

    def moment(self, lam: float) -> Moment:
        unit = 1.0 / self.sigma
        z = self.top - lam * unit
        whole, kept = 0.5 * (lam * unit) * ((1.0 + lam) * unit), float(log_ndtr(z))
        hazard = math.sqrt(2.0 / math.pi) / float(erfcx(-z / math.sqrt(2.0)))
        slope = (0.5 + lam) * unit * unit - hazard * unit
        curvature = max(1.0 - hazard * (z + hazard), 0.0) * unit * unit
        return whole + kept + 16 * ROUND * (whole - kept), slope, curvature


@dataclass(frozen=True)
class Concentrated:
    """Whatever is rho-zCDP, in all of its uses together."""

    rho: float
    missing = 0.0
    limit = math.inf
    size = 1

    @property
    def mean(self) -> float:
        """D_1 <= D_alpha <= rho alpha for every alpha > 1."""
        return self.rho

    @property
    def square(self) -> float:
        return (2.0 + self.rho) * self.rho

    def moment(self, lam: float) -> Moment:
        return self.rho * lam * (1.0 + lam) * (1 + 4 * ROUND), self.rho * (1.0 + 2.0 * lam), 2.0 * self.rho


def cut_part(pair: Pair, log_tail: float, refine: float) -> CutPart:
    """A pair without at most e^log_tail of its upper tail. refine: how many times more panels than it asks for."""
    if isinstance(pair, SampledGaussianRemove) and pair.rate == 1.0:
        end = pair.support(log_tail)[1]
        return PlainGaussian(pair.sigma, (end - 1.0) / pair.sigma, math.exp(pair.log_upper_tail(end)))
    return ByQuadrature(quadrature(pair, log_tail, log_below=log_tail - 30.0, refine=refine))


@dataclass(frozen=True)
class CutTotal:
    """The composition: parts with their counts, and the P-mass that all cuts together lose, rounded up."""

    parts: list[tuple[CutPart, int]]
    cut: float

    @cached_property
    def limit(self) -> float:
        """The largest lam that every part resolves."""
        return min(part.limit for part, _ in self.parts)

    @cached_property
    def size(self) -> int:
        return max(part.size for part, _ in self.parts)

    @cached_property
    def square(self) -> float:
        return sum(count * part.square for part, count in self.parts)

    def moment(self, lam: float) -> Moment:
        value = slope = curvature = 0.0
        for part, count in self.parts:
            k, first, second = part.moment(lam)
            value, slope, curvature = value + count * k, slope + count * first, curvature + count * second
        return value, slope, curvature

    @cached_property
    def divergence(self) -> float:
        """KL of the cut and renormalised law P'' = P' / P'(1) against Q, which adds up over the parts."""
        total = 0.0
        for part, count in self.parts:
            total += count * (part.mean / (1.0 - part.missing) - math.log1p(-part.missing))
        return total * (1.0 + 1e-12)


def cut_total(parts: list[tuple[Pair, int]], rho: float, log_mass: float, refine: float) -> CutTotal:
    """The composition of pairs and of rho-zCDP releases, with at most exp(log_mass) of P cut, shared equally by all steps."""
    per_step = log_mass - math.log(max(1, sum(count for _, count in parts)))
    found = [(cut_part(pair, per_step, refine), count) for pair, count in parts]
    kept = 0.0
    for part, count in found:
        if part.missing >= 1.0:
            return CutTotal(found, 1.0)
        kept += count * math.log1p(-part.missing)
    if rho > 0.0:
        found.append((Concentrated(rho), 1))
    return CutTotal(found, -math.expm1(kept) * (1.0 + 1e-12))
