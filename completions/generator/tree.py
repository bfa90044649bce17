"""The command line as plain data, read from the app itself, so that nothing generated can miss an option.

What a value may be follows from how the option is declared, by the word that stands for its value:

    FILE, FILE.csv, OLD.json    a file
    sum|mean                    one of a closed set
    NAME, NAMES                 one of CHOICES[parameter], or a list of them with commas or all; free text without an entry
    anything else               free text or a number

Only attributes that every supported typer has are read here: the types of parameters are not among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import typer

from dpbudget.accounting.accountants import ACCOUNTANTS
from dpbudget.budgetfile.keys import MECHANISMS
from dpbudget.cli import app
from dpbudget.cli.help import PROGRAM, paragraphs
from dpbudget.model import Adjacency, Sampling
from dpbudget.render import FORMATS

CHOICES: Mapping[str, tuple[str, ...]] = {
    "accountant": tuple(ACCOUNTANTS),
    "adjacency": tuple(str(value) for value in Adjacency),
    "format": FORMATS,
    "mechanism": tuple(MECHANISMS),
    "sampling": tuple(str(value) for value in Sampling),
}


class Kind(Enum):
    """What may follow an option, or stand as an argument."""

    FLAG = auto()
    FREE = auto()
    FILE = auto()
    ONE = auto()
    LIST = auto()


@dataclass(frozen=True)
class Parameter:
    """An option, or an argument: that has no names."""

    names: tuple[str, ...]
    metavar: str
    help: str
    default: str
    kind: Kind
    choices: tuple[str, ...]
    required: bool
    repeated: bool


@dataclass(frozen=True)
class Command:
    """A command with what its help says. `path` is what is typed: ("dpbudget", "epsilon"); an example is a command and
    what it is for."""

    path: tuple[str, ...]
    prose: tuple[str, ...]
    examples: tuple[tuple[str, str], ...]
    epilog: str
    options: tuple[Parameter, ...]
    arguments: tuple[Parameter, ...]
    commands: tuple[Command, ...]

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def summary(self) -> str:
        return self.prose[0] if self.prose else ""

    def walk(self) -> Iterator[Command]:
        """This command and all below it, in the order of the help."""
        yield self
        for command in self.commands:
            yield from command.walk()


def _kind(name: str, metavar: str, is_flag: bool) -> tuple[Kind, tuple[str, ...]]:
    if is_flag:
        return Kind.FLAG, ()
    if re.search(r"FILE|[A-Z]\.[a-z]+$", metavar):
        return Kind.FILE, ()
    if re.fullmatch(r"[a-z0-9-]+(\|[a-z0-9-]+)+", metavar):
        return Kind.ONE, tuple(metavar.split("|"))
    if metavar in ("NAME", "NAMES") and name in CHOICES:
        return (Kind.LIST, (*CHOICES[name], "all")) if metavar == "NAMES" else (Kind.ONE, CHOICES[name])
    return Kind.FREE, ()


def _parameter(raw: Any) -> Parameter:
    """Short names come first, as in the help."""
    is_option = raw.param_type_name == "option"
    is_flag = is_option and (raw.is_flag or raw.count)
    metavar = "" if is_flag else raw.metavar or raw.name.upper()
    kind, choices = _kind(raw.name, metavar, is_flag)
    shown = is_option and not is_flag and raw.show_default and raw.default is not None
    names = sorted([*raw.opts, *raw.secondary_opts], key=lambda name: name.startswith("--"))
    return Parameter(
        names=tuple(names) if is_option else (),
        metavar=metavar,
        help=" ".join((getattr(raw, "help", None) or "").split()),
        default=str(raw.default) if shown else "",
        kind=kind,
        choices=choices,
        required=bool(raw.required),
        repeated=raw.nargs == -1 or bool(getattr(raw, "multiple", False)),
    )


def _command(raw: Any, path: tuple[str, ...], parent: Any) -> Command:
    context = raw.make_context(path[-1], [], parent=parent, resilient_parsing=True)
    parameters = [p for p in raw.get_params(context) if not getattr(p, "hidden", False)]
    prose, examples = paragraphs(raw.help or "")
    below = [(name, command) for name, command in getattr(raw, "commands", {}).items() if not command.hidden]
    return Command(
        path=path,
        prose=prose,
        examples=examples,
        epilog=" ".join((raw.epilog or "").split()),
        options=tuple(_parameter(p) for p in parameters if p.param_type_name == "option"),
        arguments=tuple(_parameter(p) for p in parameters if p.param_type_name == "argument"),
        commands=tuple(_command(command, (*path, name), context) for name, command in below),
    )


def root(application: typer.Typer = app) -> Command:
    """The whole command line."""
    return _command(typer.main.get_command(application), (PROGRAM,), None)
