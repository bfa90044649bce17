"""GitHub workflow commands, one line each, with the characters that would end or forge one escaped."""

from __future__ import annotations

from collections.abc import Mapping

from dpbudget.render import numbers, plain
from dpbudget.report import Report


def _data(text: str) -> str:
    return plain.harmless(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def line(level: str, message: str, *, file: str = "", at: int = 0, title: str = "dpbudget") -> str:
    """`::error file=budget.toml,line=12,title=dpbudget::message`."""
    where = f"file={_property(file)},line={max(1, at)}," if file else ""
    return f"::{level} {where}title={_property(title)}::{_data(message)}\n"


def render(report: Report, file: str, lines: Mapping[tuple[str, str], int], digits: int) -> str:
    """The verdict at the budget, and each change that would fit at its key. `lines`: line by release name and key.

    The verdict comes first: GitHub shows ten annotations of a kind for one step. `file` is empty for standard input.
    """
    answer = numbers.answer(report, digits)
    level = "notice" if report.result["verdict"] == "within" else "error" if report.exit_code else "warning"
    out = [line(level, answer, file=file, at=lines.get(("", ""), 1))]
    for change in report.result["to_pass"]:
        word = "at most" if change["direction"] == "at_most" else "at least"
        text = f"{change['release']}: {change['parameter']} {word} {change['to']!r} would fit the budget"
        at = lines.get((change["release"], change["parameter"])) or lines.get((change["release"], ""), 1)
        out.append(line("warning", text, file=file, at=at))
    return "".join(out)
