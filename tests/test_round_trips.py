"""What a solver prints satisfies the target when it is typed back; the next value on the printed grid is not shown to."""

from __future__ import annotations

import random

import pytest

from dpbudget import api
from dpbudget.accounting.search import DecimalGrid, crossing, least, most
from dpbudget.errors import Infeasible
from dpbudget.render.numbers import number


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
