"""Writing to the budget file: spent releases recorded under a lock, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpbudget import budgetfile, checks
from dpbudget.accounting import account
from dpbudget.answers import budget
from dpbudget.budgetfile import edit, store
from dpbudget.budgetfile.keys import MECHANISMS
from dpbudget.budgetfile.values import Decimal
from dpbudget.errors import DpbudgetError, InputError
from dpbudget.names import meant
from dpbudget.report import Notice, Report

TEXT_KEYS = ("sampling", "adjacency", "unit", "partition", "history", "loader", "noise_on")
RUN_KEYS = (
    "noise_multiplier", "noise_std", "clip_norm", "sampling_rate", "batch_size", "dataset_size", "steps", "epochs", "sampling",
)  # fmt: skip


PARAMETERS = "--sigma S -q Q -t T, or the keys of its mechanism by --set KEY=VALUE"


class Refused(DpbudgetError):
    """Recording would overspend the budget."""

    exit_code = 3


def entry(name: str, mechanism: str, given: Mapping[str, Any], pairs: Sequence[str]) -> dict[str, Any]:
    """One [[release]] as it goes into the file. Raises InputError on a key that the mechanism does not know."""
    mechanism = checks.choice("mechanism", mechanism, MECHANISMS)
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in RUN_KEYS:
            raise InputError(key, "has no place in a budget file entry", hint="Use --set KEY=VALUE, or edit the file.")
        values[key] = value if key in TEXT_KEYS else _toml_number(key, value)
    for pair in pairs:
        key, mark, text = pair.partition("=")
        if not mark or not key.strip():
            raise InputError("set", f"{pair!r} is not KEY=VALUE", hint="For example: --set scale=20.")
        values[key.strip()] = text.strip() if key.strip() in TEXT_KEYS else _toml_number("set", text)
    return {"name": name, "status": "spent", "mechanism": mechanism, **values}


def _toml_number(parameter: str, text: str) -> Any:
    """The number as TOML writes it: whole numbers as integers, decimals digit for digit."""
    exact = checks.number(parameter, text)
    return int(exact) if exact.denominator == 1 else Decimal(repr(float(exact)))


def _unplanned(name: str, document: budgetfile.BudgetDocument) -> InputError:
    near = meant(name, [release.name for release in document.releases if release.status == "planned"], {})
    offer = f"Did you mean {near!r}? " if near else ""
    return InputError(
        "name", f"no planned release is called {name!r}", hint=f"{offer}A new one needs its parameters: {PARAMETERS}."
    )


def _loaded(text: str, file: str, name: str) -> budgetfile.BudgetDocument:
    """The file with its new entry. What is wrong is the entry, which stands on no line yet."""
    try:
        return budgetfile.load(text, filename=file)
    except budgetfile.BudgetFileError as error:
        told, ways = [], []
        for problem in error.problems:
            asks = problem.suggestion if problem.suggestion[:1].islower() else ""
            told.append(": ".join(filter(None, (problem.key, problem.message))) + (f" ({asks})" if asks else ""))
            ways += [problem.suggestion] if problem.suggestion and not asks else []
        raise InputError(
            "name", f"{name!r} is not recorded: {'; '.join(told)}", hint=" ".join(ways) or f"Pass {PARAMETERS}."
        ) from None


def record(
    file: str,
    name: str,
    mechanism: str,
    given: Mapping[str, Any],
    pairs: Sequence[str],
    *,
    force: bool,
    tolerance: float = account.DEFAULT_TOLERANCE,
) -> Report:
    """Mark a planned release as spent, or append a spent one; nothing is written if that overspends.

    What counts is what has been spent, the new release included; plans do not stop a record. Safe against other writers:
    the file is read, checked and replaced under one lock.
    """
    reports: list[Report] = []

    def change(text: str) -> str:
        document = budgetfile.load(text, filename=file)
        known = {release.name: release for release in document.releases}
        if name in known and not given and not pairs:
            release = known[name]
            if release.status == "spent":
                raise InputError("name", f"release {name!r} is spent already", hint="Choose another --name.")
            if release.unknown is not None:
                raise InputError(
                    "name",
                    f"release {name!r} has an unknown {release.unknown}",
                    hint=f"Run dpbudget solve {file} --write.",
                )
            after = edit.set_value(text, release.index, "status", '"spent"')
        elif name in known:
            raise InputError(
                "name",
                f"release {name!r} is in the file already",
                hint="Choose another --name, or drop the run options to mark the planned release as spent.",
            )
        elif not given and not pairs:
            raise _unplanned(name, document)
        else:
            after = edit.append_release(text, entry(name, mechanism, given, pairs))
        changed = _loaded(after, file, name)
        report = budget.status(changed, tolerance=tolerance)
        spent = report.result["spent"].upper
        if not budget.shows(spent, changed) and not force:
            raise Refused(
                f"not recorded: {name!r} would bring what is spent to epsilon {budget.shown_up(spent)}, "
                f"above the budget of {changed.budget.epsilon:g}",
                hint="If it has happened, --force records it all the same.",
            )
        if not budget.shows(spent, changed):
            report.warnings.append(
                Notice("overspent", "the budget is overspent", "Publish nothing further on these data.")
            )
        if report.result["verdict"] != "within" and budget.shows(spent, changed):
            report.warnings.append(
                Notice(
                    "plan-over",
                    "what is planned no longer fits beside what is spent",
                    f"Run dpbudget check {file}: it says what would fit.",
                )
            )
        report.command = "record"
        report.headline = f"recorded {{{len(report.answers)}}}: {report.headline}"
        report.answers = [*report.answers, name]
        report.result = {"recorded": name, **report.result}
        reports.append(report)
        return after

    store.update(file, change)
    return reports[-1]
