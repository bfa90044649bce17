"""A bar for what takes long: on stderr, on a terminal; nothing in a pipe or a log."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from dpbudget.cli import streams

SHOW_CURSOR = "\x1b[?25h"
Progress = Callable[[int, int], None]
"""(done, of how many)."""


@contextmanager
def bar(what: str, *, hidden: bool) -> Iterator[Progress]:
    if hidden or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    # Ctrl-C may leave rich's console in the midst of a buffer, and what is written through it is lost from then on.
    # So stderr stays what it is, and the cursor comes back without rich.
    console = Console(stderr=True)
    drawn = Bar(console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    try:
        with _undisturbed():
            drawn.start()
            task = drawn.add_task(what, total=None)
        yield lambda done, total: drawn.update(task, completed=done, total=total)
    finally:
        with _undisturbed():
            drawn.stop()
            if not console.is_dumb_terminal:
                streams.tell(SHOW_CURSOR)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits until the end: a bar that is half there can't be taken away.

    By the handler and not by a mask, which would hold for this thread alone while any other takes the signal.
    """
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        # It is ignored, as in a shell's background, or interrupts another thread.
        yield
        return
    waiting: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: waiting.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if waiting:
            before(*waiting[0])
