"""What a hyper-parameter search costs: the least proven bound, the others named beside it."""

from __future__ import annotations

import math
from typing import Any

from dpbudget.accounting import account, solve, tuning
from dpbudget.accounting.account import Ledger
from dpbudget.accounting.search import DecimalGrid, crossing, least
from dpbudget.accounting.tuning import SOURCES
from dpbudget.accounting.tuning_laws import Law
from dpbudget.accounting.tuning_pairs import base_of
from dpbudget.answers import advice, cost, words
from dpbudget.answers.refusal import infeasible
from dpbudget.errors import Infeasible
from dpbudget.model import Guarantee, Interval
from dpbudget.report import Cell, Notice, Quantity, Range, Report, Rounding, Table, interval_json
from dpbudget.run import Run

CONDITIONS = (
    "Conditions: the number of trials is drawn independently of the data, before the first run, and never revealed; the "
    "trials are independent given the data, each with its own draw of hyper-parameters; the score that selects is part of "
    "what a trial releases and is covered by its guarantee; only the best trial is published."
)
FIXED = "A fixed number of trials, or stopping when a result is good enough, gets no discount: every trial counts as a release."


def report(
    run: Run,
    delta: float,
    *,
    law: str,
    trials: float | None,
    eta: float | None,
    most_trials: int | None,
    epsilon: float | None,
    public: bool,
    tolerance: float,
    digits: int,
    accountant: str = "pld",
    max_epsilon: float | None = None,
) -> Report:
    """The cost of the search; with a target epsilon the noise of a single run, or the trials that the budget buys.

    accountant: of one run alone; the theorems on the search take their own view of it, a profile or a Renyi curve.
    Exactly one of `run.noise_multiplier` and `trials` may be unknown, and only with a target.
    """
    solved: dict[str, Any] | None = None
    refusal: str | None = None
    if run.noise_multiplier is None and not run.history:
        assert epsilon is not None and trials is not None
        chosen = tuning.law_named(law, trials, eta=eta, most_trials=most_trials)
        try:
            sigma = _sigma(run, delta, epsilon, chosen, public, accountant, tolerance, digits)
        except Infeasible as error:
            asked = {**run.input(), "delta": delta, "law": law, "trials": trials, "epsilon": epsilon}
            return infeasible("tune", error, input=asked, assumptions=_assumptions(run), facts=words.facts(run))
        run = _with_noise(run, sigma)
        solved = {"parameter": "noise_multiplier", "value": sigma}
    ledger = Ledger.of(run.releases(), run.adjacency)
    base = account.epsilon(ledger, delta, accountant=accountant, tolerance=tolerance)
    if trials is None:
        assert epsilon is not None
        trials, refusal = _trials(ledger, base, delta, epsilon, law, eta, most_trials, digits)
        solved = {"parameter": "trials", "value": trials}
    found: list[Guarantee] = []
    if trials:
        chosen = tuning.law_named(law, trials, eta=eta, most_trials=most_trials)
        found = [base] if public else tuning.epsilon_bounds(base_of(ledger, delta), chosen, delta)
    return _report(run, delta, law, trials, base, found, public, epsilon, solved, refusal, max_epsilon)


def _assumptions(run: Run) -> dict[str, Any]:
    assumptions = run.assumptions()
    not_covered = [item for item in assumptions["not_covered"] if "tuning" not in item]
    return {**assumptions, "covers": "this run and its tuning", "not_covered": not_covered}


def _with_noise(run: Run, sigma: float) -> Run:
    from dataclasses import replace

    return replace(run, noise_multiplier=sigma)


def _sigma(
    run: Run, delta: float, epsilon: float, law: Law, public: bool, accountant: str, tolerance: float, digits: int
) -> float:
    """The least noise of a single run so that the whole search is proven to meet the target."""

    def ledger(sigma: float) -> Ledger:
        return Ledger.of(run.releases(noise_multiplier=sigma), run.adjacency)

    if public:
        return solve.sigma(ledger, solve.Target(epsilon, delta, accountant, tolerance), digits=digits).value

    def total(sigma: float) -> float:
        upper = tuning.epsilon(base_of(ledger(sigma), delta), law, delta).value.upper
        return math.inf if upper is None else upper

    grid = DecimalGrid(digits)
    guess = crossing(total, epsilon, 1.0, rising=False, low=0.05, high=1e6, relative=0.1 * 10.0**-digits)
    index = least(lambda i: total(grid.value(i)) <= epsilon, grid.at_most(guess) + 1, grid.near(0.05), grid.near(1e6))
    if index is None:
        least_cost = total(grid.value(grid.near(1e6)))
        raise Infeasible(
            f"no noise multiplier up to 1e6 brings the search to epsilon {epsilon:g}",
            nearest={"epsilon": least_cost} if math.isfinite(least_cost) else {},
        )
    return grid.value(index)


