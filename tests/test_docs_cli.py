"""docs/cli.md holds every command and every option of the app, and examples that the command line accepts."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from dpbudget.cli import app

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def everything(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command below, by what is typed after the program's name; read without the generator."""
    for name, below in getattr(command, "commands", {}).items():
        yield f"{path} {name}".strip(), below
        yield from everything(below, f"{path} {name}")


COMMANDS = dict(everything(typer.main.get_command(app)))


def cells(line: str) -> list[str]:
    """The cells of a table row, as a reader sees them."""
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_page_is_what_the_command_line_generates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "completions"))
    tree, markdown = (importlib.import_module(f"generator.{name}") for name in ("tree", "markdown"))
    assert markdown.render(tree.root()) == PAGE, "run `make completions`"


def test_sections_are_the_commands() -> None:
    assert list(SECTIONS) == ["dpbudget", *COMMANDS, "Exit codes"]
    listed = re.findall(r"^\| \[(.+?)\]\(#(.+?)\)", PAGE, re.MULTILINE)
    assert [name for name, _ in listed] == list(COMMANDS)
    assert all(anchor == name.replace(" ", "-") for name, anchor in listed)


@pytest.mark.parametrize("name", COMMANDS)
def test_section_has_the_help_and_every_option(name: str) -> None:
    command, section = COMMANDS[name], SECTIONS[name]
    assert f"\ndpbudget {name}" in section
    assert command.help, "a command without a help text"
    plain = section.replace("\\", "")
    assert " ".join(command.help.split("\n\n")[0].split()).replace("\\", "") in plain
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            assert parameter.help, f"{parameter.opts} without a help text"
            [row] = [line for line in section.splitlines() if re.match(rf"\|.*`{parameter.opts[0]}`", line)]
            names, value, meaning = cells(row)
            assert set(re.findall(r"`(.+?)`", names)) == {*parameter.opts, *parameter.secondary_opts}
            assert value == ("" if parameter.is_flag else f"`{parameter.metavar}`")
            assert meaning.replace("\\", "").startswith(parameter.help.replace("\\", ""))
        elif parameter.param_type_name == "argument":
            assert f"| `{parameter.metavar or parameter.name.upper()}` |" in section.replace(r"\|", "|")


@pytest.mark.parametrize("name", COMMANDS)
def test_section_has_an_example_that_parses(name: str) -> None:
    if hasattr(COMMANDS[name], "commands"):
        pytest.skip("a group: its commands have the examples")
    examples = re.findall(r"^\$ (.+)", SECTIONS[name], re.MULTILINE)
    assert examples, "a help text without an example: a paragraph that begins with dpbudget"
    for example in examples:
        words = shlex.split(example)
        assert words[: 1 + len(name.split())] == ["dpbudget", *name.split()]
        COMMANDS[name].make_context(name, words[1 + len(name.split()) :])  # raises for what the parser does not know


def test_exit_codes_of_the_contract() -> None:
    codes = dict(re.findall(r"^\| (\d+) \| (.+) \|", SECTIONS["Exit codes"], re.MULTILINE))
    assert set(codes) >= {"0", "2", "3", "4", "70"}


def test_tables_are_whole() -> None:
    """A stray bar in a help text would shift the columns of its row."""
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    widths = [len(cells(row)) for row in rows]
    heads = [i for i, row in enumerate(rows) if set(row) <= set("|-")]
    for start, end in zip(heads, [*(i - 1 for i in heads[1:]), len(rows)], strict=True):
        assert set(widths[start - 1 : end]) == {widths[start]}
