"""The JSON Schemas hold for what the commands print and for the budget files that are read, and are not empty."""

from __future__ import annotations

import copy
import json
import re
import shlex
import shutil
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import contracts
import jsonschema
import pytest
import typer
from test_budgetfile import DESIGN, HEAD

from dpbudget import budgetfile
from dpbudget.budgetfile.edit import template
from dpbudget.budgetfile.keys import COMMON_KEYS, MECHANISMS
from dpbudget.budgetfile.reading import BUDGET_KEYS
from dpbudget.cli import app, shell
from dpbudget.render import FORMATS, Renderer, renderer
from dpbudget.render.style import Style
from dpbudget.report import Report

ROOT = Path(__file__).parent.parent
STATES = ROOT / "tests" / "data" / "states"
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def schema(name: str) -> Any:
    return json.loads(resources.files("dpbudget").joinpath(f"schemas/{name}.schema.json").read_text(encoding="utf-8"))


REPORT, BUDGET = (jsonschema.Draft202012Validator(schema(name)) for name in ("report", "budget"))


def faults(validator: jsonschema.Draft202012Validator, document: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


def test_schemas_are_schemas() -> None:
    for validator in (REPORT, BUDGET):
        jsonschema.Draft202012Validator.check_schema(validator.schema)


# --- reports ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files that the examples of the commands name."""
    monkeypatch.chdir(tmp_path)
    text = DESIGN.replace("epochs = 60", "epochs = 10").replace("epsilon = 8", "epsilon = 4")
    (tmp_path / "budget.toml").write_text(text, encoding="utf-8")
    (tmp_path / "solved.toml").write_text(text.replace('"solve"', "1.1"), encoding="utf-8")
    (tmp_path / "over.toml").write_text(text.replace('"solve"', "0.6"), encoding="utf-8")
    shutil.copy(STATES / "opacus_prv.pt", tmp_path / "checkpoint.pt")
    (tmp_path / "history.csv").write_text("sigma,q,steps\n1.1,0.01,100\n", encoding="utf-8")
    return tmp_path


CASES = [
    "epsilon -s 1.1 -q 0.01 -t 100 -d 1e-5 -a all",
    "epsilon -s 1.1 -q 0.01 -t 100 -d 1e-5,1e-6",
    "epsilon -s 0 -q 0.01 -t 100 -d 1e-5",
    "epsilon -s 1.1 -q 0.01 -t 100 -d 1e-5 -a gdp-clt",
    "epsilon -s 1.1 -q 0.01 -t 100 -d 1e-5 --max-epsilon 0.1",
    "epsilon --history history.csv -d 1e-5",
    "delta -s 1.1 -q 0.01 -t 100 -e 1",
    "sigma -e 2 -d 1e-5 -q 0.01 -t 100",
    "steps -e 2 -d 1e-5 -q 0.01 -s 1.1",
    "rate -e 2 -d 1e-5 -t 100 -s 1.1 -n 1000",
    "gaussian -e 1 -d 1e-5",
    "gaussian --sigma 2 -d 1e-5",
    "table -s 0.8:2:3 -q 0.01 -t 100 -d 1e-5",
    "table -e 1,2 -q 0.01 -t 100 -d 1e-5",
    "plan -e 3 -d 1e-5 -n 60000 -b 100,200 -E 1,2",
    "compare -s 2 -q 0.1 -t 10 -d 1e-5",
    "check solved.toml",
    "check over.toml",
    "status budget.toml",
    "solve budget.toml",
    "record solved.toml --name finetune",
    "import opacus checkpoint.pt -d 1e-5",
    "import csv history.csv -d 1e-5 --reported 3",
    f"import flower {STATES / 'flower_without_replacement_replace_one.json'}",
    "init new.toml",
]
INFEASIBLE = [
    "sigma -e 1e-11 -d 1e-100 -q 0.1 -t 10 -a basic",
    "steps -e 0.001 -d 1e-9 -q 1 -s 1.1",
    "rate -e 1e-30 -d 1e-100 -t 1 -s 0.1 -a basic",
    "plan -e 1e-11 -d 1e-100 -n 600 -b 100 -E 1 -a basic",
    "federated -e 1e-11 -d 1e-100 --clients 100 --clients-per-round 10 --rounds 10 -a basic",
    "tune -e 1e-3 -d 1e-9 -q 1 -s 1 -t 100",
    "tune -e 3 -d 1e-100 -q 0.5 -s 1e-3 -t 1",
    "tune -e 1e-3 -d 1e-9 -q 1 -s 1 -t 100 --law fixed",
    "tune -e 1e-11 -d 1e-100 -q 1 -t 100 --trials 10 --public -a basic",
    "risk -s 0.1 --sampling full-batch -d 1e-5 --target-advantage 1e-3",
    "simulate -e 1,1e-11 -n 600 -d 1e-100 -a basic",
    "simulate federated -e 1e-11 -n 600 --clients 5 --rounds 3 -d 1e-100 -a basic",
]


@pytest.fixture
def every_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever format is asked for, the report is held against the contract of all of them."""

    def checking(form: str) -> Renderer:
        def render(report: Report, style: Style) -> str:
            for name in FORMATS:
                contracts.renders(name, renderer(name), report, style)
            return renderer(form)(report, style)

        return render

    monkeypatch.setattr(shell, "renderer", checking)


@pytest.mark.parametrize("line", CASES)
def test_report_of(dpbudget, folder: Path, every_format: None, line: str) -> None:
    ran = dpbudget(*shlex.split(line), "--json")
    assert ran.out, ran.err
    assert ran.json["command"] == line.split()[0]
    assert faults(REPORT, ran.json) == []


@pytest.mark.parametrize("line", INFEASIBLE)
def test_a_target_that_nothing_meets_is_a_report(dpbudget, folder: Path, every_format: None, line: str) -> None:
    ran = dpbudget(*shlex.split(line), "--json")
    assert (ran.code, ran.json["status"], ran.json["result"]["status"]) == (3, "infeasible", "infeasible"), ran.err
    assert ran.json["result"]["nearest"] and ran.json["assumptions"]["adjacency"]
    assert faults(REPORT, ran.json) == []
    text = " ".join(dpbudget(*shlex.split(line)).out.split())
    assert "nearest feasible target" in text or "one run alone costs" in text


def example(name: str) -> list[str]:
    """The example in the command's own help."""
    return shlex.split(re.search(r"^ *dpbudget (.+)$", COMMANDS[name].help, re.MULTILINE)[1])


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in {line.split()[0] for line in CASES}])
def test_report_of_the_example_in_the_help(dpbudget, folder: Path, every_format: None, name: str) -> None:
    ran = dpbudget(*example(name), "--json")
    assert ran.out, ran.err
    assert faults(REPORT, ran.json) == []


