"""The mechanisms that a budget file may name: their keys, which of them go together, and the releases they stand for.

A new mechanism is one entry in MECHANISMS.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from dpbudget import checks, derive
from dpbudget.budgetfile.values import Key, Values, choice, exact, flag, number, probability, text, whole
from dpbudget.errors import InputError
from dpbudget.federated import Federation, NoiseAt
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
    Tuned,
)

LEAST, MOST = Fraction(math.ulp(0.0)), Fraction(sys.float_info.max)

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


def _ratio(values: Values, noise: str, norm: str, times: int = 1) -> float:
    value = times * exact(values[noise]) / exact(values[norm])
    if value and not LEAST <= value <= MOST:
        raise InputError(noise, f"{noise} / {norm} is outside the range of a double")
    return float(value)


def _dp_sgd(values: Values, adjacency: Adjacency) -> list[Release]:
    step, steps = _training(values)
    return [Release(step, steps)]


def _training(values: Values) -> tuple[SampledGaussian, int]:
    """One noisy step and how many of them."""
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
    if sampling in (Sampling.SHUFFLE, Sampling.BALLS_IN_BINS):
        rate = Fraction(1, -(-size // batch)) if batch and size else rate
        if (1 / rate).denominator != 1:
            raise InputError(
                "sampling_rate", f"{sampling} sampling cuts an epoch into whole batches: 1 / rate is not whole"
            )
    if sampling is Sampling.FULL_BATCH and rate != 1:
        raise InputError("sampling", f"full-batch means a sampling rate of 1, not {float(rate):.6g}")
    if "steps" in values:
        steps = _int(values, "steps")
    elif batch is not None:
        steps = derive.steps(exact(values["epochs"]), batch_size=batch, dataset_size=size)
    else:
        steps = derive.steps(exact(values["epochs"]), rate=rate)
    cut = _int(values, "max_batch") if "max_batch" in values else None
    if cut is not None and size is None:
        raise InputError("max_batch", "needs the number of records", hint="Write dataset_size = N.")
    return SampledGaussian(noise, float(rate), sampling, 1, cut, size if cut is not None else None), steps


def _tuning(values: Values, adjacency: Adjacency) -> list[Release]:
    """The best of several runs like dp-sgd's, the number of them drawn by `law`."""
    step, steps = _training(values)
    law = str(values.get("law", "geometric"))
    trials = _float(values, "trials")
    if (law == "negative-binomial") != ("eta" in values):
        raise InputError("eta", 'goes with law = "negative-binomial", and with no other')
    if (law == "binomial") != ("most_trials" in values):
        raise InputError("most_trials", 'goes with law = "binomial", and with no other')
    if law == "fixed":
        return [Release(step, steps * checks.whole("trials", exact(values["trials"])))]
    eta = _float(values, "eta") if "eta" in values else None
    most = _int(values, "most_trials") if "most_trials" in values else None
    return _one(Tuned(step, steps, law, trials, eta, most))


def _federated(values: Values, adjacency: Adjacency) -> list[Release]:
    """The client level of a federated run, against the adversary that sees most of those against whom it protects."""
    noise_at = NoiseAt(str(values.get("noise_at", NoiseAt.SERVER)))
    sampling = Sampling(str(values.get("sampling", Sampling.POISSON)))
    clients, per_round = _int(values, "clients"), _float(values, "clients_per_round")
    random_count = sampling is Sampling.POISSON and per_round < clients
    if noise_at is NoiseAt.SHARED and random_count and "min_honest" not in values:
        raise InputError(
            "min_honest",
            "is missing: under Poisson sampling the number of clients that add noise in a round is random",
            hint="Write the number that is enforced, less drop-outs and colluders.",
        )
    run = Federation(
        clients, per_round, _int(values, "rounds"), _float(values, "noise_multiplier"), noise_at,
        _int(values, "min_honest") if "min_honest" in values else None, sampling, adjacency,
        _int(values, "max_participations") if "max_participations" in values else None, bool(values.get("tree", False)),
    )  # fmt: skip
    views = {view.adversary: view for view in run.views()}
    worst = {NoiseAt.SERVER: "public", NoiseAt.SHARED: "participant", NoiseAt.CLIENT: "server"}[noise_at]
    if not views[worst].releases:
        raise InputError("min_honest", "leaves no honest noise in the sum: there is no guarantee")
    return list(views[worst].releases)


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
    return _one(Laplace(_ratio(values, "scale", "sensitivity", moves)))


