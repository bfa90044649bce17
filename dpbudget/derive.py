"""Sampling rate, steps and noise multiplier from what training scripts are configured with. Exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from dpbudget import checks
from dpbudget.errors import InputError

LOADERS = ("exact", "opacus", "tf-privacy")
Exact = int | float | Fraction


def _batches(batch_size: int, dataset_size: int) -> int:
    """Batches in an epoch, the last one perhaps short."""
    return -(-dataset_size // batch_size)


def sampling_rate(batch_size: int, dataset_size: int, loader: str = "exact") -> Fraction:
    """b / n; Opacus' data loader samples at one over its number of batches, 1 / ceil(n / b), which is a little less.

    With drop_last=True it has floor(n / b) batches and a rate above b / n: give that rate and the steps themselves.
    """
    if batch_size > dataset_size:
        raise InputError(
            "batch_size",
            f"{batch_size} is above the dataset size {dataset_size}",
            hint=f"Pass --batch-size {dataset_size} for full-batch training, or correct --dataset-size.",
        )
    if loader == "opacus":
        return Fraction(1, _batches(batch_size, dataset_size))
    return Fraction(batch_size, dataset_size)


def steps(
    epochs: Exact,
    *,
    batch_size: int | None = None,
    dataset_size: int | None = None,
    rate: Exact | None = None,
    loader: str = "exact",
) -> int:
    """Noisy steps in `epochs`, never rounded down.

    ceil(E ceil(n / b)) from a batch and a data set, ceil(E n / b) with loader "tf-privacy", ceil(E / q) from a rate.
    A float stands for its shortest decimal, so that 90 epochs at rate 0.04 are 2250 steps.
    """
    exact = checks.number("epochs", epochs)
    if not exact >= 0:
        raise InputError("epochs", f"{float(exact):g} is negative")
    if batch_size is not None and dataset_size is not None:
        per_epoch: Fraction | int = _batches(batch_size, dataset_size)
        if loader == "tf-privacy":
            per_epoch = Fraction(dataset_size, batch_size)
        count = ceil(exact * per_epoch)
    elif rate is not None:
        count = ceil(exact / checks.number("sampling_rate", rate))
    else:
        raise InputError("epochs", "needs a batch size and a dataset size, or a sampling rate", hint="Or pass --steps.")
    return checks.steps(count, "epochs")


def noise_multiplier(
    noise_std: float, clip_norm: float, *, noise_on: str = "sum", batch_size: int | None = None
) -> float:
    """std / C. Where the standard deviation is of the averaged gradient, the sum's is batch size times as large."""
    checks.non_negative("noise_std", noise_std)
    checks.positive("clip_norm", clip_norm)
    if noise_on == "mean":
        if batch_size is None:
            raise InputError(
                "noise_on", "mean needs the batch size that the sum is divided by", hint="Pass --batch-size."
            )
        noise_std *= batch_size
    return checks.noise_multiplier(noise_std / clip_norm, "noise_std")


def default_delta(dataset_size: int) -> float:
    """1 / n^1.1: a convention, printed as derived wherever it is used."""
    return float(dataset_size) ** -1.1 if dataset_size > 1 else 0.5
