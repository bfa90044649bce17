"""dpbudget verify: right guarantees agree, wrong ones are caught, attacks count, the contract."""

from __future__ import annotations

import csv
import io
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_schemas import REPORT, faults

import dpbudget as package

RUN = ("-s", "1", "-q", "0.01", "-t", "1000")
FULL = ("--sampling", "full-batch", "-t", "1")
SURE = ("--confidence", "0.999999")
FULL_BATCH_EPSILON = 4.3772  # of one full batch at sigma 1, delta 1e-5, rounded up


def verify(dpbudget, *arguments: object, code: int = 0) -> dict:
    ran = dpbudget("verify", *map(str, arguments), "--json", "--quiet")
    assert ran.code == code, ran.err
    assert faults(REPORT, ran.json) == []
    return ran.json["result"]


# --- sampling --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("delta", "share"), [("1e-5", 0.015), ("1e-10", 0.03)])
def test_twenty_thousand_tilted_samples(dpbudget, delta: str, share: float) -> None:
    found = verify(dpbudget, *RUN, "-d", delta, "--samples", 20000)
    assert found["verdict"] == "agrees"
    sampled = found["delta"]
    assert sampled["lower"] < float(delta) < sampled["upper"]
    assert sampled["standard_error"] < share * sampled["estimate"]
    assert found["certified"]["delta"]["upper"] <= float(delta)
    assert set(found["directions"]) == {"remove", "add"}
    assert found["claimed"]["delta"] == float(delta)


def test_epsilon_precision_and_plain_sampling(dpbudget) -> None:
    short = (*RUN[:4], "-t", "100")
    tilted = verify(dpbudget, *short, "-e", 0.3, "--precision", 0.1)
    plain = verify(dpbudget, *short, "-e", 0.3, "--plain", "--samples", 20000)
    assert tilted["verdict"] == plain["verdict"] == "agrees"
    half = (tilted["delta"]["upper"] - tilted["delta"]["lower"]) / 2
    assert half < 0.13 * tilted["delta"]["estimate"]  # the pilot forecasts the number of samples; no promise
    assert plain["delta"]["tilt"] == 0 < tilted["delta"]["tilt"]
    assert tilted["claimed"] == {"epsilon": 0.3, "delta": tilted["certified"]["delta"]["upper"]}


def test_seeds_repeat_byte_for_byte(dpbudget) -> None:
    first, again, other = (
        dpbudget("verify", *RUN[:4], "-t", "10", "-d", "1e-5", "--seed", seed, "--json").out for seed in "112"
    )
    assert first == again != other


@pytest.mark.parametrize(("claim", "verdict", "code"), [("1.8283", "agrees", 0), ("1.7", "disagrees", 3)])
def test_published_claims(dpbudget, claim: str, verdict: str, code: int) -> None:
    found = verify(dpbudget, *RUN, "--claim", f"{claim},1e-5", code=code)
    assert found["verdict"] == verdict
    assert found["sampling_meets_certified"] is True
    assert 1.828 < found["certified"]["epsilon"]["upper"] < 1.8284
    assert (found["delta"]["lower"] > 1e-5) == (verdict == "disagrees")  # the samples alone refute it as well


def test_claim_within_the_certified_interval_is_not_proven(dpbudget) -> None:
    """A claim that the proof neither shows nor excludes fails closed."""
    ends = verify(dpbudget, *RUN, "-e", 1, "--samples", 1000)["certified"]["delta"]
    middle = (ends["lower"] + ends["upper"]) / 2
    assert verify(dpbudget, *RUN, "--claim", f"1,{middle!r}", "--samples", 1000, code=3)["verdict"] == "inconclusive"
    assert verify(dpbudget, *RUN, "--claim", f"1,{ends['upper']!r}", "--samples", 1000)["verdict"] == "agrees"


