"""Changing the text of a budget file, with every other byte of it left as it is.

Each edit is read back with tomllib and compared with what it should say; if they differ, InputError and no text.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from dpbudget.budgetfile.tomlscan import Layout, Path, scan
from dpbudget.budgetfile.values import Decimal, Value, quoted
from dpbudget.errors import InputError
from dpbudget.model import Adjacency


def toml_value(value: Value) -> str:
    """One value as TOML: text in double quotes with all that cannot be printed escaped; doubles that read back exactly.

    Raises InputError for what TOML cannot hold: NaN, infinity, halves of surrogate pairs.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise InputError("", f'"{quoted(value)}" is not Unicode text')
        return f'"{quoted(str(value))}"'
    if not isfinite(value):
        raise InputError("", f"{value} cannot be written to a budget file")
    if isinstance(value, Decimal):
        return value.text
    return repr(float(value)) if isinstance(value, float) else str(int(value))


def set_value(text: str, release: int, key: str, value: str) -> str:
    """The text with one key of a release set to `value`, which is TOML ("1.25", '"spent"').

    release: the position of the release, from 0. A key that is not there yet becomes the last line of its release.
    """
    layout = scan(text)
    table: Path = ("release", release)
    wanted = _parsed(text)
    try:
        wanted["release"][release][key] = _parsed(f"x = {value}")["x"]
    except (KeyError, IndexError, TypeError):
        raise InputError(key, f"the file has no release number {release + 1}") from None
    if span := layout.spans.get((*table, key)):
        return _verified(text[: span.start] + value + text[span.end :], wanted)
    line = f"{_key(key)} = {value}"
    return _verified(_insert_line(text, _end_of_table(text, layout, table), line), wanted)


def append_release(text: str, release: Mapping[str, Value]) -> str:
    """The text with one more [[release]] at its end; `release` holds its keys in the order in which to write them."""
    return append_releases(text, [release])


def append_releases(text: str, releases: Iterable[Mapping[str, Value]]) -> str:
    """The text with more [[release]] entries at its end, checked once for all of them."""
    wanted = _parsed(text)
    present = wanted.setdefault("release", [])
    if not isinstance(present, list):
        raise InputError("", "release is not a list of tables in this file")
    newline = _newline(text)
    parts = [text if text in ("", "\ufeff") or text.endswith("\n") else text + newline]
    blank = not parts[0].strip("\ufeff \t\r\n") or parts[0].endswith(2 * newline)
    for release in releases:
        lines = [f"{_key(key)} = {toml_value(value)}" for key, value in release.items()]
        present.append(_parsed("\n".join(lines)))
        parts.append(newline.join([*([] if blank else [""]), "[[release]]", *lines, ""]))
        blank = False
    return _verified("".join(parts), wanted) if len(parts) > 1 else text


def template(
    *,
    epsilon: Value = 8,
    delta: Value = Decimal("1e-5"),
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    unit: str = "example",
) -> str:
    """A budget file to start from: a valid one, with one planned release whose noise is to be found."""
    given = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency, "unit": unit}
    return TEMPLATE.format(**{key: f"{key} = {toml_value(value)}".ljust(33) for key, value in given.items()})


TEMPLATE = """\
# The privacy budget of this project. "dpbudget check FILE" says whether all releases together fit it.
schema = 1

[budget]
{epsilon} # what all releases together may cost
{delta} # well below 1 / number of records
{adjacency} # add-or-remove-one, replace-one or zero-out
{unit} # example, client or user: what is protected
# adaptive = true                 # if what is run depends on earlier outputs (early stopping, "train on")

# One entry for each thing that is published. status = "spent" once it has happened.
[[release]]
name = "training"
status = "planned"
mechanism = "dp-sgd"
noise_multiplier = "solve"        # "dpbudget solve FILE --write" fills it in
batch_size = 256
dataset_size = 60000
epochs = 10
sampling = "poisson"
"""


def _newline(text: str) -> str:
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def _key(key: str) -> str:
    return key if key and all(c.isascii() and (c.isalnum() or c in "_-") for c in key) else toml_value(key)


def _parsed(text: str) -> dict[str, Any]:
    if (error := scan(text).error) and error.hazard:
        raise InputError("", f"not a budget file: {error.message}")
    try:
        # Decimals are kept as text: equal then means written alike, and nan equals nan.
        return tomllib.loads(text.removeprefix("\ufeff"), parse_float=lambda number: ("decimal", number))
    except ValueError as failure:
        raise InputError("", f"not valid TOML: {failure}") from None


def _end_of_table(text: str, layout: Layout, table: Path) -> int:
    """The offset after the last line with a key of a table that is written as [[release]]."""
    header = layout.spans.get(table)
    if header is None or not header.header:
        raise InputError("", "the release is not written as [[release]]", hint="Edit the file by hand.")
    later = [span for span in layout.spans.values() if span.start >= header.end]
    following = min((span.start for span in later if span.header), default=len(text))
    last = max((span.end for span in later if not span.header and span.start < following), default=header.end)
    end = text.find("\n", last)
    return len(text) if end < 0 else end + 1


def _insert_line(text: str, offset: int, line: str) -> str:
    newline = _newline(text)
    before = text[:offset]
    if before and not before.endswith("\n"):
        before += newline
    return before + line + newline + text[offset:]


def _verified(text: str, wanted: dict[str, Any]) -> str:
    if _parsed(text) != wanted:
        raise InputError("", "the file cannot be changed without touching something else", hint="Edit it by hand.")
    return text
