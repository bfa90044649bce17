"""A CSV of clients and their data set sizes."""

from __future__ import annotations

import csv

from dpbudget import checks
from dpbudget.errors import InputError
from dpbudget.files import lines

MOST_ROWS = 100_000


def read_sizes(path: str) -> list[tuple[str, int]]:
    """(client, size) of each row; columns `client` (optional) and `size`. Raises InputError with the line."""
    found: list[tuple[str, int]] = []
    reader = csv.DictReader(lines(path, "sizes", hint="Name a CSV file with columns client, size."))
    try:
        if "size" not in (reader.fieldnames or ()):
            raise InputError("sizes", f"{path} has no column size", hint="The first line is: client,size")
        for row in reader:
            try:
                size = checks.whole("size", checks.number("size", row["size"] or ""))
            except InputError as error:
                raise InputError("sizes", f"{path}:{reader.line_num}: {error}") from None
            found.append((row.get("client") or f"client {len(found) + 1}", size))
            if len(found) > MOST_ROWS:
                raise InputError("sizes", f"{path} has more than {MOST_ROWS:,} rows")
    except csv.Error as error:
        raise InputError("sizes", f"{path}:{reader.reader.line_num}: not CSV: {error}") from None
    if not found:
        raise InputError("sizes", f"{path} holds no client")
    return found
