"""Every command in every document runs, and prints what the document shows; every name in it exists."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from conftest import DATA

from dpbudget.cli import app
from dpbudget.cli.help import paragraphs

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
import console

COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
DOCUMENTS = sorted([*console.ROOT.glob("*.md"), *console.ROOT.glob("docs/*.md")])
REPLAYED = console.documents()
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SOLVED = """schema = 1
[budget]
epsilon = 8
delta = 1e-5
adjacency = "add-or-remove-one"
[[release]]
name = "training"
mechanism = "dp-sgd"
noise_multiplier = 1.1
sampling_rate = 0.01
steps = 100
"""


def blocks(language: str) -> list[Any]:
    return [
        pytest.param(text, id=f"{path.name}-{i}")
        for path in DOCUMENTS
        for i, (found, text) in enumerate(FENCE.findall(path.read_text(encoding="utf-8")))
        if found == language
    ]


def options(command: Any) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}


def prose(path: Path) -> str:
    return FENCE.sub("", path.read_text(encoding="utf-8"))


# --- blocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", REPLAYED, ids=lambda path: path.name)
def test_console_blocks(path: Path, tmp_path: Path) -> None:
    assert console.refresh(path, tmp_path) == path.read_text()


def test_readme_has_a_tour() -> None:
    assert len(console.BLOCK.findall((console.ROOT / "README.md").read_text())) >= 5


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_block_is_of_a_kind_that_a_test_runs(path: Path) -> None:
    """Console blocks are replayed; those of docs/cli.md are the examples of the help, which are run below."""
    kinds = {language for language, _ in FENCE.findall(path.read_text(encoding="utf-8"))}
    if path.name == "cli.md":
        assert kinds == {"console", "text"}
    else:
        assert kinds <= {"console", "pycon", "sh", "yaml"}
        assert "console" not in kinds or path in REPLAYED


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks(path: Path) -> None:
    """The blocks of a document go on from each other."""
    text = "\n".join(text for language, text in FENCE.findall(path.read_text(encoding="utf-8")) if language == "pycon")
    found = doctest.DocTestParser().get_doctest(text, {}, path.name, None, 0)
    assert not doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found).failed
    assert bool(found.examples) == ("```pycon" in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("text", blocks("sh"))
def test_shell_blocks_name_targets_of_the_makefile(text: str) -> None:
    makefile = (console.ROOT / "Makefile").read_text(encoding="utf-8")
    for line in text.splitlines():
        program, target, *_ = line.split()
        assert program == "make" and re.search(rf"^{target}:", makefile, re.MULTILINE)


@pytest.mark.parametrize("text", blocks("yaml"))
def test_yaml_blocks_name_the_action_and_the_hook(text: str) -> None:
    [*entries] = yaml.safe_load(text)
    action = yaml.safe_load((console.ROOT / "action.yml").read_text(encoding="utf-8"))
    hooks = {
        hook["id"] for hook in yaml.safe_load((console.ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    }
    used = [entry for entry in entries if "dpbudget" in entry.get("uses", "") or "hooks" in entry]
    assert used
    for entry in used:
        assert set(entry.get("with", {})) <= set(action["inputs"])
        assert {hook["id"] for hook in entry.get("hooks", [])} <= hooks
    outputs = set(re.findall(r"outputs\.([\w-]+)", text))
    assert outputs <= set(action["outputs"])


# --- examples of the help ---------------------------------------------------------------------------------------------


# Seconds each; the first examples among them are run by test_schemas.py as well, or stand in a document.
SECONDS = (
    "compare-0", "explain-0", "plan-0", "plan-1", "risk-0", "risk-2", "simulate-0", "simulate-1", "table-1", "tune-0",
    "verify-0", "verify-1",
)  # fmt: skip


def examples() -> Iterator[Any]:
    for name, command in COMMANDS.items():
        for i, (line, _) in enumerate(paragraphs(command.help)[1]):
            marks = [pytest.mark.slow] if f"{name}-{i}" in SECONDS else []
            yield pytest.param(line, id=f"{name}-{i}", marks=marks)


@pytest.mark.parametrize("line", [*examples()])
def test_example_of_the_help_answers(dpbudget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line)
    if words[1] != "init":
        text = SOLVED.replace("= 1.1", '= "solve"') if words[1] == "solve" else SOLVED
        (tmp_path / "budget.toml").write_text(text, encoding="utf-8")
    shutil.copy(DATA / "states" / "opacus_rdp.pt", tmp_path / "checkpoint.pt")
    rows = "".join(f"{i % 7},{i % 5},{'ab'[i % 2]}\n" for i in range(120))
    (tmp_path / "records.csv").write_text(f"x,y,kind\n{rows}", encoding="utf-8")
    ran = dpbudget(*words[1:], "--quiet")
    assert (ran.code, ran.err) == (0, "") and len(ran.out.splitlines()) > 3


# --- names in the prose -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_commands_and_options_in_the_prose_exist(path: Path) -> None:
    known = set().union(*map(options, COMMANDS.values())) | {"--version", "-V", "-h"}
    for code in re.findall(r"`([^`\n]+)`", prose(path)):
        words = code.split()
        if words[0] == "dpbudget" and len(words) > 1 and not words[1].startswith(("-", "/")):
            assert words[1] in COMMANDS, code
            known_here = options(COMMANDS[words[1]])
        elif words[0].startswith("-") or words[0] in COMMANDS:
            known_here = known
        else:
            continue
        unknown = {word.split("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)} - known_here
        assert not unknown or path.name == "benchmarks.md", (code, unknown)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        file, _, anchor = target.partition("#")
        found = (path.parent / file).resolve() if file else path
        assert found.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads}, target
