"""Records for a simulation: from a CSV file that the user names, or generated. Scaled by public constants only.

A mean, a standard deviation or a range that is computed from the records is a release of its own, and is never used here.
"""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbudget import checks
from dpbudget.errors import InputError
from dpbudget.files import lines

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
MOST_CELLS = 50_000_000
MOST_CLASSES = 1000
SHOWN = 5


@dataclass(frozen=True)
class Data:
    """features: shape (n, d).  labels: shape (n,), in [0, len(classes)).  clients: shape (n,) or None.

    missing: lines of the file that were left out because a value is missing; dropping a record by its own values
    alone changes no guarantee.
    """

    features: Array
    labels: Integers
    classes: tuple[str, ...]
    columns: tuple[str, ...]
    clients: Integers | None = None
    client_names: tuple[str, ...] = ()
    missing: int = 0
    missing_lines: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Integers) -> Data:
        clients = None if self.clients is None else self.clients[rows]
        return replace(self, features=self.features[rows], labels=self.labels[rows], clients=clients)

    def scaled(self, factor: float) -> Data:
        """Every feature divided by one public constant."""
        return replace(self, features=self.features / factor)

    def ranged(self, ranges: Mapping[str, tuple[float, float]]) -> Data:
        """Every feature cut to its public range [low, high] and mapped to [-1, 1]."""
        absent = [name for name in self.columns if name not in ranges]
        if absent:
            raise InputError(
                "ranges", f"have no row for column {absent[0]!r}", hint="Give low and high of each feature."
            )
        low = np.array([ranges[name][0] for name in self.columns])
        high = np.array([ranges[name][1] for name in self.columns])
        return replace(self, features=2 * (np.clip(self.features, low, high) - low) / (high - low) - 1)


def generate(
    rng: np.random.Generator, records: int, features: int, classes: int, held_out: int, separation: float = 1.5
) -> tuple[Data, Data]:
    """Training records and fresh ones from the same law: one unit Gaussian around each of `classes` random centres.

    Centres are `separation` away from the origin; the whole is divided by sqrt(features + separation^2), the root mean
    square length of a record, which is known beforehand. Every record is drawn by itself.
    """
    directions = rng.standard_normal((classes, features))
    centres = separation * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    if classes == 2:
        centres[1] = -centres[0]
    labels = rng.integers(classes, size=records + held_out)
    points = centres[labels] + rng.standard_normal((records + held_out, features))
    points /= math.sqrt(features + separation**2)
    names = tuple(f"x{i + 1}" for i in range(features))
    kinds = tuple(str(i) for i in range(classes))
    return (
        Data(points[:records], labels[:records], kinds, names),
        Data(points[records:], labels[records:], kinds, names),
    )


def split(data: Data, held_out: int, rng: np.random.Generator) -> tuple[Data, Data]:
    """(training, held out), drawn at random."""
    order = rng.permutation(len(data))
    return data.take(order[held_out:]), data.take(order[:held_out])


def read_csv(path: str, label: str | None, client: str | None = None) -> Data:
    """The records of a CSV file with a header line; every column but label and client is a numeric feature.

    label: the column to predict, text or number; the last column where None. Rows with a missing value are left out and
    counted. Raises InputError with the line and column of a value that is not a number.
    """
    reader = csv.reader(lines(path, "data", hint="Name a CSV file with a header line."))
    try:
        return _read(reader, path, label, client)
    except csv.Error as error:
        raise InputError("data", f"{path}:{reader.line_num}: not CSV: {error}") from None


