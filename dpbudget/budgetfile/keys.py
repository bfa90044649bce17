"""The mechanisms that a budget file may name: their keys, which of them go together, and the releases they stand for.

A new mechanism is one entry in MECHANISMS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dpbudget import checks, derive
from dpbudget.budgetfile.values import Key, Values, choice, exact, flag, number, probability, text, whole
from dpbudget.errors import InputError
from dpbudget.model import (
    ZCDP,
    Adjacency,
    ApproxDP,
    Gaussian,
    Laplace,
    Mechanism,
    PureDP,
    RandomizedResponse,
    Release,
    SampledGaussian,
    Sampling,
)

COMMON_KEYS: Mapping[str, Key] = {
    "name": Key(text, "what the release is called; no two alike"),
    "mechanism": Key(text, "which of the mechanisms it is"),
    "status": Key(choice("spent", "planned"), "spent: it has happened"),
    "count": Key(whole(0), "how many times it is repeated on the same data"),
    "partition": Key(text, "the part of the data that it reads, disjoint from all other parts"),
    "partition_fixed": Key(flag, "true: a record that is replaced stays in its partition"),
}

Builder = Callable[[Values, Adjacency], list[Release]]


def _nothing_implied(values: Values) -> Values:
    return {}


@dataclass(frozen=True, slots=True)
class MechanismSpec:
    """One mechanism of the file format.

    groups: of each group exactly one alternative is given; an alternative is known by its first key, and the others
        must accompany it. `apart` lists pairs of keys that contradict each other although no group says so.
    implied: values that follow from the others where they are not given.
    build: the model's releases for one use; raises InputError with the file's key as parameter.
    """

    keys: Mapping[str, Key]
    groups: tuple[tuple[tuple[str, ...], ...], ...]
    build: Builder
    apart: tuple[tuple[str, str], ...] = ()
    implied: Callable[[Values], Values] = field(default=_nothing_implied)


def _float(values: Values, key: str) -> float:
    return float(values[key])


def _int(values: Values, key: str) -> int:
    return int(values[key])


def _one(mechanism: Mechanism) -> list[Release]:
    return [Release(mechanism)]


def _ratio(values: Values, noise: str, norm: str) -> float:
    value = float(exact(values[noise]) / exact(values[norm]))
    if not (math.isfinite(value) and (value > 0 or exact(values[noise]) == 0)):
        raise InputError(noise, f"{noise} / {norm} is outside the range of a double")
    return value


def _dp_sgd(values: Values, adjacency: Adjacency) -> list[Release]:
    if "noise_multiplier" in values:
        noise = _float(values, "noise_multiplier")
    else:
        noise = _ratio(values, "noise_std", "clip_norm")
    batch, size = (_int(values, key) if key in values else None for key in ("batch_size", "dataset_size"))
    rate = exact(values["sampling_rate"]) if "sampling_rate" in values else None
    if rate is None:
        if batch is None or size is None:
            raise InputError("sampling_rate", "is missing, and batch_size with dataset_size too")
        rate = derive.sampling_rate(batch, size)
    sampling = Sampling(str(values.get("sampling", Sampling.POISSON)))
    if sampling is Sampling.FULL_BATCH and rate != 1:
        raise InputError("sampling", f"full-batch means a sampling rate of 1, not {float(rate):.6g}")
    if "steps" in values:
        steps = _int(values, "steps")
    elif batch is not None:
        steps = derive.steps(exact(values["epochs"]), batch_size=batch, dataset_size=size)
    else:
        steps = derive.steps(exact(values["epochs"]), rate=rate)
    return [Release(SampledGaussian(noise, float(rate), sampling), steps)]


def _full_batch_rate(values: Values) -> Values:
    given = "sampling_rate" in values or "batch_size" in values
    return {"sampling_rate": 1} if values.get("sampling") == Sampling.FULL_BATCH and not given else {}


def _gaussian(values: Values, adjacency: Adjacency) -> list[Release]:
    """A multiplier is relative to what one record contributes, and replacing it moves the sum twice as far; a
    `sensitivity` is the distance of neighbours under the file's adjacency already, and is taken as it stands."""
    if "noise_multiplier" in values:
        moves = 2 if adjacency is Adjacency.REPLACE_ONE else 1
        return _one(Gaussian(_float(values, "noise_multiplier") / moves))
    return _one(Gaussian(_ratio(values, "noise_std", "sensitivity")))


def _laplace(values: Values, adjacency: Adjacency) -> list[Release]:
    """Alone, a scale is relative to what one record contributes, as the model has it; a `sensitivity` is the distance of
    neighbours under the file's adjacency, which the model takes to be twice the contribution under replace-one."""
    if "sensitivity" not in values:
        return _one(Laplace(_float(values, "scale")))
    moves = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return _one(Laplace(_ratio(values, "scale", "sensitivity") * moves))


