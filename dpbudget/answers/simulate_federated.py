"""What the noise of a federated run does to learning, beside its client-level and sample-level guarantees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpbudget.accounting import account, solve
from dpbudget.accounting.account import Ledger, Parallel
from dpbudget.answers import federated_words
from dpbudget.answers.federated_cost import Question, account_of
from dpbudget.answers.refusal import infeasible
from dpbudget.answers.simulate import affordable
from dpbudget.answers.simulate_report import Level, Setting, assemble
from dpbudget.errors import Infeasible, InputError
from dpbudget.federated import Federation, LocalTraining, NoiseAt, View
from dpbudget.model import Adjacency, Guarantee, Interval, Kind, Sampling
from dpbudget.report import Cell, Quantity, Range, Report, interval_json
from dpbudget.simulate import data as records
from dpbudget.simulate import federated as rounds
from dpbudget.simulate import model
from dpbudget.simulate.data import Data
from dpbudget.simulate.federated import Local, Rounds
from dpbudget.simulate.outcome import Outcome

NO_GUARANTEE = Guarantee("pld", Kind.UPPER_BOUND, Interval(None, math.inf), {"reason": "no noise is added"})


@dataclass(frozen=True)
class Federated:
    """A federated run as it was described. noise at client level is a level's; local noise is the same at all levels.

    skew: Dirichlet concentration by which generated records, or those of a file without a client column, are dealt out.
    """

    clients: int
    per_round: float
    rounds: int
    sampling: Sampling
    adjacency: Adjacency
    noise_at: NoiseAt
    skew: float
    local: Local
    max_participations: int | None = None

    def __post_init__(self) -> None:
        if self.noise_at is not NoiseAt.SERVER and self.sampling is Sampling.POISSON and self.per_round < self.clients:
            raise InputError(
                "noise_at", "at the clients needs a known number of them: under Poisson sampling a round may have none, and "
                "then no noise", hint="Pass --sampling fixed-size, or --noise-at server.",
            )  # fmt: skip

    def question(self, sigma: float, delta: float, clip_norm: float) -> Question:
        return Question(
            clients=self.clients, clients_per_round=self.per_round, rounds=self.rounds, noise_multiplier=sigma, delta=delta,
            noise_at=self.noise_at, min_honest=None, sampling=self.sampling, adjacency=self.adjacency,
            max_participations=None, tree=False, clip_norm=clip_norm, clip_count_std=None, local_sizes=(), local_batch=None,
            local_epochs=self.local.epochs, local_noise_multiplier=None,
        )  # fmt: skip

    def plan(self, sigma: float, clip_norm: float) -> Rounds:
        return Rounds(
            self.rounds,
            self.per_round,
            self.sampling,
            sigma,
            self.noise_at,
            clip_norm if sigma else math.inf,
            self.local,
        )


@dataclass(frozen=True)
class _Proven:
    """sigma: of the client level, 0 for none. views: what each adversary sees, with the guarantee against it or None.

    sample: of the worst client, or None. base: the ledger of the answer, for the cost of tuning.
    """

    sigma: float
    views: Sequence[tuple[View, Guarantee | None]]
    sample: Guarantee | None
    base: Ledger


def report(run: Federated, setting: Setting, epsilons: Sequence[float], sigmas: Sequence[float]) -> Report:
    """Accuracy at every epsilon or sigma of the client level, and without privacy; both levels' guarantees."""
    parts = _deal(run, setting, 0)[0]
    sizes = _sizes(run, setting)
    local_steps = run.local.recipe(max(sizes)).steps
    affordable(
        setting, run.rounds * run.per_round * local_steps, run.local.batch_size, 1, 1 + len(epsilons) + len(sigmas)
    )
    found = [_level(run, setting, sigma, sizes, None) for sigma in sigmas]
    for epsilon in epsilons:
        try:
            sigma = _solve(run, setting, epsilon)
        except Infeasible as error:
            return _refused(run, setting, epsilons, [len(p) for p in parts], error)
        found.append(_level(run, setting, sigma, sizes, epsilon))
    baseline = _simulate(run.plan(0.0, math.inf).without_privacy(), run, setting)
    outcomes = [_simulate(run.plan(each.sigma, setting.clip_norm), run, setting) for _, each in found]
    levels = [level for level, _ in found]
    worst = max(range(len(levels)), key=lambda i: levels[i].upper)
    assumes = (
        f"{run.clients} clients, {run.sampling} sampling, {run.rounds} rounds, noise at {run.noise_at}; {run.adjacency} "
        f"neighbours, unit {'client' if found[worst][1].sigma else 'example'}, against the best-placed adversary of "
        "those that a guarantee is claimed against."
    )
    answer = assemble(setting, levels, outcomes, baseline, found[worst][1].base, unit="update", assumes=assumes)
    _describe(answer, run, setting, found, worst, [len(p) for p in parts])
    return answer


