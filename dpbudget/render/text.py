"""For people at a terminal, in a pipe or in a CI log: the answer first, then what it rests on."""

from __future__ import annotations

from dpbudget.render import chart, columns, numbers, plain
from dpbudget.render.style import Style
from dpbudget.report import Report


def render(report: Report, style: Style) -> str:
    answer = numbers.answer(report, style.digits)
    head = plain.paragraph(plain.harmless(answer), style.width)
    blocks = [f"\x1b[1m{head}\x1b[0m" if style.colour else head]
    if report.facts:
        label = max(len(name) for name, _, _ in report.facts)
        lines = []
        for name, item, remark in report.facts:
            line = f"  {name.ljust(label)}  {plain.harmless(numbers.cell(item, style.digits))}"
            together = f"{line}  ({plain.harmless(remark)})" if remark else line
            fits = len(together) <= style.width
            lines.append(
                together if fits else f"{line}\n{plain.paragraph(f'({remark})', style.width, ' ' * (label + 4))}"
            )
        blocks.append("\n".join(lines))
    if report.main and report.main.rows:
        rows = [[numbers.cell(item, style.digits) for item in row] for row in report.main.rows]
        body = columns.table(list(report.main.columns), rows, style.width)
        blocks.append(f"{report.main.title}\n{body}" if report.main.title else body)
    if report.picture is not None and style.verbose:
        blocks.append(chart.draw(report.picture, style.width))
    if report.verbatim:
        blocks.append(report.verbatim.strip("\n"))
    blocks.extend(plain.paragraph(plain.harmless(note), style.width) for note in report.notes)
    if style.verbose:
        blocks.extend(plain.paragraph(plain.harmless(line), style.width) for line in report.explanation)
    return "\n\n".join(blocks) + "\n"
