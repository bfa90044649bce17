"""Deliberately wrong accountants, pairs and formats: the checks that guard the real ones catch each of them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable

import contracts
import pytest
from conftest import rows
from contracts import ADD, BOUNDS, run, short

from dpbudget.accounting import account, certified, lattice
from dpbudget.accounting.account import ACCOUNTANTS, Ledger
from dpbudget.accounting.accountants import Accountant
from dpbudget.accounting.discrete_pairs import AtomicPair
from dpbudget.accounting.pair import Pair
from dpbudget.accounting.pairs import dominating_pairs
from dpbudget.errors import ContradictionError, NotCertified
from dpbudget.model import (
    Adjacency,
    ApproxDP,
    Gaussian,
    GaussianMixture,
    Guarantee,
    Interval,
    Kind,
    Laplace,
    Mechanism,
    PureDP,
    RandomizedResponse,
    SampledGaussian,
    Sampling,
)
from dpbudget.render import Renderer, numbers, renderer
from dpbudget.render.style import Style
from dpbudget.report import Report, Rounding

LINE = ("epsilon", "-s", "1", "-q", "0.01", "-t", "100", "-d", "1e-5")

# --- wrong accountants, each of which the checks above must catch ----------------------------------------------------

Check = Callable[[], None]
CAUGHT = (AssertionError, pytest.fail.Exception)
SHARP = 1e-8  # relative width at which an error of a millionth shows
Ask = Callable[[Ledger, float, float], Guarantee]


def scaled(ask: Ask, upper: float, lower: float = 1.0) -> Ask:
    def asked(ledger: Ledger, argument: float, tolerance: float) -> Guarantee:
        found = ask(ledger, argument, tolerance)
        ends = found.value
        return dataclasses.replace(found, value=Interval(
            None if ends.lower is None else ends.lower * lower, ends.upper * upper if ends.upper else ends.upper, None
        ))  # fmt: skip

    return asked


def on_another(ask: Ask, change: Callable[[Ledger], Ledger]) -> Ask:
    return lambda ledger, argument, tolerance: ask(change(ledger), argument, tolerance)


def estimate_as_bound(ledger: Ledger, delta: float, tolerance: float) -> Guarantee:
    estimate = ACCOUNTANTS["gdp-clt"].epsilon(ledger, delta, tolerance).value.estimate
    return Guarantee("rdp", Kind.UPPER_BOUND, Interval(None, estimate))


def golden(name: str) -> Check:
    return lambda: contracts.not_below(name, contracts.cases()[:2], SHARP)


def poisson(name: str, adjacency: Adjacency) -> Check:
    return lambda: contracts.covers(name, SampledGaussian(1.0, 0.25), adjacency)


def once(ledger: Ledger) -> Ledger:
    return Ledger(tuple((mechanism, 1) for mechanism, _ in ledger.counts), ledger.adjacency)


def first(ledger: Ledger) -> Ledger:
    return Ledger(ledger.counts[:1], ledger.adjacency)


def without_adjacency(ledger: Ledger) -> Ledger:
    return Ledger(ledger.counts, ADD)


def turned(ledger: Ledger) -> Ledger:
    """Its directions by each other's names."""
    other = Ledger(ledger.counts, ledger.adjacency)
    names = list(ledger.directions)
    vars(other)["directions"] = dict(zip(reversed(names), ledger.directions.values(), strict=True))
    return other


def halved(ledger: Ledger) -> Ledger:
    """Its first direction alone, as if the other never cost more."""
    other = Ledger(ledger.counts, ledger.adjacency)
    vars(other)["directions"] = {"add": ledger.directions.get("add") or ledger.directions["both"]}
    return other


WRONG_ACCOUNTANTS: dict[str, tuple[str, Callable[[Ask], Ask], Check]] = {
    "an upper end a millionth below": ("pld", lambda ask: scaled(ask, 1 - 1e-6), golden("pld")),
    "a lower end a millionth above": ("pld", lambda ask: scaled(ask, 1.0, 1 + 1e-6), golden("pld")),
    "infinite ends": ("pld", lambda ask: scaled(ask, math.inf), golden("pld")),
    **{
        f"{name}, epsilon a millionth below": (
            name, lambda ask: scaled(ask, 1 - 1e-6), functools.partial(contracts.inverts, name),
        )
        for name in BOUNDS if not name.startswith("rdp")  # whose epsilon and delta are not each other's inverse
    },
    "moments, a millionth below what is published": (
        "moments", lambda ask: scaled(ask, 1 - 1e-6), lambda: contracts.meets_published(rows("published.csv"), "moments"),
    ),
    "an estimate for a bound": ("rdp", lambda ask: estimate_as_bound, lambda: contracts.not_below("rdp", contracts.cases()[:3])),
    "NaN": ("rdp", lambda ask: scaled(ask, math.nan), lambda: contracts.not_below("rdp", contracts.cases()[:1])),
    "one use of each": ("pld", lambda ask: on_another(ask, once), lambda: contracts.adds_up("pld")),
    "one use of each, rdp": ("rdp", lambda ask: on_another(ask, once), lambda: contracts.adds_up("rdp")),
    "the first release alone": ("zcdp", lambda ask: on_another(ask, first), lambda: contracts.adds_up("zcdp")),
    "no adjacency": ("pld", lambda ask: on_another(ask, without_adjacency), poisson("pld", Adjacency.REPLACE_ONE)),
    "no adjacency, moments": (
        "moments", lambda ask: on_another(ask, without_adjacency), poisson("moments", Adjacency.REPLACE_ONE),
    ),
    "directions swapped": ("pld", lambda ask: on_another(ask, turned), poisson("pld", ADD)),
    "one direction": ("pld", lambda ask: on_another(ask, halved), poisson("pld", ADD)),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_ACCOUNTANTS)
