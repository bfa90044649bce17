"""Between the shell and the answers: parse, print, and turn every error into a message and an exit code."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbudget import checks, derive
from dpbudget.accounting.accountants import ACCOUNTANTS
from dpbudget.cli import streams
from dpbudget.cli.options import DeltaOption, OneEngineOptions, OutputOptions, RunOptions, ToleranceOption
from dpbudget.errors import DpbudgetError, InputError, NotCertified
from dpbudget.render import FORMATS, renderer
from dpbudget.render.style import Style
from dpbudget.run import SAYS, Run, resolve

if TYPE_CHECKING:
    from dpbudget.report import Report


def option(parameter: str) -> str:
    return "--" + parameter.replace("_", "-")


def run_of(options: RunOptions, *, unknown: str = "") -> Run:
    """The run that the options describe. `unknown` is what the command solves for, and may not be given."""
    given: dict[str, Any] = asdict(options)
    for name in SAYS.get(unknown, ()):
        if given[name] is not None:
            raise InputError(
                name, "is what this command solves for", hint=f"Drop {option(name)}, or use dpbudget epsilon."
            )
    if unknown and given["history"] is not None:
        raise InputError("history", "leaves nothing to solve for", hint="Use dpbudget epsilon or delta.")
    history = history_of(given.pop("history"))
    return resolve(given, unknown=unknown, history=history)


def history_of(path: str | None) -> list[tuple[float, float, int]]:
    """The phases of --history FILE.csv; none without it."""
    if path is None:
        return []
    from dpbudget.importers import read_history

    try:
        return read_history(path)
    except InputError as error:
        raise InputError("history", str(error), hint=error.hint) from None


def deltas_of(option_: DeltaOption, run: Run) -> list[float]:
    """The deltas that were typed, or 1/n^1.1."""
    if option_.delta is None:
        if run.dataset_size is None:
            raise InputError(
                "delta",
                "is missing, and no dataset size is known to derive it from",
                hint="Pass --delta 1e-5, or --dataset-size N for 1/N^1.1.",
            )
        return [derive.default_delta(run.dataset_size)]
    return [checks.delta(checks.number("delta", part)) for part in option_.delta.split(",")]


def one_delta(option_: DeltaOption, run: Run) -> float:
    found = deltas_of(option_, run)
    if len(found) > 1:
        raise InputError("delta", "takes one value here", hint="A list of deltas works with dpbudget epsilon.")
    return found[0]


def epsilon_of(text: str | None) -> float:
    if text is None:
        raise InputError("epsilon", "is missing", hint="Pass --epsilon E, the budget to meet.")
    return checks.epsilon(checks.number("epsilon", text))


def tolerance_of(engine: ToleranceOption) -> float:
    value = checks.positive("tolerance", checks.number("tolerance", engine.tolerance))
    if not 1e-12 <= value <= 1:
        raise InputError("tolerance", f"{value:g} is not in [1e-12, 1]", hint="The default is 1e-5, relative.")
    return value


def accountant_of(engine: OneEngineOptions) -> str:
    if "," in engine.accountant or engine.accountant == "all":
        raise InputError("accountant", "takes one name here", hint="Run the command once for each.")
    return checks.choice("accountant", engine.accountant, ACCOUNTANTS)


def digits_of(output: OutputOptions) -> int:
    return checks.whole("digits", Fraction(checks.number("digits", output.digits)), most=15)


def format_of(output: OutputOptions) -> str:
    name = checks.choice("format", output.format, FORMATS)
    if output.json and name not in ("text", "json"):
        raise InputError("json", f"contradicts --format {name}", hint="Pass one of the two.")
    return "json" if output.json else name


def answer(
    output: OutputOptions,
    build: Callable[[], Report],
    inputs: Mapping[str, object] | None = None,
    *,
    plot: Path | None = None,
) -> None:
    """Check where the report and its picture go, compute it, print it, exit with its code."""
    name, digits = format_of(output), digits_of(output)
    if output.output is not None:
        _writable(output.output)
    if plot is not None:
        _drawable(plot)
    try:
        report = build()
    except (OverflowError, FloatingPointError) as why:
        hint = "Try another --accountant, more noise or a larger delta."
        raise NotCertified("numbers on the way leave the range of doubles; no bound is reported", hint=hint) from why
    if plot is not None:
        _draw(report, plot)
    from dpbudget.render import numbers

    to_terminal = output.output is None and sys.stdout is not None and sys.stdout.isatty()
    style = Style(width(), digits, to_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb",
                  output.explain)  # fmt: skip
    text = renderer(name)(report, style)
    if output.output is None:
        streams.write(text)
    else:
        write_whole(output.output, text)
    if report.exit_code and text.strip() in ("", "-"):
        complain(f"error: {numbers.answer(report, digits)}")
    if not output.quiet:
        for warning in report.warnings:
            complain(f"warning: {warning.message}", warning.hint)
    if report.exit_code:
        raise SystemExit(report.exit_code)


def width() -> int:
    return max(40, shutil.get_terminal_size((80, 24)).columns)


def _writable(path: Path, parameter: str = "output") -> None:
    """Say before a long computation that the report can't be written."""
    try:
        if path.is_dir():
            raise InputError(parameter, f"{path} is a folder", hint=f"Name a file: {path / 'report.txt'}, for example.")
        if not path.parent.is_dir():
            raise InputError(
                parameter, f"{path} can't be written: there is no folder {path.parent}", hint="Make it first."
            )
        path.exists()  # a name that is too long raises here
    except OSError as error:
        raise _unwritable(parameter, path, error) from None
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError(parameter, f"{path} can't be written: permission denied", hint="Name another file.")


def _unwritable(parameter: str, path: Path, error: OSError) -> InputError:
    reason = (error.strerror or str(error)).lower()
    return InputError(parameter, f"{path} can't be written: {reason}", hint="Name another file.")


def _drawable(path: Path) -> None:
    """Say before a long computation that the picture can't be drawn or written."""
    from dpbudget.render import plot

    plot.check(path.suffix)
    _writable(path, "plot")


def _draw(report: Report, path: Path) -> None:
    from dpbudget.render import plot

    if report.picture is None:
        complain(f"warning: there is nothing to draw; {path} is not written")
        return
    write_whole(path, plot.draw(report.picture, path.suffix), "plot")


def write_whole(path: Path, content: str | bytes, parameter: str = "output") -> None:
    """Write the file whole or not at all. Raises InputError where it can't be."""
    try:
        _write(path, content.encode("utf-8") if isinstance(content, str) else content)
    except OSError as error:
        raise _unwritable(parameter, path, error) from None


def _write(path: Path, data: bytes) -> None:
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def complain(message: str, hint: str = "") -> None:
    """A message and its way out, on stderr, in one piece; broken into lines where it meets the edge of a terminal."""
    from dpbudget.render import plain

    lines = [*map(plain.harmless, message.split("\n")), *([f"  {plain.harmless(hint)}"] if hint else [])]
    if sys.stderr.isatty():
        lines = [plain.paragraph(line.strip(), width(), "  " if line.startswith(" ") else "") for line in lines]
    streams.tell("\n".join(lines) + "\n")


def report_error(error: DpbudgetError) -> int:
    """Print the error and give its exit code. Problems of a file have a line each: FILE:LINE: what is wrong."""
    if hasattr(error, "problems"):
        complain(error.message)
    elif isinstance(error, InputError):
        where = f"{option(error.parameter)}: " if error.parameter else ""
        complain(f"error: {where}{error.message}", error.hint)
    else:
        complain(f"error: {error.message}", error.hint)
    return error.exit_code
