"""What an importer hands over: entries for a budget file, and what had to be assumed to write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbudget.budgetfile.document import DocumentRelease, one_line, to_releases
from dpbudget.budgetfile.keys import MECHANISMS
from dpbudget.budgetfile.values import Value, exact
from dpbudget.errors import InputError
from dpbudget.files import instead
from dpbudget.model import Adjacency, Release, Sampling

MAX_BYTES = 16_000_000
MAX_ROWS = 100_000
MAX_VALUES = 1_000_000  # of a JSON file; some take a hundred times the bytes that they are written in
CLIPPING_NORM, SENSITIVITY = READINGS = ("clipping-norm", "sensitivity")
SAYS: Mapping[str, str] = {
    "rdp": "It reports an upper bound by RDP over a fixed list of orders; the true epsilon is smaller.",
    "prv": "It reports the upper end of its interval, about 0.01 above the true epsilon.",
    "gdp": "It reports an estimate by the central limit theorem (GDP), which can lie below the true epsilon.",
}


@dataclass(frozen=True, slots=True)
class ImportedState:
    """What a file of another tool says, as entries of a budget file, and what had to be assumed.

    entries: the keys of one [[release]] each, to be written by edit.append_release.
    adjacency, unit, delta, max_epsilon: of the tool's configuration; delta and max_epsilon where it holds them.
    accountant: how the tool computes epsilon; `explanation` says why its number differs from a certified one.
    noise_relative_to: what the multipliers were read against: "clipping-norm" or "sensitivity".
    """

    tool: str
    entries: tuple[Mapping[str, Value], ...]
    adjacency: Adjacency
    sampling: Sampling
    unit: str = "example"
    accountant: str | None = None
    delta: float | None = None
    max_epsilon: float | None = None
    noise_relative_to: str = CLIPPING_NORM
    notes: tuple[str, ...] = ()

    @property
    def explanation(self) -> str:
        return SAYS.get(self.accountant or "", "").replace("It ", f"{self.tool} ", 1)

    def releases(self) -> list[Release]:
        """The releases of the model, in the order of the entries."""
        result = []
        for index, entry in enumerate(self.entries):
            parameters = {key: value for key, value in entry.items() if key not in ("name", "status", "mechanism")}
            release = DocumentRelease(index, str(entry["name"]), str(entry["mechanism"]), parameters, spent=True)
            result += to_releases(release, self.adjacency)
        return result


def entry(tool: str, number: int, values: Mapping[str, Value], where: str) -> dict[str, Value]:
    """A checked entry; every value is validated as if it stood in a budget file."""
    keys = MECHANISMS["dp-sgd"].keys
    try:
        checked = {key: keys[key].check(key, value) for key, value in values.items()}
        if "batch_size" in checked and exact(checked["batch_size"]) > exact(checked["dataset_size"]):
            raise InputError("batch_size", "is above the population")
    except InputError as error:
        raise InputError("", f"{where}: {error.parameter}: {error.message}", hint=error.hint) from None
    return {"name": f"{tool} {number}", "status": "spent", "mechanism": "dp-sgd", **checked}


def limited(rows: Sequence[Any], path: Path) -> Sequence[Any]:
    """The rows, if they are not too many. Raises InputError."""
    if len(rows) > MAX_ROWS:
        raise InputError("", f"{shown(path)} has more than {MAX_ROWS:,} rows")
    return rows


def shown(path: Path) -> str:
    return one_line(path.name or str(path))


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """The content of a file. Raises InputError where there is none, or too much."""
    try:
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if len(data) > limit:
        raise InputError("", f"{shown(path)} is larger than {limit // 10**6} MB")
    return data


def read_json(path: Path, *, number: Callable[[str], Any], constant: Callable[[str], Any], hint: str = "") -> Any:
    """The value of a JSON file; `number` makes decimals of their text, `constant` makes something of NaN and Infinity.

    hint: the way out where it is no JSON. Raises InputError there, where it cannot be read, and where it holds more than
    MAX_VALUES values.
    """
    data = read_bytes(path)
    if data.count(b",") >= MAX_VALUES:
        raise InputError("", f"{shown(path)} holds more than {MAX_VALUES:,} values")
    try:
        return json.loads(data.decode("utf-8-sig"), parse_float=number, parse_constant=constant)
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:
        reason = one_line(str(error)[:100])
    raise InputError("", f"{shown(path)} is not JSON: {reason}", hint=hint)


def unreadable(path: Path, error: Exception) -> InputError:
    return InputError(
        "", f"{shown(path)} cannot be read: {getattr(error, 'strerror', None) or error}", hint=instead(path)
    )
