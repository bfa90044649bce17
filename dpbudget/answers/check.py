"""Does a budget file fit? With the share of each release, and the single changes that would make it fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from dpbudget.accounting import account
from dpbudget.answers.baseline import changed, compare
from dpbudget.answers.filecost import KNOBS, Plan, current, plan, turn, verdict
from dpbudget.answers.filewords import assumptions, assumptions_json, budget_json, delta_notice, file_name, subject
from dpbudget.budgetfile.document import BudgetDocument, DocumentRelease
from dpbudget.errors import Infeasible, InputError, NotCertified
from dpbudget.model import Guarantee
from dpbudget.report import Cell, Quantity, Range, Report, Rounding, Table, interval_json

FEW_KINDS, MOST_KINDS = 8, 32
ROUGH = 1e-3
"""What each release adds takes a composition of all others: up to FEW_KINDS different ones at the tolerance that was
asked for, up to MOST_KINDS at this one, above not at all."""
NO_SHARE: Mapping[str, None] = {"epsilon_alone": None, "epsilon_without": None, "share": None}


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
    kinds = len({_kind(entry) for entry in entries})
    shares = _shares(planned, total, kinds)
    changes = _to_pass(planned, digits, kinds) if outcome != "within" else []
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
            Quantity(None) if share["epsilon_alone"] is None else Range(share["epsilon_alone"]),
            Quantity(None) if share["epsilon_without"] is None else Range(share["epsilon_without"]),
            Quantity(None if share["share"] is None else round(100 * share["share"], 1)),
        ]
        for share in shares
    ]
    notes = [_fix(change, digits) for change in changes]
    if outcome == "inconclusive":
        notes.append(f"A narrower interval may decide it: --tolerance {tolerance / 100:g}.")
    if outcome != "within" and not changes and kinds <= MOST_KINDS:
        notes.append(_stuck(document))
    if kinds > MOST_KINDS:
        notes.append(
            f"What each of {kinds:,} different releases costs, and what would make them fit, is left out: up to {MOST_KINDS} "
            "are looked at one by one."
        )
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


def _kind(entry: DocumentRelease) -> tuple[object, ...]:
    """What decides the cost of an entry: those alike in it cost the same, alone and beside the others."""
    return entry.mechanism, tuple(sorted(entry.parameters.items())), entry.count, entry.partition, entry.status


def _shares(planned: Plan, total: Guarantee, kinds: int) -> list[dict[str, Any]]:
    """What each release costs alone, what the others cost without it, and its share; nothing where there are too many."""
    found: dict[tuple[object, ...], Mapping[str, Any]] = {}
    for entry in planned.document.releases:
        if _kind(entry) not in found:
            found[_kind(entry)] = NO_SHARE if kinds > MOST_KINDS else _share(planned, entry, total, kinds)
    return [{"name": entry.name, "status": entry.status, **found[_kind(entry)]} for entry in planned.document.releases]


def _share(planned: Plan, entry: DocumentRelease, total: Guarantee, kinds: int) -> dict[str, Any]:
    alone = planned.total([entry])
    rest = [other for other in planned.document.releases if other is not entry]
    without = planned.total(rest, None if kinds <= FEW_KINDS else max(planned.tolerance, ROUGH))
    share = None
    upper, others = total.value.upper, without.value.upper
    if upper is not None and others is not None and math.isfinite(upper) and math.isfinite(others) and upper > 0:
        share = max(0.0, 1 - others / upper)
    return {"epsilon_alone": alone.value, "epsilon_without": without.value, "share": share}


def _to_pass(planned: Plan, digits: int, kinds: int) -> list[dict[str, Any]]:
    """For each planned release the single changes of its keys that are proven to fit, everything else as it is."""
    found: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    entries = [entry for entry in planned.document.releases if entry.status == "planned" and kinds <= MOST_KINDS]
    for entry in entries:
        if _kind(entry) not in found:
            found[_kind(entry)] = list(_changes(planned, entry, digits))
    return [{"release": entry.name, **change} for entry in entries for change in found[_kind(entry)]]


def _changes(planned: Plan, entry: DocumentRelease, digits: int) -> Iterator[dict[str, Any]]:
    for (mechanism, parameter), knob in KNOBS.items():
        if mechanism != entry.mechanism or parameter not in entry.parameters:
            continue
        try:
            solution = turn(planned, entry, parameter, knob, digits)
        except (Infeasible, NotCertified, InputError):
            continue
        yield {
            "parameter": parameter,
            "from": current(entry, parameter),
            "to": int(solution.value) if knob.whole else solution.value,
            "direction": "at_most" if knob.most else "at_least",
            "epsilon": solution.guarantee.value,
        }


def _fix(change: Mapping[str, Any], digits: int) -> str:
    word = "at most" if change["direction"] == "at_most" else "at least"
    before = change["from"]
    was = f" (now {before:.{digits}g})" if isinstance(before, (int, float)) else ""
    return f"To pass: {change['release']}: {change['parameter']} {word} {change['to']!r}{was}."
