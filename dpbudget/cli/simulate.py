"""dpbudget simulate: DP-SGD and federated DP on a CSV or on generated records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from dpbudget import checks, derive, grid
from dpbudget.cli import shell
from dpbudget.cli.options import (
    DeltaOption,
    EpsilonOption,
    OneEngineOptions,
    OutputOptions,
    PlotOption,
    RunOptions,
    Text,
    _number,
    words,
)
from dpbudget.errors import InputError
from dpbudget.model import Adjacency, Sampling
from dpbudget.report import Report

if TYPE_CHECKING:
    from dpbudget.answers.simulate_report import Setting
    from dpbudget.simulate.outcome import Source

MODES = ("sgd", "federated")
RECORDS, BATCH, EPOCHS = "600", "64", "20"


@dataclass(frozen=True)
class DataOptions:
    """The records and how the simulation is done."""

    data: Annotated[
        Text, typer.Option("--data", metavar="FILE.csv", help="Records to learn from; generated ones without it.")
    ] = None
    label: Annotated[
        Text, typer.Option("--label", metavar="COLUMN", help="Column of --data to predict. Default: the last.")
    ] = None
    scale: Annotated[Text, _number("--scale", help="Public constant that every feature is divided by. Default 1.")] = (
        None
    )
    ranges: Annotated[
        Text,
        typer.Option(
            "--ranges", metavar="FILE.csv", help="Public ranges: columns column, low, high; mapped to [-1, 1]."
        ),
    ] = None
    held_out: Annotated[
        Text, _number("--held-out", help="Share of --data that only measures accuracy. Default 0.25.")
    ] = None
    features: Annotated[Text, _number("--features", help="Features of a generated record. Default 8.")] = None
    classes: Annotated[Text, _number("--classes", help="Classes of generated records. Default 2.")] = None
    learning_rate: Annotated[Text, _number("--learning-rate", "--lr", help="Step length. Default 0.5.")] = None
    repeats: Annotated[Text, _number("--repeats", "-r", help="Repeats of every run. Default 5.")] = None
    seed: Annotated[Text, _number("--seed", help="Seed of everything random. Default 0.")] = None


@dataclass(frozen=True)
class FederatedOptions:
    """What only `simulate federated` takes."""

    clients: Annotated[Text, _number("--clients", help="federated: clients. Default 10, or as in --client-column.")] = (
        None
    )
    client_column: Annotated[
        Text,
        typer.Option("--client-column", metavar="COLUMN", help="federated: column of --data that names the client."),
    ] = None
    clients_per_round: Annotated[
        Text, _number("--clients-per-round", help="federated: clients a round, expected under Poisson. Default: all.")
    ] = None
    rounds: Annotated[Text, _number("--rounds", help="federated: rounds. Default 10.")] = None
    noise_at: Annotated[
        Text, typer.Option("--noise-at", metavar="server|shared|client", help="federated: who adds the noise.")
    ] = None
    skew: Annotated[
        Text, _number("--skew", help="federated: Dirichlet concentration of dealing; small is unequal. Default 1.")
    ] = None
    local_batch: Annotated[Text, _number("--local-batch", help="federated: batch of a local step. Default 20.")] = None
    local_epochs: Annotated[Text, _number("--local-epochs", help="federated: local epochs a round. Default 1.")] = None
    local_sigma: Annotated[
        Text,
        _number("--local-noise-multiplier", "--local-sigma", help="federated: noise of a local step. Default none."),
    ] = None
    local_clip: Annotated[
        Text, _number("--local-clip-norm", help="federated: clipping norm of a local step. Default: --clip-norm.")
    ] = None


@words(
    hide=("history",),
    epsilon="Epsilon to train at, or a list a,b,c.",
    noise_multiplier="Noise multiplier to train at, or a list a,b,c.",
)
def simulate(
    run: RunOptions,
    epsilon: EpsilonOption,
    delta: DeltaOption,
    data: DataOptions,
    federated: FederatedOptions,
    engine: OneEngineOptions,
    plot: PlotOption,
    output: OutputOptions,
    mode: Annotated[
        str, typer.Argument(metavar="sgd|federated", help="What to simulate. Default sgd.", show_default=False)
    ] = "sgd",
) -> None:
    """What noise does to learning: DP-SGD on small records, or federated.

    Accuracy, clipping and signal-to-noise at every --epsilon or --sigma.

    dpbudget simulate --epsilon 1,3,8 -n 600 -b 64 -E 20 -C 1

    dpbudget simulate --epsilon 3 --data records.csv --label kind -b 64 -E 20 -C 1  # your records

    dpbudget simulate federated --clients 5 --rounds 10 --sigma 0.5 --noise-at client -n 500
    """

    def build() -> Report:
        kind = checks.choice("", mode, MODES)
        if run.history is not None:
            raise InputError("history", "can't be simulated", hint="Simulate one phase of it.")
        _one_way(run, epsilon)
        return _federated(run, epsilon, delta, data, federated, engine, output) if kind == "federated" else _sgd(
            run, epsilon, delta, data, federated, engine, output
        )  # fmt: skip

    shell.answer(output, build, plot=plot.plot)


def _one_way(run: RunOptions, epsilon: EpsilonOption) -> None:
    if epsilon.epsilon is not None and (run.noise_multiplier is not None or run.noise_std is not None):
        raise InputError("epsilon", "contradicts a given noise", hint="Pass --epsilon E, or --sigma S.")


def _sgd(
    run: RunOptions, epsilon: EpsilonOption, delta: DeltaOption, data: DataOptions, federated: FederatedOptions,
    engine: OneEngineOptions, output: OutputOptions,
) -> Report:  # fmt: skip
    for name, value in vars(federated).items():
        if value is not None:
            name = {"local_sigma": "local_noise_multiplier", "local_clip": "local_clip_norm"}.get(name, name)
            raise InputError(name, "belongs to federated simulation", hint="dpbudget simulate federated ...")
    source = _source(run.dataset_size, data, None)
    options = replace(run, dataset_size=str(source.train), noise_multiplier=None, clip_norm=run.clip_norm or "1")
    if options.batch_size is None and options.sampling_rate is None and options.sampling != "full-batch":
        options = replace(options, batch_size=str(min(int(BATCH), source.train)))
    if options.steps is None and options.epochs is None:
        options = replace(options, epochs=EPOCHS)
    listed = options.noise_std is None
    resolved = shell.run_of(options, unknown="noise_multiplier" if listed else "")
    assert resolved.clip_norm is not None
    if listed and run.noise_multiplier is None and epsilon.epsilon is None:
        raise InputError("epsilon", "is missing", hint="Pass --epsilon E or --sigma S, or a list: --epsilon 1,3,8.")
    at = shell.one_delta(delta, resolved)
    setting = _setting(source, data, resolved.clip_norm, at, engine, output)
    from dpbudget.answers import simulate as answers

    if not listed:
        assert resolved.noise_multiplier is not None
        return answers.sgd(resolved, setting, [], [resolved.noise_multiplier])
    return answers.sgd(resolved, setting, _epsilons(epsilon), _sigmas(run))


def _epsilons(epsilon: EpsilonOption) -> list[float]:
    return [] if epsilon.epsilon is None else [
        checks.epsilon(e) for e in grid.values("epsilon", epsilon.epsilon)
    ]  # fmt: skip


def _sigmas(run: RunOptions) -> list[float]:
    if run.noise_multiplier is None:
        return []
    return [checks.noise_multiplier(s) for s in grid.values("noise_multiplier", run.noise_multiplier)]


def _setting(
    source: Source, data: DataOptions, clip_norm: float, delta: float, engine: OneEngineOptions, output: OutputOptions
) -> Setting:
    from dpbudget.answers.simulate_report import Setting

    return Setting(
        source, _positive("learning_rate", data.learning_rate, 0.5), clip_norm, _whole("repeats", data.repeats, 5),
        _whole("seed", data.seed, 0, least=0), delta, shell.tolerance_of(engine), shell.digits_of(output),
        shell.accountant_of(engine),
    )  # fmt: skip


def _source(size: Text, data: DataOptions, client: Text) -> Source:
    """The records of --data, scaled by public constants, or the law that generated ones come from."""
    from dpbudget.simulate import data as records
    from dpbudget.simulate.outcome import Source

    if data.data is None:
        for name in ("label", "ranges", "scale", "held_out"):
            if getattr(data, name) is not None:
                raise InputError(name, "belongs to --data", hint="Pass --data FILE.csv.")
        if client is not None:
            raise InputError("client_column", "belongs to --data", hint="Pass --data FILE.csv.")
        train = checks.whole("dataset_size", checks.number("dataset_size", size or RECORDS), least=2, most=10**7)
        features = _whole("features", data.features, 8, most=10**5)
        classes = _whole("classes", data.classes, 2, least=2, most=1000)
        return Source(
            f"generated, {features} features, {classes} classes", train, max(1000, train), None, features, classes
        )
    if size is not None:
        raise InputError("dataset_size", "is read from --data", hint="Drop --dataset-size.")
    for name in ("features", "classes"):
        if getattr(data, name) is not None:
            raise InputError(name, "belongs to generated records", hint="Drop it, or drop --data.")
    if data.scale is not None and data.ranges is not None:
        raise InputError("scale", "contradicts --ranges", hint="Pass one of the two.")
    found = records.read_csv(data.data, data.label, client)
    if data.scale is not None:
        found = found.scaled(_positive("scale", data.scale, 1.0))
    if data.ranges is not None:
        found = found.ranged(records.read_ranges(data.ranges))
    share = _positive("held_out", data.held_out, 0.25)
    held = round(share * len(found))
    if not 1 <= held <= len(found) - 2:
        raise InputError("held_out", f"{share:g} of {len(found)} records leaves nothing to learn from or to measure on")
    return Source(data.data, len(found) - held, held, found)


def _federated(
    run: RunOptions, epsilon: EpsilonOption, delta: DeltaOption, data: DataOptions, given: FederatedOptions,
    engine: OneEngineOptions, output: OutputOptions,
) -> Report:  # fmt: skip
    for name, better in (("batch_size", "--local-batch or --clients-per-round"), ("epochs", "--local-epochs or --rounds"),
                         ("sampling_rate", "--clients-per-round"), ("steps", "--rounds"), ("noise_std", "--sigma"),
                         ("devices", "--clients"), ("accumulate", "--local-batch"), ("group_size", "--clients")):  # fmt: skip
        if getattr(run, name) is not None:
            raise InputError(name, "is ambiguous in a federated run", hint=f"Pass {better}.")
    source = _source(run.dataset_size, data, given.client_column)
    clip = _positive("clip_norm", run.clip_norm, 1.0)
    if source.data is not None and source.data.clients is not None:
        if given.clients is not None:
            raise InputError("clients", "contradicts --client-column", hint="Pass one of the two.")
        clients = len(source.data.client_names)
    else:
        clients = _whole("clients", given.clients, 10, most=100_000)
    sigma = _positive("local_noise_multiplier", given.local_sigma, 0.0) if given.local_sigma else 0.0
    sigmas = _sigmas(run) or ([0.0] if sigma and epsilon.epsilon is None else [])
    if not sigmas and epsilon.epsilon is None:
        raise InputError("noise_multiplier", "is missing", hint="Pass --sigma S, --epsilon E or --local-sigma S.")
    protected = clients if sigmas != [0.0] else source.train
    at = derive.default_delta(protected) if delta.delta is None else checks.delta(checks.number("delta", delta.delta))
    setting = _setting(source, data, clip, at, engine, output)
    from dpbudget.answers import simulate_federated as answers
    from dpbudget.federated import NoiseAt, default_adjacency

    per_round = _positive("clients_per_round", given.clients_per_round, float(clients))
    if per_round > clients:
        raise InputError("clients_per_round", f"{per_round:g} is above the {clients} clients that there are")
    chosen = run.sampling if per_round < clients else "full-batch"
    drawn = Sampling(checks.choice("sampling", chosen, ("poisson", "fixed-size", "full-batch")))
    if drawn is Sampling.FIXED_SIZE and per_round != int(per_round):
        raise InputError("clients_per_round", f"{per_round:g} is not a whole number of clients")
    place = NoiseAt(checks.choice("noise_at", given.noise_at or "server", NoiseAt))
    relation = Adjacency(checks.choice("adjacency", run.adjacency or default_adjacency(place, drawn), Adjacency))
    local = answers.local_of(
        _whole("local_epochs", given.local_epochs, 1), _whole("local_batch", given.local_batch, 20),
        setting.learning_rate, sigma, _positive("local_clip_norm", given.local_clip, clip),
    )  # fmt: skip
    described = answers.Federated(
        clients, per_round, _whole("rounds", given.rounds, 10, most=10**6), drawn, relation, place,
        _positive("skew", given.skew, 1.0), local,
    )  # fmt: skip
    return answers.report(described, setting, _epsilons(epsilon), sigmas)


def _whole(name: str, text: Text, default: int, *, least: int = 1, most: int | None = None) -> int:
    return default if text is None else checks.whole(name, checks.number(name, text), least=least, most=most)


def _positive(name: str, text: Text, default: float) -> float:
    return default if text is None else checks.positive(name, checks.number(name, text))
