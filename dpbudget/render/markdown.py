"""For a pull request or a job summary: the answer, a table, the assumptions."""

from __future__ import annotations

from collections.abc import Sequence

from dpbudget.render import columns, numbers, plain
from dpbudget.render.style import Style
from dpbudget.report import Report


def escape(text: str) -> str:
    """User text that can't end a table cell or open a tag."""
    clean = plain.harmless(text)
    for mark in "\\`*_[]|#":
        clean = clean.replace(mark, "\\" + mark)
    return clean.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def render(report: Report, style: Style) -> str:
    answer = numbers.answer(report, style.digits)
    blocks = [f"**{escape(answer)}**"]
    if report.facts:
        lines = [_row(["input", "value", ""]), _row(["---", "---", "---"])]
        lines += [_row([escape(n), escape(numbers.cell(c, style.digits)), escape(r)]) for n, c, r in report.facts]
        blocks.append("\n".join(lines))
    if report.main and report.main.rows:
        rows = [[numbers.cell(item, style.digits) for item in row] for row in report.main.rows]
        marks = ["---:" if columns.numeric(column) else "---" for column in zip(*rows, strict=True)]
        lines = [_row([escape(name) for name in report.main.columns]), _row(marks)]
        lines += [_row([escape(cell) for cell in row]) for row in rows]
        blocks.append("\n".join(lines))
    if report.verbatim:
        language = "toml" if report.verbatim.lstrip().startswith("[") else "sh"
        blocks.append(f"```{language}\n{report.verbatim.strip()}\n```")
    blocks.extend(escape(note) for note in report.notes)
    blocks.extend(f"> **{escape(w.code)}**: {escape(w.message)}. {escape(w.hint)}".rstrip() for w in report.warnings)
    if style.verbose:
        blocks.extend(escape(line) for line in report.explanation)
    return "\n\n".join(blocks) + "\n"
