"""Any options at all, at any command: an answer that is valid in its format, or one sentence with the way out.

No traceback, no internal error, no hang, no unbounded memory. `make test-slow` draws thousands of lines.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import command_lines
import hypothesis
import pytest
from command_lines import COMMANDS, FILES, RECIPES, command_line
from conftest import Ran, TooLong, patience
from hypothesis import given
from hypothesis import strategies as st
from test_schemas import REPORT, faults

from dpbudget.cli import main

PATIENCE = 60.0  # CPU seconds, of which a machine that is busy counts two for one
WORDS = ("nan", "None", "np.float64(", "Fraction(")  # of no text that is meant to be read
CODES = {0, 2, 3, 4}  # those of the contract that a run can end with by itself


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A working directory of the run's own, with the files that lines name; it holds every change the run makes."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command_lines.fill(folder)
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def run(line: Sequence[str], *, columns: int = 80, stdin: str = "budget.toml") -> Ran:
    """One run in this process. Streams are strict UTF-8, as in a shell: what can't be encoded is an error."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=e) for e in ("strict", "backslashreplace")]
    content = FILES[stdin]
    standard_in = io.TextIOWrapper(io.BytesIO(content.encode() if isinstance(content, str) else content))
    kept = {k: v for k, v in os.environ.items() if k not in ("GITHUB_ACTIONS", "FORCE_COLOR", "DPBUDGET_DEBUG")}
    environment = {**kept, "TERM": "dumb", "COLUMNS": str(columns)}
    code = 0
    with contextlib.ExitStack() as world:
        world.enter_context(mock.patch.dict(os.environ, environment, clear=True))
        world.enter_context(mock.patch.object(sys, "stdin", standard_in))
        world.enter_context(contextlib.redirect_stdout(streams[0]))
        world.enter_context(contextlib.redirect_stderr(streams[1]))
        try:
            with patience(PATIENCE):
                main(list(line))
        except SystemExit as stop:
            code = int(stop.code or 0)
    out, err = (stream.buffer.getvalue().decode("utf-8") for stream in _flushed(streams))
    return Ran(code, out, err)


def _flushed(streams: Sequence[io.TextIOWrapper]) -> Iterator[Any]:
    for stream in streams:
        stream.flush()
        yield stream


# --- what has to hold for every run -----------------------------------------------------------------------------------


def _option(line: Sequence[str], *names: str) -> str | None:
    """The value of an option that the line gives, the last one counting."""
    found = None
    for at, part in enumerate(line):
        for name in names:
            if part == name and at + 1 < len(line):
                found = line[at + 1]
            elif name.startswith("--") and part.startswith(f"{name}="):
                found = part[len(name) + 1 :]
    return found


def form_of(line: Sequence[str]) -> str:
    return "json" if "--json" in line else _option(line, "-f", "--format") or "text"


def problems(line: Sequence[str], ran: Ran, folder: Path) -> list[str]:
    """What is wrong with a run; empty where it keeps the contract."""
    found = [f"exit code {ran.code}"] if ran.code not in CODES else []
    found += ["traceback"] if "Traceback" in ran.err + ran.out else []
    found += _stderr_faults(ran)
    left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    found += [f"left behind: {left}"] if left else []
    if ran.out:
        found += [fault for fault in report_faults(form_of(line), ran.out) if not _typed_so(line, fault)]
    elif ran.code == 0 and _option(line, "-o", "--output") is None:
        found += ["neither answer nor error"] if form_of(line) not in ("csv", "value") else []
    return found


def _typed_so(line: Sequence[str], fault: str) -> bool:
    """The report repeats a name that reads like a fault: `dpbudget init nan`."""
    return any(fault == f"{word} in {form}" and word in line for word in WORDS for form in ("text", "csv"))


