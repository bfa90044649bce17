"""What --help shows: at every width nothing is cut, and examples come first and can be copied."""

from __future__ import annotations

import dataclasses
import re
import shlex
from typing import Any

import pytest
import typer

from dpbudget.answers.ledger import RUN_KEYS
from dpbudget.budgetfile.keys import MECHANISMS
from dpbudget.cli import COMMANDS, app
from dpbudget.cli.options import RunOptions

ROOT: Any = typer.main.get_command(app)
WIDTHS = (60, 80, 120)


def helped(monkeypatch: pytest.MonkeyPatch, name: str, columns: int) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    above = ROOT.make_context("dpbudget", [], resilient_parsing=True)
    if not name:
        return str(ROOT.get_help(above))
    below = ROOT.commands[name].make_context(name, [], parent=above, resilient_parsing=True)
    return str(ROOT.commands[name].get_help(below))


def unbroken(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("name", ["", *ROOT.commands])
def test_fits_and_is_whole(monkeypatch: pytest.MonkeyPatch, name: str, columns: int) -> None:
    text = helped(monkeypatch, name, columns)
    command = ROOT.commands[name] if name else ROOT
    wide = [line for line in text.splitlines() if len(line) > columns]
    assert all(re.fullmatch(r" +(-\w, )?--[\w, -]+ [a-z|-]+", line) for line in wide), "only a name with its values"
    assert "..." not in text
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            assert unbroken(parameter.help) in unbroken(text)
            assert all(re.search(rf"^  .*{option}\b", text, re.MULTILINE) for option in parameter.opts)


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("name", ROOT.commands)
def test_examples_come_before_options_and_can_be_pasted(
    monkeypatch: pytest.MonkeyPatch, name: str, columns: int
) -> None:
    text = helped(monkeypatch, name, columns)
    [block] = re.findall(r"^Examples?:\n((?:  .+\n)+)", text, re.MULTILINE)
    assert text.index(block) < text.index("The output:")
    # A shell reads a backslash at the end of a line as "this command goes on".
    pasted = [shlex.split(line, comments=True) for line in block.replace("\\\n", " ").splitlines()]
    written = re.findall(r"^ *(dpbudget .+?)(?:  # .*)?$", ROOT.commands[name].help, re.MULTILINE)
    assert [words for words in pasted if words] == [shlex.split(example) for example in written]


def test_every_command_stands_under_a_heading_with_its_first_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    text = helped(monkeypatch, "", 80)
    assert all(f"\n{heading}:\n" in text for heading in COMMANDS)
    for name, command in ROOT.commands.items():
        assert re.search(rf"^  {name} +{re.escape(command.help.splitlines()[0])}$", text, re.MULTILINE), name


def test_record_names_every_mechanism() -> None:
    [option] = [p for p in ROOT.commands["record"].params if p.name == "mechanism"]
    assert set(re.split(r", | or ", option.help.rstrip("."))) == set(MECHANISMS)


def test_what_a_command_refuses_is_not_in_its_help() -> None:
    def hidden(name: str) -> set[str]:
        return {p.name for p in ROOT.commands[name].params if getattr(p, "hidden", False)}

    assert hidden("record") == {field.name for field in dataclasses.fields(RunOptions)} - set(RUN_KEYS)
    assert {"noise_multiplier", "noise_std"} <= hidden("sigma") and {"steps", "epochs"} <= hidden("steps")
    assert {"sampling_rate", "batch_size", "epochs"} <= hidden("rate") and not hidden("epsilon")


def test_an_option_takes_the_same_kind_of_value_everywhere() -> None:
    """One name for one meaning: what stands for the value shows it, where it is more than a number or a name."""
    kinds: dict[str, set[str]] = {}
    for command in ROOT.commands.values():
        for parameter in command.params:
            if parameter.param_type_name == "option":
                kind = "" if parameter.is_flag else parameter.metavar.rstrip("S")
                for option in parameter.opts:
                    kinds.setdefault(option, set()).add("NAME" if "|" in kind and option == "--sampling" else kind)
    assert {option for option, found in kinds.items() if len(found) > 1} == set()
