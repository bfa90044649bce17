"""Any file at all, at every command that reads one: good ones, faulty ones, and good ones with damaged bytes.

An answer that is valid in its format, or what is wrong with which line of which file. Nothing in a file is run; a file
is written whole or not touched. `make test-slow` draws thousands of files.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import budget_texts
import command_lines
import hypothesis
import mutations
import pytest
from budget_texts import EXTREMES, FAULTY, USABLE, Kind
from command_lines import FORMATS, STATES
from conftest import DATA, Ran, TooLong
from hypothesis import given
from hypothesis import strategies as st
from test_fuzz_cli import _folder, problems, run
from test_schemas import BUDGET, faults

from dpbudget import budgetfile
from dpbudget.budgetfile.keys import MECHANISMS

SAMPLE = {"phases": [hypothesis.Phase.generate]}
FORMS = st.sampled_from((*FORMATS, "json", "json"))
CHEAP = tuple(name for name in MECHANISMS if name != "tuning")  # one of which takes seconds


# --- reading ----------------------------------------------------------------------------------------------------------

# What a schema cannot say about one value: how values compare, what follows from several, what is not JSON, and keys
# that a release may also take from [defaults].
BEYOND_A_SCHEMA = (
    r"is missing|needs .* beside it|contradict|is not unique|a second \"solve\"|a spent release has no unknown",
    r"is above the .*(dataset size|clients)|outside the range of a double|must not be below|is above 1,000,000,000$",
    r"under replace-one a replaced record may move|cuts an epoch into whole batches|full-batch means a sampling rate",
    r"goes with law|needs the number of records|has an unfinished epoch|uses of the mechanism in all|no honest noise",
    r"with noise on every upload|unknown key|unknown mechanism|is not one of|is not a finite number|too small for a double",
    r"a number of \d+ characters|is larger than 1 MB|must stand in the release|the number is too large|is below 1$",
    # what asks for it may stand in [defaults]
    r"^trials: .* is not a whole number|^adjacency: where the number of clients a round is fixed",
)


def read(data: bytes) -> tuple[dict[str, Any] | None, Sequence[budgetfile.Problem]]:
    """The parsed data where they are TOML at all, and what the reader says is wrong."""
    text = None
    try:
        text = budgetfile.decode(data, filename="b.toml")
        budgetfile.load(text, filename="b.toml")
        found: Sequence[budgetfile.Problem] = ()
    except budgetfile.BudgetFileError as error:
        found = error.problems
        assert found
    try:
        return None if text is None else tomllib.loads(text.removeprefix("\ufeff")), found
    except (ValueError, RecursionError):
        return None, found


def check_reading(data: bytes) -> None:
    document, found = read(data)
    lines = data.count(b"\n") + 1
    for problem in found:
        text = str(problem)
        assert text.isprintable() and len(text) < 1000, text[:200]
        assert text.startswith("b.toml:") and problem.line <= lines, text
        assert problem.line or "larger than 1 MB" in text, text
    if document is None:
        assert found
        return
    refused = faults(BUDGET, document)
    assert not refused or found, f"the schema refuses what is read: {refused}"
    if found and not refused:
        known = re.compile("|".join(BEYOND_A_SCHEMA))
        assert any(known.search(f"{problem.key}: {problem.message}") for problem in found), found


FILES_OF_ALL_KINDS = {
    "good": budget_texts.text(EXTREMES).map(str.encode),
    "faulty": budget_texts.text(FAULTY).map(str.encode),
    "mutated": budget_texts.text(USABLE).map(str.encode).flatmap(mutations.mutated),
}


@pytest.mark.parametrize("kind", FILES_OF_ALL_KINDS)
@hypothesis.settings(max_examples=40, **SAMPLE)
@given(data=st.data())
def test_reader_and_schema(kind: str, data: st.DataObject) -> None:
    check_reading(data.draw(FILES_OF_ALL_KINDS[kind]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES_OF_ALL_KINDS)
@hypothesis.settings(max_examples=3000)
@given(data=st.data())
def test_reader_and_schema_at_length(kind: str, data: st.DataObject) -> None:
    check_reading(data.draw(FILES_OF_ALL_KINDS[kind]))


# --- commands ---------------------------------------------------------------------------------------------------------


@contextmanager
def ran(line: Sequence[str], files: dict[str, bytes], stdin: str = "budget.toml") -> Iterator[tuple[Ran, Path]]:
    """One run that keeps the contract, in a folder of its own with the files."""
    with _folder() as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        try:
            result = run(line, stdin=stdin)
        except TooLong:
            pytest.fail(f"too long: {line} of {files}")
        assert problems(line, result, folder) == [], (line, files, result)
        assert len(result.err) < 100_000
        yield result, folder


def untouched_but(old: bytes, new: bytes) -> bytes:
    """What an edit put in: all other bytes are as they were."""
    start = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    assert b"\n" not in old[start : len(old) - end], (old, new)
    return new[start : len(new) - end]


READING = (["check"], ["check", "--annotate"], ["check", "--summary=s.md", "--outputs=o.txt"], ["status"], ["solve"])
RECORD = ["record", "b.toml", "--name"]
SPENT = ["--mechanism", "pure-dp", "--set", "epsilon=0.1"]
EDITS = (
    ["solve", "b.toml", "--write"], [*RECORD, "a"], [*RECORD, "run 1"], [*RECORD, "new", *SPENT],
    [*RECORD, "new", *SPENT, "--force"], [*RECORD, "é|\x1b", "-s", "1.1", "-q", "0.01", "-t", "10"],
    ["import", "csv", "history.csv", "-d", "1e-5", "--append", "b.toml"],
    ["import", "opacus", "opacus_rdp.json", "-d", "1e-5", "--append", "b.toml"],
)  # fmt: skip
# Not about what is in the file: the release that was asked for is none of those that can be recorded.
OF_THE_COMMAND = r"error: --(name|append): "


def check_command(content: bytes, line: Sequence[str], *, form: str = "text") -> int:
    with ran([*line, "-f", form], {"b.toml": content}) as (result, folder):
        after = (folder / "b.toml").read_bytes()
        if result.code == 2:
            named = re.compile(rf"b\.toml:\d+: |b\.toml: \d|\.\.\. and|  |::error|{OF_THE_COMMAND}")
            assert all(named.match(text) for text in result.err.splitlines()), result
        if result.code or line not in EDITS:
            assert after == content, (line, result)
        else:
            added = untouched_but(content, after).decode()
            assert line[0] == "solve" or "spent" in added or "[[release]]" in added, (line, added)
            assert read(after)[1] == ()
        return result.code


def usable(kind: Kind) -> st.SearchStrategy[bytes]:
    return budget_texts.text(kind).map(str.encode)


def of_all_kinds(most: int, mechanisms: Sequence[str]) -> dict[str, st.SearchStrategy[bytes]]:
    kind = Kind(most=most, mechanisms=mechanisms)
    return {
        "good": usable(kind),
        "faulty": usable(Kind(faulty=True, most=most, mechanisms=mechanisms)),
        "mutated": usable(kind).flatmap(mutations.mutated),
    }


LINES = st.sampled_from((*([name, "b.toml", *options] for name, *options in READING), *EDITS))
FEW = of_all_kinds(2, CHEAP)
# A search beside other releases, or to be solved for, takes longer than the guard against hangs waits.
MANY = {**of_all_kinds(3, CHEAP), "alone": usable(Kind(most=1, solve=False))}


@pytest.mark.parametrize("kind", FEW)
def test_commands(kind: str) -> None:
    codes = []

    @hypothesis.settings(max_examples=7, **SAMPLE)
    @given(content=FEW[kind], line=LINES, form=FORMS)
    def draw(content: bytes, line: Sequence[str], form: str) -> None:
        codes.append(check_command(content, line, form=form))

    draw()
    assert kind != "good" or {0, 3} & set(codes), "no file was answered"


@pytest.mark.slow
@pytest.mark.parametrize("kind", MANY)
@hypothesis.settings(max_examples=300)
@given(data=st.data(), line=LINES, form=FORMS)
def test_commands_at_length(kind: str, data: st.DataObject, line: Sequence[str], form: str) -> None:
    check_command(data.draw(MANY[kind]), line, form=form)


# --- what good files have in common -----------------------------------------------------------------------------------


def total(text: str) -> dict[str, float | None]:
    with ran(["status", "b.toml", "--json"], {"b.toml": text.encode()}) as (result, _):
        assert result.code == 0, (text, result)
        found: dict[str, float | None] = result.json["result"]["total"]
        return found


def at_most(low: float | None, high: float | None) -> bool:
    """Whether a proven lower end leaves room below a proven upper end; null is no lower end, or an infinite upper one."""
    return low is None or high is None or low <= high


def blocks(text: str) -> tuple[str, list[str]]:
    head, *releases = text.split("[[release]]")
    return head, ["[[release]]" + release.rstrip() + "\n" for release in releases]


def check_ledger(text: str) -> None:
    """One release less costs no more, and the order does not matter: the certified intervals say so."""
    head, releases = blocks(text)
    whole = total(head + "".join(releases))
    less = total(head + "".join(releases[:-1]))
    assert at_most(less.get("lower"), whole.get("upper")), text
    if whole.get("lower") is not None and whole["upper"] is not None and less.get("upper") is not None:
        gap = whole["upper"] - whole["lower"] + less["upper"] - (less.get("lower") or 0.0)
        assert whole["upper"] >= less["upper"] - gap, text
    turned = total(head + "".join(reversed(releases)))
    assert at_most(turned.get("lower"), whole.get("upper")) and at_most(whole.get("lower"), turned.get("upper")), text


def check_solved(text: str) -> None:
    """What `solve` writes, `check` accepts."""
    with ran(["solve", "b.toml", "--write"], {"b.toml": text.encode()}) as (result, folder):
        hypothesis.event(f"exit code {result.code}")
        if result.code == 0:
            verdict = run(["check", "b.toml"])
            assert verdict.code == 0, ((folder / "b.toml").read_text(), verdict)


def readable(text: str) -> bool:
    with ran(["status", "b.toml", "-f", "value"], {"b.toml": text.encode()}) as (result, _):
        return result.code == 0


def several(most: int) -> st.SearchStrategy[str]:
    known = Kind(most=most, solve=False, mechanisms=CHEAP)
    return budget_texts.text(known).filter(lambda text: "[[release]]" in text).filter(readable)


def with_unknown(most: int) -> st.SearchStrategy[str]:
    return budget_texts.text(Kind(most=most, mechanisms=CHEAP)).filter(lambda text: '"solve"' in text)


@hypothesis.settings(max_examples=2, **SAMPLE)
@given(several(2))
def test_ledger(text: str) -> None:
    check_ledger(text)


@hypothesis.settings(max_examples=2, **SAMPLE)
@given(with_unknown(1))
def test_solved(text: str) -> None:
    check_solved(text)


@pytest.mark.slow
@hypothesis.settings(max_examples=60)
@given(several(4))
def test_ledger_at_length(text: str) -> None:
    check_ledger(text)


@pytest.mark.slow
@hypothesis.settings(max_examples=60)
@given(with_unknown(3))
def test_solved_at_length(text: str) -> None:
    check_solved(text)


# --- states, tables and reports of other programs ---------------------------------------------------------------------

RUN = ["-s", "2", "-d", "1e-5"]
FEDERATED = ["federated", "--clients", "9", "--clients-per-round", "1", "--rounds", "3", *RUN, "--local-batch", "10"]
SIMULATE = ["simulate", "--label", "kind", "--repeats", "1", "-s", "5", "-t", "2", "-b", "10", "-d", "1e-3"]
RECORDS = "x,y,kind\n" + "".join(f"{i % 7},{i % 5},{'ab'[i % 2]}\n" for i in range(40))
SCORES = "world,score\n" + "".join(f"in,{i}\nout,{i - 2}\n" for i in range(20))
HISTORY = "sigma,q,steps\n1.1,0.01,100\n0.9,0.02,50\n"
REPORT = """{"schema": "dpbudget.report/1", "command": "check", "status": "ok", "result": {"verdict": "within",
"epsilon": {"lower": 0.4, "upper": 0.5, "estimate": 0.45}, "releases": [{"name": "pretrain", "status": "spent",
"epsilon_alone": {"lower": 0.3, "upper": 0.4}}, {"name": "gone", "status": "planned", "epsilon_alone": null}]}}"""


@dataclass(frozen=True)
class Input:
    """A file that some command reads beside its options. damaged: what may become of its bytes."""

    content: bytes
    lines: Sequence[Sequence[str]]
    damaged: Callable[[bytes], st.SearchStrategy[bytes]] = mutations.mutated
    others: dict[str, bytes] = field(default_factory=dict)


def json_damaged(data: bytes) -> st.SearchStrategy[bytes]:
    return st.one_of(mutations.json_mutated(data), mutations.json_mutated(data), mutations.mutated(data))


def _archive(data: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", data)
    return stream.getvalue()


def checkpoint_damaged(data: bytes) -> st.SearchStrategy[bytes]:
    """Bytes of the archive, or opcodes of the pickle in it, in an archive or bare."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        inner = archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))
    opcodes = mutations.pickle_mutated(inner)
    return st.one_of(opcodes.map(_archive), opcodes, mutations.mutated(data))


