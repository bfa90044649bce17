"""What a tuning bound sees of one trial: its whole privacy profile and its Renyi curve, direction by direction.

A direction names the pair (Q, Q') = (M(D), M(D')): "remove" and "add" are each other's reverse, "both" is its own.
A trial is all that happens in it: drawing the hyper-parameters, training, and scoring; the score is part of the output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpbudget.accounting import gaussian, zcdp
from dpbudget.accounting.pairs import Array
from dpbudget.errors import InputError, NotCertified

REVERSE = {"remove": "add", "add": "remove", "both": "both"}
ROUND = 2.3e-16


class BaseRun(Protocol):
    """One trial. All values err upwards only."""

    @property
    def directions(self) -> tuple[str, ...]:
        """("remove", "add") or ("both",)."""

    @property
    def pure_epsilon(self) -> float:
        """An epsilon at which delta is 0 in every direction; math.inf where there is none."""

    def delta_upper(self, direction: str, epsilons: Array) -> Array:
        """Certified upper bound of H_{Q|Q'}(e^eps) = sup_S Q(S) - e^eps Q'(S). epsilons: shape (n,), each >= 0."""

    def rdp(self, direction: str, orders: Array) -> Array:
        """D_alpha(Q || Q') in nats at orders of shape (n,), each > 1; math.inf where it is not finite."""

    def repeated(self, count: int) -> BaseRun:
        """The composition of `count` independent trials."""


def profile(base: BaseRun, direction: str, epsilons: Array) -> Array:
    """delta_{Q|Q'} at any real epsilons, errs upwards: delta(eps) = 1 - e^eps + e^eps delta_{Q'|Q}(-eps) below 0.

    Raises NotCertified where the base gives a value that is not a number.
    """
    epsilons = np.asarray(epsilons, dtype=np.float64)
    out = np.empty_like(epsilons)
    ahead = epsilons >= 0.0
    if ahead.any():
        out[ahead] = base.delta_upper(direction, epsilons[ahead])
    if not ahead.all():
        behind = epsilons[~ahead]
        out[~ahead] = np.exp(behind) * base.delta_upper(REVERSE[direction], -behind) - np.expm1(behind)
        out[~ahead] *= 1.0 + 4 * ROUND
    if not np.all(out >= 0.0):
        raise NotCertified("the profile of a trial is not a number >= 0 everywhere")
    return np.minimum(out, 1.0)


def least_passing(value: Callable[[float], float], target: float, low: float, high: float) -> float:
    """An x in [low, high] with value(x) <= target, next to the least one, for a decreasing function with values >= 0.

    The answer was evaluated and passed. math.inf where not even `high` passes, `low` where that does.
    Illinois steps on log value inside a bracket, until it is 1e-9 wide relative to x (1e-12 near 0).
    """
    if not (target >= 0.0):
        raise NotCertified("a target of the search is not a number")
    if value(low) <= target:
        return low
    if not value(high) <= target:
        return math.inf

    log_target = math.log(max(target, 1e-320))

    def height(x: float) -> float:
        v = value(x)
        if math.isnan(v):
            raise NotCertified("a bound could not be evaluated")
        away = math.log(max(v, 1e-320)) - log_target
        return away if v > target else min(away, 0.0)

    h_low, h_high, kept = height(low), height(high), 0
    for i in range(200):
        if high - low <= 1e-9 * high + 1e-12:
            break
        share = h_low / (h_low - h_high) if h_low > h_high else 0.5
        if i % 4 == 3 or not 0.0 < share < 1.0:
            share = 0.5
        middle = low + min(max(share, 1e-3), 1 - 1e-3) * (high - low)
        if not low < middle < high:
            break
        h = height(middle)
        if h > 0.0:
            low, h_low, h_high, kept = middle, h, h_high / 2 if kept < 0 else h_high, -1
        else:
            high, h_high, h_low, kept = middle, h, h_low / 2 if kept > 0 else h_low, 1
    return high


def epsilon_of(base: BaseRun, direction: str, delta: float) -> float:
    """The least epsilon >= 0 of one trial at `delta` in one direction, rounded up; math.inf where there is none."""

    def value(epsilon: float) -> float:
        return float(profile(base, direction, np.array([epsilon]))[0])

    high = 1.0
    while high < 1e7 and not value(high) <= delta:
        high *= 2.0
    return least_passing(value, delta, 0.0, high)


@dataclass(frozen=True)
class GaussianBase:
    """One Gaussian release with mu = sensitivity over noise standard deviation, in closed form.

    Source of the profile: Balle, Wang 2018, arXiv:1805.06530, Thm 8; D_alpha = alpha mu^2 / 2.
    """

    mu: float
    directions: tuple[str, ...] = ("both",)

    def __post_init__(self) -> None:
        if not (0.0 < self.mu < math.inf):
            raise InputError("noise_multiplier", f"{self.mu} is not a positive ratio of sensitivity to noise")

    @property
    def pure_epsilon(self) -> float:
        return math.inf

    def delta_upper(self, direction: str, epsilons: Array) -> Array:
        sigma = 1.0 / self.mu * (1.0 - 2 * ROUND)
        return np.array([gaussian.delta(float(e), sigma) for e in epsilons])

    def rdp(self, direction: str, orders: Array) -> Array:
        return orders * (self.mu**2 / 2 * (1.0 + 4 * ROUND))

    def repeated(self, count: int) -> GaussianBase:
        return GaussianBase(self.mu * math.sqrt(count) * (1.0 + 2 * ROUND), self.directions)


@dataclass(frozen=True)
class ZCDPBase:
    """A trial of which only rho-zCDP is known: D_alpha <= alpha rho, and the delta that follows from it."""

    rho: float
    directions: tuple[str, ...] = ("both",)

    def __post_init__(self) -> None:
        if not (0.0 < self.rho < math.inf):
            raise InputError("rho", f"{self.rho} is not a positive number")

    @property
    def pure_epsilon(self) -> float:
        return math.inf

    def delta_upper(self, direction: str, epsilons: Array) -> Array:
        return np.array([zcdp.delta(self.rho, float(e)) for e in epsilons])

    def rdp(self, direction: str, orders: Array) -> Array:
        return orders * self.rho

    def repeated(self, count: int) -> ZCDPBase:
        return ZCDPBase(self.rho * count * (1.0 + ROUND), self.directions)


@dataclass(frozen=True)
class MixedBase:
    """A configuration drawn at random in each trial: bases[i] with probability weights[i], on D as on D'.

    With the index revealed delta is the mean of the deltas and e^{(alpha - 1) D_alpha} the mean of its values; hiding
    the index is post-processing. The law of the index must not depend on the data.
    """

    bases: Sequence[BaseRun]
    weights: Sequence[float]

    def __post_init__(self) -> None:
        if len(self.bases) != len(self.weights) or not self.bases:
            raise InputError("weights", "there must be one weight for each configuration")
        if not all(w >= 0.0 for w in self.weights) or not abs(math.fsum(self.weights) - 1.0) <= 1e-12:
            raise InputError("weights", "the weights of the configurations do not add up to 1")

    @property
    def directions(self) -> tuple[str, ...]:
        names = {name for base in self.bases for name in base.directions}
        return ("remove", "add") if "remove" in names else ("both",)

    @property
    def pure_epsilon(self) -> float:
        return max(base.pure_epsilon for base in self.bases)

    def delta_upper(self, direction: str, epsilons: Array) -> Array:
        out = np.zeros(np.shape(epsilons))
        for base, weight in zip(self.bases, self.weights, strict=True):
            name = direction if direction in base.directions else "both"
            out += weight * base.delta_upper(name, epsilons)
        return out * (1.0 + 1e-12)

    def rdp(self, direction: str, orders: Array) -> Array:
        lam, curves = orders - 1.0, []
        for base, weight in zip(self.bases, self.weights, strict=True):
            if weight > 0.0:
                name = direction if direction in base.directions else "both"
                curves.append(lam * base.rdp(name, orders) + math.log(weight))
        top = np.max(curves, axis=0)
        with np.errstate(invalid="ignore"):
            total = top + np.log(np.sum(np.exp(np.array(curves) - top), axis=0))
        return np.where(top == np.inf, np.inf, np.maximum(total, 0.0) / lam * (1.0 + 1e-12))

    def repeated(self, count: int) -> BaseRun:
        if count == 1:
            return self
        raise NotCertified(
            "a fixed number of trials with randomly drawn configurations has no bound here",
            hint="Account each trial as the configuration that costs most, or let the number of trials be random.",
        )