def truth_probability(epsilon: float, categories: int) -> float:
    """The t for which keeping the answer with probability t, else drawing uniformly, is epsilon-DP.

    The likelihoods are t + (1 - t) / k and (1 - t) / k; their ratio 1 + t k / (1 - t) is e^epsilon at
    t = (e^epsilon - 1) / (e^epsilon - 1 + k). Rounded up, towards a larger epsilon, by four units of round-off;
    1 - t then carries a relative error of about e^epsilon * 1e-15 / k, so epsilon should stay below 20.
    """
    grown = math.expm1(epsilon)
    value = grown / (grown + categories)
    return min(value * (1 + 2**-51), math.nextafter(1.0, 0.0))


def _randomized_response(values: Values, adjacency: Adjacency) -> list[Release]:
    categories = _int(values, "categories")
    if "truth_probability" in values:
        return _one(RandomizedResponse(categories, _float(values, "truth_probability")))
    epsilon = _float(values, "epsilon")
    if epsilon > 20:
        # 1 - t drowns in round-off. PureDP dominates, and differs only where two wrong answers tie: mass k e^-epsilon.
        return _one(PureDP(epsilon))
    return _one(RandomizedResponse(categories, truth_probability(epsilon, categories)))


NOISE = number(lambda key, value: checks.noise_multiplier(value, key))
NOISE_MULTIPLIER = Key(NOISE, "standard deviation of the noise over the norm of one record's contribution", probe=1.0)
RATE = number(lambda key, value: checks.sampling_rate(value, key))
POSITIVE = number(checks.positive)
NON_NEGATIVE = number(checks.non_negative)
EPSILON = Key(number(lambda key, value: checks.epsilon(value, key)), "the epsilon that it is known to have")

MECHANISMS: dict[str, MechanismSpec] = {
    "dp-sgd": MechanismSpec(
        keys={
            "noise_multiplier": NOISE_MULTIPLIER,
            "noise_std": Key(NON_NEGATIVE, "standard deviation of the noise on the sum of clipped gradients"),
            "clip_norm": Key(POSITIVE, "the clipping norm"),
            "sampling_rate": Key(RATE, "chance of a record to be in a batch", probe=1.0),
            "batch_size": Key(whole(1, 10**15), "expected batch size"),
            "dataset_size": Key(whole(1, 10**15), "number of records"),
            "steps": Key(whole(0), "noisy updates", probe=1),
            "epochs": Key(NON_NEGATIVE, "passes over the data"),
            "sampling": Key(choice(*Sampling), "how a batch is drawn"),
        },
        groups=(
            (("noise_multiplier",), ("noise_std", "clip_norm")),
            (("sampling_rate",), ("batch_size", "dataset_size")),
            (("steps",), ("epochs",)),
        ),
        implied=_full_batch_rate,
        build=_dp_sgd,
    ),
    "gaussian": MechanismSpec(
        keys={
            "noise_multiplier": NOISE_MULTIPLIER,
            "noise_std": Key(NON_NEGATIVE, "standard deviation of the noise"),
            "sensitivity": Key(POSITIVE, "L2 sensitivity under the file's adjacency"),
        },
        groups=((("noise_multiplier",), ("noise_std", "sensitivity")),),
        apart=(("noise_multiplier", "sensitivity"),),
        build=_gaussian,
    ),
    "laplace": MechanismSpec(
        keys={
            "scale": Key(POSITIVE, "scale of the noise", probe=1.0),
            "sensitivity": Key(
                POSITIVE,
                "L1 sensitivity under the file's adjacency; else the scale is relative to one record",
            ),
        },
        groups=((("scale",),),),
        build=_laplace,
    ),
    "randomized-response": MechanismSpec(
        keys={
            "categories": Key(whole(2, 10**9), "number of possible answers"),
            "epsilon": EPSILON,
            "truth_probability": Key(number(probability), "chance to keep the true answer, else a uniform one"),
        },
        groups=((("categories",),), (("epsilon",), ("truth_probability",))),
        build=_randomized_response,
    ),
    "pure-dp": MechanismSpec(
        keys={"epsilon": EPSILON},
        groups=((("epsilon",),),),
        build=lambda values, adjacency: _one(PureDP(_float(values, "epsilon"))),
    ),
    "approx-dp": MechanismSpec(
        keys={"epsilon": EPSILON, "delta": Key(number(probability), "the delta that it is known to have")},
        groups=((("epsilon",),), (("delta",),)),
        build=lambda values, adjacency: _one(ApproxDP(_float(values, "epsilon"), _float(values, "delta"))),
    ),
    "zcdp": MechanismSpec(
        keys={"rho": Key(NON_NEGATIVE, "the rho of zero-concentrated DP")},
        groups=((("rho",),),),
        build=lambda values, adjacency: _one(ZCDP(_float(values, "rho"))),
    ),
}