def _state(name: str) -> Input:
    tool = name.split("_")[0]
    lines = [["import", tool, "m.in", "-d", "1e-5"], ["import", tool, "m.in", "-d", "1e-5", "--append", "b.toml"]]
    if tool == "flower":
        lines += [["import", tool, "m.in"], ["import", tool, "m.in", "--noise-relative-to", "sensitivity"]]
    damaged = json_damaged if name.endswith(".json") else checkpoint_damaged
    return Input((DATA / "states" / name).read_bytes(), lines, damaged)


INPUTS = {
    "history": Input(
        HISTORY.encode(),
        [
            ["epsilon", "--history", "m.in", "-d", "1e-5"], ["import", "csv", "m.in", "-d", "1e-5"],
            ["import", "csv", "m.in", "-d", "1e-5", "--append", "b.toml"], ["table", "--history", "m.in", "-d", "1e-5"],
        ],
    ),
    "sizes": Input(b"client,size\na,100\n=b|c,5000\n", [[*FEDERATED, "--sizes", "m.in"]]),
    "scores": Input(SCORES.encode(), [["verify", "--scores", "m.in", "-d", "1e-3"]]),
    "records": Input(RECORDS.encode(), [[*SIMULATE, "--data", "m.in"]]),
    "ranges": Input(
        b"column,low,high\nx,0,7\ny,0,5\n",
        [[*SIMULATE, "--data", "records", "--ranges", "m.in"]],
        others={"records": RECORDS.encode()},
    ),
    "baseline": Input(REPORT.encode(), [["check", "budget.toml", "--baseline", "m.in"]], json_damaged),
    **{name: _state(name) for name in STATES},
}  # fmt: skip
LEDGER = b"""schema = 1 # spent and planned
[budget]
epsilon = 8
delta = 1e-5
adjacency = "add-or-remove-one"
"""
# Said of all rows together, or of a choice that the rows do not allow.
OF_THE_ROWS = r"error: --(append|scores|label|batch-size|held-out|ranges): "


