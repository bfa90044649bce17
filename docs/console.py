"""Console blocks in the documents: run every command again, compare, or with --write put the new output in.

    python docs/console.py            compare all documents
    python docs/console.py --write    refresh them

A block is fenced as ```console; a line `$ command` runs, the lines below it are its output (stdout, then stderr).
`# exit 3` as the last line of an output states an exit code other than 0.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENTS = ("README.md", "docs/examples.md", "docs/pitfalls.md", "docs/ci.md", "docs/math.md")
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(command: str, folder: Path) -> str:
    """What a terminal 80 columns wide shows, with `# exit N` where N is not 0."""
    environment = {k: v for k, v in os.environ.items() if k not in ("GITHUB_ACTIONS", "FORCE_COLOR")}
    environment.update(TERM="dumb", COLUMNS="80", PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    done = subprocess.run(
        ["sh", "-c", command],
        capture_output=True, text=True, env=environment, cwd=folder, timeout=300, check=False,
    )  # fmt: skip
    text = (done.stdout + done.stderr).rstrip("\n")
    return text + (f"\n# exit {done.returncode}" if done.returncode else "")


def replay(block: str, folder: Path) -> str:
    """The block with the output that its commands give now."""
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "\n\n".join("\n".join(filter(None, (line, run(line[2:], folder)))) for line in commands) + "\n"


def refresh(path: Path, folder: Path) -> str:
    return BLOCK.sub(lambda match: f"```console\n{replay(match.group(1), folder)}```", path.read_text())


def documents() -> list[Path]:
    return [ROOT / name for name in DOCUMENTS if (ROOT / name).exists()]


def main() -> int:
    changed = 0
    for path in documents():
        with tempfile.TemporaryDirectory() as folder:
            text = refresh(path, Path(folder))
        if text != path.read_text():
            changed += 1
            print(f"{path.relative_to(ROOT)} differs")
            if "--write" in sys.argv:
                path.write_text(text)
    return 0 if "--write" in sys.argv else min(changed, 1)


if __name__ == "__main__":
    sys.exit(main())
