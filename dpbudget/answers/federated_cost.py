"""What a federated run costs: a client against each adversary, and an example at each client."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpbudget import federated as model
from dpbudget.accounting import account, solve
from dpbudget.accounting.account import Ledger, Parallel
from dpbudget.accounting.solve import Solution, Target
from dpbudget.answers import cost
from dpbudget.errors import InputError, NotCertified
from dpbudget.federated import Federation, LocalTraining, NoiseAt
from dpbudget.model import Adjacency, Guarantee, Sampling

UNKNOWNS = {
    "noise_multiplier": "noise multiplier",
    "rounds": "rounds",
    "clients_per_round": "clients per round",
    "clients": "clients",
}


@dataclass(frozen=True)
class Question:
    """A federated run as it was described; at most one of the four client-level values is None, to be solved for."""

    clients: int | None
    clients_per_round: float | None
    rounds: int | None
    noise_multiplier: float | None
    delta: float
    noise_at: NoiseAt
    min_honest: int | None
    sampling: Sampling
    adjacency: Adjacency
    max_participations: int | None
    tree: bool
    clip_norm: float | None
    clip_count_std: float | None
    local_sizes: Sequence[tuple[str, int]]
    local_batch: int | None
    local_epochs: int
    local_noise_multiplier: float | None

    def unknown(self) -> str:
        missing = [name for name in UNKNOWNS if getattr(self, name) is None]
        if len(missing) > 1:
            raise InputError(
                missing[1],
                f"is missing, and the {UNKNOWNS[missing[0]]} too",
                hint="Give all, or all but one with --epsilon E.",
            )
        return missing[0] if missing else ""

    def federation(self, **found: Any) -> Federation:
        values = {name: getattr(self, name) for name in UNKNOWNS} | found
        return Federation(
            **values, noise_at=self.noise_at, min_honest=self.min_honest, sampling=self.sampling,
            adjacency=self.adjacency, max_participations=self.max_participations, tree=self.tree,
        )  # fmt: skip


def account_of(federation: Federation) -> Parallel:
    """One ledger for each adversary that the guarantee is claimed against; the worst counts."""
    views = [view for view in federation.views() if view.noise_multiplier]
    if not views:
        raise _no_honest_noise()
    return Parallel(tuple(Ledger.of(view.releases, federation.adjacency) for view in views))


def _no_honest_noise() -> InputError:
    return InputError("min_honest", "leaves no honest noise in the sum", hint="There is no guarantee to compute.")


def solved(question: Question, unknown: str, target: Target, digits: int) -> Solution:
    """The one value of the client level that is left out, on the side that meets the target."""

    def at(value: float) -> Parallel:
        return account_of(question.federation(**{unknown: value}))

    if unknown == "noise_multiplier":
        return solve.sigma(at, target, digits=digits)
    if unknown == "rounds":
        return solve.steps(lambda t: at(t), target)
    if unknown == "clients_per_round":
        assert question.clients is not None
        return solve.most_count(lambda m: at(m), target, start=10, high=question.clients, name="client a round")
    least = max(1, math.ceil(question.clients_per_round or 1))
    return solve.least_count(lambda n: at(n), target, start=100 * least, low=least, high=10**12, name="clients")


@dataclass(frozen=True)
class Level:
    """One guarantee: the worst adversary's number, and every adversary's."""

    guarantee: Guarantee
    everything: Sequence[Guarantee]
    against: Sequence[tuple[model.View, Guarantee | None]]


@dataclass(frozen=True)
class Sample:
    """What one example of a client is exposed to by the client's local steps."""

    client: str
    training: LocalTraining
    guarantee: Guarantee


def client_level(question: Question, federation: Federation, accountant: str, tolerance: float) -> Level:
    against: list[tuple[model.View, Guarantee | None]] = []
    worst: list[Guarantee] = []
    for view in federation.views():
        if not view.noise_multiplier:
            against.append((view, None))
            continue
        ledger = Ledger.of(view.releases, federation.adjacency)
        found = cost.ask(ledger, "epsilon", question.delta, cost.accountants(accountant), tolerance)
        answer = cost.primary(found)
        against.append((view, answer))
        if not worst or _upper(answer) > _upper(cost.primary(worst)):
            worst = found
    if not worst and federation.noise_multiplier == 0:
        raise NotCertified(f"epsilon is unbounded: {account.NO_NOISE}", hint="Pass a --noise-multiplier above 0.")
    if not worst:
        raise _no_honest_noise()
    return Level(cost.primary(worst), worst, against)


def _upper(guarantee: Guarantee) -> float:
    value = guarantee.value.upper if guarantee.value.upper is not None else guarantee.value.estimate
    return math.inf if value is None else value


def sample_level(question: Question, federation: Federation, tolerance: float) -> list[Sample]:
    """Client by client, the worst first; none where no local data were described."""
    if not question.local_sizes:
        return []
    if question.local_batch is None:
        raise InputError("local_batch", "is missing", hint="Pass --local-batch B, the batch of a local step.")
    noise = question.local_noise_multiplier
    sigma = federation.noise_multiplier if noise is None else noise
    limit = federation.rounds
    if question.max_participations is not None:
        limit = min(limit, question.max_participations)
    found = []
    for size, names in model.distinct(question.local_sizes).items():
        training = LocalTraining(size, question.local_batch, question.local_epochs, limit, sigma)
        ledger = Ledger.of(training.releases(), Adjacency.ADD_OR_REMOVE_ONE)
        guarantee = account.epsilon(ledger, question.delta, tolerance=tolerance)
        found += [Sample(name, training, guarantee) for name in names]
    return sorted(found, key=lambda sample: (-_upper(sample.guarantee), sample.client))
