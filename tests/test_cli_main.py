"""The main commands as a shell sees them: contract, exit codes, messages, formats."""

from __future__ import annotations

import csv
import io
import json
import random

import pytest

from dpbudget.render.numbers import number

RUN = ("--sigma", "1.1", "-q", "0.01", "-t", "1000", "-d", "1e-5")


def test_epsilon_contract(dpbudget) -> None:
    report = dpbudget("epsilon", "--sigma", "1.1", "-b", "256", "-n", "60000", "-E", "60", "-d", "1e-5", "--json").json
    assert report["schema"] == "dpbudget.report/1"
    assert report["command"] == "epsilon"
    assert report["input"] == {
        "noise_multiplier": 1.1, "sampling_rate": 256 / 60000, "steps": 14100, "batch_size": 256, "dataset_size": 60000,
        "epochs": 60, "delta": 1e-5,
    }  # fmt: skip
    assert {"adjacency": "add-or-remove-one", "sampling": "poisson", "unit": "example"}.items() <= report[
        "assumptions"
    ].items()
    result = report["result"]
    assert result["accountant"] == "pld"
    assert result["epsilon"]["lower"] <= result["epsilon"]["estimate"] <= result["epsilon"]["upper"]
    pld, rdp = result["accountants"]
    assert (pld["kind"], rdp["kind"]) == ("interval", "upper-bound")
    assert set(pld["directions"]) == {"remove", "add"}
    assert pld["gap"] == "numerical" and pld["met_tolerance"] is True
    assert 7 < rdp["order"] < 9 and set(rdp["epsilon"]) == {"upper"}
    # the certified bracket of tests/data/brackets.json, mnist-60ep
    assert result["epsilon"]["upper"] >= 2.3850885 and result["epsilon"]["lower"] <= 2.3851494


@pytest.mark.parametrize("form", ["text", "json", "markdown", "csv", "value", "statement"])
def test_every_format_states_the_answer(dpbudget, form: str) -> None:
    ran = dpbudget("epsilon", *RUN, "-f", form)
    assert ran.code == 0 and ran.err == ""
    upper = dpbudget("epsilon", *RUN, "--json").json["result"]["epsilon"]["upper"]
    printed = number(upper, 5, "up")
    assert (str(upper) if form == "json" else printed) in ran.out.replace("\\", "")
    if form in ("text", "markdown", "statement"):
        plain = " ".join(ran.out.split()).replace("\\", "")
        for words in (
            "add-or-remove-one",
            "Poisson sampling",
            "unit example",
            "this run only",
            "hyper-parameter tuning",
        ):
            assert words in plain


def test_value_is_one_number(dpbudget) -> None:
    assert float(dpbudget("epsilon", *RUN, "-f", "value").out) > 1
    assert dpbudget("epsilon", "-s", "0", "-q", "0.1", "-t", "5", "-d", "1e-5", "-f", "value").out == "inf\n"


def test_csv_has_a_row_for_each_accountant(dpbudget) -> None:
    rows = list(
        csv.DictReader(io.StringIO(dpbudget("epsilon", *RUN, "-a", "pld,rdp,gdp-clt", "-f", "csv", "--quiet").out))
    )
    assert [row["accountant"] for row in rows] == ["pld", "rdp", "gdp-clt"]
    assert float(rows[0]["epsilon_lower"]) <= float(rows[0]["epsilon_upper"]) <= float(rows[1]["epsilon_upper"])
    assert rows[2]["epsilon_upper"] == "" and float(rows[2]["epsilon_estimate"]) > 0


def test_all_accountants_marked(dpbudget) -> None:
    ran = dpbudget("epsilon", "-s", "4", "-q", "0.01", "-t", "10000", "-d", "1e-5", "-a", "all", "--json")
    kinds = {a["name"]: a["kind"] for a in ran.json["result"]["accountants"]}
    assert kinds["pld"] == "interval" and kinds["gdp-clt"] == kinds["rule-of-thumb"] == "estimate"
    assert {"basic", "strong", "kov", "kov-exact", "moments", "rdp", "rdp-classic"} <= set(kinds)
    for entry in ran.json["result"]["accountants"]:
        assert ("upper" in entry["epsilon"]) == (entry["kind"] != "estimate")
    at_most = {"basic": 223.50, "strong": 16.845, "kov": 14.185, "kov-exact": 12.448}
    for entry in ran.json["result"]["accountants"]:
        if entry["name"] in at_most:
            assert 0.946867 <= entry["epsilon"]["upper"] <= at_most[entry["name"]]