def test_a_wrong_accountant_is_caught(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, spoil, check = WRONG_ACCOUNTANTS[wrong]
    check()
    right = ACCOUNTANTS[name]
    monkeypatch.setitem(ACCOUNTANTS, name, dataclasses.replace(right, epsilon=spoil(right.epsilon)))  # type: ignore[arg-type]
    with pytest.raises((*CAUGHT, NotCertified)):
        check()


# --- wrong pairs ------------------------------------------------------------------------------------------------------


def off(**factors: float) -> contracts.Dominating:
    """The pairs of a mechanism with other parameters."""

    def dominating(mechanism: Mechanism, adjacency: Adjacency) -> dict[str, Pair]:
        changed = {name: getattr(mechanism, name) * factor for name, factor in factors.items()}
        return dict(dominating_pairs(dataclasses.replace(mechanism, **changed), adjacency))

    dominating.__name__ = "-".join(f"{name} x {factor}" for name, factor in factors.items())
    return dominating


def swapped(mechanism: Mechanism, adjacency: Adjacency) -> dict[str, Pair]:
    found = dominating_pairs(mechanism, adjacency)
    return {"remove": found["add"], "add": found["remove"]}


def one_for_both(mechanism: Mechanism, adjacency: Adjacency) -> dict[str, Pair]:
    return {"both": dominating_pairs(mechanism, adjacency)["remove"]}


def as_if_added(mechanism: Mechanism, adjacency: Adjacency) -> dict[str, Pair]:
    return dict(dominating_pairs(mechanism, ADD))


def without_infinity(mechanism: Mechanism, adjacency: Adjacency) -> dict[str, Pair]:
    return {name: AtomicPair(pair.atoms, 0.0) for name, pair in dominating_pairs(mechanism, adjacency).items()}


POISSON, MIXTURE, LAPLACE = SampledGaussian(1.0, 0.25), GaussianMixture(2.0, (0.7, 0.2, 0.1)), Laplace(5.0, 0.1)
WRONG_PAIRS: list[tuple[Mechanism, Adjacency, contracts.Dominating]] = [
    *((m, a, off(noise_multiplier=factor)) for factor in (1.01, 0.99) for m, a in [
        (POISSON, ADD), (POISSON, Adjacency.REPLACE_ONE), (MIXTURE, ADD), (Gaussian(4.0), ADD),
    ]),
    (SampledGaussian(2.0, 0.1, Sampling.FIXED_SIZE), Adjacency.REPLACE_ONE, off(noise_multiplier=1.01)),
    (SampledGaussian(2.0, 0.1, Sampling.FIXED_SIZE), Adjacency.ZERO_OUT, off(noise_multiplier=1.01)),
    (POISSON, ADD, off(sampling_rate=0.99)),
    (POISSON, ADD, off(sampling_rate=1.01)),
    (Laplace(10.0), ADD, off(scale=1.01)),
    (RandomizedResponse(4, 0.2), Adjacency.ZERO_OUT, off(truth_probability=0.99)),
    (PureDP(0.1), ADD, off(epsilon=0.99)),
    *((m, ADD, wrong) for m in (POISSON, MIXTURE, LAPLACE) for wrong in (swapped, one_for_both)),
    (RandomizedResponse(4, 0.2), Adjacency.ZERO_OUT, swapped),
    (POISSON, Adjacency.REPLACE_ONE, as_if_added),
    (Laplace(10.0), Adjacency.REPLACE_ONE, as_if_added),
    (MIXTURE, Adjacency.REPLACE_ONE, as_if_added),
    (ApproxDP(0.1, 1e-7), ADD, without_infinity),
]  # fmt: skip


@pytest.mark.parametrize(("mechanism", "adjacency", "dominating"), WRONG_PAIRS, ids=short)
def test_a_wrong_pair_is_caught(mechanism: Mechanism, adjacency: Adjacency, dominating: contracts.Dominating) -> None:
    with pytest.raises(CAUGHT):
        contracts.dominates(mechanism, adjacency, dominating)


# --- formats, and wrong ones ------------------------------------------------------------------------------------------


def with_number(change: Callable[..., str]) -> Callable[[Renderer], Renderer]:
    """A format whose numbers are written by `change(right, value, digits, rounding)`."""

    def spoil(render: Renderer) -> Renderer:
        def rendered(report: Report, style: Style) -> str:
            right = numbers.number
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(numbers, "number", lambda v, d, r=Rounding.NEAREST: change(right, v, d, r))
                return render(report, style)

        return rendered

    return spoil


def on_a_report(change: Callable[[Report], Report]) -> Callable[[Renderer], Renderer]:
    return lambda render: lambda report, style: render(change(report), style)


def fewer_rows(report: Report) -> Report:
    assert report.main is not None
    return dataclasses.replace(report, main=dataclasses.replace(report.main, rows=report.main.rows[:-1]))


def fewer_columns(report: Report) -> Report:
    assert report.main is not None
    kept = dataclasses.replace(
        report.main, columns=report.main.columns[:-1], rows=[row[:-1] for row in report.main.rows]
    )
    return dataclasses.replace(report, main=kept)


def cut(render: Renderer) -> Renderer:
    return lambda report, style: "\n".join(line[: style.width - 2] for line in render(report, style).split("\n"))


PEOPLE = ("text", "markdown", "statement", "value", "csv")
WRONG_FORMATS: dict[str, tuple[tuple[str, ...], Callable[[Renderer], Renderer]]] = {
    "rounds bounds down": (PEOPLE, with_number(lambda right, v, d, r: right(v, d, Rounding.DOWN))),
    "rounds to the nearest": (PEOPLE, with_number(lambda right, v, d, r: right(v, d))),
    "loses a digit": (PEOPLE, with_number(lambda right, v, d, r: right(v, d - 1, r))),
    "rounds counts": (contracts.TABULAR, with_number(lambda right, v, d, r: right(float(v), d, r))),
    "three decimals": (PEOPLE, with_number(lambda right, v, d, r: f"{v:.3f}")),
    "drops a row": (contracts.TABULAR, on_a_report(fewer_rows)),
    "drops a column": (contracts.TABULAR, on_a_report(fewer_columns)),
    "cuts lines": (("text", "markdown"), cut),
    "obeys a name": (("text",), lambda render: lambda report, style: render(report, style).replace("\\x1b", "\x1b")),
    "drops a key": (("json",), on_a_report(lambda report: dataclasses.replace(report, assumptions={}))),
    "has a NaN": (("value",), lambda render: lambda report, style: "nan\n"),
    "differs from call to call": (("text",), lambda render: lambda report, style, n=itertools.count(): f"{next(n)}\n"),
}


@pytest.mark.parametrize("wrong", WRONG_FORMATS)
def test_a_wrong_format_is_caught(wrong: str) -> None:
    forms, spoil = WRONG_FORMATS[wrong]
    for form in forms:
        with pytest.raises(CAUGHT):
            contracts.keeps_its_side(form, spoil(renderer(form)))


# --- what the command line does with a part that is wrong -------------------------------------------------------------


def test_an_engine_that_errs_upwards_at_the_lower_end_is_caught(dpbudget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattice, "certify_epsilon", lambda *a, **k: lattice.Bracket(50.0, 50.0001, True, {}))
    ran = dpbudget("epsilon", "-s", "1", "-q", "0.01", "-t", "100", "-d", "1e-5", "--json")
    assert ran.code == 70 and ran.out == "" and "report this" in ran.err


def test_crossed_ends_are_caught(dpbudget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattice, "certify_epsilon", lambda *a, **k: lattice.Bracket(1.0, 0.5, True, {}))
    assert dpbudget("epsilon", "-s", "1", "-q", "0.01", "-t", "100", "-d", "1e-5").code == 70


def test_a_nan_is_never_an_answer(dpbudget, monkeypatch: pytest.MonkeyPatch) -> None:
    nan = Guarantee("pld", Kind.INTERVAL, Interval(0.0, math.nan), {"gap": "numerical", "met_tolerance": True})
    item = ACCOUNTANTS["pld"]
    broken = Accountant(item.name, item.kind, item.title, item.source, lambda *a: nan, lambda *a: nan)
    monkeypatch.setitem(ACCOUNTANTS, "pld", broken)  # type: ignore[arg-type]
    with pytest.raises(NotCertified):
        account.epsilon(run(1.0, 0.01, 10), 1e-5)
    ran = dpbudget("epsilon", "-s", "1", "-q", "0.01", "-t", "10", "-d", "1e-5", "-a", "pld", "--json")
    assert ran.code == 4 and ran.json["result"]["epsilon"].get("upper") is None


def test_contradicting_guarantees_raise() -> None:
    low = Guarantee("pld", Kind.INTERVAL, Interval(3.0, 3.1))
    high = Guarantee("rdp", Kind.UPPER_BOUND, Interval(None, 2.9))
    with pytest.raises(ContradictionError):
        account.cross_check([low, high])
    account.cross_check([Guarantee("pld", Kind.INTERVAL, Interval(2.8, 3.1)), high])


def test_a_contour_value_outside_the_interval_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certified, "NARROW", 0.0)
    monkeypatch.setattr(certified.contour, "epsilon", lambda parts, delta: 99.0)
    found = account.epsilon(run(1.0, 0.01, 100), 1e-5)
    assert found.value.lower <= found.value.estimate <= found.value.upper
