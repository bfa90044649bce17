"""The dominating pairs of every mechanism under every adjacency: the one place that knows which pair belongs to which.

A combination without a meaning or without a proven pair is an InputError that says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import singledispatch

from dpbudget.accounting.discrete_pairs import (
    AtomicPair,
    SampledLaplaceAdd,
    SampledLaplaceRemove,
    approximate_dp_pair,
    randomized_response_pair,
    randomized_response_zero_out_pairs,
)
from dpbudget.accounting.gaussian_pairs import (
    GroupAdd,
    GroupRemove,
    MixtureAdd,
    MixtureRemove,
    SampledGaussianAdd,
    SampledGaussianRemove,
)
from dpbudget.accounting.pair import LOG_SQRT_2PI, AnalyticPair, Array, Pair, log_mixture_ratio
from dpbudget.accounting.replace_pairs import (
    SampledGaussianReplace,
    fixed_size_replace_pair,
    fixed_size_zero_out_pairs,
)
from dpbudget.errors import InputError
from dpbudget.model import (
    Adjacency,
    ApproxDP,
    Gaussian,
    GaussianMixture,
    Laplace,
    Mechanism,
    PureDP,
    RandomizedResponse,
    SampledGaussian,
    Sampling,
)

__all__ = [
    "LOG_SQRT_2PI",
    "AnalyticPair",
    "Array",
    "AtomicPair",
    "GroupAdd",
    "GroupRemove",
    "Pair",
    "SampledGaussianAdd",
    "SampledGaussianRemove",
    "SampledGaussianReplace",
    "SampledLaplaceAdd",
    "SampledLaplaceRemove",
    "approximate_dp_pair",
    "dominating_pairs",
    "fixed_size_replace_pair",
    "fixed_size_zero_out_pairs",
    "log_mixture_ratio",
    "over_distance",
    "randomized_response_pair",
    "randomized_response_zero_out_pairs",
]

NOTHING = AtomicPair(((0.0, 1.0),))
MAX_GROUP = 1000


@singledispatch
def dominating_pairs(mechanism: Mechanism, adjacency: Adjacency) -> Mapping[str, Pair]:
    """The pair of each direction: keys "remove" and "add", or "both" where one pair serves.

    remove: P is the output on the data set with the record (under zero-out: with its true value).
    Raises InputError for values out of range and for combinations without a proven pair.
    """
    raise InputError(
        "mechanism",
        f"a release of kind {type(mechanism).__name__} has no dominating pair: it is accounted for as a whole",
        hint="Use --accountant pld.",
    )


@dominating_pairs.register
def _sampled_gaussian(mechanism: SampledGaussian, adjacency: Adjacency) -> Mapping[str, Pair]:
    sigma, rate, group = mechanism.noise_multiplier, mechanism.sampling_rate, mechanism.group_size
    _check_positive("noise_multiplier", sigma)
    if not (0 <= rate <= 1):
        raise InputError("sampling_rate", f"{rate} is not in [0, 1]")
    if not (1 <= group <= MAX_GROUP):
        raise InputError("group_size", f"{group} is not a whole number from 1 to {MAX_GROUP}")
    if mechanism.max_batch is not None:
        raise InputError(
            "max_batch",
            "a record pushes others out of a batch that is cut, so that the pair of a plain step does not describe it",
            hint="Account for the whole run.",
        )
    if rate == 0:
        return {"both": NOTHING}
    if mechanism.sampling is Sampling.FULL_BATCH or (rate == 1 and mechanism.sampling is Sampling.POISSON):
        return {"both": _gaussian(sigma, group, adjacency)}
    if mechanism.sampling is Sampling.POISSON:
        return _poisson(sigma, rate, group, adjacency)
    if mechanism.sampling is Sampling.FIXED_SIZE:
        return _fixed_size(sigma, rate, group, adjacency)
    raise InputError(
        "sampling",
        f"{mechanism.sampling} steps are not independent, so that no pair of one step describes them",
        hint="Account for whole epochs, or sample by Poisson.",
    )


@dominating_pairs.register
def _mixture(mechanism: GaussianMixture, adjacency: Adjacency) -> Mapping[str, Pair]:
    """Source: Choquette-Choo et al. 2023, arXiv:2310.15526, Cor. 4.7; the proof for groups holds for any masses."""
    sigma, masses = mechanism.noise_multiplier, mechanism.masses
    _check_positive("noise_multiplier", sigma)
    if not (2 <= len(masses) <= MAX_GROUP + 1 and all(w >= 0 for w in masses) and abs(sum(masses) - 1) <= 1e-12):
        raise InputError("masses", "are not two or more probabilities that add up to 1")
    if adjacency is Adjacency.REPLACE_ONE:
        raise InputError("adjacency", "no pair is proven for mixtures under replace-one adjacency")
    largest, total = len(masses) - 1, math.fsum(masses)
    masses = tuple(mass / total for mass in masses)
    return {"remove": MixtureRemove(sigma, 1.0, largest, masses), "add": MixtureAdd(sigma, 1.0, largest, masses)}


@dominating_pairs.register
def _unsampled(mechanism: Gaussian, adjacency: Adjacency) -> Mapping[str, Pair]:
    """The multiplier is relative to the distance of neighbours, whatever makes them neighbours."""
    _check_positive("noise_multiplier", mechanism.noise_multiplier)
    return {"both": SampledGaussianRemove(mechanism.noise_multiplier, 1.0)}


def _gaussian(sigma: float, group: int, adjacency: Adjacency) -> Pair:
    """All records of the group move the sum by at most C each, by 2C where they are replaced."""
    return SampledGaussianRemove(over_distance(sigma, group, adjacency), 1.0)


def over_distance(sigma: float, group: int, adjacency: Adjacency) -> float:
    """The multiplier over the distance of neighbours: a group moves the sum by its size, twice that where it is replaced.

    Rounded down, unless the quotient is exact.
    """
    if not (1 <= group <= MAX_GROUP):
        raise InputError("group_size", f"{group} is not a whole number from 1 to {MAX_GROUP}")
    distance = group * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    found = sigma / distance
    if not math.isfinite(found):
        return found
    return found if Fraction(found) * distance <= Fraction(sigma) else math.nextafter(found, 0.0)


def _poisson(sigma: float, rate: float, group: int, adjacency: Adjacency) -> Mapping[str, Pair]:
    if adjacency is Adjacency.REPLACE_ONE:
        if group > 1:
            raise InputError("group_size", "no pair is proven for groups under replace-one adjacency")
        return {"both": SampledGaussianReplace(sigma, rate)}
    if group > 1:
        return {"remove": GroupRemove(sigma, rate, group), "add": GroupAdd(sigma, rate, group)}
    return {"remove": SampledGaussianRemove(sigma, rate), "add": SampledGaussianAdd(sigma, rate)}


def _fixed_size(sigma: float, rate: float, group: int, adjacency: Adjacency) -> Mapping[str, Pair]:
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        raise InputError(
            "adjacency",
            "adding a record to a data set with a public batch size changes the sampling of all others",
            hint="Use replace-one or zero-out with fixed-size sampling.",
        )
    if group > 1:
        raise InputError("group_size", "no pair is proven for groups under fixed-size sampling")
    if rate == 1:
        return {"both": _gaussian(sigma, 1, adjacency)}
    if adjacency is Adjacency.REPLACE_ONE:
        return {"both": fixed_size_replace_pair(sigma, rate)}
    removed, added = fixed_size_zero_out_pairs(sigma, rate)
    return {"remove": removed, "add": added}


@dominating_pairs.register
def _laplace(mechanism: Laplace, adjacency: Adjacency) -> Mapping[str, Pair]:
    """The scale is relative to the L1 sensitivity; replacing a record moves the output twice as far."""
    scale, rate = mechanism.scale, mechanism.sampling_rate
    _check_positive("scale", scale)
    if not (0 <= rate <= 1):
        raise InputError("sampling_rate", f"{rate} is not in [0, 1]")
    if rate == 0:
        return {"both": NOTHING}
    if rate == 1:
        return {"both": SampledLaplaceRemove(scale / (2 if adjacency is Adjacency.REPLACE_ONE else 1), 1.0)}
    if adjacency is Adjacency.REPLACE_ONE:
        raise InputError("adjacency", "no pair is implemented for sampled Laplace noise under replace-one adjacency")
    return {"remove": SampledLaplaceRemove(scale, rate), "add": SampledLaplaceAdd(scale, rate)}


@dominating_pairs.register
def _randomized_response(mechanism: RandomizedResponse, adjacency: Adjacency) -> Mapping[str, Pair]:
    """A replaced record answers as another category; a zeroed-out one, which says nothing, answers uniformly."""
    if not (mechanism.categories >= 2):
        raise InputError("categories", f"{mechanism.categories} is not at least 2")
    if not (0 <= mechanism.truth_probability <= 1):
        raise InputError("truth_probability", f"{mechanism.truth_probability} is not in [0, 1]")
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        raise InputError(
            "adjacency",
            "randomized response publishes one answer a record, so that a missing record shows",
            hint="Use replace-one or zero-out.",
        )
    if adjacency is Adjacency.ZERO_OUT:
        removed, added = randomized_response_zero_out_pairs(mechanism.categories, mechanism.truth_probability)
        return {"remove": removed, "add": added}
    return {"both": randomized_response_pair(mechanism.categories, mechanism.truth_probability)}


@dominating_pairs.register
def _pure(mechanism: PureDP, adjacency: Adjacency) -> Mapping[str, Pair]:
    return {"both": _guarantee(mechanism.epsilon, 0.0)}


@dominating_pairs.register
def _approximate(mechanism: ApproxDP, adjacency: Adjacency) -> Mapping[str, Pair]:
    return {"both": _guarantee(mechanism.epsilon, mechanism.delta)}


def _guarantee(epsilon: float, delta: float) -> Pair:
    """The guarantee is taken to hold under the adjacency that is asked for."""
    if not (0 <= epsilon < float("inf")):
        raise InputError("epsilon", f"{epsilon} is not a finite number >= 0")
    if not (0 <= delta <= 1):
        raise InputError("delta", f"{delta} is not in [0, 1]")
    return NOTHING if epsilon == 0 and delta == 0 else approximate_dp_pair(epsilon, delta)


def _check_positive(name: str, value: float) -> None:
    if not (0 < value < float("inf")):
        raise InputError(name, f"{value} is not a positive number")
