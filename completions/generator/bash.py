"""The bash script: one function that knows the commands, one that finds out where in them the cursor is."""

from __future__ import annotations

from collections.abc import Iterator

from generator.tree import Command, Kind, Parameter

HEAD = """\
# bash completion for dpbudget. Written by `make completions` from the command line itself: do not edit.
# Source this file from ~/.bashrc, or copy it to ~/.local/share/bash-completion/completions/dpbudget.

# _dpbudget_command PATH [OPTION|POSITION]: what stands in one command, and what its option or argument may be.
_dpbudget_command() {
    commands='' options='' flags='' one='' many='' file=''
    case $1 in
"""
TAIL = """\
    esac
}

_dpbudget() {
    # $2 is the word up to the cursor. Bash splits words at = and : (COMP_WORDBREAKS) and hands those over as words.
    local current=$2 path=dpbudget option='' position=0 closed='' glued='' head='' IFS=$' \\t\\n'
    local commands options flags one many file word i redirection='^[0-9]*&?[<>]'
    COMPREPLY=()
    if [[ ${3-} =~ $redirection ]]; then
        compopt -o default 2>/dev/null # nothing found here: bash completes the file name, with its own quoting
        return
    fi
    _dpbudget_command "$path"
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == = && -n $option ]]; then
            continue
        elif [[ $word == [=:] ]]; then
            glued=$((i + 1))
        elif ((i == COMP_CWORD || i == glued)); then
            continue
        elif [[ -n $option ]]; then
            option=''
        elif [[ -z $closed && $word == -- ]]; then
            closed=yes
        elif [[ -z $closed && $word == -* ]]; then
            [[ " $options " == *" $word "* && " $flags " != *" $word "* ]] && option=$word
        elif [[ " $commands " == *" $word "* ]]; then
            path+=" $word" position=0
            _dpbudget_command "$path"
        else
            position=$((position + 1))
        fi
    done
    # In the middle of a value with = or : in it there is nothing to add.
    if [[ -n $glued ]] && ((glued >= COMP_CWORD)); then
        return
    fi
    # Where the user took = out of COMP_WORDBREAKS, --option=value is one word.
    if [[ -z $option$closed && $current == --*=* ]]; then
        option=${current%%=*} head=${current%%=*}= current=${current#*=}
    fi
    if [[ -z $option$closed && $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
        return
    fi
    if [[ -z $option && -n $commands ]]; then
        COMPREPLY=($(compgen -W "$commands" -- "$current"))
        return
    fi
    _dpbudget_command "$path" "${option:-$position}"
    if [[ -n $many && $current == *,* ]]; then
        head+=${current%,*}, current=${current##*,}
    fi
    if [[ -n $file ]]; then
        compopt -o default 2>/dev/null
    elif [[ -n $one$many ]]; then
        COMPREPLY=($(compgen -P "$head" -W "$one$many" -- "$current"))
    elif [[ -z $option && -z $current && -z $closed ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    fi
}

if ((BASH_VERSINFO[0] >= 4)); then
    complete -F _dpbudget dpbudget
else
    complete -o default -F _dpbudget dpbudget # no compopt there
fi
"""


def _words(words: Iterator[str] | tuple[str, ...]) -> str:
    return "'" + " ".join(words) + "'"


def _value(parameter: Parameter, pattern: str) -> Iterator[str]:
    if parameter.kind is Kind.FILE:
        yield f"        {pattern}) file=yes ;;"
    elif parameter.choices:
        yield f"        {pattern}) {'many' if parameter.kind is Kind.LIST else 'one'}={_words(parameter.choices)} ;;"


def _values(command: Command) -> Iterator[str]:
    for option in command.options:
        yield from _value(option, " | ".join(option.names))
    for position, argument in enumerate(command.arguments):
        yield from _value(argument, "[0-9]*" if argument.repeated else str(position))


def _case(command: Command) -> Iterator[str]:
    yield f"    '{' '.join(command.path)}')"
    if command.commands:
        yield f"        commands={_words(tuple(c.name for c in command.commands))}"
    yield f"        options={_words(name for option in command.options for name in option.names)}"
    yield f"        flags={_words(name for o in command.options if o.kind is Kind.FLAG for name in o.names)}"
    values = list(_values(command))
    if values:
        yield from ["        case ${2-} in", *values, "        esac"]
    yield "        ;;"


def render(root: Command) -> str:
    return HEAD + "".join(f"{line}\n" for command in root.walk() for line in _case(command)) + TAIL
