"""Does a budget file fit? With the share of each release, and the single changes that would make it fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpbudget.accounting import account
from dpbudget.answers.baseline import changed, compare
from dpbudget.answers.filecost import KNOBS, Plan, current, plan, turn, verdict
from dpbudget.answers.filewords import assumptions, assumptions_json, budget_json, delta_notice, file_name, subject
from dpbudget.budgetfile.document import BudgetDocument, DocumentRelease
from dpbudget.errors import Infeasible, InputError, NotCertified
from dpbudget.model import Guarantee
from dpbudget.report import Cell, Quantity, Range, Report, Rounding, Table, interval_json


def check(
    document: BudgetDocument,
    *,
    tolerance: float = account.DEFAULT_TOLERANCE,
    digits: int = 5,
    baseline: Mapping[str, Any] | None = None,
    exit_zero: bool = False,
) -> Report:
    """Does everything together fit the budget? With the share of each release, and what would make it fit."""
    planned = plan(document, tolerance)
    planned.prove()
    budget = document.budget
    entries = document.releases
    total = planned.total(entries)
    outcome = verdict(total, budget.epsilon)
    shares = [_share(planned, entry, total) for entry in entries]
    changes = _to_pass(planned, digits) if outcome != "within" else []
    result: dict[str, Any] = {
        "verdict": outcome,
        "budget": budget_json(document),
        "composition": "rdp-filter" if budget.adaptive else "fixed",
        "epsilon": interval_json(total.value),
        "releases": shares,
        "to_pass": changes,
    }
    if total.value.upper == math.inf:
        result["status"] = "unbounded"
    if baseline is not None:
        result["changes"] = compare(baseline, result)
    rows: list[list[Cell]] = [
        [
            share["name"],
            share["status"],
            Range(share["epsilon_alone"]),
            Range(share["epsilon_without"]),
            Quantity(None if share["share"] is None else round(100 * share["share"], 1)),
        ]
        for share in shares
    ]
    notes = [_fix(change, digits) for change in changes]
    if outcome == "inconclusive":
        notes.append(f"A narrower interval may decide it: --tolerance {tolerance / 100:g}.")
    if outcome != "within" and not changes:
        notes.append(_stuck(document))
    notes += changed(result.get("changes"))
    notes.append(assumptions(planned))
    words = {"within": "within budget", "over": "over budget", "inconclusive": "inconclusive"}[outcome]
    shown = {"within": "{0} <= {1}", "over": "{2} > {1}", "inconclusive": "the budget {1} lies inside {3}"}[outcome]
    if total.value.upper == math.inf:
        shown = "is unbounded, the budget is {1}"
    elif outcome == "over" and total.value.lower is None:
        shown = "<= {0} is all that is proven, the budget is {1}"
    return Report(
        command="check",
        input={"file": file_name(document)},
        assumptions=assumptions_json(planned),
        result=result,
        headline=f"{words}: epsilon {shown} at delta {{4}}",
        answers=[
            Quantity(total.value.upper, Rounding.UP, budget.epsilon),
            Quantity(budget.epsilon, Rounding.EXACT),
            Quantity(total.value.lower, Rounding.DOWN, budget.epsilon),
            Range(total.value),
            Quantity(budget.delta, Rounding.EXACT),
        ],
        value=Quantity(total.value.upper, Rounding.UP),
        main=Table(("release", "status", "epsilon alone", "epsilon without", "share %"), rows),
        subject=subject(planned, total),
        notes=notes,
        explanation=[
            "The share of a release is how much less epsilon would be without it, relative to the total. Shares do not "
            "add up to 100 %: privacy does not add up linearly.",
        ],
        warnings=delta_notice(document),
        status={"within": "ok", "over": "over", "inconclusive": "inconclusive"}[outcome],
        exit_code=0 if outcome == "within" or exit_zero else 3,
    )


def _stuck(document: BudgetDocument) -> str:
    if all(entry.status == "spent" for entry in document.releases):
        return "Everything is spent: nothing that is planned could change it."
    return "No single change of a planned release would fit the budget: change several, or drop one."


def _share(planned: Plan, entry: DocumentRelease, total: Guarantee) -> dict[str, Any]:
    alone = planned.total([entry])
    without = planned.total([other for other in planned.document.releases if other is not entry])
    share = None
    upper, rest = total.value.upper, without.value.upper
    if upper is not None and rest is not None and math.isfinite(upper) and math.isfinite(rest) and upper > 0:
        share = max(0.0, 1 - rest / upper)
    return {
        "name": entry.name,
        "status": entry.status,
        "epsilon_alone": alone.value,
        "epsilon_without": without.value,
        "share": share,
    }


def _to_pass(planned: Plan, digits: int) -> list[dict[str, Any]]:
    """For each planned release the single changes of its keys that are proven to fit, everything else as it is."""
    found = []
    for entry in planned.document.releases:
        if entry.status != "planned":
            continue
        for (mechanism, parameter), knob in KNOBS.items():
            if mechanism != entry.mechanism or parameter not in entry.parameters:
                continue
            try:
                solution = turn(planned, entry, parameter, knob, digits)
            except (Infeasible, NotCertified, InputError):
                continue
            found.append(
                {
                    "release": entry.name,
                    "parameter": parameter,
                    "from": current(entry, parameter),
                    "to": int(solution.value) if knob.whole else solution.value,
                    "direction": "at_most" if knob.most else "at_least",
                    "epsilon": solution.guarantee.value,
                }
            )
    return found


def _fix(change: Mapping[str, Any], digits: int) -> str:
    word = "at most" if change["direction"] == "at_most" else "at least"
    before = change["from"]
    was = f" (now {before:.{digits}g})" if isinstance(before, (int, float)) else ""
    return f"To pass: {change['release']}: {change['parameter']} {word} {change['to']!r}{was}."
