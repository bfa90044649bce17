"""Tables and plans: each cell is what the single question answers, and a cell without an answer sinks nothing."""

from __future__ import annotations

import csv
import io

import pytest

GRID = ("table", "--sigma", "1,2", "-q", "0.01,0.02", "-t", "1e2,1000", "-d", "1e-5,1e-6")


def test_every_cell_is_the_single_answer(dpbudget) -> None:
    rows = dpbudget(*GRID, "--json").json["result"]["rows"]
    assert len(rows) == 16
    for row in rows[::5]:
        alone = dpbudget(
            "epsilon", "-s", row["noise_multiplier"], "-q", row["sampling_rate"], "-t", row["steps"], "-d", row["delta"],
            "-a", "pld", "--json",
        ).json["result"]["epsilon"]  # fmt: skip
        assert row["epsilon"] == alone


def test_cells_come_in_the_order_of_the_axes_and_csv_is_rectangular(dpbudget) -> None:
    lines = list(csv.reader(io.StringIO(dpbudget(*GRID, "-f", "csv").out)))
    rows = dpbudget(*GRID, "--json").json["result"]["rows"]
    assert {len(line) for line in lines} == {len(lines[0])} and len(lines) == 17
    assert [float(line[lines[0].index("noise_multiplier")]) for line in lines[1:]] == [
        r["noise_multiplier"] for r in rows
    ]


@pytest.mark.parametrize(
    ("given", "unknown", "alone"),
    [
        (("-q", "0.01", "-t", "100,1000"), "noise_multiplier", "sigma"),
        (("-s", "1", "-q", "0.01,0.02"), "steps", "steps"),
        (("-s", "1", "-t", "100,1000"), "sampling_rate", "rate"),
    ],
)
def test_a_target_solves_for_what_is_left_out(dpbudget, given, unknown: str, alone: str) -> None:
    rows = dpbudget("table", "-e", "1,3", *given, "-d", "1e-5", "--json").json["result"]["rows"]
    assert len(rows) == 4
    for row in rows:
        assert row["epsilon"]["upper"] <= row["target_epsilon"]
    first = [text.split(",")[0] for text in given]
    single = dpbudget(alone, "-e", "1", *first, "-d", "1e-5", "-a", "pld", "--json").json["result"]
    assert rows[0][unknown] == single[unknown]


def test_several_accountants_are_one_more_axis(dpbudget) -> None:
    ran = dpbudget("table", "-s", "1,2", "-q", "0.01", "-t", "100", "-d", "1e-5", "-a", "pld,rdp,gdp-clt", "--json")
    result = ran.json["result"]
    assert result["axes"]["accountant"] == ["pld", "rdp", "gdp-clt"] and "accountant" not in result
    by_name = {(row["noise_multiplier"], row["accountant"]): row["epsilon"] for row in result["rows"]}
    assert len(by_name) == 6
    for sigma in (1.0, 2.0):
        assert by_name[sigma, "pld"]["upper"] < by_name[sigma, "rdp"]["upper"]
        assert set(by_name[sigma, "gdp-clt"]) == {"estimate"}


def test_the_gate_takes_the_least_that_is_proven_for_each_cell(dpbudget) -> None:
    run = ("table", "-s", "1,2", "-q", "0.01", "-t", "1000", "-d", "1e-5")  # pld: 1.829 and 0.623, rdp: 2.074 and 0.686
    assert dpbudget(*run, "-a", "pld,rdp", "--max-epsilon", "1.83").code == 0
    assert dpbudget(*run, "-a", "rdp", "--max-epsilon", "1.83").code == 3
    assert dpbudget(*run, "-a", "gdp-clt", "--max-epsilon", "1.83").code == 3  # an estimate passes no gate
    assert dpbudget(*run, "-a", "gdp-clt").code == 4


def test_a_cell_without_an_answer_says_why_and_fails_the_gate(dpbudget) -> None:
    run = ("table", "-s", "1", "-q", "0.01,1", "-t", "10", "-d", "1e-5", "-a", "zcdp")
    ran = dpbudget(*run, "--json")
    sampled, whole = ran.json["result"]["rows"]
    assert ran.code == 0 and "full-batch" in sampled["error"] and "epsilon" not in sampled
    assert whole["epsilon"]["upper"] > 0 and ran.json["warnings"][0]["code"] == "cells-failed"
    assert dpbudget(*run, "--max-epsilon", "1e6").code == 3
    assert dpbudget(*run, "-f", "value").out.strip() == "-"


