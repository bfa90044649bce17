"""docs/cli.md: every command with its usage, help, example, arguments and options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from generator.tree import Command, Parameter

INTRO = """\
Written by `make completions` from the command line itself: do not edit.

An option means the same in every command that has it. Its value follows after a space or `=`; numbers may be written
as `0.01`, `1e-5` or `1e4`. `--help` works after every command. The report goes to stdout, warnings and errors go to
stderr. Completion for the shell: `completions/dpbudget.bash` (source it), `completions/_dpbudget` (zsh: into a folder of
`$fpath`), `completions/dpbudget.fish` (into `~/.config/fish/completions`).
"""
EXIT_CODES = """\
1 is never a verdict: it stands for a closed pipe or a crash of the interpreter. 130 means interrupted by Ctrl-C.
"""


def _plain(text: str) -> str:
    """Text that Markdown shows as it stands, in a table too; what is between backticks stays code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return re.sub(r"([\\`*_<\[\]|])", r"\\\1", text)
    parts[::2] = [re.sub(r"([\\*_<\[\]|])", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [part.replace("|", r"\|") for part in parts[1::2]]
    return "`".join(parts)


def _code(text: str) -> str:
    return "`" + text.replace("|", r"\|") + "`" if text else ""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _meaning(parameter: Parameter) -> str:
    default = f" Default {_code(parameter.default)}." if parameter.default else ""
    return _plain(parameter.help) + default


def _usage(command: Command) -> str:
    words = [*command.path, *(["COMMAND"] if command.commands else [])]
    for argument in command.arguments:
        name = argument.metavar + ("..." if argument.repeated else "")
        words.append(name if argument.required else f"[{name}]")
    words.append("[OPTIONS]")
    return " ".join(words)


def _section(command: Command) -> Iterator[str]:
    yield from [f"## {' '.join(command.path[1:]) or 'dpbudget'}", ""]
    for paragraph in command.prose:
        yield from [_plain(paragraph), ""]
    yield from ["```text", _usage(command), "```", ""]
    if command.examples:
        lines = [f"# {remark}\n$ {example}" if remark else f"$ {example}" for example, remark in command.examples]
        yield from ["```console", *lines, "```", ""]
    if command.arguments:
        yield from _table(("argument", "meaning"), ((_code(a.metavar), _meaning(a)) for a in command.arguments))
    rows = ((", ".join(map(_code, o.names)), _code(o.metavar), _meaning(o)) for o in command.options)
    yield from _table(("option", "value", "meaning"), rows)
    if not command.commands:
        yield from [_plain(command.epilog) or "Exit codes: [as for every command](#exit-codes).", ""]


def _contents(root: Command) -> Iterator[str]:
    rows = []
    for command in root.walk():
        name = " ".join(command.path[1:])
        if name:
            rows.append((f"[{name}](#{name.replace(' ', '-')})", _plain(command.summary)))
    yield from _table(("command", "answers"), rows)


def _exit_codes(root: Command) -> Iterator[str]:
    yield from ["## Exit codes", ""]
    found = re.findall(r"(\d+) ([^;]+?)(?:;|\.?$)", root.epilog)
    yield from _table(("code", "meaning"), [(code, _plain(meaning)) for code, meaning in found])
    yield EXIT_CODES.rstrip("\n")


def render(root: Command) -> str:
    lines = ["# The command line", "", INTRO, *_contents(root)]
    for command in root.walk():
        lines += _section(command)
    return "\n".join([*lines, *_exit_codes(root)]) + "\n"