def check_input(name: str, content: bytes, line: Sequence[str], form: str) -> None:
    files = {"m.in": content, "b.toml": LEDGER, **INPUTS[name].others}
    with ran([*line, "-f", form], files) as (result, folder):
        assert not (folder / "executed").exists(), content
        after = (folder / "b.toml").read_bytes()
        if result.code or "--append" not in line:
            assert after == LEDGER, (line, content, result)
        else:
            assert untouched_but(LEDGER, after).lstrip().startswith(b"[[release]]")
        if result.code == 2:
            assert "m.in" in result.err or re.match(OF_THE_ROWS, result.err), (content, result)
            assert len(result.err) < 5000


def draw_input(name: str, data: st.DataObject) -> None:
    source = INPUTS[name]
    content = data.draw(source.damaged(source.content))
    check_input(name, content, data.draw(st.sampled_from(source.lines)), data.draw(FORMS))


@pytest.mark.parametrize("name", [name for name in INPUTS if name not in (*STATES, "records")])
def test_good_inputs(name: str) -> None:
    """Before they are damaged they are answered."""
    source = INPUTS[name]
    with ran(source.lines[0], {"m.in": source.content, **source.others}) as (result, _):
        assert result.code in (0, 3), result


@pytest.mark.parametrize("name", INPUTS)
@hypothesis.settings(max_examples=4, **SAMPLE)
@given(data=st.data())
def test_inputs(name: str, data: st.DataObject) -> None:
    draw_input(name, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", INPUTS)
@hypothesis.settings(max_examples=400)
@given(data=st.data())
def test_inputs_at_length(name: str, data: st.DataObject) -> None:
    draw_input(name, data)


# --- memory -----------------------------------------------------------------------------------------------------------

# Bytes of address space. The interpreter with SciPy takes 400 MB of it; the largest file that is read, a checkpoint of
# 64 MB, is held twice and unpacked once; an answer about thousands of releases takes 200 MB.
MEMORY = 900 * 10**6
RELEASE = '[[release]]\nname = "r{}"\nmechanism = "{}"\n'
HOSTILE: dict[str, tuple[bytes, Sequence[str]]] = {
    "a line that never ends": (b"", [*FEDERATED, "--sizes", "/dev/zero"]),
    "records that never end": (b"", [*SIMULATE, "--data", "/dev/zero"]),
    "a budget that never ends": (b"", ["check", "/dev/zero"]),
    "one endless field": (b'client,size\n"' + b"1\n" * 20_000_000, [*FEDERATED, "--sizes", "m.in"]),
    "endless rows": (b"client,size\n" + b"a,1\n" * 5_000_000, [*FEDERATED, "--sizes", "m.in"]),
    "rows of a history": (b"sigma,q,steps\n" + b"1,1,1\n" * 2_600_000, ["import", "csv", "m.in", "-d", "1e-5"]),
    "scores": (b"world,score\n" + b"in,1\n" * 3_000_000, ["verify", "--scores", "m.in", "-d", "1e-5"]),
    "a state of numbers": (b'{"history": [' + b"1.5," * 3_900_000 + b"1]}", ["import", "opacus", "m.in", "-d", "1e-5"]),
    "a state of objects": (b'{"history": [' + b"{}," * 5_200_000 + b"1]}", ["import", "flower", "m.in"]),
    "a report of lists": (b"[" + b"[]," * 5_200_000 + b"1]", ["check", "budget.toml", "--baseline", "m.in"]),
    "a pickle of lists": (b"\x80\x02" + b"]" * 40_000_000, ["import", "opacus", "m.in", "-d", "1e-5"]),
    "brackets": (b"x = " + b"[" * 900_000, ["check", "m.in"]),
    "tables": (b"[[release]]\n" * 80_000, ["check", "m.in"]),
    "keys": (b"".join(b"k%d = 1\n" % i for i in range(70_000)), ["check", "m.in"]),
    "a number of a million digits": (b"schema = " + b"9" * 900_000, ["status", "m.in"]),
    "thousands of releases": (
        LEDGER + "".join(f"{RELEASE.format(i, 'zcdp')}rho = 1e-9\n" for i in range(9_000)).encode(), ["check", "m.in"]),
    "large numbers": (
        LEDGER + f"{RELEASE.format(0, 'dp-sgd')}noise_multiplier = 1e50\nsampling_rate = 1e-300\nsteps = 1e9\n".encode()
        + f"{RELEASE.format(1, 'laplace')}scale = 1e300\nsensitivity = 1e-300\n".encode()
        + f"{RELEASE.format(2, 'randomized-response')}categories = 1e9\nepsilon = 1e300\ncount = 1e9\n".encode(),
        ["check", "m.in"]),
}  # fmt: skip
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
from dpbudget.cli import main
main(sys.argv[1:])
"""


def check_memory(folder: Path, name: str) -> None:
    content, line = HOSTILE[name]
    command_lines.fill(folder)
    (folder / "m.in").write_bytes(content)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format(memory=MEMORY), *line],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 2, 3, 4) and "Traceback" not in done.stderr, done.stderr[:2000]
    assert len(done.stderr) < 50_000


@pytest.mark.parametrize("name", ["a line that never ends", "a state of numbers"])
def test_memory(tmp_path: Path, name: str) -> None:
    check_memory(tmp_path, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_memory_of_every_hostile_file(tmp_path: Path, name: str) -> None:
    check_memory(tmp_path, name)