def _deal(run: Federated, setting: Setting, repeat: int) -> tuple[list[Data], Data]:
    """(records of each client, held-out records), the same for every amount of noise."""
    rng = np.random.default_rng([setting.seed, repeat, 0])
    train, test = setting.source.draw(rng)
    if train.clients is not None:
        owners = [np.flatnonzero(train.clients == c) for c in range(run.clients)]
        return [train.take(rows) for rows in owners if rows.size], test
    return [train.take(rows) for rows in records.deal(train, run.clients, run.skew, rng)], test


def _sizes(run: Federated, setting: Setting) -> list[int]:
    """Distinct sizes of clients over all repeats."""
    return sorted({len(part) for r in range(setting.repeats) for part in _deal(run, setting, r)[0]})


def _simulate(plan: Rounds, run: Federated, setting: Setting) -> Outcome:
    accuracies, traces = [], []
    for repeat in range(setting.repeats):
        parts, test = _deal(run, setting, repeat)
        tables = [model.Table.of(part) for part in parts]
        with np.errstate(over="ignore", invalid="ignore"):
            trace = rounds.train(tables, plan, np.random.default_rng([setting.seed, repeat, 1]))
            accuracies.append(model.accuracy(trace.weights, model.Table.of(test)))
        traces.append(trace)
    noise = rounds.noise_on_sum(plan, round(plan.per_round)) * math.sqrt(setting.source.coordinates)
    return Outcome(np.array(accuracies), traces, noise)


# --- what ran, and what it proves -------------------------------------------------------------------------------------


def _level(
    run: Federated, setting: Setting, sigma: float, sizes: Sequence[int], target: float | None
) -> tuple[Level, _Proven]:
    """Client level against the worst adversary that a guarantee is claimed against; without noise there, sample level."""

    def cost(ledger: Ledger) -> Guarantee:
        return account.epsilon(ledger, setting.delta, accountant=setting.accountant, tolerance=setting.tolerance)

    views: list[tuple[View, Guarantee | None]] = []
    claimed: list[tuple[Guarantee, Ledger]] = []
    for view in run.question(sigma, setting.delta, setting.clip_norm).federation().views() if sigma else ():
        if view.noise_multiplier:
            ledger = Ledger.of(view.releases, run.adjacency)
            claimed.append((cost(ledger), ledger))
            views.append((view, claimed[-1][0]))
        else:
            views.append((view, None))
    local = [(cost(ledger), ledger) for ledger in _local(run, sizes)]
    sample = max(local, key=_upper) if local else None
    answer = max(claimed, key=_upper) if claimed else sample or (NO_GUARANTEE, _silent(run))
    proven = _Proven(sigma, views, None if sample is None else sample[0], answer[1])
    if claimed or sample is None:
        return Level(sigma, answer[0], target), proven
    return Level(run.local.noise_multiplier, answer[0], name="local noise multiplier"), proven


def _silent(run: Federated) -> Ledger:
    federation = Federation(run.clients, run.per_round, run.rounds, 0, sampling=run.sampling, adjacency=run.adjacency)
    return Ledger.of(federation.steps(0.0), run.adjacency)


def _local(run: Federated, sizes: Sequence[int]) -> list[Ledger]:
    """One ledger for each size of client; a client's local steps are DP-SGD on records that nobody else holds."""
    local = run.local
    if local.noise_multiplier == 0:
        return []
    found = [LocalTraining(n, local.batch_size, local.epochs, run.rounds, local.noise_multiplier) for n in sizes]
    return [Ledger.of(training.releases(), Adjacency.ADD_OR_REMOVE_ONE) for training in found]


def _upper(answer: tuple[Guarantee, Ledger]) -> float:
    upper = answer[0].value.upper
    return math.inf if upper is None else upper


def _account(run: Federated, setting: Setting, sigma: float) -> Parallel:
    return account_of(run.question(sigma, setting.delta, setting.clip_norm).federation())


def _solve(run: Federated, setting: Setting, epsilon: float) -> float:
    target = solve.Target(epsilon, setting.delta, setting.accountant, setting.tolerance)
    return solve.sigma(lambda s: _account(run, setting, s), target, digits=setting.digits).value


# --- words ------------------------------------------------------------------------------------------------------------


def _input(run: Federated) -> dict[str, Any]:
    return {
        "mode": "federated", "clients": run.clients, "clients_per_round": run.per_round, "rounds": run.rounds,
        "noise_at": str(run.noise_at), "local_epochs": run.local.epochs, "local_batch": run.local.batch_size,
        **({"local_noise_multiplier": run.local.noise_multiplier} if run.local.noise_multiplier else {}),
    }  # fmt: skip


