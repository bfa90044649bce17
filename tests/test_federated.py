"""Federated runs: the published tables, noise placement, client and sample level, inverses."""

from __future__ import annotations

import math

import mpmath
import pytest

from dpbudget import federated as model
from dpbudget.errors import InputError

# Population and clients per round of arXiv:1710.06963, Table 1 (z = 1, delta = population^-1.1), as printed there.
PUBLISHED = [
    (100_000, 100, (1, 10, 1000, 1_000_000), (0.97, 0.98, 1.07, 7.50)),
    (1_000_000, 10, (1, 1000, 1_000_000), (0.68, 0.69, 0.73)),
    (1_000_000, 1_000, (1, 1000, 100_000, 1_000_000), (1.17, 1.28, 2.44, 8.13)),
    (1_000_000, 10_000, (1, 1000, 1_000_000), (1.73, 3.06, 187.01)),
    (1_000_000_000, 1_000, (1, 1_000_000), (0.84, 0.88)),
]
CELLS = [(n, m, t, e) for n, m, ts, es in PUBLISHED for t, e in zip(ts, es, strict=True)]


@pytest.mark.parametrize(("clients", "per_round", "rounds", "published"), CELLS)
def test_published_table(dpbudget, clients: int, per_round: int, rounds: int, published: float) -> None:
    ran = dpbudget(
        "federated", "--clients", clients, "--clients-per-round", per_round, "--rounds", rounds, "-s", "1", "-a",
        "moments,pld", "--json", "--quiet",
    )  # fmt: skip
    level = ran.json["result"]["client_level"]
    moments, pld = (entry["epsilon"]["upper"] for entry in level["accountants"])
    assert moments == pytest.approx(published, abs=0.0051)  # two decimals are printed
    assert pld <= moments


def test_language_model_row(dpbudget) -> None:
    run = ("--clients", "763430", "--clients-per-round", "5000", "--rounds", "5000", "-s", "1", "-d", "1e-9")
    level = dpbudget("federated", *run, "-a", "moments,pld", "--json").json["result"]["client_level"]
    assert level["epsilon"]["upper"] == pytest.approx(4.633789, abs=5.1e-7)
    assert level["accountants"][1]["epsilon"]["lower"] <= 3.898784778 + 5e-10  # golden.csv
    assert level["accountants"][1]["epsilon"]["upper"] >= 3.898784778 - 5e-10
    typed = dpbudget(
        "epsilon", "-s", "1", "-b", "5000", "-n", "763430", "-t", "5000", "-d", "1e-9", "-a", "pld", "--json"
    ).json
    assert typed["result"]["epsilon"] == level["accountants"][1]["epsilon"]  # the same as typed by hand


def test_small_rounds_are_warned_of(dpbudget) -> None:
    ran = dpbudget(
        "federated",
        "--clients",
        "3012",
        "--clients-per-round",
        "2",
        "--rounds",
        "100",
        "-s",
        "0.5",
        "-d",
        "1e-4",
        "--json",
    )
    assert 0.7015 <= ran.json["result"]["client_level"]["epsilon"]["upper"] <= 0.70175
    assert {"round-small", "expected-count"} <= {w["code"] for w in ran.json["warnings"]}


def test_shared_noise(dpbudget) -> None:
    run = ("federated", "--clients", "10", "--clients-per-round", "10", "--rounds", "1", "-d", "1e-5", "--json")
    views = {
        v["adversary"]: v
        for v in dpbudget(*run, "-s", "0.4", "--noise-at", "shared").json["result"]["client_level"]["against"]
    }
    assert views["public"]["noise_multiplier"] == pytest.approx(1.2649, abs=5e-5)
    assert views["server"]["noise_multiplier"] == views["public"]["noise_multiplier"]
    assert views["participant"]["noise_multiplier"] == pytest.approx(1.2, rel=1e-12)  # it subtracts its own noise
    central = dpbudget("gaussian", "-s", repr(0.4 * math.sqrt(10)), "-d", "1e-5", "--json").json["result"]["epsilon"]
    assert views["public"]["epsilon"]["upper"] == pytest.approx(central, rel=1e-9)
    fewer = dpbudget(*run, "-s", "0.4", "--noise-at", "shared", "--min-honest", "7").json["result"]["client_level"]
    assert fewer["epsilon"]["lower"] > views["participant"]["epsilon"]["upper"]


