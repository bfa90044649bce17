"""A training run as people describe it, turned into releases: what was typed, what was derived, what it assumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypedDict, get_type_hints

from dpbudget import checks, derive
from dpbudget.errors import InputError
from dpbudget.model import DEFAULT_ADJACENCY, Adjacency, Release, SampledGaussian, Sampling
from dpbudget.names import PARAMETERS, meant

UNITS = ("example", "client", "user")
# What may not be given beside an unknown: it says the same thing.
SAYS = {
    "noise_multiplier": ("noise_multiplier", "noise_std"),
    "steps": ("steps", "epochs"),
    "sampling_rate": ("sampling_rate", "batch_size"),
}
Exact = str | int | float | Fraction


class RunParameters(TypedDict, total=False):
    """A run by keyword; numbers as decimal text or as numbers. What may stand for what is said in `resolve`."""

    noise_multiplier: Exact | None
    noise_std: Exact | None
    clip_norm: Exact | None
    noise_on: str
    sampling_rate: Exact | None
    batch_size: Exact | None
    dataset_size: Exact | None
    devices: Exact | None
    accumulate: Exact | None
    steps: Exact | None
    epochs: Exact | None
    loader: str
    sampling: str
    adjacency: str | None
    unit: str
    group_size: Exact | None
    max_batch: Exact | None
    microbatches: bool


@dataclass(frozen=True)
class Run:
    """One run, or a history of runs on the same data. An unknown that is to be solved for is None."""

    noise_multiplier: float | None = None
    sampling_rate: float | None = None
    steps: int | None = None
    sampling: Sampling = Sampling.POISSON
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
    unit: str = "example"
    group_size: int = 1
    max_batch: int | None = None
    microbatches: bool = False
    batch_size: int | None = None
    dataset_size: int | None = None
    epochs: float | None = None
    clip_norm: float | None = None
    noise_std: float | None = None
    history: Sequence[tuple[float, float, int]] = ()
    derived: Mapping[str, str] = field(default_factory=dict)

    def releases(
        self, *, noise_multiplier: float | None = None, sampling_rate: float | None = None, steps: int | None = None
    ) -> list[Release]:
        """The run's releases, with the unknown filled in."""
        if self.history:
            return [Release(self._step(sigma, rate), count) for sigma, rate, count in self.history]
        sigma = self.noise_multiplier if noise_multiplier is None else noise_multiplier
        rate = self.sampling_rate if sampling_rate is None else sampling_rate
        count = self.steps if steps is None else steps
        assert sigma is not None and rate is not None and count is not None
        return [Release(self._step(sigma, rate), count)]

    def _step(self, sigma: float, rate: float) -> SampledGaussian:
        """One step. A micro-batch is clipped as a whole: one record moves it by up to 2 C, which halves the multiplier."""
        effective = sigma / 2 if self.microbatches else sigma
        size = self.dataset_size if self.max_batch is not None else None
        return SampledGaussian(effective, rate, self.sampling, self.group_size, self.max_batch, size)

    def input(self) -> dict[str, Any]:
        """What the run is made of, by JSON key; what is not known is left out."""
        names = (
            "noise_multiplier",
            "sampling_rate",
            "steps",
            "batch_size",
            "dataset_size",
            "epochs",
            "clip_norm",
            "noise_std",
        )
        known = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.group_size != 1:
            known["group_size"] = self.group_size
        if self.max_batch is not None:
            known["max_batch"] = self.max_batch
        if self.microbatches:
            known["microbatches"] = True
        if self.history:
            known["history"] = [
                {"noise_multiplier": sigma, "sampling_rate": rate, "steps": count}
                for sigma, rate, count in self.history
            ]
        return known

    def assumptions(self) -> dict[str, Any]:
        """What the guarantee rests on; part of every answer."""
        return {
            "adjacency": str(self.adjacency),
            "sampling": str(self.sampling),
            "unit": self.unit,
            "covers": "this run only",
            "not_covered": [
                "hyper-parameter tuning",
                "other releases on the same data",
                "floating-point noise: the Gaussian is taken as ideal",
                "a normaliser that is not public",
            ],
            "parameters": "noise, rate, steps and the decision to run fixed without looking at earlier outputs",
        }


