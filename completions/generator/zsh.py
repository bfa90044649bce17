"""The zsh script: one function a command, made of _arguments specifications.

The first line must be the #compdef tag, or compinit passes over the file. The last lines make the very first TAB
answer, both where zsh autoloads the file as the body of _dpbudget and where a user sources it.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.tree import Command, Kind, Parameter

HEAD = """\
#compdef dpbudget
# zsh completion for dpbudget. Written by `make completions` from the command line itself: do not edit.
# Put this file into a folder of $fpath (before compinit runs), or source it (after compinit).
"""
TAIL = """
if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then
  _dpbudget "$@"
else
  compdef _dpbudget dpbudget
fi
"""
LOCALS = """\
  local curcontext=$curcontext context state state_descr ret=1
  local -a line
  local -A opt_args
"""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _escaped(text: str, special: str) -> str:
    """A backslash before each special character; the backslash is always one."""
    return "".join(f"\\{c}" if c in special + "\\" else c for c in text)


def _function(command: Command) -> str:
    return "_" + "_".join(command.path)


def _value(parameter: Parameter) -> str:
    message = _escaped(parameter.metavar, ":")
    if parameter.kind is Kind.FILE:
        return f":{message}:_files"
    words = " ".join(parameter.choices)
    if parameter.kind is Kind.ONE:
        return f":{message}:({words})"
    if parameter.kind is Kind.LIST:
        return f":{message}:_sequence compadd - {words}"
    return f":{message}: "


def _option(option: Parameter) -> str:
    """All names of an option in one word: giving one takes the others off the list."""
    flag = option.kind is Kind.FLAG
    names = [name if flag else name + ("=" if name.startswith("--") else "+") for name in option.names]
    text = f"[{_escaped(option.help, '[]')}]" + ("" if flag else _value(option))
    before = "*" if option.repeated else f"({' '.join(option.names)})"
    if len(names) == 1:
        return _quoted(before + names[0] + text)
    return f"{_quoted(before)}{{{','.join(names)}}}{_quoted(text)}"


def _argument(argument: Parameter) -> str:
    return _quoted(("*" if argument.repeated else "" if argument.required else ":") + _value(argument))


def _arguments(words: list[str]) -> Iterator[str]:
    yield "  _arguments -s -S -C \\"
    yield from (f"    {word} \\" for word in words)
    yield "    && ret=0"


def _leaf(command: Command) -> Iterator[str]:
    yield from _arguments([*map(_option, command.options), *map(_argument, command.arguments)])


def _group(command: Command) -> Iterator[str]:
    yield "  local -a commands=("
    for below in command.commands:
        yield f"    {_quoted(_escaped(below.name, ':') + ':' + below.summary)}"
    yield "  )"
    yield from _arguments([*map(_option, command.options), "'1: :->command'", "'*:: :->rest'"])
    yield "  case $state in"
    yield "    command) _describe -t commands command commands && ret=0 ;;"
    yield "    rest)"
    yield f"      curcontext=${{curcontext%:*:*}}:{'-'.join(command.path)}-$words[1]:"
    yield "      case $words[1] in"
    yield from (f"        {below.name}) {_function(below)} && ret=0 ;;" for below in command.commands)
    yield from ["      esac", "      ;;", "  esac"]


def _define(command: Command) -> str:
    body = _group(command) if command.commands else _leaf(command)
    return f"\n{_function(command)}() {{\n{LOCALS}" + "".join(f"{line}\n" for line in body) + "  return ret\n}\n"


def render(root: Command) -> str:
    return HEAD + "".join(map(_define, root.walk())) + TAIL
