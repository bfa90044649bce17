"""Runs whose noise or batch changed, from a CSV file of sigma, q, steps: for --history and for `import csv`."""

from __future__ import annotations

import csv as csvfile
import io
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal as Digits
from pathlib import Path

from dpbudget.budgetfile.document import Problem
from dpbudget.budgetfile.keys import MECHANISMS
from dpbudget.budgetfile.values import Decimal, Value, exact, quoted, suggestion
from dpbudget.errors import InputError
from dpbudget.importers.imported import ImportedState, limited, read_bytes
from dpbudget.model import Adjacency, Sampling

COLUMNS: Mapping[str, str] = {
    "sigma": "noise_multiplier",
    "noise_multiplier": "noise_multiplier",
    "q": "sampling_rate",
    "sampling_rate": "sampling_rate",
    "sample_rate": "sampling_rate",
    "batch_size": "batch_size",
    "dataset_size": "dataset_size",
    "steps": "steps",
}
RATE = ("noise_multiplier", "sampling_rate", "steps")
BATCH = ("noise_multiplier", "batch_size", "dataset_size", "steps")
MAX_PROBLEMS = 20
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Row:
    line: int
    values: Mapping[str, Value]


def read_history(path: str | os.PathLike[str]) -> list[tuple[float, float, int]]:
    """(noise multiplier, sampling rate, steps) of each row, in order. Raises InputError with all faults of the file."""
    result = []
    for row in _rows(Path(path)):
        values = row.values
        if "sampling_rate" in values:
            rate = float(values["sampling_rate"])
        else:
            rate = float(exact(values["batch_size"]) / exact(values["dataset_size"]))
        result.append((float(values["noise_multiplier"]), rate, int(values["steps"])))
    return result


def csv(path: str | os.PathLike[str]) -> ImportedState:
    """The rows as entries of a budget file; neighbouring rows that differ in steps alone become one entry."""
    entries: list[dict[str, Value]] = []
    for row in _rows(Path(path)):
        values = dict(row.values)
        if entries and all(entries[-1][key] == value for key, value in values.items() if key != "steps"):
            entries[-1]["steps"] = int(entries[-1]["steps"]) + int(values["steps"])
            continue
        name = f"csv {len(entries) + 1}"
        entries.append({"name": name, "status": "spent", "mechanism": "dp-sgd", **values, "sampling": "poisson"})
    return ImportedState(
        tool="CSV",
        entries=tuple(entries),
        adjacency=Adjacency.ADD_OR_REMOVE_ONE,
        sampling=Sampling.POISSON,
        notes=("The file does not say how batches were drawn, or which data sets are neighbours; Poisson sampling and "
               "add-or-remove-one are assumed.",),
    )  # fmt: skip


def _rows(path: Path) -> list[Row]:
    problems: list[Problem] = []
    rows: list[Row] = []
    lines = _lines(path)
    header_line, header = next(lines, (0, []))
    columns = _columns(path, header_line, header)
    for line, cells in lines:
        if len(cells) != len(columns):
            message = f"{len(cells)} values under {len(columns)} columns"
            problems.append(Problem(path.name, line, message))
        else:
            values, wrong = _values(path, line, dict(zip(columns, cells, strict=True)))
            problems += wrong
            rows.append(Row(line, values))
            limited(rows, path)
        if len(problems) >= MAX_PROBLEMS:
            break
    if not rows and not problems:
        problems.append(Problem(path.name, header_line, "there are no rows below the header"))
    if problems:
        raise InputError("", "\n".join(str(problem) for problem in problems[:MAX_PROBLEMS]))
    return rows


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every line that is neither empty nor a comment."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
        first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
        delimiter = next((mark for mark in ",;\t" if mark in first), ",")
        reader = csvfile.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if any(stripped) and not stripped[0].startswith("#"):
                yield reader.line_num, stripped
    except UnicodeDecodeError as error:
        raise InputError(
            "", str(Problem(path.name, 0, f"not UTF-8 text: a bad byte at offset {error.start}"))
        ) from None
    except csvfile.Error as error:
        raise InputError("", str(Problem(path.name, reader.line_num, f"not CSV: {error}"))) from None


def _columns(path: Path, line: int, header: list[str]) -> list[str]:
    def fail(message: str, hint: str = "") -> InputError:
        return InputError("", str(Problem(path.name, line, message, suggestion=hint)))

    if not header:
        raise fail("the file is empty", "Its first line names the columns: sigma,q,steps.")
    if all(_NUMBER.fullmatch(cell) for cell in header):
        raise fail("the first line has no column names", "Begin the file with sigma,q,steps.")
    columns = []
    for cell in header:
        if (name := COLUMNS.get(cell.lower().replace(" ", "_").replace("-", "_"))) is None:
            hint = suggestion(cell, list(COLUMNS)) or "Known: " + ", ".join(COLUMNS) + "."
            raise fail(f'unknown column "{quoted(cell[:40])}"', hint)
        columns.append(name)
    if len(set(columns)) != len(columns):
        raise fail("two columns mean the same")
    if set(columns) not in (set(RATE), set(BATCH)):
        raise fail("the columns must be sigma, q, steps, or sigma, batch_size, dataset_size, steps")
    return columns


def _values(path: Path, line: int, cells: Mapping[str, str]) -> tuple[dict[str, Value], list[Problem]]:
    keys = MECHANISMS["dp-sgd"].keys
    values, problems = dict[str, Value](), []
    for name in (key for key in (*RATE[:2], *BATCH[1:]) if key in cells):
        try:
            values[name] = keys[name].check(name, _number(name, cells[name]))
        except InputError as error:
            problems.append(Problem(path.name, line, error.message, key=name, suggestion=error.hint))
    if not problems and "batch_size" in values and exact(values["batch_size"]) > exact(values["dataset_size"]):
        problems.append(Problem(path.name, line, "is above dataset_size", key="batch_size"))
    return values, problems


def _number(name: str, text: str) -> Value:
    """A cell as a budget file would hold it: a whole number, or a decimal that keeps its digits."""
    if text.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return Decimal(text)
    if len(text) > 100 or not _NUMBER.fullmatch(text):
        raise InputError(name, f'"{quoted(text[:40])}" is not a number')
    if text.lstrip("+-").isdigit():
        return int(text)
    try:
        return Decimal(str(Digits(text)))
    except ArithmeticError:  # an exponent beyond those of decimals; the check of the value says what is wrong
        return Decimal(text)
