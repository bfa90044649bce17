"""Releases from another tool's state: what they cost here, what the tool itself prints, and why the two differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpbudget import budgetfile
from dpbudget.accounting import account, filter, rdp
from dpbudget.accounting.account import Ledger
from dpbudget.budgetfile import edit, store
from dpbudget.errors import InputError
from dpbudget.importers.imported import CLIPPING_NORM, SENSITIVITY, ImportedState
from dpbudget.model import Adjacency, Guarantee, Sampling
from dpbudget.report import Cell, Notice, Quantity, Range, Report, Rounding, Table, interval_json

# The orders that Opacus and Flower search when none are given: 1.1 to 10.9, then 12 to 63 (Flower also 128 to 1024).
FIXED_ORDERS = np.array([1 + x / 10 for x in range(1, 100)] + [float(x) for x in range(12, 64)])

PRINTED = 0.01  # a tool prints two digits or more


def _tool_epsilon(state: ImportedState, ledger: Ledger, delta: float) -> float | None:
    """What the tool's RDP accountant prints, up to its own rounding; None where it is not RDP by a known rule, or no noise
    leaves it nothing to print."""
    if state.accountant != "rdp" or state.sampling is Sampling.FIXED_SIZE or ledger.unbounded:
        return None
    totals = [rdp.rdp_total(parts, FIXED_ORDERS) for parts in ledger.directions.values()]
    curve = np.max(totals, axis=0)
    return float(min(r + filter.conversion(float(a), delta) for r, a in zip(curve, FIXED_ORDERS, strict=True)))


def report(
    state: ImportedState,
    *,
    delta: float | None,
    reported: float | None,
    tolerance: float,
    other: ImportedState | None = None,
    append: str | None = None,
) -> Report:
    """The entries, their certified epsilon, and the comparison. With `append` they are added to a budget file.

    `other` is the same state with its multipliers read the other way, where there are two ways to read them.
    """
    at = delta if delta is not None else state.delta
    if at is None:
        raise InputError("delta", f"is missing: the state of {state.tool} does not hold it", hint="Pass --delta 1e-5.")
    total = _cost(state, at, tolerance)
    ledger = Ledger.of(state.releases(), state.adjacency)
    tool = reported if reported is not None else _tool_epsilon(state, ledger, at)
    result: dict[str, Any] = {
        "tool": state.tool,
        "tool_accountant": state.accountant,
        "releases": [dict(entry) for entry in state.entries],
        "epsilon": interval_json(total.value),
        "tool_epsilon": {"value": tool, "source": "reported" if reported is not None else "recomputed"}
        if tool
        else None,
        "explanation": state.explanation,
    }
    rows: list[list[Cell]] = [["dpbudget", Range(total.value)]]
    if tool is not None:
        rows.append([f"{state.tool}, {'as reported' if reported is not None else 'recomputed'}", Quantity(tool)])
    notes = [
        *state.notes,
        *([state.explanation] if state.explanation else []),
        f"Assumes: {state.adjacency} neighbours, unit {state.unit}, {state.sampling} sampling; noise, rates and steps fixed "
        "without looking at earlier outputs. Covers the imported releases only.",
    ]
    if other is not None:
        again = _cost(other, at, tolerance)
        rows.append([f"dpbudget, noise relative to {_reading(other)}", Range(again.value)])
        rows[0][0] = f"dpbudget, noise relative to {_reading(state)}"
        result["other_reading"] = {"noise_relative_to": other.noise_relative_to, "epsilon": interval_json(again.value)}
        result["noise_relative_to"] = state.noise_relative_to
    warnings = _below(reported, total)
    bounded = total.value.upper != math.inf
    appended = append is not None and bounded
    if append is not None and bounded:
        _append(append, state)
        notes.append(f"{len(state.entries)} releases appended to {append}.")
    elif append is not None:
        message = f"nothing is appended to {append}: no epsilon holds for the releases"
        warnings.append(Notice("not-appended", message, "If they have happened, add the entries by hand."))
    return Report(
        command="import",
        input={"delta": at},
        assumptions={
            "adjacency": str(state.adjacency),
            "sampling": str(state.sampling),
            "unit": state.unit,
            "covers": "the imported releases only",
        },
        result=result,
        headline=(
            "one release from {0} costs"
            if len(state.entries) == 1
            else f"{len(state.entries)} releases from {{0}} cost"
        )
        + " epsilon <= {1} at delta {2}",
        answers=[state.tool, Quantity(total.value.upper, Rounding.UP), Quantity(at)],
        value=Quantity(total.value.upper, Rounding.UP),
        main=Table(("by", "epsilon"), rows),
        verbatim="" if appended else entries_text(state),
        notes=notes,
        warnings=warnings,
        status="ok" if bounded else "unbounded",
        exit_code=0 if bounded else 4,
    )


def _below(reported: float | None, total: Guarantee) -> list[Notice]:
    """A printed number is rounded; what lies further below the proven lower end is not this run's epsilon."""
    lower = total.value.lower or 0.0
    if reported is None or reported >= lower * (1 - PRINTED):
        return []
    message = f"the reported epsilon {reported:g} lies below what is proven to be spent"
    return [Notice("reported-below", message, "Is it for another delta, or for a part of the steps?")]


def _reading(state: ImportedState) -> str:
    return "the clipping norm" if state.noise_relative_to == CLIPPING_NORM else "the sensitivity"


def _cost(state: ImportedState, delta: float, tolerance: float) -> Guarantee:
    return account.epsilon(Ledger.of(state.releases(), state.adjacency), delta, tolerance=tolerance)


def two_readings(state: ImportedState) -> str | None:
    """The other way to read the multipliers of a replace-one state, or None where there is one way only."""
    if state.tool != "Flower" or state.adjacency is not Adjacency.REPLACE_ONE:
        return None
    return SENSITIVITY if state.noise_relative_to == CLIPPING_NORM else CLIPPING_NORM


def entries_text(state: ImportedState) -> str:
    """The entries as TOML."""
    return edit.append_releases("", state.entries)


def _append(file: str, state: ImportedState) -> None:
    def change(text: str) -> str:
        document = budgetfile.load(text, filename=file)
        if document.budget.adjacency is not state.adjacency:
            raise InputError(
                "append",
                f"{file} is about {document.budget.adjacency} neighbours, the state about {state.adjacency}",
                hint="Keep releases of unlike adjacency in files of their own.",
            )
        if document.budget.unit != state.unit:
            raise InputError(
                "append",
                f'{file} is about the unit "{document.budget.unit}", the state about the unit "{state.unit}"',
                hint="Keep releases of unlike units in files of their own.",
            )
        text = edit.append_releases(text, _renamed(state, {release.name for release in document.releases}))
        budgetfile.load(text, filename=file)
        return text

    store.update(file, change)


def _renamed(state: ImportedState, taken: set[str]) -> Sequence[dict[str, Any]]:
    """Entries with names that the file does not have yet."""
    entries = []
    for entry in state.entries:
        name, number = str(entry["name"]), 2
        while name in taken:
            name, number = f"{entry['name']} ({number})", number + 1
        taken.add(name)
        entries.append({**entry, "name": name})
    return entries
