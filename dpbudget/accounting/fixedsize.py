"""Fixed-size sampling without replacement: both ends of the interval, the gap between them is analysis.

Upper ends. Replace-one: the least of the net game (where affordable), its relaxation to one exponential moment, and the
symmetrised pair. Zero-out: the spliced pairs. Lower ends: data sets that exist, each a pair on the line whose products
are the outputs of constant gradients; the largest counts.
  - replace-one: all other records at -C, the record at +C, its replacement at -C; and with the data sets exchanged.
    Neither is an upper bound, not even both: an adversary may switch between them, which `attack` plays out where that is
    affordable (docs/math-sampling.md, 4).
  - zero-out: all others at -C and the record at +C, so that the zeroed record moves the sum by C where a third record would
    have moved it by 2C less; and all others equal to the record.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from dpbudget.accounting import attack, lattice, netgame
from dpbudget.accounting.gaussian_pairs import SampledGaussianAdd, SampledGaussianRemove
from dpbudget.accounting.pair import LOG_SQRT_2PI, Array, Pair
from dpbudget.accounting.replace_pairs import fixed_size_replace_pair, fixed_size_zero_out_pairs
from dpbudget.errors import InputError, NotCertified
from dpbudget.model import Adjacency, Interval

LOWER_TOLERANCE = 1e-4
"""Of the lower ends: the gap that the analysis leaves is larger by far."""


@dataclass(frozen=True)
class Opposed(Pair):
    """P = (1-q) N(-1, s^2) + q N(1, s^2) against Q = (1-q) N(-1, s^2) + q N(0, s^2): a data set under zero-out.

    The loss rises in x above the point where it is least, slightly below 0; what lies under that point is merged into one
    atom, which is post-processing: the pair lies below the data set.
    """

    sigma: float
    rate: float

    @property
    def panel(self) -> float:  # type: ignore[override]
        return min(self.sigma / 2, np.pi * self.sigma**2 / 4)

    @property
    def start(self) -> float:
        """Where the loss is least: q c t^2 + 2 (1-q) t = c (1-q), t = e^{x / s^2}, c = e^{1 / (2 s^2)}."""
        stay, c = 1 - self.rate, math.exp(0.5 / self.sigma**2)
        return self.sigma**2 * math.log(c * stay / (stay + math.sqrt(stay * stay + self.rate * stay * c * c)))

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:  # type: ignore[override]
        s, q, x = self.sigma, self.rate, self.start
        base = (1 - q) * float(ndtr((x + 1) / s))
        p, other = base + q * float(ndtr((x - 1) / s)), base + q * float(ndtr(x / s))
        return ((math.log1p((p - other) / other) - 1e-15, p * (1 - 1e-15)),) if p > 0 else ()

    def loss(self, x: Array) -> Array:
        s2, q = self.sigma**2, self.rate
        p = np.logaddexp(math.log1p(-q), math.log(q) + 2 * x / s2)
        return np.asarray(p - np.logaddexp(math.log1p(-q), math.log(q) + (2 * x + 1) / (2 * s2)))

    def log_p(self, x: Array) -> Array:
        s2, q = self.sigma**2, self.rate
        density = -0.5 * ((x + 1) / self.sigma) ** 2 - math.log(self.sigma) - LOG_SQRT_2PI
        return np.asarray(density + np.logaddexp(math.log1p(-q), math.log(q) + 2 * x / s2))

    def inverse_loss(self, loss: Array) -> Array:
        """The larger root of q t^2 - y q c t = (1-q) (y - 1), in logarithms where y c is large."""
        s2, q = self.sigma**2, self.rate
        loss = np.asarray(loss, dtype=np.float64)
        half = loss + 0.5 / s2 - math.log(2)
        with np.errstate(over="ignore", invalid="ignore"):
            rest = (1 - q) / q * np.expm1(np.minimum(loss, 300.0)) * np.exp(-2 * np.clip(half, -300.0, 300.0))
            root = half + np.log1p(np.sqrt(np.maximum(1 + np.where(half < 300.0, rest, 0.0), 0.0)))
        return np.where(loss > float(self.loss(np.array(self.start))), np.maximum(s2 * root, self.start), -np.inf)

    def support(self, log_tail: float) -> tuple[float, float]:
        return self.start, max(self.start + self.panel, 1.0 - self.sigma * float(ndtri_exp(log_tail)))

    def log_upper_tail(self, x: float) -> float:
        s, q = self.sigma, self.rate
        return float(np.logaddexp(math.log1p(-q) + log_ndtr(-(x + 1) / s), math.log(q) + log_ndtr((1 - x) / s)))

    def log_lower_tail(self, x: float) -> float:
        return -math.inf if x <= self.start else float(ndtr((x + 1) / self.sigma))


def attained_pairs(rate: float, sigma: float, adjacency: Adjacency) -> list[Pair]:
    """Pairs of data sets that exist; the products of any one of them are a lower bound."""
    if adjacency is Adjacency.REPLACE_ONE:
        return [SampledGaussianRemove(sigma / 2, rate), SampledGaussianAdd(sigma / 2, rate)]
    if adjacency is Adjacency.ZERO_OUT:
        pairs: list[Pair] = [SampledGaussianRemove(sigma, rate), SampledGaussianAdd(sigma, rate)]
        return [Opposed(sigma, rate), *pairs] if sigma > 0.04 else pairs
    raise InputError(
        "adjacency",
        "adding or removing a record changes the size of a batch of fixed share; the relation has no meaning here",
        hint="Use --adjacency replace-one or zero-out.",
    )


def epsilon_lower(rate: float, sigma: float, steps: int, delta: float, adjacency: Adjacency) -> float:
    """Proven lower bound: the largest certified lower end over the data sets of `attained_pairs`."""
    netgame.check(rate, sigma, steps, delta)
    pairs = attained_pairs(rate, sigma, adjacency)
    return max(lattice.certify_epsilon([(pair, steps)], delta, tolerance=LOWER_TOLERANCE).lower for pair in pairs)


def epsilon_uppers(rate: float, sigma: float, steps: int, delta: float, adjacency: Adjacency) -> dict[str, float]:
    """Every proven upper bound by its name; a failure of one engine leaves the others."""
    netgame.check(rate, sigma, steps, delta)
    if adjacency is Adjacency.ZERO_OUT:
        spliced = [lattice.certify_epsilon([(p, steps)], delta).upper for p in fixed_size_zero_out_pairs(sigma, rate)]
        return {"spliced pair": max(spliced)}
    attained_pairs(rate, sigma, adjacency)
    pair = fixed_size_replace_pair(sigma, rate)
    found = {
        "symmetrised pair": lattice.certify_epsilon([(pair, steps)], delta).upper,
        "net moment": netgame.rdp_epsilon_upper(rate, sigma, steps, delta),
    }
    with contextlib.suppress(NotCertified):
        found["net game"] = netgame.epsilon_upper(rate, sigma, steps, delta)
    return found


def epsilon(
    rate: float, sigma: float, steps: int, delta: float, *, adjacency: Adjacency = Adjacency.REPLACE_ONE
) -> Interval:
    """[lower, upper] of epsilon for fixed-size batches without replacement; the gap is analysis.

    rate: batch / records, in (0, 1). sigma: noise standard deviation over the clipping norm C (never over 2 C).
    """
    lower = epsilon_lower(rate, sigma, steps, delta, adjacency)
    upper = min(epsilon_uppers(rate, sigma, steps, delta, adjacency).values())
    if adjacency is Adjacency.REPLACE_ONE:
        lower = max(lower, attack.epsilon_lower(rate, sigma, steps, delta, upper=upper))
    return Interval(lower, upper)


def delta(
    rate: float, sigma: float, steps: int, epsilon: float, *, adjacency: Adjacency = Adjacency.REPLACE_ONE
) -> Interval:
    """[lower, upper] of delta at epsilon; as `epsilon`, without the relaxation to one moment."""
    pairs = attained_pairs(rate, sigma, adjacency)
    lower = max(lattice.certify_delta([(pair, steps)], epsilon, tolerance=LOWER_TOLERANCE).lower for pair in pairs)
    if adjacency is Adjacency.ZERO_OUT:
        tops = [lattice.certify_delta([(p, steps)], epsilon).upper for p in fixed_size_zero_out_pairs(sigma, rate)]
        return Interval(lower, max(tops))
    upper = lattice.certify_delta([(fixed_size_replace_pair(sigma, rate), steps)], epsilon).upper
    with contextlib.suppress(NotCertified):
        upper = min(upper, netgame.delta_upper(rate, sigma, steps, epsilon))
    return Interval(lower, upper)
