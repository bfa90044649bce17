"""Pieces that text formats share: harmless names, wrapped paragraphs, tables that never lose a digit."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence


def harmless(text: str) -> str:
    """User text on one line with control and escape characters shown, not obeyed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def paragraph(text: str, width: int, indent: str = "") -> str:
    return textwrap.fill(
        text,
        width=max(width, 20),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, indent: str = "  ") -> str:
    """Columns side by side where they fit, else one `column: value` block a row. Nothing is cut."""
    cells = [[harmless(cell) for cell in row] for row in rows]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(columns)]
    if len(indent) + sum(widths) + 2 * (len(widths) - 1) <= width:
        lines = [columns, *cells]
        return "\n".join(
            (indent + "  ".join(cell.ljust(size) for cell, size in zip(line, widths, strict=True))).rstrip()
            for line in lines
        )
    label = max((len(name) for name in columns), default=0)
    blocks = [
        "\n".join(f"{indent}{name.ljust(label)}  {cell}" for name, cell in zip(columns, row, strict=True) if cell)
        for row in cells
    ]
    return "\n\n".join(blocks)
