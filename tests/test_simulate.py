"""The simulator does what the accountant accounts for; what it prints is the guarantee of exactly what ran."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from dpbudget import montecarlo
from dpbudget.accounting import account
from dpbudget.accounting.account import Ledger
from dpbudget.errors import InputError
from dpbudget.federated import LocalTraining, NoiseAt
from dpbudget.model import Adjacency, Release, SampledGaussian, Sampling
from dpbudget.simulate import data, dpsgd, federated, model
from dpbudget.simulate.dpsgd import Recipe
from dpbudget.simulate.federated import Local, Rounds
from dpbudget.simulate.model import Table

# Round numbers that were known before any record was seen: the price of scaling by them is nothing.
CANCER_RANGES = {
    "mean radius": (5, 30), "mean texture": (5, 40), "mean perimeter": (40, 200), "mean area": (100, 2500),
    "mean smoothness": (0.05, 0.2), "mean compactness": (0, 0.4), "mean concavity": (0, 0.5), "mean concave points": (0, 0.25),
    "mean symmetry": (0.1, 0.3), "mean fractal dimension": (0.05, 0.1), "radius error": (0, 2), "texture error": (0, 4),
    "perimeter error": (0, 15), "area error": (0, 300), "smoothness error": (0, 0.02), "compactness error": (0, 0.1),
    "concavity error": (0, 0.2), "concave points error": (0, 0.05), "symmetry error": (0, 0.06),
    "fractal dimension error": (0, 0.02), "worst radius": (5, 40), "worst texture": (10, 50), "worst perimeter": (50, 250),
    "worst area": (200, 4000), "worst smoothness": (0.05, 0.25), "worst compactness": (0, 1), "worst concavity": (0, 1),
    "worst concave points": (0, 0.3), "worst symmetry": (0.15, 0.6), "worst fractal dimension": (0.05, 0.2),
}  # fmt: skip


def table(rng: np.random.Generator, records: int, features: int = 5, classes: int = 3, size: float = 1.0) -> Table:
    features_ = size * rng.standard_normal((records, features))
    return Table.of(data.Data(features_, rng.integers(classes, size=records), tuple("abcdefghij"[:classes]), ()))


def recipe(**changes: object) -> Recipe:
    given = {"noise_multiplier": 1.0, "clip_norm": 1.0, "rate": 0.1, "batch_size": 10, "steps": 20, "normaliser": 10.0,
             "learning_rate": 0.5}  # fmt: skip
    return Recipe(**{**given, **changes})  # type: ignore[arg-type]


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    load = pytest.importorskip("sklearn.datasets").load_digits()
    return written(tmp_path / "digits.csv", load, [f"pixel {i}" for i in range(64)])


@pytest.fixture
def cancer(tmp_path: Path) -> Path:
    load = pytest.importorskip("sklearn.datasets").load_breast_cancer()
    with (tmp_path / "ranges.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("column", "low", "high"), *((k, *v) for k, v in CANCER_RANGES.items())])
    return written(tmp_path / "cancer.csv", load, list(load.feature_names))


def written(path: Path, load: object, columns: list[str]) -> Path:
    with path.open("w", newline="") as file:
        rows = [[*map(float, x), load.target_names[y]] for x, y in zip(load.data, load.target, strict=True)]
        csv.writer(file).writerows([[*columns, "kind"], *rows])
    return path


# --- the private gradient ---------------------------------------------------------------------------------------------


def test_gradient_is_that_of_the_loss() -> None:
    rng = np.random.default_rng(1)
    records, weights = table(rng, 7), rng.standard_normal((6, 3))
    total, norms, losses = dpsgd.clipped_sum(weights, records, math.inf)
    numeric = np.zeros_like(weights)
    for place in np.ndindex(weights.shape):
        step = np.zeros_like(weights)
        step[place] = 1e-6
        numeric[place] = 7 * (model.loss(weights + step, records) - model.loss(weights - step, records)) / 2e-6
    np.testing.assert_allclose(total, numeric, atol=1e-7)  # central differences at 1e-6 are good to about 1e-9
    assert losses.mean() == pytest.approx(model.loss(weights, records), rel=1e-12)
    for row in range(7):
        alone, *_ = dpsgd.clipped_sum(weights, records.take(np.array([row])), math.inf)
        assert norms[row] == pytest.approx(np.linalg.norm(alone), rel=1e-12)


@pytest.mark.parametrize("clip", [0.01, 1.0, 30.0])
def test_one_record_moves_the_sum_by_at_most_the_clipping_norm(clip: float) -> None:
    rng = np.random.default_rng(2)
    largest = 0.0
    for size in (0.0, 0.1, 1.0, 100.0, 1e8):
        records, weights = table(rng, 20, size=size), rng.standard_normal((6, 3))
        whole, *_ = dpsgd.clipped_sum(weights, records, clip)
        for row in range(20):
            rest, *_ = dpsgd.clipped_sum(weights, records.take(np.delete(np.arange(20), row)), clip)
            moved = float(np.linalg.norm(whole - rest))
            assert moved <= clip * (1 + 1e-9)  # round-off of a sum of 20 terms of norm <= clip
            largest = max(largest, moved)
    assert largest >= clip * (1 - 1e-9)  # and it is reached, so that the sensitivity is C and not less


def test_small_gradients_are_left_alone() -> None:
    rng = np.random.default_rng(3)
    records, weights = table(rng, 9, size=0.01), np.zeros((6, 3))
    clipped, norms, *_ = dpsgd.clipped_sum(weights, records, 5.0)
    whole, *_ = dpsgd.clipped_sum(weights, records, math.inf)
    assert (norms < 5).all()
    np.testing.assert_array_equal(clipped, whole)


@pytest.mark.parametrize("records", [0, 40])
def test_noise_has_the_stated_variance_whatever_the_batch(records: int) -> None:
    rng = np.random.default_rng(4)
    plan = recipe(noise_multiplier=0.7, clip_norm=3.0, normaliser=8.0)
    batch, weights = table(rng, records), rng.standard_normal((6, 3))
    total, *_ = dpsgd.clipped_sum(weights, batch, 3.0)
    draws = np.array([dpsgd.private_gradient(weights, batch, plan, rng).gradient for _ in range(4000)])
    noise = (8.0 * draws - total).reshape(4000, 18)
    count = noise.size
    # 5 standard deviations: of a mean of `count` normals, and of a chi-squared with `count` degrees of freedom.
    assert abs(noise.mean()) < 5 * 2.1 / math.sqrt(count)
    assert noise.var() == pytest.approx((0.7 * 3.0) ** 2, rel=5 * math.sqrt(2 / count))
    correlation = np.corrcoef(noise.T) - np.eye(18)
    assert np.abs(correlation).max() < 6 / math.sqrt(4000)
    successive = np.corrcoef(noise[1:].ravel(), noise[:-1].ravel())[0, 1]
    assert abs(successive) < 6 / math.sqrt(count)  # fresh noise every step


def test_an_empty_batch_is_a_noisy_step() -> None:
    rng = np.random.default_rng(5)
    records = table(rng, 50)
    plan = recipe(rate=1e-12, steps=30)
    trace = dpsgd.train(records, plan, rng)
    assert len(list(dpsgd.batches(plan, 50, rng))) == 30
    assert np.isnan(trace.clipped).all() and (trace.signal == 0).all()
    # 30 steps of pure noise: weights of standard deviation lr sigma C sqrt(30) / normaliser; 18 of them, 5 deviations
    assert trace.weights.std() == pytest.approx(0.5 * math.sqrt(30) / 10, rel=5 / math.sqrt(2 * 18))


def test_the_normaliser_is_the_same_for_every_batch_and_data_set() -> None:
    rng = np.random.default_rng(6)
    plan, weights = recipe(noise_multiplier=0.0, clip_norm=1.0), np.zeros((6, 3))
    for records in (1, 7, 300):
        batch = table(rng, records)
        total, *_ = dpsgd.clipped_sum(weights, batch, 1.0)
        np.testing.assert_array_equal(dpsgd.private_gradient(weights, batch, plan, rng).gradient, total / 10.0)


def test_poisson_batches_are_independent_choices() -> None:
    rng = np.random.default_rng(7)
    drawn = np.zeros((5000, 40), dtype=bool)
    for row, batch in zip(drawn, dpsgd.batches(recipe(steps=5000, rate=0.2), 40, rng), strict=True):
        row[batch] = True
    # 5 standard deviations of means over 5000 steps; a fixed batch size would have no variance at all
    assert np.abs(drawn.mean(axis=0) - 0.2).max() < 5 * math.sqrt(0.16 / 5000)
    assert drawn.sum(axis=1).var() == pytest.approx(40 * 0.16, rel=5 * math.sqrt(2 / 5000))
    correlation = np.corrcoef(drawn.T) - np.eye(40)
    assert np.abs(correlation).max() < 6 / math.sqrt(5000)


@pytest.mark.parametrize("sampling", [Sampling.SHUFFLE, Sampling.BALLS_IN_BINS])
def test_every_record_is_in_one_batch_an_epoch(sampling: Sampling) -> None:
    rng = np.random.default_rng(8)
    found = list(dpsgd.batches(recipe(sampling=sampling, batch_size=16, steps=21), 100, rng))
    assert len(found) == 21
    for epoch in range(3):
        assert sorted(np.concatenate(found[7 * epoch : 7 * epoch + 7])) == list(range(100))
    assert any(not np.array_equal(np.sort(a), np.sort(b)) for a, b in zip(found[:7], found[7:14], strict=True))


def test_fixed_size_batches_have_that_size() -> None:
    found = list(dpsgd.batches(recipe(sampling=Sampling.FIXED_SIZE, steps=50), 30, np.random.default_rng(9)))
    assert all(len(set(batch.tolist())) == 10 for batch in found)


def released_score(sigma: float, rate: float, steps: int):
    """The simulated training run as an attacker sees it: others contribute nothing, the record a full clipping norm.

    A feature that only the record has shows its contribution; a tiny learning rate keeps its gradient where it was.
    """
    plan = recipe(noise_multiplier=sigma, rate=rate, steps=steps, learning_rate=1e-9, normaliser=4.0)
    features = np.zeros((6, 2))
    features[:, 1] = 1e-3
    features[0, :] = (1e6, 0.0)
    everyone = Table.of(data.Data(features, np.array([0, 1, 0, 1, 0, 1]), ("a", "b"), ("x", "y")))
    without = everyone.take(np.arange(1, 6))

    def mechanism(rng: np.random.Generator, world: bool, runs: int) -> np.ndarray:
        records = everyone if world else without
        moved = [dpsgd.train(records, plan, rng).weights[0] for _ in range(runs)]
        return np.array([(w[0] - w[1]) / math.sqrt(2) * 4.0 / 1e-9 for w in moved])

    return mechanism


def test_an_attack_on_the_simulated_run_shows_no_more_than_is_certified() -> None:
    delta, rate, steps = 1e-3, 0.5, 3
    ledger = Ledger.of([Release(SampledGaussian(1.0, rate), steps)], Adjacency.ADD_OR_REMOVE_ONE)
    claimed = float(account.epsilon(ledger, delta))
    honest = montecarlo.audit(released_score(1.0, rate, steps), 4000, delta=delta, confidence=0.999, seed=1)
    assert not montecarlo.convicts(honest, claimed)
    assert honest.epsilon > 0.3  # the attack sees the record; it is no empty test
    weak = montecarlo.audit(released_score(0.1, rate, steps), 2000, delta=delta, confidence=0.999, seed=1)
    assert montecarlo.convicts(weak, claimed)


# --- federated --------------------------------------------------------------------------------------------------------


def rounds(**changes: object) -> Rounds:
    given = {"rounds": 5, "per_round": 4.0, "sampling": Sampling.FULL_BATCH, "noise_multiplier": 0.5,
             "noise_at": NoiseAt.SERVER, "clip_norm": 2.0, "local": Local(1, 10, 0.1)}  # fmt: skip
    return Rounds(**{**given, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("place", "std"), [(NoiseAt.SERVER, 1.0), (NoiseAt.SHARED, math.sqrt(3)), (NoiseAt.CLIENT, math.sqrt(3))]
)
def test_noise_by_placement(place: NoiseAt, std: float) -> None:
    rng = np.random.default_rng(11)
    plan = rounds(noise_at=place)
    updates = 5 * rng.standard_normal((3, 4, 2))
    quiet, norms, _ = federated.noisy_average(updates, rounds(noise_multiplier=0.0), rng)
    noise = np.array([4 * (federated.noisy_average(updates, plan, rng)[0] - quiet) for _ in range(3000)])
    assert noise.var() == pytest.approx(std**2, rel=5 * math.sqrt(2 / noise.size))
    unit = updates / norms[:, None, None]
    np.testing.assert_allclose(quiet, (np.minimum(norms, 2.0)[:, None, None] * unit).sum(axis=0) / 4, rtol=1e-12)


def test_a_round_without_clients_is_noise_over_the_same_number() -> None:
    rng = np.random.default_rng(12)
    average, norms, signal = federated.noisy_average(np.zeros((0, 30, 20)), rounds(), rng)
    assert norms.size == 0 and signal == 0
    assert average.std() == pytest.approx(0.5 * 2.0 / 4.0, rel=5 / math.sqrt(2 * 600))


@pytest.mark.parametrize("records", [3, 10, 37])
def test_local_steps_are_those_that_are_accounted(records: int) -> None:
    local = Local(2, 10, 0.1, 1.0, 1.0)
    accounted = LocalTraining(records, 10, 2, 1, 1.0)
    plan = local.recipe(records)
    assert (plan.rate, plan.steps) == (accounted.rate, accounted.steps)
    assert plan.sampling is Sampling.POISSON
    assert plan.normaliser == 10  # not what this client happens to hold


def test_records_are_dealt_unequally_and_all_of_them() -> None:
    rng = np.random.default_rng(13)
    train, _ = data.generate(rng, 500, 4, 3, 10)
    parts = data.deal(train, 20, 0.3, rng)
    assert sorted(np.concatenate(parts)) == list(range(500))
    sizes = [len(part) for part in parts]
    assert min(sizes) >= 1 and max(sizes) > 3 * min(sizes)


def test_noise_at_clients_refuses_an_unknown_number_of_them(dpbudget) -> None:
    ran = dpbudget("simulate", "federated", "--clients", "20", "--clients-per-round", "5", "--sigma", "1", "-d", "1e-3",
                   "--noise-at", "client")  # fmt: skip
    assert ran.code == 2 and "--sampling fixed-size" in ran.err


# --- what is printed --------------------------------------------------------------------------------------------------

QUICK = ("--repeats", "2", "--quiet", "--json")


@pytest.mark.parametrize("sampling", ["poisson", "shuffle", pytest.param("fixed-size", marks=pytest.mark.slow)])
def test_the_epsilon_is_that_of_exactly_what_ran(dpbudget, sampling: str) -> None:
    epochs = "1" if sampling == "fixed-size" else "4"
    given = ("-b", "50", "-n", "300", "-E", epochs, "-d", "1e-4", "--sampling", sampling)
    sigmas = ("1.3", "2") if sampling == "poisson" else ("2",)
    ran = dpbudget("simulate", "--sigma", ",".join(sigmas), *given, *QUICK)
    assert ran.code == 0
    runs = ran.json["result"]["runs"]
    for run, sigma in zip(runs, sigmas, strict=True):
        typed = dpbudget("epsilon", "--sigma", sigma, *given, "--quiet", "--json").json
        assert run["epsilon"] == typed["result"]["epsilon"]
        assert ran.json["assumptions"] == typed["assumptions"]
    assert ran.json["result"]["epsilon"] == runs[0]["epsilon"]  # of the costliest run


def test_the_records_held_out_are_not_accounted_for(dpbudget, tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_text("x,y\n" + "".join(f"{i / 400},{'ab'[i % 2]}\n" for i in range(400)))
    ran = dpbudget("simulate", "--data", path, "-b", "50", "-E", "2", "-d", "1e-4", "--sigma", "1", *QUICK)
    assert ran.json["input"]["dataset_size"] == 300 and ran.json["input"]["held_out"] == 100
    typed = dpbudget("epsilon", "-b", "50", "-n", "300", "-E", "2", "-d", "1e-4", "--sigma", "1", "--quiet", "--json")
    assert ran.json["result"]["epsilon"] == typed.json["result"]["epsilon"]


def test_target_epsilons_are_met_and_tuning_is_charged_as_tune_does(dpbudget) -> None:
    given = ("-b", "50", "-n", "300", "-E", "4", "-d", "1e-4")
    result = dpbudget("simulate", "--epsilon", "1,4", *given, *QUICK).json["result"]
    for run in result["runs"]:
        assert run["epsilon"]["upper"] <= run["target_epsilon"]
    noise = result["runs"][1]["noise_multiplier"]
    tune = dpbudget("tune", "--sigma", noise, *given, "--trials", "10", "--law", "geometric", "--quiet", "--json").json
    assert result["tuning"]["expected_trials"] == 10
    assert result["tuning"]["epsilon"] == tune["result"]["epsilon"]
    assert result["tuning"]["epsilon"]["upper"] > result["epsilon"]["upper"]


def test_it_says_that_it_is_no_release(dpbudget) -> None:
    out = " ".join(dpbudget("simulate", "--sigma", "1", "-r", "1", "-d", "1e-4", "--quiet").out.split())
    assert "A simulation is no release" in out and "dpbudget tune charges for the best of 10 expected runs" in out


def test_same_seed_same_bytes_and_another_seed_another_run(dpbudget) -> None:
    first, again, other = (
        dpbudget("simulate", "--sigma", "1", "-d", "1e-4", "-E", "5", "--seed", seed, *QUICK).out
        for seed in ("3", "3", "4")
    )
    assert first == again != other


def test_no_noise_is_no_guarantee(dpbudget) -> None:
    ran = dpbudget("simulate", "--sigma", "0,1", "-d", "1e-4", *QUICK)
    assert ran.code == 4 and ran.json["status"] == "unbounded"
    assert ran.json["result"]["runs"][0]["epsilon"]["upper"] is None


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("--sigma", "1", "--epsilon", "2"), "--epsilon"), ((), "--epsilon"), (("--sigma", "nan"), "--noise-multiplier"),
        (("--sigma", "1", "--clients", "3"), "--clients"), (("federated", "--sigma", "1", "-b", "3"), "--batch-size"),
        (("--sigma", "1", "--steps", "1e9"), "--steps"), (("--sigma", "1", "--data", "nowhere.csv"), "--data"),
        (("--sigma", "1", "--lr", "0"), "--learning-rate"), (("--sigma", "1", "--label", "y"), "--label"),
        (("federated", "--sigma", "1", "--clients-per-round", "30"), "--clients-per-round"),
        (("--sigma", "1", "--history", "x.csv"), "--history"), (("federated",), "--noise-multiplier"),
    ],
)  # fmt: skip
def test_mistakes_name_the_option(dpbudget, arguments: tuple[str, ...], option: str) -> None:
    ran = dpbudget("simulate", *arguments, "-d", "1e-4")
    assert ran.code == 2 and ran.err.startswith(f"error: {option}:"), ran.err


# --- records of a file ------------------------------------------------------------------------------------------------


def test_missing_values_are_reported_and_left_out(dpbudget, tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    rows = [f"{i},{i % 7},{'yes' if i > 50 else 'no'}" for i in range(100)]
    rows[4], rows[10], rows[20] = "4,,no", "NA,1,no", "20,3,?"
    path.write_text("a,b,kind\n" + "\n".join(rows) + "\n")
    found = data.read_csv(str(path), "kind")
    assert len(found) == 97 and found.missing == 3 and found.missing_lines == (6, 12, 22)
    assert found.classes == ("no", "yes") and found.columns == ("a", "b")
    ran = dpbudget(
        "simulate", "--data", path, "--scale", "100", "-b", "10", "-E", "1", "--sigma", "2", "-r", "1", "-d", "1e-3"
    )
    assert "3 rows with a missing value were left out (lines 6, 12, 22)" in ran.err


@pytest.mark.parametrize(
    ("text", "label", "words"),
    [
        ("a,b\n1,x\noops,y\n", None, r"records.csv:3: column 'a': 'oops' is not a number"),
        ("a,b\n1,x\ninf,y\n", None, r"'inf' is not a number"),
        ("a,b\n1,x\n2\n", None, "1 values, but 2 columns"),
        ("a,b\n1,x\n2,x\n", None, "1 distinct values"),
        ("a,b\n1,x\n2,y\n", "c", "no column 'c'"),
        ("a,a\n1,x\n", None, "distinct column names"),
        ("", None, "header"),
    ],
)
def test_faults_of_a_file(tmp_path: Path, text: str, label: str | None, words: str) -> None:
    path = tmp_path / "records.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        data.read_csv(str(path), label)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"column,low,high\nx,0,1\ny,0,no\n", "ranges: {}:3: high: 'no' is not a number"),
        (b"column,low,high\nx,0\n", "ranges: {}:2: high: '' is not a number"),
        (b"column,low,high\nx,0,1\nx,0,2\n", "ranges: {}:3: column 'x' has a range already"),
        (b"column,low,high\nx,-1e308,1e308\n", "ranges: {}:2: from -1e+308 to 1e+308 is too far for a double"),
        (b"column,low,high\nx,0,1\n\xff,0,1\n", "ranges: {}:3: not UTF-8 text: byte 0xff"),
        (b"column,low,high\n" + b"x" * 1_000_001, "ranges: {}:2: a line of more than 1,000,000 bytes"),
        (b'column,low,high\n"' + b"x" * 200_000, "ranges: {}:2: not CSV: field larger than field limit (131072)"),
    ],
)
def test_what_is_wrong_with_ranges(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "ranges.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        data.read_ranges(str(path))
    assert str(caught.value) == message.format(path)


def test_a_table_may_end_its_lines_in_any_way(tmp_path: Path) -> None:
    path = tmp_path / "ranges.csv"
    for end in ("\n", "\r\n", "\r"):
        path.write_bytes("\ufeffcolumn,low,high\nx,0,1\ny,0,2".replace("\n", end).encode())
        assert data.read_ranges(str(path)) == {"x": (0, 1), "y": (0, 2)}


def test_public_ranges_cut_and_map(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_text("a,b,kind\n0,5,x\n10,-5,y\n20,0,x\n")
    found = data.read_csv(str(path), "kind").ranged({"a": (0, 10), "b": (-10, 10)})
    np.testing.assert_allclose(found.features, [[-1, 0.5], [1, -0.5], [1, 0]])
    with pytest.raises(InputError, match="no row for column 'b'"):
        data.read_csv(str(path), "kind").ranged({"a": (0, 1)})


def test_clients_of_a_column(dpbudget, tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    rng = np.random.default_rng(14)
    rows = [f"{x:.3f},{'b' if x > 0 else 'a'},site{i % 4}" for i, x in enumerate(rng.standard_normal(200))]
    path.write_text("x,kind,site\n" + "\n".join(rows) + "\n")
    ran = dpbudget("simulate", "federated", "--data", path, "--label", "kind", "--client-column", "site", "--rounds", "3",
                   "--local-sigma", "1", "--local-batch", "100", "-d", "1e-4", *QUICK)  # fmt: skip
    assert ran.code == 0 and ran.json["input"]["clients"] == 4
    assert ran.json["result"]["runs"][0]["unit"] == "example"


# --- the field's demonstrations ---------------------------------------------------------------------------------------


def test_demonstration_of_dp_sgd(dpbudget_process) -> None:
    ran = dpbudget_process("simulate", "-n", "600", "--features", "8", "-b", "64", "--lr", "0.5", "-C", "1", "--sigma", "1.2",
                           "-E", "20", "-d", "1e-5", "--sampling", "shuffle")  # fmt: skip
    assert ran.code == 0
    out = " ".join(ran.out.split())
    # Quoted as if Poisson: 7.748. Proven of shuffled batches: 20 Gaussian releases, 22.175, and a data set at 15.45.
    assert "epsilon <= 22.175" in out and "15.454 to 22.175" in out
    assert "as if Poisson 7.7479 to 7.748 (epsilon of a run that is not this one" in out
    assert "Shuffled batches: every record is in exactly one batch an epoch, which is not Poisson sampling" in out


def test_demonstration_of_federated_learning(dpbudget) -> None:
    ran = dpbudget("simulate", "federated", "--clients", "5", "-n", "500", "--lr", "0.1", "--local-batch", "100", "-C", "1",
                   "--sigma", "0.5", "--rounds", "10", "-d", "1e-5", "--noise-at", "client", *QUICK)  # fmt: skip
    assert ran.code == 0
    run = ran.json["result"]["runs"][0]
    against = {entry["adversary"]: entry["epsilon"]["upper"] for entry in run["against"]}
    # the server sees ten uploads at 0.5: one Gaussian release at 0.5 / sqrt(10); the sum has five clients' noise
    server = dpbudget("gaussian", "--sigma", 0.5 / math.sqrt(10), "-d", "1e-5", "--json").json["result"]["epsilon"]
    assert against["server"] == pytest.approx(server, rel=1e-4)
    assert against["public"] < against["participant"] < against["server"] == run["epsilon"]["upper"]
    typed = dpbudget("federated", "--clients", "5", "-C", "1", "--sigma", "0.5", "--rounds", "10", "-d", "1e-5", "--noise-at",
                     "client", "--sampling", "full-batch", "--json", "--quiet").json["result"]["client_level"]  # fmt: skip
    assert [e["epsilon"] for e in typed["against"]] == [e["epsilon"] for e in run["against"]]
    assert run["accuracy"]["mean"] < ran.json["result"]["baseline"]["accuracy"]["mean"]
    assert "clip-few" in {hint["code"] for hint in ran.json["result"]["advice"]}


def test_advice_follows_the_clipping_norm(dpbudget) -> None:
    def codes(clip: str) -> set[str]:
        ran = dpbudget("simulate", "--sigma", "1", "-C", clip, "-r", "1", "-E", "5", "-d", "1e-4", "--quiet", "--json")
        return {hint["code"] for hint in ran.json["result"]["advice"]}

    assert "clip-many" in codes("0.001") and "clip-few" in codes("50")
    assert not codes("0.3") & {"clip-many", "clip-few"}


# --- real records -----------------------------------------------------------------------------------------------------


def recovers(dpbudget, epsilons: str, repeats: int, *arguments: object) -> list[float]:
    """Mean accuracies by epsilon; the last is that of epsilon 50, which is within the spread of the baseline."""
    ran = dpbudget("simulate", "--epsilon", epsilons, "-d", "1e-5", "-r", repeats, "--quiet", "--json", *arguments)
    assert ran.code == 0, ran.err
    result = ran.json["result"]
    plain, last = result["baseline"]["accuracy"], result["runs"][-1]["accuracy"]
    assert result["runs"][-1]["target_epsilon"] == 50
    assert last["mean"] >= plain["mean"] - plain["sd"]
    assert last["mean"] <= plain["mean"] + plain["sd"]
    snrs = [run["snr"]["median"] for run in result["runs"]]
    assert snrs == sorted(snrs)
    return [run["accuracy"]["mean"] for run in result["runs"]]


def test_digits(dpbudget, digits: Path) -> None:
    found = recovers(dpbudget, "0.5,3,50", 5, "--data", digits, "--scale", "16", "-b", "512", "-E", "60", "-C", "3",
                     "--lr", "2")  # fmt: skip
    assert found[0] < found[1] < found[2] and found[0] < found[2] - 0.1


def test_breast_cancer(dpbudget, cancer: Path) -> None:
    found = recovers(dpbudget, "0.3,50", 5, "--data", cancer, "--ranges", cancer.parent / "ranges.csv", "-b", "128", "-E", "40",
                     "-C", "3", "--lr", "0.5")  # fmt: skip
    assert found[0] < found[1] - 0.03


@pytest.mark.slow
def test_digits_with_twenty_repeats(dpbudget, digits: Path) -> None:
    found = recovers(dpbudget, "0.25,0.5,1,2,4,8,50", 20, "--data", digits, "--scale", "16", "-b", "512", "-E", "60", "-C", "3",
                     "--lr", "2")  # fmt: skip
    assert found == sorted(found)


@pytest.mark.slow
def test_breast_cancer_with_twenty_repeats(dpbudget, cancer: Path) -> None:
    found = recovers(dpbudget, "0.1,0.3,1,3,50", 20, "--data", cancer, "--ranges", cancer.parent / "ranges.csv", "-b", "128",
                     "-E", "40", "-C", "3", "--lr", "0.5")  # fmt: skip
    assert found == sorted(found)
