"""A budget file as something to count: its releases as ledgers, its verdict, and the keys that can be turned to fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dpbudget.accounting import account, filter, solve
from dpbudget.accounting.account import Ledger, Parallel
from dpbudget.accounting.solve import Solution, Target
from dpbudget.budgetfile.document import BudgetDocument, BudgetFileError, DocumentRelease, Problem, to_releases
from dpbudget.budgetfile.findings import file_words
from dpbudget.budgetfile.values import quoted
from dpbudget.checks import MAX_STEPS
from dpbudget.errors import InputError
from dpbudget.model import Adjacency, Guarantee, Release

MOST_PARTITIONS = 100
"""Each one is composed by itself. Equal ones are one."""

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
    known: dict[tuple[Ledger | Parallel, float], Guarantee] = field(default_factory=dict, compare=False, repr=False)

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
                    raise self.problem(
                        entry,
                        "partition",
                        "under replace-one a replaced record may change its partition, which touches both",
                        "Write partition_fixed = true if it can't, or drop the partition.",
                    )
                partitions.setdefault(entry.partition, []).extend(self._releases(entry))
        if not partitions:
            return Ledger.of(common, adjacency)
        ledgers = dict.fromkeys(Ledger.of([*common, *own], adjacency) for own in partitions.values())
        if len(ledgers) > MOST_PARTITIONS:
            message = f"{len(ledgers):,} partitions with different releases; {MOST_PARTITIONS:,} are the most"
            raise BudgetFileError([Problem(self.document.filename, 0, message, suggestion="Make partitions equal.")])
        return Parallel(tuple(ledgers))

    def prove(self) -> None:
        """Raise BudgetFileError with every release that has no proven bound under the file's adjacency."""
        found: list[Problem] = []
        for entry in self.document.releases:
            if entry.unknown is None:
                try:
                    ledger = Ledger.of(self._releases(entry), self.document.budget.adjacency)
                    if self.document.budget.adaptive:
                        filter.check(ledger)
                    ledger = ledger.without_zcdp()
                    _ = ledger.unbounded or ledger.tuned or ledger.directions
                except BudgetFileError as error:
                    found += error.problems
                except InputError as error:
                    found += self.problem(entry, error.parameter, error.message, file_words(error.hint)).problems
        if found:
            raise BudgetFileError(found)

    def _releases(self, entry: DocumentRelease) -> list[Release]:
        budget = self.document.budget
        if (
            entry.mechanism == "federated"
            and budget.unit == "example"
            and budget.adjacency is not Adjacency.REPLACE_ONE
        ):
            raise self.problem(
                entry,
                "mechanism",
                "counts whole clients, and an example that changes moves its client's update up to twice as far as one that "
                "leaves",
                'Write unit = "client", or adjacency = "replace-one".',
            )
        try:
            return to_releases(entry, budget.adjacency)
        except BudgetFileError:
            raise
        except InputError as error:
            raise self.problem(entry, error.parameter, error.message, error.hint) from None

    def problem(self, entry: DocumentRelease, key: str, message: str, hint: str) -> BudgetFileError:
        where = f'release "{quoted(entry.name)}"'
        return BudgetFileError([Problem(self.document.filename, entry.line_of(key), message, where, key, hint)])

    def total(self, entries: Sequence[DocumentRelease], tolerance: float | None = None) -> Guarantee:
        """Epsilon of the entries at the budget's delta: certified from both sides, or the filter's. Computed once."""
        budget = self.document.budget
        what = self.account(entries)
        key = what, tolerance or self.tolerance
        if key not in self.known:
            try:
                if budget.adaptive:
                    self.known[key] = filter.epsilon(what, budget.epsilon, budget.delta)
                else:
                    self.known[key] = account.epsilon(what, budget.delta, tolerance=key[1])
            except InputError as error:
                problem = Problem(self.document.filename, 0, str(error), suggestion=file_words(error.hint))
                raise BudgetFileError([problem]) from None
        return self.known[key]

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
                    f'release "{quoted(entry.name)}"',
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


def turn(planned: Plan, entry: DocumentRelease, parameter: str, knob: Knob, digits: int) -> Solution:
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
    now = current(entry, parameter)
    start = min(max(now or 1.0, low), high)
    if knob.whole:
        return solve.most_count(at, planned.target, start=int(start), high=int(high), name=parameter)
    turn = solve.most_value if knob.most else solve.least_value
    return turn(at, planned.target, digits=digits, start=start, low=low, high=high, name=parameter.replace("_", " "))


def current(entry: DocumentRelease, parameter: str) -> float | int | None:
    """The number as it is in the file; None for an unknown."""
    value = entry.parameters[parameter]
    if isinstance(value, str):
        return None
    return int(value) if isinstance(value, int) else float(value)
