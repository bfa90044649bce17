"""What every mechanism, accountant and format keeps. The checks that guard the real ones must catch wrong ones.

Each check raises AssertionError. Accountants are asked by name, through the registry, so that a wrong one can stand in.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from string import Formatter

import neighbours
import numpy as np
import pytest
from conftest import DATA, rows
from neighbours import ERROR, Array, Laws

from dpbudget.accounting import account
from dpbudget.accounting.account import ACCOUNTANTS, Ledger
from dpbudget.accounting.pair import Pair
from dpbudget.errors import InputError
from dpbudget.model import ZCDP as ZCDP
from dpbudget.model import (
    Adjacency,
    Gaussian,
    Guarantee,
    Interval,
    Kind,
    Laplace,
    Mechanism,
    PureDP,
    Release,
    SampledGaussian,
    Sampling,
)
from dpbudget.render import Renderer
from dpbudget.render.style import Style
from dpbudget.report import Cell, Quantity, Range, Report, Rounding, Table

ADD = Adjacency.ADD_OR_REMOVE_ONE
DIRECTIONS = ("remove", "add")
BOUNDS = [name for name, item in ACCOUNTANTS.items() if item.kind is not Kind.ESTIMATE]
GRID = np.array([-1.5, -0.3, -0.02, 0.0, 0.001, 0.003, 0.01, 0.03, 0.09, 0.2, 0.4, 0.7, 1.0, 1.4, 2.0, 2.7, 3.5, 5.0])


def short(value: object) -> str:
    """For the names of tests; no address in memory, which would differ between the processes that run them."""
    if callable(value):
        return str(value.__name__)
    return str(value) if isinstance(value, Adjacency) else repr(value).replace("noise_multiplier=", "")[:60]


def run(sigma: float, rate: float, steps: int, adjacency: Adjacency = ADD) -> Ledger:
    return Ledger.of([Release(SampledGaussian(sigma, rate), steps)], adjacency)


# --- pairs ------------------------------------------------------------------------------------------------------------

Dominating = Callable[[Mechanism, Adjacency], Mapping[str, Pair]]


def profile(pair: Pair, epsilon: Array, cells: int = 12_000) -> Array:
    """The pair's hockey stick from its density, loss, atoms and infinite mass alone; error as of `neighbours`."""
    low, high = pair.support(-40.0)
    losses, masses = [np.array([loss for loss, _ in pair.atoms])], [np.array([mass for _, mass in pair.atoms])]
    for a, b in itertools.pairwise([low, *(x for x in pair.breaks if low < x < high), high]):
        loss, log_p = pair.loss_and_log_p(a + (b - a) * (np.arange(cells) + 0.5) / cells)
        losses.append(loss)
        masses.append(np.exp(log_p) * (b - a) / cells)
    p = np.concatenate([*masses, [pair.infinite_mass]])
    return Laws(p, p * np.exp(-np.concatenate([*losses, [np.inf]]))).delta(epsilon)


def dominates(mechanism: Mechanism, adjacency: Adjacency, dominating: Dominating) -> None:
    """Each direction's pair costs at least what neighbours publish, and no more where the pair says that it is attained."""
    truth = neighbours.truth(mechanism, adjacency)
    if truth is None:
        refused(lambda: dominating(mechanism, adjacency))
        return
    pairs = dominating(mechanism, adjacency)
    assert set(pairs) in ({"both"}, set(DIRECTIONS))
    for direction in DIRECTIONS:
        pair = pairs.get(direction) or pairs["both"]
        reached = truth.delta(direction, GRID)
        claimed = profile(pair, GRID)
        assert (claimed >= reached * (1 - ERROR) - 1e-12).all(), f"{direction}: a pair below the mechanism"
        if truth.exact and pair.tight:
            assert (claimed <= reached * (1 + ERROR) + 1e-12).all(), (
                f"{direction}: an attained pair above the mechanism"
            )


def refused(ask: Callable[[], object], *, instead_of: str = "") -> None:
    """An InputError with its reason, and no advice to do what was done."""
    with pytest.raises(InputError) as caught:
        ask()
    assert caught.value.parameter and caught.value.message
    assert not instead_of or instead_of not in re.findall(r"[\w-]+", caught.value.hint)


# --- accountants ------------------------------------------------------------------------------------------------------


