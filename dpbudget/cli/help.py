"""What --help prints: the answer in a sentence, examples to copy, then the options by what they are about.

The parser's own layout breaks commands and names in the middle of a line and cuts summaries; here nothing is cut.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

from dpbudget.cli import options, shell
from dpbudget.render import plain

PROGRAM = "dpbudget"
WIDEST = 100
NAMES = (
    30  # columns for an option's names beside its meaning; longer names, or narrow screens, take a line of their own
)
SECTIONS = (
    ("The run", options.RunOptions),
    ("The budget", options.DeltaOption, options.EpsilonOption, options.GateOption, options.AdaptiveOption),
    ("The method", options.EngineOptions, options.ToleranceOption),
    ("The output", options.PlotOption, options.OutputOptions),
)


class Command(TyperCommand):
    """A command whose help is laid out here."""

    def get_help(self, ctx: Any) -> str:
        return "\n\n".join(_command(self, ctx))


class Group(TyperGroup):
    """The program. A command's `rich_help_panel` is the heading that it stands under."""

    def get_help(self, ctx: Any) -> str:
        return "\n\n".join(_group(self, ctx))


def width() -> int:
    return min(shell.width(), WIDEST)


def paragraphs(text: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """(prose, examples) of a help text. An example is a paragraph that begins with the program's name, on one line or
    several; what stands after two blanks and # says what it is for: (command, remark)."""
    blocks = [" ".join(block.split("\n")).strip() for block in re.split(r"\n\s*\n", text) if block.strip()]
    examples = [block.partition("  # ") for block in blocks if block.startswith(f"{PROGRAM} ")]
    prose = [" ".join(block.split()) for block in blocks if not block.startswith(f"{PROGRAM} ")]
    return tuple(prose), tuple((" ".join(command.split()), remark.strip()) for command, _, remark in examples)


def copyable(command: str, columns: int, indent: str = "  ") -> str:
    """The command as it can be copied: it goes on in the next line, before an option, after a backslash."""
    pieces = re.split(r" (?=--?[a-zA-Z])", command)
    lines = [indent + pieces[0]]
    for piece in pieces[1:]:
        if len(f"{lines[-1]} {piece} \\") <= columns:
            lines[-1] += f" {piece}"
        else:
            lines.append(f"{indent}    {piece}")
    return " \\\n".join(lines)


def _command(command: Any, ctx: Any) -> Iterator[str]:
    prose, examples = paragraphs(command.help or "")
    parameters = [p for p in command.get_params(ctx) if not getattr(p, "hidden", False)]
    arguments = [p for p in parameters if p.param_type_name == "argument"]
    words = [_argument(argument) for argument in arguments]
    yield f"Usage: {' '.join([ctx.command_path, *words, '[OPTIONS]'])}"
    yield from (plain.paragraph(text, width()) for text in prose[:1])
    yield from _examples(examples)
    yield from (plain.paragraph(text, width()) for text in prose[1:])
    if arguments:
        yield _listed("Arguments", [(_metavar(a), _meaning(a)) for a in arguments])
    for heading, members in _sections([p for p in parameters if p.param_type_name == "option"]):
        yield _listed(heading, [(_names(option), _meaning(option)) for option in members])


def _group(group: Any, ctx: Any) -> Iterator[str]:
    prose, examples = paragraphs(group.help or "")
    yield f"Usage: {ctx.command_path} COMMAND [OPTIONS]"
    yield from (plain.paragraph(text, width()) for text in prose)
    yield from _examples(examples)
    commands = [(name, command) for name, command in group.commands.items() if not command.hidden]
    column = max(len(name) for name, _ in commands) + 4
    for heading in dict.fromkeys(command.rich_help_panel for _, command in commands):
        rows = [(name, paragraphs(c.help or "")[0][0]) for name, c in commands if c.rich_help_panel == heading]
        yield _listed(heading, rows, column)
    yield _listed("Options", [(_names(p), _meaning(p)) for p in group.get_params(ctx)], column + 7)
    yield plain.paragraph(f"{ctx.command_path} COMMAND --help has examples and options. {group.epilog or ''}", width())


def _examples(examples: Sequence[tuple[str, str]]) -> Iterator[str]:
    if examples:
        lines = ["Example:" if len(examples) == 1 else "Examples:"]
        for command, remark in examples:
            lines += [f"  # {remark}"] if remark else []
            lines.append(copyable(command, width()))
        yield "\n".join(lines)


def _sections(parameters: Iterable[Any]) -> Iterator[tuple[str, list[Any]]]:
    """(heading, options): what the command alone has stands after the run."""
    known = {
        field.name: heading for heading, *groups in SECTIONS for group in groups for field in dataclasses.fields(group)
    }
    found: dict[str, list[Any]] = {"The run": [], "Options": []}
    found |= {heading: [] for heading, *_ in SECTIONS[1:]}
    for parameter in parameters:
        heading = "The output" if parameter.name == "help" else known.get(parameter.name, "Options")
        found[heading].append(parameter)
    yield from ((heading, members) for heading, members in found.items() if members)


def _listed(heading: str, rows: Iterable[tuple[str, str]], column: int = NAMES) -> str:
    """Names beside their meaning; above it where they are long or the screen is narrow."""
    column = column if width() >= 2 * NAMES + 12 or column < NAMES else 8
    lines = [f"{heading}:"]
    for name, meaning in rows:
        text = textwrap.wrap(meaning, width() - column, break_long_words=False, break_on_hyphens=False) or [""]
        if len(name) + 4 > column:
            lines.append(f"  {name}")
            lines += [" " * column + line for line in text]
        else:
            lines.append(f"  {name}".ljust(column) + text[0])
            lines += [" " * column + line for line in text[1:]]
    return "\n".join(line.rstrip() for line in lines)


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _argument(parameter: Any) -> str:
    return _metavar(parameter) if parameter.required else f"[{_metavar(parameter)}]"


def _names(option: Any) -> str:
    names = ", ".join(sorted([*option.opts, *option.secondary_opts], key=lambda name: name.startswith("--")))
    return names if option.is_flag or option.count else f"{names} {_metavar(option)}"


def _meaning(parameter: Any) -> str:
    text = " ".join((getattr(parameter, "help", None) or "").split())
    flag = parameter.param_type_name == "option" and (parameter.is_flag or parameter.count)
    default = parameter.default
    return text if flag or default is None or callable(default) or not parameter.show_default or parameter.required else (
        f"{text} Default {default}."
    )  # fmt: skip