@pytest.mark.parametrize("name", ["gdp-clt", "rule-of-thumb"])
def test_an_estimate_alone_is_no_answer(dpbudget, name: str) -> None:
    ran = dpbudget("epsilon", *RUN, "-a", name, "--json")
    assert ran.code == 4
    assert ran.json["status"] == "estimate" and "upper" not in ran.json["result"]["epsilon"]
    assert ran.json["result"]["epsilon"]["estimate"] > 0
    assert "estimate" in ran.err
    gated = dpbudget("epsilon", *RUN, "-a", name, "--max-epsilon", "100")
    assert gated.code == 4


def test_unbounded_is_said_and_is_valid_json(dpbudget) -> None:
    ran = dpbudget("epsilon", "-s", "0", "-q", "0.1", "-t", "5", "-d", "1e-5", "--json")
    assert ran.code == 4 and ran.json["status"] == "unbounded" == ran.json["result"]["status"]
    assert ran.json["result"]["epsilon"]["upper"] is None
    assert "Infinity" not in ran.out and "NaN" not in ran.out
    assert "no noise" in dpbudget("epsilon", "-s", "0", "-q", "0.1", "-t", "5", "-d", "1e-5").out


def test_nothing_released_costs_nothing(dpbudget) -> None:
    ran = dpbudget("epsilon", "-s", "1", "-q", "0.1", "-t", "0", "-d", "1e-5", "--json")
    assert ran.code == 0 and ran.json["result"]["epsilon"]["upper"] == 0


def test_gate(dpbudget) -> None:
    upper = dpbudget("epsilon", *RUN, "--json").json["result"]["epsilon"]["upper"]
    assert dpbudget("epsilon", *RUN, "--max-epsilon", repr(upper)).code == 0
    over = dpbudget("epsilon", *RUN, "--max-epsilon", repr(upper * (1 - 1e-9)))
    assert over.code == 3 and "above --max-epsilon" in over.out


def test_several_deltas(dpbudget) -> None:
    curve = dpbudget("epsilon", "-s", "1", "-q", "0.01", "-t", "100", "-d", "1e-5,1e-6,1e-7", "--json").json["result"][
        "curve"
    ]
    uppers = [point["epsilon"]["upper"] for point in curve]
    assert [point["delta"] for point in curve] == [1e-5, 1e-6, 1e-7] and uppers == sorted(uppers)


def test_delta_defaults_to_the_data_set(dpbudget) -> None:
    ran = dpbudget("epsilon", "-s", "1", "-b", "100", "-n", "10000", "-E", "1", "--json")
    assert ran.json["input"]["delta"] == pytest.approx(10000**-1.1, rel=1e-12)
    missing = dpbudget("epsilon", "-s", "1", "-q", "0.1", "-t", "1")
    assert missing.code == 2 and missing.err.startswith("error: --delta: is missing")


def test_delta_mirrors_epsilon(dpbudget) -> None:
    report = dpbudget("delta", "-s", "1", "-q", "0.01", "-t", "1000", "-e", "1.828236667", "--json").json
    ends = report["result"]["delta"]
    assert ends["lower"] <= 1e-5 <= ends["upper"]  # golden.csv: epsilon 1.828236667 at delta 1e-5
    assert report["result"]["accountants"][1]["name"] == "rdp"


