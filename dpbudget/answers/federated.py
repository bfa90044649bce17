"""What a federated run costs: client level and sample level, and against whom each guarantee holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpbudget import federated as model
from dpbudget.accounting import account, solve
from dpbudget.accounting.account import Ledger, Parallel
from dpbudget.accounting.solve import Solution, Target
from dpbudget.answers import cost
from dpbudget.errors import Infeasible, InputError, NotCertified
from dpbudget.federated import Federation, LocalTraining, NoiseAt
from dpbudget.model import Adjacency, Guarantee, Interval, Sampling
from dpbudget.report import Cell, Notice, Quantity, Range, Report, Rounding, Table, guarantee_json, interval_json

FEW_CLIENTS = 50
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
    local_delta: float | None

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
        clients, per_round = values["clients"], values["clients_per_round"]
        return Federation(
            clients=clients, clients_per_round=per_round, rounds=values["rounds"], noise_multiplier=values["noise_multiplier"],
            noise_at=self.noise_at, min_honest=self.min_honest, sampling=self.sampling, adjacency=self.adjacency,
            max_participations=self.max_participations, tree=self.tree,
        )  # fmt: skip


def _claimed(federation: Federation) -> list[model.View]:
    """The adversaries against whom there is a guarantee at all."""
    return [view for view in federation.views() if view.noise_multiplier]


def _account(federation: Federation) -> Parallel:
    """One ledger for each adversary that the guarantee is claimed against; the worst counts."""
    views = _claimed(federation)
    if not views:
        raise InputError("min_honest", "leaves no honest noise in the sum", hint="There is no guarantee to compute.")
    return Parallel(tuple(Ledger.of(view.releases, federation.adjacency) for view in views))


def _solve(question: Question, unknown: str, target: Target, digits: int) -> Solution:
    def at(value: float) -> Parallel:
        return _account(question.federation(**{unknown: value}))

    if unknown == "noise_multiplier":
        return solve.sigma(at, target, digits=digits)
    if unknown == "rounds":
        return solve.steps(lambda t: at(t), target)
    if unknown == "clients_per_round":
        assert question.clients is not None
        return solve.most_count(lambda m: at(m), target, start=10, high=question.clients, name="client a round")
    least = max(1, math.ceil(question.clients_per_round or 1))
    return solve.least_count(lambda n: at(n), target, start=100 * least, low=least, high=10**12, name="clients")


def report(
    question: Question,
    *,
    epsilon: float | None,
    accountant: str,
    tolerance: float,
    digits: int,
    max_epsilon: float | None = None,
) -> Report:
    """Both guarantees side by side. With a target epsilon, the one unknown of the client level is solved for."""
    unknown = question.unknown()
    solved: Solution | None = None
    if unknown:
        if epsilon is None:
            option = "--" + unknown.replace("_", "-")
            raise InputError(unknown, "is missing", hint=f"Pass {option}, or --epsilon E to solve for it.")
        names = [n for n in cost.accountants(accountant) if n != "all"] or ["pld"]
        target = Target(epsilon, question.delta, names[0], tolerance)
        try:
            solved = _solve(question, unknown, target, digits)
        except Infeasible as error:
            return _infeasible(question, unknown, epsilon, error)
        whole = unknown in ("rounds", "clients", "clients_per_round")
        change: dict[str, Any] = {unknown: int(solved.value) if whole else solved.value}
        question = replace(question, **change)
    elif epsilon is not None:
        raise InputError(
            "epsilon", "leaves nothing to solve for: every value is given", hint="Use --max-epsilon as a gate."
        )
    federation = question.federation()
    client = _client_level(question, federation, accountant, tolerance)
    sample = _sample_level(question, federation, tolerance)
    return _report(question, federation, client, sample, unknown, solved, epsilon, max_epsilon)


@dataclass(frozen=True)
class Level:
    """One guarantee: the worst adversary's number, and every adversary's."""

    guarantee: Guarantee
    everything: Sequence[Guarantee]
    against: Sequence[tuple[model.View, Guarantee | None]]


def _client_level(question: Question, federation: Federation, accountant: str, tolerance: float) -> Level:
    against: list[tuple[model.View, Guarantee | None]] = []
    worst: list[Guarantee] = []
    for view in federation.views():
        if not view.noise_multiplier:
            against.append((view, None))
            continue
        ledger = Ledger.of(view.releases, federation.adjacency)
        found = cost._ask(ledger, "epsilon", question.delta, cost.accountants(accountant), tolerance)
        answer = cost.primary(found)
        against.append((view, answer))
        if not worst or _upper(answer) > _upper(cost.primary(worst)):
            worst = found
    if not worst and federation.noise_multiplier == 0:
        raise NotCertified(f"epsilon is unbounded: {account.NO_NOISE}", hint="Pass a --noise-multiplier above 0.")
    if not worst:
        raise InputError("min_honest", "leaves no honest noise in the sum", hint="There is no guarantee to compute.")
    return Level(cost.primary(worst), worst, against)


def _upper(guarantee: Guarantee) -> float:
    value = guarantee.value.upper if guarantee.value.upper is not None else guarantee.value.estimate
    return math.inf if value is None else value


def _sample_level(
    question: Question, federation: Federation, tolerance: float
) -> list[tuple[str, LocalTraining, Guarantee]] | None:
    """Client by client, the worst first; None where no local data were described."""
    if not question.local_sizes:
        return None
    if question.local_batch is None:
        raise InputError("local_batch", "is missing", hint="Pass --local-batch B, the batch of a local step.")
    noise = question.local_noise_multiplier
    sigma = federation.noise_multiplier if noise is None else noise
    limit = federation.rounds
    if question.max_participations is not None:
        limit = min(limit, question.max_participations)
    delta = question.local_delta or question.delta
    rows = []
    for size, names in model.distinct(question.local_sizes).items():
        training = LocalTraining(size, question.local_batch, question.local_epochs, limit, sigma)
        found = account.epsilon(Ledger.of(training.releases(), Adjacency.ADD_OR_REMOVE_ONE), delta, tolerance=tolerance)
        rows += [(name, training, found) for name in names]
    return sorted(rows, key=lambda row: (-_upper(row[2]), row[0]))


def _report(
    question: Question,
    federation: Federation,
    client: Level,
    sample: list[tuple[str, LocalTraining, Guarantee]] | None,
    unknown: str,
    solved: Solution | None,
    epsilon: float | None,
    max_epsilon: float | None,
) -> Report:
    answer = client.guarantee
    against = [
        {
            "adversary": view.adversary,
            "noise_multiplier": view.noise_multiplier,
            "epsilon": None if found is None else interval_json(found.value),
            "why": view.why,
        }
        for view, found in client.against
    ]
    result: dict[str, Any] = {
        "client_level": {
            "unit": "client",
            "accountant": answer.accountant,
            "epsilon": interval_json(answer.value),
            "sampling_rate": federation.rate,
            "steps": federation.rounds,
            "accountants": [guarantee_json(g, "epsilon") for g in client.everything],
            "against": against,
        },
        "sample_level": None,
        "clients": [],
    }
    rows: list[list[Cell]] = [
        [
            "client",
            view.adversary,
            Quantity(view.noise_multiplier, Rounding.UP),
            Range(Interval(None, math.inf) if found is None else found.value),
        ]
        for view, found in client.against
    ]
    if sample:
        name, training, worst = sample[0]
        result["sample_level"] = {
            "unit": "example",
            "epsilon": interval_json(worst.value),
            "client": name,
            "sampling_rate": training.rate,
            "steps": training.steps,
            "noise_multiplier": training.noise_multiplier,
            "against": [
                {
                    "adversary": "server",
                    "epsilon": interval_json(worst.value),
                    "why": "sees every upload of the client",
                },
                {
                    "adversary": "participant",
                    "epsilon": interval_json(worst.value),
                    "why": "the noise is another client's",
                },
                {"adversary": "public", "epsilon": interval_json(worst.value), "why": "sees no more than the server"},
            ],
        }
        result["clients"] = [
            {
                "client": label,
                "size": t.size,
                "sampling_rate": t.rate,
                "steps": t.steps,
                "epsilon": interval_json(found.value),
            }
            for label, t, found in sample
        ]
        rows.append(["example", "anybody", Quantity(training.noise_multiplier, Rounding.UP), Range(worst.value)])
    if solved is not None:
        result["solved"] = {
            "parameter": unknown,
            "value": getattr(question, unknown),
            "insufficient": solved.beside,
            "epsilon": interval_json(solved.guarantee.value),
        }
    headline = "client level: epsilon <= {0} at delta {1}"
    answers: list[Cell] = [Quantity(answer.value.upper, Rounding.UP, epsilon), Quantity(question.delta, Rounding.UP)]
    if unknown:
        headline = f"{UNKNOWNS[unknown]} {{2}} gives " + headline
        answers.append(Quantity(getattr(question, unknown), Rounding.EXACT))
    if sample:
        headline += f"; sample level: epsilon <= {{{len(answers)}}} for the worst client"
        answers.append(Quantity(sample[0][2].value.upper, Rounding.UP))
    given = {
        name: getattr(question, name)
        for name in (
            "clients", "clients_per_round", "rounds", "noise_multiplier", "min_honest", "max_participations", "clip_norm",
            "clip_count_std", "local_batch", "local_noise_multiplier",
        )
        if getattr(question, name) is not None
    }  # fmt: skip
    report = Report(
        command="federated",
        input={
            **given,
            "noise_at": str(question.noise_at),
            "delta": question.delta,
            "local_epochs": question.local_epochs,
            **({"epsilon": epsilon} if epsilon is not None else {}),
            **({"tree": True} if question.tree else {}),
        },
        assumptions=_assumptions_json(federation),
        result=result,
        headline=headline,
        answers=answers,
        value=Quantity(getattr(question, unknown) if unknown else answer.value.upper, Rounding.UP),
        facts=_facts(question, federation),
        main=Table(("unit", "against", "noise multiplier", "epsilon"), rows),
        notes=_notes(question, federation, sample),
        explanation=[
            f"Against the {view.adversary}: {view.why}."
            + (" No guarantee." if found is None else f" Multiplier {view.noise_multiplier:.6g}.")
            for view, found in client.against
        ],
        warnings=_warnings(question, federation),
    )
    if answer.value.upper is None:
        report.status, report.exit_code = "estimate", 4
        report.headline = "client level: an estimate, not a guarantee, at delta {1}"
    elif answer.value.upper == math.inf:
        report.status, report.exit_code = "unbounded", 4
        report.headline = "client level: epsilon is unbounded at delta {1}: no noise"
    if max_epsilon is not None:
        cost.gate(report, [answer, *([sample[0][2]] if sample else [])], max_epsilon)
    return report


def _infeasible(question: Question, unknown: str, epsilon: float, error: Infeasible) -> Report:
    nearest = error.nearest.get("epsilon")
    return Report(
        command="federated",
        input={"delta": question.delta, "epsilon": epsilon, "solve": unknown},
        assumptions={"adjacency": str(question.adjacency), "sampling": str(question.sampling), "unit": "client"},
        result={"status": "infeasible", "message": error.message, "nearest": error.nearest},
        headline=error.message + "." + ("" if nearest is None else " The nearest feasible target is epsilon {0}."),
        answers=[Quantity(nearest, Rounding.UP)],
        value=Quantity(None),
        status="infeasible",
        exit_code=3,
    )


def _facts(question: Question, federation: Federation) -> list[tuple[str, Cell, str]]:
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


def _notes(
    question: Question, federation: Federation, sample: list[tuple[str, LocalTraining, Guarantee]] | None
) -> list[str]:
    notes = []
    if federation.noise_at is NoiseAt.SERVER:
        notes.append(
            "The server sees the updates before it adds noise: against the server itself there is no guarantee."
        )
    if sample:
        t = sample[0][1]
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


def _warnings(question: Question, federation: Federation) -> list[Notice]:
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


def _assumptions_json(federation: Federation) -> dict[str, Any]:
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
