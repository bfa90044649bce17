"""dpbudget federated: client level and sample level of a federated run."""

from __future__ import annotations

from typing import Annotated

import typer

from dpbudget import checks, derive
from dpbudget.cli import shell
from dpbudget.cli.options import (
    DeltaOption,
    EngineOptions,
    EpsilonOption,
    GateOption,
    OutputOptions,
    Text,
    _number,
    words,
)
from dpbudget.errors import InputError
from dpbudget.federated import NoiseAt, default_adjacency
from dpbudget.model import Adjacency, Sampling
from dpbudget.report import Report


@words(
    epsilon="The epsilon to meet: solves for what is left out.",
    delta="Failure probability; default 1/N^1.1 for N clients.",
)
def federated(
    epsilon: EpsilonOption,
    delta: DeltaOption,
    gate: GateOption,
    engine: EngineOptions,
    output: OutputOptions,
    clients: Annotated[Text, _number("--clients", "--dataset-size", "-n", help="Clients in the population.")] = None,
    clients_per_round: Annotated[
        Text,
        _number("--clients-per-round", "--batch-size", "-b", help="Clients a round; expected under Poisson sampling."),
    ] = None,
    client_rate: Annotated[Text, _number("--sampling-rate", "-q", help="Chance of a client to be in a round.")] = None,
    rounds: Annotated[Text, _number("--rounds", "--steps", "-t", help="Rounds of training.")] = None,
    noise_multiplier: Annotated[
        Text, _number("--noise-multiplier", "--sigma", "-s", help="Noise / clipping norm, where --noise-at says.")
    ] = None,
    noise_at: Annotated[
        str,
        typer.Option(
            "--noise-at",
            metavar="server|shared|client",
            help="server: on the sum; shared: a part from each client, summed securely; client: on every upload.",
        ),
    ] = "server",
    min_honest: Annotated[
        Text, _number("--min-honest", help="Clients a round whose noise is certain: less drop-outs and colluders.")
    ] = None,
    clip_norm: Annotated[Text, _number("--clip-norm", "-C", help="Clipping norm of a client update.")] = None,
    clip_count_std: Annotated[
        Text, _number("--clip-count-std", help="Adaptive clipping: noise on the count of clipped updates.")
    ] = None,
    max_participations: Annotated[
        Text, _number("--max-participations", help="Most rounds that one client takes part in, if that is enforced.")
    ] = None,
    tree: Annotated[
        bool, typer.Option("--tree", help="DP-FTRL by tree aggregation, each client in at most one round.")
    ] = False,
    local_size: Annotated[Text, _number("--local-size", help="Examples of a client, for the sample level.")] = None,
    sizes: Annotated[
        Text, typer.Option("--sizes", metavar="FILE.csv", help="Columns client, size: a sample-level row for each.")
    ] = None,
    local_batch: Annotated[Text, _number("--local-batch", help="Batch size of a local step.")] = None,
    local_epochs: Annotated[Text, _number("--local-epochs", help="Local epochs a round. Default 1.")] = None,
    local_sigma: Annotated[
        Text,
        _number("--local-noise-multiplier", "--local-sigma", help="Noise of a local step; default --noise-multiplier."),
    ] = None,
    sampling: Annotated[
        str,
        typer.Option(
            "--sampling", metavar="poisson|fixed-size|full-batch", help="How the clients of a round are drawn."
        ),
    ] = "poisson",
    adjacency: Annotated[
        Text, typer.Option("--adjacency", metavar="NAME", help="add-or-remove-one, replace-one or zero-out.")
    ] = None,
) -> None:
    """A federated run: client and sample level, and against whom.

    With --epsilon it solves for the one of noise, clients per round, clients and rounds that is left out.

    dpbudget federated --clients 763430 --clients-per-round 5000 --rounds 5000 --sigma 1 --delta 1e-9
    """

    def build() -> Report:
        total = None if clients is None else checks.records("clients", clients)
        per_round = _per_round(clients_per_round, client_rate, total, sampling)
        length = (
            None if rounds is None else checks.whole("rounds", checks.number("rounds", rounds), most=checks.MAX_STEPS)
        )
        sigma = None
        if noise_multiplier is not None:
            sigma = checks.noise_multiplier(checks.number("noise_multiplier", noise_multiplier))
        at = [float(d) for d in _deltas(delta, total)]
        place = NoiseAt(checks.choice("noise_at", noise_at, NoiseAt))
        drawn = Sampling(checks.choice("sampling", sampling, ("poisson", "fixed-size", "full-batch")))
        relation = Adjacency(checks.choice("adjacency", adjacency or default_adjacency(place, drawn), Adjacency))
        if local_size is not None and sizes is not None:
            raise InputError("sizes", "contradicts --local-size", hint="Pass one of the two.")
        local = [] if local_size is None else [("every client", checks.records("local_size", local_size))]
        if sizes is not None:
            from dpbudget.sizes import read_sizes

            local = read_sizes(sizes)
        limit = None
        if gate.max_epsilon is not None:
            limit = checks.epsilon(checks.number("max_epsilon", gate.max_epsilon), "max_epsilon")
        target = None if epsilon.epsilon is None else shell.epsilon_of(epsilon.epsilon)
        tolerance, digits = shell.tolerance_of(engine), shell.digits_of(output)
        from dpbudget.answers import federated as answers
        from dpbudget.answers.federated_cost import Question

        question = Question(
            clients=total, clients_per_round=per_round, rounds=length, noise_multiplier=sigma, delta=at[0],
            noise_at=place, min_honest=_whole("min_honest", min_honest), sampling=drawn,
            adjacency=relation, max_participations=_whole("max_participations", max_participations), tree=tree,
            clip_norm=_positive("clip_norm", clip_norm), clip_count_std=_positive("clip_count_std", clip_count_std),
            local_sizes=local, local_batch=_whole("local_batch", local_batch),
            local_epochs=_whole("local_epochs", local_epochs) or 1,
            local_noise_multiplier=None if local_sigma is None
            else checks.noise_multiplier(checks.number("local_noise_multiplier", local_sigma), "local_noise_multiplier"),
        )  # fmt: skip
        return answers.report(
            question,
            epsilon=target,
            accountant=engine.accountant,
            tolerance=tolerance,
            digits=digits,
            max_epsilon=limit,
        )

    shell.answer(output, build)


def _per_round(count: Text, rate: Text, clients: int | None, sampling: str) -> float | None:
    if count is not None and rate is not None:
        raise InputError(
            "clients_per_round", "contradicts --sampling-rate: both say the same thing", hint="Pass one of the two."
        )
    if count is not None:
        return checks.positive("clients_per_round", checks.number("clients_per_round", count))
    if rate is not None:
        if clients is None:
            raise InputError("clients", "is missing beside a rate", hint="Pass --clients N.")
        return checks.sampling_rate(checks.number("sampling_rate", rate)) * clients
    return float(clients) if sampling == "full-batch" and clients is not None else None


def _deltas(option: DeltaOption, clients: int | None) -> list[float]:
    if option.delta is not None:
        return [checks.delta(checks.number("delta", option.delta))]
    if clients is None:
        raise InputError(
            "clients", "is missing", hint="Pass --clients N; delta is 1/N^1.1 where --delta gives no other."
        )
    return [derive.default_delta(clients)]


def _whole(name: str, text: Text) -> int | None:
    return None if text is None else checks.records(name, text)


def _positive(name: str, text: Text) -> float | None:
    return None if text is None else checks.positive(name, checks.number(name, text))
