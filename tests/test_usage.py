"""Mistakes at the command line: each is told with what to type instead."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from dpbudget import budgetfile, checks, files, grid
from dpbudget.budgetfile import BudgetFileError
from dpbudget.cli import app, shell, usage
from dpbudget.errors import InputError

ROOT: Any = typer.main.get_command(app)
RUN = "--sigma 1.1 -q 0.01 -t 1000 -d 1e-5"


@pytest.mark.parametrize(
    ("line", "way_out"),
    [
        ("eps", "dpbudget epsilon?"),
        ("Epsilon", "dpbudget epsilon?"),
        ("epsilom", "dpbudget epsilon?"),
        ("noise -e 3", "dpbudget sigma?"),
        ("fl", "dpbudget federated?"),
        ("version", "--version?"),
        ("-v", "--version?"),
        ("plans.toml", "dpbudget check plans.toml?"),
        (RUN, "dpbudget epsilon --sigma"),
        (f"epsilon {RUN} -e 3", "--max-epsilon"),
        (f"epsilon {RUN} --target-epsilon 3", "--max-epsilon"),
        (f"explain {RUN} --epsilon 3", "--max-epsilon"),
        ("sigma --target-epsilon 3", "--epsilon?"),
        ("delta --sigma 1 -d 1e-5", "--epsilon"),
        ("epsilon --noise 1.1", "--noise-multiplier?"),
        ("epsilon --noise_multiplier 1.1", "--noise-multiplier?"),
        ("epsilon --sgima 1.1", "--sigma?"),
        ("epsilon --batchsize 5", "--batch-size?"),
        ("epsilon --sample-rate 0.1", "--sampling-rate?"),
        ("epsilon --max-grad-norm 1", "--clip-norm?"),
        ("epsilon --epoch 1", "--epochs?"),
        ("epsilon -T 10", "-t?"),
        ("epsilon --trials 10", "tune"),
        ("sigma --plot x.svg", "risk"),
        ("risk -a rdp", "--accountant is an option of epsilon"),
        ("check budget.toml --sigma 1", "the file"),
        ("check budget.toml -d 1e-5", "the file"),
        ("federated -E 5", "--local-epochs"),
        ("federated --num-clients 5", "--clients?"),
        ("epsilon -sigma 1.1", "Write --sigma."),
        ("epsilon -delta=1e-5", "Write --delta=1e-5."),
        (f"epsilon {RUN} -a pld rdp", "-a pld,rdp"),
        (f"epsilon {RUN} 1e-6", "-d 1e-5,1e-6"),
        ("table --sigma 1 2", "--sigma 1,2"),
        ("verify --claim 1.5 1e-5", "--claim 1.5,1e-5"),
        ("epsilon 1.1 0.01 1000", "--name value"),
        ("check budget.toml other.toml", "takes FILE alone"),
        ("epsilon --sigma 1.1 -d", "Write -d NUMBER."),
        ("epsilon --delta --sigma 1.1", "Write --delta NUMBER."),
        ("epsilon --json=yes", "Write --json alone."),
        ("check", "dpbudget check budget.toml"),
        ("import opacus", "dpbudget import opacus checkpoint.pt"),
    ],
)
def test_mistake_is_told_with_the_way_out(dpbudget, line: str, way_out: str) -> None:
    ran = dpbudget(*shlex.split(line))
    assert (ran.code, ran.out) == (2, "")
    message, hint = ran.err.splitlines()
    assert message.startswith("error: ") and hint.startswith("  ")
    assert way_out in hint


def test_habits_of_other_tools_are_understood(dpbudget) -> None:
    plain = dpbudget("epsilon", *shlex.split(RUN), "-f", "value")
    assert dpbudget("epsilon", "-s=1.1", "-q=0.01", "-t=1000", "-d=1e-5", "-f=value") == plain
    assert plain.code == 0 and float(plain.out) > 0
    assert dpbudget("help", "epsilon") == dpbudget("epsilon", "--help")
    assert dpbudget("help") == dpbudget("--help")


def test_values_behind_two_dashes_are_left_alone() -> None:
    assert usage.rewritten(["check", "--", "-s=1.toml"]) == ["check", "--", "-s=1.toml"]
    assert usage.misread(["check", "--", "-output"], ROOT) is None


def test_an_existing_file_is_offered_to_check(dpbudget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "budget").write_text("")
    assert "dpbudget check budget?" in dpbudget("budget").err


def test_synonyms_lead_to_what_exists() -> None:
    options = {name for command in ROOT.commands.values() for p in command.params for name in p.opts}
    assert set(usage.OPTIONS.values()) <= options
    assert not options & {f"--{name}" for name in usage.OPTIONS} - {"--threshold", "--mechanism", "--precision"}
    assert set(usage.COMMANDS.values()) <= {*ROOT.commands, "--version"}
    assert not set(usage.COMMANDS) & set(ROOT.commands)
    assert {command for command, _ in usage.ANSWERS} <= {"", *ROOT.commands}


@pytest.mark.parametrize(
    ("text", "way_out"),
    [
        ("1,1", "Write 1.1: decimals take a point."),
        ("1,000", "Write 1000: numbers take no thousands separator."),
        ("5%", "Write 0.05."),
        ("10k", "Write 10000."),
        ("2.5M", "Write 2500000."),
        ("10^-5", "Write 1e-5."),
        ("2*10**-6", "Write 2e-6."),
        ("abc", "Write 0.01, 1e-5 or 1/60."),
        ("", "Write 0.01, 1e-5 or 1/60."),
    ],
)
def test_near_numbers_are_told_as_they_are_written(text: str, way_out: str) -> None:
    with pytest.raises(InputError) as caught:
        checks.number("sigma", text)
    assert caught.value.hint == way_out
    written = re.match(r"Write (\S+?)[.:]?( |$)", way_out)
    assert written and checks.number("sigma", written[1].rstrip(",")) > 0


@pytest.mark.parametrize(
    ("options", "near"),
    [
        ("--accountant prv", "pld"),
        ("--accountant renyi", "rdp"),
        ("--accountant plds", "pld"),
        ("--accountant gdp", "gdp-clt"),
        ("--format jsn", "json"),
        ("--format md", "markdown"),
        ("--sampling possion", "poisson"),
        ("--sampling without-replacement", "fixed-size"),
        ("--adjacency replace", "replace-one"),
        ("--adjacency add-remove", "add-or-remove-one"),
        ("--adjacency substitute", "replace-one"),
        ("--unit record", "example"),
        ("--unit patient", "user"),
        ("--loader tf", "tf-privacy"),
        ("--noise-on average", "mean"),
    ],
)
def test_near_names_are_offered_and_not_taken(dpbudget, options: str, near: str) -> None:
    ran = dpbudget("epsilon", *shlex.split(RUN), *options.split())
    assert ran.code == 2 and ran.err.startswith(f"error: {options.split()[0]}: ")
    assert f"Did you mean {near}? Choose from " in ran.err


def test_case_and_underscores_of_a_name_do_not_matter(dpbudget) -> None:
    names = ("--sampling", "Poisson", "-a", "PLD", "--format", "VALUE", "--adjacency", "Zero_Out")
    assert dpbudget("epsilon", *shlex.split(RUN), *names) == dpbudget(
        "epsilon", *shlex.split(RUN), *(name.lower().replace("_", "-") for name in names)
    )


@pytest.mark.parametrize(
    ("text", "way_out"), [("0.8:2", "0.8:2:5"), ("0.8:2:0.1", "Write 0.8:2:13."), ("1:2:3:4", "0.8:2:5")]
)
def test_ranges(text: str, way_out: str) -> None:
    with pytest.raises(InputError) as caught:
        grid.values("sigma", text)
    assert way_out in caught.value.hint


def test_a_report_can_not_go_into_a_folder(dpbudget, tmp_path: Path) -> None:
    run = ("epsilon", *shlex.split(RUN))
    assert "is a folder\n  Name a file: " in dpbudget(*run, "-o", tmp_path).err
    assert "there is no folder" in dpbudget(*run, "-o", tmp_path / "a" / "b").err


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("budgt.toml", "budget.toml"),
        ("budget", "budget.toml"),
        ("budget.tml", "budget.toml"),
        ("Budget.toml", "budget.toml"),
        ("runs.csv", "run.csv"),
        ("zzz.toml", ""),
        ("budget.toml", ""),
        ("nowhere/budget.toml", ""),
    ],
)
def test_a_file_beside_the_missing_one_is_offered(tmp_path: Path, typed: str, near: str) -> None:
    for name in ("budget.toml", "a.toml", "run.csv"):
        (tmp_path / name).write_text("")
    assert files.instead(tmp_path / typed) == (f"Did you mean {tmp_path / near}?" if near else "")
    assert files.instead(tmp_path) == f"Did you mean {tmp_path / 'budget.toml'}?"


@pytest.mark.parametrize(
    "line",
    [
        "check budgt.toml",
        "status budgt.toml",
        "record budgt.toml --name x",
        "check budget.toml --baseline budgt.json",
        "epsilon --history rn.csv -d 1e-5",
        "simulate --epsilon 3 --data rn.csv",
        "simulate --epsilon 3 --data run.csv --ranges rn.csv",
        "federated --clients 9 --clients-per-round 3 --rounds 2 --sigma 1 --sizes rn.csv",
        "import csv rn.csv -d 1e-5",
        "import opacus budgt.json -d 1e-5",
        "verify --scores rn.csv -d 1e-5",
    ],
)
def test_every_command_offers_it(dpbudget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("budget.toml", "budget.json", "run.csv"):
        (tmp_path / name).write_text("a,b\n1,0\n2,1\n3,0\n4,1\n")
    ran = dpbudget(*line.split())
    assert ran.code == 2 and re.search(r"Did you mean (budget\.toml|budget\.json|run\.csv)\?", ran.err)


@pytest.mark.parametrize(
    ("line", "way_out"),
    [
        ("noise_multiplier = solve", 'Text stands in quotes: noise_multiplier = "solve".'),
        ("noise_multiplier = 1,1", "Decimals take a point: noise_multiplier = 1.1."),
        ("sampling_rate = 5%", "Write sampling_rate = 0.05."),
        ("sampling_rate = .05", "A number has digits on both sides of its point."),
        ("steps: 100", "Each line is KEY = VALUE."),
        ('{"release": []}', "It looks like JSON; dpbudget init writes"),
    ],
)
def test_a_line_that_is_not_toml_is_told_as_it_is_written(line: str, way_out: str) -> None:
    with pytest.raises(BudgetFileError) as caught:
        budgetfile.load(line, filename="b.toml")
    assert f"(column {caught.value.message.split('(column ')[1].split(')')[0]}). {way_out}" in caught.value.message


def test_a_misspelled_mechanism_does_not_hide_other_mistakes() -> None:
    text = '[[release]]\nname = "a"\nmechanism = "dpsgd"\nsigma = 1\nsampling = "possion"\nstatus = "done"\n'
    with pytest.raises(BudgetFileError) as caught:
        budgetfile.load(f"schema = 1\n{text}", filename="b.toml")
    for near in ("dp-sgd", "noise_multiplier", "poisson", "spent"):
        assert f'did you mean "{near}"?' in caught.value.message


@pytest.mark.parametrize(
    ("options", "message", "way_out"),
    [
        ("--name trainin", "no planned release is called 'trainin'", "Did you mean 'training'?"),
        ("--name new", "no planned release is called 'new'", "A new one needs its parameters: --sigma S"),
        ("--name new --sigma 1 -q 0.01", "steps, or epochs is missing", "Pass --sigma S -q Q -t T"),
        ("--name new --mechanism laplace --set scael=1", 'unknown key "scael" (did you mean "scale"?)', "--set"),
        ("--name new --mechanism laplas --set scale=1", "--mechanism", "Did you mean laplace?"),
        ("--name new --sigma 1 -q 256 -t 10", "256 is not in (0, 1]", "set batch_size = 256"),
    ],
)
def test_record_tells_of_the_new_entry_and_of_no_line(
    dpbudget, tmp_path: Path, options: str, message: str, way_out: str
) -> None:
    file = tmp_path / "budget.toml"
    file.write_text(
        'schema = 1\n[budget]\nepsilon = 8\ndelta = 1e-5\nadjacency = "add-or-remove-one"\n[[release]]\n'
        'name = "training"\nmechanism = "gaussian"\nnoise_multiplier = 2\n'
    )
    ran = dpbudget("record", file, *options.split())
    told, hint = ran.err.splitlines()
    assert ran.code == 2 and told.startswith("error: --") and message in told and way_out in hint


@pytest.mark.parametrize(("reported", "warned"), [("3.44", False), ("3.42", False), ("3", True), ("4.07", False)])
def test_import_warns_of_a_reported_epsilon_below_the_proven_one(dpbudget, reported: str, warned: bool) -> None:
    """Certified: 3.4424 to 3.4425. What a tool prints is rounded."""
    state = Path(__file__).parent / "data" / "states" / "opacus_rdp.json"
    ran = dpbudget("import", "opacus", state, "-d", "1e-5", "--reported", reported)
    assert ran.code == 0 and ("below what is proven" in ran.err) is warned


def test_messages_are_broken_into_lines_on_a_terminal_only(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    long, hint = "warning: " + "a word " * 20, "--option-with-a-name " * 5
    shell.complain(long, hint)
    assert len(capsys.readouterr().err.splitlines()) == 2
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shell.complain(long, hint)
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 50 and " ".join(" ".join(lines).split()) == " ".join(f"{long} {hint}".split())
    assert lines[-1].startswith("  --option-with-a-name")


@pytest.mark.parametrize("name", [name for name in ROOT.commands if name != "init"])
def test_a_command_alone_shows_its_example(dpbudget, name: str) -> None:
    ran = dpbudget(name)
    message, hint = ran.err.splitlines()
    assert ran.code == 2 and message.startswith("error: ")
    assert hint.startswith(f"  For example: dpbudget {name} ")


@pytest.mark.parametrize("line", ["init", "check", "import csv", "epsilon -d 1e-5 --history"])
def test_an_empty_name_is_told_as_one(dpbudget, line: str) -> None:
    """In a script it is a variable that is not set; the message has a subject, and no gap where the name would be."""
    error = dpbudget(*line.split(), "").err
    assert error[0] != " " and error[:2] != "is" and ":  " not in error and "error:  " not in error, error
