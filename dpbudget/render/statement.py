"""A paragraph to paste into a paper, a model card or a data-protection record."""

from __future__ import annotations

from dpbudget.render import numbers, plain
from dpbudget.render.style import Style
from dpbudget.report import Report
from dpbudget.version import __version__


def render(report: Report, style: Style) -> str:
    answer = numbers.answer(report, style.digits)
    inputs = "; ".join(f"{name} {numbers.cell(item, style.digits)}" for name, item, _ in report.facts)
    subject = report.subject or (f"Computed for {inputs}." if inputs else "")
    sentences = [f"{answer[:1].upper()}{answer[1:].rstrip('.')}.", subject, *report.notes]
    sentences.append(f"Accounting by dpbudget {__version__}.")
    return plain.paragraph(plain.harmless(" ".join(s for s in sentences if s)), style.width) + "\n"
