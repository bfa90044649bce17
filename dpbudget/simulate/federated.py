"""Federated averaging with clipped, noised updates (McMahan, Ramage, Talwar, Zhang 2018, arXiv:1710.06963).

In a round some clients train from the global weights on their own records; their updates are clipped to C, summed with noise
and divided by a number fixed beforehand. Local steps are plain SGD, or DP-SGD where a local recipe has noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpbudget import derive
from dpbudget.federated import NoiseAt
from dpbudget.model import Sampling
from dpbudget.simulate import dpsgd, model
from dpbudget.simulate.data import Array
from dpbudget.simulate.dpsgd import Recipe, Trace
from dpbudget.simulate.model import Table

LOOKS = 20


@dataclass(frozen=True)
class Local:
    """Local training. noise_multiplier 0: plain SGD on shuffled batches; above: DP-SGD with Poisson batches."""

    epochs: int
    batch_size: int
    learning_rate: float
    noise_multiplier: float = 0.0
    clip_norm: float = math.inf

    def recipe(self, records: int) -> Recipe:
        """Steps and rate as dpbudget.federated.LocalTraining accounts for them; the normaliser is no client's size."""
        size = min(self.batch_size, records)
        steps = derive.steps(self.epochs, batch_size=size, dataset_size=records)
        sampling = Sampling.POISSON if self.noise_multiplier > 0 else Sampling.SHUFFLE
        return Recipe(
            self.noise_multiplier,
            self.clip_norm,
            size / records,
            size,
            steps,
            self.batch_size,
            self.learning_rate,
            sampling,
        )


@dataclass(frozen=True)
class Rounds:
    """per_round: clients a round, expected under Poisson sampling; it divides the noisy sum.

    noise_multiplier: of the noise on the sum with the server, else of each client's own. clip_norm: of an update.
    """

    rounds: int
    per_round: float
    sampling: Sampling
    noise_multiplier: float
    noise_at: NoiseAt
    clip_norm: float
    local: Local

    def without_privacy(self) -> Rounds:
        local = replace(self.local, noise_multiplier=0.0, clip_norm=math.inf)
        return replace(self, noise_multiplier=0.0, clip_norm=math.inf, local=local)


def participants(plan: Rounds, clients: int, rng: np.random.Generator) -> NDArray[np.int64]:
    if plan.sampling is Sampling.FULL_BATCH:
        return np.arange(clients)
    if plan.sampling is Sampling.FIXED_SIZE:
        return rng.choice(clients, size=round(plan.per_round), replace=False, shuffle=False)
    return np.flatnonzero(rng.random(clients) < plan.per_round / clients)


def noise_on_sum(plan: Rounds, present: int) -> float:
    """Standard deviation of the noise on the sum: once with the server, else once for each client that is present."""
    if plan.noise_multiplier == 0:
        return 0.0
    shares = 1 if plan.noise_at is NoiseAt.SERVER else present
    return plan.noise_multiplier * plan.clip_norm * math.sqrt(shares)


def noisy_average(updates: Array, plan: Rounds, rng: np.random.Generator) -> tuple[Array, Array, float]:
    """(clipped sum with noise over per_round, norms before clipping, norm of the clipped sum). updates: (m, d, k)."""
    norms = np.sqrt(np.einsum("mij,mij->m", updates, updates))
    scale = plan.clip_norm / np.maximum(norms, plan.clip_norm) if math.isfinite(plan.clip_norm) else np.ones(len(norms))
    total = np.einsum("m,mij->ij", scale, updates)
    signal = math.sqrt(float(np.vdot(total, total)))
    std = noise_on_sum(plan, len(updates))
    if std > 0:
        total = total + std * rng.standard_normal(total.shape)
    return total / plan.per_round, norms, signal


def train(tables: Sequence[Table], plan: Rounds, rng: np.random.Generator) -> Trace:
    """Global training from zero weights. In the trace a step is a round, and a norm that of a client's update.

    The loss on all records is looked at before LOOKS of the rounds.
    """
    together = Table(*(np.concatenate([getattr(t, f) for t in tables]) for f in ("inputs", "targets", "lengths")))
    weights = np.zeros(together.shape)
    clipped, losses, signal = np.full(plan.rounds, np.nan), np.full(plan.rounds, np.nan), np.zeros(plan.rounds)
    looks = {round((k + 1) * plan.rounds / LOOKS) - 1 for k in range(LOOKS)}
    norms: list[Array] = [np.zeros(0)]
    for index in range(plan.rounds):
        if index in looks:
            losses[index] = model.loss(weights, together)
        present = participants(plan, len(tables), rng)
        updates = np.zeros((present.size, *weights.shape))
        for place, client in enumerate(present):
            recipe = plan.local.recipe(len(tables[client]))
            updates[place] = dpsgd.train(tables[client], recipe, rng, weights).weights - weights
        average, found, signal[index] = noisy_average(updates, plan, rng)
        weights = weights + average
        if present.size and math.isfinite(plan.clip_norm):
            clipped[index] = np.count_nonzero(found > plan.clip_norm) / present.size
        norms.append(found)
    return Trace(weights, clipped, signal, np.concatenate(norms), losses)