def _stderr_faults(ran: Ran) -> list[str]:
    """Errors and warnings: a sentence each, a way out indented below it, problems of a file with file and line."""
    found = []
    lines = ran.err.splitlines()
    for text in lines:
        if not re.match(r"(error|warning): .|  \S|::(error|warning|notice) |.*: ", text):
            found.append(f"stderr line {text[:80]!r}")
    if ran.code == 2 and not ran.out and not lines:
        found.append("refused without a word")
    return found


def report_faults(form: str, text: str) -> list[str]:
    """What makes the output invalid in its format."""
    if not text.endswith("\n"):
        return ["no newline at the end"]
    return {"json": _json, "csv": _csv, "markdown": _markdown, "value": _value}.get(form, _prose)(text)


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _json(text: str) -> list[str]:
    try:
        document = json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        return [f"json: {error}"]
    return [*faults(REPORT, document), *_crossed(document)]


def _crossed(value: Any) -> list[str]:
    """Intervals anywhere in the document whose ends are in the wrong order."""
    if isinstance(value, list):
        return [fault for item in value for fault in _crossed(item)]
    if not isinstance(value, dict):
        return []
    ends = [value[key] for key in ("lower", "estimate", "upper") if isinstance(value.get(key), (int, float))]
    crossed = [f"ends out of order: {value}"] if "lower" in value and ends != sorted(ends) else []
    return crossed + [fault for item in value.values() for fault in _crossed(item)]


def _csv(text: str) -> list[str]:
    rows = list(csv.reader(io.StringIO(text)))
    found = [] if len({len(row) for row in rows}) == 1 else ["csv rows of unequal length"]
    return found + (["nan in csv"] if any(cell == "nan" for row in rows for cell in row) else [])


def _markdown(text: str) -> list[str]:
    found = []
    for block in text.split("\n\n"):
        rows = [line for line in block.split("\n") if line.startswith("|")]
        if len({len(re.findall(r"(?<!\\)\|", row.replace("\\\\", ""))) for row in rows}) > 1:
            found.append(f"markdown rows of unequal length: {rows[0]}")
    return found + _prose(text)


def _value(text: str) -> list[str]:
    return [] if re.fullmatch(r"(-?\d+(\.\d+)?(e-?\d+)?|inf|-)\n", text) else [f"not a value: {text!r}"]


def _prose(text: str) -> list[str]:
    found = [f"{word} in text" for word in WORDS if re.search(rf"\b{re.escape(word)}", text)]
    return found + (["control characters"] if re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text) else [])


# --- tests ------------------------------------------------------------------------------------------------------------


def check(line: Sequence[str], columns: int = 80, stdin: str = "budget.toml") -> int:
    """The exit code of a run that keeps the contract."""
    with _folder() as folder:
        try:
            ran = run(line, columns=columns, stdin=stdin)
        except TooLong:
            pytest.fail(f"more than {PATIENCE:g} s of CPU time: {line}")
        assert problems(line, ran, folder) == [], (line, ran)
        return ran.code


def test_every_command_has_a_recipe() -> None:
    assert set(RECIPES) == set(COMMANDS)


COLUMNS = st.sampled_from((80, 1, 20, 60, 200))
STDIN = st.sampled_from(command_lines.BUDGETS[:-1])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_few_lines(command: str) -> None:
    """Cheap ones; the simplest of them, which is drawn first, is answered."""
    codes = []

    @hypothesis.settings(max_examples=6, phases=[hypothesis.Phase.generate])
    @given(line=command_line(command, frugal=True), columns=COLUMNS, stdin=STDIN)
    def draw(line: list[str], columns: int, stdin: str) -> None:
        codes.append(check(line, columns, stdin))

    draw()
    assert {0, 3, 4} & set(codes), "no line was answered"


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@hypothesis.settings(max_examples=120)
@given(data=st.data())
def test_many_lines(command: str, data: st.DataObject) -> None:
    check(data.draw(command_line(command)), data.draw(COLUMNS), data.draw(STDIN))
