"""Grids of parameters as people type them: `a,b,c`, `lo:hi:count`, `log:lo:hi:count`."""

from __future__ import annotations

import math
from fractions import Fraction

from dpbudget import checks
from dpbudget.errors import InputError

MOST_VALUES = 100_000
WHOLE = ("steps", "batch_size", "dataset_size")


def values(parameter: str, text: str) -> list[Fraction]:
    """All values that the text stands for, in the order typed, without repeats.

    Ranges include both ends. Values between the ends of a range of whole numbers (steps, batch sizes) are rounded to
    whole numbers. Raises InputError on a malformed or huge range.
    """
    found: dict[Fraction, None] = {}
    for part in text.split(","):
        for value in _range(parameter, part.strip()) if ":" in part else [checks.number(parameter, part)]:
            found[value] = None
        if len(found) > MOST_VALUES:
            raise InputError(parameter, f"stands for more than {MOST_VALUES:,} values")
    return list(found)


def _range(parameter: str, text: str) -> list[Fraction]:
    pieces = text.split(":")
    geometric = pieces[0] == "log"
    if geometric:
        pieces = pieces[1:]
    if len(pieces) != 3:
        example = f"{':'.join(pieces[:2])}:5" if len(pieces) == 2 else "0.8:2:5"
        raise InputError(
            parameter, f"{text!r} is not a range", hint=f"Write lo:hi:count or log:lo:hi:count, for example {example}."
        )
    low, high = (checks.number(parameter, piece) for piece in pieces[:2])
    third = checks.number(parameter, pieces[2])
    if third.denominator != 1 and not geometric and 0 < third < abs(high - low):
        steps = round(abs(high - low) / third) + 1
        raise InputError(
            parameter, f"{text!r} ends with a step; the third part is how many values there are",
            hint=f"Write {pieces[0]}:{pieces[1]}:{steps}.",
        )  # fmt: skip
    count = checks.whole(parameter, third, least=1, most=MOST_VALUES)
    if count == 1:
        return [low]
    if geometric:
        if not (low > 0 and high > 0):
            raise InputError(parameter, f"{text!r}: a geometric range needs positive ends")
        ratio = math.log(float(high) / float(low)) / (count - 1)
        inner = [_tidy(float(low) * math.exp(ratio * i)) for i in range(1, count - 1)]
    else:
        inner = [low + (high - low) * i / (count - 1) for i in range(1, count - 1)]
    if parameter in WHOLE:
        inner = [Fraction(round(value)) for value in inner]
    return [low, *inner, high]


def _tidy(value: float) -> Fraction:
    """Six significant digits: a geometric range has no exact decimals, and nobody wants to retype seventeen."""
    return Fraction(f"{value:.6g}")
