"""dpbudget init, check, solve, status, record: the budget file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from dpbudget import checks
from dpbudget.cli import ci, shell, streams
from dpbudget.cli.options import DeltaOption, EpsilonOption, OutputOptions, RunOptions, Text, ToleranceOption, words
from dpbudget.errors import InputError
from dpbudget.report import Report

File = Annotated[str, typer.Argument(metavar="FILE", help="The budget file; - reads standard input.")]


def _text(file: str) -> tuple[str, str]:
    """(text, name to show) of a budget file or of standard input."""
    from dpbudget import budgetfile

    if file == "-":
        return budgetfile.decode(streams.read_bytes(budgetfile.MAX_BYTES + 1), filename="<stdin>"), "<stdin>"
    return budgetfile.read(file), file


def _document(file: str) -> Any:
    from dpbudget import budgetfile

    text, name = _text(file)
    return budgetfile.load(text, filename=name)


def check(
    file: File,
    engine: ToleranceOption,
    output: OutputOptions,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", metavar="OLD.json", help="Say what changed against an earlier report.")
    ] = None,
    annotate: Annotated[
        bool, typer.Option("--annotate", help="Print GitHub annotations with file and line on stderr.")
    ] = False,
    summary: Annotated[
        Path | None,
        typer.Option("--summary", metavar="FILE", help="Append the report as markdown to FILE: a CI job summary."),
    ] = None,
    outputs: Annotated[
        Path | None,
        typer.Option("--outputs", metavar="FILE", help="Append the lines verdict=V and epsilon=E to FILE for CI."),
    ] = None,
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="Report only: exit with 0 even when over budget.")
    ] = False,
) -> None:
    """Do all releases together fit the budget? Exit 0 yes, 3 no.

    Exit 3 means over the budget, or inconclusive.

    dpbudget check budget.toml
    """

    channels = ci.Channels(annotate, summary, outputs, shell.digits_of(output))

    def build() -> Report:
        old = None if baseline is None else _json(baseline)
        text, shown = _text(file)
        from dpbudget import budgetfile

        document = budgetfile.load(text, filename=shown)
        width = shell.tolerance_of(engine)
        from dpbudget.answers import check as answers

        try:
            report = answers.check(document, tolerance=width, digits=channels.digits, baseline=old, exit_zero=exit_zero)
        except InputError as error:
            if error.parameter == "baseline":
                error.message = f"{baseline} {error.message}"
            raise
        channels.report(report, document, text)
        return report

    with channels.failure():
        shell.answer(output, build)


def _json(path: Path) -> Mapping[str, Any]:
    from dpbudget.importers.imported import read_json

    way_out = "Name a report of dpbudget check --json."
    try:
        data = read_json(path, number=float, constant=lambda _: None)
    except InputError as error:
        raise InputError("baseline", error.message, hint=error.hint or way_out) from None
    if not isinstance(data, dict):
        raise InputError("baseline", f"{path} is not a report", hint=way_out)
    return data


def status(file: File, engine: ToleranceOption, output: OutputOptions) -> None:
    """What is spent, what is planned, what is left.

    dpbudget status budget.toml
    """

    def build() -> Report:
        document = _document(file)
        width = shell.tolerance_of(engine)
        from dpbudget.answers import budget

        return budget.status(document, tolerance=width)

    shell.answer(output, build)


def solve(
    file: File,
    engine: ToleranceOption,
    output: OutputOptions,
    write: Annotated[
        bool, typer.Option("--write", help="Put the answer into the file; all else stays as it is.")
    ] = False,
) -> None:
    """Find the one value of the file that is marked "solve".

    dpbudget solve budget.toml --write
    """

    def build() -> Report:
        if write and file == "-":
            raise InputError("write", "needs a file, not standard input")
        document = _document(file)
        digits, width = shell.digits_of(output), shell.tolerance_of(engine)
        from dpbudget.answers import budget

        report = budget.find(document, tolerance=width, digits=digits)
        if write and report.exit_code == 0:
            from dpbudget.budgetfile import edit, store

            entry, key = document.unknown
            text = _text(file)[0]

            def fill(current: str) -> str:
                if current != text:
                    raise InputError("write", f"{file} was changed meanwhile; nothing is written", hint="Run it again.")
                return edit.set_value(current, entry.index, key, repr(report.result["value"]))

            store.update(file, fill)
        return report

    shell.answer(output, build)


@words(epsilon="What all releases together may cost. Default 8.", delta="The delta of that budget. Default 1e-5.")
def init(
    output: OutputOptions,
    epsilon: EpsilonOption,
    delta: DeltaOption,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to start.")] = "budget.toml",
    adjacency: Annotated[
        str, typer.Option("--adjacency", metavar="NAME", help="add-or-remove-one, replace-one or zero-out.")
    ] = "add-or-remove-one",
    unit: Annotated[str, typer.Option("--unit", metavar="example|client|user", help="Who is protected.")] = "example",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """Start a budget file.

    dpbudget init budget.toml --epsilon 8 --delta 1e-5
    """

    def build() -> Report:
        from dpbudget import budgetfile
        from dpbudget.budgetfile import edit, store
        from dpbudget.budgetfile.values import as_typed
        from dpbudget.model import Adjacency
        from dpbudget.run import UNITS

        relation = Adjacency(checks.choice("adjacency", adjacency, Adjacency))
        who = checks.choice("unit", unit, UNITS)
        values: dict[str, Any] = {}
        if epsilon.epsilon is not None:
            checks.epsilon(checks.number("epsilon", epsilon.epsilon))
            values["epsilon"] = as_typed(epsilon.epsilon)
        if delta.delta is not None:
            checks.delta(checks.number("delta", delta.delta))
            values["delta"] = as_typed(delta.delta)
        text = edit.template(adjacency=relation, unit=who, **values)
        document = budgetfile.load(text, filename=file)
        store.create(file, text, overwrite=force)
        from dpbudget.answers import budget

        return budget.begun(document)

    shell.answer(output, build)


@words(
    hide=("noise_on", "devices", "accumulate", "loader", "history", "adjacency", "unit", "group_size", "max_batch",
          "microbatches")
)  # fmt: skip
def record(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The budget file.")],
    run: RunOptions,
    engine: ToleranceOption,
    output: OutputOptions,
    name: Annotated[Text, typer.Option("--name", metavar="NAME", help="What the release is called.")] = None,
    mechanism: Annotated[
        str,
        typer.Option(
            "--mechanism",
            metavar="NAME",
            help="dp-sgd, gaussian, laplace, randomized-response, pure-dp, approx-dp, zcdp, federated or tuning.",
        ),
    ] = "dp-sgd",
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A key of the mechanism; may be given several times."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Record even what overspends the budget: it has happened.")
    ] = False,
) -> None:
    """Note a spent release; refuses to overspend.

    A planned release of that name is marked as spent; a new one is appended, and needs its parameters.

    dpbudget record budget.toml --name pretrain --sigma 1.1 -b 256 -n 60000 -E 60

    dpbudget record budget.toml --name histogram --mechanism laplace --set scale=20  # not a training run
    """

    def build() -> Report:
        if name is None:
            raise InputError("name", "is missing", hint="Pass --name NAME.")
        given = {key: value for key, value in asdict(run).items() if value != getattr(RunOptions(), key)}
        width = shell.tolerance_of(engine)
        from dpbudget.answers import ledger

        return ledger.record(file, name, mechanism, given, values or [], force=force, tolerance=width)

    shell.answer(output, build)