def truth_probability(epsilon: float, categories: int) -> float:
    """The t for which keeping the answer with probability t, else drawing uniformly, is epsilon-DP.

    The likelihoods are t + (1 - t) / k and (1 - t) / k; their ratio 1 + t k / (1 - t) is e^epsilon at
    t = (e^epsilon - 1) / (e^epsilon - 1 + k). Rounded up, towards a larger epsilon, by four units of round-off;
    1 - t then carries a relative error of about e^epsilon * 1e-15 / k, so epsilon should stay below 20.
    """
    grown = math.expm1(min(epsilon, 700.0))  # 1 to the last digit long before
    value = grown / (grown + categories)
    return min(value * (1 + 2**-51), math.nextafter(1.0, 0.0))


def _randomized_response(values: Values, adjacency: Adjacency) -> list[Release]:
    categories = _int(values, "categories")
    if "truth_probability" in values:
        return _one(RandomizedResponse(categories, _float(values, "truth_probability")))
    epsilon = _float(values, "epsilon")
    if epsilon > 20 and adjacency is not Adjacency.ADD_OR_REMOVE_ONE:  # under that one it has no guarantee at all
        # 1 - t drowns in round-off. PureDP dominates, and differs only where two wrong answers tie: mass k e^-epsilon.
        return _one(PureDP(epsilon))
    return _one(RandomizedResponse(categories, truth_probability(epsilon, categories)))


NOISE = number(lambda key, value: checks.noise_multiplier(value, key))
NOISE_MULTIPLIER = Key(NOISE, "standard deviation of the noise over the norm of one record's contribution", probe=1.0)
RATE = number(lambda key, value: checks.sampling_rate(value, key))
POSITIVE = number(checks.positive)
NON_NEGATIVE = number(checks.non_negative)
EPSILON = Key(number(lambda key, value: checks.epsilon(value, key)), "the epsilon that it is known to have")

TRAINING_GROUPS = (
    (("noise_multiplier",), ("noise_std", "clip_norm")),
    (("sampling_rate",), ("batch_size", "dataset_size")),
    (("steps",), ("epochs",)),
)
LAWS = ("geometric", "poisson", "negative-binomial", "logarithmic", "binomial", "fixed")

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
            "max_batch": Key(whole(1, 10**15), "Poisson batches above it are cut to a random subset"),
        },
        groups=TRAINING_GROUPS,
        implied=_full_batch_rate,
        build=_dp_sgd,
    ),
    "tuning": MechanismSpec(
        keys={
            "trials": Key(POSITIVE, 'expected number of trials; exact with law = "fixed"', probe=1.0),
            "law": Key(choice(*LAWS), "how the number of trials is drawn; geometric if not given"),
            "eta": Key(number(lambda key, value: checks.real(key, value)), "shape of the negative binomial law"),
            "most_trials": Key(whole(1, 10**9), "n of the binomial law"),
            "noise_multiplier": NOISE_MULTIPLIER,
            "noise_std": Key(NON_NEGATIVE, "standard deviation of the noise on the sum of clipped gradients"),
            "clip_norm": Key(POSITIVE, "the clipping norm"),
            "sampling_rate": Key(RATE, "chance of a record to be in a batch"),
            "batch_size": Key(whole(1, 10**15), "expected batch size"),
            "dataset_size": Key(whole(1, 10**15), "number of records"),
            "steps": Key(whole(0), "noisy updates of one trial"),
            "epochs": Key(NON_NEGATIVE, "passes over the data of one trial"),
            "sampling": Key(choice("poisson", "full-batch"), "how a batch is drawn"),
        },
        groups=((("trials",),), *TRAINING_GROUPS),
        implied=_full_batch_rate,
        build=_tuning,
    ),
    "federated": MechanismSpec(
        keys={
            "clients": Key(whole(1, 10**12), "clients in the population"),
            "clients_per_round": Key(POSITIVE, "clients a round; expected under Poisson sampling"),
            "rounds": Key(whole(1), "rounds of training", probe=1),
            "noise_multiplier": NOISE_MULTIPLIER,
            "noise_at": Key(
                choice(*NoiseAt), "server: on the sum; shared: a part from each client; client: on every upload"
            ),
            "min_honest": Key(whole(1, 10**12), "clients a round whose noise is certain"),
            "max_participations": Key(whole(1), "most rounds that one client takes part in, if enforced"),
            "tree": Key(flag, "true: tree aggregation, each client in at most one round"),
            "sampling": Key(choice("poisson", "fixed-size", "full-batch"), "how the clients of a round are drawn"),
        },
        groups=((("clients",),), (("clients_per_round",),), (("rounds",),), (("noise_multiplier",),)),
        build=_federated,
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
