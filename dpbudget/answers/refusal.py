"""No value meets the target: the one report that says so, with the nearest target that can be met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpbudget.errors import Infeasible
from dpbudget.report import Cell, Quantity, Report, Rounding


def infeasible(
    command: str,
    error: Infeasible,
    *,
    input: Mapping[str, Any],
    assumptions: Mapping[str, Any],
    quantity: str = "epsilon",
    rounding: Rounding = Rounding.UP,
    facts: Sequence[tuple[str, Cell, str]] = (),
    notes: Sequence[str] = (),
) -> Report:
    """quantity: the key of `error.nearest` that was asked for; rounding: the side on which it can be met as printed."""
    nearest = error.nearest.get(quantity)
    hint = "" if nearest is None else f" The nearest feasible target is {quantity.removeprefix('target_')} {{0}}."
    return Report(
        command=command,
        input=dict(input),
        assumptions=dict(assumptions),
        result={"status": "infeasible", "message": error.message, "nearest": error.nearest},
        headline=error.message.replace("{", "(").replace("}", ")") + "." + hint,
        answers=[Quantity(nearest, rounding)],
        value=Quantity(None),
        facts=list(facts),
        notes=[*notes, *([error.hint] if error.hint else [])],
        status="infeasible",
        exit_code=error.exit_code,
    )