def _only_one(given: Mapping[str, Any], first: str, *others: str) -> None:
    for other in others:
        if given.get(first) is not None and given.get(other) is not None:
            option = "--" + other.replace("_", "-")
            raise InputError(first, f"contradicts {option}: both say the same thing", hint="Pass one of the two.")


def resolve(given: Mapping[str, Any], *, unknown: str = "", history: Sequence[tuple[float, float, int]] = ()) -> Run:
    """A Run from texts or numbers by parameter name. `unknown` names the one that is to be solved for.

    Raises InputError naming the parameter that is missing, out of range, or contradicts another.
    """
    known = list(get_type_hints(RunParameters))
    for name in SAYS.get(unknown, ()):
        if given.get(name) is not None:
            raise InputError(name, "is what is solved for", hint=f"Drop --{name.replace('_', '-')}.")
    for name in given:
        if name not in known:
            near = meant(name, known, PARAMETERS)
            raise InputError(name, "is not a parameter of a run", hint=f"Did you mean {near}?" if near else "")
    given = {name: value for name, value in given.items() if value is not None}
    common = _setting(given)
    sampling = common["sampling"]
    if unknown == "sampling_rate":
        checks.free_rate(sampling)
    given["loader"] = checks.choice("loader", given.get("loader", "exact"), derive.LOADERS)
    given["noise_on"] = checks.choice("noise_on", given.get("noise_on", "sum"), ("sum", "mean"))
    if history:
        return _history(given, history, common)
    derived: dict[str, str] = {}
    batch, size = _batch(given, derived)
    common.update(batch_size=batch, dataset_size=size)
    rate = None if unknown == "sampling_rate" else _rate(given, sampling, batch, size, derived)
    steps = None if unknown == "steps" else _steps(given, rate, batch, size, derived, unknown)
    common.update(_noise(given, batch, derived, unknown))
    if "epochs" in given:
        common["epochs"] = float(checks.number("epochs", given["epochs"]))
    return Run(sampling_rate=rate, steps=steps, derived=derived, **common)


def setting(given: Mapping[str, Any]) -> Run:
    """What holds for a run whatever its numbers are: sampling, neighbours, unit. Raises InputError as `resolve`."""
    return Run(**_setting({name: value for name, value in given.items() if value is not None}))


def _setting(given: Mapping[str, Any]) -> dict[str, Any]:
    sampling = Sampling(checks.choice("sampling", given.get("sampling", "poisson"), Sampling))
    adjacency = given.get("adjacency") or str(DEFAULT_ADJACENCY[sampling])
    return {
        "sampling": sampling,
        "adjacency": Adjacency(checks.choice("adjacency", adjacency, Adjacency)),
        "unit": checks.choice("unit", given.get("unit", "example"), UNITS),
        "group_size": checks.whole("group_size", given.get("group_size", 1), most=1000),
        "max_batch": checks.records("max_batch", given["max_batch"]) if "max_batch" in given else None,
        "microbatches": bool(given.get("microbatches", False)),
    }


def _history(given: Mapping[str, Any], history: Sequence[tuple[float, float, int]], common: dict[str, Any]) -> Run:
    for name in ("noise_multiplier", "sampling_rate", "steps", "epochs", "batch_size", "noise_std"):
        if name in given:
            raise InputError(
                "history", f"already gives what --{name.replace('_', '-')} says", hint="Pass one of the two."
            )
    size = checks.records("dataset_size", given["dataset_size"]) if "dataset_size" in given else None
    return Run(history=tuple(history), dataset_size=size, **common)


def _batch(given: Mapping[str, Any], derived: dict[str, str]) -> tuple[int | None, int | None]:
    size = checks.records("dataset_size", given["dataset_size"]) if "dataset_size" in given else None
    factors = [(name, checks.records(name, given[name])) for name in ("devices", "accumulate") if name in given]
    if "batch_size" not in given:
        if factors:
            raise InputError(factors[0][0], "multiplies a batch size, and none is given", hint="Pass --batch-size.")
        return None, size
    batch = each = checks.records("batch_size", given["batch_size"], hint="A batch size is a count of records.")
    for _, factor in factors:
        batch *= factor
        derived["batch_size"] = f"{each} per batch x " + " x ".join(f"{f} {n}" for n, f in factors)
    return batch, size


