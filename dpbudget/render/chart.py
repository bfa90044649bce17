"""Pictures for a terminal in plain characters: readable without colour, at 60 columns, and in a log."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpbudget.render import numbers, plain
from dpbudget.report import Picture, Series

MARKS = "*o+x#@%&"
WIDEST = 100
HEIGHT = 14
TICKS = 5


@dataclass(frozen=True)
class Axis:
    """Maps values to cells 0 .. cells - 1, on a plain or a logarithmic scale."""

    low: float
    high: float
    cells: int
    log: bool

    def share(self, value: float) -> float:
        low, high, at = (
            (math.log(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
        return 0.5 if high == low else (at - low) / (high - low)

    def cell(self, value: float) -> int:
        return min(self.cells - 1, max(0, round(self.share(value) * (self.cells - 1))))

    def ticks(self, most: int) -> list[float]:
        """At most `most` round values between the ends."""
        if not self.log:
            step = nice((self.high - self.low) / (most - 1))
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            return [k * step for k in range(first, last + 1)]
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for factors in ((1, 2, 5), (1, 3), (1,)):
            found = [f * 10.0**d for d in decades for f in factors]
            found = [v for v in found if self.low * (1 - 1e-9) <= v <= self.high * (1 + 1e-9)]
            if len(found) <= most:
                break
        thin = -(-len(found) // most)
        return found[::thin] if len(found) > 1 else [self.low, self.high]


def axis(values: Sequence[float], cells: int, log: bool, *, outwards: int = 0) -> Axis:
    """The axis that holds all values; with `outwards` its plain ends are multiples of the step of so many ticks."""
    log = log and min(values) > 0
    low, high = min(values), max(values)
    if low == high:
        low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
    if outwards and not log:
        step = nice((high - low) / (outwards - 1))
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    return Axis(low, high, cells, log)


def nice(step: float) -> float:
    """The least of 1, 2, 5 times a power of ten that is no smaller."""
    scale = 10.0 ** math.floor(math.log10(step))
    return next(m * scale for m in (1.0, 2.0, 5.0, 10.0) if m * scale >= step * (1 - 1e-9))


def draw(picture: Picture, width: int) -> str:
    """Title, plot, axis and legend; no line is wider than `width` columns."""
    width = max(40, min(width, WIDEST))
    ys = [y for s in picture.series for y in [*s.y, *s.low, *s.high]]
    xs = [x for s in picture.series for x in s.x]
    if not xs:
        return plain.paragraph(f"{picture.title}: nothing to draw", width)
    ys += [0.0] if picture.from_zero else []
    vertical = axis(ys, HEIGHT, picture.log_y, outwards=TICKS)
    heights = {vertical.cell(y): numbers.number(y, 3) for y in vertical.ticks(TICKS + 1)}
    label = max(map(len, heights.values()))
    horizontal = axis(xs, width - label - 6, picture.log_x)
    grid = [[" "] * horizontal.cells for _ in range(HEIGHT)]
    for series in picture.series:
        _band(grid, series, horizontal, vertical)
    for series, mark in zip(picture.series, MARKS * len(picture.series), strict=False):
        _series(grid, series, mark, horizontal, vertical)
    for x, y, _ in picture.marks:
        grid[vertical.cell(y)][horizontal.cell(x)] = "!"
    lines = [plain.paragraph(plain.harmless(picture.title), width), plain.paragraph(f"{picture.y_label}", width)]
    for row in reversed(range(HEIGHT)):
        tick = heights.get(row, "")
        lines.append(f"  {tick.rjust(label)} {'+' if tick else '|'}{''.join(grid[row])}".rstrip())
    lines += _below(horizontal, label, picture.x_label, width)
    return "\n".join([*lines, *_legend(picture, width)])


def _band(grid: list[list[str]], series: Series, horizontal: Axis, vertical: Axis) -> None:
    """The band of a solid line; that of a dashed one would hide it."""
    if not series.low or series.look == "dashed":
        return
    low, high = _line(series.x, series.low, horizontal), _line(series.x, series.high, horizontal)
    for column in low.keys() & high.keys():
        bottom, top = vertical.cell(low[column]), vertical.cell(high[column])
        for row in range(bottom, top + 1):
            if top > bottom:
                grid[row][column] = ":"


def _series(grid: list[list[str]], series: Series, mark: str, horizontal: Axis, vertical: Axis) -> None:
    if series.look != "points":
        dash = "-" if series.look == "dashed" else "."
        for column, y in _line(series.x, series.y, horizontal).items():
            if series.look != "dashed" or column % 3:
                grid[vertical.cell(y)][column] = dash
    if series.look != "dashed" or len(series.x) == 1:
        for x, y in zip(series.x, series.y, strict=True):
            grid[vertical.cell(y)][horizontal.cell(x)] = mark


def _line(xs: Sequence[float], ys: Sequence[float], horizontal: Axis) -> dict[int, float]:
    """y at every column between the first and the last x, straight between the points on the axis' scale."""
    found: dict[int, float] = {}
    at: Callable[[float], float] = lambda x: horizontal.share(x) * (horizontal.cells - 1)  # noqa: E731
    for left, right, y0, y1 in zip(xs, xs[1:], ys, ys[1:], strict=False):
        start, end = at(left), at(right)
        for column in range(math.ceil(start - 1e-9), math.floor(end + 1e-9) + 1):
            share = 0.0 if end == start else (column - start) / (end - start)
            found[column] = y0 + share * (y1 - y0)
    return found


def _below(horizontal: Axis, label: int, name: str, width: int) -> list[str]:
    """The horizontal axis with its ticks, and what it is. A tick whose text would run into the one before stays bare."""
    rule, text = ["-"] * horizontal.cells, [" "] * (horizontal.cells + 3)
    free = 0
    for value in horizontal.ticks(TICKS + 1):
        cell, tick = horizontal.cell(value), numbers.number(value, 3)
        start = min(max(0, cell + 1 - len(tick) // 2), len(text) - len(tick))
        rule[cell] = "+"
        if start >= free:
            text[start : start + len(tick)] = tick
            free = start + len(tick) + 1
    margin = " " * (label + 3)
    lines = [f"{margin}+{''.join(rule)}", f"{margin}{''.join(text)}".rstrip()]
    return [*lines, *plain.paragraph(name, width, margin + " ").split("\n")]


def _legend(picture: Picture, width: int) -> list[str]:
    entries = []
    for series, mark in zip(picture.series, MARKS * len(picture.series), strict=False):
        sign = "- -" if series.look == "dashed" else mark if series.look == "points" else f"{mark}.{mark}"
        entries.append(f"{sign} {series.label}" + (" (: its band)" if series.low and series.look != "dashed" else ""))
    entries += [f"! {word}" for _, _, word in picture.marks]
    return [plain.paragraph(plain.harmless(entry), width, "  ") for entry in entries]
