"""What every report on a budget file says of it: its name, its releases, its assumptions, a delta that is too large."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpbudget.answers.filecost import Plan
from dpbudget.budgetfile.document import BudgetDocument
from dpbudget.budgetfile.values import Decimal
from dpbudget.model import Guarantee
from dpbudget.report import Notice


def file_name(document: BudgetDocument) -> str:
    """The file as a report may name it on any machine: below the working directory, else its name alone."""
    path = Path(document.filename)
    if not path.is_absolute():
        return document.filename
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return path.name


def subject(planned: Plan, total: Guarantee) -> str:
    """What the number is about, for the statement: each release with its parameters, and how they were counted."""
    listed = []
    for entry in planned.document.releases:
        values = [f"{key} {_plain(value)}" for key, value in entry.parameters.items()]
        times = [f"{entry.count} times"] if entry.count != 1 else []
        where = [f"on partition {entry.partition}"] if entry.partition is not None else []
        listed.append(f"{entry.name} ({', '.join([entry.mechanism, entry.status, *values, *times, *where])})")
    kind = "certified from both sides" if total.value.lower is not None else "an upper bound"
    return f"Releases: {'; '.join(listed) or 'none'}. Accountant: {total.accountant}, {kind}."


def _plain(value: Any) -> str:
    """The value as it is written in the file, every digit: a shorter one might be a run that costs more."""
    return value.text if isinstance(value, Decimal) else str(value)


def budget_json(document: BudgetDocument) -> dict[str, Any]:
    budget = document.budget
    return {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "adjacency": str(budget.adjacency),
        "unit": budget.unit,
        "adaptive": budget.adaptive,
    }


SAMPLED = ("dp-sgd", "tuning", "federated")


def _samplings(planned: Plan) -> list[str]:
    names = {str(e.parameters.get("sampling", "poisson")) for e in planned.document.releases if e.mechanism in SAMPLED}
    return sorted(names)


def _conditions(document: BudgetDocument) -> list[str]:
    """What the releases in the file rest on beside the sampling, each said once."""
    entries = document.releases
    found = []
    if any(e.mechanism == "tuning" and e.parameters.get("law") != "fixed" for e in entries):
        found.append(
            "the number of trials of a search is drawn before the first, independently of the data, and never revealed, and "
            "its score is part of what a trial's guarantee covers"
        )
    if any(e.mechanism == "federated" for e in entries):
        found.append(
            "clients join rounds in secret, their updates are clipped, and sums are divided by a public constant"
        )
    if any(e.parameters.get("noise_at", "server") != "server" for e in entries):
        found.append("noise that clients add is at a public level that does not depend on who takes part")
    if any("max_batch" in e.parameters for e in entries):
        found.append("where batches are cut, dataset_size is that of the larger of two neighbours")
    if any(e.partition is not None for e in entries):
        found.append("partitions are disjoint, and which one a record is in depends on this record alone")
    if any(e.mechanism in ("pure-dp", "approx-dp", "zcdp") or "sensitivity" in e.parameters for e in entries):
        found.append("guarantees and sensitivities that the file states hold for these neighbours")
    return found


def assumptions_json(planned: Plan) -> dict[str, Any]:
    budget = planned.document.budget
    adaptive = "may depend on earlier outputs: the total is a Renyi privacy filter"
    fixed = "noise, rates, steps and the decision to run each release fixed without looking at earlier outputs"
    return {
        "adjacency": str(budget.adjacency),
        "sampling": _samplings(planned),
        "unit": budget.unit,
        "covers": "the releases in the file",
        "not_covered": [
            "anything that is not in the file",
            "hyper-parameter tuning that is not in the file",
            "floating-point noise: the Gaussian is taken as ideal",
            "a normaliser that is not public",
        ],
        "parameters": adaptive if budget.adaptive else fixed,
        "conditions": _conditions(planned.document),
    }


def assumptions(planned: Plan) -> str:
    budget = planned.document.budget
    sampling = ", ".join(_samplings(planned))
    drawn = f"; batches drawn by {sampling} sampling" if sampling else ""
    how = (
        "The releases may depend on earlier outputs: the total is that of a Renyi privacy filter"
        if budget.adaptive
        else "Composition of fixed releases: noise, rates, steps and the decision to run each were fixed without looking at "
        "earlier outputs (else write adaptive = true)"
    )
    rest = "".join(f"; {condition}" for condition in _conditions(planned.document))
    return (
        f"Assumes: {budget.adjacency} neighbours, unit {budget.unit}{drawn}{rest}. {how}. Covers the releases in the file: not "
        "tuning or publications that are not in it, or floating-point effects of the noise."
    )


def delta_notice(document: BudgetDocument) -> list[Notice]:
    sizes = [entry.parameters.get("dataset_size") for entry in document.releases]
    known = [int(size) for size in sizes if isinstance(size, int) and size > 0]
    if known and document.budget.delta >= 1 / min(known):
        return [
            Notice(
                "delta-large",
                f"delta {document.budget.delta:g} is not below 1/n = {1 / min(known):.3g}",
                "Publishing one whole record would satisfy it; write a smaller delta.",
            )
        ]
    return []
