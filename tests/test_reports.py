"""Public reports of faults in other accountants, replayed: the right answer, or an error that helps.

Tags are those of the reports; "at most" values are ceilings computed by other tools, "at least" values lie below the truth
by construction (closed forms, certified brackets or the same tools' grids). Each case has to answer within seconds.
"""

from __future__ import annotations

import math

import pytest

# tag, arguments of `dpbudget epsilon`, accountant, at least, at most
EPSILON = [
    ("B01", "-s 0.8 -q 0.125 -t 1000 -d 1e-6", "pld", 56.7259, 56.7260),
    ("B01 rdp", "-s 0.8 -q 0.125 -t 1000 -d 1e-6", "rdp", 56.7259, 65.16),
    ("B08", "-s 1.1 -b 250 -n 60000 -E 2 -d 1e-5", "pld", 0.405, 0.412),
    ("B08 classic", "-s 1.1 -b 250 -n 60000 -E 2 -d 1e-5", "rdp-classic", 0.411, 1.0905),
    ("B08 sigma 0.1", "-s 0.1 -b 250 -n 60000 -E 60 -d 1e-5", "pld", 4000, 4253),
    ("B08 sigma 0.1 rdp", "-s 0.1 -b 250 -n 60000 -E 60 -d 1e-5", "rdp", 4000, 4481),
    ("B12", "-s 4 -q 0.00033 -t 10000 -d 1.1e-18", "pld", 0.0672136, 0.0672137),
    ("B12 rdp", "-s 4 -q 0.00033 -t 10000 -d 1.1e-18", "rdp", 0.0672136, 0.1458),
    ("B12 neighbour", "-s 4 -q 0.00038 -t 10000 -d 1.13e-18", "pld", 0.05, 0.1515),
    ("B13 epsilon 0", "-s 1 -q 0.00105 -t 1 -d 1e-3", "pld", 0, 0),
    ("B13 at 1e-4", "-s 1 -q 0.00105 -t 1 -d 1e-4", "pld", 0.00240434, 0.00240435),
    ("B13 at 1e-5", "-s 1 -q 0.00105 -t 1 -d 1e-5", "pld", 0.00977619, 0.00977621),
    ("B23", "-s 0.1 -b 1024 -n 1e8 -t 976562 -d 1e-7", "pld", 1190, 1199.90),
    ("B23 rdp", "-s 0.1 -b 1024 -n 1e8 -t 976562 -d 1e-7", "rdp", 1190, 1298),
    ("B26 10k", "-s 4 -q 0.01 -t 10000 -d 1e-5", "moments", 1.2585, 1.2586),
    ("B26 40k", "-s 4 -q 0.01 -t 40000 -d 1e-5", "pld", 2.03305, 2.03309),
    ("B31 micro", "-s 7.69 -b 1024 -n 14732 -t 42 -d 2e-5", "pld", 0.18, 0.187),
    ("B38 floor", "-s 1.1 -b 256 -n 60000 -t 14062 -d 1e-5", "rdp", 2.5, 2.5967),
    ("B38 ceil", "-s 1.1 -b 256 -n 60000 -E 60 -d 1e-5", "rdp", 2.5, 2.6004),
    ("B45 add/remove", "-s 1 -t 1 --sampling full-batch -d 1e-5", "pld", 4.37717, 4.37718),
    ("B45 replace", "-s 1 -t 1 --sampling full-batch --adjacency replace-one -d 1e-5", "pld", 9.99725, 9.99726),
    ("B49", "-s 1 -q 1 -t 1 -d 1e-5", "pld", 4.37717, 4.37718),
    ("B51 once an epoch", "-s 2 -t 5 --sampling full-batch -d 1e-6", "pld", 5.55, 5.552),
    ("B51 poisson", "-s 2 -b 64 -n 10000 -E 5 -d 1e-6", "pld", 0.39, 0.3945),
    ("B57", "-s 3 -q 0.2 -t 50 -d 2.0833333333333333e-5", "pld", 1.9607, 1.9609),
    ("B58", "-s 0.5 -q 0.001 -t 1000 -d 1e-5", "pld", 3.2350, 3.2389),
    ("B62", "-s 0.5 -b 2 -n 3012 -t 100 -d 1e-4", "pld", 0.7015, 0.7018),
    ("B62 wrong reading", "-s 0.5 -b 2 -n 3012 -t 150600 -d 1e-4", "pld", 8.9, 8.98),
    ("B62 larger rounds", "-s 1 -b 50 -n 3012 -t 100 -d 1e-4", "pld", 0.89, 0.9015),
    ("B77", "-s 1.1 -b 256 -n 60000 -t 14063 -d 1e-7", "pld", 2.97, 2.985),
]  # fmt: skip