def supports(name: str, mechanism: Mechanism, adjacency: Adjacency) -> bool:
    """What each accountant has a proof for, where the combination has a meaning at all."""
    plain = isinstance(mechanism, Gaussian) or (
        isinstance(mechanism, SampledGaussian) and mechanism.sampling is Sampling.FULL_BATCH
    )
    if name == "pld":
        return True
    if name in ("rdp", "rdp-classic"):
        searched = type(mechanism).__name__ == "Tuned"
        return not searched and getattr(mechanism, "sampling", None) is not Sampling.BALLS_IN_BINS
    if name == "zcdp":
        unsampled = isinstance(mechanism, Laplace) and mechanism.sampling_rate == 1
        return plain or unsampled or isinstance(mechanism, (PureDP, ZCDP))
    poisson = isinstance(mechanism, SampledGaussian) and mechanism.sampling is Sampling.POISSON
    single = poisson and mechanism.group_size == 1 and mechanism.max_batch is None
    return plain or (single and adjacency is not Adjacency.REPLACE_ONE)


def of_its_kind(found: Guarantee, name: str) -> None:
    """Which ends there are says what is proven; they are ordered, and none is NaN."""
    kind, value = found.kind, found.value
    assert found.accountant == name and kind in (ACCOUNTANTS[name].kind, *([Kind.UPPER_BOUND] if name == "pld" else []))
    there = tuple(end is not None for end in (value.lower, value.upper))
    assert there == {Kind.INTERVAL: (True, True), Kind.UPPER_BOUND: (False, True), Kind.ESTIMATE: (False, False)}[kind]
    ends = [end for end in (value.lower, value.estimate, value.upper) if end is not None]
    assert ends and all(a <= b for a, b in itertools.pairwise(ends)) and all(end >= 0 for end in ends)


def covers(name: str, mechanism: Mechanism, adjacency: Adjacency, uses: int = 1, delta: float = 1e-6) -> None:
    """Epsilon and delta against what neighbours publish, in each direction: never below, and lower ends never above."""
    truth = neighbours.truth(mechanism, adjacency)
    steps = 4 if getattr(mechanism, "sampling", None) in (Sampling.SHUFFLE, Sampling.BALLS_IN_BINS) else uses
    ledger = Ledger.of([Release(mechanism, steps)], adjacency)
    if truth is None or not supports(name, mechanism, adjacency):
        for ask in (account.epsilon, account.delta):
            refused(lambda ask=ask: ask(ledger, 0.5, accountant=name), instead_of=name)
        return
    found = account.epsilon(ledger, delta, accountant=name, tolerance=1e-3)
    of_its_kind(found, name)
    uses = 1 if truth.alone else uses
    sides = {d: lambda e, d=d: float(truth.delta(d, np.array([e]), uses)[0]) for d in DIRECTIONS}
    _holds(found.value, lambda e: max(side(e) for side in sides.values()), delta, truth.exact)
    parts = found.detail.get("directions")
    for direction, part in parts.items() if isinstance(parts, Mapping) else ():
        _holds(part, sides[direction if direction != "both" else "remove"], delta, truth.exact)
    if type(mechanism).__name__ == "Tuned":
        return  # delta of a search is tested with the searches
    epsilon = 0.3
    spent = account.delta(ledger, epsilon, accountant=name, tolerance=1e-3)
    of_its_kind(spent, name)
    reached = max(side(epsilon) for side in sides.values())
    if spent.value.upper is not None:
        assert spent.value.upper >= reached * (1 - ERROR)
    if spent.value.lower is not None and truth.exact:
        assert spent.value.lower <= reached * (1 + ERROR)


def _holds(value: Interval, reached: Callable[[float], float], delta: float, exact: bool) -> None:
    if value.upper is not None and math.isfinite(value.upper):
        assert reached(value.upper) <= delta * (1 + ERROR), "an upper end below the mechanism"
    if value.lower and exact:
        assert reached(min(value.lower, 600.0)) >= delta * (1 - ERROR), "a lower end above the mechanism"


Case = tuple[float, float, int, float, float, float]


def not_below(name: str, cases: Iterable[Case], tolerance: float = account.DEFAULT_TOLERANCE) -> None:
    """(sigma, q, T, delta, least, most): the truth lies between; so does no upper end below nor lower end above it."""
    for sigma, rate, steps, delta, least, most in cases:
        found = account.epsilon(run(sigma, rate, steps), delta, accountant=name, tolerance=tolerance)
        of_its_kind(found, name)
        upper, lower = found.value.upper, found.value.lower
        assert upper is not None and upper >= least, (name, sigma, rate, steps, delta)
        if lower is not None:
            assert lower <= most and upper - lower <= tolerance * upper < math.inf, (name, sigma, rate, steps, delta)


