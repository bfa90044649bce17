"""dpbudget risk: the numbers of the literature, one curve against one epsilon, inverses that are met, the contract."""

from __future__ import annotations

import csv
import io
import json
import math

import jsonschema
import pytest
from scipy.special import ndtr
from test_schemas import REPORT, faults

GAUSSIAN = ("--sampling", "full-batch", "-s", "1", "-t", "1", "-d", "1e-5")
RUN = ("-s", "1", "-q", "0.01", "-t", "1000", "-d", "1e-5")


def risk(dpbudget, *arguments: str, code: int = 0) -> dict:
    ran = dpbudget("risk", *arguments, "--json", "--quiet")
    assert ran.code == code, ran.err
    assert faults(REPORT, ran.json) == []
    return ran.json["result"]


def tpr_at(result: dict, fpr: float) -> dict:
    return next(entry for entry in result["tpr"] if entry["fpr"] == fpr)


# --- the numbers of the issue ----------------------------------------------------------------------------------------


def test_one_gaussian(dpbudget) -> None:
    """mu = 1: Dong, Roth, Su 2022: advantage 2 Phi(1/2) - 1, TPR Phi(Phi^-1(FPR) + 1)."""
    found = risk(dpbudget, *GAUSSIAN)
    exact = 2 * ndtr(0.5) - 1
    assert found["advantage"]["lower"] <= exact <= found["advantage"]["upper"]
    assert round(found["advantage"]["upper"], 5) == 0.38292
    assert round(tpr_at(found, 0.01)["upper"], 5) == 0.09236
    assert round(tpr_at(found, 0.001)["upper"], 6) == 0.018298
    assert found["bayes_error"]["lower"] <= ndtr(-0.5) <= found["bayes_error"]["upper"]
    assert found["mu"]["lower"] <= 1 <= found["mu"]["upper"] < 1.00003
    for point in found["curve"]:
        assert point["tpr"]["lower"] + point["fnr"]["upper"] == pytest.approx(1, abs=1e-9)


def test_eight_and_1e_5_alone(dpbudget) -> None:
    found = risk(dpbudget, "--epsilon", "8", "--delta", "1e-5")
    assert round(tpr_at(found, 0.01)["upper"], 5) == 0.99967
    assert tpr_at(found, 0.01)["upper"] == pytest.approx(tpr_at(found, 0.01)["from_epsilon_delta"], rel=1e-9)
    assert found["posterior"]["upper"] == 1  # delta of the outputs may say everything
    assert found["mu"]["upper"] is None  # delta never falls below the floor
    higher = risk(dpbudget, "--epsilon", "8", "--delta", "1e-5", "--failure", "1e-4", "--floor", "1e-4")
    odds = math.exp(8 - math.log1p(-0.1))
    assert higher["posterior"]["upper"] == pytest.approx(odds / (1 + odds), rel=1e-9)
    assert 3 < higher["mu"]["upper"] < 10


def test_own_curve_of_a_run_with_epsilon_8_lies_far_below(dpbudget) -> None:
    sigma = dpbudget(
        "sigma", "-e", "8", "-q", "0.01", "-t", "10000", "-d", "1e-5", "-f", "value", "--quiet"
    ).out.strip()
    found = risk(dpbudget, "-s", sigma, "-q", "0.01", "-t", "10000", "-d", "1e-5")
    assert 7.99 < found["epsilon_delta"]["epsilon"]["upper"] <= 8
    entry = tpr_at(found, 0.01)
    assert entry["upper"] < 0.3 < 0.999 < entry["from_epsilon_delta"]
    assert found["advantage"]["upper"] < 0.8 < found["advantage"]["from_epsilon_delta"]
    assert found["bayes_error"]["lower"] > 100 * found["bayes_error"]["from_epsilon_delta"]


def test_gdp_summary_at_the_floor(dpbudget) -> None:
    mu = risk(dpbudget, "-s", "9.4", "-q", "0.328", "-t", "2000", "-d", "1e-5", "--floor", "1e-5")["mu"]
    assert round(mu["upper"], 4) in (1.5674, 1.5675)
    assert mu["lower"] < 1.5675 and mu["upper"] > 1.5674