@pytest.mark.parametrize(
    ("arguments", "option", "way_out"),
    [
        (("-q", "256", "-s", "1", "-t", "10", "-d", "1e-5"), "--sampling-rate", "--batch-size 256"),
        (("-q", "0.1", "-s", "nan", "-t", "10", "-d", "1e-5"), "--noise-multiplier", ""),
        (("-q", "0.1", "-s", "inf", "-t", "10", "-d", "1e-5"), "--noise-multiplier", ""),
        (("-q", "0.1", "-s", "1e400", "-t", "10", "-d", "1e-5"), "--noise-multiplier", ""),
        (("-q", "0.1", "-s", "-1", "-t", "10", "-d", "1e-5"), "--noise-multiplier", ""),
        (("-q", "0.1", "-s", "one", "-t", "10", "-d", "1e-5"), "--noise-multiplier", ""),
        (("-q", "0", "-s", "1", "-t", "10", "-d", "1e-5"), "--sampling-rate", ""),
        (("-q", "0.1", "-s", "1e300/1e-300", "-t", "10", "-d", "1e-5"), "--noise-multiplier", "below 1e308"),
        (("-q", "1e-300/1e300", "-s", "1", "-t", "10", "-d", "1e-5"), "--sampling-rate", "1e-307"),
        (("-b", "1", "-n", "1e308", "-s", "1", "-E", "1e308", "-d", "1e-5"), "--dataset-size", "The most is"),
        (("-b", "1", "-n", "1e18", "-s", "1", "-E", "1e308", "-d", "1e-5"), "--epochs", "Fifteen digits"),
        (("-q", "1e-400", "-s", "1", "-t", "10", "-d", "1e-5"), "--sampling-rate", ""),
        (("-q", "0.1", "-s", "1", "-t", "10.5", "-d", "1e-5"), "--steps", "round"),
        (("-q", "0.1", "-s", "1", "-t", "-1", "-d", "1e-5"), "--steps", ""),
        (("-q", "0.1", "-s", "1", "-t", "1e12", "-d", "1e-5"), "--steps", ""),
        (("-q", "0.1", "-s", "1", "-t", "10", "-d", "0"), "--delta", ""),
        (("-q", "0.1", "-s", "1", "-t", "10", "-d", "1"), "--delta", ""),
        (("-q", "0.1", "-s", "1", "-t", "10"), "--delta", "--dataset-size"),
        (("-q", "0.1", "-s", "1", "-d", "1e-5"), "--steps", "--epochs"),
        (("-s", "1", "-t", "10", "-d", "1e-5"), "--sampling-rate", "--batch-size"),
        (("-q", "0.1", "-t", "10", "-d", "1e-5"), "--noise-multiplier", "--noise-std"),
        (("-b", "10", "-s", "1", "-t", "10", "-d", "1e-5"), "--batch-size", "--dataset-size"),
        (("-b", "200", "-n", "100", "-s", "1", "-t", "10", "-d", "1e-5"), "--batch-size", "100"),
        (("-b", "10", "-n", "100", "-q", "0.1", "-s", "1", "-t", "10", "-d", "1e-5"), "--sampling-rate", "one of the two"),
        (("-q", "0.1", "-s", "1", "-t", "10", "-E", "3", "-d", "1e-5"), "--steps", "one of the two"),
        (("-q", "0.1", "-s", "1", "--noise-std", "1", "-C", "1", "-t", "1", "-d", "1e-5"), "--noise-multiplier", ""),
        (("-q", "0.1", "--noise-std", "1", "-t", "1", "-d", "1e-5"), "--noise-std", "--clip-norm"),
        (("-q", "0.1", "-s", "1", "-t", "1", "-d", "1e-5", "-a", "prv"), "--accountant", "pld"),
        (("-q", "0.1", "-s", "1", "-t", "1", "-d", "1e-5", "--sampling", "poison"), "--sampling", "poisson"),
        (("-q", "0.1", "-s", "1", "-t", "1", "-d", "1e-5", "-f", "xml"), "--format", "json"),
        (("-q", "0.1", "-s", "1", "-t", "1", "-d", "1e-5", "--digits", "0"), "--digits", ""),
        (("-q", "0.1", "-s", "1", "-t", "1", "-d", "1e-5", "--tolerance", "0"), "--tolerance", ""),
        (("-q", "0.1", "-s", "1", "-t", "1", "-d", "1e-5", "-o", "/no/such/folder/x"), "--output", ""),
        (("--history", "/no/such.csv", "-d", "1e-5"), "--history", ""),
        (("-q", "0.1", "-s", "1", "-t", "1", "-d", "1e-5", "-a", "zcdp"), "--accountant", "pld"),
    ],
)  # fmt: skip
def test_wrong_input_names_the_option_and_the_way_out(dpbudget, arguments, option: str, way_out: str) -> None:
    ran = dpbudget("epsilon", *arguments)
    assert ran.code == 2 and ran.out == ""
    first, *rest = ran.err.splitlines()
    assert first.startswith(f"error: {option}: ")
    assert way_out in "".join(rest)
    assert "Traceback" not in ran.err


