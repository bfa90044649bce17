"""How a report is to look."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Style:
    """width in columns, significant digits, whether escape codes are welcome, whether to explain."""

    width: int = 80
    digits: int = 5
    colour: bool = False
    verbose: bool = False
