"""Mistakes at the command line: each is told with what to type instead."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from dpbudget.cli import app, usage

ROOT: Any = typer.main.get_command(app)
RUN = "--sigma 1.1 -q 0.01 -t 10 -d 1e-5"


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
        ("tune -a rdp", "--accountant is an option of epsilon"),
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
    assert dpbudget("epsilon", "-s=1.1", "-q=0.01", "-t=10", "-d=1e-5", "-f=value") == plain
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