def test_unknown_commands_and_options(dpbudget) -> None:
    assert dpbudget("epsilonn").code == 2
    ran = dpbudget("epsilon", "--sampling-rat", "1")
    assert ran.code == 2 and "--sampling-rate" in ran.err and ran.err.startswith("error: ")
    assert dpbudget("--help").code == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("-s", "1", "-b", "100", "-n", "1000", "-t", "10", "-d", "0.01"), "delta-large"),
        (("-s", "0.2", "-q", "0.01", "-t", "10", "-d", "1e-5"), "sigma-small"),
        (("-s", "1", "-q", "1", "-t", "1", "-d", "1e-5"), "rate-one"),
        (("-s", "1", "-b", "10", "-n", "50", "-t", "10", "-d", "1e-5"), "dataset-small"),
        (("-s", "1", "-q", "0.1", "-t", "10", "-d", "1e-5", "-a", "gdp-clt,pld"), "estimate"),
    ],
)  # fmt: skip
def test_warnings_have_a_next_step(dpbudget, arguments, code: str) -> None:
    ran = dpbudget("epsilon", *arguments, "--json")
    found = {w["code"]: w for w in ran.json["warnings"]}
    assert code in found and found[code]["hint"]
    assert found[code]["message"] in ran.err
    assert dpbudget("epsilon", *arguments, "--quiet").err == ""


def test_clip_norm_changes_nothing_but_the_ratio(dpbudget) -> None:
    plain = dpbudget("epsilon", *RUN, "--json").json["result"]
    std = dpbudget("epsilon", "--noise-std", "5.5", "-C", "5", "-q", "0.01", "-t", "1000", "-d", "1e-5", "--json").json
    assert std["result"] == plain and std["input"]["noise_multiplier"] == 1.1
    mean = dpbudget(
        "epsilon", "--noise-std", "0.055", "-C", "5", "--noise-on", "mean", "-b", "100", "-n", "10000", "-t", "1000",
        "-d", "1e-5", "--json",
    ).json  # fmt: skip
    assert mean["result"] == plain
    assert "does not change epsilon" in dpbudget("epsilon", *RUN, "-C", "3").out


def test_batches_over_devices(dpbudget) -> None:
    one = dpbudget("epsilon", "-s", "1", "-b", "512", "-n", "60000", "-E", "1", "-d", "1e-5", "--json").json
    many = dpbudget(
        "epsilon",
        "-s",
        "1",
        "-b",
        "32",
        "--devices",
        "4",
        "--accumulate",
        "4",
        "-n",
        "60000",
        "-E",
        "1",
        "-d",
        "1e-5",
        "--json",
    ).json
    assert many["result"] == one["result"] and many["input"]["batch_size"] == 512


@pytest.mark.parametrize(
    ("loader", "rate", "steps"),
    [("exact", 256 / 60000, 14100), ("opacus", 1 / 235, 14100), ("tf-privacy", 256 / 60000, 14063)],
)
def test_loaders(dpbudget, loader: str, rate: float, steps: int) -> None:
    ran = dpbudget(
        "epsilon", "-s", "1.1", "-b", "256", "-n", "60000", "-E", "60", "-d", "1e-5", "--loader", loader, "--json"
    )
    assert (ran.json["input"]["sampling_rate"], ran.json["input"]["steps"]) == (rate, steps)


def test_history(dpbudget, tmp_path) -> None:
    file = tmp_path / "history.csv"
    file.write_text("sigma,q,steps\n1.3,0.05,60\n0.9,0.05,40\n")
    report = dpbudget("epsilon", "--history", file, "-d", "1e-5", "--json", "--tolerance", "1e-6").json
    assert 3.44246 <= report["result"]["epsilon"]["upper"] <= 3.44247  # published as 3.44247, rounded up
    split = tmp_path / "split.csv"
    split.write_text("sigma,q,steps\n0.9,0.05,40\n1.3,0.05,50\n1.3,0.05,10\n")
    again = dpbudget("epsilon", "--history", split, "-d", "1e-5", "--json", "--tolerance", "1e-6").json
    assert again["result"] == report["result"]  # merged and sorted first: equal to the last bit