def test_every_interval_is_below_what_epsilon_delta_says(dpbudget) -> None:
    """The curve of a run lies above that of its own (epsilon, delta); both ends count, in the guarantee's direction."""
    found = risk(dpbudget, *RUN, "--fpr", "1e-6,0.3,0.9", "--prior", "0.2", "--reconstruction-baseline", "0.01")
    for entry in (found["advantage"], found["posterior"], found["reconstruction"], *found["tpr"]):
        assert entry["lower"] <= entry["upper"] <= entry["from_epsilon_delta"] * (1 + 1e-9)
    error = found["bayes_error"]
    assert error["from_epsilon_delta"] <= error["lower"] * (1 + 1e-9) <= error["upper"] * (1 + 1e-9)
    assert error["upper"] <= 0.2
    assert found["reconstruction"] == {**found["reconstruction"], "baseline": 0.01}
    assert [entry["fpr"] for entry in found["tpr"]] == [1e-6, 0.3, 0.9]


# --- inverses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "option", "beside"),
    [
        (("-q", "0.01", "-t", "1000"), "-s", -1),
        (("-s", "1", "-q", "0.01"), "-t", 1),
        (("-s", "1", "-t", "1000"), "-q", 1),
    ],
)
@pytest.mark.parametrize("target", [("--target-advantage", "0.1"), ("--target-tpr", "0.02", "--at-fpr", "0.01")])
def test_solved_then_asked(dpbudget, given, option: str, beside: int, target) -> None:
    """Typing the answer back meets the target; its neighbour does not, and `insufficient` is that neighbour."""
    solved = risk(dpbudget, *given, "-d", "1e-5", *target)["solved"]
    printed = dpbudget("risk", *given, "-d", "1e-5", *target, "-f", "value", "--quiet").out.strip()
    assert float(printed) == solved["value"]

    def measured(value: str) -> float:
        found = risk(dpbudget, *given, option, value, "-d", "1e-5")
        return found["advantage"]["upper"] if len(target) == 2 else tpr_at(found, 0.01)["upper"]

    assert measured(printed) <= float(target[1])
    assert measured(repr(solved["insufficient"])) > float(target[1]) * (1 - 1e-5)  # certified ends are 1e-6 wide
    assert (solved["insufficient"] - solved["value"]) * beside > 0


def test_rate_gives_a_whole_batch(dpbudget) -> None:
    solved = risk(dpbudget, "-s", "1", "-t", "1000", "-n", "60000", "--target-advantage", "0.1")["solved"]
    assert solved["batch_size"] <= solved["value"] * 60000 < solved["batch_size"] + 1


def test_target_that_nothing_meets(dpbudget) -> None:
    ran = dpbudget("risk", "-s", "0.4", "-q", "0.5", "-d", "1e-5", "--target-advantage", "0.01", "--json")
    assert ran.code == 3 and ran.json["status"] == "infeasible"
    assert faults(REPORT, ran.json) == []
    nearest = ran.json["result"]["nearest"]["advantage"]
    assert nearest == pytest.approx(
        risk(dpbudget, "-s", "0.4", "-q", "0.5", "-t", "1", "-d", "1e-5")["advantage"]["upper"]
    )


# --- the contract ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["text", "json", "markdown", "csv", "value", "statement"])
def test_every_format_states_the_advantage(dpbudget, form: str) -> None:
    ran = dpbudget("risk", *RUN, "-f", form)
    assert (ran.code, ran.err) == (0, "")
    upper = risk(dpbudget, *RUN)["advantage"]["upper"]
    printed = f"{math.ceil(upper * 1e5) / 1e5:.5f}"
    assert (str(upper) if form == "json" else printed) in ran.out
    if form in ("text", "markdown", "statement"):
        plain = " ".join(ran.out.split()).replace("\\", "")
        for words in ("add-or-remove-one", "Poisson sampling", "this run only", "knows every other record"):
            assert words in plain


def test_csv_has_a_row_for_each_measure(dpbudget) -> None:
    found = list(csv.DictReader(io.StringIO(dpbudget("risk", *RUN, "-f", "csv").out)))
    names = ["advantage", "TPR", "TPR", "posterior", "Bayes error", "reconstruction", "Gaussian mu"]
    assert [row["measure"] for row in found] == names
    assert all(float(row["this_run_lower"]) <= float(row["this_run_upper"]) for row in found)
    assert all(float(row["from_epsilon_delta"]) <= 1 for row in found[:-1])


@pytest.mark.parametrize("arguments", [RUN, ("--epsilon", "8", "-d", "1e-5"), (*RUN[2:], "--target-advantage", "0.1")])
def test_sixty_columns_and_the_curve(dpbudget, arguments) -> None:
    ran = dpbudget("risk", *arguments, "-v", columns=60)
    assert max(map(len, ran.out.splitlines())) <= 60
    assert "false-positive rate" in ran.out
    assert "false-positive rate" not in dpbudget("risk", *arguments).out


