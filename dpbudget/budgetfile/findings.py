"""Collecting what is wrong with a budget file, so that one run reports all of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from dpbudget.budgetfile.document import BudgetFileError, Problem
from dpbudget.budgetfile.keys import COMMON_KEYS, MECHANISMS
from dpbudget.budgetfile.tomlscan import Layout
from dpbudget.budgetfile.values import Key, Value, suggestion
from dpbudget.errors import InputError

MAX_PROBLEMS = 300


@dataclass(slots=True)
class Findings:
    """The problems of one file so far, and where its keys stand."""

    filename: str
    layout: Layout
    problems: list[Problem] = field(default_factory=list)

    def add(self, line: int, message: str, *, where: str = "", key: str = "", hint: str = "") -> None:
        """Note a problem, once. Raises BudgetFileError when there are so many that the rest would not be read."""
        problem = Problem(self.filename, line, message, where, key, hint)
        if problem not in self.problems:
            self.problems.append(problem)
        if len(self.problems) >= MAX_PROBLEMS:
            last = Problem(self.filename, line, "too many problems; reading stops here")
            raise BudgetFileError([*self.problems, last])

    def value(self, key: Key, name: str, value: Any, line: int, where: str) -> Value | None:
        """The checked value, or None after noting what is wrong with it."""
        if not isinstance(value, bool | int | float | str):
            kind = "a table" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a date or time"
            self.add(line, f"must be a single value, not {kind}", where=where, key=name)
            return None
        try:
            return key.check(name, value)
        except InputError as error:
            self.add(line, error.message, where=where, key=name, hint=file_words(error.hint))
            return None


_OPTION = re.compile(r"--([a-z][a-z-]*)(?: ([A-Z0-9][A-Za-z0-9]*))?")


def file_words(hint: str) -> str:
    """A hint that speaks of command-line options, in the words of the file.

    >>> file_words("If 256 is a batch size, pass --batch-size 256 --dataset-size N.")
    'If 256 is a batch size, set batch_size = 256, dataset_size = N.'
    """
    hint = re.sub(r"\b([Pp])ass (?=--)", lambda match: "Set " if match[1] == "P" else "set ", hint)
    hint = re.sub(r"(--[a-z-]+ [A-Z0-9][A-Za-z0-9]*) (?=--)", r"\1, ", hint)
    return _OPTION.sub(lambda match: match[1].replace("-", "_") + (f" = {match[2]}" if match[2] else ""), hint)


def where_it_belongs(key: str, known: Iterable[str], budget_keys: Iterable[str]) -> str:
    """The way out for an unknown key: a word that looks like it, the section that knows it, or the words known here."""
    words = list(known)
    if close := suggestion(key, words):
        return close
    if key in budget_keys:
        return "It belongs in [budget]."
    if key in COMMON_KEYS or any(key in spec.keys for spec in MECHANISMS.values()):
        return "It belongs in a [[release]] or in [defaults]."
    return "Known here: " + ", ".join(words) + "."