@pytest.mark.parametrize("arguments", [("-q", "0.01", "-t", "1000"), ("-b", "256", "-n", "60000", "-E", "10")])
@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_sigma_round_trip(dpbudget, arguments, accountant: str) -> None:
    found = dpbudget("sigma", "-e", "2", "-d", "1e-5", *arguments, "-a", accountant, "--json").json["result"]
    answer, beside = found["noise_multiplier"], found["insufficient"]
    assert float(f"{answer:.5g}") == answer and float(f"{beside:.5g}") == beside < answer

    def upper(sigma: float) -> float:
        report = dpbudget("epsilon", "-s", repr(sigma), "-d", "1e-5", *arguments, "-a", accountant, "--json").json
        return report["result"]["epsilon"]["upper"]

    assert upper(answer) == found["epsilon"]["upper"] <= 2 < upper(beside)
    assert dpbudget("sigma", "-e", "2", "-d", "1e-5", *arguments, "-a", accountant, "-f", "value").out.strip() == repr(
        answer
    )


def test_steps_round_trip(dpbudget) -> None:
    report = dpbudget("steps", "-e", "2", "-d", "1e-6", "-s", "3", "-q", "0.1", "--json").json["result"]
    assert report["steps"] == 155  # accounting tables: epsilon(155) = 1.99626, epsilon(156) = 2.00294
    assert report["epsilon"]["upper"] <= 2 < report["epsilon_next"]["upper"]
    assert report["epsilon"]["upper"] == pytest.approx(1.99626, abs=3e-5)  # published to five decimals, tolerance 1e-5


def test_rate_and_batch(dpbudget) -> None:
    arguments = ("-e", "3", "-d", "1e-5", "-s", "1.1", "-t", "10000", "-n", "60000")
    found = dpbudget("rate", *arguments, "--json").json["result"]
    for flag, value in (("-q", repr(found["sampling_rate"])), ("-b", str(found["batch_size"]))):
        extra = () if flag == "-q" else ("-n", "60000")
        cost = dpbudget("epsilon", flag, value, *extra, "-s", "1.1", "-t", "10000", "-d", "1e-5", "--json").json[
            "result"
        ]
        assert cost["epsilon"]["upper"] <= 3
    more = dpbudget(
        "epsilon", "-b", str(found["batch_size"] + 1), "-n", "60000", "-s", "1.1", "-t", "10000", "-d", "1e-5", "--json"
    )
    assert more.json["result"]["epsilon"]["upper"] > 3


@pytest.mark.parametrize("line", [
    "rate -e 3 --sampling shuffle", "rate -e 3 --sampling balls-in-bins", "rate -e 3 --sampling full-batch",
    "risk --target-advantage 0.1 --sampling shuffle",
])  # fmt: skip
def test_no_rate_is_solved_for_where_the_sampling_leaves_none(dpbudget, line: str) -> None:
    """The reason, and what to type; a rate that the search would have tried is nobody's concern."""
    ran = dpbudget(*line.split(), "-d", "1e-5", "-s", "1", "-t", "100")
    assert (ran.code, ran.out) == (2, "") and "--sampling: " in ran.err and "no" in ran.err and "1 / 0." not in ran.err
    instead = ran.err.split("dpbudget ")[1].rstrip(".\n")
    if instead.startswith("table --sampling shuffle"):
        known = {"N": "6400", "E": "1", "S": "9", "D": "1e-5"}
        assert dpbudget(*(known.get(word, word) for word in instead.split()), "--quiet").code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("steps", "-e", "0.001", "-d", "1e-9", "-s", "0.5", "-q", "0.5"), "one step"),
        (("sigma", "-e", "0.1", "-d", "1e-9", "-q", "0.01", "-t", "10", "-a", "moments"), "moments"),
    ],
)
def test_infeasible_in_one_sentence_with_the_nearest_target(dpbudget, arguments, says: str) -> None:
    ran = dpbudget(*arguments, "--json")
    assert ran.code == 3 and ran.json["status"] == "infeasible"
    assert ran.json["result"]["nearest"]["epsilon"] > 0
    assert says in ran.json["result"]["message"]
    text = dpbudget(*arguments)
    assert text.code == 3 and "nearest feasible target is epsilon" in " ".join(text.out.split())