def _read(reader: Any, path: str, label: str | None, client: str | None) -> Data:
    """reader: a csv.reader, which knows its line numbers."""
    header = [name.strip() for name in next(reader, [])]
    if len(header) < 2 or len(set(header)) < len(header):
        raise InputError("data", f"{path}: the first line is not a header of distinct column names")
    target = _column(header, header[-1] if label is None else label, "label", path)
    owner = None if client is None else _column(header, client, "client_column", path)
    kept = [i for i in range(len(header)) if i not in (target, owner)]
    values = array("d")
    labels: list[str] = []
    owners: list[str] = []
    missing: list[int] = []
    for line in reader:
        if not any(cell.strip() for cell in line):
            continue
        if len(line) != len(header):
            raise InputError("data", f"{path}:{reader.line_num}: {len(line)} values, but {len(header)} columns")
        if any(cell.strip().lower() in MISSING for cell in line):
            missing.append(reader.line_num)
            continue
        values.extend(_number(line[i], header[i], path, reader.line_num) for i in kept)
        labels.append(line[target].strip())
        owners.append("" if owner is None else line[owner].strip())
        if len(values) > MOST_CELLS:
            raise InputError("data", f"{path} holds more than {MOST_CELLS:,} values", hint="Simulate on a part of it.")
    classes, numbers = _coded(labels)
    if not 2 <= len(classes) <= MOST_CLASSES:
        hint = "Pass --label COLUMN, the column to predict." if label is None else "A label takes few distinct values."
        raise InputError("label", f"column {header[target]!r} of {path} has {len(classes)} distinct values", hint=hint)
    names, owned = _coded(owners)
    return Data(
        np.array(values).reshape(len(labels), len(kept)), numbers, classes, tuple(header[i] for i in kept),
        None if owner is None else owned, () if owner is None else names, len(missing), tuple(missing[:SHOWN]),
    )  # fmt: skip


def _column(header: Sequence[str], name: str, parameter: str, path: str) -> int:
    if name not in header:
        shown = ", ".join(header[:SHOWN]) + (", ..." if len(header) > SHOWN else "")
        raise InputError(parameter, f"{path} has no column {name!r}", hint=f"Its columns are {shown}.")
    return header.index(name)


def _number(text: str, column: str, path: str, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(
            "data", f"{path}:{line}: column {column!r}: {text.strip()!r} is not a number",
            hint="Features are numbers; drop the column, or code it beforehand.",
        )  # fmt: skip
    return value


def _coded(texts: Sequence[str]) -> tuple[tuple[str, ...], Integers]:
    names, codes = np.unique(np.array(texts, dtype=np.str_), return_inverse=True)
    return tuple(str(name) for name in names), codes.astype(np.int64)


def read_ranges(path: str) -> dict[str, tuple[float, float]]:
    """column -> (low, high) from a CSV file with the columns column, low, high: known beforehand, not from the records."""
    found: dict[str, tuple[float, float]] = {}
    reader = csv.DictReader(lines(path, "ranges", hint="Name a CSV file: column,low,high."))
    try:
        if not {"column", "low", "high"} <= set(reader.fieldnames or ()):
            raise InputError("ranges", f"{path} needs the columns column, low, high")
        for row in reader:
            try:
                low, high = (checks.real(end, checks.number(end, row[end] or "")) for end in ("low", "high"))
            except InputError as error:
                raise InputError("ranges", f"{path}:{reader.line_num}: {error}", hint=error.hint) from None
            if not low < high:
                raise InputError("ranges", f"{path}:{reader.line_num}: {low:g} is not below {high:g}")
            if not math.isfinite(high - low):
                raise InputError(
                    "ranges", f"{path}:{reader.line_num}: from {low:g} to {high:g} is too far for a double"
                )
            column = (row["column"] or "").strip()
            if column in found:
                raise InputError("ranges", f"{path}:{reader.line_num}: column {column!r} has a range already")
            found[column] = (low, high)
    except csv.Error as error:
        raise InputError("ranges", f"{path}:{reader.reader.line_num}: not CSV: {error}") from None
    return found


def deal(data: Data, clients: int, skew: float, rng: np.random.Generator) -> list[Integers]:
    """Rows of each client: unequal sizes and class mixes, Dirichlet with concentration `skew` in every class.

    Small `skew` gives clients of few classes, large `skew` nearly equal ones. Every client gets at least one record.
    """
    if clients > len(data):
        raise InputError("clients", f"{clients} are more than the {len(data)} records to deal out")
    owner = np.empty(len(data), dtype=np.int64)
    for kind in range(len(data.classes)):
        members = np.flatnonzero(data.labels == kind)
        owner[members] = rng.choice(clients, size=members.size, p=rng.dirichlet(np.full(clients, skew)))
    for lacking in range(clients):
        if not (owner == lacking).any():
            owner[rng.choice(np.flatnonzero(owner == np.bincount(owner, minlength=clients).argmax()))] = lacking
    return [np.flatnonzero(owner == c) for c in range(clients)]