@functools.cache
def cases() -> list[Case]:
    """Golden values, which have nine decimals, and certified brackets."""
    golden = [
        (float(r["noise_multiplier"]), float(r["sampling_rate"]), int(r["steps"]), float(r["delta"]),
         max(float(r["epsilon_remove"]), float(r["epsilon_add"])) - 5e-10,
         max(float(r["epsilon_remove"]), float(r["epsilon_add"])) + 5e-10)
        for r in rows("golden.csv")
    ]  # fmt: skip
    brackets = json.loads((DATA / "brackets.json").read_text())["cases"]
    keys = ("noise_multiplier", "sampling_rate", "steps", "delta", "epsilon_lower", "epsilon_upper")
    return golden + [tuple(case[key] for key in keys) for case in brackets]


def full_batches() -> Ledger:
    """Three releases at multiplier 2 and one at 1.5, which together are one at 1 / sqrt(3/4 + 4/9)."""
    releases = [Release(SampledGaussian(sigma, 1.0), count) for sigma, count in ((2.0, 3), (1.5, 1))]
    return Ledger.of(releases, ADD)


def adds_up(name: str) -> None:
    """Releases and counts are all accounted for: the closed form of one Gaussian is not above the bound."""
    found = account.epsilon(full_batches(), 1e-6, accountant=name, tolerance=1e-8)
    of_its_kind(found, name)
    truth = neighbours.gaussian_delta(np.array([float(found)]), (3 / 4 + 4 / 9) ** -0.5)
    assert truth[0] <= 1e-6 * (1 + 1e-9)
    if found.value.lower is not None:
        assert neighbours.gaussian_delta(np.array([found.value.lower]), (3 / 4 + 4 / 9) ** -0.5) >= 1e-6 * (1 - 1e-9)


def inverts(name: str, delta: float = 1e-6) -> None:
    """delta at the epsilon of a delta is within that delta: one of the two that errs downwards alone shows."""
    ledger = full_batches() if name == "zcdp" else run(1.0, 0.01, 500)
    epsilon = float(account.epsilon(ledger, delta, accountant=name, tolerance=1e-9))
    spent = account.delta(ledger, epsilon, accountant=name, tolerance=1e-9).value
    assert spent.upper is not None and (spent.upper if spent.lower is None else spent.lower) <= delta * (1 + 5e-8)


def meets_published(rows: Sequence[Mapping[str, str]], name: str = "") -> None:
    """Published values, to the six decimals that are printed; rdp may be below, as its orders are no grid."""
    for row in rows:
        if name not in ("", row["accountant"]):
            continue
        ledger = run(float(row["noise_multiplier"]), float(row["sampling_rate"]), int(row["steps"]))
        found = account.epsilon(ledger, float(row["delta"]), accountant=row["accountant"])
        value = found.value.estimate if found.kind is Kind.ESTIMATE else found.value.upper
        published = float(row["epsilon"])
        assert value is not None
        if row["accountant"] == "rdp":
            assert value <= published * (1 + 1e-4)
        else:
            assert value == pytest.approx(published, abs=5.1e-7)


# --- formats ----------------------------------------------------------------------------------------------------------

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.]*\d)")
TABULAR = ("text", "markdown", "csv")

HOSTILE = ("run|a", "=cmd()", "b\x1b[31mred", "two\nlines", "[bold]<b>*c*")


def sample_report() -> Report:
    """Numbers that show each wrong rounding and each lost digit; names that break a careless table."""
    ends = [Interval(0.90004321 * u, u, 0.95 * u) for u in (3.00001234, 17.0000432, 0.00123400071, 812345.678, 0.5)]
    rows = [
        (name, Range(interval), Quantity(1234567890 + i), Quantity(64.99999 / 10**i, Rounding.DOWN))
        for i, (name, interval) in enumerate(zip(HOSTILE, ends, strict=True))
    ]
    upper = Quantity(2.00004321, Rounding.UP)
    return Report(
        command="epsilon",
        input={"noise_multiplier": 1.1, "steps": 1234567890},
        assumptions={"adjacency": "add-or-remove-one", "covers": "this run only"},
        result={"epsilon": {"lower": 1.9, "upper": 2.00004321}, "rows": [{"name": name} for name in HOSTILE]},
        headline="epsilon <= {0} at delta {1}",
        answers=[upper, Quantity(1e-5)],
        value=upper,
        facts=[("noise multiplier", Quantity(1.1), ""), ("steps", Quantity(1234567890), "derived")],
        main=Table(("name", "epsilon", "steps", "allowed rate"), rows),
        notes=["Holds for this run only."],
    )


