"""What both ways of verifying share: the steps that can be simulated, what was claimed, and the form of the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpbudget.answers import advice
from dpbudget.errors import InputError, NotCertified
from dpbudget.model import Adjacency, SampledGaussian, Sampling
from dpbudget.montecarlo import Phase
from dpbudget.report import Cell, Quantity, Report, Table
from dpbudget.run import Run

Progress = Callable[[int, int], None]
Claim = tuple[float, float]  # epsilon, delta

MOST_DRAWS = 10**11  # about an hour


def phases(run: Run) -> list[Phase]:
    """The run as independent steps that the sampler knows. Raises InputError for any other."""
    found = []
    for release in run.releases():
        step = release.mechanism
        assert isinstance(step, SampledGaussian)
        if step.sampling not in (Sampling.POISSON, Sampling.FULL_BATCH) or step.max_batch is not None:
            what = "max_batch" if step.max_batch is not None else "sampling"
            raise InputError(
                what, "can't be sampled here: only Poisson and full-batch runs can", hint="Check one of those; or "
                "attack the real thing: --empirical, --scores, or dpbudget.audit in Python.",
            )  # fmt: skip
        replace = run.adjacency is Adjacency.REPLACE_ONE
        distance = step.group_size * (2 if replace else 1)
        if step.sampling is Sampling.POISSON and distance > 1:
            raise InputError(
                "adjacency" if replace else "group_size", "can't be sampled with Poisson batches here",
                hint="Check the run under add-or-remove-one and for single records.",
            )  # fmt: skip
        if step.noise_multiplier == 0:
            raise NotCertified("without noise nothing is guaranteed", hint="Pass a --noise-multiplier above 0.")
        if release.count:
            found.append(Phase(step.noise_multiplier / distance, step.sampling_rate, release.count))
    return found


def too_much(samples: int, length: int) -> InputError:
    return InputError(
        "steps", f"{samples:,} samples of {length:,} steps are too much work; {MOST_DRAWS:,} draws are the limit",
        hint="Check fewer steps: a mistake of the accountant shows there as well.",
    )  # fmt: skip


def asked(epsilon: float | None, delta: float | None, claim: Claim | None) -> dict[str, Any]:
    given = {"epsilon": epsilon, "delta": delta, "claim": None if claim is None else list(claim)}
    return {name: value for name, value in given.items() if value is not None}


def report(
    run: Run | None, result: dict[str, Any], facts: list[tuple[str, Cell, str]], table: Table, verdict: str | None,
    unit: str = "example",
) -> Report:  # fmt: skip
    """The common parts; the caller fills in words and numbers."""
    return Report(
        command="verify",
        input={},
        assumptions=run.assumptions()
        if run is not None
        else {"adjacency": "the two worlds of the attack", "unit": unit, "covers": "the mechanism that was attacked"},
        result=result,
        headline="",
        answers=[],
        value=Quantity(None),
        facts=facts,
        main=table,
        warnings=[] if run is None else advice.of_run(run),
        status="ok" if verdict is None or verdict == "agrees" else verdict,
        exit_code=0 if verdict in ("agrees", None) else 3,
    )
