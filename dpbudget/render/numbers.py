"""The only place that turns a number into text. Shortening never crosses to the unsafe side."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

from dpbudget.model import Interval
from dpbudget.report import Cell, Quantity, Range, Report, Rounding

_MODE = {Rounding.UP: ROUND_CEILING, Rounding.DOWN: ROUND_FLOOR, Rounding.NEAREST: ROUND_HALF_EVEN}


def shorten(value: float, digits: int, rounding: Rounding = Rounding.NEAREST) -> Decimal:
    """The decimal with at most `digits` significant digits on the chosen side of the double, as it is typed."""
    if rounding is Rounding.EXACT:
        return Decimal(repr(float(value))).normalize()
    return Context(prec=digits, rounding=_MODE[rounding]).create_decimal(Decimal(repr(float(value)))).normalize()


def number(value: float | int | None, digits: int, rounding: Rounding = Rounding.NEAREST) -> str:
    """Readable decimal text that parses back; whole ints keep every digit."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    short = shorten(value, digits, rounding)
    if short == 0:
        return "0"
    exponent = short.adjusted()
    if -4 <= exponent < max(digits, 7):
        return f"{short:f}"
    mantissa = short.scaleb(-exponent).normalize()
    return f"{mantissa:f}e{exponent}"


def quantity(item: Quantity, digits: int) -> str:
    value, beside = item.value, item.beside
    if value is not None and beside is not None and math.isfinite(value):
        limit = Decimal(repr(float(beside)))
        while digits < 17 and (shorten(value, digits, item.rounding) <= limit) != (value <= beside):
            digits += 1
    return number(value, digits, item.rounding)


def interval(ends: Interval, digits: int) -> str:
    """`2.3850 to 2.3852`, `<= 2.6004`, `about 2.33`; one number where both ends agree."""
    if ends.upper is None:
        return "-" if ends.estimate is None else f"about {number(ends.estimate, digits)}"
    upper = number(ends.upper, digits, Rounding.UP)
    if ends.lower is None or ends.upper == math.inf:
        return f"<= {upper}" if ends.upper != math.inf else "unbounded"
    lower = number(ends.lower, digits, Rounding.DOWN)
    return upper if lower == upper else f"{lower} to {upper}"


def answer(report: Report, digits: int) -> str:
    """The headline with its numbers."""
    return report.headline.format(*(cell(item, digits) for item in report.answers))


def cell(item: Cell, digits: int) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, Range):
        return interval(item.interval, digits)
    return quantity(item, digits)
