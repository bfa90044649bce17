"""The plain data that every renderer reads. A command builds one Report; renderers never compute."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dpbudget.model import Guarantee, Interval
from dpbudget.version import __version__

SCHEMA = "dpbudget.report/1"


class Rounding(StrEnum):
    """Which way a number may move when it is shortened for people; an exact one keeps every digit.

    An input moves to the side on which what is said of it stays true: "epsilon <= 2 with noise multiplier 1.05" holds for
    the 1.0449 that was typed, with 1.04 it would be another claim. Noise and delta go up, rates down.
    """

    UP = "up"
    DOWN = "down"
    NEAREST = "nearest"
    EXACT = "exact"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its safe side. None prints as a dash, infinity as `inf`.

    beside: what it is compared with in the same sentence; it takes as many digits as keep it on its side.
    """

    value: float | int | None
    rounding: Rounding = Rounding.NEAREST
    beside: float | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """An interval for people: the lower end rounds down, the upper end up."""

    interval: Interval


Cell = str | Quantity | Range


@dataclass(frozen=True, slots=True)
class Table:
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """Points of a picture in order of x; low and high are the edges of a band around y. look: line, dashed or points."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    look: str = "line"


@dataclass(frozen=True, slots=True)
class Picture:
    """What a chart shows; every value is finite. marks: points with a word beside them. caption: what it assumes.

    from_zero: the vertical axis begins at 0. ranked: the series are ordered, as batch sizes are.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    caption: str = ""
    log_x: bool = False
    log_y: bool = False
    from_zero: bool = False
    ranked: bool = False
    marks: Sequence[tuple[float, float, str]] = ()


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning with its next step."""

    code: str
    message: str
    hint: str = ""


@dataclass
class Report:
    """What a command found.

    result: the JSON contract of the command. headline: the answer in one line, `{0}`, `{1}` standing for `answers`.
    value: what `--format value` prints. facts: what went in. main: the table that csv prints.
    verbatim: text to copy as it is, such as budget-file entries. subject: what the number is about, where `facts` do
    not say it; for the statement. picture: for --plot and, with --verbose, the terminal; JSON leaves it out.
    """

    command: str
    input: Mapping[str, Any]
    assumptions: Mapping[str, Any]
    result: Mapping[str, Any]
    headline: str
    answers: Sequence[Cell]
    value: Quantity
    facts: Sequence[tuple[str, Cell, str]] = ()
    main: Table | None = None
    verbatim: str = ""
    subject: str = ""
    notes: Sequence[str] = ()
    explanation: Sequence[str] = ()
    warnings: list[Notice] = field(default_factory=list)
    picture: Picture | None = None
    status: str = "ok"
    exit_code: int = 0

    def document(self) -> dict[str, Any]:
        """The report as one JSON document, key order as in the contract."""
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "version": __version__,
            "command": self.command,
            "status": self.status,
            "input": self.input,
            "assumptions": self.assumptions,
            "result": self.result,
            "warnings": [{"code": w.code, "message": w.message, "hint": w.hint} for w in self.warnings],
        }
        clean = finite(document)
        assert isinstance(clean, dict)
        return clean


def finite(value: Any) -> Any:
    """The same data with null for what JSON has no number for; tuples become lists."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, bool) or value is None or isinstance(value, (str, int)):
        return str(value) if isinstance(value, StrEnum) else value
    if isinstance(value, Interval):
        return finite(interval_json(value))
    number = float(value)
    return number if math.isfinite(number) else None


def interval_json(interval: Interval) -> dict[str, float | None]:
    """Only the ends that were proven, and the estimate where there is one."""
    ends = {"lower": interval.lower, "upper": interval.upper, "estimate": interval.estimate}
    return {name: end for name, end in ends.items() if end is not None}


def guarantee_json(guarantee: Guarantee, quantity: str) -> dict[str, Any]:
    """One entry of `accountants`. Engine internals stay out: they belong to the explanation."""
    entry: dict[str, Any] = {
        "name": guarantee.accountant,
        "kind": str(guarantee.kind),
        quantity: interval_json(guarantee.value),
    }
    entry.update({key: value for key, value in guarantee.detail.items() if key != "engine"})
    if guarantee.value.upper == math.inf:
        entry["status"] = "unbounded"
    return entry
