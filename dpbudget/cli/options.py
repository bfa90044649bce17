"""Every option once: one name for one meaning. Commands take whole groups of them as frozen dataclasses.

All numbers arrive as text, so that 1e4 is a step count, 90 epochs at rate 0.04 are exactly 2250 steps, and every
error is worded in one place (dpbudget.checks).
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from dpbudget.accounting.accountants import ACCOUNTANTS
from dpbudget.model import Adjacency, Sampling
from dpbudget.render import FORMATS

Text = str | None
CONTEXT = {"help_option_names": ["-h", "--help"]}


def _or(names: Iterable[str]) -> str:
    """a, b or c."""
    *most, last = names
    return f"{', '.join(most)} or {last}"


def _number(*names: str, help: str, metavar: str = "NUMBER") -> Any:
    return typer.Option(*names, help=help, metavar=metavar, show_default=False)


@dataclass(frozen=True)
class RunOptions:
    """A training run: noise, sampling, length, and what the numbers mean."""

    noise_multiplier: Annotated[
        Text,
        _number("--noise-multiplier", "--sigma", "-s", help="Noise standard deviation on the sum / clipping norm."),
    ] = None
    sampling_rate: Annotated[Text, _number("--sampling-rate", "-q", help="Chance of a record to be in a batch.")] = None
    batch_size: Annotated[Text, _number("--batch-size", "-b", help="Expected batch size; with -n stands for -q.")] = (
        None
    )
    dataset_size: Annotated[Text, _number("--dataset-size", "-n", help="Number of records (or clients, or users).")] = (
        None
    )
    steps: Annotated[Text, _number("--steps", "-t", help="Noisy updates: optimizer steps, not micro-batches.")] = None
    epochs: Annotated[Text, _number("--epochs", "-E", help="Passes over the data, instead of --steps.")] = None
    clip_norm: Annotated[
        Text,
        _number("--clip-norm", "-C", help="Clipping norm; turns --noise-std into a multiplier, else changes nothing."),
    ] = None
    noise_std: Annotated[Text, _number("--noise-std", help="Noise standard deviation, with --clip-norm.")] = None
    noise_on: Annotated[
        str,
        typer.Option(
            "--noise-on", metavar="sum|mean", help="What --noise-std is the noise of: sum or averaged gradient."
        ),
    ] = "sum"
    devices: Annotated[Text, _number("--devices", help="Devices that each take a batch of -b.")] = None
    accumulate: Annotated[Text, _number("--accumulate", help="Micro-batches of -b accumulated before one update.")] = (
        None
    )
    loader: Annotated[
        str,
        typer.Option(
            "--loader", metavar="exact|opacus|tf-privacy", help="Whose convention turns -b, -n, -E into rate and steps."
        ),
    ] = "exact"
    history: Annotated[
        Text, typer.Option("--history", metavar="FILE.csv", help="Runs whose noise changed: columns sigma, q, steps.")
    ] = None
    sampling: Annotated[
        str,
        typer.Option("--sampling", metavar="NAME", help=f"{_or(Sampling)}."),
    ] = "poisson"
    adjacency: Annotated[
        Text,
        typer.Option("--adjacency", metavar="NAME", help=f"{_or(Adjacency)}; default by --sampling."),
    ] = None
    unit: Annotated[
        str, typer.Option("--unit", metavar="example|client|user", help="Who is protected: what a record stands for.")
    ] = "example"
    group_size: Annotated[Text, _number("--group-size", help="Records that one protected unit owns. Default 1.")] = None
    max_batch: Annotated[Text, _number("--max-batch", help="Poisson batches above it are cut to a random subset.")] = (
        None
    )
    microbatches: Annotated[
        bool, typer.Option("--microbatches", help="Clipping acts on micro-batches of several records: sensitivity 2 C.")
    ] = False


@dataclass(frozen=True)
class DeltaOption:
    delta: Annotated[Text, _number("--delta", "-d", help="Failure probability; default 1/n^1.1 where n is known.")] = (
        None
    )


@dataclass(frozen=True)
class EpsilonOption:
    epsilon: Annotated[Text, _number("--epsilon", "-e", help="The epsilon to meet.")] = None


@dataclass(frozen=True)
class ToleranceOption:
    tolerance: Annotated[
        str, _number("--tolerance", help="Relative width of the certified interval. Default 1e-5.")
    ] = "1e-5"


@dataclass(frozen=True)
class EngineOptions(ToleranceOption):
    accountant: Annotated[
        str,
        typer.Option("--accountant", "-a", metavar="NAMES", help=f"{', '.join(ACCOUNTANTS)}; a list, or all."),
    ] = "pld,rdp"


@dataclass(frozen=True)
class TableEngineOptions(ToleranceOption):
    accountant: Annotated[
        str,
        typer.Option(
            "--accountant", "-a", metavar="NAMES", help=f"{', '.join(ACCOUNTANTS)}; a list or all for a row each."
        ),
    ] = "pld"


@dataclass(frozen=True)
class OneEngineOptions(ToleranceOption):
    accountant: Annotated[
        str, typer.Option("--accountant", "-a", metavar="NAME", help=f"One of {', '.join(ACCOUNTANTS)}.")
    ] = "pld"


@dataclass(frozen=True)
class GateOption:
    max_epsilon: Annotated[
        Text, _number("--max-epsilon", help="Exit with 3 when the proven epsilon is above this.")
    ] = None


@dataclass(frozen=True)
class PlotOption:
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE.svg|png", help="Draw the picture of the answer into FILE (extra: plot)."),
    ] = None


@dataclass(frozen=True)
class AdaptiveOption:
    adaptive: Annotated[
        bool,
        typer.Option(
            "--adaptive", help="Noise, rate or length depend on earlier outputs: a Renyi filter for --max-epsilon."
        ),
    ] = False


@dataclass(frozen=True)
class OutputOptions:
    """How the answer looks; the same in every command."""

    format: Annotated[str, typer.Option("--format", "-f", metavar="NAME", help=f"{_or(FORMATS)}.")] = "text"
    json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report to FILE instead of stdout.")
    ] = None
    digits: Annotated[str, _number("--digits", help="Significant digits outside JSON. Default 5.")] = "5"
    explain: Annotated[
        bool, typer.Option("--explain", "--verbose", "-v", help="Say in words where the number comes from.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", help="No warnings on stderr.")] = False


@functools.cache
def _options_of(group: type[Any]) -> list[inspect.Parameter]:
    """The fields of a group as parameters; resolving their annotations is most of what start-up costs here."""
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in dataclasses.fields(group)
    ]


def words(hide: Iterable[str] = (), **helps: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """How a command's help words the options of a group, and which of them it leaves out: those that it refuses."""

    def mark(function: Callable[..., None]) -> Callable[..., None]:
        vars(function)["words"] = (frozenset(hide), helps)
        return function

    return mark


def _reworded(parameter: inspect.Parameter, hidden: frozenset[str], helps: dict[str, str]) -> inspect.Parameter:
    if parameter.name not in hidden and parameter.name not in helps:
        return parameter
    kind, info = get_args(parameter.annotation)
    info = copy.copy(info)
    info.hidden, info.help = parameter.name in hidden, helps.get(parameter.name, info.help)
    return parameter.replace(annotation=Annotated[kind, info])


def takes_groups(function: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter that is an option group by the group's fields, as the command line sees them."""
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, hint in get_type_hints(function, include_extras=True).items():
        if name == "return":
            continue
        if not dataclasses.is_dataclass(hint):
            default = inspect.signature(function).parameters[name].default
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))
            continue
        groups[name] = hint
        parameters += _options_of(groups[name])

    parameters = [_reworded(parameter, *getattr(function, "words", (frozenset(), {}))) for parameter in parameters]

    @functools.wraps(function)
    def command(**values: Any) -> None:
        arguments = {
            name: group(**{f.name: values.pop(f.name) for f in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        function(**arguments, **values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    vars(command).pop("__wrapped__")
    return command
