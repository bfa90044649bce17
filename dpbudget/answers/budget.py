"""Questions about a budget file: does the plan fit, what is left, who spends it, what would make it fit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpbudget.accounting import account, filter, solve
from dpbudget.accounting.account import Ledger, Parallel
from dpbudget.accounting.solve import Solution, Target
from dpbudget.budgetfile.document import BudgetDocument, BudgetFileError, DocumentRelease, Problem, to_releases
from dpbudget.budgetfile.findings import file_words
from dpbudget.checks import MAX_STEPS
from dpbudget.errors import Infeasible, InputError, NotCertified
from dpbudget.model import Adjacency, Guarantee, Release
from dpbudget.report import Cell, Notice, Quantity, Range, Report, Rounding, Table, interval_json

FIXED = "fixed releases, composed exactly"
FILTER = "adaptive releases, a Renyi privacy filter"


@dataclass(frozen=True)
class Knob:
    """A key of a release that can be turned to fit the budget. `most` False: the least value fits, else the largest.

    low, high: where to look; in units of the release's key `unit`, where there is one.
    """

    most: bool
    whole: bool
    low: float
    high: float
    unit: str = ""

    def limits(self, entry: DocumentRelease, steps_per_unit: float) -> tuple[float, float]:
        """Where to look for this release; no value may ask for more than MAX_STEPS steps."""
        size = float(entry.parameters.get(self.unit, 1)) if self.unit else 1.0
        low = self.low if self.whole else self.low * size
        return low, self.high * size / max(1.0, steps_per_unit)


KNOBS: Mapping[tuple[str, str], Knob] = {
    ("dp-sgd", "noise_multiplier"): Knob(False, False, solve.LEAST_SIGMA, solve.MOST_SIGMA),
    ("dp-sgd", "noise_std"): Knob(False, False, solve.LEAST_SIGMA, solve.MOST_SIGMA, "clip_norm"),
    ("dp-sgd", "steps"): Knob(True, True, 1, MAX_STEPS),
    ("dp-sgd", "epochs"): Knob(True, False, 1e-6, MAX_STEPS),
    ("dp-sgd", "sampling_rate"): Knob(True, False, solve.LEAST_RATE, 1.0),
    ("dp-sgd", "batch_size"): Knob(True, True, 1, 1.0, "dataset_size"),
    ("gaussian", "noise_multiplier"): Knob(False, False, solve.LEAST_SIGMA, solve.MOST_SIGMA),
    ("gaussian", "noise_std"): Knob(False, False, solve.LEAST_SIGMA, solve.MOST_SIGMA, "sensitivity"),
    ("laplace", "scale"): Knob(False, False, 1e-3, 1e12, "sensitivity"),
    ("randomized-response", "epsilon"): Knob(True, False, 1e-9, 1e3),
    ("randomized-response", "truth_probability"): Knob(True, False, 1e-9, 0.999999),
    ("pure-dp", "epsilon"): Knob(True, False, 1e-9, 1e4),
    ("approx-dp", "epsilon"): Knob(True, False, 1e-9, 1e4),
    ("zcdp", "rho"): Knob(True, False, 1e-12, 1e4),
    ("tuning", "trials"): Knob(True, False, 1.0, 1e6),
    ("tuning", "noise_multiplier"): Knob(False, False, 0.05, 1e6),
    ("federated", "noise_multiplier"): Knob(False, False, solve.LEAST_SIGMA, solve.MOST_SIGMA),
    ("federated", "rounds"): Knob(True, True, 1, MAX_STEPS),
    ("federated", "clients_per_round"): Knob(True, True, 1, 1.0, "clients"),
}


@dataclass(frozen=True)
class FilterTarget(Target):
    """The same target, shown by the Renyi filter that belongs to it."""

    def guarantee(self, ledger: Ledger | Parallel) -> Guarantee:
        return filter.epsilon(ledger, self.epsilon, self.delta)


@dataclass(frozen=True)
class Plan:
    """A budget file ready to be counted: releases of the model beside the entries that they come from."""

    document: BudgetDocument
    tolerance: float

    @property
    def target(self) -> Target:
        budget = self.document.budget
        if budget.adaptive:
            return FilterTarget(budget.epsilon, budget.delta, "rdp")
        return Target(budget.epsilon, budget.delta, "pld", self.tolerance)

    def account(self, entries: Sequence[DocumentRelease]) -> Ledger | Parallel:
        """Entries that name a partition compose with those that name none; partitions are parallel."""
        adjacency = self.document.budget.adjacency
        common = [r for entry in entries if entry.partition is None for r in self._releases(entry)]
        partitions: dict[str, list[Release]] = {}
        for entry in entries:
            if entry.partition is not None:
                if adjacency is Adjacency.REPLACE_ONE and not entry.partition_fixed:
                    raise self._problem(
                        entry,
                        "partition",
                        "under replace-one a replaced record may change its partition, which touches both",
                        "Write partition_fixed = true if it can't, or drop the partition.",
                    )
                partitions.setdefault(entry.partition, []).extend(self._releases(entry))
        if not partitions:
            return Ledger.of(common, adjacency)
        return Parallel(tuple(Ledger.of([*common, *own], adjacency) for own in partitions.values()))

    def prove(self) -> None:
        """Raise BudgetFileError with every release that has no proven bound under the file's adjacency."""
        found: list[Problem] = []
        for entry in self.document.releases:
            if entry.unknown is None:
                try:
                    ledger = Ledger.of(self._releases(entry), self.document.budget.adjacency).without_zcdp()
                    _ = ledger.unbounded or ledger.tuned or ledger.directions
                except BudgetFileError as error:
                    found += error.problems
                except InputError as error:
                    found += self._problem(entry, error.parameter, error.message, file_words(error.hint)).problems
        if found:
            raise BudgetFileError(found)

    def _releases(self, entry: DocumentRelease) -> list[Release]:
        try:
            return to_releases(entry, self.document.budget.adjacency)
        except BudgetFileError:
            raise
        except InputError as error:
            raise self._problem(entry, error.parameter, error.message, error.hint) from None

    def _problem(self, entry: DocumentRelease, key: str, message: str, hint: str) -> BudgetFileError:
        where = f'release "{entry.name}"'
        return BudgetFileError([Problem(self.document.filename, entry.line_of(key), message, where, key, hint)])

    def total(self, entries: Sequence[DocumentRelease]) -> Guarantee:
        """Epsilon of the entries at the budget's delta: certified from both sides, or the filter's."""
        budget = self.document.budget
        what = self.account(entries)
        if budget.adaptive:
            return filter.epsilon(what, budget.epsilon, budget.delta)
        try:
            return account.epsilon(what, budget.delta, tolerance=self.tolerance)
        except InputError as error:
            raise BudgetFileError([Problem(self.document.filename, 0, str(error), suggestion=error.hint)]) from None

    def composition(self) -> str:
        return FILTER if self.document.budget.adaptive else FIXED


