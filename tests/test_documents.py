"""Every command in every document runs, and prints what the document shows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
import console


@pytest.mark.parametrize("path", console.documents(), ids=lambda path: path.name)
def test_console_blocks(path: Path, tmp_path: Path) -> None:
    assert console.refresh(path, tmp_path) == path.read_text()


def test_readme_has_a_tour() -> None:
    assert len(console.BLOCK.findall((console.ROOT / "README.md").read_text())) >= 5