def test_report_with_a_baseline(dpbudget, folder: Path) -> None:
    (folder / "old.json").write_text(dpbudget("check", "solved.toml", "--json").out, encoding="utf-8")
    assert faults(REPORT, dpbudget("check", "over.toml", "--baseline", "old.json", "--json").json) == []


def test_schema_notices_a_changed_contract(dpbudget, folder: Path) -> None:
    """A key that is renamed, dropped or added, a NaN-like text, an unknown verdict: each is a fault."""
    good = dpbudget("check", "over.toml", "--json").json
    assert faults(REPORT, good) == [] and good["result"]["to_pass"]

    def changed(*path: Any, value: Any = None, drop: bool = False) -> Any:
        document = copy.deepcopy(good)
        at = document
        for key in path[:-1]:
            at = at[key]
        if drop:
            del at[path[-1]]
        else:
            at[path[-1]] = value
        return document

    for bad in (
        changed("schema", value="dpbudget.report/2"),
        changed("result", "verdict", value="fine"),
        changed("result", "verdict", drop=True),
        changed("result", "epsilon", "upper", value="NaN"),
        changed("result", "epsilon", "upper", value=-1),
        changed("result", "epsilon", value={}),
        changed("result", "extra", value=1),
        changed("result", "to_pass", 0, "direction", value="more"),
        changed("result", "releases", 0, "epsilon_alone", drop=True),
        changed("assumptions", "adjacency", drop=True),
        changed("warnings", value=[{"code": "Not A Code", "message": "", "hint": ""}]),
        changed("timestamp", value="now"),
        changed("status", value="fine"),
    ):
        assert faults(REPORT, bad)


# --- budget files -----------------------------------------------------------------------------------------------------

