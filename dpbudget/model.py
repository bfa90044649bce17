"""The nouns of a privacy budget, as frozen values. Standard library only; nothing here computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Adjacency(StrEnum):
    """Which data sets count as neighbours."""

    ADD_OR_REMOVE_ONE = "add-or-remove-one"
    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"


class Sampling(StrEnum):
    """How the records of a batch are chosen."""

    POISSON = "poisson"
    FIXED_SIZE = "fixed-size"
    SHUFFLE = "shuffle"
    BALLS_IN_BINS = "balls-in-bins"
    FULL_BATCH = "full-batch"


DEFAULT_ADJACENCY: Mapping[Sampling, Adjacency] = {
    Sampling.POISSON: Adjacency.ADD_OR_REMOVE_ONE,
    Sampling.FULL_BATCH: Adjacency.ADD_OR_REMOVE_ONE,
    Sampling.BALLS_IN_BINS: Adjacency.ADD_OR_REMOVE_ONE,
    Sampling.SHUFFLE: Adjacency.ZERO_OUT,
    Sampling.FIXED_SIZE: Adjacency.REPLACE_ONE,
}


@dataclass(frozen=True, slots=True)
class SampledGaussian:
    """One noisy step on a random batch: the sum of clipped contributions plus Gaussian noise.

    noise_multiplier: noise standard deviation on the sum divided by the clipping norm, >= 0.
    sampling_rate: chance of a record to be in the batch, in [0, 1]; for fixed-size sampling m / n.
    group_size: how many records a protected unit owns.
    max_batch: Poisson batches above it are cut to a random subset of that size; dataset_size is then needed.
    """

    noise_multiplier: float
    sampling_rate: float
    sampling: Sampling = Sampling.POISSON
    group_size: int = 1
    max_batch: int | None = None
    dataset_size: int | None = None


@dataclass(frozen=True, slots=True)
class GaussianMixture:
    """One noisy sum that a protected unit moves by k clipping norms with probability masses[k], secretly.

    masses: non-negative, sum 1; masses[0] is the chance not to take part. Binomial masses are a sampled group.
    """

    noise_multiplier: float
    masses: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Gaussian:
    """One unsampled Gaussian release; noise_multiplier is the standard deviation over the L2 distance of neighbours."""

    noise_multiplier: float


@dataclass(frozen=True, slots=True)
class Laplace:
    """One Laplace release, sampled by Poisson at sampling_rate; scale is relative to the L1 sensitivity."""

    scale: float
    sampling_rate: float = 1.0


@dataclass(frozen=True, slots=True)
class RandomizedResponse:
    """The true one of `categories` answers with probability truth_probability + (1 - truth_probability) / categories."""

    categories: int
    truth_probability: float


@dataclass(frozen=True, slots=True)
class PureDP:
    """Anything that is epsilon-DP."""

    epsilon: float


@dataclass(frozen=True, slots=True)
class ApproxDP:
    """Anything that is (epsilon, delta)-DP."""

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True)
class ZCDP:
    """Anything that is rho-zCDP."""

    rho: float


@dataclass(frozen=True, slots=True)
class Tuned:
    """The best of a random number of trials, each of them `steps` times `step`; see dpbudget.accounting.tuning.

    law: fixed, poisson, binomial, geometric, logarithmic or negative-binomial, with `trials` expected trials.
    """

    step: SampledGaussian
    steps: int
    law: str
    trials: float
    eta: float | None = None
    most_trials: int | None = None


Mechanism = (
    SampledGaussian | GaussianMixture | Gaussian | Laplace | RandomizedResponse | PureDP | ApproxDP | ZCDP | Tuned
)


@dataclass(frozen=True, slots=True)
class Release:
    """`count` independent uses of one mechanism on the same data."""

    mechanism: Mechanism
    count: int = 1


@dataclass(frozen=True, slots=True)
class Interval:
    """lower <= truth <= upper, both proven; `estimate` is the best guess inside and proves nothing.

    `lower` is None for an upper bound alone; `upper` is None for an estimate alone.
    """

    lower: float | None
    upper: float | None
    estimate: float | None = None


class Kind(StrEnum):
    """What a number proves."""

    INTERVAL = "interval"
    UPPER_BOUND = "upper-bound"
    ESTIMATE = "estimate"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What one accountant says of one quantity (epsilon at a delta, or delta at an epsilon).

    `detail` carries what the engine knows beside the number: "order", "directions", "gap", "met_tolerance", ...
    The repr has the ends as they are, unrounded, and leaves `detail` out.

    >>> Guarantee("pld", Kind.INTERVAL, Interval(0.5, 0.75, 0.6))
    <pld: 0.5 to 0.75>
    >>> Guarantee("rdp", Kind.UPPER_BOUND, Interval(None, 0.75))
    <rdp: at most 0.75>
    """

    accountant: str
    kind: Kind
    value: Interval
    detail: Mapping[str, object] = field(default_factory=dict)

    @property
    def lower(self) -> float | None:
        return self.value.lower

    @property
    def upper(self) -> float | None:
        return self.value.upper

    @property
    def estimate(self) -> float | None:
        return self.value.estimate

    def __repr__(self) -> str:
        ends = self.value
        if ends.upper is None:
            text = "nothing" if ends.estimate is None else f"about {float(ends.estimate)!r}, which proves nothing"
        elif ends.upper == float("inf"):
            text = "unbounded"
        elif ends.lower is None:
            text = f"at most {float(ends.upper)!r}"
        else:
            text = f"{float(ends.lower)!r} to {float(ends.upper)!r}"
        return f"<{self.accountant}: {text}>"

    def __float__(self) -> float:
        """The guarantee: the proven upper end. An estimate has none, and does not pass for one."""
        if self.value.upper is None:
            raise TypeError(f"{self.accountant} gives an estimate, not a guarantee; read .estimate")
        return self.value.upper
