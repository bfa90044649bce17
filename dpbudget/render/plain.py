"""Pieces that text formats share: harmless names and wrapped paragraphs."""

from __future__ import annotations

import textwrap


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
