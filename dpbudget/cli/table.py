"""dpbudget table, plan: many answers at once."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from dpbudget import checks, derive, grid
from dpbudget.accounting.accountants import ACCOUNTANTS
from dpbudget.cli import shell
from dpbudget.cli.options import (
    DeltaOption,
    EpsilonOption,
    GateOption,
    OneEngineOptions,
    OutputOptions,
    PlotOption,
    RunOptions,
    TableEngineOptions,
    Text,
    _number,
    words,
)
from dpbudget.cli.progress import bar
from dpbudget.errors import InputError
from dpbudget.report import Report

AXES = ("noise_multiplier", "sampling_rate", "batch_size", "dataset_size", "steps", "epochs")
LONG = 200


@words(
    epsilon="Target epsilon: solves for the one of noise, steps and rate that is left out.",
    delta="Failure probability; default 1/n^1.1 where one n is given.",
)
def table(
    run: RunOptions,
    epsilon: EpsilonOption,
    delta: DeltaOption,
    gate: GateOption,
    engine: TableEngineOptions,
    output: OutputOptions,
) -> None:
    """A grid over any parameters, for a target epsilon too.

    Lists a,b,c and ranges lo:hi:count or log:lo:hi:count. With --epsilon it solves for the one of noise, steps and
    rate that is left out.

    dpbudget table --sigma 0.8:2:7 -q 0.01 --steps 1000,10000 --delta 1e-5

    dpbudget table --epsilon 1,2,4,8 -q 0.01 --steps 1000,10000 --delta 1e-5  # the noise for each
    """

    def build() -> Report:
        given: dict[str, Any] = asdict(run)
        history = shell.history_of(given.pop("history"))
        axes = {name: grid.values(name, given.pop(name)) for name in AXES if given[name] is not None}
        if epsilon.epsilon is not None:
            axes["epsilon"] = grid.values("epsilon", epsilon.epsilon)
        axes["delta"] = grid.values("delta", delta.delta) if delta.delta is not None else _derived_delta(axes)
        limit = None
        if gate.max_epsilon is not None:
            limit = checks.epsilon(checks.number("max_epsilon", gate.max_epsilon), "max_epsilon")
        tolerance, digits = shell.tolerance_of(engine), shell.digits_of(output)
        total = 1
        for values in axes.values():
            total *= len(values)
        if total > grid.MOST_VALUES:
            raise InputError("", f"the table would have {total:,} cells; {grid.MOST_VALUES:,} is the limit")
        from dpbudget.answers import cost
        from dpbudget.answers import table as answers

        names = cost.accountants(engine.accountant)
        names = list(ACCOUNTANTS) if "all" in names else names
        with bar("cells", hidden=output.quiet or total * len(names) < LONG) as progress:
            return answers.table(
                given, axes, accountants=names, tolerance=tolerance, digits=digits,
                max_epsilon=limit, history=history, progress=progress,
            )  # fmt: skip

    shell.answer(output, build)


def _derived_delta(axes: dict[str, Any]) -> list[Any]:
    if len(axes.get("dataset_size", ())) == 1:
        return [checks.number("delta", derive.default_delta(int(axes["dataset_size"][0])))]
    raise InputError(
        "delta", "is missing, and no single dataset size is known to derive it from", hint="Pass --delta 1e-5."
    )


def plan(
    epsilon: EpsilonOption,
    delta: DeltaOption,
    engine: OneEngineOptions,
    plot: PlotOption,
    output: OutputOptions,
    dataset_size: Annotated[Text, _number("--dataset-size", "-n", help="Number of records.")] = None,
    batch_size: Annotated[Text, _number("--batch-size", "-b", help="Batch sizes to try: a list or a range.")] = None,
    epochs: Annotated[Text, _number("--epochs", "-E", help="Epochs to try: a list or a range.")] = None,
    clip_norm: Annotated[
        Text, _number("--clip-norm", "-C", help="Clipping norm; scales the noise per gradient. Default 1.")
    ] = None,
    max_epochs: Annotated[Text, _number("--max-epochs", help="Most epochs that there is time for.")] = None,
    max_batch: Annotated[Text, _number("--max-batch", help="Largest batch that fits.")] = None,
    target_snr: Annotated[
        Text, _number("--target-snr", help="Least signal-to-noise, relative to a unit gradient.")
    ] = None,
    sampling: Annotated[
        str, typer.Option("--sampling", metavar="poisson|fixed-size", help="How the records of a batch are chosen.")
    ] = "poisson",
    adjacency: Annotated[
        Text,
        typer.Option(
            "--adjacency", metavar="NAME", help="add-or-remove-one, replace-one or zero-out; default by --sampling."
        ),
    ] = None,
) -> None:
    """Batch and epochs at a fixed epsilon: the noise, the best marked.

    For each design the noise, the steps, the noise per gradient and the examples to process.

    dpbudget plan --epsilon 3 --delta 1e-5 --dataset-size 60000

    dpbudget plan --epsilon 3 -n 60000 --batch-size 256,1024,4096 --epochs 10:50:5  # the designs to try
    """

    def build() -> Report:
        if dataset_size is None:
            raise InputError("dataset_size", "is missing", hint="Pass --dataset-size N.")
        n = checks.records("dataset_size", dataset_size)
        target = shell.epsilon_of(epsilon.epsilon)
        given = {"sampling": sampling, "adjacency": adjacency}
        at = checks.delta(checks.number("delta", delta.delta)) if delta.delta is not None else derive.default_delta(n)
        limits = {
            name: None if text is None else checks.positive(name, checks.number(name, text))
            for name, text in (("max_epochs", max_epochs), ("max_batch", max_batch), ("target_snr", target_snr))
        }
        clip = 1.0 if clip_norm is None else checks.positive("clip_norm", checks.number("clip_norm", clip_norm))
        batches = None if batch_size is None else grid.values("batch_size", batch_size)
        passes = None if epochs is None else grid.values("epochs", epochs)
        tolerance, digits = shell.tolerance_of(engine), shell.digits_of(output)
        from dpbudget import planner

        with bar("designs", hidden=output.quiet) as progress:
            return planner.plan(
                n, target, at, batches=batches, epochs=passes, clip_norm=clip, given=given,
                accountant=shell.accountant_of(engine), tolerance=tolerance, digits=digits, progress=progress, **limits,
            )  # fmt: skip

    shell.answer(output, build, plot=plot.plot)
