"""Every way out of the command line: each deliberate error, each accident, each code in each format."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

import dpbudget as package
from dpbudget.answers import cost
from dpbudget.errors import DpbudgetError, InputError
from dpbudget.render import FORMATS

LINE = ("epsilon", "-s", "1", "-q", "0.01", "-t", "100", "-d", "1e-5")


def every_error() -> Iterator[type[DpbudgetError]]:
    """All of them, wherever they are defined."""
    for module in pkgutil.walk_packages(package.__path__, "dpbudget."):
        if module.name != "dpbudget.__main__":
            importlib.import_module(module.name)
    found = [DpbudgetError]
    while found:
        error = found.pop()
        yield error
        found += error.__subclasses__()


def test_every_error_ends_in_its_code_with_a_way_out(dpbudget, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = set()
    for error in every_error():
        raised = error.__new__(error)
        DpbudgetError.__init__(raised, "the reason", hint="the way out")
        vars(raised).update({"parameter": "sampling_rate"} if issubclass(error, InputError) else {})

        def fail(*_: object, raised: DpbudgetError = raised, **__: object) -> None:
            raise raised

        monkeypatch.setattr(cost, "epsilon", fail)
        ran = dpbudget(*LINE, "--json")
        assert (ran.code, ran.out) == (error.exit_code, "") and "the reason" in ran.err and "Traceback" not in ran.err
        assert "the way out" in ran.err or hasattr(raised, "problems")
        reached.add(ran.code)
    assert reached == {2, 3, 4, 70}


@pytest.mark.parametrize(("raised", "code", "word"), [
    (KeyboardInterrupt(), 130, "interrupted"),
    (RuntimeError("odd"), 70, "internal error: RuntimeError: odd"),
    (MemoryError(), 70, "internal error"),
    (AssertionError(), 70, "internal error"),
])  # fmt: skip
def test_what_nobody_raised_on_purpose(dpbudget, monkeypatch, raised: BaseException, code: int, word: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(cost, "epsilon", fail)
    ran = dpbudget(*LINE, "--json")
    assert (ran.code, ran.out) == (code, "") and word in ran.err and "Traceback" not in ran.err


@pytest.mark.parametrize("line", [
    "epsilon -s 1 -q 1 -t 4 -d 1e-5",
    "epsilon -s 1 -q 1 -t 4 -d 1e-5 --adaptive",
    "table -s 1 -q 1 -t 4,8 -d 1e-5",
    "tune -s 1 -q 1 -t 4 -d 1e-5 --trials 10",
    "tune -s 1 -q 1 -t 4 -d 1e-5 --trials 10 --public",
    "federated --clients 100 --clients-per-round 100 --rounds 4 -s 1 -d 1e-3 --sampling full-batch",
])  # fmt: skip
def test_a_gate_that_is_not_met_says_so_in_every_format(dpbudget, line: str) -> None:
    for name in FORMATS:
        ran = dpbudget(*line.split(), "--max-epsilon", "0.1", "-f", name)
        assert ran.code == 3 and ran.out, (name, ran.err)
        assert name != "text" or "above --max-epsilon 0.1" in " ".join(ran.out.split())


@pytest.mark.parametrize(("line", "code"), [
    ("epsilon -s 1 -q 1 -t 4 -d 1e-5", 0),
    ("epsilon -s 1 -q 256 -t 100 -d 1e-5", 2),
    ("epsilon --nothing", 2),
    ("nothing", 2),
    ("check nothing.toml", 2),
    ("epsilon -s 1 -q 1 -t 4 -d 1e-5 --max-epsilon 0.1", 3),
    ("steps -e 0.001 -d 1e-9 -q 1 -s 1.1", 3),
    ("epsilon -s 0 -q 0.01 -t 100 -d 1e-5", 4),
    ("epsilon -s 1 -q 0.01 -t 100 -d 1e-5 -a gdp-clt", 4),
])  # fmt: skip
def test_every_code_in_every_format(dpbudget, line: str, code: int) -> None:
    """The code does not depend on the format; the report goes to stdout or nothing does, and a failure says why."""
    for form in FORMATS:
        ran = dpbudget(*line.split(), *(["-f", form] if line != "nothing" else []))
        assert ran.code == code and "Traceback" not in ran.err
        assert ran.out == "" if code == 2 else ran.out or form == "csv"
        assert ran.out.strip("-\n") or len(ran.err) > 20, "neither an answer nor the reason"


def test_a_closed_pipe_is_no_verdict() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "dpbudget", "epsilon", "--help"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("failure", [OverflowError, FloatingPointError])
def test_numbers_beyond_the_doubles_are_no_internal_error(
    dpbudget, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    """There is no bound then, and no fault of the program to report either."""

    def gives_up(*_: object) -> None:
        raise failure

    monkeypatch.setattr(cost, "ask", gives_up)
    ran = dpbudget("epsilon", "-s", "1", "-q", "0.01", "-t", "10", "-d", "1e-5")
    assert ran.code == 4 and ran.out == "" and "no bound is reported" in ran.err
