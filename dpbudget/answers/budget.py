"""A budget file begun, how much of it is spent and planned, and its one unknown solved for."""

from __future__ import annotations

import math
import shlex
from decimal import ROUND_CEILING

from dpbudget import checks
from dpbudget.accounting import account
from dpbudget.answers import words
from dpbudget.answers.filecost import KNOBS, Plan, turn, verdict
from dpbudget.answers.filewords import assumptions, assumptions_json, budget_json, delta_notice, file_name, subject
from dpbudget.budgetfile.document import BudgetDocument, BudgetFileError, Problem
from dpbudget.budgetfile.values import quoted
from dpbudget.errors import Infeasible, InputError
from dpbudget.model import Sampling
from dpbudget.report import Cell, Notice, Quantity, Range, Report, Rounding, Table


def begun(document: BudgetDocument) -> Report:
    """What `init` has written."""
    budget = document.budget
    file = shlex.quote(document.filename) if document.filename.isprintable() else "FILE"
    return Report(
        command="init",
        input={"file": file_name(document)},
        assumptions={"adjacency": str(budget.adjacency), "unit": budget.unit, "covers": "nothing yet"},
        result={"budget": budget_json(document)},
        headline="wrote {0}: a budget of epsilon {1} at delta {2}",
        answers=[document.filename, Quantity(budget.epsilon, Rounding.EXACT), Quantity(budget.delta, Rounding.EXACT)],
        value=Quantity(budget.epsilon, Rounding.EXACT),
        verbatim=f'dpbudget solve {file} --write  # fills in the value that is marked "solve"\n'
        f"dpbudget check {file}          # do all releases fit the budget?",
        notes=[f"Describe your releases in {document.filename} first."],
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
        ["budget", Quantity(budget.epsilon, Rounding.EXACT)],
        ["left of it, nothing planned", Quantity(left_after_spent, Rounding.DOWN)],
        ["left of it, all planned", Quantity(left, Rounding.DOWN)],
    ]
    warnings = delta_notice(document)
    if document.unknown is not None:
        entry, key = document.unknown
        warnings.append(
            Notice(
                "unknown",
                f'release "{quoted(entry.name)}" is left out: its {key} is still to be solved for',
                f"Run dpbudget solve {document.filename}.",
            )
        )
    return Report(
        command="status",
        input={"file": file_name(document)},
        assumptions=assumptions_json(planned),
        result={
            "budget": budget_json(document),
            "composition": "rdp-filter" if budget.adaptive else "fixed",
            "verdict": verdict(total, budget.epsilon),
            "spent": spent.value,
            "planned": plans.value,
            "total": total.value,
            "left": left,
        },
        headline="{0} of epsilon {1} spent, {2} with what is planned, at delta {3}",
        answers=[
            Quantity(spent.value.upper, Rounding.UP), Quantity(budget.epsilon, Rounding.EXACT), Quantity(upper, Rounding.UP),
            Quantity(budget.delta, Rounding.EXACT),
        ],
        value=Quantity(left, Rounding.DOWN),
        facts=[("budget", bar(spent.value.upper, upper, budget.epsilon), "# spent, + planned, . left")],
        main=Table(("part", "epsilon"), rows),
        subject=subject(planned, total),
        notes=["Privacy does not add up linearly: what is left after a plan is not what a new release may cost alone.",
               assumptions(planned)],
        warnings=warnings,
        status="ok" if verdict(total, budget.epsilon) == "within" else "over",
    )  # fmt: skip


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
        raise planned.problem(entry, parameter, "can't be solved for", "Solve for the noise, the steps or the rate.")
    if parameter == "sampling_rate":
        try:
            checks.free_rate(Sampling(str(entry.parameters.get("sampling", Sampling.POISSON))))
        except InputError as error:
            raise planned.problem(entry, parameter, error.message, error.hint) from None
    budget = document.budget
    try:
        solution = turn(planned, entry, parameter, knob, digits)
    except Infeasible as error:
        others = planned.total([other for other in document.releases if other is not entry])
        return Report(
            command="solve",
            input={"file": file_name(document)},
            assumptions=assumptions_json(planned),
            result={
                "status": "infeasible",
                "release": entry.name,
                "parameter": parameter,
                "message": error.message,
                "nearest": error.nearest,
                "epsilon_without": others.value,
            },
            headline=f"no {parameter} of {{0}} fits epsilon {{1}}: the other releases alone cost {{2}}",
            answers=[entry.name, Quantity(budget.epsilon, Rounding.EXACT), Range(others.value)],
            value=Quantity(None),
            notes=[error.message[:1].upper() + error.message[1:] + ".", assumptions(planned)],
            status="infeasible",
            exit_code=3,
        )
    value = int(solution.value) if knob.whole else solution.value
    return Report(
        command="solve",
        input={"file": file_name(document)},
        assumptions=assumptions_json(planned),
        result={
            "release": entry.name,
            "parameter": parameter,
            "value": value,
            "insufficient": None if solution.beside is None else int(solution.beside) if knob.whole else solution.beside,
            "epsilon": solution.guarantee.value,
        },
        headline=f"{{0}}: {parameter} = {{1}} gives a total epsilon <= {{2}} at delta {{3}}; the budget is {{4}}",
        answers=[
            entry.name, Quantity(value, Rounding.EXACT),
            Quantity(solution.guarantee.value.upper, Rounding.UP, budget.epsilon), Quantity(budget.delta, Rounding.EXACT),
            Quantity(budget.epsilon, Rounding.EXACT),
        ],
        value=Quantity(value, Rounding.EXACT),
        subject=subject(planned, solution.guarantee),
        notes=[assumptions(planned)],
        warnings=delta_notice(document),
    )  # fmt: skip


def shows(upper: float | None, document: BudgetDocument) -> bool:
    """Whether a proven upper end is within the budget; NaN and None are not."""
    return upper is not None and upper <= document.budget.epsilon


def shown_up(value: float | None) -> str:
    """For messages: six significant digits, never below the value."""
    if value is None or not math.isfinite(value):
        return "without bound"
    return words.rounded(value, 6, ROUND_CEILING)


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
