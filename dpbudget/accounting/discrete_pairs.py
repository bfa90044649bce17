"""Pairs with atoms: Laplace noise, randomized response, and mechanisms known only by a guarantee."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbudget.accounting.pair import AnalyticPair, Array, Pair, lipschitz_variation, log_mixture_ratio


@dataclass(frozen=True)
class AtomicPair(Pair):
    """Point masses only. points: (loss, P-mass); infinite: P-mass where Q vanishes."""

    points: tuple[tuple[float, float], ...]
    infinite: float = 0.0
    panel = 1.0

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:  # type: ignore[override]
        return self.points

    @property
    def infinite_mass(self) -> float:  # type: ignore[override]
        return self.infinite

    @property
    def largest_loss(self) -> float:
        return max((loss for loss, _ in self.atoms), default=0.0)

    def log_p(self, x: Array) -> Array:
        return np.full(np.shape(x), -np.inf)

    def loss(self, x: Array) -> Array:
        return np.zeros(np.shape(x))

    def inverse_loss(self, loss: Array) -> Array:
        return np.where(np.asarray(loss) < 0, -np.inf, np.inf)

    def support(self, log_tail: float) -> tuple[float, float]:
        return 0.0, 0.0

    def log_upper_tail(self, x: float) -> float:
        return -np.inf

    def log_lower_tail(self, x: float) -> float:
        return -np.inf


def approximate_dp_pair(epsilon: float, delta: float) -> AtomicPair:
    """The worst (epsilon, delta)-DP mechanism in any direction.

    Source: Kairouz, Oh, Viswanath 2015, arXiv:1311.0776, Thm 3.1 and Lemma: P infinite with delta, else e^epsilon to 1.
    """
    high = (1 - delta) / (1 + np.exp(-epsilon))
    points: tuple[tuple[float, float], ...]
    points = ((float(-epsilon), float((1 - delta) - high)), (float(epsilon), float(high)))
    if epsilon == 0:
        points = ((0.0, 1 - delta),)
    elif epsilon > 30:
        points = ((float(-epsilon), float((1 - delta) * np.exp(-epsilon))), (float(epsilon), float(high)))
    return AtomicPair(points, delta)


def randomized_response_pair(categories: int, truth: float) -> AtomicPair:
    """k-ary randomized response, the true answer changed to another one: the same in both directions, attained."""
    other = (1 - truth) / categories
    own = truth + other
    if truth == 0:
        return AtomicPair(((0.0, 1.0),))
    if other == 0:
        return AtomicPair((), 1.0)
    ratio = float(np.log1p(truth / other))
    points = ((-ratio, other), (0.0, (categories - 2) * other), (ratio, own))
    return AtomicPair(tuple(point for point in points if point[1] > 0))


def randomized_response_zero_out_pairs(categories: int, truth: float) -> tuple[AtomicPair, AtomicPair]:
    """k-ary randomized response, the record zeroed out (first) or restored: without it the answer is uniform."""
    other = (1 - truth) / categories
    own = truth + other
    if truth == 0:
        return AtomicPair(((0.0, 1.0),)), AtomicPair(((0.0, 1.0),))
    high = float(np.log(own * categories))
    share = 1 / categories
    if other == 0:
        return AtomicPair(((high, 1.0),)), AtomicPair(((-high, share),), 1 - share)
    low = float(np.log1p(-truth))
    removed = AtomicPair(((low, (categories - 1) * other), (high, own)))
    return removed, AtomicPair(((-high, share), (-low, (categories - 1) * share)))


@dataclass(frozen=True)
class SampledLaplaceRemove(AnalyticPair):
    """P = (1-q) Lap(0, b) + q Lap(1, b), Q = Lap(0, b): a record removed or zeroed out; rate 1 is plain Laplace noise.

    Constant losses left of 0 and right of 1; in between v = (2x - 1) / b is the unsampled loss.
    Source: Zhu, Dong, Wang 2022, arXiv:2106.08567, Thm 11.
    """

    scale: float
    rate: float = 1.0

    @property
    def panel(self) -> float:  # type: ignore[override]
        return self.scale / 2

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:  # type: ignore[override]
        low, high = self.loss(np.array([0.0, 1.0]))
        right = 0.5 * (1 - self.rate) * np.exp(-1 / self.scale) + 0.5 * self.rate
        left = 0.5 * (1 - self.rate) + 0.5 * self.rate * np.exp(-1 / self.scale)
        return (float(low), float(left)), (float(high), float(right))

    @property
    def largest_loss(self) -> float:
        return max((loss for loss, _ in self.atoms), default=0.0)

    def loss(self, x: Array) -> Array:
        return log_mixture_ratio(self.rate, (2 * x - 1) / self.scale)

    def log_p(self, x: Array) -> Array:
        return np.asarray(-np.log(2 * self.scale) - x / self.scale + self.loss(x))

    def loss_and_log_p(self, x: Array) -> tuple[Array, Array]:
        loss = self.loss(x)
        return loss, -np.log(2 * self.scale) - x / self.scale + loss

    def inverse_loss(self, loss: Array) -> Array:
        loss = np.asarray(loss, dtype=np.float64)
        q = self.rate
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            inner = (
                loss
                if q == 1.0
                else np.where(loss < 30, np.log1p(np.expm1(np.minimum(loss, 30.0)) / q), loss - np.log(q))
            )
        x = (self.scale * inner + 1) / 2
        low, high = self.loss(np.array([0.0, 1.0]))
        return np.where(loss <= low, -np.inf, np.where(loss >= high, np.inf, x))

    def support(self, log_tail: float) -> tuple[float, float]:
        return 0.0, 1.0

    def log_upper_tail(self, x: float) -> float:
        return _log_of(1 - x, self.log_p(np.array([x, 1.0])))

    def log_lower_tail(self, x: float) -> float:
        return _log_of(x, self.log_p(np.array([0.0, x])))

    def growth(self, mid: Array, reach: Array, height: Array, tilt: float, frequency: float) -> Array:
        ends = []
        for x in (mid - reach, mid + reach):
            loss, log_p = self.loss_and_log_p(x)
            ends.append(log_p + tilt * loss)
        angle = 2 * height / self.scale
        share = np.exp(np.minimum(np.log(self.rate) + (2 * x - 1) / self.scale - loss, 0.0))
        turn = np.minimum(angle, angle * share / np.cos(np.minimum(angle / 2, 1.5)))
        return np.where(angle < 3.0, np.maximum(*ends) + frequency * turn, np.inf)

    def oscillation(self, edges: Array, tilt: float) -> Array:
        loss, log_p = self.loss_and_log_p(edges)
        v = np.log(self.rate) + (2 * edges - 1) / self.scale - loss
        log_f = log_p + tilt * loss - v + np.log(self.scale / 2)
        slope = np.full(edges.size - 1, (3 + 2 * (2 + tilt)) / self.scale)
        return lipschitz_variation(edges, log_f, slope)


@dataclass(frozen=True)
class SampledLaplaceAdd(AnalyticPair):
    """P = Lap(0, b), Q = (1-q) Lap(0, b) + q Lap(-1, b): the mirror image of a record added or restored."""

    scale: float
    rate: float = 1.0

    @property
    def panel(self) -> float:  # type: ignore[override]
        return self.scale / 2

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:  # type: ignore[override]
        low, high = self.loss(np.array([-1.0, 0.0]))
        return (float(low), float(0.5 * np.exp(-1 / self.scale))), (float(high), 0.5)

    @property
    def largest_loss(self) -> float:
        return max((loss for loss, _ in self.atoms), default=0.0)

    def loss(self, x: Array) -> Array:
        return -log_mixture_ratio(self.rate, -(2 * x + 1) / self.scale)

    def log_p(self, x: Array) -> Array:
        return np.asarray(-np.log(2 * self.scale) + x / self.scale)

    def inverse_loss(self, loss: Array) -> Array:
        return -SampledLaplaceRemove(self.scale, self.rate).inverse_loss(-np.asarray(loss, dtype=np.float64))

    def support(self, log_tail: float) -> tuple[float, float]:
        return -1.0, 0.0

    def log_upper_tail(self, x: float) -> float:
        return _log_of(-x, self.log_p(np.array([x, 0.0])))

    def log_lower_tail(self, x: float) -> float:
        return _log_of(x + 1, self.log_p(np.array([-1.0, x])))

    def growth(self, mid: Array, reach: Array, height: Array, tilt: float, frequency: float) -> Array:
        left, right = mid - reach, mid + reach
        loss = self.loss(left)
        ends = self.log_p(left) + tilt * loss, self.log_p(right) + tilt * self.loss(right)
        share = np.exp(np.minimum(np.log(self.rate) - (2 * left + 1) / self.scale + loss, 0.0))
        angle = 2 * height / self.scale
        cosine = np.cos(np.minimum(angle / 2, 1.5))
        turn = np.minimum(angle, angle * share / cosine)
        bound = np.maximum(*ends) + reach**2 / 2 * tilt * np.minimum(share, 0.25) * 4 / self.scale**2
        return np.where(angle < 3.0, bound + frequency * turn - tilt * np.log(cosine), np.inf)

    def oscillation(self, edges: Array, tilt: float) -> Array:
        loss = self.loss(edges)
        v = np.log(self.rate) - (2 * edges + 1) / self.scale + loss
        log_f = self.log_p(edges) + tilt * loss - v + np.log(self.scale / 2)
        slope = np.full(edges.size - 1, (3 + 2 * abs(tilt - 1)) / self.scale)
        return lipschitz_variation(edges, log_f, slope)


def _log_of(width: float, log_density: Array) -> float:
    """log of width times the largest end value of a monotone log density; -inf for an empty interval."""
    return float(np.log(width) + log_density.max()) if width > 0 else -np.inf