def numbers_in(text: str) -> list[float]:
    return [float(found) for found in NUMBER.findall(text.replace("\\", ""))]


def states(printed: Sequence[float], item: Quantity, digits: int) -> bool:
    """Whether some printed number stands for it: all digits that were asked for, moved to the safe side only."""
    if item.value is None or not math.isfinite(item.value):
        return True
    if isinstance(item.value, int):
        return item.value in printed
    unit = 10.0 ** (math.floor(math.log10(abs(item.value))) - digits + 1) if item.value else 0.0
    low = item.value if item.rounding in (Rounding.UP, Rounding.EXACT) else item.value - unit
    high = item.value if item.rounding in (Rounding.DOWN, Rounding.EXACT) else item.value + unit
    return any(low * (1 - 1e-15) <= number <= high * (1 + 1e-15) for number in printed)


def quantities(cell: Cell) -> list[Quantity]:
    if isinstance(cell, str):
        return []
    if isinstance(cell, Quantity):
        return [cell]
    ends = cell.interval
    if ends.upper is None:
        return [Quantity(ends.estimate)]
    if ends.upper == math.inf:
        return []
    return [Quantity(ends.upper, Rounding.UP), *([] if ends.lower is None else [Quantity(ends.lower, Rounding.DOWN)])]


def renders(form: str, render: Renderer, report: Report, style: Style) -> None:
    """The answer is stated on the safe side with every digit; a format that shows the table shows all of it."""
    before = dataclasses.replace(report)
    text = render(report, style)
    assert text == render(report, style) and report == before
    assert text.isprintable() or not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text), "control characters"
    assert not re.search(r"\bnan\b|None|Infinity", text)
    if form == "json":
        assert json.loads(text) == report.document()
        return
    assert text.endswith("\n") or (form == "csv" and report.main is None)
    digits = style.digits
    printed = numbers_in(text)
    if form != "csv":
        short = [report.value] if form == "value" else [q for cell in in_headline(report) for q in quantities(cell)]
        assert all(states(printed, item, digits) for item in short), f"{form}: the answer is not stated as it is"
    if report.main is None or form not in TABULAR:
        return
    for row in report.main.rows:
        for item in (q for cell in row for q in quantities(cell)):
            assert states(printed, item, digits), f"{form}: {item} of {row[0]!r} is lost"
    if form == "csv":
        table = list(csv.reader(io.StringIO(text)))
        assert len(table) == 1 + len(report.main.rows) and len({len(line) for line in table}) == 1


def in_headline(report: Report) -> list[Cell]:
    """The answers that the headline speaks of."""
    fields = [name for _, name, _, _ in Formatter().parse(report.headline) if name is not None]
    return [report.answers[int(name) if name else at] for at, name in enumerate(fields)]


def keeps_its_side(form: str, render: Renderer) -> None:
    """The sample report in every width and length: nothing on the wrong side of a bound, nothing cut, nothing obeyed."""
    report = sample_report()
    for digits in (3, 5, 9):
        for width in (40, 80, 200):
            style = Style(width, digits)
            renders(form, render, report, style)
            printed = numbers_in(render(report, style))
            for cell in [report.value, *(cell for row in report.main.rows for cell in row)] if report.main else []:
                for item in quantities(cell):
                    assert not [x for x in printed if _unsafe(x, item)], f"{form}: {item} on the wrong side"


def _unsafe(printed: float, item: Quantity) -> bool:
    """A number next to a bound, on the side on which it would be false."""
    if item.value is None or isinstance(item.value, int) or item.rounding in (Rounding.NEAREST, Rounding.EXACT):
        return False
    gap = (item.value - printed) * (1 if item.rounding is Rounding.UP else -1)
    return 1e-15 * item.value < gap < 1e-2 * item.value
