"""DP-SGD (Abadi et al. 2016, arXiv:1607.00133, Alg. 1), vectorised: what is released is a noisy sum over a constant.

Each step draws a batch, clips the gradient of every record to norm C, adds N(0, sigma^2 C^2) to every coordinate of the sum and
divides by a number that was fixed beforehand. An empty batch is a step like any other: it releases noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbudget.errors import InputError
from dpbudget.model import Sampling
from dpbudget.simulate import model
from dpbudget.simulate.data import Array
from dpbudget.simulate.model import Table

KEPT_NORMS = 200_000
LEAST_CHANCE = 1e-16
"""1 + residual is known no better: a loss is at most 37."""


@dataclass(frozen=True)
class Recipe:
    """noise_multiplier: 0 for none.  clip_norm: infinite for none.  rate: of Poisson sampling.

    batch_size: of every other sampling.  normaliser: what the noisy sum is divided by, a public constant.
    """

    noise_multiplier: float
    clip_norm: float
    rate: float
    batch_size: int
    steps: int
    normaliser: float
    learning_rate: float
    sampling: Sampling = Sampling.POISSON

    def __post_init__(self) -> None:
        if self.noise_multiplier > 0 and not math.isfinite(self.clip_norm):
            raise InputError("clip_norm", "is missing: noise is measured against it", hint="Pass --clip-norm C.")
        if not (self.normaliser > 0):
            raise InputError("batch_size", f"{self.normaliser} can't divide a gradient")


@dataclass(frozen=True)
class Released:
    """One step. gradient: what is released, shape of the weights.  norms: before clipping, one a record of the batch.

    signal: norm of the clipped sum without noise.  loss: mean cross-entropy of the batch; NaN for an empty one.
    """

    gradient: Array
    norms: Array
    signal: float
    loss: float


class Clipped(NamedTuple):
    """total: sum of the clipped gradients.  norms: before clipping.  losses: cross-entropies; one a record."""

    total: Array
    norms: Array
    losses: Array


def clipped_sum(weights: Array, batch: Table, clip_norm: float) -> Clipped:
    """Gradients, each scaled to norm <= clip_norm, and added: one record more or less moves the sum by <= clip_norm."""
    residual = model.residuals(weights, batch)
    norms = model.gradient_norms(residual, batch)
    chance = 1.0 + np.einsum("ij,ij->i", residual, batch.targets)
    if math.isfinite(clip_norm):
        residual *= (clip_norm / np.maximum(norms, clip_norm))[:, None]
    return Clipped(batch.inputs.T @ residual, norms, -np.log(np.maximum(chance, LEAST_CHANCE)))


def private_gradient(weights: Array, batch: Table, recipe: Recipe, rng: np.random.Generator) -> Released:
    """Noise on the sum, divided by the constant; neither depends on the batch."""
    total, norms, losses = clipped_sum(weights, batch, recipe.clip_norm)
    signal = math.sqrt(float(np.vdot(total, total)))
    if recipe.noise_multiplier > 0:
        total += recipe.noise_multiplier * recipe.clip_norm * rng.standard_normal(total.shape)
    return Released(total / recipe.normaliser, norms, signal, float(losses.mean()) if losses.size else math.nan)


def batches(recipe: Recipe, records: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Rows of each batch, `recipe.steps` of them, as the sampling says."""
    size, steps = min(recipe.batch_size, records), recipe.steps
    if recipe.sampling is Sampling.POISSON:
        for _ in range(steps):
            yield np.flatnonzero(rng.random(records) < recipe.rate)
    elif recipe.sampling is Sampling.FULL_BATCH:
        for _ in range(steps):
            yield np.arange(records)
    elif recipe.sampling is Sampling.FIXED_SIZE:
        for _ in range(steps):
            yield rng.choice(records, size=size, replace=False, shuffle=False)
    else:
        yield from _epochs(recipe.sampling, records, size, steps, rng)


def _epochs(
    sampling: Sampling, records: int, size: int, steps: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Every record once an epoch: the shuffled records cut into batches, or each thrown into one of the batches."""
    count = -(-records // size)
    for first in range(0, steps, count):
        if sampling is Sampling.SHUFFLE:
            order = rng.permutation(records)
            parts = [order[k * size : (k + 1) * size] for k in range(count)]
        else:
            bins = rng.integers(count, size=records)
            parts = [np.flatnonzero(bins == k) for k in range(count)]
        yield from parts[: steps - first]


@dataclass(frozen=True)
class Trace:
    """What a training run looked like from inside; none of it is private.

    clipped: share of the batch above C, a step; NaN for an empty batch or no clipping.  signal: norm of the clipped sum, a step.
    losses: of the records that a step looked at, before it; NaN where none was.  norms: gradient norms of evenly spaced
    steps.
    """

    weights: Array
    clipped: Array
    signal: Array
    norms: Array
    losses: Array


def train(table: Table, recipe: Recipe, rng: np.random.Generator, start: Array | None = None) -> Trace:
    """Run the recipe from zero weights, or from `start`."""
    weights = np.zeros(table.shape) if start is None else start.copy()
    clipped, losses, signal = np.full(recipe.steps, np.nan), np.full(recipe.steps, np.nan), np.zeros(recipe.steps)
    every = max(1, math.ceil(recipe.steps * max(1, recipe.normaliser) / KEPT_NORMS))
    norms = [np.zeros(0)]
    for step, rows in enumerate(batches(recipe, len(table), rng)):
        released = private_gradient(weights, table.take(rows), recipe, rng)
        weights -= recipe.learning_rate * released.gradient
        signal[step], losses[step] = released.signal, released.loss
        if rows.size and math.isfinite(recipe.clip_norm):
            clipped[step] = np.count_nonzero(released.norms > recipe.clip_norm) / rows.size
        if step % every == 0:
            norms.append(released.norms)
    return Trace(weights, clipped, signal, np.concatenate(norms), losses)


def noise_length(recipe: Recipe, shape: tuple[int, int]) -> float:
    """Root mean square norm of the noise on the sum: sigma C sqrt(coordinates)."""
    return (
        recipe.noise_multiplier * recipe.clip_norm * math.sqrt(shape[0] * shape[1]) if recipe.noise_multiplier else 0.0
    )
