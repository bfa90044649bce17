"""What is shipped: the wheel and the sdist, their metadata, and the floors of what they need. Needs no network."""

from __future__ import annotations

import email
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import lowest
import pytest

import dpbudget

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SHIPPED = ("dpbudget", "tests", "docs", "completions", "examples", "benchmarks")


def files(folder: str) -> set[str]:
    found = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in found}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel built from what the sdist unpacks to, by the backend of pyproject.toml."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for entry in (*SHIPPED, *(path.name for path in ROOT.iterdir() if path.is_file())):
        if (ROOT / entry).is_dir():
            shutil.copytree(ROOT / entry, source / entry, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / entry, source / entry)
    _build("build_sdist", source, out)
    with tarfile.open(next(out.glob("*.tar.gz"))) as archive:
        archive.extractall(out, filter="data")
    _build("build_wheel", out / f"dpbudget-{dpbudget.__version__}", out)
    return out


def _build(hook: str, folder: Path, out: Path) -> None:
    code = f"import sys; from setuptools import build_meta; build_meta.{hook}(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, out], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not re.search("deprecat", done.stdout + done.stderr, re.IGNORECASE)


def test_the_wheel_is_the_package_and_nothing_else(built: Path) -> None:
    info = f"dpbudget-{dpbudget.__version__}.dist-info"
    with zipfile.ZipFile(built / f"dpbudget-{dpbudget.__version__}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
        metadata = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
        commands = wheel.read(f"{info}/entry_points.txt").decode()
    assert {"dpbudget/py.typed", "dpbudget/schemas/report.schema.json", "dpbudget/schemas/budget.schema.json"} <= names
    beside = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt")}
    assert names == files("dpbudget") | beside | {f"{info}/licenses/LICENSE"}
    assert metadata["Version"] == dpbudget.__version__ and metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0" and metadata["Description-Content-Type"] == "text/markdown"
    assert str(metadata.get_payload()).startswith("# dpbudget")
    assert f"dpbudget = {PYPROJECT['project']['scripts']['dpbudget']}" in commands


def test_the_sdist_has_what_its_tests_read(built: Path) -> None:
    with tarfile.open(built / f"dpbudget-{dpbudget.__version__}.tar.gz") as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    top = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "pyproject.toml", "action.yml",
           ".pre-commit-hooks.yaml"}  # fmt: skip
    assert set().union(top, *(files(folder) for folder in SHIPPED)) <= names
    assert not [name for name in names if name.endswith(".pyc") or "/." in name]


def test_the_version_is_in_one_place() -> None:
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    literal = re.compile(rf"""["']{re.escape(dpbudget.__version__)}["']""")
    holders = [
        path for path in sorted(files("dpbudget")) if path.endswith(".py") and literal.search((ROOT / path).read_text())
    ]
    assert holders == ["dpbudget/version.py"]
    assert f"## {dpbudget.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_requirement_is_a_floor_and_make_test_lowest_installs_it() -> None:
    floors = lowest.constraints()
    asked = [re.split(r"[>=\[]", text)[0] for text in PYPROJECT["project"]["dependencies"]]
    assert asked and set(asked) <= set(floors)
    assert set(floors) >= {"matplotlib", "pytest", "hypothesis", "dp-accounting"}
    assert "tests/lowest.py" in (ROOT / "Makefile").read_text(encoding="utf-8")
    tested = {f"3.{minor}" for minor in re.findall(r"Python :: 3\.(\d+)", str(PYPROJECT["project"]["classifiers"]))}
    assert min(tested, key=lambda v: int(v[2:])) == PYPROJECT["project"]["requires-python"].removeprefix(">=")


def test_every_import_is_a_requirement() -> None:
    """Of the package: its dependencies, their own submodules, and the standard library; an extra where it is asked."""
    needed = {re.split(r"[>=\[]", text)[0] for text in PYPROJECT["project"]["dependencies"]} | {
        "matplotlib",
        "dpbudget",
    }
    pattern = re.compile(r"^ *(?:from|import) ([a-zA-Z_]\w*)", re.MULTILINE)
    for path in files("dpbudget"):
        if path.endswith(".py"):
            text = re.sub(r'""".*?"""', "", (ROOT / path).read_text(encoding="utf-8"), flags=re.DOTALL)
            assert set(pattern.findall(text)) <= needed | set(sys.stdlib_module_names), path
