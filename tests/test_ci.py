"""The action as a runner runs it: its own steps in bash, with the files and variables that GitHub provides."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpbudget.render import github

ROOT = Path(__file__).parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
INSTALL, CHECK = ACTION["runs"]["steps"]
NASTY = "a|b <i>%0A\n::error::x\x1b[31m=\u202e,`*$"
FILE = """schema = 1
[budget]
epsilon = {epsilon}
delta = 1e-5
adjacency = "add-or-remove-one"

[[release]]
name = {name}
mechanism = "gaussian"
noise_multiplier = 2
"""
COMMAND = re.compile(r"::(?P<level>\w+) (?P<properties>[^:]*)::(?P<message>.*)")


@dataclass
class Step:
    code: int
    log: str
    outputs: dict[str, str]
    summary: str

    def annotations(self) -> list[dict[str, str]]:
        """As the runner reads them: one command a line, properties split at commas, then unescaped."""
        found = []
        for match in filter(None, map(COMMAND.fullmatch, self.log.splitlines())):
            pairs = (item.split("=", 1) for item in match["properties"].split(","))
            properties = {key: unescaped(value) for key, value in pairs}
            found.append({"level": match["level"], "message": unescaped(match["message"]), **properties})
        return found


def unescaped(text: str) -> str:
    for escape, char in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(escape, char)
    return text


def parsed(text: str) -> dict[str, str]:
    """GITHUB_OUTPUT: name=value lines; a value can't span lines without a delimiter, and none is used."""
    return dict(line.split("=", 1) for line in text.splitlines())


@pytest.fixture
def runner(tmp_path: Path):
    """Run the check step in bash as GitHub does; the environment of the installation step is this test's own."""
    temp, work = tmp_path / "temp dir", tmp_path / "work"
    for folder in (temp / "dpbudget-venv" / "bin", work):
        folder.mkdir(parents=True)
    program = temp / "dpbudget-venv" / "bin" / "dpbudget"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dpbudget "$@"\n', encoding="utf-8")
    program.chmod(0o755)

    def run(text: str, **inputs: str) -> Step:
        given = {name: str(spec.get("default", "")) for name, spec in ACTION["inputs"].items()} | inputs
        (work / given["file"]).write_text(text, encoding="utf-8")
        files = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            file.write_text("", encoding="utf-8")
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "DPBUDGET_"))},
            **{name: str(file) for name, file in files.items()},
            **{name: inserted(value, given) for name, value in CHECK["env"].items()},
            "RUNNER_TEMP": str(temp), "GITHUB_ACTIONS": "true", "CI": "true", "PYTHONUTF8": "1",
        }  # fmt: skip
        return bash(CHECK["run"], environment, work, files)

    return run


def bash(script: str, environment: dict[str, str], folder: Path, files: dict[str, Path]) -> Step:
    path = folder.parent / "step.sh"
    path.write_text(script, encoding="utf-8")
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(path)],
        capture_output=True, text=True, env=environment, cwd=folder, timeout=300, check=False,
    )  # fmt: skip
    outputs = parsed(files["GITHUB_OUTPUT"].read_text(encoding="utf-8"))
    return Step(
        done.returncode, done.stdout + done.stderr, outputs, files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
    )


def inserted(value: str, given: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: given[match[1]], value)


def test_within(runner) -> None:
    step = runner(FILE.format(epsilon=8, name='"a"'))
    assert step.code == 0
    assert step.outputs["verdict"] == "within" and 1.9 < float(step.outputs["epsilon"]) < 2
    report = json.loads(Path(step.outputs["report"]).read_text(encoding="utf-8"))
    assert report["result"]["epsilon"]["upper"] <= float(step.outputs["epsilon"])
    [only] = step.annotations()
    assert (only["level"], only["file"], only["line"]) == ("notice", "budget.toml", "3")
    assert step.summary.startswith("### Privacy budget\n\n**within budget: epsilon ")


def test_over_fails_the_job_and_says_what_would_fit(runner) -> None:
    step = runner(FILE.format(epsilon=1, name='"a"'))
    assert step.code == 3 and step.outputs["verdict"] == "over"
    verdict, change = step.annotations()
    assert (verdict["level"], verdict["line"]) == ("error", "3")
    assert (change["level"], change["line"]) == ("warning", "10")
    assert "a: noise_multiplier at least" in change["message"] and "To pass: a:" in step.summary
    assert json.loads(Path(step.outputs["report"]).read_text(encoding="utf-8"))["result"]["to_pass"]


def test_report_only(runner) -> None:
    step = runner(FILE.format(epsilon=1, name='"a"'), **{"exit-zero": "true"})
    assert (step.code, step.outputs["verdict"]) == (0, "over")
    assert [item["level"] for item in step.annotations()] == ["warning", "warning"]


def test_a_broken_file_fails_even_a_report_only_job(runner) -> None:
    step = runner("schema = 1\n[budget]\nepsilon = -1\nadjacency = 3\n", **{"exit-zero": "true"})
    assert (step.code, step.outputs["verdict"], step.outputs["epsilon"]) == (2, "error", "")
    assert [(item["level"], item["line"]) for item in step.annotations()] == [("error", n) for n in ("2", "3", "4")]
    assert "no verdict" in step.summary and "epsilon: -1 is negative" in step.summary