def _rate(
    given: Mapping[str, Any], sampling: Sampling, batch: int | None, size: int | None, derived: dict[str, str]
) -> float:
    _only_one(given, "sampling_rate", "batch_size")
    in_epochs = sampling in (Sampling.SHUFFLE, Sampling.BALLS_IN_BINS)
    if "sampling_rate" in given:
        exact_rate = checks.number("sampling_rate", given["sampling_rate"])
        rate = checks.sampling_rate(exact_rate)
        if in_epochs and (1 / exact_rate).denominator != 1:
            raise InputError(
                "sampling_rate",
                f"{sampling} sampling cuts an epoch into whole batches: 1 / {rate:g} is not whole",
                hint="Pass --batch-size B --dataset-size N, or a rate such as 1/100.",
            )
    elif in_epochs and batch is not None and size is not None:
        derive.sampling_rate(batch, size)
        exact = Fraction(1, -(-size // batch))
        rate = float(exact)
        derived["sampling_rate"] = f"one of {exact.denominator} batches an epoch"
    elif batch is not None and size is not None:
        exact = derive.sampling_rate(batch, size, given.get("loader", "exact"))
        rate = float(exact)
        derived["sampling_rate"] = f"{batch} / {size}"
        if exact != Fraction(batch, size):
            derived["sampling_rate"] = f"1 / {exact.denominator} batches, a short one at the end not dropped"
    elif sampling is Sampling.FULL_BATCH:
        rate = 1.0
    elif batch is not None:
        raise InputError("batch_size", "needs --dataset-size to give a sampling rate", hint="Pass --dataset-size N.")
    else:
        raise InputError(
            "sampling_rate", "is missing", hint="Pass --sampling-rate Q, or --batch-size B --dataset-size N."
        )
    if sampling is Sampling.FULL_BATCH and rate != 1:
        raise InputError("sampling", "full-batch means a sampling rate of 1", hint="Drop --sampling, or drop the rate.")
    return rate


def _steps(
    given: Mapping[str, Any],
    rate: float | None,
    batch: int | None,
    size: int | None,
    derived: dict[str, str],
    unknown: str,
) -> int:
    _only_one(given, "steps", "epochs")
    if "steps" in given:
        return checks.steps(checks.number("steps", given["steps"]))
    if "epochs" not in given:
        raise InputError("steps", "is missing", hint="Pass --steps T, or --epochs E.")
    if unknown == "sampling_rate":
        raise InputError("epochs", "would change with the rate that is sought", hint="Pass --steps T instead.")
    loader = given.get("loader", "exact")
    exact_rate = None if "sampling_rate" not in given else checks.number("sampling_rate", given["sampling_rate"])
    epochs = checks.number("epochs", given["epochs"])
    count = derive.steps(epochs, batch_size=batch, dataset_size=size, rate=exact_rate or rate, loader=loader)
    derived["steps"] = f"{float(epochs):g} {'epoch' if epochs == 1 else 'epochs'}"
    return count


def _noise(given: Mapping[str, Any], batch: int | None, derived: dict[str, str], unknown: str) -> dict[str, Any]:
    _only_one(given, "noise_multiplier", "noise_std")
    clip = None
    if "clip_norm" in given:
        clip = checks.positive("clip_norm", checks.number("clip_norm", given["clip_norm"]))
    if unknown == "noise_multiplier":
        return {"clip_norm": clip}
    if "noise_multiplier" in given:
        sigma = checks.noise_multiplier(checks.number("noise_multiplier", given["noise_multiplier"]))
        return {"noise_multiplier": sigma, "clip_norm": clip}
    if "noise_std" not in given:
        hint = "Pass --noise-multiplier S, or --noise-std with --clip-norm."
        raise InputError("noise_multiplier", "is missing", hint=hint)
    if clip is None:
        raise InputError("noise_std", "needs the clipping norm that it is relative to", hint="Pass --clip-norm C.")
    std = checks.non_negative("noise_std", checks.number("noise_std", given["noise_std"]))
    noise_on = given.get("noise_on", "sum")
    sigma = derive.noise_multiplier(std, clip, noise_on=noise_on, batch_size=batch)
    scaled = f" x batch {batch}" if noise_on == "mean" else ""
    derived["noise_multiplier"] = f"std {std:g} of the {noise_on} / clipping norm {clip:g}{scaled}"
    return {"noise_multiplier": sigma, "clip_norm": clip, "noise_std": std}
