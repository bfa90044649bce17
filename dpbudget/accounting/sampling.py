"""Runs whose sampling is not a product of independent steps on the line, or whose best bound is not one pair.

Shuffled epochs, balls in bins, fixed-size batches and truncated Poisson batches each have an engine of their own; alone in
a ledger it answers with both ends. Beside other releases the pair of `composable` stands in for the run, from above.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpbudget.accounting import allocation, fixedsize, gaussian, shuffle, truncated
from dpbudget.accounting.gaussian_pairs import SampledGaussianRemove
from dpbudget.accounting.pair import Pair
from dpbudget.accounting.pairs import over_distance
from dpbudget.errors import InputError, NotCertified
from dpbudget.model import Adjacency, Interval, Mechanism, SampledGaussian, Sampling

CURVE_DELTA = 1e-12
"""Where the whole curve of a balls-in-bins run is wanted: the delta that places the cuts of its epochs."""
CURVE_MESHES = (0.01, 0.02, 0.04, 0.08)
LOG_TAIL = -90.0
"""Mass of a truncated step that may go to infinity where it composes with others: e^-90, below any delta in use."""


@dataclass(frozen=True)
class OneReleaseAnEpoch(SampledGaussianRemove):
    """A shuffled epoch seen from above: given the permutation, one Gaussian release. Not attained."""

    tight = False


def is_special(mechanism: object) -> bool:
    """Whether `epsilon` and `delta` below are the engines for it."""
    return isinstance(mechanism, SampledGaussian) and (
        mechanism.sampling in (Sampling.SHUFFLE, Sampling.BALLS_IN_BINS, Sampling.FIXED_SIZE)
        or mechanism.max_batch is not None
    )


def _epochs(mechanism: SampledGaussian, steps: int) -> tuple[int, int]:
    """(steps in an epoch, epochs begun)."""
    in_epoch = round(1 / mechanism.sampling_rate)
    if not math.isclose(in_epoch * mechanism.sampling_rate, 1, rel_tol=1e-9):
        raise InputError(
            "sampling_rate",
            f"{mechanism.sampling} sampling cuts an epoch into whole batches: 1 / {mechanism.sampling_rate:g} is not whole",
            hint="Pass --batch-size and --dataset-size, or a rate 1/T.",
        )
    return in_epoch, -(-steps // in_epoch)


def check(mechanism: SampledGaussian, adjacency: Adjacency) -> None:
    """Raises InputError, with the reason, for a combination that has no meaning or no proof."""
    sampling = mechanism.sampling
    if mechanism.group_size != 1:
        raise InputError("group_size", f"no bound is proven for groups under {sampling} sampling", hint="Use poisson.")
    if mechanism.max_batch is not None and sampling is not Sampling.POISSON:
        raise InputError("max_batch", f"has a meaning under Poisson sampling only, not under {sampling}")
    if sampling is Sampling.SHUFFLE and adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        raise InputError(
            "adjacency",
            "adding a record to shuffled data would move every later batch",
            hint="Use --adjacency zero-out or replace-one with --sampling shuffle.",
        )
    if sampling is Sampling.BALLS_IN_BINS and adjacency is Adjacency.REPLACE_ONE:
        raise InputError(
            "adjacency",
            "no bound is proven for balls in bins under replace-one",
            hint="Use --adjacency add-or-remove-one or zero-out.",
        )


def _truncated(mechanism: SampledGaussian, steps: int) -> truncated.Truncated:
    if mechanism.dataset_size is None or mechanism.max_batch is None:
        raise InputError("max_batch", "needs the number of records", hint="Pass --dataset-size N.")
    return truncated.Truncated(
        mechanism.noise_multiplier, mechanism.sampling_rate, mechanism.dataset_size, mechanism.max_batch, steps
    )


def epsilon(mechanism: SampledGaussian, steps: int, adjacency: Adjacency, delta: float, tolerance: float) -> Interval:
    """Both ends where they are known, at one delta; lower is None where no lower bound is known."""
    check(mechanism, adjacency)
    sigma = mechanism.noise_multiplier
    if mechanism.max_batch is not None:
        return truncated.epsilon([_truncated(mechanism, steps)], delta, adjacency=adjacency)
    if mechanism.sampling is Sampling.FIXED_SIZE:
        if mechanism.sampling_rate == 1:
            return _whole(sigma, steps, adjacency, lambda s: gaussian.epsilon_interval(delta, s))
        return fixedsize.epsilon(mechanism.sampling_rate, sigma, steps, delta, adjacency=adjacency)
    in_epoch, _ = _epochs(mechanism, steps)
    if in_epoch == 1:
        return _whole(sigma, steps, adjacency, lambda s: gaussian.epsilon_interval(delta, s))
    if mechanism.sampling is Sampling.SHUFFLE:
        return _begun(lambda n: shuffle.epsilon(sigma, in_epoch, n, delta, adjacency=adjacency), steps, in_epoch)
    return _begun(
        lambda n: allocation.epsilon(sigma, in_epoch, n, delta, tolerance=max(tolerance, 1e-4)), steps, in_epoch
    )


def delta(mechanism: SampledGaussian, steps: int, adjacency: Adjacency, epsilon: float, tolerance: float) -> Interval:
    """Both ends of delta at one epsilon; as `epsilon`."""
    check(mechanism, adjacency)
    sigma = mechanism.noise_multiplier
    if mechanism.max_batch is not None:
        return truncated.delta([_truncated(mechanism, steps)], epsilon, adjacency=adjacency)
    if mechanism.sampling is Sampling.FIXED_SIZE and mechanism.sampling_rate < 1:
        return fixedsize.delta(mechanism.sampling_rate, sigma, steps, epsilon, adjacency=adjacency)
    in_epoch, _ = _epochs(mechanism, steps)
    if in_epoch == 1:
        return _whole(sigma, steps, adjacency, lambda s: gaussian.delta_interval(epsilon, s))
    if mechanism.sampling is Sampling.SHUFFLE:
        return _begun(lambda n: shuffle.delta(sigma, in_epoch, n, epsilon, adjacency=adjacency), steps, in_epoch)
    return _begun(lambda n: allocation.delta(sigma, in_epoch, n, epsilon), steps, in_epoch)


def _begun(ends: Callable[[int], Interval], steps: int, in_epoch: int) -> Interval:
    """Above: all epochs that were begun, as leaving out batches is post-processing. Below: those that were finished."""
    whole, rest = divmod(steps, in_epoch)
    if not rest:
        return ends(whole)
    return Interval(ends(whole).lower if whole else 0.0, ends(whole + 1).upper)


def _whole(sigma: float, steps: int, adjacency: Adjacency, ends: Callable[[float], tuple[float, float]]) -> Interval:
    """Every record in every batch: plain Gaussian releases. ends: both ends of the answer at one multiplier."""
    releases = [(over_distance(sigma, 1, adjacency), float(steps))]
    lower, upper = (ends(gaussian.combined_sigma(releases, side))[(1 - side) // 2] for side in (1, -1))
    return Interval(lower, upper)


def gap(mechanism: SampledGaussian) -> str:
    """Whether the two ends differ by numerics or because nobody knows better."""
    return "numerical" if mechanism.sampling is Sampling.BALLS_IN_BINS else "analysis"


def enclosing_parts(
    mechanism: Mechanism, steps: int, adjacency: Adjacency
) -> dict[str, tuple[list[tuple[Pair, int]], list[tuple[Pair, int]]]] | None:
    """By direction the pairs below and above a balls-in-bins run, with their counts; None for anything else.

    Both are attained but for the mesh. The cuts of the pairs above cost about 1e-20. Below, an epoch that was only begun
    does not count; the list is empty where none was finished.
    """
    if not (isinstance(mechanism, SampledGaussian) and mechanism.sampling is Sampling.BALLS_IN_BINS):
        return None
    check(mechanism, adjacency)
    in_epoch, epochs = _epochs(mechanism, steps)
    if in_epoch == 1:
        whole: list[tuple[Pair, int]] = [(SampledGaussianRemove(mechanism.noise_multiplier, 1.0), steps)]
        return {"both": (whole, whole)}
    found = _fine_epoch(mechanism.noise_multiplier, in_epoch, CURVE_DELTA / epochs)
    finished = steps // in_epoch
    return {
        name: ([(epoch.lower, finished)] if finished else [], [(epoch.upper, epochs)]) for name, epoch in found.items()
    }


def _fine_epoch(sigma: float, in_epoch: int, delta: float) -> dict[str, allocation.Epoch]:
    """An epoch on the finest mesh of which the sums stay small enough."""
    *finer, coarsest = CURVE_MESHES
    for mesh in finer:
        try:
            return allocation.epoch_pairs(sigma, in_epoch, delta, mesh=mesh)
        except NotCertified:
            continue
    return allocation.epoch_pairs(sigma, in_epoch, delta, mesh=coarsest)


def composable(mechanism: SampledGaussian, steps: int, adjacency: Adjacency) -> tuple[Mapping[str, Pair], int] | None:
    """Pairs above the run, with their count, for composing with other releases; None where a step has an ordinary pair."""
    check(mechanism, adjacency)
    if mechanism.max_batch is not None:
        return truncated.dominating_pairs(_truncated(mechanism, steps), adjacency, LOG_TAIL), steps
    if mechanism.sampling is Sampling.FIXED_SIZE:
        return None
    _, epochs = _epochs(mechanism, steps)
    if mechanism.sampling is Sampling.SHUFFLE:
        distance = 2 if adjacency is Adjacency.REPLACE_ONE else 1
        return {"both": OneReleaseAnEpoch(mechanism.noise_multiplier / distance, 1.0)}, epochs
    raise InputError(
        "sampling",
        "a balls-in-bins run is accounted for alone; no pair that composes with other releases is implemented",
        hint="Keep it in a budget of its own, or count it as shuffled under zero-out.",
    )