def test_delta_from_the_number_of_records(dpbudget) -> None:
    ran = dpbudget("risk", "--sampling", "full-batch", "-s", "1", "-t", "1", "-n", "10000", "--json")
    assert ran.json["input"]["delta"] == pytest.approx(10000**-1.1)
    ran = dpbudget("risk", "--epsilon", "1", "-n", "10000", "--json")
    assert ran.json["input"]["delta"] == pytest.approx(10000**-1.1)


def test_without_noise_there_is_no_bound(dpbudget) -> None:
    ran = dpbudget("risk", "-s", "0", "-q", "0.1", "-t", "10", "-d", "1e-5", "--json", "--quiet")
    assert ran.code == 4 and ran.json["status"] == "unbounded"
    assert ran.json["result"]["advantage"]["upper"] == 1 and ran.json["result"]["mu"]["upper"] is None
    assert faults(REPORT, ran.json) == []


def test_without_steps_nothing_is_learnt(dpbudget) -> None:
    found = risk(dpbudget, "-s", "1", "-q", "0.1", "-t", "0", "-d", "1e-5")
    assert found["advantage"]["upper"] == 0 and found["mu"]["upper"] == 0
    assert all(entry["upper"] == pytest.approx(entry["fpr"]) for entry in found["tpr"])


def test_far_ends_of_the_range(dpbudget) -> None:
    """Tilts so large that only nodes of no mass are left, and an epsilon whose exponential overflows."""
    tiny = risk(dpbudget, "-s", "1e6", "-q", "0.01", "-t", "1000", "-d", "1e-5")["advantage"]
    limit = 0.01 * math.sqrt(1000) / 1e6 / math.sqrt(2 * math.pi)  # q sqrt(T) / sigma x phi(0), to first order
    assert tiny["lower"] == pytest.approx(limit, rel=1e-3) and tiny["upper"] == pytest.approx(limit, rel=1e-3)
    assert risk(dpbudget, "-e", "1000", "-d", "1e-5")["advantage"]["upper"] == 1
    assert (
        dpbudget("delta", "-s", "1", "-q", "0.01", "-t", "100", "-e", "1000", "-a", "pld", "-f", "value").out == "0\n"
    )


ROUGH = {
    "rare": "-s 1 -q 1e-5 -t 1000 -d 1e-5",
    "replaced": "-s 2 -q 0.05 -t 500 -d 1e-5 --adjacency replace-one",
    "group": "-s 4 -q 0.01 -t 100 -d 1e-5 --group-size 3",
    "cut": "-s 2 -b 100 -n 10000 -t 100 -d 1e-5 --max-batch 130 --adjacency replace-one",
    "bins": "-s 1 -b 50 -n 100 -E 2 -d 1e-5 --sampling balls-in-bins",
}
ROUGH_AND_LONG = {
    "two steps": "-s 1 -q 0.01 -t 2 -d 1e-5",
    "few steps": "-s 0.5 -q 0.001 -t 10 -d 1e-5",
    "group of two": "-s 1 -q 0.01 -t 1000 -d 1e-5 --group-size 2",
    "group of sixteen": "-s 4 -q 0.01 -t 1000 -d 1e-5 --group-size 16",
    "little noise, replaced": "-s 0.6 -q 0.001 -t 10000 -d 1e-6 --adjacency replace-one",
    "million steps, replaced": "-s 1 -q 0.01 -t 1000000 -d 1e-5 --adjacency replace-one",
    "cut, added": "-s 1 -b 100 -n 10000 -t 1000 -d 1e-5 --max-batch 120",
    "cut, zeroed out": "-s 1 -b 100 -n 10000 -t 1000 -d 1e-5 --max-batch 150 --adjacency zero-out",
    "little noise": "-s 0.05 -q 0.01 -t 1000 -d 1e-5",
    "rarest": "-s 1 -q 1e-9 -t 1000 -d 1e-5",
    "tiny delta": "-s 1 -q 0.01 -t 1000 -d 1e-100",
    "shuffled": "-s 1 -b 10 -n 1000 -E 5 -d 1e-5 --sampling shuffle --adjacency zero-out",
    "bins of a thousand": "-s 0.5 -b 10 -n 10000 -E 3 -d 1e-5 --sampling balls-in-bins",
}


