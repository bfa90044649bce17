"""Poisson sampling with a maximum batch: a batch above the limit B is cut to a uniformly random subset of B records.

Let E be the event that at least B of the *other* n - 1 records are drawn, tau its probability; it has the same
probability on both data sets and may be revealed. Outside E nothing is cut: the step is the Poisson step at rate q.
Inside E the batch is, in law, a uniform (B-1)-subset of the others together with the record (probability q') or with a
further uniform record j (probability 1 - q', and surely where the record is absent),

    q' = E[q B / (M + 1) | M >= B] = B Pr[Bin(n, q) > B] / (n tau),   M ~ Bin(n - 1, q),

independently of that subset and of j. So the record pushes j out: under add-or-remove the two outputs are
(1-q') N(0) + q' N(2C) and N(0); under zero-out and replace-one they are those of fixed-size sampling at rate q'. The step
is dominated by the mixture, with a public coin, of the two pairs. Pessimistic only: not attained.
Proof: docs/math-sampling.md, 6. Source of the idea: Chua et al. 2024, arXiv:2411.04205, section on truncated batches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpbudget.accounting import mesh
from dpbudget.accounting.discrete_pairs import AtomicPair
from dpbudget.accounting.discretise import discretise, panel_edges
from dpbudget.accounting.gaussian_pairs import SampledGaussianAdd, SampledGaussianRemove
from dpbudget.accounting.pair import Array, Pair
from dpbudget.accounting.replace_pairs import (
    SampledGaussianReplace,
    fixed_size_replace_pair,
    fixed_size_zero_out_pairs,
)
from dpbudget.binomial import MOST_TRIALS, Tails, tails
from dpbudget.errors import InputError
from dpbudget.model import Adjacency, Interval

MOST_CELLS = 20_000
ROUND_OFF = 1e-12
"""Covers the few operations on weights and masses, relative."""


@dataclass(frozen=True)
class Truncated:
    """A run: noise multiplier, Poisson rate, records in the larger data set, largest batch, steps.

    Under add-or-remove the smaller data set has one record less, under the other relations both have dataset_size.
    """

    sigma: float
    rate: float
    dataset_size: int
    max_batch: int
    steps: int

    def __post_init__(self) -> None:
        if not (0 < self.sigma < math.inf):
            raise InputError("noise_multiplier", f"{self.sigma} is not a positive number")
        if not (0 < self.rate < 1):
            raise InputError("sampling_rate", f"{self.rate} is not in (0, 1)")
        if not (self.dataset_size >= 1):
            raise InputError("dataset_size", f"{self.dataset_size} is not a positive number of records")
        if not (self.dataset_size <= MOST_TRIALS):
            raise InputError(
                "dataset_size", f"{self.dataset_size:,} records with a largest batch; {MOST_TRIALS:,} are the most"
            )
        if not (1 <= self.max_batch <= self.dataset_size):
            raise InputError("max_batch", f"{self.max_batch} is not from 1 to the number of records")
        if not (self.steps >= 1):
            raise InputError("steps", f"{self.steps} is not a positive number of steps")

    @property
    def others(self) -> Tails:
        """Below: that fewer than max_batch of the other records are drawn; above: tau. Each sums up to its own error."""
        return tails(self.max_batch - 1, self.dataset_size - 1, self.rate)

    @property
    def cut_probability(self) -> float:
        """tau, rounded up: that at least max_batch of the other records are drawn."""
        return self.others.above[1]

    @property
    def cut_rate(self) -> float:
        """q', rounded up: that the record is in the batch although others were cut. At most q B / (B + 1), as M >= B."""
        at_most = self.rate * self.max_batch / (self.max_batch + 1) * (1 + ROUND_OFF)
        tau = self.others.above[0]
        if tau == 0:
            return at_most
        share = self.max_batch * tails(self.max_batch, self.dataset_size, self.rate).above[1] / self.dataset_size
        return min(at_most, share / tau * (1 + ROUND_OFF))


@dataclass(frozen=True)
class UpperAtoms(AtomicPair):
    """A finite pair that only dominates: its lower bounds say nothing about the mechanism."""

    tight = False


