"""Shared fixtures: the command line as a newcomer types it, and the reference cases."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# The normal run draws the same examples every time: a failure is a change, not luck. `make test-slow` explores.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

DATA = Path(__file__).parent / "data"


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="") as file:
        return list(csv.DictReader(file))


class TooLong(BaseException):
    """Raised by a timer in the midst of a computation; no `except Exception` stops it."""


@contextlib.contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Raises TooLong once the process has used so much CPU time inside: a guard against hangs, not a measurement.

    A machine that is busy with other work does not set it off. It interrupts between two steps of the interpreter, so
    a single call into compiled code ends first; in the main thread only, and one inside another takes its place.
    """

    def expired(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, expired)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def _environment(columns: int) -> dict[str, str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("GITHUB_ACTIONS", "FORCE_COLOR", "DPBUDGET_DEBUG")}
    return {**environment, "TERM": "dumb", "COLUMNS": str(columns), "PYTHONUTF8": "1"}


@pytest.fixture
def dpbudget(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Run the command line in this process: dpbudget("epsilon", "--sigma", "1", ...)."""
    from dpbudget.cli import main

    def run(*arguments: str, columns: int = 80) -> Ran:
        for name in ("GITHUB_ACTIONS", "FORCE_COLOR", "DPBUDGET_DEBUG"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("TERM", "dumb")
        monkeypatch.setenv("COLUMNS", str(columns))
        code = 0
        try:
            main([str(a) for a in arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def dpbudget_process():
    """Run the command line as a process of its own."""

    def run(*arguments: str, columns: int = 80, cwd: Path | None = None, stdin: str | None = None) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "dpbudget", *map(str, arguments)],
            capture_output=True, text=True, env=_environment(columns), cwd=cwd, input=stdin, timeout=60, check=False,
        )  # fmt: skip
        return Ran(done.returncode, done.stdout, done.stderr)

    return run