@pytest.mark.parametrize("command", ["sigma", "steps", "rate"])
def test_solvers_refuse_estimates_and_what_they_solve_for(dpbudget, command: str) -> None:
    run = {"sigma": ("-q", "0.1", "-t", "9"), "steps": ("-q", "0.1", "-s", "1"), "rate": ("-t", "9", "-s", "1")}[
        command
    ]
    assert dpbudget(command, "-e", "1", "-d", "1e-5", *run, "-a", "gdp-clt").code == 2
    own = {"sigma": ("-s", "1"), "steps": ("-t", "5"), "rate": ("-q", "0.1")}[command]
    ran = dpbudget(command, "-e", "1", "-d", "1e-5", *run, *own)
    assert ran.code == 2 and "solves for" in ran.err
    if command == "rate":
        assert dpbudget("rate", "-e", "1", "-d", "1e-5", "-s", "1", "-E", "3").code == 2


def test_gaussian(dpbudget) -> None:
    found = dpbudget("gaussian", "-e", "10", "-d", "1e-5", "--sensitivity", "3", "--json")
    result = found.json["result"]
    assert result["noise_multiplier"] == pytest.approx(0.499888619709009, rel=1e-10)  # gaussian.csv, 60 digits
    assert result["noise_std"] == pytest.approx(3 * 0.499888619709009, rel=1e-10)
    assert result["classical"]["proven"] is False and result["classical"]["true_delta"] > 1e-5
    assert {w["code"] for w in found.json["warnings"]} == {"classical-unproven"}
    back = dpbudget(
        "gaussian", "-d", "1e-5", "--noise-std", repr(result["noise_std"]), "--sensitivity", "3", "--json"
    ).json
    assert back["result"]["epsilon"] == pytest.approx(10, rel=1e-12)
    zero = dpbudget("gaussian", "-e", "0", "-d", "1e-6", "-f", "value")
    assert float(zero.out) >= 398942.280401328 * (1 - 1e-12)
    for arguments in (("-e", "1"), (), ("-e", "1", "-d", "1e-5", "-s", "1")):
        assert dpbudget("gaussian", *arguments).code == 2
    assert dpbudget("gaussian", "-d", "1e-5", "-s", "0").code == 4


def test_explain(dpbudget) -> None:
    long = dpbudget("epsilon", *RUN, "-v").out
    assert long == dpbudget("explain", *RUN).out
    for words in ("clipping norm", "sampling rate q", "T steps", "delta is the", "Renyi"):
        assert words in " ".join(long.split())


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_text_fits_and_loses_no_digit(dpbudget, columns: int) -> None:
    arguments = (
        "epsilon",
        "-s",
        "1.1",
        "-b",
        "256",
        "-n",
        "60000",
        "-E",
        "60",
        "-d",
        "1e-5,1.23456e-7",
        "-a",
        "all",
        "--quiet",
    )
    ran = dpbudget(*arguments, columns=columns)
    assert max(map(len, ran.out.splitlines())) <= columns
    wide = dpbudget(*arguments, columns=200).out
    for cell in wide.split():
        if cell.replace(".", "").replace("-", "").replace("e", "").isdigit():
            assert cell in ran.out


def test_output_file_is_written_whole(dpbudget, tmp_path) -> None:
    target = tmp_path / "report.json"
    ran = dpbudget("epsilon", *RUN, "--json", "-o", target)
    assert ran.out == "" and json.loads(target.read_text())["command"] == "epsilon"
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def test_same_input_same_bytes(dpbudget_process) -> None:
    first = dpbudget_process("epsilon", *RUN, "--json")
    assert first.code == 0 and first.out == dpbudget_process("epsilon", *RUN, "--json").out


def test_random_round_trips(dpbudget) -> None:
    """A sample of the thousand of test_slow: the printed answer satisfies the target, its neighbour is not shown to."""
    draw = random.Random(7)
    for _ in range(3):
        epsilon, q, steps = 10 ** draw.uniform(-0.5, 1), 10 ** draw.uniform(-3, -1), int(10 ** draw.uniform(1, 4))
        common = ("-q", f"{q:.4g}", "-d", "1e-6")
        found = dpbudget("sigma", "-e", f"{epsilon:.4g}", *common, "-t", str(steps), "-a", "pld", "--json").json[
            "result"
        ]
        target = float(f"{epsilon:.4g}")
        for sigma, meets in ((found["noise_multiplier"], True), (found["insufficient"], False)):
            cost = dpbudget("epsilon", "-s", repr(sigma), *common, "-t", str(steps), "-a", "pld", "--json").json[
                "result"
            ]
            assert (cost["epsilon"]["upper"] <= target) is meets