def check_rough(dpbudget, line: str) -> None:
    ran = dpbudget("risk", *line.split(), "--json", "--quiet")
    assert (ran.code, ran.err) == (0, "")
    found = ran.json["result"]
    attained = "upper-ends-only" not in [notice["code"] for notice in ran.json["warnings"]]
    for entry in (found["advantage"], *found["tpr"], found["reconstruction"]):
        assert 0 <= entry["lower"] <= entry["upper"] <= min(1.0, entry["from_epsilon_delta"] * (1 + 1e-6))
        if attained:
            assert entry["upper"] - entry["lower"] <= 0.02 * entry["upper"]


@pytest.mark.parametrize("name", ROUGH)
def test_runs_that_only_lattices_cover(dpbudget, name: str) -> None:
    check_rough(dpbudget, ROUGH[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUGH_AND_LONG)
def test_more_runs_that_only_lattices_cover(dpbudget, name: str) -> None:
    check_rough(dpbudget, ROUGH_AND_LONG[name])


def test_shuffled_batches_show_the_guarantee_only(dpbudget) -> None:
    ran = dpbudget(
        "risk", "--sampling", "shuffle", "-s", "1", "-b", "10", "-n", "100", "-E", "1", "-d", "1e-5", "--json"
    )
    assert ran.code == 0 and "upper-ends-only" in [w["code"] for w in ran.json["warnings"]]
    assert ran.json["result"]["advantage"]["lower"] == 0
    assert 0 < ran.json["result"]["advantage"]["upper"] < 0.383  # one release of the batch that the record is in


@pytest.mark.parametrize(
    ("line", "message", "way_out"),
    [
        ("-s 1 -q 0.01 -t 10", "error: --delta: is missing", "--dataset-size"),
        ("-s 1 -q 0.01 -t 10 -d 1e-5 --fpr 0", "error: --fpr: 0 is not in (0, 1)", "0.01"),
        ("-s 1 -q 0.01 -t 10 -d 1e-5 --fpr 0.1,nan", "error: --fpr: nan is not a number", "0.01"),
        ("-s 1 -q 0.01 -t 10 -d 1e-5 --prior 1", "error: --prior: 1 is not in (0, 1)", "0.01"),
        (
            "-s 1 -q 0.01 -t 10 -d 1e-5 --target-advantage 0.1",
            "error: --target-advantage: leaves nothing",
            "Drop one of",
        ),
        ("-s 1 -d 1e-5 --target-advantage 0.1", "error: --sampling-rate: is missing as well as --steps", "Only one"),
        ("-s 1 -q 0.1 -d 1e-5 --target-tpr 0.1", "error: --at-fpr: is missing", "--at-fpr F"),
        (
            "-s 1 -q 0.1 -d 1e-5 --target-tpr 0.1 --at-fpr 0.2",
            "error: --target-tpr: 0.1 is not above the FPR 0.2",
            "larger",
        ),
        (
            "-s 1 -q 0.1 -d 1e-5 --target-tpr 0.1 --at-fpr 0.01 --target-advantage 0.1",
            "contradicts --target-tpr",
            "one",
        ),
        ("-e 8 -d 1e-5 -s 1", "error: --epsilon: stands for a guarantee without a run", "Drop one"),
        ("-e 8 -d 1e-5 --target-advantage 0.1", "error: --epsilon: has no noise", "Describe a run"),
        ("-e 8", "error: --delta: is missing", "--delta 1e-5"),
        (
            "-s 1 -b 10 -n 100 -E 1 -d 1e-5 --sampling balls-in-bins --adjacency replace-one",
            "error: --adjacency: no bound is proven for balls in bins",
            "Use --adjacency",
        ),
        ("-s 0 -q 0.1 -d 1e-5 --target-advantage 0.1", "error: without noise", "above 0"),
    ],
)
def test_mistakes_are_told_with_the_way_out(dpbudget, line: str, message: str, way_out: str) -> None:
    ran = dpbudget("risk", *line.split())
    assert ran.code == (4 if "without noise" in message else 2)
    assert ran.out == "" and "Traceback" not in ran.err
    first, *rest = ran.err.splitlines()
    assert message in first and any(way_out in text for text in rest)


def test_schema_notices_a_renamed_key(dpbudget) -> None:
    good = dpbudget("risk", *RUN, "--json").json
    broken = json.loads(json.dumps(good).replace("from_epsilon_delta", "from_epsilon"))
    assert faults(REPORT, good) == [] and faults(REPORT, broken)
    assert isinstance(REPORT, jsonschema.Draft202012Validator)
