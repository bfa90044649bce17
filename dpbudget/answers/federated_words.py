"""The words of a federated report: what went in, against whom each guarantee holds, advice, assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpbudget import federated as model
from dpbudget.answers.federated_cost import Question, Sample
from dpbudget.federated import Federation, NoiseAt
from dpbudget.model import Adjacency, Sampling
from dpbudget.report import Cell, Notice, Quantity, Rounding

FEW_CLIENTS = 50


def facts(question: Question, federation: Federation) -> list[tuple[str, Cell, str]]:
    rows: list[tuple[str, Cell, str]] = [
        ("clients", Quantity(federation.clients), ""),
        ("clients per round", Quantity(federation.clients_per_round, Rounding.DOWN), f"rate {federation.rate:.6g}"),
        ("rounds", Quantity(federation.rounds), ""),
        ("noise multiplier", Quantity(federation.noise_multiplier, Rounding.UP), f"noise at {federation.noise_at}"),
    ]
    if question.clip_count_std is not None:
        update = model.update_multiplier(federation.noise_multiplier, question.clip_count_std)
        each = "" if federation.noise_at is NoiseAt.SERVER else " of each client"
        rows.append(
            (
                "noise on the updates",
                Quantity(update, Rounding.UP),
                f"multiplier{each}; the clipped count takes the rest, at {question.clip_count_std:.12g}{each}",
            )
        )
    if question.clip_norm is not None:
        std = federation.noise_multiplier * question.clip_norm
        where = "sum" if federation.noise_at is NoiseAt.SERVER else "update of each client"
        rows.append(
            ("noise standard deviation", Quantity(std, Rounding.UP), f"on the {where}; does not change epsilon")
        )
    if federation.tree:
        rows.append(("tree", Quantity(model.tree_height(federation.rounds)), "nodes that one round touches"))
    return rows


def _of_examples(adjacency: Adjacency) -> str:
    """What the client level says of one example. Changing it leaves the client there, with another clipped update."""
    if adjacency is Adjacency.REPLACE_ONE:
        return "A client-level guarantee under replace-one protects every example of a client at least as well."
    return (
        "This is about whole clients. An example that changes moves its client's update by up to twice the clipping norm: "
        "what covers it is --adjacency replace-one, at more epsilon."
    )


def notes(federation: Question | Federation, samples: Sequence[Sample]) -> list[str]:
    notes = []
    if federation.noise_at is NoiseAt.SERVER:
        notes.append(
            "The server sees the updates before it adds noise: against the server itself there is no guarantee."
        )
    if samples:
        t = samples[0].training
        notes.append(
            f"Sample level: every local step is DP-SGD with noise multiplier {t.noise_multiplier:.12g}, its batch drawn by "
            "Poisson sampling, examples added or removed; rounds x local epochs x ceil(size / batch) = "
            f"{t.steps} steps at the worst client; clients hold disjoint examples, so the largest counts."
        )
    else:
        notes.append(_of_examples(federation.adjacency))
    drawn = {
        Sampling.POISSON: "every client joins a round independently, in secret (Poisson sampling)",
        Sampling.FIXED_SIZE: "every round is a fresh uniform subset of fixed size, in secret",
    }.get(federation.sampling, f"{federation.sampling} sampling")
    if federation.tree or federation.max_participations is not None:
        drawn = (
            "who takes part is not published, and does not depend on whether another client is there"
            if federation.adjacency is Adjacency.ADD_OR_REMOVE_ONE
            else "who takes part need not be secret"
        ) + "; no client takes part more often than stated"
    if federation.noise_at is not NoiseAt.SERVER:
        # else the client's own noise comes and goes with it, and the variance of the sum tells of its presence
        drawn += "; the noise in a sum is at a public level that does not depend on who takes part"
    notes.append(
        f"Assumes: {federation.adjacency} neighbours, unit client; {drawn}; the sum of clipped updates is divided by a public "
        "constant; noise, rates and rounds fixed without looking at earlier outputs. Covers this run only: not "
        "hyper-parameter tuning, other releases on the same clients, or floating-point effects of the noise."
    )
    return notes


def warnings(question: Question, federation: Federation) -> list[Notice]:
    notices = []
    if federation.sampling is Sampling.POISSON and federation.rate < 1 and not federation.tree:
        notices.append(
            Notice(
                "expected-count",
                f"{federation.clients_per_round:g} clients a round is an expected count: every client has to join independently",
                "If the count is fixed, pass --sampling fixed-size --adjacency replace-one.",
            )
        )
    if federation.clients_per_round < 10 and federation.clients > FEW_CLIENTS:
        notices.append(
            Notice(
                "round-small",
                f"{federation.clients_per_round:g} clients a round are few: the noise on the average is large, "
                "and rounds are counted, not examples",
                "Take 50 or more clients a round with a noise multiplier near 1, for example.",
            )
        )
    if federation.clients < FEW_CLIENTS:
        notices.append(
            Notice(
                "cross-silo",
                f"with {federation.clients} clients a client-level guarantee hides a whole institution: hardly any accuracy is "
                "left at small epsilon",
                "Protect examples instead: pass --local-size, --local-batch and --local-epochs for the sample level.",
            )
        )
    if question.delta >= 1 / federation.clients:
        notices.append(
            Notice(
                "delta-large",
                f"delta {question.delta:g} is not below 1 / clients = {1 / federation.clients:.3g}",
                "At client level delta is measured against the number of clients.",
            )
        )
    poisson = federation.sampling is Sampling.POISSON and federation.rate < 1
    if federation.noise_at is not NoiseAt.SERVER and question.min_honest is None and poisson:
        notices.append(
            Notice(
                "min-honest",
                "under Poisson sampling the number of noisy clients in a round is random; the expected count is not guaranteed",
                "Pass --min-honest H, the number that is enforced after drop-outs and colluders.",
            )
        )
    return notices


def assumptions_json(federation: Question | Federation) -> dict[str, Any]:
    return {
        "adjacency": str(federation.adjacency),
        "sampling": str(federation.sampling),
        "unit": "client",
        "covers": "this run only",
        "not_covered": [
            "hyper-parameter tuning",
            "other releases on the same clients",
            "floating-point noise: the Gaussian is taken as ideal",
            "a normaliser that is not public",
        ],
        "parameters": "noise, rates, rounds and the decision to run fixed without looking at earlier outputs",
    }
