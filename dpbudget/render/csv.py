"""The main table as CSV. A name that a spreadsheet would run as a formula is quoted with an apostrophe."""

from __future__ import annotations

import csv
import io

from dpbudget.render import numbers, plain
from dpbudget.render.style import Style
from dpbudget.report import Cell, Range, Report, Rounding


def _cells(item: Cell, digits: int) -> list[str]:
    if isinstance(item, Range):
        ends = item.interval
        return [
            "" if ends.lower is None else numbers.number(ends.lower, digits, Rounding.DOWN),
            "" if ends.upper is None else numbers.number(ends.upper, digits, Rounding.UP),
            "" if ends.estimate is None else numbers.number(ends.estimate, digits),
        ]
    if isinstance(item, str):
        clean = plain.harmless(item)
        return ["'" + clean if clean[:1] in ("=", "+", "@", "-") and clean != "-" else clean]
    return ["" if item.value is None else numbers.quantity(item, digits)]


def render(report: Report, style: Style) -> str:
    """An interval takes three columns: NAME_lower, NAME_upper, NAME_estimate."""
    table = report.main
    if table is None:
        return ""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    wide = [any(isinstance(row[i], Range) for row in table.rows) for i in range(len(table.columns))]
    header: list[str] = []
    for name, is_range in zip(table.columns, wide, strict=True):
        key = name.replace(" ", "_").replace("%", "percent")
        header += [f"{key}_lower", f"{key}_upper", f"{key}_estimate"] if is_range else [key]
    writer.writerow(header)
    for row in table.rows:
        line: list[str] = []
        for item, is_range in zip(row, wide, strict=True):
            cells = _cells(item, style.digits)
            line += cells + [""] * (2 if is_range and len(cells) == 1 else 0)
        writer.writerow(line)
    return out.getvalue()
