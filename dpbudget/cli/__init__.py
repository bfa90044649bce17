"""The command line: thin commands over dpbudget.answers. Numerics are imported only when an answer is computed."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from dpbudget.cli import (
    budget,
    compare,
    cost,
    federated,
    help,
    imports,
    inverse,
    risk,
    shell,
    simulate,
    streams,
    table,
    tuning,
    usage,
    verify,
)
from dpbudget.cli.options import CONTEXT, takes_groups
from dpbudget.errors import DpbudgetError
from dpbudget.version import __version__

app = typer.Typer(
    name="dpbudget",
    cls=help.Group,
    help="""Privacy-budget calculator and planner for differentially private training, with certified bounds.

    dpbudget epsilon --sigma 1.1 -b 256 -n 60000 -E 60 -d 1e-5  # what did this run cost?

    dpbudget sigma --epsilon 3 -b 256 -n 60000 -E 60 -d 1e-5  # how much noise does epsilon 3 take?

    dpbudget init budget.toml  # start the budget file of a project

    dpbudget check budget.toml  # do all its releases fit the budget?
    """,
    epilog="Exit codes: 0 computed or within budget; 2 wrong input; 3 over budget or infeasible; 4 no certified bound; "
    "70 internal error.",
    context_settings=CONTEXT,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)

COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "What a run costs": (
        cost.epsilon, cost.delta, cost.explain, compare.compare, tuning.tune, federated.federated,
    ),
    "What a target allows": (
        inverse.sigma, inverse.steps, inverse.rate, inverse.gaussian, table.table, table.plan,
    ),
    "The budget of all releases": (
        budget.init, budget.check, budget.solve, budget.status, budget.record, imports.import_,
    ),
    "What it means": (risk.risk, verify.verify, simulate.simulate),
}  # fmt: skip
for _heading, _commands in COMMANDS.items():
    for _command in _commands:
        app.command(
            _command.__name__.rstrip("_"), cls=help.Command, context_settings=CONTEXT, rich_help_panel=_heading
        )(takes_groups(_command))


def _version(value: bool) -> None:
    if value:
        print(f"dpbudget {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


@functools.cache
def _parser() -> Any:
    return typer.main.get_command(app)


def _wrong(message: str, hint: str) -> int:
    shell.complain(f"error: {message}", hint)
    return 2


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every way out goes through an exit code of the contract."""
    streams.prepare()
    words = usage.rewritten(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        root = _parser()
        misread = usage.misread(words, root)
        if misread:
            sys.exit(_wrong(*misread))
        code = root(words, prog_name="dpbudget", standalone_mode=False)
        streams.finish()
        if code == 130:  # what the parser makes of Ctrl-C
            raise KeyboardInterrupt
        if isinstance(code, int) and code:
            sys.exit(code)
    except DpbudgetError as error:
        if len(words) == 1 and words[0] in root.commands:  # nothing was given: one missing value says too little
            error.hint = usage.example(root.commands[words[0]])
        sys.exit(shell.report_error(error))
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a key held down must not break off the way out
        shell.complain("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        streams.abandon(sys.stdout)
        sys.exit(1)
    except OSError as error:
        shell.complain(
            f"error: {error.filename or 'standard output'} can't be used: {(error.strerror or str(error)).lower()}",
            "Free some space, or pass --output FILE.",
        )
        streams.abandon(sys.stdout)
        sys.exit(2)
    except Exception as error:
        if hasattr(error, "format_message"):
            sys.exit(_wrong(*usage.complaint(error, root, words)))
        if os.environ.get("DPBUDGET_DEBUG"):
            raise
        shell.complain(
            f"error: internal error: {type(error).__name__}: {error}",
            "Please report this with the exact command line; DPBUDGET_DEBUG=1 prints where it happened.",
        )
        sys.exit(70)
