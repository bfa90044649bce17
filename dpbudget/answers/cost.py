"""What a run costs: epsilon at one or more deltas, delta at an epsilon, by every accountant that was asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_CEILING
from typing import Any

from dpbudget import checks
from dpbudget.accounting import account, filter
from dpbudget.accounting.account import ACCOUNTANTS, Ledger
from dpbudget.answers import advice, words
from dpbudget.errors import InputError, NotCertified
from dpbudget.model import Guarantee, Interval, Kind
from dpbudget.report import Cell, Notice, Quantity, Range, Report, Rounding, Table, guarantee_json, interval_json
from dpbudget.run import Run

DEFAULT = "pld,rdp"


def accountants(names: str) -> list[str]:
    """The accountants that a comma-separated list names; `all` stays one word until the run is known."""
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    if not chosen:
        raise InputError("accountant", "names no accountant", hint=f"Choose from {', '.join(ACCOUNTANTS)}, all.")
    return list(dict.fromkeys(checks.choice("accountant", name, (*ACCOUNTANTS, "all")) for name in chosen))


def by_default(names: Sequence[str]) -> bool:
    """Whether nobody chose these accountants."""
    return ",".join(names) == DEFAULT


def ask(ledger: Ledger, quantity: str, argument: float, names: Sequence[str], tolerance: float) -> list[Guarantee]:
    """Under `all`, and by default, an accountant that has no proof for this run is left out; chosen, it is an error."""
    ask = account.epsilon if quantity == "epsilon" else account.delta
    everything = "all" in names
    found: list[Guarantee] = []
    refused: list[InputError] = []
    for name in list(ACCOUNTANTS) if everything else names:
        try:
            found.append(ask(ledger, argument, accountant=name, tolerance=tolerance))
        except InputError as error:
            if not (everything and name not in names) and not by_default(names):
                raise
            refused.append(error)
        except NotCertified as error:
            unknown = Interval(None, math.inf)
            found.append(Guarantee(name, ACCOUNTANTS[name].kind, unknown, {"reason": f"no bound: {error.message}"}))
    if not found:
        raise refused[0]
    account.cross_check(found)
    return found


def primary(guarantees: Sequence[Guarantee]) -> Guarantee:
    """The number that is the answer: the first finite bound that was asked for, else the first bound, else an estimate."""
    bounds = [g for g in guarantees if g.kind is not Kind.ESTIMATE]
    finite = (g for g in bounds if g.value.upper is not None and math.isfinite(g.value.upper))
    return next(finite, (bounds or list(guarantees))[0])


def epsilon(
    run: Run,
    deltas: Sequence[float],
    *,
    accountant: str = DEFAULT,
    tolerance: float = account.DEFAULT_TOLERANCE,
    max_epsilon: float | None = None,
) -> Report:
    """Epsilon at each delta; the first delta is the answer, all of them stand in `curve` where there are several."""
    ledger = Ledger.of(run.releases(), run.adjacency)
    names = accountants(accountant)
    curve = [(d, ask(ledger, "epsilon", d, names, tolerance)) for d in deltas]
    report = _report(run, "epsilon", "delta", curve)
    if max_epsilon is not None:
        gate(report, [primary(found) for _, found in curve], max_epsilon)
    return report


def filtered(run: Run, delta: float, budget: float) -> Report:
    """The run as one whose parameters may depend on earlier outputs: what holds is the filter's budget, or nothing.

    While the filter is not exhausted the guarantee is the whole budget; how little of it was spent is no guarantee.
    """
    spent = filter.epsilon(Ledger.of(run.releases(), run.adjacency), budget, delta)
    upper = spent.value.upper
    assert upper is not None
    report = _report(run, "epsilon", "delta", [(delta, [replace(spent, value=Interval(None, max(upper, budget)))])])
    gate(report, [spent], budget)
    adaptive = "may depend on earlier outputs: a Renyi privacy filter stops the run before the budget is passed"
    report.input = {**report.input, "adaptive": True}
    report.assumptions = {**report.assumptions, "parameters": adaptive}
    report.result = {**report.result, "composition": "rdp-filter", "filter_spent": upper}
    note = words.assumptions(run).replace(words.FIXED, f"noise, rate, steps and the decision to go on {adaptive}")
    stands = words.rounded(upper, 5, ROUND_CEILING) if math.isfinite(upper) else "infinity"
    report.notes = [
        f"The filter stands at {stands} of {budget:.12g}; while it is not above, the whole budget is guaranteed.",
        note,
    ]
    report.explanation = [words.PARAMETERS]
    return report


def delta(
    run: Run, epsilons: Sequence[float], *, accountant: str = DEFAULT, tolerance: float = account.DEFAULT_TOLERANCE
) -> Report:
    """Delta at each epsilon; shaped as the report of `epsilon`."""
    ledger = Ledger.of(run.releases(), run.adjacency)
    names = accountants(accountant)
    return _report(run, "delta", "epsilon", [(e, ask(ledger, "delta", e, names, tolerance)) for e in epsilons])


def gate(report: Report, answers: Sequence[Guarantee], max_epsilon: float) -> None:
    """Fail closed: only a proven upper end at or below the limit passes."""
    report.input = {**report.input, "max_epsilon": max_epsilon}
    uppers = [answer.value.upper for answer in answers]
    if report.exit_code == 0 and not all(upper is not None and upper <= max_epsilon for upper in uppers):
        report.status, report.exit_code = "exceeded", 3
        report.headline += f" - above --max-epsilon {{{len(report.answers)}}}"
        report.answers = [*report.answers, Quantity(max_epsilon, Rounding.EXACT)]


def _report(run: Run, quantity: str, given: str, curve: Sequence[tuple[float, list[Guarantee]]]) -> Report:
    argument, guarantees = curve[0]
    answer = primary(guarantees)
    result: dict[str, Any] = {
        "accountant": answer.accountant,
        quantity: interval_json(answer.value),
        "accountants": [guarantee_json(g, quantity) for g in guarantees],
    }
    arguments = [a for a, _ in curve]
    if len(curve) > 1:
        result["curve"] = [
            {
                given: a,
                "accountant": primary(found).accountant,
                quantity: interval_json(primary(found).value),
                "accountants": [guarantee_json(g, quantity) for g in found],
            }
            for a, found in curve
        ]
    headline, status, exit_code = _verdict(quantity, given, answer)
    if status != "ok":
        result["status"] = status
    upper = answer.value.estimate if answer.kind is Kind.ESTIMATE else answer.value.upper
    rows: list[list[Cell]] = [
        [
            *([words.typed(given, a)] if len(curve) > 1 else []),
            g.accountant,
            words.proves(g),
            Range(g.value),
            words.remark(g),
        ]
        for a, found in curve
        for g in found
    ]
    columns = (*([given] if len(curve) > 1 else []), "accountant", "proves", quantity, "remark")
    deltas = arguments if given == "delta" else []
    return Report(
        command=quantity,
        input={**run.input(), given: arguments if len(curve) > 1 else argument},
        assumptions=run.assumptions(),
        result=result,
        headline=headline,
        answers=[
            Quantity(upper, Rounding.UP if answer.kind is not Kind.ESTIMATE else Rounding.NEAREST),
            words.typed(given, argument),
        ],
        value=Quantity(upper, Rounding.UP),
        facts=words.facts(run),
        main=Table(columns, rows),
        notes=[words.assumptions(run)],
        explanation=[
            words.PARAMETERS,
            *(
                words.how(g, ACCOUNTANTS[g.accountant].title, ACCOUNTANTS[g.accountant].source)
                for g in guarantees
                if g.accountant in ACCOUNTANTS
            ),
        ],
        warnings=[*advice.of_run(run, deltas), *advice.of_guarantees(guarantees), *_fallback(answer, guarantees)],
        status=status,
        exit_code=exit_code,
    )


def _fallback(answer: Guarantee, guarantees: Sequence[Guarantee]) -> list[Notice]:
    """Never silently another accountant's number."""
    first = next((g for g in guarantees if g.kind is not Kind.ESTIMATE), answer)
    if first is answer:
        return []
    text = f"{first.accountant} proves no finite bound here; the answer is {answer.accountant}'s"
    return [Notice("fallback", text, "Loosen --tolerance, or take the answer as it is: it is proven, though wider.")]


def _verdict(quantity: str, given: str, answer: Guarantee) -> tuple[str, str, int]:
    """Headline, status and exit code: only a finite proven number is an answer."""
    if answer.kind is Kind.ESTIMATE:
        return f"{quantity} is about {{0}} at {given} {{1}}: an estimate, not a guarantee", "estimate", 4
    upper = answer.value.upper
    unbounded = upper == math.inf or (quantity == "delta" and "reason" in answer.detail and upper == 1)
    if unbounded:
        reason = answer.detail.get("reason") or f"{answer.accountant} shows no finite bound here"
        return f"{quantity} is unbounded at {given} {{1}}: {reason}", "unbounded", 4
    return f"{quantity} <= {{0}} at {given} {{1}}", "ok", 0
