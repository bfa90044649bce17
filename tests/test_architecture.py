"""The arrows between the layers, and what start-up may import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "dpbudget"
NUMERICS = ("numpy", "scipy")
# layer: what modules of this layer may never import (prefixes)
FORBIDDEN = {
    "model.py": ("dpbudget", *NUMERICS, "typer", "rich"),
    "errors.py": ("dpbudget", *NUMERICS, "typer", "rich"),
    "checks.py": (*NUMERICS, "typer", "rich", "dpbudget.accounting", "dpbudget.cli", "dpbudget.render"),
    "derive.py": (*NUMERICS, "typer", "rich", "dpbudget.accounting", "dpbudget.cli", "dpbudget.render"),
    "run.py": (*NUMERICS, "typer", "rich", "dpbudget.accounting", "dpbudget.cli", "dpbudget.render"),
    "report.py": (*NUMERICS, "typer", "rich", "dpbudget.accounting", "dpbudget.cli", "dpbudget.render"),
    "accounting": (
        "typer",
        "rich",
        "dpbudget.cli",
        "dpbudget.render",
        "dpbudget.report",
        "dpbudget.answers",
        "dpbudget.api",
    ),
    "render": (*NUMERICS, "typer", "dpbudget.cli", "dpbudget.accounting", "dpbudget.answers"),
    "answers": ("typer", "rich", "dpbudget.cli", "dpbudget.render"),
    "cli": NUMERICS,
}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


@pytest.mark.parametrize("layer", FORBIDDEN)
def test_arrows(layer: str) -> None:
    where = PACKAGE / layer
    files = [where] if where.is_file() else sorted(where.rglob("*.py"))
    assert files
    wrong = [
        f"{file.relative_to(PACKAGE)} imports {name}"
        for file in files
        for name in imports(file)
        if any(name == bad or name.startswith(bad + ".") for bad in FORBIDDEN[layer])
    ]
    assert not wrong


def test_core_neither_prints_nor_warns() -> None:
    for file in (PACKAGE / "accounting").rglob("*.py"):
        calls = [node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
        names = {function.id for function in calls if isinstance(function, ast.Name)}
        assert not names & {"print", "open", "input"}, file
        assert not imports(file) & {"warnings", "logging", "os", "subprocess"}, file


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["epsilon", "--help"], ["epsilon", "--sigma", "-1"]])
def test_start_up_imports_no_numerics(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom dpbudget.cli import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "heavy = [m for m in ('numpy', 'scipy') if m in sys.modules]\nprint('HEAVY', heavy)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("HEAVY []")


def test_package_import_is_light() -> None:
    code = "import sys, dpbudget; dir(dpbudget); assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
