"""What the parser does not understand, said in this tool's words: what is wrong, and what to type instead.

The parser's errors are told apart by what they carry, never by their wording.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpbudget.cli.help import PROGRAM, paragraphs
from dpbudget.names import meant, plain

# What other tools and everyday words call it. Only offered where the command has the option.
OPTIONS: Mapping[str, str] = {
    "noise": "--noise-multiplier", "noise-scale": "--noise-multiplier", "std": "--noise-std",
    "noise-stddev": "--noise-std", "stddev": "--noise-std",
    "sample-rate": "--sampling-rate", "sampling-probability": "--sampling-rate", "rate": "--sampling-rate",
    "prob": "--sampling-rate", "q": "--sampling-rate",
    "batch": "--batch-size", "lot-size": "--batch-size", "lot": "--batch-size", "bs": "--batch-size",
    "dataset": "--dataset-size", "size": "--dataset-size", "num-examples": "--dataset-size",
    "number-of-examples": "--dataset-size", "records": "--dataset-size", "n": "--dataset-size",
    "iterations": "--steps", "iters": "--steps", "num-steps": "--steps", "max-steps": "--steps", "t": "--steps",
    "num-epochs": "--epochs", "max-grad-norm": "--clip-norm", "l2-norm-clip": "--clip-norm", "clip": "--clip-norm",
    "clipping": "--clip-norm", "clipping-norm": "--clip-norm", "max-norm": "--clip-norm",
    "eps": "--epsilon", "target-epsilon": "--epsilon", "budget": "--epsilon", "target-delta": "--delta",
    "limit": "--max-epsilon", "threshold": "--max-epsilon", "method": "--accountant", "mechanism": "--accountant",
    "neighbours": "--adjacency", "neighbors": "--adjacency", "neighboring-relation": "--adjacency",
    "sampler": "--sampling", "out": "--output", "file": "--output", "precision": "--digits",
    "num-clients": "--clients", "num-rounds": "--rounds", "sampled-clients": "--clients-per-round",
    "num-trials": "--trials", "runs": "--trials", "silent": "--quiet", "figure": "--plot",
}  # fmt: skip
COMMANDS: Mapping[str, str] = {
    "account": "epsilon", "calc": "epsilon", "calculate": "epsilon", "compute": "epsilon", "cost": "epsilon",
    "spent": "epsilon", "privacy": "epsilon", "noise": "sigma", "noise-multiplier": "sigma", "calibrate": "sigma",
    "batch": "rate", "batch-size": "rate", "sampling-rate": "rate", "grid": "table", "sweep": "table",
    "budget": "check", "validate": "check", "gate": "check", "new": "init", "create": "init", "start": "init",
    "add": "record", "log": "record", "spend": "record", "left": "status", "remaining": "status", "load": "import",
    "fl": "federated", "client": "federated", "hpo": "tune", "search": "tune", "trials": "tune", "audit": "verify",
    "test": "verify", "attack": "risk", "membership": "risk", "train": "simulate", "version": "--version",
}  # fmt: skip
RUN_FILE = "The budget and its releases stand in the file."
ANSWERS: Mapping[tuple[str, str], str] = {
    ("epsilon", "--epsilon"): "Epsilon is the answer here: for a limit pass --max-epsilon; to meet one, use dpbudget "
    "sigma, steps or rate.",
    ("delta", "--delta"): "Delta is the answer here: pass --epsilon, or use dpbudget epsilon.",
    ("", "--explain"): "Did you mean --version?",
    ("federated", "--epochs"): "Pass --rounds, or --local-epochs with --local-size.",
    **{(command, name): RUN_FILE for command in ("check", "solve", "status")
       for name in ("--epsilon", "--delta", "--max-epsilon", "--noise-multiplier", "--sampling-rate", "--steps")},
}  # fmt: skip


def rewritten(arguments: Sequence[str]) -> list[str]:
    """The arguments with two habits of other tools understood: `-s=1.1`, and `help COMMAND`."""
    words = list(arguments)
    if words[:1] == ["help"]:
        return [*words[1:2], "--help"]
    out: list[str] = []
    for i, word in enumerate(words):
        if word == "--":
            return out + words[i:]
        short = re.fullmatch(r"(-[a-zA-Z])=(.+)", word)
        out += short.groups() if short else [word]
    return out


def example(command: Any) -> str:
    """The first example of a command's help."""
    return f"For example: {paragraphs(command.help or '')[1][0][0]}"


def more(name: str) -> str:
    return f"Run {PROGRAM} {name + ' ' if name else ''}--help."


