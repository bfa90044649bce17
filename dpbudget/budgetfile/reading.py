"""Reading a budget file: text in, a BudgetDocument out, or one error that lists everything that is wrong with it.

Nothing is guessed: an unknown key, a value out of range, a
contradiction, a missing adjacency are errors, each with its line.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpbudget import checks
from dpbudget.budgetfile.document import (
    BudgetDocument,
    BudgetFileError,
    BudgetSection,
    Problem,
)
from dpbudget.budgetfile.findings import Findings, where_it_belongs
from dpbudget.budgetfile.keys import COMMON_KEYS, MECHANISMS
from dpbudget.budgetfile.release import ReleaseReader
from dpbudget.budgetfile.tomlscan import Layout, scan
from dpbudget.budgetfile.values import SOLVE, Decimal, Key, choice, flag, number, shown
from dpbudget.files import instead
from dpbudget.model import Adjacency

MAX_BYTES = 1_000_000
SECTIONS = ("schema", "budget", "defaults", "release")
TOO_LARGE = "is larger than 1 MB; a budget file is a few kilobytes"

BUDGET_KEYS: Mapping[str, Key] = {
    "epsilon": Key(number(lambda key, value: checks.epsilon(value, key)), "the most that may be spent"),
    "delta": Key(number(lambda key, value: checks.delta(value, key)), "the delta at which epsilon is meant"),
    "adjacency": Key(choice(*Adjacency), "which data sets are neighbours"),
    "unit": Key(choice("example", "client", "user"), "what is protected"),
    "adaptive": Key(flag, "true: what is run may depend on earlier outputs"),
}
REQUIRED = {
    "epsilon": "Add, for example, epsilon = 8.",
    "delta": "Add, for example, delta = 1e-5.",
    "adjacency": 'A file has no default for it; write "add-or-remove-one", "replace-one" or "zero-out".',
}


def read(path: str | os.PathLike[str]) -> str:
    """The text of a file; line endings and a byte order mark are kept. Raises BudgetFileError."""
    name = os.fspath(path)
    try:
        if not name:
            raise ValueError("Path makes the current folder of an empty name")
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        way_out = instead(path) or ("dpbudget init starts one." if isinstance(error, FileNotFoundError) else "")
        raise BudgetFileError(
            [Problem(name, 0, f"cannot be read: {error.strerror or error}", suggestion=way_out)]
        ) from None
    except ValueError:
        raise BudgetFileError([Problem(name or "''", 0, "is not a file name")]) from None
    return decode(data, filename=name)


def decode(data: bytes, *, filename: str) -> str:
    """The text that the bytes of a file stand for. Raises BudgetFileError where it is too large or not UTF-8."""
    if len(data) > MAX_BYTES:
        raise BudgetFileError([Problem(filename, 0, TOO_LARGE)])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        hint = "It looks like UTF-16; save it as UTF-8." if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        message = f"not UTF-8 text: byte 0x{data[error.start]:02x} at offset {error.start}"
        raise BudgetFileError([Problem(filename, line, message, suggestion=hint)]) from None


def load(text: str, *, filename: str) -> BudgetDocument:
    """The document that a text stands for. Raises BudgetFileError with all problems, and nothing else."""
    # A surrogate cannot come from a file; it would break the messages.
    if re.search("[\ud800-\udfff]", text):
        raise BudgetFileError([Problem(filename, 0, "not Unicode text: it holds half of a surrogate pair")])
    if len(text.encode()) > MAX_BYTES:
        raise BudgetFileError([Problem(filename, 0, TOO_LARGE)])
    layout = scan(text)
    findings = Findings(filename, layout)
    return _document(_parse(text, layout, filename), findings)


def _parse(text: str, layout: Layout, filename: str) -> dict[str, Any]:
    if layout.error and layout.error.hazard:
        raise BudgetFileError([Problem(filename, layout.error_line, layout.error.message)])
    try:
        return tomllib.loads(text.removeprefix("\ufeff"), parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        message, line = _syntax(str(error), text)
        raise BudgetFileError([Problem(filename, line, message, suggestion=_instead(text, line))]) from None
    except ValueError:
        # tomllib lets Python's own limit on the digits of an integer through, without a place.
        line = _line_of_digits(text, layout, sys.get_int_max_str_digits())
        raise BudgetFileError([Problem(filename, line, "a whole number has too many digits")]) from None


def _line_of_digits(text: str, layout: Layout, most: int) -> int:
    digits = re.compile(rf"[0-9_]{{{most},}}")
    spans = (span for span in layout.spans.values() if text[span.start : span.start + 1] not in ("'", '"'))
    return next((span.line for span in spans if digits.search(text, span.start, span.end)), 0)


def _syntax(message: str, text: str) -> tuple[str, int]:
    if match := re.search(r" \(at line (\d+), column (\d+)\)$", message):
        return f"not valid TOML: {message[: match.start()]} (column {match[2]})", int(match[1])
    return f"not valid TOML: {message}", text.rstrip("\n").count("\n") + 1


def _instead(text: str, line: int) -> str:
    """What was probably meant on a line that is not TOML."""
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        return "It looks like JSON; dpbudget init writes a budget file to start from."
    lines = text.split("\n")  # as TOML counts them
    key, mark, value = (lines[line - 1] if 0 < line <= len(lines) else "").partition("=")
    value = value.partition("#")[0].strip()
    if not mark:
        return "Each line is KEY = VALUE." if re.fullmatch(r"\s*[\w-]+\s*:.*", key) else ""
    if re.fullmatch(r"-?\d+,\d+", value):
        return f"Decimals take a point: {key.strip()} = {value.replace(',', '.')}."
    if re.fullmatch(r"-?[\d.]+\s*%", value):
        return f"Write {key.strip()} = {float(value.rstrip('% ')) / 100:.12g}." if value.count(".") < 2 else ""
    if re.fullmatch(r"[A-Za-z][\w-]*", value):
        return f'Text stands in quotes: {key.strip()} = "{value}".'
    if re.fullmatch(r"\.\d+|\d+\.|\d+\.e.*", value):
        return "A number has digits on both sides of its point."
    return ""


def _document(data: dict[str, Any], findings: Findings) -> BudgetDocument:
    _top(data, findings)
    budget = _budget(data, findings)
    reader = ReleaseReader(_defaults(data, findings), findings)
    releases = [reader.read(index, table) for index, table in enumerate(_tables(data, findings))]
    good = tuple(release for release in releases if release)
    if budget:
        for release in good:
            reader.fit(release, budget.adjacency)
    if findings.problems or budget is None:
        raise BudgetFileError(findings.problems)
    return BudgetDocument(findings.filename, budget, good)


def _top(data: dict[str, Any], findings: Findings) -> None:
    if not data:
        findings.add(1, "the file is empty", hint="dpbudget init writes one to start from.")
        return
    for key, value in data.items():
        if key not in SECTIONS:
            kind = "section" if isinstance(value, dict | list) else "key"
            hint = where_it_belongs(key, SECTIONS, BUDGET_KEYS)
            findings.add(findings.layout.line(key), f'unknown {kind} "{shown(key)}"', hint=hint)
    schema = data.get("schema")
    if "schema" not in data:
        findings.add(1, "schema is missing", hint="Begin the file with schema = 1.")
    elif isinstance(schema, bool) or not isinstance(schema, int) or schema != 1:
        findings.add(findings.layout.line("schema"), "must be 1, the only version there is", key="schema")


def _table(data: dict[str, Any], name: str, findings: Findings) -> dict[str, Any]:
    table = data.get(name, {})
    if isinstance(table, dict):
        return table
    findings.add(findings.layout.line(name), f"{name} must be a table, written [{name}]")
    return {}


def _budget(data: dict[str, Any], findings: Findings) -> BudgetSection | None:
    table = _table(data, "budget", findings)
    if "budget" not in data:
        if data:
            findings.add(1, "there is no [budget]", hint="It holds epsilon, delta and adjacency.")
        return None
    where, values = "[budget]", dict[str, Any]()
    for key, value in table.items():
        line = findings.layout.line("budget", key)
        if spec := BUDGET_KEYS.get(key):
            values[key] = findings.value(spec, key, value, line, where)
        else:
            hint = where_it_belongs(key, BUDGET_KEYS, BUDGET_KEYS)
            findings.add(line, f'unknown key "{shown(key)}"', where=where, hint=hint)
    if isinstance(data["budget"], dict):
        for key in REQUIRED.keys() - table.keys():
            findings.add(findings.layout.line("budget"), f"{key} is missing", where=where, hint=REQUIRED[key])
    if any(value is None for value in values.values()) or not REQUIRED.keys() <= values.keys():
        return None
    return BudgetSection(
        epsilon=float(values["epsilon"]),
        delta=float(values["delta"]),
        adjacency=Adjacency(values["adjacency"]),
        unit=values.get("unit", "example"),
        adaptive=values.get("adaptive", False),
    )


def _defaults(data: dict[str, Any], findings: Findings) -> dict[str, Any]:
    """[defaults] without the keys that cannot stand there; the values are checked in each release that takes them."""
    where, table = "[defaults]", _table(data, "defaults", findings)
    known = dict.fromkeys(COMMON_KEYS) | dict.fromkeys(key for spec in MECHANISMS.values() for key in spec.keys)
    del known["name"]
    for key, value in table.items():
        line = findings.layout.line("defaults", key)
        if key not in known:
            hint = "Each release has its own." if key == "name" else where_it_belongs(key, known, BUDGET_KEYS)
            findings.add(line, f'unknown key "{shown(key)}"', where=where, hint=hint)
        elif value == SOLVE:
            findings.add(line, '"solve" must stand in the release that it is about', where=where, key=key)
    return {key: value for key, value in table.items() if key in known and value != SOLVE}


def _tables(data: dict[str, Any], findings: Findings) -> list[dict[str, Any]]:
    tables = data.get("release", [])
    if isinstance(tables, list) and all(isinstance(table, dict) for table in tables):
        return tables
    findings.add(findings.layout.line("release"), "a release must be written [[release]], with double brackets")
    return []