RELEASE = '\n[[release]]\nname = "a"\n'
TUNING = """[[release]]
name = "search"
mechanism = "tuning"
law = "fixed"
trials = {}
noise_multiplier = 1.1
sampling_rate = 0.01
steps = 10
"""
VALID = {
    "design": DESIGN,
    "template": template(),
    "example": (ROOT / "examples" / "budget.toml").read_text(encoding="utf-8"),
    "no releases": HEAD,
    "noise": f'{HEAD}{RELEASE}mechanism = "dp-sgd"\nnoise_std = 1\nclip_norm = 2\nsampling_rate = 1\nepochs = 0.5\n',
    "full batch": f'{HEAD}{RELEASE}mechanism = "dp-sgd"\nnoise_multiplier = 1\nsampling = "full-batch"\nsteps = 3\n',
    "gaussian": f'{HEAD}{RELEASE}mechanism = "gaussian"\nnoise_multiplier = "solve"\n',
    "laplace": f'{HEAD}{RELEASE}mechanism = "laplace"\nscale = "solve"\nsensitivity = 2\ncount = 3\n',
    "response": f'{HEAD}{RELEASE}mechanism = "randomized-response"\ncategories = 3\nepsilon = 0.5\n'.replace(
        "add-or-remove-one", "zero-out"
    ),
    "guarantees": f'{HEAD}adaptive = false{RELEASE}mechanism = "zcdp"\nrho = 0.1\npartition = "x"\n',
    "defaults": f'{HEAD}[defaults]\nmechanism = "pure-dp"\nepsilon = 0.1\nstatus = "spent"\n{RELEASE}',
    "trials": HEAD + TUNING.format(2),
}
INVALID = {
    "empty": "",
    "no schema": HEAD.replace("schema = 1", ""),
    "schema 2": HEAD.replace("schema = 1", "schema = 2"),
    "no budget": "schema = 1",
    "no adjacency": HEAD.replace('adjacency = "add-or-remove-one"', ""),
    "adjacency": HEAD.replace("add-or-remove-one", "add-remove"),
    "delta 0": HEAD.replace("1e-5", "0"),
    "delta 1": HEAD.replace("1e-5", "1"),
    "epsilon text": HEAD.replace("epsilon = 8", 'epsilon = "8"'),
    "unknown section": HEAD + "[extra]\n",
    "unknown key": HEAD + "units = 3\n",
    "release as a table": HEAD + '[release]\nname = "a"\n',
    "no name": HEAD + '[[release]]\nmechanism = "pure-dp"\nepsilon = 1\n',
    "blank name": HEAD + '[[release]]\nname = " "\nmechanism = "pure-dp"\nepsilon = 1\n',
    "mechanism": f'{HEAD}{RELEASE}mechanism = "sgd"\n',
    "key of another mechanism": f'{HEAD}{RELEASE}mechanism = "pure-dp"\nepsilon = 1\nsteps = 3\n',
    "misspelt key": DESIGN.replace("sampling_rate", "sampling_rat"),
    "rate": DESIGN.replace("sampling_rate = 0.01", "sampling_rate = 256"),
    "negative noise": DESIGN.replace("noise_multiplier = 1.1", "noise_multiplier = -1.1"),
    "half a step": DESIGN.replace("steps = 2000", "steps = 0.5"),
    "two noises": DESIGN.replace("noise_multiplier = 1.1", "noise_multiplier = 1.1\nnoise_std = 1\nclip_norm = 1"),
    "status": DESIGN.replace('"spent"', '"done"'),
    "solve of what cannot be": DESIGN.replace("epochs = 60", 'epochs = "solve"'),
    "noise beyond the doubles": DESIGN.replace("noise_multiplier = 1.1", "noise_multiplier = 1e60"),
    "a truth of twenty nines, a double of 1": f'{HEAD}{RELEASE}mechanism = "randomized-response"\ncategories = 3\n'
    f"truth_probability = 0.{'9' * 20}\n",
    "certain truth": f'{HEAD}{RELEASE}mechanism = "randomized-response"\ncategories = 3\ntruth_probability = 1\n',
    "count": f'{HEAD}{RELEASE}mechanism = "pure-dp"\nepsilon = 1\ncount = -1\n',
    "half a trial": HEAD + TUNING.format(2.5),
}


@pytest.mark.parametrize("name", VALID)
def test_valid_budget_file(name: str) -> None:
    budgetfile.load(VALID[name], filename="b.toml")
    assert faults(BUDGET, tomllib.loads(VALID[name])) == []


@pytest.mark.parametrize("name", INVALID)
def test_invalid_budget_file(name: str) -> None:
    with pytest.raises(budgetfile.BudgetFileError):
        budgetfile.load(INVALID[name], filename="b.toml")
    assert faults(BUDGET, tomllib.loads(INVALID[name]))


def test_schema_knows_every_key() -> None:
    definitions = BUDGET.schema["$defs"]
    assert set(BUDGET.schema["properties"]["budget"]["properties"]) == set(BUDGET_KEYS)
    assert set(definitions["release"]["properties"]) == set(COMMON_KEYS)
    assert set(definitions["mechanism"]["enum"]) == set(MECHANISMS)
    for name, spec in MECHANISMS.items():
        assert set(definitions[name]["properties"]) == {*spec.keys, *COMMON_KEYS}, name