def test_adaptive_runs_are_a_filter(dpbudget) -> None:
    within = dpbudget("epsilon", *RUN, "--adaptive", "--max-epsilon", "3", "--json")
    fixed = dpbudget("epsilon", *RUN, "-a", "rdp", "--json").json["result"]["epsilon"]["upper"]
    assert within.code == 0
    assert within.json["result"]["epsilon"]["upper"] == 3  # the guarantee is the whole budget, not what was spent of it
    assert fixed <= within.json["result"]["filter_spent"] <= 3
    assert within.json["result"]["composition"] == "rdp-filter" and "filter" in within.json["assumptions"]["parameters"]
    assert dpbudget("epsilon", *RUN, "--adaptive", "--max-epsilon", "1").code == 3
    assert dpbudget("epsilon", *RUN, "--adaptive").err.startswith("error: --adaptive: ")


def test_no_arguments_show_the_help(dpbudget_process) -> None:
    ran = dpbudget_process()
    assert ran.code == 0 and ran.out.startswith("Usage: dpbudget") and ran.err == ""


@pytest.mark.parametrize(
    "run", ["-s 0.05 -q 1e-9 -t 1e9 -d 1e-100", "-s 1e6 -q 1 -t 1 -d 1e-100", "-s 0.05 -q 1 -t 1 -d 0.5"]
)
def test_extreme_values_get_an_answer_or_a_sentence(dpbudget, run: str) -> None:
    ran = dpbudget("epsilon", *run.split(), "--json")
    assert ran.code in (0, 4)
    ends = ran.json["result"]["epsilon"]
    assert ran.code == 4 or ends.get("lower", 0) <= ends["upper"]


@pytest.mark.parametrize(
    "run", ["-s 110.8 -q 1.786e-9 -t 116 -e 5.67e-5", "-s 1969 -q 0.003257 -t 465 -e 2758", "-s 1 -q 0.01 -t 247 -e 4"]
)
def test_delta_far_out_is_tiny_and_never_a_fault(dpbudget, run: str) -> None:
    ran = dpbudget("delta", *run.split(), "--json")
    assert ran.code == 0 and 0 < ran.json["result"]["delta"]["upper"] < 1e-14


def test_an_accountant_without_a_proof_is_left_out_by_default(dpbudget) -> None:
    """Nobody chose rdp: balls in bins is answered by pld alone; where it was chosen, or nobody can answer, it is said."""
    run = ("-s", "1", "-q", "0.1", "-t", "20", "-d", "1e-5", "--sampling", "balls-in-bins", "--tolerance", "0.01")
    ran = dpbudget("epsilon", *run, "--json")
    assert ran.code == 0 and [entry["name"] for entry in ran.json["result"]["accountants"]] == ["pld"]
    assert dpbudget("epsilon", *run, "-a", "rdp").code == 2
    for command in (("epsilon", *run), ("sigma", "-e", "1", *run[2:])):
        refused = dpbudget(*command, "--adjacency", "replace-one", "-a", "all")
        assert refused.code == 2 and refused.err.startswith("error: --adjacency: no bound is proven")


@pytest.mark.parametrize("value", ["1e-51", "1e51", "1e300"])
def test_noise_whose_square_leaves_the_doubles_is_refused(dpbudget, value: str) -> None:
    """In both ways of giving it; at the ends of what is taken every accountant answers or says why it has no bound."""
    rest = ("-q", "0.01", "-t", "10", "-d", "1e-5")
    for noise in (("-s", value), ("--noise-std", value, "-C", "1")):
        ran = dpbudget("epsilon", *noise, *rest)
        assert ran.code == 2 and f"a noise multiplier of {float(value):g} is not in [1e-50, 1e+50]" in ran.err
    for end in ("1e-50", "1e50"):
        assert dpbudget("epsilon", "-s", end, *rest, "-a", "all").code in (0, 4)


def test_a_bound_without_a_moment_names_no_order(dpbudget) -> None:
    """Above the total variation rdp proves 0 without any order: none is printed, and none stands in the document."""
    run = ("epsilon", "-s", "1", "-q", "0.01", "-t", "1", "-d", "0.5", "-a", "rdp")
    assert "nan" not in dpbudget(*run, "--explain").out and "order" not in dpbudget(*run, "--json").out
