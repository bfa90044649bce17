"""The inverse questions: noise, steps or sampling rate for a target epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dpbudget.accounting import account, solve
from dpbudget.accounting.account import ACCOUNTANTS, Ledger
from dpbudget.accounting.solve import Solution, Target
from dpbudget.answers import advice, words
from dpbudget.answers.cost import accountants, by_default
from dpbudget.answers.refusal import infeasible
from dpbudget.errors import Infeasible, InputError, NotCertified
from dpbudget.model import Guarantee, Kind
from dpbudget.report import Cell, Quantity, Range, Report, Rounding, Table, interval_json
from dpbudget.run import Run


def _chosen(names: str) -> list[str]:
    """For a solver `all` means every accountant that can promise anything."""
    chosen = accountants(names)
    bounds = [name for name, item in ACCOUNTANTS.items() if item.kind is not Kind.ESTIMATE]
    return bounds if "all" in chosen else chosen


def _each(
    names: str, epsilon: float, delta: float, tolerance: float, answer: Callable[[Target], Solution]
) -> dict[str, Solution]:
    found: dict[str, Solution] = {}
    refused: list[InputError | Infeasible] = []
    asked = accountants(names)
    for name in _chosen(names):
        try:
            found[name] = answer(Target(epsilon, delta, name, tolerance))
        except InputError as error:
            if "all" not in asked and not by_default(asked):
                raise
            refused.append(error)
        except Infeasible as error:
            if not found and "all" not in asked:
                raise
            refused.append(error)
    if not found:
        raise next((error for error in refused if isinstance(error, Infeasible)), refused[0])
    return found


def _infeasible(command: str, run: Run, epsilon: float, delta: float, error: Infeasible) -> Report:
    return infeasible(
        command, error, input={**run.input(), "epsilon": epsilon, "delta": delta}, assumptions=run.assumptions(),
        facts=words.facts(run), notes=[words.assumptions(run)],
    )  # fmt: skip


def _after(solution: Solution) -> dict[str, float | None]:
    return {} if solution.guarantee_beside is None else interval_json(solution.guarantee_beside.value)


def _report(
    command: str,
    run: Run,
    epsilon: float,
    delta: float,
    found: dict[str, Solution],
    entry: Callable[[Solution], dict[str, Any]],
    shown: Callable[[Solution], tuple[Cell, Cell]],
    columns: tuple[str, str],
    headline: str,
) -> Report:
    name, best = next(iter(found.items()))
    result = {"accountant": name, **entry(best)}
    result["accountants"] = [{"name": n, "kind": str(ACCOUNTANTS[n].kind), **entry(s)} for n, s in found.items()]
    rows = [(n, *shown(s), Range(s.guarantee.value), words.remark(s.guarantee)) for n, s in found.items()]
    guarantees: list[Guarantee] = [s.guarantee for s in found.values()]
    answer, _ = shown(best)
    assert isinstance(answer, Quantity)
    return Report(
        command=command,
        input={**run.input(), "epsilon": epsilon, "delta": delta},
        assumptions=run.assumptions(),
        result=result,
        headline=headline,
        answers=[
            answer,
            Quantity(best.guarantee.value.upper, Rounding.UP, epsilon),
            words.typed("delta", delta),
            Quantity(epsilon, Rounding.EXACT),
        ],
        value=answer,
        facts=words.facts(run),
        main=Table(("accountant", *columns, "epsilon", "remark"), rows),
        notes=[words.assumptions(run)],
        explanation=[
            words.PARAMETERS,
            *(words.how(g, ACCOUNTANTS[g.accountant].title, ACCOUNTANTS[g.accountant].source) for g in guarantees),
        ],
        warnings=[*advice.of_run(run, [delta]), *advice.of_guarantees(guarantees)],
    )


def sigma(run: Run, epsilon: float, delta: float, *, accountant: str, tolerance: float, digits: int) -> Report:
    """The least noise multiplier on the printed grid that is proven to meet the target."""
    assert run.sampling_rate is not None and run.steps is not None
    spread = math.sqrt(2 * max(run.steps, 1) * math.log(1 / delta))
    start = min(1e6, max(0.3, run.sampling_rate * spread / max(epsilon, 1e-9)))

    def answer(target: Target) -> Solution:
        return solve.sigma(
            lambda s: Ledger.of(run.releases(noise_multiplier=s), run.adjacency), target, digits=digits, start=start
        )

    def entry(s: Solution) -> dict[str, Any]:
        return {"noise_multiplier": s.value, "insufficient": s.beside, "epsilon": interval_json(s.guarantee.value)}

    try:
        found = _each(accountant, epsilon, delta, tolerance, answer)
    except Infeasible as error:
        return _infeasible("sigma", run, epsilon, delta, error)
    return _report(
        "sigma", run, epsilon, delta, found, entry, lambda s: (Quantity(s.value), Quantity(s.beside)),
        ("noise multiplier", "insufficient"), "noise multiplier {0} gives epsilon <= {1} at delta {2}; the target is {3}",
    )  # fmt: skip


def steps(run: Run, epsilon: float, delta: float, *, accountant: str, tolerance: float) -> Report:
    """The most steps that are proven to meet the target."""
    assert run.sampling_rate is not None and run.noise_multiplier is not None
    _needs_noise(run)

    def answer(target: Target) -> Solution:
        return solve.steps(lambda t: Ledger.of(run.releases(steps=t), run.adjacency), target)

    def entry(s: Solution) -> dict[str, Any]:
        return {
            "steps": int(s.value),
            "epsilon": interval_json(s.guarantee.value),
            "epsilon_next": _after(s) or None,
        }

    try:
        found = _each(accountant, epsilon, delta, tolerance, answer)
    except Infeasible as error:
        return _infeasible("steps", run, epsilon, delta, error)
    report = _report(
        "steps", run, epsilon, delta, found, entry,
        lambda s: (Quantity(int(s.value)), Quantity(_upper(s.guarantee_beside), Rounding.UP)),
        ("steps", "epsilon next"), "{0} steps give epsilon <= {1} at delta {2}; the target is {3}",
    )  # fmt: skip
    epochs = int(next(iter(found.values())).value) * run.sampling_rate
    report.facts = [*report.facts, ("epochs", Quantity(epochs, Rounding.DOWN), "steps x sampling rate")]
    return report


def rate(run: Run, epsilon: float, delta: float, *, accountant: str, tolerance: float, digits: int) -> Report:
    """The largest sampling rate on the printed grid, and with a data set the largest whole batch."""
    assert run.steps is not None and run.noise_multiplier is not None
    _needs_noise(run)
    size = run.dataset_size
    batches: dict[str, Solution] = {}

    def at(q: float) -> Ledger:
        return Ledger.of(run.releases(sampling_rate=q), run.adjacency)

    def answer(target: Target) -> Solution:
        found = solve.rate(at, target, digits=digits)
        if size is not None:
            start = max(1, math.floor(found.value * size))
            batches[target.accountant] = solve.batch(lambda b: at(b / size), target, dataset_size=size, start=start)
        return found

    def entry(s: Solution) -> dict[str, Any]:
        data: dict[str, Any] = {"sampling_rate": s.value, "insufficient": s.beside}
        if size is not None:
            data["batch_size"] = int(batches[s.guarantee.accountant].value)
        return {**data, "epsilon": interval_json(s.guarantee.value)}

    try:
        found = _each(accountant, epsilon, delta, tolerance, answer)
    except Infeasible as error:
        return _infeasible("rate", run, epsilon, delta, error)
    report = _report(
        "rate", run, epsilon, delta, found, entry, lambda s: (Quantity(s.value), Quantity(s.beside)),
        ("sampling rate", "insufficient"), "sampling rate {0} gives epsilon <= {1} at delta {2}; the target is {3}",
    )  # fmt: skip
    if size is not None:
        largest = int(next(iter(batches.values())).value)
        report.headline = report.headline.replace("{0}", "{0} (batch size {4})")
        report.answers = [*report.answers, Quantity(largest)]
    return report


def _upper(guarantee: Guarantee | None) -> float | None:
    return None if guarantee is None else guarantee.value.upper


def _needs_noise(run: Run) -> None:
    if run.noise_multiplier == 0:
        raise NotCertified(f"epsilon is unbounded: {account.NO_NOISE}", hint="Pass a --noise-multiplier above 0.")
