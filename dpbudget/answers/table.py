"""The budget table: one question asked over a grid of parameters. A bad cell says why and does not sink the table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dpbudget.accounting import account, solve
from dpbudget.accounting.account import Ledger
from dpbudget.accounting.solve import Target
from dpbudget.answers import words
from dpbudget.checks import real
from dpbudget.errors import DpbudgetError, InputError
from dpbudget.model import Guarantee, Interval, Kind
from dpbudget.report import Cell, Notice, Quantity, Range, Report, Rounding, Table, interval_json
from dpbudget.run import Run, resolve, setting

Progress = Callable[[int, int], None]
WHOLE = ("steps", "batch_size", "dataset_size")


@dataclass
class _Row:
    accountant: str
    cell: dict[str, Any]
    guarantee: Guarantee | None = None
    answer: float | None = None
    error: str = ""

    def interval(self) -> Interval:
        return Interval(None, None) if self.guarantee is None else self.guarantee.value


@dataclass
class _Question:
    """What every cell is asked: epsilon, or the unknown that meets the epsilon of the cell."""

    given: Mapping[str, Any]
    accountants: Sequence[str]
    tolerance: float
    digits: int
    unknown: str = ""
    history: Sequence[tuple[float, float, int]] = ()
    sample: Run | None = field(default=None)

    @property
    def several(self) -> bool:
        return len(self.accountants) > 1

    def run(self, cell: Mapping[str, Any]) -> Run:
        run = resolve({**self.given, **cell}, unknown=self.unknown, history=self.history)
        self.sample = self.sample or run
        return run

    def costs(self, cell: Mapping[str, Any], accountant: str, deltas: Sequence[float]) -> list[Guarantee]:
        run = self.run(cell)
        ledger = Ledger.of(run.releases(), run.adjacency)
        return account.epsilons(ledger, deltas, accountant=accountant, tolerance=self.tolerance)

    def solved(self, cell: Mapping[str, Any], accountant: str, epsilon: float, delta: float) -> solve.Solution:
        run = self.run(cell)
        target = Target(epsilon, delta, accountant, self.tolerance)

        def ledger(**unknown: Any) -> Ledger:
            return Ledger.of(run.releases(**unknown), run.adjacency)

        if self.unknown == "noise_multiplier":
            return solve.sigma(lambda s: ledger(noise_multiplier=s), target, digits=self.digits)
        if self.unknown == "steps":
            return solve.steps(lambda t: ledger(steps=t), target)
        return solve.rate(lambda q: ledger(sampling_rate=q), target, digits=self.digits)


def table(
    given: Mapping[str, Any],
    axes: Mapping[str, Sequence[Fraction]],
    *,
    accountants: Sequence[str],
    tolerance: float,
    digits: int,
    max_epsilon: float | None = None,
    history: Sequence[tuple[float, float, int]] = (),
    progress: Progress = lambda done, total: None,
) -> Report:
    """Epsilon over the product of the axes, or, where `epsilon` is an axis, the noise, steps or rate that meets it.

    Several accountants are one more axis, the innermost but delta. An interrupt ends the table early and keeps what is done.
    """
    unknown = _unknown({**given, **axes}) if "epsilon" in axes else ""
    question = _Question(given, accountants, tolerance, digits, unknown, history)
    total = math.prod(len(values) for values in axes.values()) * len(accountants)
    rows: list[_Row] = []
    interrupted = False
    try:
        for row in _rows(question, axes):
            rows.append(row)
            progress(len(rows), total)
    except KeyboardInterrupt:
        interrupted = True
    return _report(question, axes, rows, total, interrupted, max_epsilon)


def _unknown(known: Mapping[str, Any]) -> str:
    pairs = (("noise_multiplier", "noise_std"), ("steps", "epochs"), ("sampling_rate", "batch_size"))
    open_ = [first for first, second in pairs if known.get(first) is None and known.get(second) is None]
    if len(open_) != 1:
        raise InputError(
            "epsilon",
            "as a target leaves one of noise, steps and rate to be solved for; leave out exactly one",
            hint="For example: dpbudget table --epsilon 1,2,4 -q 0.01 -t 1000,10000 -d 1e-5 solves for the noise.",
        )
    return open_[0]


def _rows(question: _Question, axes: Mapping[str, Sequence[Fraction]]) -> Iterable[_Row]:
    """In the order of the axes, accountants and deltas innermost."""
    outer = [name for name in axes if name != "delta"]
    deltas = [real("delta", d) for d in axes["delta"]]
    grid = itertools.product(*(axes[name] for name in outer))
    for values, accountant in itertools.product(grid, question.accountants):
        exact = dict(zip(outer, values, strict=True))
        cell = {name: int(v) if name in WHOLE and v.denominator == 1 else float(v) for name, v in exact.items()}
        target = exact.pop("epsilon", None)
        rows = [_Row(accountant, {**cell, "delta": d}) for d in deltas]
        try:
            if target is None:
                for row, guarantee in zip(rows, question.costs(exact, accountant, deltas), strict=True):
                    row.guarantee = guarantee
        except DpbudgetError as error:
            for row in rows:
                row.error = str(error)
        for row in rows:
            if target is not None:
                try:
                    found = question.solved(exact, accountant, float(target), row.cell["delta"])
                    row.guarantee, row.answer = found.guarantee, found.value
                except DpbudgetError as error:
                    row.error = str(error)
            yield row


def _json(question: _Question, row: _Row) -> dict[str, Any]:
    data = dict(row.cell)
    if question.several:
        data["accountant"] = row.accountant
    if question.unknown and "epsilon" in data:
        data["target_epsilon"] = data.pop("epsilon")
    if row.answer is not None:
        data[question.unknown] = int(row.answer) if question.unknown == "steps" else row.answer
    if row.guarantee is not None:
        data["epsilon"] = interval_json(row.guarantee.value)
        if row.guarantee.value.upper == math.inf:
            data["status"] = "unbounded"
    if row.error:
        data["error"] = row.error
    return data


def _least_proven(rows: Sequence[_Row]) -> list[float | None]:
    """For each cell the least upper end that an accountant proves; None where none does."""
    cells: dict[tuple[Any, ...], float | None] = {}
    for row in rows:
        key = tuple(row.cell.values())
        known = [u for u in (cells.get(key), row.interval().upper) if u is not None]
        cells[key] = min(known, default=None)
    return list(cells.values())


def _report(
    question: _Question,
    axes: Mapping[str, Sequence[Fraction]],
    rows: Sequence[_Row],
    total: int,
    interrupted: bool,
    max_epsilon: float | None,
) -> Report:
    varying = [name for name in axes if len(axes[name]) > 1]
    fixed = {name: float(axes[name][0]) for name in axes if len(axes[name]) == 1}
    labels = {"epsilon": "target epsilon"} if question.unknown else {}
    columns = [labels.get(name, name.replace("_", " ")) for name in varying]
    columns += ["accountant"] if question.several else []
    columns += [question.unknown.replace("_", " ")] if question.unknown else []
    body: list[list[Cell]] = []
    for row in rows:
        line: list[Cell] = [words.typed(name, row.cell[name]) for name in varying]
        line += [row.accountant] if question.several else []
        if question.unknown:
            whole = question.unknown == "steps" and row.answer is not None
            line.append(Quantity(int(row.answer) if whole and row.answer is not None else row.answer))
        body.append([*line, Range(row.interval()), row.error])
    failed = sum(bool(row.error) for row in rows)
    uppers = _least_proven(rows)
    exceeded = max_epsilon is not None and not all(u is not None and u <= max_epsilon for u in uppers)
    estimates = [name for name in question.accountants if account.get(name).kind is Kind.ESTIMATE]
    only_estimates = len(estimates) == len(question.accountants)
    warnings = []
    if interrupted:
        warnings.append(Notice("interrupted", f"{len(rows)} of {total} cells were computed before the interrupt"))
    if failed:
        warnings.append(Notice("cells-failed", f"{failed} of {len(rows)} cells have no answer; each says why"))
    warnings += [Notice("estimate", f"{name} is an estimate and proves nothing", "Use pld.") for name in estimates]
    exit_code = 130 if interrupted else 3 if exceeded else 4 if only_estimates else 2 if failed == len(rows) > 0 else 0
    sample = question.sample or setting(question.given)
    names = ",".join(question.accountants)
    listed = {name: [_plain(name, v) for v in axes[name]] for name in axes}
    return Report(
        command="table",
        input={**{k: v for k, v in question.given.items() if v is not None}, **fixed},
        assumptions=sample.assumptions(),
        result={
            **({} if question.several else {"accountant": names}),
            "axes": {**listed, "accountant": list(question.accountants)} if question.several else listed,
            "rows": [_json(question, row) for row in rows],
        },
        headline="{0} cells by {1}" + (" - some above --max-epsilon {2}" if exceeded else ""),
        answers=[Quantity(len(rows)), names, Quantity(max_epsilon, Rounding.EXACT)],
        value=Quantity(None if None in uppers else max(filter(None, uppers), default=0.0), Rounding.UP),
        facts=[(name.replace("_", " "), words.typed(name, value), "") for name, value in fixed.items()],
        main=Table([*columns, "epsilon", "remark"], body),
        notes=[words.assumptions(sample)],
        explanation=[words.PARAMETERS],
        warnings=warnings,
        status="interrupted" if interrupted else "exceeded" if exceeded else "ok",
        exit_code=exit_code,
    )


def _plain(name: str, value: Fraction) -> float | int:
    return int(value) if name in WHOLE and value.denominator == 1 else float(value)
