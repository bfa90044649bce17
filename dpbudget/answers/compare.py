"""One run under every assumption and every accountant, so that the reader sees what the assumption is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpbudget.accounting import account
from dpbudget.accounting.account import ACCOUNTANTS, Ledger
from dpbudget.answers import advice, words
from dpbudget.answers.cost import accountants
from dpbudget.errors import DpbudgetError
from dpbudget.model import Adjacency, Guarantee, Interval, Kind, Sampling
from dpbudget.report import Cell, Notice, Quantity, Range, Report, Rounding, Table, interval_json
from dpbudget.run import Run


@dataclass(frozen=True)
class Case:
    """One assumption: what changes in the run, when it applies, how a data loader gets it."""

    sampling: Sampling
    adjacency: Adjacency
    applies: str
    loader: str
    group_size: int = 1
    microbatches: bool = False
    max_batch: int | None = None

    def of(self, run: Run) -> Run:
        rate, steps = run.sampling_rate, run.steps
        if self.sampling is Sampling.FULL_BATCH and rate is not None and steps is not None:
            rate, steps = 1.0, math.ceil(steps * rate * (1 - 1e-12))  # one release for each pass over the data
        return replace(
            run, sampling=self.sampling, adjacency=self.adjacency, group_size=self.group_size, sampling_rate=rate, steps=steps,
            microbatches=self.microbatches, max_batch=self.max_batch,
        )  # fmt: skip

    def label(self) -> str:
        text = str(self.sampling)
        if self.max_batch is not None:
            text += f", batches cut at {self.max_batch}"
        if self.microbatches:
            text += ", micro-batches"
        return text if self.group_size == 1 else f"{text}, group of {self.group_size}"


POISSON_LOADER = (
    "Opacus DPDataLoader (poisson_sampling=True); JAX-Privacy Poisson batch selection; not a shuffling loader"
)
FIXED_LOADER = "a fresh random subset of fixed size each step (TensorFlow Federated client sampling; numpy choice)"
SHUFFLE_LOADER = "PyTorch DataLoader(shuffle=True); tf.data shuffle and batch; Opacus with poisson_sampling=False"
BINS_LOADER = "each record assigned to one random batch an epoch (JAX-Privacy balls in bins)"
FULL_LOADER = "batches in a fixed order, or full batches for as many epochs; holds whatever is known about the order"
MICRO_LOADER = "TensorFlow Privacy with num_microbatches below the batch size"

ADD, REPLACE, ZERO = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT


def cases(run: Run) -> list[Case]:
    """The assumptions that the run can be read under."""
    independent = "every record joins each batch independently"
    found = [
        Case(Sampling.POISSON, ADD, f"{independent}; a record is added or removed", POISSON_LOADER),
        Case(Sampling.POISSON, ZERO, f"{independent}; a record counts as zero", POISSON_LOADER),
        Case(Sampling.POISSON, REPLACE, f"{independent}; a record is replaced", POISSON_LOADER),
        Case(Sampling.FIXED_SIZE, REPLACE, "a fresh uniform subset each step; a record is replaced", FIXED_LOADER),
        Case(Sampling.FIXED_SIZE, ZERO, "a fresh uniform subset each step; a record counts as zero", FIXED_LOADER),
        Case(
            Sampling.SHUFFLE,
            ZERO,
            "shuffled once an epoch and cut into batches; a record counts as zero",
            SHUFFLE_LOADER,
        ),
        Case(Sampling.BALLS_IN_BINS, ADD, "each record in one random batch an epoch; added or removed", BINS_LOADER),
        Case(
            Sampling.FULL_BATCH,
            ADD,
            "no amplification: each record once an epoch, in an order that is known",
            FULL_LOADER,
        ),
        Case(
            Sampling.POISSON, ADD, "clipping acts on micro-batches of several records", MICRO_LOADER, microbatches=True
        ),
    ]
    if run.max_batch is not None:
        found.insert(
            1, Case(Sampling.POISSON, ADD, "Poisson with a hard maximum batch", POISSON_LOADER, max_batch=run.max_batch)
        )
    for size in (2, 5, 10):
        who = f"a protected unit owns up to {size} records"
        found.append(Case(Sampling.POISSON, ADD, who, POISSON_LOADER, group_size=size))
    return found


@dataclass(frozen=True)
class Row:
    case: Case
    guarantee: Guarantee | None
    accountant: str
    error: str = ""

    def proven(self) -> str:
        if self.guarantee is None:
            return "no"
        if self.guarantee.kind is Kind.ESTIMATE:
            return "estimate"
        if self.guarantee.value.lower is None or self.guarantee.kind is Kind.UPPER_BOUND:
            return "upper bound"
        return "both ends" if self.guarantee.detail.get("gap") == "numerical" else "gap: analysis"


def rows(run: Run, delta: float, names: Sequence[str], tolerance: float) -> list[Row]:
    """Every case by pld; the accountants that were asked for beside it under the run's own sampling and adjacency."""
    found = []
    for case in cases(run):
        changed = case.of(run)
        ledger = Ledger.of(changed.releases(), changed.adjacency)
        own = (case.sampling, case.adjacency) == (run.sampling, run.adjacency) and not case.microbatches
        wanted = list(names) if own and case.group_size == 1 and case.max_batch == run.max_batch else ["pld"]
        for name in wanted:
            try:
                found.append(Row(case, account.epsilon(ledger, delta, accountant=name, tolerance=tolerance), name))
            except DpbudgetError as error:
                found.append(Row(case, None, name, str(error)))
    return found


