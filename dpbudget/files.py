"""Text files line by line, within bounds, and which file was meant by one that is not there."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

from dpbudget.errors import InputError
from dpbudget.names import meant

MOST = 1000  # entries of a folder that are looked at
MAX_LINE = 1_000_000  # bytes; a device or another kind of file may never end a line


def lines(path: str | os.PathLike[str], parameter: str, *, hint: str = "") -> Iterator[str]:
    """The lines of a UTF-8 file with their ends, as csv.reader wants them; a byte order mark is skipped.

    Raises InputError about `parameter` where the file can't be read (`hint` is the way out), with the line where it is
    no text.
    """
    number = 0
    try:
        with Path(path).open("rb") as stream:
            for number in count(1):
                line = stream.readline(MAX_LINE + 1)
                if not line:
                    return
                if len(line) > MAX_LINE:
                    raise InputError(parameter, f"{path}:{number}: a line of more than {MAX_LINE:,} bytes")
                # lone carriage returns end lines too
                yield from io.StringIO(line.decode("utf-8-sig" if number == 1 else "utf-8"), newline="")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise InputError(parameter, f"{path}:{number}: not UTF-8 text: byte 0x{byte:02x}") from None
    except OSError as error:
        raise InputError(parameter, f"{path}: {error.strerror}", hint=instead(path) or hint) from None


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
