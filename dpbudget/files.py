"""Which file was meant by one that is not there."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from dpbudget.names import meant

MOST = 1000  # entries of a folder that are looked at


def instead(path: str | os.PathLike[str]) -> str:
    """ "Did you mean FILE?" for a path that is no file: one of the same kind beside it, or in it where it is a folder.

    Empty where nothing looks alike, or the folder can't be read.
    """
    asked = Path(path)
    try:
        if asked.is_file():
            return ""
        folder = asked if asked.is_dir() else asked.parent
        found = [entry.name for entry in islice(folder.iterdir(), MOST) if entry.is_file() and entry.name.isprintable()]
        if asked.is_dir():
            near = "budget.toml" if "budget.toml" in found else ""
        else:
            kinds = {Path(name).suffix for name in found}
            stems = {Path(name).stem: name for name in sorted(found) if Path(name).suffix == asked.suffix or asked.suffix
                     not in kinds}  # fmt: skip
            near = stems.get(meant(asked.stem, stems, {}), "")
    except (OSError, ValueError):
        return ""
    return f"Did you mean {folder / near}?" if near else ""
