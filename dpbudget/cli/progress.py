"""A bar for what takes long: on stderr, on a terminal; nothing in a pipe or a log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int], None]
"""(done, of how many)."""


@contextmanager
def bar(what: str, *, hidden: bool) -> Iterator[Progress]:
    if hidden or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    try:
        with Bar(console=console, transient=True) as drawn:
            task = drawn.add_task(what, total=None)
            yield lambda done, total: drawn.update(task, completed=done, total=total)
    finally:
        console.show_cursor()  # Ctrl-C in the midst of the bar's own start leaves it hidden