def test_wrong_accountant_is_caught(dpbudget, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the true delta certified by a broken engine: the samples exclude it."""
    from dpbudget.accounting import account
    from dpbudget.model import Guarantee, Interval

    right = account.delta

    def wrong(*arguments, **keywords) -> Guarantee:
        found = right(*arguments, **keywords)
        return Guarantee(found.accountant, found.kind, Interval(found.lower / 2, found.upper / 2))

    monkeypatch.setattr(account, "delta", wrong)
    found = verify(dpbudget, *RUN, "-e", 1, code=3)
    assert (found["verdict"], found["sampling_meets_certified"]) == ("disagrees", False)


def test_histories_microbatches_and_replaced_records_are_sampled_as_they_are(dpbudget, tmp_path: Path) -> None:
    (tmp_path / "h.csv").write_text("sigma,q,steps\n1,0.01,100\n2,0.02,50\n")
    found = verify(dpbudget, "--history", tmp_path / "h.csv", "-d", "1e-5")
    assert found["verdict"] == "agrees" and found["delta"]["lower"] > 0
    assert verify(dpbudget, "-s", 4, "-q", 0.01, "-t", 100, "--microbatches", "-d", "1e-5")["verdict"] == "agrees"
    replaced = verify(dpbudget, *FULL, "-s", 2, "--adjacency", "replace-one", "-d", "1e-5")
    assert replaced["verdict"] == "agrees" and replaced["claimed"]["epsilon"] == pytest.approx(4.3772, abs=1e-3)


def test_a_check_that_shows_little_says_so(dpbudget) -> None:
    ran = dpbudget("verify", *RUN, "-d", "1e-9", "--plain", "--samples", "1000")
    assert ran.code == 0 and "a weak check" in ran.err and "--precision" in ran.err
    assert dpbudget("verify", *RUN, "-d", "1e-9", "--plain", "--samples", "1000", "--quiet").err == ""
    assert dpbudget("verify", *RUN, "-d", "1e-9").err == ""


# --- attacks ---------------------------------------------------------------------------------------------------------


def test_clopper_pearson_of_the_issue(dpbudget) -> None:
    found = verify(dpbudget, "--empirical", "100,0,100,0", "-d", "1e-5", "--confidence", 0.9)
    assert 3.4929 < found["attack"]["epsilon"]["lower"] < 3.4930
    assert found["claimed"] is None and found["verdict"] is None
    assert (
        dpbudget("verify", "--empirical", "100,0,100,0", "-d", "1e-5", "--confidence", "0.9", "-f", "value").out
        == "3.4929\n"
    )


def test_counts_against_a_claim_and_a_run(dpbudget) -> None:
    counts = ("--empirical", "100,0,100,0", "--confidence", 0.9)
    assert verify(dpbudget, *counts, "--claim", "3,1e-5", code=3)["verdict"] == "disagrees"
    assert verify(dpbudget, *counts, "--claim", "4,1e-5")["verdict"] == "agrees"
    found = verify(dpbudget, *counts, *RUN, "-d", "1e-5", code=3)
    assert found["claimed"]["epsilon"] == found["certified"]["epsilon"]["upper"] < 2
    assert verify(dpbudget, "--empirical", "0,0,5,5", "-d", "1e-5")["attack"]["epsilon"]["lower"] == 0


def test_full_batch_claimed_at_sigma_1_and_run_at_half_of_it(dpbudget) -> None:
    claim = ("--claim", f"{FULL_BATCH_EPSILON},1e-5", *FULL, "--canary", 1_000_000, *SURE, "--seed", 1)
    wrong = verify(dpbudget, *claim, "-s", 0.5, code=3)
    assert wrong["attack"]["epsilon"]["lower"] > FULL_BATCH_EPSILON
    assert wrong["attack"]["epsilon"]["lower"] < wrong["certified"]["epsilon"]["upper"]
    right = verify(dpbudget, *claim, "-s", 1)
    assert 2 < right["attack"]["epsilon"]["lower"] < FULL_BATCH_EPSILON


def test_batches_by_position_counted_as_poisson(dpbudget) -> None:
    attack = (*RUN, "-d", "1e-5", "--canary", 2000, *SURE, "--seed", 1)
    wrong = verify(dpbudget, *attack, "--batches", "position", code=3)
    assert wrong["attack"]["epsilon"]["lower"] > wrong["claimed"]["epsilon"]
    right = verify(dpbudget, *attack)
    assert (
        right["verdict"] == "agrees" and right["attack"]["tp"] + right["attack"]["fn"] == 750
    )  # a quarter is held out
    text = " ".join(dpbudget("verify", *attack[:8], "--canary", "2000", "--batches", "position").out.split())
    assert "is wrong" in text and "without shuffling" in text


@pytest.mark.parametrize("seed", range(5))
def test_right_canaries_pass(dpbudget, seed: int) -> None:
    attack = ("-d", "1e-5", "--seed", seed, *SURE)
    assert verify(dpbudget, *FULL, "-s", 1, "--canary", 100_000, *attack)["verdict"] == "agrees"
    assert verify(dpbudget, *RUN, "--canary", 400, *attack)["verdict"] == "agrees"


def test_score_files(dpbudget, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lines = [f"{world},{rng.normal(4 if world == 'in' else 0)!r}" for world in ("in", "out") for _ in range(500)]
    file = tmp_path / "scores.csv"
    file.write_text("\n".join(["world,score", *lines, ""]))
    chosen = verify(dpbudget, "--scores", file, "-d", "1e-5")
    assert chosen["attack"]["epsilon"]["lower"] > 2 and chosen["attack"]["tp"] + chosen["attack"]["fn"] == 375
    given = verify(dpbudget, "--scores", file, "-d", "1e-5", "--threshold", 2)
    assert given["attack"]["threshold"] == 2 and given["attack"]["tp"] + given["attack"]["fn"] == 500
    swapped = tmp_path / "swapped.csv"
    swapped.write_text("score,world\n" + "\n".join(",".join(reversed(line.split(","))) for line in lines))
    assert verify(dpbudget, "--scores", swapped, "-d", "1e-5")["attack"] == chosen["attack"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs at least one run"),
        ("a,b\n", ":1: the columns are not world and score"),
        ("world,score\nin,1\nmaybe,2\n", ":3: 'maybe' is no world"),
        ("world,score\nin,nan\nout,1\n", ":2: 'nan' is not a score"),
        ("world,score\nin\n", ":2: 1 values under 2 columns"),
        ("world,score\nin,1\nin,2\n", "needs at least one run"),
        ("world,score\nin,1\nout,2\n", "too few to choose a threshold"),
    ],
)
def test_score_files_that_say_nothing(dpbudget, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.csv").write_text(text)
    ran = dpbudget("verify", "--scores", tmp_path / "s.csv", "-d", "1e-5")
    assert ran.code == 2 and ran.out == "" and ran.err.startswith("error: --scores: ") and message in ran.err


def test_hook_catches_clipping_after_the_noise() -> None:
    """The README's way: a mechanism of one's own, against the certified epsilon of what it is meant to be."""

    def after(rng: np.random.Generator, world: bool, runs: int) -> np.ndarray:
        seen = rng.standard_normal((runs, 20))
        seen[:, 0] += 100.0 if world else 0.0
        return seen[:, 0] / np.maximum(1.0, np.linalg.norm(seen, axis=1))

    claimed = package.epsilon(noise_multiplier=1, sampling_rate=1, steps=1, delta=1e-5)
    found = package.audit(after, 20_000, delta=1e-5, confidence=1 - 1e-6)
    assert package.convicts(found, float(claimed))
    honest = package.audit(
        lambda rng, world, runs: rng.normal(float(world), 1, runs), 20_000, delta=1e-5, confidence=0.99
    )
    assert not package.convicts(honest, float(claimed)) and honest.epsilon > 1


def test_hook_is_loaded_when_it_is_used() -> None:
    code = "import dpbudget, sys; assert 'audit' in dir(dpbudget) and 'numpy' not in sys.modules; dpbudget.audit"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- the contract ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["text", "markdown", "statement"])
def test_sentences_of_every_format(dpbudget, form: str) -> None:
    short = ("-s", "1", "-q", "0.01", "-t", "50", "--samples", "2000")
    plain = " ".join(dpbudget("verify", *short, "-d", "1e-5", "-f", form).out.split()).replace("\\", "").lower()
    for words in ("sampling agrees with the certified delta", "poisson sampling", "add-or-remove-one", "this run only"):
        assert words in plain
    plain = " ".join(dpbudget("verify", *short, "--claim", "0.1,1e-9", "-f", form).out.split()).replace("\\", "")
    assert "claim epsilon 0.1 at delta 1e-9 is wrong" in plain


def test_value_and_csv(dpbudget) -> None:
    short = ("-s", "1", "-q", "0.01", "-t", "50", "-d", "1e-5", "--samples", "2000")
    upper = verify(dpbudget, *short)["delta"]["upper"]
    printed = float(dpbudget("verify", *short, "-f", "value").out)
    assert upper <= printed <= upper * (1 + 1e-4)
    table = list(csv.DictReader(io.StringIO(dpbudget("verify", *short, "-f", "csv").out)))
    assert [row["source"].strip() for row in table] == ["certified", "sampled", "remove", "add"]
    assert math.isclose(float(table[1]["delta_upper"]), upper, rel_tol=1e-4)


@pytest.mark.parametrize(
    "line",
    [
        "-s 1 -q 0.01 -t 50 -d 1e-5 --samples 2000 -v",
        "-s 1 -q 0.01 -t 50 --claim 0.1,1e-9 --samples 2000",
        "-s 1 -q 0.01 -t 50 -d 1e-5 --canary 200 --batches position",
        "--empirical 100,0,100,0 --claim 3,1e-5",
    ],
)
def test_sixty_columns(dpbudget, line: str) -> None:
    ran = dpbudget("verify", *line.split(), columns=60)
    assert ran.out and max(map(len, ran.out.splitlines())) <= 60


@pytest.mark.parametrize(
    ("line", "message", "way_out"),
    [
        ("-s 1 -q 0.01 -t 10", "error: --delta: is missing", "--dataset-size"),
        ("-d 1e-5", "error: --sampling-rate: is missing", "--batch-size"),
        ("-s 1 -q 0.01 -t 10 -d 1e-5 -e 1", "error: --epsilon: and --delta together are a claim", "--claim"),
        ("-s 1 -q 0.01 -t 10 -d 1e-5 --claim 1,1e-5", "error: --claim: already names", "Drop"),
        ("-s 1 -q 0.01 -t 10 --claim 1", "error: --claim: '1' is not EPS,DELTA", "--claim 3,1e-5"),
        ("-s 1 -q 0.01 -t 10 --claim 1,2", "error: --claim: 2 is not in (0, 1)", "1e-5"),
        ("-s 1 -q 0.01 -t 10 -d 1e-5 --confidence 1", "error: --confidence: 1 is not in (0, 1)", "0.01"),
        ("-s 1 -q 0.01 -t 10 -d 1e-5 --samples 9 --precision 0.1", "error: --samples: contradicts --precision", "one"),
        (
            "-s 1 -q 0.01 -t 1e9 -d 1e-5",
            "error: --steps: 1,000 samples of 1,000,000,000 steps are too much work",
            "fewer",
        ),
        ("-s 1 -q 0.01 -t 10 -d 1e-5 --sampling fixed-size", "error: --sampling: can't be sampled", "--empirical"),
        (
            "-s 1 -q 0.01 -t 10 -d 1e-5 --adjacency replace-one",
            "error: --adjacency: can't be sampled",
            "add-or-remove-one",
        ),
        ("-s 1 -q 0.01 -t 10 -d 1e-5 --group-size 2", "error: --group-size: can't be sampled", "single"),
        ("-s 1 -b 1 -n 9 -t 10 -d 1e-5 --max-batch 2", "error: --max-batch: can't be sampled", "dpbudget.audit"),
        ("--empirical 1,2,3 -d 1e-5", "error: --empirical: 3 counts, not 4", "TP,FP,TN,FN"),
        ("--empirical 1,2,3,-4 -d 1e-5", "error: --empirical: -4 is below 0", ""),
        ("--empirical 0,2,3,0 -d 1e-5", "error: --empirical: needs at least one run", "TP,FP,TN,FN"),
        ("--empirical 1,2,3,4", "error: --delta: is missing", "1e-5"),
        ("--empirical 1,2,3,4 -e 1", "error: --epsilon: is no argument of an attack", "--claim"),
        ("--empirical 1,2,3,4 -d 1e-5 --samples 5", "error: --samples: belongs to sampling", "Drop"),
        ("--empirical 1,2,3,4 -d 1e-5 --canary 9", "error: --canary: contradicts --empirical", "one"),
        ("--empirical 1,2,3,4 -d 1e-5 --threshold 9", "error: --threshold: belongs to", "drop"),
        ("--empirical 1,2,3,4 -d 1e-5 --batches position", "error: --batches: belongs to --canary", "RUNS"),
        ("--canary 9 -d 1e-5", "error: --sampling-rate: is missing", "--batch-size"),
        ("-s 1 -q 0.01 -t 10 -d 1e-5 --canary 7", "error: --canary: 7 is below 8", ""),
        ("-s 1 -q 0.01 -t 0 -d 1e-5 --canary 9", "error: --steps: 0 leaves nothing to attack", "--steps"),
        ("-s 1 -q 0.01 -t 10 -d 1e-5 --canary 9 --batches odd", "error: --batches: 'odd' is unknown", "position"),
        ("--scores nowhere.csv -d 1e-5", "error: --scores: nowhere.csv cannot be read", ""),
        ("-s 0 -q 0.01 -t 10 -d 1e-5", "error: without noise nothing is guaranteed", "above 0"),
    ],
)
def test_mistakes_are_told_with_the_way_out(dpbudget, line: str, message: str, way_out: str) -> None:
    ran = dpbudget("verify", *line.split())
    assert ran.code == (4 if "without noise" in message else 2)
    assert ran.out == "" and "Traceback" not in ran.err
    first, *rest = ran.err.splitlines()
    assert message in first and (not way_out or any(way_out in text for text in rest))