def test_baseline(runner, tmp_path: Path) -> None:
    first = runner(FILE.format(epsilon=8, name='"a"'))
    shutil.copy(first.outputs["report"], tmp_path / "work" / "old.json")
    step = runner(FILE.format(epsilon=8, name='"b"'), baseline="old.json")
    assert "Against the baseline: epsilon is what it was. Added: b. Removed: a." in step.summary
    assert first.outputs["report"] != step.outputs["report"]


def test_names_are_only_names(runner) -> None:
    step = runner(FILE.format(epsilon=1, name=json.dumps(NASTY)))
    verdict, change = step.annotations()
    assert change["file"] == verdict["file"] == "budget.toml"
    assert r"a|b <i>%0A\n::error::x\x1b[31m=\u202e" in change["message"]
    assert set(step.outputs) == {"report", "verdict", "epsilon"}
    assert "<i>" not in step.summary and "\x1b" not in step.log + step.summary
    [row] = [line for line in step.summary.splitlines() if line.startswith("| a")]
    assert row.replace(r"\|", "").count("|") == 6


@pytest.mark.parametrize("file", ["my budget;touch pwned.toml", "$(touch pwned).toml", "-x.toml", "a%0Ab,c:d.toml"])
def test_an_input_is_never_a_command(runner, tmp_path: Path, file: str) -> None:
    step = runner(FILE.format(epsilon=8, name='"a"'), file=file)
    assert (step.code, step.outputs["verdict"]) == (0, "within")
    assert step.annotations()[0]["file"] == file
    assert sorted(p.name for p in (tmp_path / "work").iterdir()) == [file]


def test_action_is_what_github_accepts() -> None:
    assert ACTION["runs"]["using"] == "composite"
    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an expression inside a script can run as a command"
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text(encoding="utf-8")))
    assert used == set(ACTION["inputs"])
    written = set(re.findall(r"steps\.check\.outputs\.(\w+)", json.dumps(ACTION["outputs"])))
    assert written == set(ACTION["outputs"]) == {"verdict", "epsilon", "report"}
    assert CHECK["id"] == "check"


@pytest.mark.slow
def test_install_step(tmp_path: Path) -> None:
    """From a copy of the checkout, as the runner has it; needs the package index that pip is set up for."""
    checkout = tmp_path / "action"
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".*", "*.egg-info", "build", "tests"))
    environment = {
        **os.environ,
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_ACTION_PATH": str(checkout),
        "DPBUDGET_PYTHON": sys.executable,
    }
    subprocess.run(["bash", "-eo", "pipefail", "-c", INSTALL["run"]], env=environment, check=True, timeout=600)
    program = tmp_path / "dpbudget-venv" / "bin" / "dpbudget"
    assert subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.startswith(
        "dpbudget 0."
    )
    [schema] = tmp_path.glob("dpbudget-venv/lib/*/site-packages/dpbudget/schemas/report.schema.json")
    assert json.loads(schema.read_text(encoding="utf-8"))


def test_old_python_is_refused_in_words() -> None:
    line = INSTALL["run"].splitlines()[0]
    assert "(3, 11)" in line and "setup-python" in line


def test_example_workflow_uses_the_action_as_it_is() -> None:
    workflow = yaml.safe_load((ROOT / "examples" / "github-workflow.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["check"]["steps"]
    [step] = [step for step in steps if "/dpbudget@" in step.get("uses", "")]
    assert set(step["with"]) <= set(ACTION["inputs"])
    used = re.findall(r"steps\.budget\.outputs\.(\w+)", json.dumps(steps))
    assert step["id"] == "budget" and set(used) <= set(ACTION["outputs"])
    assert not any("${{" in step.get("run", "") for step in steps)


def test_pre_commit_hook_runs(dpbudget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["language"] == "python" and not hook["pass_filenames"]
    assert re.search(hook["files"], "budget.toml")
    program, *arguments = [*hook["entry"].split(), *hook["args"]]
    monkeypatch.chdir(tmp_path)
    for epsilon, code in ((8, 0), (1, 3)):
        Path("budget.toml").write_text(FILE.format(epsilon=epsilon, name='"a"'), encoding="utf-8")
        assert (program, dpbudget(*arguments).code) == ("dpbudget", code)


def test_example_budget_is_within(dpbudget) -> None:
    ran = dpbudget("check", ROOT / "examples" / "budget.toml", "--json")
    assert ran.code == 0 and len(ran.json["result"]["releases"]) == 8


@pytest.mark.parametrize("option", ["--summary", "--outputs"])
def test_a_channel_that_cannot_be_written_is_an_error(dpbudget, tmp_path: Path, option: str) -> None:
    file = tmp_path / "budget.toml"
    file.write_text(FILE.format(epsilon=8, name='"a"'), encoding="utf-8")
    ran = dpbudget("check", file, option, tmp_path / "none" / "x")
    assert ran.code == 2 and ran.err.startswith(f"error: {option}: ") and ran.out == ""


def test_annotation_line() -> None:
    line = github.line("error", "50% done\r\nnext", file="a:b,c%.toml", at=0)
    assert line == "::error file=a%3Ab%2Cc%25.toml,line=1,title=dpbudget::50%25 done\\r\\nnext\n"
