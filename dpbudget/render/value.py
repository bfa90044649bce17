"""The one number, for shell scripts."""

from __future__ import annotations

from dpbudget.render import numbers
from dpbudget.render.style import Style
from dpbudget.report import Report


def render(report: Report, style: Style) -> str:
    return numbers.quantity(report.value, style.digits) + "\n"