def plan(document: BudgetDocument, tolerance: float) -> Plan:
    if document.unknown is not None:
        entry, key = document.unknown
        raise BudgetFileError(
            [
                Problem(
                    document.filename,
                    entry.line_of(key),
                    "is still to be solved for",
                    f'release "{entry.name}"',
                    key,
                    f"Run dpbudget solve {document.filename} --write first.",
                )
            ]
        )
    return Plan(document, tolerance)


def verdict(total: Guarantee, budget: float) -> str:
    """`within` only if proven within, `over` only if proven over."""
    upper, lower = total.value.upper, total.value.lower
    if upper is not None and upper <= budget:
        return "within"
    if lower is not None and lower > budget:
        return "over"
    return "inconclusive" if lower is not None else "over"


# --- check -----------------------------------------------------------------------------------------------------------


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
        "budget": _budget_json(document),
        "composition": "rdp-filter" if budget.adaptive else "fixed",
        "epsilon": interval_json(total.value),
        "releases": shares,
        "to_pass": changes,
    }
    if total.value.upper == math.inf:
        result["status"] = "unbounded"
    if baseline is not None:
        result["changes"] = _compare(baseline, result)
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
    notes += _changed(result.get("changes"))
    notes.append(_assumptions(planned))
    words = {"within": "within budget", "over": "over budget", "inconclusive": "inconclusive"}[outcome]
    shown = {"within": "{0} <= {1}", "over": "{2} > {1}", "inconclusive": "the budget {1} lies inside {3}"}[outcome]
    if total.value.upper == math.inf:
        shown = "is unbounded, the budget is {1}"
    elif outcome == "over" and total.value.lower is None:
        shown = "<= {0} is all that is proven, the budget is {1}"
    return Report(
        command="check",
        input={"file": _file(document)},
        assumptions=_assumptions_json(planned),
        result=result,
        headline=f"{words}: epsilon {shown} at delta {{4}}",
        answers=[
            Quantity(total.value.upper, Rounding.UP),
            Quantity(budget.epsilon),
            Quantity(total.value.lower, Rounding.DOWN),
            Range(total.value),
            Quantity(budget.delta),
        ],
        value=Quantity(total.value.upper, Rounding.UP),
        main=Table(("release", "status", "epsilon alone", "epsilon without", "share %"), rows),
        subject=_subject(planned, total),
        notes=notes,
        explanation=[
            "The share of a release is how much less epsilon would be without it, relative to the total. Shares do not "
            "add up to 100 %: privacy does not add up linearly.",
        ],
        warnings=_delta_notice(document),
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
                solution = _turn(planned, entry, parameter, knob, digits)
            except (Infeasible, NotCertified, InputError):
                continue
            found.append(
                {
                    "release": entry.name,
                    "parameter": parameter,
                    "from": _current(entry, parameter),
                    "to": int(solution.value) if knob.whole else solution.value,
                    "direction": "at_most" if knob.most else "at_least",
                    "epsilon": solution.guarantee.value,
                }
            )
    return found


def _turn(planned: Plan, entry: DocumentRelease, parameter: str, knob: Knob, digits: int) -> Solution:
    """The value of one parameter of one release that fits the budget, everything else as it is."""

    def at(value: float) -> Ledger | Parallel:
        changed = entry.with_value(parameter, int(value) if knob.whole else value)
        return planned.account([changed if other is entry else other for other in planned.document.releases])

    uses = {"steps": entry.count, "epochs": entry.count}.get(parameter, 1)
    if parameter == "epochs":
        uses *= sum(
            release.count
            for release in to_releases(replace(entry.with_value("epochs", 1), count=1), Adjacency.ZERO_OUT)
        )
    low, high = knob.limits(entry, uses)
    current = _current(entry, parameter)
    start = min(max(current or 1.0, low), high)
    if knob.whole:
        return solve.most_count(at, planned.target, start=int(start), high=int(high), name=parameter)
    turn = solve.most_value if knob.most else solve.least_value
    return turn(at, planned.target, digits=digits, start=start, low=low, high=high, name=parameter.replace("_", " "))


def _current(entry: DocumentRelease, parameter: str) -> float | int | None:
    """The number as it is in the file; None for an unknown."""
    value = entry.parameters[parameter]
    if isinstance(value, str):
        return None
    return int(value) if isinstance(value, int) else float(value)


def _fix(change: Mapping[str, Any], digits: int) -> str:
    word = "at most" if change["direction"] == "at_most" else "at least"
    before = change["from"]
    was = f" (now {before:.{digits}g})" if isinstance(before, (int, float)) else ""
    return f"To pass: {change['release']}: {change['parameter']} {word} {change['to']!r}{was}."


# --- baseline ---------------------------------------------------------------------------------------------------------


def _compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """What changed against an earlier report of `check`."""
    if old.get("command") != "check":
        raise _no_baseline()
    before = _old_table(old, "result")
    listed = before.get("releases")
    if not isinstance(listed, list) or not all(
        isinstance(r, Mapping) and isinstance(r.get("name"), str) for r in listed
    ):
        raise _no_baseline()
    then = {release["name"]: release for release in listed}
    now = {release["name"]: release for release in new["releases"]}
    moved = []
    for name in sorted(now.keys() & then.keys()):
        old_ends, ends = _old_table(then[name], "epsilon_alone"), interval_json(now[name]["epsilon_alone"])
        change: dict[str, Any] = {"release": name}
        if _differ(old_ends, ends):
            change |= {"from": _end(old_ends, "upper"), "to": ends.get("upper")}
        if then[name].get("status") != now[name]["status"]:
            change["status"] = {"from": str(then[name].get("status")), "to": now[name]["status"]}
        if len(change) > 1:
            moved.append(change)
    old_total, total = _old_table(before, "epsilon"), new["epsilon"]
    return {
        "verdict": {"from": str(before.get("verdict")), "to": new["verdict"]},
        "epsilon": {
            "from": _end(old_total, "upper"), "to": total.get("upper"), "changed": _differ(old_total, total),
        },
        "added": sorted(now.keys() - then.keys()),
        "removed": sorted(then.keys() - now.keys()),
        "changed": moved,
    }  # fmt: skip


def _no_baseline() -> InputError:
    return InputError("baseline", "is not a report of dpbudget check --json")


def _old_table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = data.get(key)
    if not isinstance(found, Mapping):
        raise _no_baseline()
    return found


def _end(ends: Mapping[str, Any], which: str) -> float | None:
    """One end of an interval in a report; None stands for an unbounded or a missing one."""
    value = ends.get(which)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise _no_baseline()
    return float(value)


def _differ(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether the truth has moved: intervals that overlap may be one truth, computed on two machines or versions."""
    upper, other_upper = _end(old, "upper"), new.get("upper")
    lower, other_lower = _end(old, "lower"), new.get("lower")
    if upper is None or other_upper is None or not math.isfinite(other_upper):
        return (upper is None) != (other_upper is None or not math.isfinite(other_upper))
    if lower is None or other_lower is None:
        return not math.isclose(upper, other_upper, rel_tol=1e-6)
    return bool(lower > other_upper or other_lower > upper)


def _changed(changes: Mapping[str, Any] | None) -> list[str]:
    if changes is None:
        return []
    before, after = changes["epsilon"]["from"], changes["epsilon"]["to"]
    if not changes["epsilon"]["changed"]:
        text = "Against the baseline: epsilon is what it was."
    elif before is None or after is None or not math.isfinite(after):
        text = f"Against the baseline: epsilon {_was(before)} -> {_was(after)}."
    else:
        text = f"Against the baseline: epsilon {before:.6g} -> {after:.6g} ({after - before:+.3g})."
    for word in ("added", "removed"):
        if changes[word]:
            text += f" {word.capitalize()}: {', '.join(changes[word])}."
    if changes["changed"]:
        text += f" Changed: {', '.join(_moved(item) for item in changes['changed'])}."
    return [text]


def _moved(item: Mapping[str, Any]) -> str:
    parts = []
    if "to" in item:
        parts.append(f"epsilon alone {_was(item['from'])} -> {_was(item['to'])}")
    if "status" in item:
        parts.append(f"{item['status']['from']} -> {item['status']['to']}")
    return f"{item['release']} ({'; '.join(parts)})"


def _was(value: float | None) -> str:
    return "unbounded" if value is None or not math.isfinite(value) else f"{value:.6g}"


# --- status, solve ----------------------------------------------------------------------------------------------------


def begun(document: BudgetDocument) -> Report:
    """What `init` has written."""
    budget = document.budget
    return Report(
        command="init",
        input={"file": _file(document)},
        assumptions={"adjacency": str(budget.adjacency), "unit": budget.unit, "covers": "nothing yet"},
        result={"budget": _budget_json(document)},
        headline="wrote {}: a budget of epsilon {} at delta {}",
        answers=[document.filename, Quantity(budget.epsilon), Quantity(budget.delta)],
        value=Quantity(budget.epsilon),
        notes=[
            f"Describe your releases in {document.filename}. Then:",
            f"dpbudget solve {document.filename} --write",
            f"dpbudget check {document.filename}",
        ],
    )


def status(document: BudgetDocument, *, tolerance: float = account.DEFAULT_TOLERANCE) -> Report:
    """Spent, planned, left. An unknown is left out of the plan and said so."""
    ready = [entry for entry in document.releases if entry.unknown is None]
    planned = Plan(document, tolerance)
    planned.prove()
    budget = document.budget
    spent = planned.total([entry for entry in ready if entry.status == "spent"])
    plans = planned.total([entry for entry in ready if entry.status == "planned"])
    total = planned.total(ready)
    upper = total.value.upper
    left = 0.0 if upper is None or not math.isfinite(upper) else max(0.0, budget.epsilon - upper)
    left_after_spent = 0.0
    if spent.value.upper is not None and math.isfinite(spent.value.upper):
        left_after_spent = max(0.0, budget.epsilon - spent.value.upper)
    rows: list[list[Cell]] = [
        ["spent", Range(spent.value)],
        ["planned, alone", Range(plans.value)],
        ["spent and planned", Range(total.value)],
        ["budget", Quantity(budget.epsilon)],
        ["left of it, nothing planned", Quantity(left_after_spent, Rounding.DOWN)],
        ["left of it, all planned", Quantity(left, Rounding.DOWN)],
    ]
    warnings = _delta_notice(document)
    if document.unknown is not None:
        entry, key = document.unknown
        warnings.append(
            Notice(
                "unknown",
                f'release "{entry.name}" is left out: its {key} is still to be solved for',
                f"Run dpbudget solve {document.filename}.",
            )
        )
    return Report(
        command="status",
        input={"file": _file(document)},
        assumptions=_assumptions_json(planned),
        result={
            "budget": _budget_json(document),
            "composition": "rdp-filter" if budget.adaptive else "fixed",
            "verdict": verdict(total, budget.epsilon),
            "spent": spent.value,
            "planned": plans.value,
            "total": total.value,
            "left": left,
        },
        headline="{} of epsilon {} spent, {} with what is planned, at delta {}",
        answers=[
            Quantity(spent.value.upper, Rounding.UP), Quantity(budget.epsilon), Quantity(upper, Rounding.UP),
            Quantity(budget.delta),
        ],
        value=Quantity(left, Rounding.DOWN),
        facts=[("budget", bar(spent.value.upper, upper, budget.epsilon), "# spent, + planned, . left")],
        main=Table(("part", "epsilon"), rows),
        subject=_subject(planned, total),
        notes=["Privacy does not add up linearly: what is left after a plan is not what a new release may cost alone.",
               _assumptions(planned)],
        warnings=warnings,
        status="ok" if verdict(total, budget.epsilon) == "within" else "over",
    )  # fmt: skip


def shows(upper: float | None, document: BudgetDocument) -> bool:
    """Whether a proven upper end is within the budget; NaN and None are not."""
    return upper is not None and upper <= document.budget.epsilon


def shown_up(value: float | None) -> str:
    """For messages: six significant digits, never below the value."""
    if value is None or not math.isfinite(value):
        return "without bound"
    return f"{value * (1 + 1e-6):.6g}"


def bar(spent: float | None, total: float | None, budget: float, width: int = 30) -> str:
    """`[#####+++......]`; rounded so that something spent shows and an overspent budget is full and marked."""

    def cells(value: float | None) -> int:
        if value is None or not math.isfinite(value) or budget <= 0:
            return width
        return min(width, math.ceil(width * value / budget - 1e-9)) if value > 0 else 0

    used = cells(spent)
    planned = max(0, cells(total) - used)
    over = total is None or total > budget
    return f"[{'#' * used}{'+' * planned}{'.' * (width - used - planned)}]{'!' if over else ''}"


def find(document: BudgetDocument, *, tolerance: float = account.DEFAULT_TOLERANCE, digits: int = 5) -> Report:
    """The one unknown of the file, everything else as it is; the proven side, on the grid of `digits`."""
    if document.unknown is None:
        raise BudgetFileError(
            [
                Problem(
                    document.filename,
                    1,
                    "has no unknown",
                    suggestion='Write "solve" for one value, for example noise_multiplier = "solve".',
                )
            ]
        )
    entry, parameter = document.unknown
    knob = KNOBS.get((entry.mechanism, parameter))
    planned = Plan(document, tolerance)
    planned.prove()
    if knob is None:
        raise planned._problem(entry, parameter, "can't be solved for", "Solve for the noise, the steps or the rate.")
    budget = document.budget
    try:
        solution = _turn(planned, entry, parameter, knob, digits)
    except Infeasible as error:
        others = planned.total([other for other in document.releases if other is not entry])
        return Report(
            command="solve",
            input={"file": _file(document)},
            assumptions=_assumptions_json(planned),
            result={
                "status": "infeasible",
                "release": entry.name,
                "parameter": parameter,
                "message": error.message,
                "nearest": error.nearest,
                "epsilon_without": others.value,
            },
            headline=f"no {parameter} of {{}} fits epsilon {{}}: the other releases alone cost {{}}",
            answers=[entry.name, Quantity(budget.epsilon), Range(others.value)],
            value=Quantity(None),
            notes=[error.message[:1].upper() + error.message[1:] + ".", _assumptions(planned)],
            status="infeasible",
            exit_code=3,
        )
    value = int(solution.value) if knob.whole else solution.value
    return Report(
        command="solve",
        input={"file": _file(document)},
        assumptions=_assumptions_json(planned),
        result={
            "release": entry.name,
            "parameter": parameter,
            "value": value,
            "insufficient": None if solution.beside is None else int(solution.beside) if knob.whole else solution.beside,
            "epsilon": solution.guarantee.value,
        },
        headline=f"{{}}: {parameter} = {{}} gives a total epsilon <= {{}} at delta {{}}; the budget is {{}}",
        answers=[
            entry.name, Quantity(value), Quantity(solution.guarantee.value.upper, Rounding.UP), Quantity(budget.delta),
            Quantity(budget.epsilon),
        ],
        value=Quantity(value),
        subject=_subject(planned, solution.guarantee),
        notes=[_assumptions(planned)],
        warnings=_delta_notice(document),
    )  # fmt: skip


# --- words ------------------------------------------------------------------------------------------------------------


def _file(document: BudgetDocument) -> str:
    """The file as a report may name it on any machine: below the working directory, else its name alone."""
    path = Path(document.filename)
    if not path.is_absolute():
        return document.filename
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return path.name


def _subject(planned: Plan, total: Guarantee) -> str:
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
    return f"{value:g}" if isinstance(value, float) else str(value)


def _budget_json(document: BudgetDocument) -> dict[str, Any]:
    budget = document.budget
    return {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "adjacency": str(budget.adjacency),
        "unit": budget.unit,
        "adaptive": budget.adaptive,
    }


def _samplings(planned: Plan) -> list[str]:
    names = {str(e.parameters.get("sampling", "poisson")) for e in planned.document.releases if e.mechanism == "dp-sgd"}
    return sorted(names)


def _assumptions_json(planned: Plan) -> dict[str, Any]:
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
    }


def _assumptions(planned: Plan) -> str:
    budget = planned.document.budget
    sampling = ", ".join(_samplings(planned))
    drawn = f"; batches drawn by {sampling} sampling" if sampling else ""
    how = (
        "The releases may depend on earlier outputs: the total is that of a Renyi privacy filter"
        if budget.adaptive
        else "Composition of fixed releases: noise, rates, steps and the decision to run each were fixed without looking at "
        "earlier outputs (else write adaptive = true)"
    )
    return (
        f"Assumes: {budget.adjacency} neighbours, unit {budget.unit}{drawn}. {how}. Covers the releases in the file: not "
        "tuning or publications that are not in it, or floating-point effects of the noise."
    )


def _delta_notice(document: BudgetDocument) -> list[Notice]:
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