@pytest.mark.parametrize(("tag", "arguments", "accountant", "least", "most"), EPSILON, ids=[row[0] for row in EPSILON])
def test_epsilon(dpbudget, tag: str, arguments: str, accountant: str, least: float, most: float) -> None:
    ran = dpbudget("epsilon", *arguments.split(), "-a", accountant, "--json")
    assert ran.code == 0
    assert least <= ran.json["result"]["epsilon"]["upper"] <= most


# tag, arguments of `dpbudget sigma`, accountant, at least, at most
SIGMA = [
    *((f"B04 {e}", f"-e {e} -d 1e-5 -t 1 --sampling full-batch", "pld", s, s * 1.0002)
      for e, s in ((10, 0.499888), (50, 0.149761), (100, 0.0946699), (1000, 0.0245817))),
    ("B05 0.1", "-e 0.1 -b 50 -n 1599 -E 10 -d 6.25e-5", "rdp", 10, 17.07),
    ("B05 1", "-e 1 -b 50 -n 1599 -E 10 -d 6.25e-5", "rdp", 1.5, 2.237),
    ("B05 1000", "-e 1000 -b 50 -n 1599 -E 10 -d 6.25e-5", "rdp", 0.1, 0.1401),
    ("B06 sampled", "-e 1000 -q 0.01 -t 1000 -d 1e-5", "rdp", 0.1, 0.1402),
    ("B06 one", "-e 1000 -q 1 -t 1 -d 1e-5", "pld", 0.02458, 0.024585),
    ("B28 epochs", "-e 8 -q 0.04 -t 2250 -d 1e-5", "pld", 1.3458, 1.34592),
    ("B28 epochs rdp", "-e 8 -q 0.04 -t 2250 -d 1e-5", "rdp", 1.3458, 1.41589),
    ("B28 steps", "-e 8 -q 0.04 -t 2000 -d 1e-5", "pld", 1.2899, 1.29),
    ("B39", "-e 4 -b 1024 -n 14732 -t 42 -d 2e-5", "pld", 0.9, 0.9010),
    ("B39 micro", "-e 4 -b 1024 -n 14732 -t 11049 -d 2e-5", "pld", 7.6, 7.692),
]  # fmt: skip


@pytest.mark.parametrize(("tag", "arguments", "accountant", "least", "most"), SIGMA, ids=[row[0] for row in SIGMA])
def test_sigma(dpbudget, tag: str, arguments: str, accountant: str, least: float, most: float) -> None:
    ran = dpbudget("sigma", *arguments.split(), "-a", accountant, "--json")
    assert ran.code == 0
    assert least <= ran.json["result"]["noise_multiplier"] <= most
    assert ran.json["result"]["accountant"] == accountant  # B06: it is said which accountant produced the number


def test_b11_b55_no_noise_is_unbounded(dpbudget) -> None:
    assert dpbudget("epsilon", "-s", "0", "-q", "0.1", "-t", "10", "-d", "1e-5").code == 4
    tiny = dpbudget("epsilon", "-s", "1e-20", "-q", "1", "-t", "1", "-d", "1e-5", "--json")
    upper = tiny.json["result"]["epsilon"]["upper"]
    assert (tiny.code, upper) == (4, None) or upper > 1e30


@pytest.mark.parametrize(
    ("arguments", "exact"), [("-e 0 -d 1e-6", 398942.280401328), ("-e 0.01 -d 1e-5", 243.785437675678)]
)
def test_b16_b17_calibration_at_tiny_epsilon(dpbudget, arguments: str, exact: float) -> None:
    found = dpbudget("gaussian", *arguments.split(), "--json").json["result"]["noise_std"]
    assert exact <= found * (1 + 1e-15) and found <= exact * (1 + 1e-10)  # sixteen digits are typed here