def test_who_is_protected_from_whom(dpbudget) -> None:
    def against(where: str) -> dict:
        run = (
            "federated",
            "--clients",
            "1000",
            "--clients-per-round",
            "100",
            "--rounds",
            "50",
            "-s",
            "1",
            "-d",
            "1e-5",
        )
        found = dpbudget(*run, "--noise-at", where, "--min-honest", "100", "--json", "--quiet").json["result"][
            "client_level"
        ]
        return {v["adversary"]: v["epsilon"] for v in found["against"]}

    assert against("server")["server"] is None  # it sees the updates before it adds noise
    run = ("federated", "--clients", "1000", "--clients-per-round", "100", "--rounds", "50", "-s", "1", "-d", "1e-5")
    for given in (
        ("--noise-at", "client"),
        ("--sampling", "fixed-size", "--max-participations", "3"),
        ("--sampling", "fixed-size", "--tree"),
    ):
        ran = dpbudget(*run, *given, "--adjacency", "add-or-remove-one")
        assert ran.code == 2 and "--adjacency" in ran.err and "zero-out" in ran.err
        assert dpbudget(*run, *given, "--adjacency", "zero-out", "--quiet").code == 0
    # one example that changes leaves its client there: only replace-one covers that
    for adjacency, words in (
        ("add-or-remove-one", "an example that changes"),
        ("replace-one", "protects every example"),
    ):
        assert words in " ".join(dpbudget(*run, "--adjacency", adjacency, "--quiet").out.lower().split())
    local = dpbudget(*run, "--local-size", "100", "--local-batch", "10", "--quiet").out
    assert "Poisson sampling, examples added or removed" in " ".join(local.split())
    client = against("client")
    assert client["server"]["lower"] > client["participant"]["upper"] > client["public"]["upper"]
    uploads = dpbudget("epsilon", "-s", "1", "--sampling", "full-batch", "-t", "50", "-d", "1e-5", "--json").json[
        "result"
    ]
    assert client["server"]["upper"] == pytest.approx(uploads["epsilon"]["upper"], rel=1e-9)  # no amplification


def test_adaptive_clipping(dpbudget) -> None:
    assert model.update_multiplier(1.0, 5.0) == pytest.approx(1.00504, abs=5e-6)
    assert model.update_multiplier(1.0, 5.0) ** -2 + 10.0**-2 == pytest.approx(1.0, rel=1e-12)
    with pytest.raises(InputError):
        model.update_multiplier(1.0, 0.5)
    run = ("--clients", "100000", "--clients-per-round", "100", "--rounds", "10", "-s", "1", "-d", "1e-6")
    assert "1.0051" in dpbudget("federated", *run, "--clip-count-std", "5").out  # rounded up
    for multiplier, count_std in ((1e-200, 5.0), (1e-200, 1e-199), (3e-9, 1.6e-9), (1e150, 1e155), (1.0, 0.5 + 1e-12)):
        with mpmath.workdps(40):
            exact = mpmath.mpf(multiplier) / mpmath.sqrt(
                1 - (mpmath.mpf(multiplier) / (2 * mpmath.mpf(count_std))) ** 2
            )
            assert exact <= model.update_multiplier(multiplier, count_std) <= exact * (1 + 1e-3)
    assert dpbudget("federated", *run, "--clip-count-std", "1e-200").code == 2
    nothing = ("--clients", "1000", "--clients-per-round", "10", "--rounds", "5", "-s", "0", "-d", "1e-6")
    assert dpbudget("federated", *nothing).code == 4


