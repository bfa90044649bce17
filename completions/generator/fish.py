"""The fish script: one `complete` line an option, each under the condition that its command is the one being typed."""

from __future__ import annotations

from collections.abc import Iterator

from generator.tree import Command, Kind, Parameter

HEAD = """\
# fish completion for dpbudget. Written by `make completions` from the command line itself: do not edit.
# Copy this file to ~/.config/fish/completions/dpbudget.fish.

# The command that is typed so far, without options and arguments.
function __dpbudget_path
    set -l path dpbudget
    set -l is_value 0
    for token in (commandline -opc)[2..-1]
        if test $is_value = 1
            set is_value 0
            continue
        end
        switch "$path $token"
"""
TAIL = """\
        end
    end
    echo $path
end

function __dpbudget_at
    test (__dpbudget_path) = "$argv"
end

# A list with commas: what stands before the last comma is kept. Here and below, the tab after a value keeps fish from
# repeating the help of the option beside each of its values.
function __dpbudget_list
    set -l typed (commandline -ct | string replace -r '^--[^=]*=|^-[^-]' '' | string match -r '^.*,')
    printf '%s\\t\\n' "$typed"$argv
end

complete -c dpbudget -f
"""


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _descent(root: Command) -> Iterator[str]:
    """The switch that follows the typed words down; the value of a group's own option is no command."""
    groups = [command for command in root.walk() if command.commands]
    yield "            case " + " ".join(_quoted(" ".join(c.path)) for group in groups for c in group.commands)
    yield '                set path "$path $token"'
    values = [
        _quoted(" ".join((*group.path, name)))
        for group in groups for option in group.options if option.kind is not Kind.FLAG for name in option.names
    ]  # fmt: skip
    if values:
        yield from [f"            case {' '.join(values)}", "                set is_value 1"]


def _value(parameter: Parameter) -> list[str]:
    if parameter.kind is Kind.ONE:
        return ["-a", "'" + " ".join(f"{choice}\\t" for choice in parameter.choices) + "'"]
    if parameter.kind is Kind.LIST:
        return ["-a", _quoted(f"(__dpbudget_list {' '.join(parameter.choices)})")]
    return []


def _option(option: Parameter) -> list[str]:
    words = [word for name in option.names for word in (("-l" if name[:2] == "--" else "-s"), name.lstrip("-"))]
    if option.kind is Kind.FILE:
        words += ["-r", "-F"]
    elif option.kind is not Kind.FLAG:
        words += ["-x", *_value(option)]
    return [*words, "-d", _quoted(option.help)]


def _lines(command: Command) -> Iterator[str]:
    condition = _quoted(" ".join(["__dpbudget_at", *command.path]))
    yield f"\n# {' '.join(command.path)}"
    parts = [["-a", below.name, "-d", _quoted(below.summary)] for below in command.commands]
    parts += [_option(option) for option in command.options]
    parts += [["-F"] if a.kind is Kind.FILE else _value(a) for a in command.arguments if a.kind is not Kind.FREE]
    yield from (" ".join(["complete -c dpbudget -n", condition, *part]) for part in parts)


def render(root: Command) -> str:
    lines = [line for command in root.walk() for line in _lines(command)]
    return HEAD + "".join(f"{line}\n" for line in _descent(root)) + TAIL + "".join(f"{line}\n" for line in lines)
