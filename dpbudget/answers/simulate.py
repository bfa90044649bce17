"""What the noise of a DP-SGD run does to learning: simulated on the user's or on generated records, beside the guarantee."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpbudget.accounting import account, solve
from dpbudget.accounting.account import Ledger
from dpbudget.answers import advice, words
from dpbudget.answers.refusal import infeasible
from dpbudget.answers.simulate_report import Level, Setting, assemble
from dpbudget.errors import Infeasible, InputError
from dpbudget.model import Adjacency, Guarantee, Sampling
from dpbudget.report import Cell, Quantity, Range, Report
from dpbudget.run import Run
from dpbudget.simulate import dpsgd, model
from dpbudget.simulate.dpsgd import Recipe
from dpbudget.simulate.outcome import Outcome

MOST_WORK = 3e12


# --- what ran, and what it proves -------------------------------------------------------------------------------------


def ledger(run: Run, sigma: float) -> Ledger:
    return Ledger.of(run.releases(noise_multiplier=sigma), run.adjacency)


def levels(run: Run, setting: Setting, epsilons: Sequence[float], sigmas: Sequence[float]) -> list[Level]:
    """The noise of each target epsilon, solved for on the safe side, or the noise as it was given."""
    found = []
    for epsilon in epsilons:
        target = solve.Target(epsilon, setting.delta, setting.accountant, setting.tolerance)
        sigma = solve.sigma(lambda s: ledger(run, s), target, digits=setting.digits).value
        found.append(Level(sigma, _certified(run, setting, sigma), epsilon))
    return found + [Level(s, _certified(run, setting, s)) for s in sigmas]


def _certified(run: Run, setting: Setting, sigma: float) -> Guarantee:
    """Epsilon of exactly what is simulated."""
    what = ledger(run, sigma)
    return account.epsilon(what, setting.delta, accountant=setting.accountant, tolerance=setting.tolerance)


# --- the simulation ---------------------------------------------------------------------------------------------------


def recipe(run: Run, setting: Setting, sigma: float, clip_norm: float) -> Recipe:
    """The normaliser is the batch size that was stated, or rate x records as fixed before the run; never a batch's size."""
    assert run.sampling_rate is not None and run.steps is not None
    expected = run.batch_size if run.batch_size is not None else run.sampling_rate * setting.source.train
    size = max(1, round(expected))
    return Recipe(
        sigma, clip_norm, run.sampling_rate, size, run.steps, max(expected, 1e-9), setting.learning_rate, run.sampling
    )


def simulate(setting: Setting, plan: Recipe) -> Outcome:
    """Every amount of noise meets the same splits, batches and noise directions, so that differences show early."""
    accuracies, traces = [], []
    for repeat in range(setting.repeats):
        train, test = setting.source.draw(np.random.default_rng([setting.seed, repeat, 0]))
        table = model.Table.of(train)
        with np.errstate(over="ignore", invalid="ignore"):
            trace = dpsgd.train(table, plan, np.random.default_rng([setting.seed, repeat, 1]))
            accuracies.append(model.accuracy(trace.weights, model.Table.of(test)))
        traces.append(trace)
    return Outcome(np.array(accuracies), traces, dpsgd.noise_length(plan, table.shape))


def affordable(setting: Setting, steps: float, batch: float, records_: int, count: int) -> None:
    """Refuse what would run for hours. Work is counted in multiplications, and a pass over the records a step."""
    work = (4 * batch * setting.source.coordinates + 10 * records_) * steps * count * setting.repeats
    if work > MOST_WORK:
        raise InputError(
            "steps", f"{steps:g} steps x {count} runs x {setting.repeats} repeats would take hours to simulate",
            hint="Simulate fewer epochs, repeats or values, or a part of the records; dpbudget epsilon answers for any.",
        )  # fmt: skip


def sgd(run: Run, setting: Setting, epsilons: Sequence[float], sigmas: Sequence[float]) -> Report:
    """Accuracy, clipping and signal-to-noise at every epsilon or sigma, and without privacy."""
    plain = recipe(run, setting, 0.0, math.inf)
    affordable(setting, plain.steps, plain.batch_size, setting.source.train, 1 + len(epsilons) + len(sigmas))
    try:
        found = levels(run, setting, epsilons, sigmas)
    except Infeasible as error:
        return infeasible(
            "simulate", error, input={**run.input(), **setting.input(), "epsilon": list(epsilons)},
            assumptions=run.assumptions(), facts=words.facts(run), notes=[words.assumptions(run)],
        )  # fmt: skip
    baseline = simulate(setting, plain)
    outcomes = [simulate(setting, recipe(run, setting, level.noise_multiplier, setting.clip_norm)) for level in found]
    worst = max(found, key=lambda level: level.upper)
    base = ledger(run, worst.noise_multiplier)
    report = assemble(setting, found, outcomes, baseline, base, unit="record", assumes=words.assumptions(run))
    one = replace(run, noise_multiplier=found[0].noise_multiplier if len(found) == 1 else None, clip_norm=None)
    report.input = {**one.input(), **report.input}
    report.assumptions = run.assumptions()
    fixed = "a constant, whatever the batch"
    if run.batch_size is None:
        fixed = "rate x records: as if the number of records were public"
    report.facts = [*words.facts(one), ("normaliser", Quantity(plain.normaliser), fixed),
                    *report.facts, *_sampled(run, worst, setting)]  # fmt: skip
    report.notes = [*report.notes, *_sampling_notes(run), words.assumptions(run)]
    report.warnings += advice.of_run(one, [setting.delta])
    return report


def _sampled(run: Run, worst: Level, setting: Setting) -> list[tuple[str, Cell, str]]:
    """What the same run would cost if its shuffled batches were Poisson batches: the number that is often quoted."""
    if run.sampling is not Sampling.SHUFFLE or worst.noise_multiplier == 0:
        return []
    assert run.batch_size is not None and run.dataset_size is not None
    poisson = replace(run, sampling=Sampling.POISSON, sampling_rate=run.batch_size / run.dataset_size)
    found = account.epsilon(
        Ledger.of(poisson.releases(noise_multiplier=worst.noise_multiplier), Adjacency.ADD_OR_REMOVE_ONE), setting.delta,
        tolerance=setting.tolerance,
    )  # fmt: skip
    return [
        ("as if Poisson", Range(found.value), "epsilon of a run that is not this one: often quoted, not proven here")
    ]


def _sampling_notes(run: Run) -> list[str]:
    if run.sampling is not Sampling.SHUFFLE:
        return []
    return [
        "Shuffled batches: every record is in exactly one batch an epoch, which is not Poisson sampling. Proven is that an "
        "epoch costs at most one Gaussian release; the lower end is reached by a data set. What lies between is not known."
    ]