def complaint(error: Any, root: Any, arguments: Sequence[str]) -> tuple[str, str]:
    """(what is wrong, what to type) of an error of the parser's."""
    name = next((word for word in arguments if word in root.commands), "")
    command = root.commands.get(name, root)
    called = f"{PROGRAM} {name}".rstrip()
    if hasattr(error, "possibilities"):
        return f"{error.option_name} is no option of {called}", _instead(error.option_name, name, root) or more(name)
    if hasattr(error, "option_name"):
        return _value(error.option_name, command, more(name))
    if getattr(error, "param", None) is not None:
        missing = error.param.metavar or error.param.name.upper()
        return f"{missing} is missing", example(command)
    if command is root:
        typed = next((word for word in arguments if not word.startswith("-")), "")
        return f"{typed!r} is no command", _command(typed, root) or more(name)
    extra = [text for found in re.findall(r"\(([^()]+)\)$", str(error.format_message())) for text in found.split()]
    takes = [p.metavar or p.name.upper() for p in command.params if p.param_type_name == "argument"]
    rule = f"{called} takes {' '.join(takes)} alone" if takes else "Every value follows its option, --name value"
    return f"{' '.join(extra)!r} stands without an option", _listed(
        extra, arguments, command
    ) or f"{rule}. {more(name)}"


def misread(arguments: Sequence[str], root: Any) -> tuple[str, str] | None:
    """What the parser would take for something else, and compute from: (what is wrong, what to type).

    `-sigma 1.1` is -s with the value "igma" to it; `-d --json` is -d with the value "--json".
    """
    command = root.commands.get(arguments[0], root)
    known = {name: p for p in command.params if p.param_type_name == "option" for name in (*p.opts, *p.secondary_opts)}
    before = None
    for word in arguments:
        if word == "--":
            return None
        name = word.partition("=")[0]
        if re.fullmatch(r"-[a-zA-Z][a-zA-Z-]+", name) and f"-{name}" in known:
            return f"{name}: a long option begins with two dashes", f"Write -{word}."
        if before is not None and name in known:
            return _value(before, command, "")
        before = word if word in known and not known[word].is_flag and not known[word].count else None
    return None


def _names(command: Any) -> Iterator[str]:
    for parameter in command.params:
        if parameter.param_type_name == "option" and not getattr(parameter, "hidden", False):
            yield from (*parameter.opts, *parameter.secondary_opts)


def _instead(option: str, name: str, root: Any) -> str:
    """The way out for an option that a command does not have: its name here, why not, or who has it."""
    here = list(_names(root.commands.get(name, root)))
    owners: dict[str, list[str]] = {}
    for other, command in root.commands.items():
        for known in _names(command):
            owners.setdefault(known, []).append(other)
    wanted = _long(option, root)
    said = ANSWERS.get(("epsilon" if name == "explain" else name, wanted))
    if said:
        return said
    if wanted in here:
        return f"Did you mean {wanted}?"
    if not name:
        return f"A command comes first: {PROGRAM} {owners[option][0]} {option} ..." if option in owners else ""
    near = meant(option.lstrip("-"), [known.lstrip("-") for known in here if len(known) > 2], {})
    if near and option not in owners:
        return f"Did you mean --{near}?"
    found = owners.get(wanted, [])
    return f"{wanted} is an option of {', '.join(found[:6])}{' and others' if len(found) > 6 else ''}." if found else ""


def _long(option: str, root: Any) -> str:
    """The first long name that the option has, here or in other words; of an unknown letter the other case."""
    word = plain(option.lstrip("-"))
    typed = OPTIONS.get(word, f"--{word}") if option.startswith("--") else option
    for command in root.commands.values():
        for parameter in command.params:
            if typed in parameter.opts:
                return str(next(name for name in parameter.opts if name.startswith("--")))
    return typed if option.startswith("--") else option.swapcase()


def _command(typed: str, root: Any) -> str:
    if typed.endswith(".toml") or Path(typed).is_file():
        return f"Did you mean {PROGRAM} check {typed}?"
    near = COMMANDS.get(plain(typed)) or meant(typed, root.commands, {})
    return f"Did you mean {PROGRAM} {near}?" if near else ""


def _value(option: str, command: Any, more: str) -> tuple[str, str]:
    """An option that came without its value, or a flag with one."""
    for parameter in command.params:
        if option in (*parameter.opts, *parameter.secondary_opts):
            if parameter.is_flag:
                return f"{option} takes no value", f"Write {option} alone."
            return f"{option}: its value is missing", f"Write {option} {parameter.metavar or 'VALUE'}."
    return f"{option} is not understood", more


def _listed(extra: Sequence[str], arguments: Sequence[str], command: Any) -> str:
    """`-a pld rdp`: the way out where an option takes a list and the list was written with blanks."""
    if not extra or extra[0] not in arguments:
        return ""
    at = list(arguments).index(extra[0])
    for parameter in command.params:
        if at >= 2 and arguments[at - 2] in parameter.opts:
            help = getattr(parameter, "help", "") or ""
            lists = re.search(r"\blists?\b", f"{help} {command.help}", re.IGNORECASE) or "," in (
                parameter.metavar or ""
            )
            values = ",".join([arguments[at - 1], *extra])
            return f"A list is written with commas: {arguments[at - 2]} {values}" if lists else ""
    return ""
