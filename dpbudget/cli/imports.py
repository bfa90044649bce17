"""dpbudget import: releases from other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpbudget import checks
from dpbudget.cli import shell
from dpbudget.cli.options import DeltaOption, OutputOptions, Text, ToleranceOption, _number, words
from dpbudget.report import Report

TOOLS = ("opacus", "flower", "csv")


@words(delta="Failure probability, where the file does not hold it.")
def import_(
    tool: Annotated[str, typer.Argument(metavar="opacus|flower|csv", help="Which tool wrote the file.")],
    state: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON state, checkpoint (.pt) or CSV; nothing in it is run.")
    ],
    delta: DeltaOption,
    engine: ToleranceOption,
    output: OutputOptions,
    append: Annotated[
        Text, typer.Option("--append", metavar="FILE", help="Append the releases to this budget file.")
    ] = None,
    reported: Annotated[Text, _number("--reported", help="The epsilon that the tool printed, to compare with.")] = None,
    noise_relative_to: Annotated[
        str,
        typer.Option(
            "--noise-relative-to",
            metavar="clipping-norm|sensitivity",
            help="How Flower's replace-one multipliers are meant.",
        ),
    ] = "clipping-norm",
) -> None:
    """Releases from an Opacus or Flower state, or from a CSV.

    An accountant state or checkpoint, or a CSV with the columns sigma, q, steps.

    dpbudget import opacus checkpoint.pt --delta 1e-5 --append budget.toml
    """

    def build() -> Report:
        writer = checks.choice("", tool, TOOLS)
        at = None if delta.delta is None else checks.delta(checks.number("delta", delta.delta))
        printed = None if reported is None else checks.epsilon(checks.number("reported", reported), "reported")
        width = shell.tolerance_of(engine)
        from dpbudget import importers

        if writer == "flower":
            found = importers.flower(state, noise_relative_to=noise_relative_to)
        elif writer == "opacus":
            found = importers.opacus(state)
        else:
            found = importers.csv(state)
        from dpbudget.answers import imports

        second = imports.two_readings(found)
        other = None if second is None else importers.flower(state, noise_relative_to=second)
        return imports.report(found, delta=at, reported=printed, tolerance=width, other=other, append=append)

    shell.answer(output, build)