def _refused(
    run: Federated, setting: Setting, epsilons: Sequence[float], sizes: Sequence[int], error: Infeasible
) -> Report:
    federation = run.question(solve.MOST_SIGMA, setting.delta, setting.clip_norm).federation()
    return infeasible(
        "simulate", error, input={**_input(run), **setting.input(), "epsilon": list(epsilons)},
        assumptions=federated_words.assumptions_json(federation), facts=_facts(run, federation, sizes),
        notes=federated_words.notes(federation, ()),
    )  # fmt: skip


def _describe(
    answer: Report,
    run: Federated,
    setting: Setting,
    found: Sequence[tuple[Level, _Proven]],
    worst: int,
    sizes: Sequence[int],
) -> None:
    _, proven = found[worst]
    question = run.question(proven.sigma, setting.delta, setting.clip_norm)
    federation = question.federation()
    at_client = proven.sigma > 0
    noise = {"noise_multiplier": proven.sigma} if len(found) == 1 and at_client else {}
    answer.input = {**_input(run), **noise, **answer.input}
    answer.assumptions = federated_words.assumptions_json(federation)
    if not at_client:
        answer.assumptions = {**answer.assumptions, "unit": "example", "sampling": "poisson",
                              "adjacency": "add-or-remove-one"}  # fmt: skip
    answer.facts = [*_facts(run, federation, sizes), *answer.facts, *_against(proven, worst, len(found))]
    for data, (_, each) in zip(answer.result["runs"], found, strict=True):
        data.update(_views_json(each))
    if at_client:
        answer.notes = [*answer.notes, *_placement(run), *federated_words.notes(federation, ())]
        answer.warnings += [
            replace(w, hint="Protect examples instead: --local-sigma S without --sigma.")
            if w.code == "cross-silo"
            else w
            for w in federated_words.warnings(question, federation)
        ]
    else:
        answer.notes = [*answer.notes, _SAMPLE_ONLY if proven.sample is not None else "No noise: nothing is proven."]


_SAMPLE_ONLY = (
    "Sample level: every local step is DP-SGD on a Poisson batch of the client's own examples, divided by a public constant; "
    "every client is taken to join every round, and the worst client counts. Nothing protects a whole client. Covers this "
    "run only: not hyper-parameter tuning, other releases on the same data, or floating-point effects of the noise."
)


def _placement(run: Federated) -> list[str]:
    if run.noise_at is not NoiseAt.CLIENT:
        return []
    return [
        "Noise at the clients: the server sees every noised upload by itself, so that neither the other clients' noise nor the "
        "choice of who takes part helps against it. The guarantee above is the one against the server; the sum that everybody "
        "sees is better protected."
    ]


def _facts(run: Federated, federation: Federation, sizes: Sequence[int]) -> list[tuple[str, Cell, str]]:
    spread = f"{min(sizes)} to {max(sizes)} records each in the first repeat"
    local = run.local
    noise = f", DP-SGD at noise multiplier {local.noise_multiplier:g}" if local.noise_multiplier else ", without noise"
    return [
        ("clients", Quantity(run.clients), spread),
        ("clients per round", Quantity(federation.clients_per_round), f"{run.sampling}; divides the noisy sum"),
        ("rounds", Quantity(run.rounds), f"noise at {run.noise_at}"),
        ("local epochs", Quantity(local.epochs), f"batches of {local.batch_size}{noise}"),
    ]


def _against(proven: _Proven, worst: int, count: int) -> list[tuple[str, Cell, str]]:
    """Whom the guarantee holds against; for several levels, at the one of the largest epsilon."""
    which = "" if count == 1 else " (largest epsilon above)"
    rows: list[tuple[str, Cell, str]] = [
        (
            f"against {view.adversary}",
            "no guarantee" if found is None else Range(found.value),
            f"{view.why}{which}",
        )
        for view, found in proven.views
    ]
    if proven.sample is not None:
        rows.append(("sample level", Range(proven.sample.value), "epsilon of one example, at the worst client"))
    return rows


def _views_json(proven: _Proven) -> dict[str, Any]:
    return {
        "unit": "client" if proven.sigma else "example",
        "against": [
            {"adversary": view.adversary, "noise_multiplier": view.noise_multiplier,
             "epsilon": None if found is None else interval_json(found.value)}
            for view, found in proven.views
        ],
        "sample_level": None if proven.sample is None else {"epsilon": interval_json(proven.sample.value)},
    }  # fmt: skip


def local_of(epochs: int, batch_size: int, learning_rate: float, noise_multiplier: float, clip_norm: float) -> Local:
    """Local clipping belongs to local noise; without it local steps are plain SGD."""
    plain = Local(epochs, batch_size, learning_rate)
    return replace(plain, noise_multiplier=noise_multiplier, clip_norm=clip_norm) if noise_multiplier else plain
