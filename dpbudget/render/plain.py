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
    """Columns side by side where they fit, else one `column: value` block a row. Nothing is cut.

    Headers break at spaces before a column grows; a column without any value is left out.
    """
    kept = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    names = [columns[i] for i in kept]
    cells = [[harmless(row[i]) for i in kept] for row in rows]
    widths = [
        max([*(len(word) for word in name.split()), *(len(row[i]) for row in cells)]) for i, name in enumerate(names)
    ]
    if len(indent) + sum(widths) + 2 * (len(widths) - 1) <= width:
        heads = [textwrap.wrap(name, size, break_long_words=False) for name, size in zip(names, widths, strict=True)]
        depth = max((len(head) for head in heads), default=0)
        header = [[*[""] * (depth - len(head)), *head] for head in heads]
        lines = [[head[level] for head in header] for level in range(depth)]
        return "\n".join(
            (indent + "  ".join(cell.ljust(size) for cell, size in zip(line, widths, strict=True))).rstrip()
            for line in [*lines, *cells]
        )
    label = max((len(name) for name in names), default=0)
    blocks = [
        "\n".join(f"{indent}{name.ljust(label)}  {cell}" for name, cell in zip(names, row, strict=True) if cell)
        for row in cells
    ]
    return "\n\n".join(blocks)
