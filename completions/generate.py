"""Write the completion scripts and docs/cli.md from the command line itself; `--check` only says whether they are current.

The scripts are static: pressing TAB starts no Python. The same command line gives the same bytes.
"""

from __future__ import annotations

import sys
from difflib import unified_diff
from pathlib import Path

from generator import bash, fish, markdown, tree, zsh

ROOT = Path(__file__).resolve().parent.parent
TARGETS = {
    "completions/dpbudget.bash": bash.render,
    "completions/_dpbudget": zsh.render,
    "completions/dpbudget.fish": fish.render,
    "docs/cli.md": markdown.render,
}


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: python completions/generate.py [--check]", file=sys.stderr)
        return 2
    command_line = tree.root()
    code = 0
    for name, render in TARGETS.items():
        path, new = ROOT / name, render(command_line)
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if new == old:
            continue
        if arguments:
            code = 1
            sys.stdout.writelines(unified_diff(old.splitlines(True), new.splitlines(True), name, f"{name}, generated"))
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(new, encoding="utf-8", newline="\n")
            print(f"wrote {name}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
