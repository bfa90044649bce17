"""Every error that dpbudget raises on purpose, and the exit code that each one means.

DpbudgetError
  InputError          2   a value or a combination that has no meaning; names the parameter and the way out
  Infeasible          3   no value meets the target; carries the nearest target that can be met
  NotCertified        4   there is no finite certified bound: unbounded, only an estimate, a limit reached
  ContradictionError 70   certified engines contradict each other: a defect in dpbudget
"""

from __future__ import annotations

from collections.abc import Mapping


class DpbudgetError(Exception):
    """Base of all deliberate errors. `hint` is the way out: what to type or change instead."""

    exit_code = 70

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(DpbudgetError, ValueError):
    """A parameter is out of range, missing, or contradicts another one.

    `parameter` is the Python name ("sampling_rate"); the command line prints it as its option.
    """

    exit_code = 2

    def __init__(self, parameter: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.parameter = parameter

    def __str__(self) -> str:
        return f"{self.parameter}: {self.message}" if self.parameter else self.message


class Infeasible(DpbudgetError):
    """No value of the unknown meets the target. `nearest` holds the nearest feasible target, by JSON key."""

    exit_code = 3

    def __init__(self, message: str, *, hint: str = "", nearest: Mapping[str, float] | None = None) -> None:
        super().__init__(message, hint=hint)
        self.nearest = dict(nearest or {})


class NotCertified(DpbudgetError):
    """No finite certified bound exists or was reached; never to be replaced by a number."""

    exit_code = 4


class ContradictionError(DpbudgetError):
    """Two certified statements exclude each other. This is a defect: no result is reported."""

    exit_code = 70