def test_b18_a_floor_is_said(dpbudget) -> None:
    ran = dpbudget("sigma", "-e", "0.1", "-d", "1e-9", "-q", "0.01", "-t", "100", "-a", "moments", "--json")
    assert ran.code == 3 and ran.json["result"]["nearest"]["epsilon"] >= math.log(1e9) / 32
    assert dpbudget("sigma", "-e", "0.1", "-d", "1e-9", "-q", "0.01", "-t", "100", "-a", "rdp", "--json").code == 0


def test_b32_swapped_values_cant_be_typed(dpbudget) -> None:
    assert dpbudget("gaussian", "-e", "1", "-d", "1e-6", "--json").json["result"]["noise_std"] == pytest.approx(
        4.224678889, rel=1e-9
    )
    delta = dpbudget("gaussian", "-e", "4.2247", "-s", "1", "--json").json["result"]["delta"]
    assert delta == pytest.approx(1.9013e-5, rel=1e-4)  # five digits are published


def test_b36_classical_above_one_is_flagged(dpbudget) -> None:
    for epsilon, true in (("10", 2.2653744e-5), ("20", 0.0015266947)):
        found = dpbudget("gaussian", "-e", epsilon, "-d", "1e-5", "--json").json
        assert found["result"]["classical"]["true_delta"] == pytest.approx(true, rel=1e-7)
        assert found["warnings"][0]["code"] == "classical-unproven"


def test_b41_b43_b56_b78_b80_assumptions_stand_in_every_answer(dpbudget) -> None:
    text = " ".join(dpbudget("epsilon", "-s", "1", "-q", "0.01", "-t", "10", "-d", "1e-5").out.split())
    for words in ("Poisson sampling", "this run only", "tuning", "floating-point", "public constant"):
        assert words in text
    assert "the model, the learning rate" in " ".join(
        dpbudget("epsilon", "-s", "1", "-q", "0.01", "-t", "10", "-d", "1e-5", "-v").out.split()
    )


def test_b49_a_batch_above_the_data_names_both(dpbudget) -> None:
    ran = dpbudget("epsilon", "-s", "1", "-b", "600", "-n", "500", "-t", "1", "-d", "1e-5")
    assert ran.code == 2 and "600" in ran.err and "500" in ran.err


def test_b57_b58_the_estimate_lies_below_the_certificate(dpbudget) -> None:
    for run in ("-s 3 -q 0.2 -t 50 -d 2.0833333333333333e-5", "-s 0.5 -q 0.001 -t 1000 -d 1e-5"):
        entries = dpbudget("epsilon", *run.split(), "-a", "pld,gdp-clt", "--json").json["result"]["accountants"]
        assert entries[1]["epsilon"]["estimate"] < entries[0]["epsilon"]["lower"]


def test_b59_asking_changes_nothing() -> None:
    import dpbudget as api

    accountant = api.Accountant()
    for _ in range(3):
        accountant.step(noise_multiplier=1.0, sampling_rate=0.01)
    first = accountant.epsilon(1e-5)
    assert accountant.epsilon(1e-5) == first and accountant.history == [(1.0, 0.01, 3)]
    again = api.Accountant.from_json(accountant.to_json())
    assert again.epsilon(1e-5) == first


def test_b70_noise_that_changes(dpbudget, tmp_path) -> None:
    file = tmp_path / "h.csv"
    file.write_text("sigma,q,steps\n0.8,0.005,100\n8,1,200\n")
    upper = dpbudget("epsilon", "--history", file, "-d", "1e-6", "--json").json["result"]["epsilon"]["upper"]
    gaussian = dpbudget("gaussian", "-d", "1e-6", "-s", repr(8 / math.sqrt(200)), "--json").json["result"]["epsilon"]
    assert gaussian < upper < 11.149  # below the same run with a hundred Laplace releases more


def test_b13_is_explained(dpbudget) -> None:
    out = dpbudget("epsilon", "-s", "1", "-q", "0.00105", "-t", "1", "-d", "1e-3").out
    assert "total variation" in out