def _trials(
    ledger: Ledger,
    alone: Guarantee,
    delta: float,
    epsilon: float,
    law: str,
    eta: float | None,
    most_trials: int | None,
    digits: int,
) -> tuple[float | None, str | None]:
    """The largest expected number of trials that the budget buys, or why there is none.

    Among runs that all score alike the best is any one of them: where there is always a trial, a search costs no less
    than one run alone.
    """
    refusal = f"not even {'one run' if law == 'fixed' else 'a search of one expected trial'} fits the target"
    may_be_none = law in ("poisson", "binomial")
    if not may_be_none and alone.value.lower is not None and alone.value.lower > epsilon:
        return None, refusal
    trial = base_of(ledger, delta)
    if law == "fixed":
        found = float(tuning.most_fixed_trials(trial, epsilon, delta)) or None
    else:
        found = tuning.most_trials(
            trial,
            lambda mean: tuning.law_named(law, mean, eta=eta, most_trials=most_trials),
            epsilon,
            delta,
            digits=min(digits, 4),
            least=1.0 if may_be_none else 1.01,
        )
    return found, refusal if found is None else None


def _report(
    run: Run,
    delta: float,
    law: str,
    trials: float | None,
    base: Guarantee,
    found: list[Guarantee],
    public: bool,
    epsilon: float | None,
    solved: dict[str, Any] | None,
    refusal: str | None,
    max_epsilon: float | None,
) -> Report:
    best = found[0] if found else None
    upper = None if best is None else best.value.upper
    result: dict[str, Any] = {
        "base": {"epsilon": interval_json(base.value), "accountant": base.accountant},
        "law": law,
        "expected_trials": trials,
        "bounds": [
            {"name": g.accountant, "epsilon": {"upper": g.value.upper}, "source": g.detail.get("source")}
            for g in found
            if not public
        ],
        "epsilon": {"upper": upper},
        "conditions": "" if public else FIXED if law == "fixed" else CONDITIONS,
    }
    if solved is not None:
        result["solved"] = solved
    rows: list[list[Cell]] = [["one run alone", Range(base.value), base.accountant]]
    if not public:
        rows += [[g.accountant, Range(Interval(None, g.value.upper)), str(g.detail["source"])] for g in found]
    facts = words.facts(run)
    facts.append(
        ("trials", Quantity(trials, Rounding.DOWN), f"{law}, expected number" if law != "fixed" else "fixed number")
    )
    answers: list[Cell] = [Quantity(upper, Rounding.UP), Quantity(delta), Quantity(trials)]
    if refusal is not None:
        result.update(status="infeasible", message=refusal, nearest={"epsilon": base.value.upper})
        headline = f"{refusal}: one run alone costs {{3}} at delta {{1}}"
        answers.append(Range(base.value))
    elif public:
        headline = "epsilon <= {0} at delta {1}: tuning on public data costs nothing"
    else:
        headline = "epsilon <= {0} at delta {1} for the best of {2} trials"
        if solved and solved["parameter"] == "noise_multiplier":
            headline = "noise multiplier {3} a run gives " + headline
            answers.append(Quantity(solved["value"]))
        elif solved:
            headline = "{2} trials fit: " + headline
    value = Quantity(upper, Rounding.UP)
    if solved is not None:
        value = Quantity(solved["value"], Rounding.DOWN if solved["parameter"] == "trials" else Rounding.NEAREST)
    notes = [] if public else [FIXED if law == "fixed" else CONDITIONS]
    notes.append(words.assumptions(run).replace("not hyper-parameter tuning, other", "its tuning included, not other"))
    warnings = advice.of_run(run, [delta])
    if law == "fixed" and not public:
        warnings.append(
            Notice(
                "fixed-trials",
                "a fixed number of trials is charged in full",
                "Draw the number at random: --law poisson.",
            )
        )
    report = Report(
        command="tune",
        input={
            **run.input(), "delta": delta, "law": law, **({"trials": trials} if solved is None and trials else {}),
            **({"epsilon": epsilon} if epsilon is not None else {}), **({"public": True} if public else {}),
        },
        assumptions=_assumptions(run),
        result=result,
        headline=headline,
        answers=answers,
        value=value,
        facts=facts,
        main=Table(("bound", "epsilon", "source"), rows),
        notes=notes,
        explanation=[f"{name}: {title} ({source})." for name, (title, source) in SOURCES.items()],
        warnings=warnings,
        status="infeasible" if refusal else "ok",
        exit_code=3 if refusal else 0,
    )  # fmt: skip
    if upper == math.inf:
        report.status, report.exit_code, report.headline = "unbounded", 4, "no bound is finite at delta {1}"
    if max_epsilon is not None and best is not None:
        cost.gate(report, [best], max_epsilon)
    return report
