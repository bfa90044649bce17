"""Streams as a shell may hand them over, and what Ctrl-C and a kill leave behind: real processes, pipes, terminals."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dpbudget.cli import progress, shell
from dpbudget.render import FORMATS

PROGRAM = (sys.executable, "-m", "dpbudget")
SHORT = ("gaussian", "-e", "1", "-d", "1e-5")
LONG = ("verify", "-s", "1", "-q", "0.01", "-t", "1000", "-d", "1e-5", "--samples", "1e8")  # minutes, under a bar
PATIENT = 60.0  # seconds until a process that hangs is given up


def start(line: Sequence[str], folder: Path, *, terminal: bool = False, **streams: Any) -> subprocess.Popen[bytes]:
    """The program by itself; terminal: stdin becomes the terminal that controls it."""

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # what runs in a shell's background is born to ignore it
        if terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    environment = {k: v for k, v in os.environ.items() if k not in ("GITHUB_ACTIONS", "FORCE_COLOR", "NO_COLOR")}
    return subprocess.Popen(
        [*PROGRAM, *line], cwd=folder, env={**environment, "TERM": "vt100", "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=prepare, start_new_session=terminal, **streams,
    )  # fmt: skip


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """The exit code as a shell tells it, and what stood on stderr, where that is a pipe."""
    try:
        errors = process.communicate(timeout=PATIENT)[1]
    finally:
        process.kill()
    return code_of(process), (errors or b"").decode()


def code_of(process: subprocess.Popen[bytes]) -> int:
    """A program that a signal ended has 128 more; the interpreter itself chooses that way for some of Ctrl-C."""
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def shell_line(line: str, folder: Path) -> tuple[int, str]:
    """A line for sh, in which `dpbudget` is the program."""
    script = f'dpbudget() {{ "{sys.executable}" -m dpbudget "$@"; }}\n{line}'
    return ended(subprocess.Popen(["sh", "-c", script], cwd=folder, stderr=subprocess.PIPE))


# --- streams that are closed, full or broken --------------------------------------------------------------------------


@pytest.mark.parametrize(("redirection", "code", "says"), [
    (">&-", 2, "error: standard output is closed\n  Pass --output FILE.\n"),
    (">/dev/full", 2, "error: standard output can't be used: no space left on device\n"),
    (">&- 2>&-", 2, ""),
    pytest.param(">/dev/full 2>/dev/full", 2, "", marks=pytest.mark.slow),
    pytest.param(">&- -o report.txt", 0, "", marks=pytest.mark.slow),
    pytest.param("<&- >/dev/null", 0, "", marks=pytest.mark.slow),
    pytest.param(">/dev/null -e nan 2>&-", 2, "", marks=pytest.mark.slow),
    pytest.param(">/dev/null -e nan 2>/dev/full", 2, "", marks=pytest.mark.slow),
    pytest.param(">/dev/null -s 0 2>&-", 2, "", marks=pytest.mark.slow),
])  # fmt: skip
def test_streams_that_take_nothing(tmp_path: Path, redirection: str, code: int, says: str) -> None:
    """The exit code tells all the same, and a report that nobody got is no success."""
    ran, errors = shell_line(f"dpbudget {' '.join(SHORT)} {redirection}", tmp_path)
    assert ran == code and errors.startswith(says) and "Traceback" not in errors and "Exception" not in errors


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_a_reader_that_has_gone(tmp_path: Path, form: str) -> None:
    """Nothing is left to say: 1, which is no verdict."""
    read, write = os.pipe()
    os.close(read)
    process = start((*SHORT, "-f", form), tmp_path, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert ended(process) == (1, "")


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("form", ["text", "json", "markdown", "csv"])
def test_a_reader_that_goes_after_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, unbuffered: str
) -> None:
    """The report is larger than a pipe holds, so that the writer is in the midst of it when the reader goes.

    PYTHONUNBUFFERED is common in containers: there, too, a part of the report is no success.
    """
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    line = ("table", "-q", "0.5", "-t", "0", "-s", "1:2:400", "-d", "1e-5", "-f", form, "--quiet")
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    process = start(line, tmp_path, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    with os.fdopen(read, "rb", buffering=0) as reader:
        assert reader.read(16)
    assert ended(process) == (1, "")


# --- Ctrl-C and kill --------------------------------------------------------------------------------------------------


def until(terminal: int, mark: bytes, seen: bytes = b"") -> bytes:
    end = time.monotonic() + PATIENT
    while mark not in seen and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                seen += os.read(terminal, 65536)
            except OSError:  # the other side has gone, as Linux says it
                break
    assert mark in seen, seen
    return seen


def terminal_of(line: Sequence[str], folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """The program in the foreground of a terminal of its own."""
    outer, inner = pty.openpty()
    process = start(line, folder, terminal=True, stdin=inner, stdout=inner, stderr=inner)
    os.close(inner)
    return process, outer


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("moment", ["show_cursor", "push_render_hook", "pop_render_hook", "clear_live", "print"])
def test_control_c_while_the_bar_comes_or_goes(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits: rich can't take away a bar that is half there. The terminal is left as it was."""
    terminal, real, sent = Terminal(), getattr(Console, moment), []

    def interrupted(*arguments: Any, **named: Any) -> Any:
        if not sent:
            sent.append(moment)
            os.kill(os.getpid(), signal.SIGINT)
        return real(*arguments, **named)

    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "vt100")
    monkeypatch.setattr(Console, moment, interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), progress.bar("losses", hidden=False) as report:
            report(1, 2)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert sent and terminal.getvalue().endswith(progress.SHOW_CURSOR)