def report(run: Run, delta: float, *, accountant: str, tolerance: float) -> Report:
    """The table of assumptions. Raises InputError where the run itself is incomplete."""
    chosen = accountants(accountant)
    names = list(ACCOUNTANTS) if "all" in chosen else list(dict.fromkeys(["pld", *chosen]))
    found = [row for row in rows(run, delta, names, tolerance) if row.guarantee is not None or row.accountant == "pld"]
    here = next(
        row
        for row in found
        if (row.case.sampling, row.case.adjacency) == (run.sampling, run.adjacency) and row.accountant == "pld"
    )
    shuffled = next(row for row in found if row.case.sampling is Sampling.SHUFFLE)
    body: list[list[Cell]] = [
        [
            row.case.label() + ("" if row.accountant == "pld" else f" ({row.accountant})"),
            str(row.case.adjacency),
            row.error or Range(_interval(row)),
            row.proven(),
        ]
        for row in found
    ]
    shown = {row.case.label(): row.case for row in found}
    return Report(
        command="compare",
        input={**run.input(), "delta": delta},
        assumptions={**run.assumptions(), "sampling": "as each row says", "adjacency": "as each row says"},
        result={"rows": [_json(row) for row in found]},
        headline="epsilon at delta {0}: {1} as {2} under {3}; {4} if the batches are shuffled instead",
        answers=[
            Quantity(delta, Rounding.UP), Range(_interval(here)), here.case.label(),
            str(here.case.adjacency), Range(_interval(shuffled)),
        ],
        value=Quantity(_interval(here).upper, Rounding.UP),
        facts=words.facts(run),
        main=Table(("sampling", "adjacency", "epsilon", "proven"), body),
        notes=[
            "Each row holds for the sampling and the neighbours that it names, and for no others: take the row that your data "
            "loader really implements. A gap from analysis is not numerical: nobody knows the truth inside it.",
            words.assumptions(run),
        ],
        explanation=[f"{label}: {case.applies}. Loader: {case.loader}." for label, case in shown.items()],
        warnings=[
            *advice.of_run(run, [delta]),
            *_loader_notice(here, shuffled),
        ],
    )  # fmt: skip


def _interval(row: Row) -> Interval:
    return row.guarantee.value if row.guarantee is not None else Interval(None, None)


def _loader_notice(here: Row, shuffled: Row) -> list[Notice]:
    """Shuffled batches are what most data loaders give, and may cost several times as much."""
    mine, theirs = _interval(here).upper, _interval(shuffled).lower
    if mine is None or theirs is None or not math.isfinite(mine) or theirs <= 1.5 * mine:
        return []
    text = "a loader that shuffles and cuts batches does not sample as assumed, and costs much more"
    return [Notice("loader", text, "Read with -v which loader gives which row.")]


def _json(row: Row) -> dict[str, Any]:
    data: dict[str, Any] = {
        "sampling": str(row.case.sampling),
        "adjacency": str(row.case.adjacency),
        "accountant": row.accountant,
        "group_size": row.case.group_size,
        "microbatches": row.case.microbatches,
        "max_batch": row.case.max_batch,
        "epsilon": None if row.guarantee is None else interval_json(row.guarantee.value),
        "proven": row.guarantee is not None and row.guarantee.kind is not Kind.ESTIMATE,
        "gap": None if row.guarantee is None else row.guarantee.detail.get("gap"),
        "applies": row.case.applies,
        "loader": row.case.loader,
    }
    if row.error:
        data["error"] = row.error
    return data
