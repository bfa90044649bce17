"""Monotone search on a grid that people can type: find with a cheap guess, prove with a certified evaluation.

Every function returns the proven side: the value that it hands back passed `passes`, the neighbour did not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

Passes = Callable[[int], bool]


def least(passes: Passes, guess: int, low: int, high: int) -> int | None:
    """The least index in [low, high] that passes, for a test that fails below some index and passes from it on.

    None where not even `high` passes. Gallops from `guess`, then bisects: two tests where the guess is right.
    Where the test is not quite monotone, the answer still passes and the index below it still fails.
    """
    guess = min(max(guess, low), high)
    step = 1
    if passes(guess):
        good = guess
        while good > low:
            trial = max(low, good - step)
            if not passes(trial):
                bad = trial
                break
            good, step = trial, step * 4
        else:
            return good
    else:
        bad = guess
        while bad < high:
            trial = min(high, bad + step)
            if passes(trial):
                good = trial
                break
            bad, step = trial, step * 4
        else:
            return None
    while good - bad > 1:
        middle = (good + bad) // 2
        if passes(middle):
            good = middle
        else:
            bad = middle
    return good


def most(passes: Passes, guess: int, low: int, high: int) -> int | None:
    """The greatest index in [low, high] that passes, for a test that passes up to some index. See `least`."""
    found = least(lambda i: passes(-i), -guess, -high, -low)
    return None if found is None else -found


@dataclass(frozen=True)
class DecimalGrid:
    """The positive decimals with `digits` significant digits, numbered in increasing order."""

    digits: int

    def value(self, index: int) -> float:
        """The double nearest to decimal number `index`: exactly what typing the printed text back gives."""
        block = 9 * 10 ** (self.digits - 1)
        exponent, offset = divmod(index, block)
        return float(f"{10 ** (self.digits - 1) + offset}e{exponent - self.digits + 1}")

    def near(self, value: float) -> int:
        """The index of the decimal nearest to value > 0."""
        mantissa, exponent = f"{value:.{self.digits - 1}e}".split("e")
        block = 10 ** (self.digits - 1)
        return int(exponent) * 9 * int(block) + int(mantissa.replace(".", "")) - int(block)

    def at_most(self, value: float) -> int:
        index = self.near(value)
        return index if self.value(index) <= value else index - 1


def next_share(a: float, b: float, c: float, fa: float, fb: float, fc: float) -> float:
    """Where to look next for a root between a and b, as a share of the way from a to b; c is the point given up last.

    Chandrupatla 1997 (Advances in Engineering Software 28): inverse quadratic interpolation where the three values are
    fit for it, the middle where not, values that are infinite included.
    """
    xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
    if phi * phi < xi and (1 - phi) * (1 - phi) < 1 - xi:
        return fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return 0.5


def crossing(
    function: Callable[[float], float],
    target: float,
    start: float,
    *,
    rising: bool,
    low: float,
    high: float,
    relative: float = 1e-7,
    evaluations: int = 60,
) -> float:
    """About where a monotone positive function crosses `target`, on [low, high]; a guess, never a proof.

    Works on logarithms of argument and value: doubling steps to bracket, then `next_share`. Values of 0, infinity and NaN
    count as very small, very large and very large.
    """

    def height(x: float) -> float:
        value = function(math.exp(x))
        if math.isnan(value) or value == math.inf:
            level = 60.0
        else:
            level = min(60.0, max(-60.0, math.log(max(value, 1e-300)) - math.log(max(target, 1e-300))))
        return level if rising else -level

    floor, ceiling = math.log(low), math.log(high)
    x = min(max(math.log(start), floor), ceiling)
    y = height(x)
    used, step = 1, 0.2 if abs(y) < 1 else 0.7
    other, y_other = x, y
    while y * y_other > 0 and used < evaluations:
        x, y = other, y_other
        other = min(ceiling, x + step) if y < 0 else max(floor, x - step)
        if other == x:
            return math.exp(x)
        y_other = height(other)
        used, step = used + 1, step * 2
    a, b, ya, yb = x, other, y, y_other
    t = ya / (ya - yb) if ya != yb else 0.5
    while ya * yb < 0 and abs(b - a) > relative and used < evaluations:
        x = a + min(max(t, relative / abs(b - a) / 2), 1 - relative / abs(b - a) / 2) * (b - a)
        y = height(x)
        used += 1
        if y * ya > 0:
            c, yc = a, ya
        else:
            c, b, yc, yb = b, a, yb, ya
        a, ya = x, y
        if abs(ya) < relative / 10:
            break
        t = next_share(a, b, c, ya, yb, yc)
    return math.exp(a if abs(ya) < abs(yb) else b)