def test_control_c_in_the_midst_of_a_computation(tmp_path: Path) -> None:
    """One word, 130, the cursor back, the old file as it was; a key held down breaks nothing off."""
    report = tmp_path / "report.txt"
    report.write_text("old")
    process, terminal = terminal_of((*LONG, "-o", "report.txt"), tmp_path)
    try:
        seen = until(terminal, b"\x1b[?25l")  # the bar is drawn, and hides the cursor
        os.write(terminal, b"\x03")
        seen = until(terminal, b"interrupted", seen)
        os.write(terminal, b"\x03\x03")
        process.wait(PATIENT)
        assert code_of(process) == 130
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l") and b"Traceback" not in seen
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("report.txt", "old")]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code", "says"), [(signal.SIGINT, 130, "interrupted\n"), (signal.SIGTERM, 143, "")])
@pytest.mark.parametrize("after", [0.3, 0.6, 0.9, 1.5, 3.0])
def test_a_signal_at_any_time(tmp_path: Path, number: int, code: int, says: str, after: float) -> None:
    """In the imports, in the numerics: nothing but the word, and no file."""
    process = start((*LONG, "-o", "new.txt"), tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(after)
    for _ in range(3):
        process.send_signal(number)
        time.sleep(0.01)
    assert ended(process) == (code, says)
    assert list(tmp_path.iterdir()) == []


def test_control_c_while_the_report_is_written(dpbudget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each call that the write makes: the old file whole, and nothing beside it."""
    report = tmp_path / "report.txt"
    report.write_text("old")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for owner, name in ((shell.tempfile, "mkstemp"), (shell.os, "fdopen"), (Path, "chmod"), (Path, "replace")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, interrupt)
            ran = dpbudget(*SHORT, "-o", report)
        assert (ran.code, ran.out, ran.err) == (130, "", "interrupted\n")
        assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("report.txt", "old")]


# --- where a report goes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place", ["no/such/folder/r.txt", ".", "/", "/proc/r.txt", "/dev/full", "x" * 300, "file/r.txt"]
)
def test_places_that_take_no_file(dpbudget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    ran = dpbudget(*SHORT, "-o", place)
    assert (ran.code, ran.out) == (2, "") and ran.err.startswith("error: --output: ")
    assert len(ran.err.splitlines()) == 2 and ran.err.splitlines()[1].startswith("  ")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_place(dpbudget, tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    report.write_text("old")
    report.chmod(0o444)
    assert "permission denied" in dpbudget(*SHORT, "-o", report).err and report.read_text() == "old"
    tmp_path.chmod(0o555)
    assert "permission denied" in dpbudget(*SHORT, "-o", tmp_path / "new.txt").err


def test_a_fifo_is_written_through(dpbudget, tmp_path: Path) -> None:
    """It stays a FIFO; where its reader has gone that is said, since the report went nowhere."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    assert dpbudget(*SHORT, "-o", fifo).code == 0
    assert os.read(reader, 65536).startswith(b"noise ") and fifo.is_fifo()
    os.close(reader)