def components(run: Truncated, adjacency: Adjacency) -> dict[str, list[tuple[float, Pair]]]:
    """Per direction the weights and pairs of the public mixture. The weights are rounded up, so that they dominate."""
    s, q, cut, tau, free = run.sigma, run.rate, run.cut_rate, run.cut_probability, run.others.below[1]
    found: dict[str, list[tuple[float, Pair]]]
    if adjacency is Adjacency.REPLACE_ONE:
        found = {"both": [(free, SampledGaussianReplace(s, q))]}
        inside: tuple[Pair, ...] = (fixed_size_replace_pair(s, cut),) if tau else ()
    else:
        found = {"remove": [(free, SampledGaussianRemove(s, q))], "add": [(free, SampledGaussianAdd(s, q))]}
        inside = ()
        if tau and adjacency is Adjacency.ZERO_OUT:
            inside = fixed_size_zero_out_pairs(s, cut)
        elif tau:
            inside = (SampledGaussianRemove(s / 2, cut), SampledGaussianAdd(s / 2, cut))
    for parts, pair in zip(found.values(), inside, strict=False):
        parts.append((tau, pair))
    return found


def dominating_pairs(
    run: Truncated, adjacency: Adjacency, log_tail: float, *, tolerance: float = 1e-4
) -> dict[str, UpperAtoms]:
    """One step as a finite pair above the mixture, per direction; composes with everything.

    log_tail: log of the P-mass per step that may go to infinity. Losses are rounded up on a mesh (connect the dots), fine
    enough that `steps` of them move epsilon by about `tolerance`.
    """
    pairs = components(run, adjacency)
    return {name: _mixture(parts, run.steps, log_tail, tolerance) for name, parts in pairs.items()}


def _mixture(parts: Sequence[tuple[float, Pair]], steps: int, log_tail: float, tolerance: float) -> UpperAtoms:
    points: list[tuple[float, float]] = []
    infinite = 0.0
    for weight, pair in parts:
        if weight <= 0:
            continue
        edges = panel_edges(pair, log_tail)
        ends = pair.loss(edges[[0, -1]])
        span = float(ends[1] - ends[0])
        step = max(min(span / 4000, math.sqrt(4 * tolerance / (steps * weight))), span / MOST_CELLS)
        item = discretise(pair, step, log_tail)
        measure = item.upper
        scale = weight * (1 + ROUND_OFF) * (1 + item.mass_error)
        losses: Array = measure.losses + item.loss_error
        used = np.flatnonzero(measure.mass)
        points += zip(losses[used].tolist(), (scale * measure.mass[used]).tolist(), strict=True)
        infinite += scale * measure.infinite
    return UpperAtoms(tuple(points), infinite)


def epsilon(runs: Sequence[Truncated], delta: float, *, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE) -> Interval:
    """An upper bound of epsilon for the composition of runs with a maximum batch; no lower end is known.

    Proven for add-or-remove-one, zero-out and replace-one, the larger of both directions. The gap is analysis.
    """
    if not (0 < delta < 1):
        raise InputError("delta", f"{delta} is not in (0, 1)")
    ends = [mesh.mesh_epsilon(parts, delta, 1e-5)[1] for parts in _compositions(runs, adjacency, math.log(delta))]
    return Interval(None, max(ends, default=0.0))


def delta(
    runs: Sequence[Truncated],
    epsilon: float,
    *,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    guess: float = 1e-6,
) -> Interval:
    """An upper bound of delta at epsilon; as `epsilon`. guess: rough size of delta, which places the cuts."""
    if not (epsilon >= 0):
        raise InputError("epsilon", f"{epsilon} is not a number >= 0")
    log_guess = math.log(guess)
    ends = [_delta_upper(parts, epsilon, log_guess) for parts in _compositions(runs, adjacency, log_guess)]
    return Interval(None, min(1.0, max(ends, default=0.0)))


def _delta_upper(parts: Sequence[tuple[UpperAtoms, int]], epsilon: float, log_guess: float) -> float:
    """One direction; beyond the sum of the largest losses only the infinite ones count."""
    if epsilon >= sum(n * max(loss for loss, _ in pair.atoms) for pair, n in parts):
        finite = sum(n * math.log1p(-pair.infinite_mass) for pair, n in parts)
        return -math.expm1(finite) * (1 + ROUND_OFF)
    return mesh.mesh_delta(parts, epsilon, log_guess, 1e-4)[1]


def _compositions(
    runs: Sequence[Truncated], adjacency: Adjacency, log_delta: float
) -> list[list[tuple[UpperAtoms, int]]]:
    """Per direction the pairs of all runs with their counts."""
    log_tail = log_delta - math.log(max(1, sum(run.steps for run in runs))) - 20.0
    made = [(dominating_pairs(run, adjacency, log_tail), run.steps) for run in runs]
    names = made[0][0].keys() if made else ()
    return [[(pairs[name], steps) for pairs, steps in made] for name in names]
