"""What a solver prints satisfies the target when it is typed back; the next value on the printed grid is not shown to."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbudget import api, derive
from dpbudget.accounting.search import DecimalGrid, crossing, least, most
from dpbudget.answers.advice import of_run
from dpbudget.answers.budget import shown_up
from dpbudget.errors import Infeasible
from dpbudget.render.numbers import number, quantity
from dpbudget.report import Quantity, Rounding
from dpbudget.run import Run


def _draw(seed: int) -> dict[str, float]:
    draw = random.Random(seed)
    return {
        "epsilon": float(f"{10 ** draw.uniform(-1, 1.3):.4g}"),
        "delta": float(f"{10 ** draw.uniform(-9, -4):.3g}"),
        "rate": float(f"{10 ** draw.uniform(-4, -0.3):.4g}"),
        "steps": int(10 ** draw.uniform(0, 5)),
        "sigma": float(f"{10 ** draw.uniform(-0.2, 1):.4g}"),
    }


def _check(seed: int, accountant: str) -> None:
    case = _draw(seed)
    goal = {"epsilon": case["epsilon"], "delta": case["delta"], "accountant": accountant}
    cost = {"delta": case["delta"], "accountant": accountant}

    def upper(**run: float) -> float:
        return float(api.epsilon(**cost, **run))

    run = {"noise_multiplier": case["sigma"], "sampling_rate": case["rate"], "steps": case["steps"]}
    for name, solver, nearby in (
        ("noise_multiplier", api.sigma, lambda s: s.beside),
        ("steps", api.steps, lambda s: s.value + 1),
        ("sampling_rate", api.rate, lambda s: s.beside),
    ):
        rest = {key: value for key, value in run.items() if key != name}
        try:
            found = solver(**goal, **rest)
        except Infeasible as error:
            assert error.nearest.get("epsilon", float("inf")) > case["epsilon"]
            continue
        value = int(found.value) if name == "steps" else found.value
        printed = number(value, 5)
        assert float(printed) == value  # the answer lies on the printed grid
        assert upper(**rest, **{name: float(printed) if name != "steps" else int(printed)}) <= case["epsilon"]
        beside = nearby(found)
        if beside is not None and found.beside is not None:
            assert upper(**rest, **{name: int(beside) if name == "steps" else beside}) > case["epsilon"]


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize("seed", range(6))
def test_round_trip(seed: int, accountant: str) -> None:
    _check(seed, accountant)


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ["pld", "rdp", "rdp-classic", "moments", "strong", "kov"])
@pytest.mark.parametrize("block", range(10))
def test_round_trip_a_thousand(block: int, accountant: str) -> None:
    for seed in range(1000 + 100 * block, 1000 + 100 * block + (100 if accountant == "pld" else 10)):
        _check(seed, accountant)


def test_decimal_grid_counts_every_decimal() -> None:
    grid = DecimalGrid(3)
    index = grid.near(0.996)
    assert [grid.value(index + i) for i in range(6)] == [0.996, 0.997, 0.998, 0.999, 1.0, 1.01]
    assert grid.value(grid.at_most(0.99999)) == 0.999


@pytest.mark.parametrize("guess", [-50, 0, 6, 7, 8, 300, 10**6])
def test_search_from_any_guess(guess: int) -> None:
    assert least(lambda i: i >= 7, guess, 0, 1000) == 7
    assert most(lambda i: i <= 7, guess, 0, 1000) == 7
    assert least(lambda i: False, guess, 0, 1000) is None
    assert least(lambda i: True, guess, 0, 1000) == 0


def test_crossing_survives_infinities_and_plateaus() -> None:
    found = crossing(lambda x: float("inf") if x < 2 else 0.0, 1.0, 1.0, rising=False, low=1e-3, high=1e3)
    assert abs(found - 2) < 0.1
    assert crossing(lambda x: 5.0, 1.0, 1.0, rising=False, low=1e-3, high=1e3) == pytest.approx(1e3)


@pytest.mark.parametrize("below", [0.8000001, 0.9, 3.0, math.inf])
def test_crossing_bisects_where_the_function_jumps(below: float) -> None:
    """Epsilon falls to 0 where delta reaches the total variation. 22 halvings close the bracket at 2e-7."""
    asked: list[float] = []

    def epsilon(x: float) -> float:
        asked.append(x)
        return below + 1e-3 / x if x < 2 else 0.0

    found = crossing(epsilon, 0.8, 1.0, rising=False, low=1e-3, high=1e3, relative=2e-7)
    assert found == pytest.approx(2, rel=3e-7) and len(asked) <= 35


def test_crossing_of_a_smooth_function_takes_a_few_steps() -> None:
    asked: list[float] = []

    def epsilon(x: float) -> float:
        asked.append(x)
        return math.expm1(1 / x**1.5)

    found = crossing(epsilon, 0.1, 1.0, rising=False, low=1e-3, high=1e3, relative=2e-7)
    assert found == pytest.approx(math.log1p(0.1) ** (-2 / 3), rel=1e-6) and len(asked) <= 10


# --- what a report says of its inputs ---------------------------------------------------------------------------------


@given(
    st.floats(1e-300, 1e300), st.floats(-1e-3, 1e-3), st.integers(1, 17), st.sampled_from((Rounding.UP, Rounding.DOWN))
)  # fmt: skip
def test_a_number_stays_on_its_side_of_what_it_is_compared_with(
    value: float, apart: float, digits: int, rounding: Rounding
) -> None:
    for limit in (value, value * (1 + apart), math.nextafter(value, math.inf), math.nextafter(value, 0.0)):
        shown = float(quantity(Quantity(value, rounding, limit), digits))
        assert (shown <= limit) == (value <= limit)
        assert shown >= value if rounding is Rounding.UP else shown <= value
    assert float(quantity(Quantity(value, Rounding.EXACT), digits)) == value


@pytest.mark.parametrize("digits", [1, 2, 3, 5])
@pytest.mark.parametrize("style", ["text", "markdown", "statement"])
def test_what_is_said_of_the_inputs_holds_when_it_is_typed_back(dpbudget, digits: int, style: str) -> None:
    """ "epsilon <= 2.5 ... noise multiplier 1" where 1.04 was typed is a claim about another, noisier run."""
    for sigma, q, delta in (("1.0449999", "0.0150001", "1.4e-5"), ("2.95", "0.0954999", "1.0499e-6")):
        run = ("-t", "200", "-a", "rdp", "--quiet", "--format", style, "--digits", digits)
        out = " ".join(dpbudget("epsilon", "-s", sigma, "-q", q, "-d", delta, *run).out.replace("|", " ").split())
        said = [
            re.search(rf"{words} *([0-9.e-]+)", out.replace("&lt;", "<"))
            for words in ("psilon <=", "at delta", "noise multiplier", "sampling rate")
        ]
        epsilon, at, noise, rate = (float(match.group(1).rstrip(".")) for match in said if match)
        upper = float(api.epsilon(noise_multiplier=noise, sampling_rate=rate, steps=200, delta=at, accountant="rdp"))
        assert upper <= epsilon, out


def test_comparisons_that_are_printed_agree_with_the_verdict(dpbudget, tmp_path: Path) -> None:
    body = '[[release]]\nname = "r"\nmechanism = "gaussian"\nnoise_multiplier = 1.3\n'
    exact = dpbudget("gaussian", "-s", "1.3", "-d", "1e-5", "--json").json["result"]["epsilon"]
    for limit in (exact * (1 + 1e-8), exact * (1 - 1e-8), exact * (1 + 3e-4), exact * (1 - 3e-4), 4.0):
        file = tmp_path / "b.toml"
        head = f'schema = 1\n[budget]\nepsilon = {limit!r}\ndelta = 1e-5\nadjacency = "zero-out"\n'
        file.write_text(head + body)
        for digits in (1, 2, 4, 6):
            ran = dpbudget("check", str(file), "--digits", digits, "--format", "statement")
            said = re.match(r"(\w+) budget: epsilon ([0-9.]+) (<=|>) ([0-9.]+)", ran.out)
            assert said, ran.out
            verdict, left, sign, right = said.groups()
            assert (verdict, sign) == (("Within", "<=") if exact <= limit else ("Over", ">"))
            assert (float(left) <= float(right)) == (sign == "<=")
            assert float(right) == limit


def test_what_would_be_overspent_is_never_shown_smaller() -> None:
    for value in (1.000004, 9.9999999, 100.0, 123456.7, 2.0, 0.1234567):
        assert value <= float(shown_up(value)) <= value * (1 + 1e-5)
    assert shown_up(100.0) == "100" and shown_up(math.inf) == shown_up(None) == "without bound"


def test_the_delta_that_is_advised_is_below_one_over_n() -> None:
    for size in range(2, 3000):
        [notice] = [n for n in of_run(Run(1.0, 0.5, 1, dataset_size=size), [0.9]) if n.code == "delta-large"]
        advised = float(notice.hint.split()[2])
        assert 0 < advised < 1 / size and advised <= derive.default_delta(size)
