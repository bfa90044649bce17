"""Scores of a membership attack from a CSV file: columns world (in or out) and score, one run a row."""

from __future__ import annotations

import csv
import io
import math
import os
from pathlib import Path

from dpbudget.errors import InputError
from dpbudget.importers.imported import read_bytes, shown

WORLDS = {
    "in": True,
    "1": True,
    "true": True,
    "member": True,
    "out": False,
    "0": False,
    "false": False,
    "non-member": False,
}
MAX_SCORES = 1_000_000


def read_scores(path: str | os.PathLike[str]) -> tuple[list[float], list[float]]:
    """(scores with the record, scores without it). Infinite scores are allowed, NaN is not. Raises InputError."""
    file = Path(path)

    def fail(line: int, message: str, hint: str = "") -> InputError:
        return InputError("scores", f"{shown(file)}:{line}: {message}", hint=hint)

    try:
        text = read_bytes(file).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise fail(1, "is not UTF-8 text") from None
    except InputError as error:
        raise InputError("scores", str(error), hint=error.hint) from None
    found: dict[bool, list[float]] = {True: [], False: []}
    columns: list[str] = []
    reader = csv.reader(io.StringIO(text))
    try:
        for number, cells in enumerate(reader, 1):
            row = [cell.strip() for cell in cells]
            if not any(row):
                continue
            if not columns:
                columns = [cell.lower() for cell in row]
                if sorted(columns) != ["score", "world"]:
                    raise fail(number, "the columns are not world and score", "Begin the file with world,score.")
                continue
            if len(row) != 2:
                raise fail(number, f"{len(row)} values under 2 columns")
            if number > MAX_SCORES:
                raise fail(number, f"more than {MAX_SCORES:,} rows")
            world, score = row[columns.index("world")].lower(), row[columns.index("score")]
            if world not in WORLDS:
                raise fail(number, f"{world[:40]!r} is no world", "Write in or out, 1 or 0.")
            try:
                value = float(score)
            except ValueError:
                value = math.nan
            if math.isnan(value):
                raise fail(number, f"{score[:40]!r} is not a score")
            found[WORLDS[world]].append(value)
    except csv.Error as error:
        raise fail(reader.line_num, f"not CSV: {error}") from None
    if not found[True] or not found[False]:
        raise fail(1, "needs at least one run with the record and one without")
    return found[True], found[False]
