"""Tables of text: numbers with their points below each other, nothing cut, no number broken."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from dpbudget.render.plain import harmless

NUMBER = r"(?:-?\d+(?:\.\d+)?(?:e-?\d+)?|inf)"
NUMERIC = re.compile(rf"(?:<= |about )?(?:{NUMBER} to )?(?P<last>{NUMBER})")
BESIDE = ("", "-", "none", "unbounded")  # what may stand among numbers
SHORTER = {"noise multiplier": "sigma", "sampling rate": "q", "dataset size": "n"}  # as the options are called
FEW = 3  # rows that are still read as blocks when their table does not fit


def numeric(cells: Sequence[str]) -> bool:
    """Whether a column holds numbers, bounds or intervals, and nothing else."""
    numbers = [cell for cell in cells if cell not in BESIDE]
    return bool(numbers) and all(NUMERIC.fullmatch(cell) for cell in numbers)


@dataclass(frozen=True)
class Column:
    """A head and its cells. Cells of numbers are equally long, so that their points stand below each other."""

    head: str
    cells: Sequence[str]
    numbers: bool
    right: bool

    @classmethod
    def of(cls, head: str, cells: Sequence[str]) -> Column:
        if not numeric(cells):
            return cls(head, cells, numbers=False, right=False)
        single = all(" " not in cell for cell in cells)
        return cls(head, aligned(cells), numbers=True, right=single)

    @property
    def width(self) -> int:
        return max(map(len, [*self.head.split(), *self.cells]))

    @property
    def floor(self) -> int:
        """The least width: words wrap between words, numbers do not."""
        words = self.cells if self.numbers else [word for cell in self.cells for word in cell.split()]
        return max(map(len, [*self.head.split(), *words]))

    def lines(self, text: str, width: int) -> list[str]:
        """The lines of one cell, or of the head."""
        pieces = (
            [text] if len(text) <= width else textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
        )
        return [piece.rjust(width) if self.right else piece.ljust(width) for piece in pieces]


def aligned(cells: Sequence[str]) -> list[str]:
    """The cells with the points of their last numbers below each other; what is no number ends where numbers end."""
    found = [NUMERIC.fullmatch(cell) for cell in cells]
    points = [match.start("last") + len(re.split("[.e]", match["last"])[0]) if match else 0 for match in found]
    moved = [" " * (max(points) - point) + cell if point else cell for point, cell in zip(points, cells, strict=True)]
    size = max(map(len, moved))
    return [cell.ljust(size) if point else cell.rjust(size) for point, cell in zip(points, moved, strict=True)]


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, indent: str = "  ") -> str:
    """Columns side by side where they fit: with wrapped words, with short heads, closer together; else row by row.

    A column without any value is left out.
    """
    kept = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    if not kept:
        return ""
    full = [Column.of(columns[i], [harmless(row[i]) for row in rows]) for i in kept]
    short = [Column.of(SHORTER.get(columns[i], columns[i]), [harmless(row[i]) for row in rows]) for i in kept]
    for these, gap in ((full, 2), (short, 2), (short, 1)):
        widths = _widths(these, width - len(indent) - gap * (len(these) - 1))
        if widths:
            return "\n".join((indent + line).rstrip() for line in _lines(these, widths, " " * gap))
    return _row_by_row([columns[i] for i in kept], [[harmless(row[i]) for i in kept] for row in rows], width, indent)


def _widths(columns: Sequence[Column], room: int) -> list[int]:
    """How wide each column may be; none if they do not fit. The column with most to give gives first."""
    widths = [column.width for column in columns]
    for i in sorted(range(len(columns)), key=lambda i: columns[i].floor - columns[i].width):
        widths[i] -= max(0, min(sum(widths) - room, columns[i].width - columns[i].floor))
    return widths if sum(widths) <= room else []


def _lines(columns: Sequence[Column], widths: Sequence[int], gap: str) -> list[str]:
    heads = [column.lines(column.head, size) for column, size in zip(columns, widths, strict=True)]
    depth = max(map(len, heads))
    lines = _side_by_side([[""] * (depth - len(head)) + head for head in heads], widths, gap)
    for row in zip(*(column.cells for column in columns), strict=True):
        cells = [column.lines(cell, size) for column, cell, size in zip(columns, row, widths, strict=True)]
        lines += _side_by_side(cells, widths, gap)
    return lines


def _side_by_side(cells: Sequence[Sequence[str]], widths: Sequence[int], gap: str) -> list[str]:
    depth = max(map(len, cells))
    return [
        gap.join(
            (cell[level] if level < len(cell) else "").ljust(size) for cell, size in zip(cells, widths, strict=True)
        )
        for level in range(depth)
    ]


def _row_by_row(names: Sequence[str], rows: Sequence[Sequence[str]], width: int, indent: str) -> str:
    """A block for each of few rows, a paragraph for each of many; a name and its value stay together."""
    if len(rows) <= FEW:
        label = max(map(len, names))
        blocks = [
            "\n".join(f"{indent}{name.ljust(label)}  {cell}" for name, cell in zip(names, row, strict=True) if cell)
            for row in rows
        ]
        return "\n\n".join(blocks)
    lines = []
    for row in rows:
        line = indent[:-1]
        for piece in (f" {name} {cell};" for name, cell in zip(names, row, strict=True) if cell):
            if len(line) + len(piece) > width and line.strip():
                lines.append(line)
                line = indent + " "
            line += piece
        lines.append(line.rstrip(";"))
    return "\n".join(lines)