@pytest.mark.parametrize(("sigma", "exact"), [("1.13", 17.6668), ("8.83", 1.6487)])
def test_tree_aggregation(dpbudget, sigma: str, exact: float) -> None:
    run = ("--clients", "1600", "--clients-per-round", "1", "--rounds", "1600", "--tree", "-s", sigma, "-d", "1e-6")
    epsilon = dpbudget("federated", *run, "--json", "--quiet").json["result"]["client_level"]["epsilon"]
    assert epsilon["lower"] - 5e-5 <= exact <= epsilon["upper"] + 5e-5
    assert [model.tree_height(n) for n in (1, 2, 3, 4, 1600)] == [1, 2, 2, 3, 11]


def test_sample_level_is_the_worst_client(dpbudget, tmp_path) -> None:
    sizes = tmp_path / "sizes.csv"
    sizes.write_text("client,size\nA,2000\nB,500\nC,8000\nD,500\n")
    run = (
        "--clients",
        "4",
        "--clients-per-round",
        "4",
        "--rounds",
        "20",
        "-s",
        "1.5",
        "-d",
        "1e-5",
        "--local-epochs",
        "5",
    )
    result = dpbudget("federated", *run, "--local-batch", "32", "--sizes", sizes, "--json", "--quiet").json["result"]
    alone = {}
    for row in result["clients"]:
        steps = 20 * 5 * math.ceil(row["size"] / 32)
        typed = dpbudget(
            "epsilon", "-s", "1.5", "-b", "32", "-n", row["size"], "-t", steps, "-d", "1e-5", "-a", "pld", "--json"
        )
        alone[row["client"]] = typed.json["result"]["epsilon"]
        assert row["steps"] == steps and row["epsilon"] == alone[row["client"]]
    worst = max(alone.values(), key=lambda e: e["upper"])
    assert result["sample_level"]["epsilon"] == worst
    assert {"A", "B", "C", "D"} == set(alone) and result["sample_level"]["client"] in ("B", "D")


@pytest.mark.parametrize(
    ("unknown", "given"),
    [
        ("noise_multiplier", {"clients": 100000, "clients-per-round": 500, "rounds": 1000}),
        ("rounds", {"clients": 100000, "clients-per-round": 500, "noise-multiplier": 1}),
        ("clients_per_round", {"clients": 100000, "rounds": 1000, "noise-multiplier": 1}),
        ("clients", {"clients-per-round": 500, "rounds": 1000, "noise-multiplier": 1}),
    ],
)
def test_inverses_round_trip(dpbudget, unknown: str, given: dict) -> None:
    arguments = [str(part) for name, value in given.items() for part in (f"--{name}", value)]
    solved = dpbudget("federated", *arguments, "-e", "2", "-d", "1e-7", "--json", "--quiet").json["result"]["solved"]
    assert solved["parameter"] == unknown

    def upper(value: float) -> float:
        typed = ("--" + unknown.replace("_", "-"), repr(value))
        ran = dpbudget("federated", *arguments, *typed, "-d", "1e-7", "-a", "pld", "--json", "--quiet")
        return ran.json["result"]["client_level"]["epsilon"]["upper"]

    assert upper(solved["value"]) <= 2 < upper(solved["insufficient"])


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ("--clients 10 --clients-per-round 20 --rounds 5 -s 1 -d 1e-5", "--clients-per-round"),
        ("--clients 10 --rounds 5 -s 1 -d 1e-5", "--clients-per-round"),
        ("--clients 10 --clients-per-round 5 --rounds 5 -s 1 -d 1e-5 --noise-at cloud", "--noise-at"),
        ("--clients 10 --clients-per-round 5 --rounds 5 -s 1 -d 1e-5 --local-size 100", "--local-batch"),
        ("--clients 10 --clients-per-round 5 --rounds 5 -s 1 -d 1e-5 --sizes /no/such.csv", "--sizes"),
        ("--clients 10 --clients-per-round 5 --rounds 5 -s 1", ""),
    ],
)
def test_mistakes(dpbudget, arguments: str, option: str) -> None:
    ran = dpbudget("federated", *arguments.split())
    if not option:
        assert ran.code == 0 and "cross-silo" not in ran.out  # delta from the number of clients
        return
    assert ran.code == 2 and ran.err.startswith(f"error: {option}: ")