@pytest.mark.parametrize("digits", ["1", "2", "3", "5"])
def test_the_one_number_of_a_table_is_never_below_what_is_proven(dpbudget, digits: str) -> None:
    for sigma in ("0.9", "1.1", "1.3"):
        run = ("table", "-s", f"{sigma},3", "-q", "0.01", "-t", "100", "-d", "1e-5")
        upper = max(row["epsilon"]["upper"] for row in dpbudget(*run, "--json").json["result"]["rows"])
        assert float(dpbudget(*run, "-f", "value", "--digits", digits).out) >= upper


def test_an_interrupt_keeps_what_is_done(dpbudget, monkeypatch) -> None:
    from dpbudget.answers import table

    asked = table.account.epsilons
    calls = iter(range(100))

    def stop_at_the_third(*arguments: object, **options: object) -> object:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return asked(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(table.account, "epsilons", stop_at_the_third)
    ran = dpbudget("table", "-s", "1,2,3,4", "-q", "0.01", "-t", "100", "-d", "1e-5", "--json")
    assert ran.code == 130 and len(ran.json["result"]["rows"]) == 2
    assert "2 of 4 cells" in ran.json["warnings"][0]["message"]


def test_a_plan_meets_its_target_and_marks_what_nothing_beats(dpbudget) -> None:
    result = dpbudget("plan", "-e", "3", "-d", "1e-5", "-n", "5000", "-b", "64,256", "-E", "1,5", "--json").json[
        "result"
    ]
    rows = result["rows"]
    for row in rows:
        assert row["epsilon"]["upper"] <= 3
        beaten = any(
            other["total_snr"] >= row["total_snr"] and other["examples"] <= row["examples"] and other is not row
            for other in rows
        )
        assert row["pareto"] is not beaten
        assert row["noise_per_gradient"] == pytest.approx(row["noise_multiplier"] / row["batch_size"])
    again = dpbudget(
        "sigma", "-e", "3", "-d", "1e-5", "-n", "5000", "-b", "256", "-E", "5", "-a", "pld", "--json"
    ).json["result"]  # fmt: skip
    assert rows[3]["noise_multiplier"] == again["noise_multiplier"]
    most = max(row["total_snr"] for row in rows if row["pareto"])
    enough = [row for row in rows if row["pareto"] and row["total_snr"] >= 0.8 * most]
    assert result["best"]["examples"] == min(row["examples"] for row in enough)


def test_a_plan_within_limits(dpbudget) -> None:
    run = ("plan", "-e", "3", "-d", "1e-5", "-n", "5000", "-b", "64,256", "-E", "1,5")
    rows = dpbudget(*run, "--max-batch", "64", "--max-epochs", "1", "--json").json["result"]["rows"]
    assert [(row["batch_size"], row["epochs"]) for row in rows] == [(64, 1)]
    rows = dpbudget(*run, "--target-snr", "100", "--json").json["result"]["rows"]
    assert rows and all(row["snr"] >= 100 for row in rows)
    ran = dpbudget(*run, "--target-snr", "1e6", "--json")
    assert ran.code == 3 and ran.json["result"]["nearest"]["target_snr"] < 1e6
    assert dpbudget(*run, "-a", "pld,rdp").code == 2


def test_one_run_of_a_search_and_of_a_simulation_by_the_accountant_that_was_asked_for(dpbudget) -> None:
    run = ("-s", "2", "-q", "0.01", "-t", "100", "-d", "1e-5")
    base = dpbudget("tune", *run, "--trials", "10", "-a", "rdp", "--json").json["result"]["base"]
    alone = dpbudget("epsilon", *run, "-a", "rdp", "--json").json["result"]["epsilon"]
    assert base == {"epsilon": alone, "accountant": "rdp"}
    small = ("simulate", "-e", "3", "-n", "200", "-b", "20", "-E", "1", "-C", "1", "-d", "1e-4", "-r", "1", "--json")
    by = {name: dpbudget(*small, "-a", name).json["result"]["runs"][0]["noise_multiplier"] for name in ("pld", "rdp")}
    assert by["rdp"] > by["pld"]


def test_a_table_without_an_answer_assumes_what_was_said(dpbudget) -> None:
    """No cell describes a run: what was given still holds, and no default stands for it."""
    line = ("table", "-e", 3, "-s", 1, "-t", "100,1000", "-d", "1e-5", "--sampling", "shuffle")
    ran = dpbudget(*line, "--json")
    assert ran.code == 2 and all("no sampling rate" in row["error"] for row in ran.json["result"]["rows"])
    assert (ran.json["assumptions"]["sampling"], ran.json["assumptions"]["adjacency"]) == ("shuffle", "zero-out")
    assert "Poisson" not in dpbudget(*line).out
