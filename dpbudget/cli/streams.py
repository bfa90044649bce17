"""The standard streams as a shell may hand them over: closed, full, broken, or of an encoding that lacks a letter."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TextIO

from dpbudget.errors import InputError


def prepare() -> None:
    """What goes to a closed stderr is lost; a letter that stdout's encoding lacks is escaped."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if type(sys.stdout) is io.TextIOWrapper:
        if isinstance(sys.stdout.buffer, io.RawIOBase):
            sys.stdout = _buffered(sys.stdout)
        sys.stdout.reconfigure(errors="backslashreplace")


def _buffered(raw: TextIO) -> io.TextIOWrapper:
    """The same stream under PYTHONUNBUFFERED, where a full disk that takes a part of the text would raise nothing."""
    return open(raw.fileno(), "w", encoding=raw.encoding, closefd=False)


def write(text: str) -> None:
    """Print to stdout and make sure that it is out. Raises InputError where there is none, OSError where it is full."""
    if sys.stdout is None:
        raise InputError("", "standard output is closed", hint="Pass --output FILE.")
    sys.stdout.write(text)
    sys.stdout.flush()


def finish() -> None:
    """What the parser has printed is out. Raises OSError where it can't be."""
    if sys.stdout is not None:
        sys.stdout.flush()


def tell(text: str) -> None:
    """Print to stderr. Where it is full or broken the text is lost: the exit code still tells."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        abandon(sys.stderr)


def abandon(stream: TextIO | None) -> None:
    """Nothing more goes to the stream: what is still in its buffer would fail once more when the interpreter ends."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def read_bytes(most: int) -> bytes:
    """Up to `most` bytes of stdin. Raises InputError where it is closed."""
    if sys.stdin is None:
        raise InputError("", "standard input is closed", hint="Name the file.")
    return sys.stdin.buffer.read(most)
