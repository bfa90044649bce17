"""The budget-file commands as a team and its CI use them."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import patience

from dpbudget import budgetfile
from dpbudget.answers import filecost, filewords

STATES = Path(__file__).parent / "data" / "states"
NASTY = "a|b <i>%0A\n::error::x\x1b[31m=\u202e,`*$"
HEAD = """schema = 1
[budget]
epsilon = {epsilon}
delta = 1e-5
adjacency = "{adjacency}"
"""
SIX = (
    'mechanism = "dp-sgd"\nnoise_multiplier = 1.1\nsampling_rate = 0.01\nsteps = 1000',
    'mechanism = "dp-sgd"\nnoise_multiplier = 2\nsampling_rate = 0.05\nsteps = 200',
    'mechanism = "gaussian"\nnoise_multiplier = 8',
    'mechanism = "laplace"\nscale = 10',
    'mechanism = "randomized-response"\ncategories = 4\ntruth_probability = 0.2',
    'mechanism = "approx-dp"\nepsilon = 0.1\ndelta = 1e-7',
)
TRAIN = 'mechanism = "dp-sgd"\nnoise_multiplier = {sigma}\nsampling_rate = 0.01\nsteps = 1000'


def text_of(*releases: str, epsilon: object = 8, adjacency: str = "add-or-remove-one", budget: str = "") -> str:
    head = HEAD.format(epsilon=epsilon, adjacency=adjacency) + budget
    return head + "".join(f"\n[[release]]\n{release}\n" for release in releases)


def named(name: str, body: str, status: str = "planned") -> str:
    return f'name = {json.dumps(name)}\nstatus = "{status}"\n{body}'


@pytest.fixture
def budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write budget.toml in a fresh working directory."""
    monkeypatch.chdir(tmp_path)

    def write(*releases: str, **options: object) -> str:
        Path("budget.toml").write_text(text_of(*releases, **options), encoding="utf-8")
        return "budget.toml"

    return write


# --- check ------------------------------------------------------------------------------------------------------------


def test_six_unlike_releases(dpbudget, budget) -> None:
    """2.6703 is what dp-accounting gives for the same six composed by hand; half a unit of its last digit is 5e-5."""
    entries = [named(f"r{i}", body) for i, body in enumerate(SIX)]
    result = dpbudget("check", budget(*entries, adjacency="zero-out"), "--json").json["result"]
    assert result["epsilon"]["lower"] <= result["epsilon"]["upper"]
    assert abs(result["epsilon"]["upper"] - 2.6703) < 5e-5


def test_order_of_releases_does_not_matter(dpbudget, budget) -> None:
    """The total and what each release costs are the same doubles in every order; only the list follows the file."""
    entries = [named(f"r{i}", body) for i, body in enumerate(SIX)]
    orders = [*itertools.islice(itertools.permutations(entries), 0, 720, 239), entries[::-1]]
    found = [dpbudget("check", budget(*order, adjacency="zero-out"), "--json").json for order in orders]
    for document in found:
        document["result"]["releases"].sort(key=lambda release: release["name"])
        document["result"]["to_pass"].sort(key=lambda change: (change["release"], change["parameter"]))
    assert all(document == found[0] for document in found)


def test_same_bytes_again_and_no_machine_in_them(dpbudget_process, budget, tmp_path) -> None:
    file = budget(named("a", TRAIN.format(sigma=1.1)))
    first, second = (dpbudget_process("check", file, "--json", cwd=tmp_path) for _ in range(2))
    absolute = dpbudget_process("check", tmp_path / file, "--json", cwd=tmp_path)
    elsewhere = dpbudget_process("check", tmp_path / file, "--json", cwd="/")
    assert first.out == second.out == absolute.out
    assert str(tmp_path) not in elsewhere.out


def test_verdicts_and_exit_codes(dpbudget, budget) -> None:
    entry = named("a", TRAIN.format(sigma=1.1))
    ends = dpbudget("check", budget(entry), "--json").json["result"]["epsilon"]
    cases = {"within": ends["upper"], "over": ends["lower"] * (1 - 1e-9), "inconclusive": sum(ends.values()) / 3}
    assert ends["lower"] < cases["inconclusive"] < ends["upper"]
    for verdict, epsilon in cases.items():
        file = budget(entry, epsilon=repr(epsilon))
        ran = dpbudget("check", file, "--json")
        assert (ran.json["result"]["verdict"], ran.code) == (verdict, 0 if verdict == "within" else 3)
        assert dpbudget("check", file, "--exit-zero").code == 0
        assert ran.json["status"] == ("ok" if verdict == "within" else verdict)
    text = dpbudget("check", budget(entry, epsilon=repr(cases["inconclusive"]))).out
    assert "inconclusive" in text and "--tolerance" in text


def test_unbounded_is_over(dpbudget, budget) -> None:
    ran = dpbudget("check", budget(named("a", TRAIN.format(sigma=0))), "--json")
    assert ran.code == 3
    assert ran.json["result"]["epsilon"]["upper"] is None
    assert (ran.json["result"]["verdict"], ran.json["result"]["status"]) == ("over", "unbounded")
    assert "unbounded" in dpbudget("check", "budget.toml").out.splitlines()[0]
    assert dpbudget("check", "budget.toml", "-f", "value").out == "inf\n"


@pytest.mark.parametrize(
    "body",
    [
        TRAIN.format(sigma=0.9),
        'mechanism = "dp-sgd"\nnoise_std = 1.8\nclip_norm = 2\nbatch_size = 100\ndataset_size = 10_000\nepochs = 10',
        'mechanism = "gaussian"\nnoise_std = 6\nsensitivity = 3',
        'mechanism = "laplace"\nscale = 0.5',
        'mechanism = "pure-dp"\nepsilon = 1.5',
        'mechanism = "zcdp"\nrho = 0.2',
    ],
)
def test_every_proposed_change_passes(dpbudget, budget, body: str) -> None:
    """Each change, typed into the file as the one change, is within; its value lies on the safe side of the old one."""
    entries = named("fixed", 'mechanism = "gaussian"\nnoise_multiplier = 20', "spent"), named("plan", body)
    ran = dpbudget("check", budget(*entries, epsilon=1.2), "--json")
    changes = ran.json["result"]["to_pass"]
    assert ran.code == 3 and changes
    for change in changes:
        assert (change["to"] > change["from"]) == (change["direction"] == "at_least")
        text = Path("budget.toml").read_text(encoding="utf-8")
        lines = [
            f"{change['parameter']} = {change['to']}" if line.startswith(f"{change['parameter']} =") else line
            for line in text.splitlines()[12:]
        ]
        Path("changed.toml").write_text("\n".join([*text.splitlines()[:12], *lines]), encoding="utf-8")
        again = dpbudget("check", "changed.toml", "--json")
        assert again.json["result"]["verdict"] == "within", change
        assert again.json["result"]["epsilon"]["upper"] <= change["epsilon"]["upper"] * (1 + 1e-9)


def test_spent_releases_are_not_told_to_change(dpbudget, budget) -> None:
    ran = dpbudget("check", budget(named("a", TRAIN.format(sigma=0.5), "spent"), epsilon=1))
    assert ran.code == 3 and "To pass" not in ran.out and "Everything is spent" in ran.out


def test_standard_input(dpbudget_process, budget, tmp_path) -> None:
    budget(named("a", TRAIN.format(sigma=1.1)))
    text = Path("budget.toml").read_text(encoding="utf-8")
    from_file, piped = (
        dpbudget_process("check", "budget.toml", "-f", "value"),
        dpbudget_process("check", "-", "-f", "value", stdin=text),
    )
    assert (from_file.code, from_file.out) == (piped.code, piped.out)
    broken = dpbudget_process("check", "-", "--annotate", stdin=text.replace("delta", "detla"))
    assert broken.code == 2 and "<stdin>:4: [budget]" in broken.err and "file=" not in broken.err


def test_problems_have_a_line_each_and_nothing_is_printed(dpbudget, budget) -> None:
    ran = dpbudget("check", budget("name = 'a'\nmechanism = 'dp-sgd'\nsampling_rat = 1", epsilon="nan"), "--json")
    assert (ran.code, ran.out) == (2, "")
    assert all(line.startswith("budget.toml:") for line in ran.err.splitlines())
    assert 'budget.toml:10: release "a": unknown key "sampling_rat"; did you mean "sampling_rate"?' in ran.err


def test_no_proof_under_the_adjacency_is_told_with_the_release(dpbudget, budget) -> None:
    ran = dpbudget("check", budget(named("a", TRAIN.format(sigma=1)), named("survey", SIX[4])))
    assert ran.code == 2
    assert ran.err.startswith('budget.toml:15: release "survey": ')


# --- baseline ---------------------------------------------------------------------------------------------------------


def test_baseline_says_what_changed(dpbudget, budget) -> None:
    kept, gone = named("kept", TRAIN.format(sigma=1.1)), named("gone", TRAIN.format(sigma=3))
    Path("old.json").write_text(dpbudget("check", budget(kept, gone), "--json").out, encoding="utf-8")
    same = dpbudget("check", "budget.toml", "--baseline", "old.json", "--json").json["result"]["changes"]
    assert not same["epsilon"]["changed"] and same["added"] == same["removed"] == same["changed"] == []
    new = budget(kept.replace("1.1", "1.0").replace("planned", "spent"), named("new", TRAIN.format(sigma=2)))
    ran = dpbudget("check", new, "--baseline", "old.json", "--json")
    changes = ran.json["result"]["changes"]
    assert (changes["added"], changes["removed"]) == (["new"], ["gone"])
    [moved] = changes["changed"]
    assert moved["release"] == "kept" and moved["to"] > moved["from"]
    assert moved["status"] == {"from": "planned", "to": "spent"}
    assert "Against the baseline: epsilon" in dpbudget("check", new, "--baseline", "old.json").out


def test_baseline_of_another_machine_is_no_change(dpbudget, budget) -> None:
    """Other last digits, overlapping intervals: the truth need not have moved."""
    old = dpbudget("check", budget(named("a", TRAIN.format(sigma=1.1))), "--json").json
    for ends in (old["result"]["epsilon"], old["result"]["releases"][0]["epsilon_alone"]):
        ends["upper"] *= 1 + 1e-7
    Path("old.json").write_text(json.dumps(old), encoding="utf-8")
    changes = dpbudget("check", "budget.toml", "--baseline", "old.json", "--json").json["result"]["changes"]
    assert not changes["epsilon"]["changed"] and not changes["changed"]


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", '{"command": "check"}', '{"command": "check", "result": {"releases": [1], "epsilon": {}}}', "\xff",
        '{"command": "check", "result": {"releases": [], "epsilon": {"upper": "x"}}}', "[" * 5000,
        '{"command": "check", "result": {"releases": [{"name": "a", "epsilon_alone": 3}], "epsilon": {"upper": 1}}}',
        '{"command": "check", "result": {"verdict": "over", "releases": [], "epsilon": {"upper": 1' + "0" * 400 + "}}}",
        '{"command": "check", "result": {"verdict": ["over"], "releases": [], "epsilon": {"upper": 1}}}',
        '{"command": "check", "result": {"releases": [], "epsilon": {"upper": 1}}}',
    ],
)  # fmt: skip
def test_what_is_no_baseline(dpbudget, budget, content: str) -> None:
    Path("old.json").write_bytes(content.encode("latin-1"))
    ran = dpbudget("check", budget(named("a", TRAIN.format(sigma=1.1))), "--baseline", "old.json")
    assert ran.code == 2 and ran.err.startswith("error: --baseline: old.json ")


def test_a_table_is_no_baseline(dpbudget, budget) -> None:
    """The way out is that of a baseline, not of a state to import."""
    file = budget(named("training", TRAIN.format(sigma=1.1)), epsilon=50)
    Path("old.csv").write_text("sigma,q\n1,2\n")
    ran = dpbudget("check", file, "--baseline", "old.csv")
    assert ran.code == 2 and "old.csv is not JSON" in ran.err and "Name a report of dpbudget check --json." in ran.err


# --- adaptive, parallel -----------------------------------------------------------------------------------------------


def test_which_composition_holds_is_always_printed(dpbudget, budget) -> None:
    entry = named("a", 'mechanism = "gaussian"\nnoise_multiplier = 5')
    fixed = budget(entry)
    for command in ("check", "status"):
        assert "fixed without looking at earlier outputs" in " ".join(dpbudget(command, fixed).out.split())
        assert dpbudget(command, fixed, "--json").json["result"]["composition"] == "fixed"
    exact = dpbudget("check", fixed, "--json").json["result"]["epsilon"]["upper"]
    adaptive = budget(entry, budget="adaptive = true\n")
    for command in ("check", "status"):
        assert "Renyi privacy filter" in " ".join(dpbudget(command, adaptive).out.split())
        assert dpbudget(command, adaptive, "--json").json["result"]["composition"] == "rdp-filter"
    assert dpbudget("check", adaptive, "--json").json["result"]["epsilon"]["upper"] > exact


def test_the_filter_knows_the_orders_of_sampled_steps(dpbudget, budget) -> None:
    """The order that suits plain Gaussians lies beyond where these steps have any finite use: it alone gave 900."""
    body = 'mechanism = "dp-sgd"\nnoise_multiplier = 0.8\nbatch_size = 256\ndataset_size = 60000\nepochs = 2'
    costs = [
        dpbudget("check", budget(named("a", body), epsilon=2, budget=adaptive), "--json").json["result"]["epsilon"][
            "upper"
        ]
        for adaptive in ("", "adaptive = true\n")
    ]
    assert costs[0] < costs[1] < 3 * costs[0]


def test_adaptive_budget_is_solved_and_repaired_by_the_filter(dpbudget, budget) -> None:
    release = 'mechanism = "gaussian"\nnoise_multiplier = '
    value = dpbudget("solve", budget(named("a", f'{release}"solve"'), budget="adaptive = true\n"), "-f", "value").out
    file = budget(named("a", f"{release}{value}"), budget="adaptive = true\n")
    assert dpbudget("check", file).code == 0
    over = dpbudget("check", budget(named("a", f"{release}0.4"), budget="adaptive = true\n"), "--json")
    assert over.json["result"]["to_pass"][0]["to"] == float(value)


def test_parallel_composition(dpbudget, budget) -> None:
    """The total is the largest over partitions, each with all that names no partition."""

    def epsilon(*entries: str, **options: object) -> float:
        return dpbudget("check", budget(*entries, **options), "--json").json["result"]["epsilon"]["upper"]

    common = named("all", 'mechanism = "gaussian"\nnoise_multiplier = 5')
    one = named("one", 'mechanism = "gaussian"\nnoise_multiplier = 3\npartition = "one"')
    two = named("two", 'mechanism = "gaussian"\nnoise_multiplier = 2\npartition = "two"')
    assert epsilon(common, one, two) == max(epsilon(common, one), epsilon(common, two))
    assert epsilon(common, one, two) < epsilon(common, one, two.replace('"two"\n', '"one"\n').replace('= "two"', '= "one"')
                                               .replace('name = "one"', 'name = "2"'))  # fmt: skip
    ran = dpbudget("check", budget(common, one, two, adjacency="replace-one"))
    assert ran.code == 2 and "partition_fixed" in ran.err
    fixed = [entry + "\npartition_fixed = true" for entry in (one, two)]
    assert epsilon(common, *fixed, adjacency="replace-one", epsilon=50) > 0


def test_what_a_multiplier_is_relative_to(dpbudget, budget) -> None:
    """Replacing a record moves the sum twice as far as removing it; a stated sensitivity is that of the neighbours."""

    def epsilon(body: str, adjacency: str) -> float:
        file = budget(named("a", body), adjacency=adjacency, epsilon=50)
        return dpbudget("check", file, "--json").json["result"]["epsilon"]["upper"]

    gaussian, laplace = 'mechanism = "gaussian"\n', 'mechanism = "laplace"\n'
    same = pytest.approx(epsilon(f"{gaussian}noise_multiplier = 4", "replace-one"), rel=1e-6)
    assert epsilon(f"{gaussian}noise_multiplier = 2", "add-or-remove-one") == same
    assert epsilon(f"{gaussian}noise_std = 4\nsensitivity = 2", "replace-one") == same
    assert epsilon(f"{gaussian}noise_std = 4\nsensitivity = 2", "zero-out") == same
    same = pytest.approx(epsilon(f"{laplace}scale = 4", "replace-one"), rel=1e-6)
    assert epsilon(f"{laplace}scale = 2", "zero-out") == same
    assert epsilon(f"{laplace}scale = 4\nsensitivity = 2", "replace-one") == same


def test_zcdp_costs_at_least_the_gaussian_that_has_it(dpbudget, budget) -> None:
    """rho = 1 / (2 sigma^2); beside another release, and beside one known by (epsilon, delta) only."""
    train, opaque = named("t", TRAIN.format(sigma=1.1)), named("o", SIX[5])
    gaussian = named("g", 'mechanism = "gaussian"\nnoise_multiplier = 4')
    zcdp = named("z", 'mechanism = "zcdp"\nrho = 0.03125')
    exact = dpbudget("check", budget(train, opaque, gaussian), "--json").json["result"]["epsilon"]
    bound = dpbudget("check", budget(train, opaque, zcdp), "--json").json["result"]["epsilon"]
    assert bound["lower"] <= exact["upper"]
    assert exact["lower"] <= bound["upper"] < 1.3 * exact["upper"]


# --- solve, status, record --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "rest"),
    [
        ("noise_multiplier", "sampling_rate = 0.01\nsteps = 2000"),
        ("sampling_rate", "noise_multiplier = 1.1\nsteps = 2000"),
        ("steps", "noise_multiplier = 1.1\nsampling_rate = 0.01"),
    ],
)
def test_solve_writes_what_check_accepts(dpbudget, budget, key: str, rest: str) -> None:
    """The answer is within; one unit in the last printed digit towards less privacy is not."""
    spent = named("pretrain", TRAIN.format(sigma=1.1), "spent")
    unknown = named("finetune", f'mechanism = "dp-sgd"\n{rest}\n{key} = "solve"   # to be found')
    file = budget(spent, unknown, epsilon=3)
    before = Path(file).read_text(encoding="utf-8")
    assert dpbudget("check", file).code == 2
    report = dpbudget("solve", file, "--write", "--json").json["result"]
    after = Path(file).read_text(encoding="utf-8")
    assert after == before.replace('"solve"', str(report["value"]))
    assert dpbudget("check", file).code == 0
    Path(file).write_text(before.replace('"solve"', str(report["insufficient"])), encoding="utf-8")
    assert dpbudget("check", file).code == 3


@pytest.mark.parametrize("sampling", ["balls-in-bins", "full-batch"])
def test_no_rate_is_solved_for_where_the_sampling_leaves_none(dpbudget, budget, sampling: str) -> None:
    file = budget(named("a", TRAIN.format(sigma=2).replace("0.01", '"solve"') + f'\nsampling = "{sampling}"'))
    ran = dpbudget("solve", file)
    assert (ran.code, ran.out) == (2, "") and "to solve for" in ran.err
    assert ran.err.startswith(f'{file}:12: release "a": sampling_rate: ')


def test_nothing_fits_beside_what_is_spent(dpbudget, budget) -> None:
    spent = named("pretrain", TRAIN.format(sigma=0.4), "spent")
    file = budget(spent, named("a", TRAIN.format(sigma='"solve"')), epsilon=1)
    before = Path(file).read_bytes()
    ran = dpbudget("solve", file, "--write", "--json")
    assert (ran.code, ran.json["status"], Path(file).read_bytes()) == (3, "infeasible", before)


def test_status_leaves_out_the_unknown_and_says_so(dpbudget, budget) -> None:
    file = budget(named("p", TRAIN.format(sigma=1.1), "spent"), named("a", TRAIN.format(sigma='"solve"')))
    ran = dpbudget("status", file)
    assert ran.code == 0 and "still to be solved for" in ran.err and "[" in ran.out
    result = dpbudget("status", file, "--json").json["result"]
    assert result["spent"] == result["total"] and result["left"] == 8 - result["total"]["upper"]


def test_record_marks_or_appends_and_refuses(dpbudget, budget) -> None:
    file = budget(named("plan", TRAIN.format(sigma=1.1)), epsilon=2)
    assert dpbudget("record", file, "--name", "plan").code == 0
    ran = dpbudget("record", file, "--name", "extra", "--sigma", "3", "-q", "0.01", "-t", "100")
    assert ran.code == 0 and ran.out.startswith("recorded extra: ")
    releases = budgetfile.load(budgetfile.read(file), filename=file).releases
    assert [(release.name, release.spent) for release in releases] == [("plan", True), ("extra", True)]
    before = Path(file).read_bytes()
    for arguments, code in (
        (("--name", "plan"), 2),
        (("--name", "extra", "--sigma", "3", "-q", "0.01", "-t", "100"), 2),
        (("--name", "big", "--sigma", "0.5", "-q", "0.01", "-t", "1000"), 3),
        (("--name", "big", "--sigma", "x", "-q", "0.01", "-t", "1000"), 2),
        (("--name", "big", "--mechanism", "none"), 2),
        (("--name", "big", "--mechanism", "gaussian", "--set", "noise_multiplier"), 2),
        (("--sigma", "3"), 2),
    ):
        ran = dpbudget("record", file, *arguments)
        assert (ran.code, ran.out, Path(file).read_bytes()) == (code, "", before), arguments
    forced = dpbudget("record", file, "--name", "big", "--sigma", "0.5", "-q", "0.01", "-t", "1000", "--force")
    assert forced.code == 0 and "overspent" in forced.err


def test_record_warns_where_the_plan_no_longer_fits(dpbudget, budget) -> None:
    file = budget(named("plan", TRAIN.format(sigma=1.1)), epsilon=1.6)
    ran = dpbudget("record", file, "--name", "g", "--mechanism", "gaussian", "--set", "noise_multiplier=6")
    assert ran.code == 0 and "no longer fits" in ran.err


def writers(folder: Path, count: int, command: str = "record") -> list[int]:
    """Exit codes of `count` processes that record at once, started in a few interpreters to spare the machine."""
    script = (
        "import os, sys\n"
        "from dpbudget.answers import ledger\n"
        "from dpbudget.cli import main\n"
        "codes = []\n"
        "for i in range(int(sys.argv[1]), int(sys.argv[2])):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        try:\n"
        "            main(['record', 'budget.toml', '--name', f'w{i}', '--mechanism', 'gaussian',\n"
        "                  '--set', 'noise_multiplier=10', '--quiet', '-o', os.devnull])\n"
        "            os._exit(0)\n"
        "        except SystemExit as stop:\n"
        "            os._exit(stop.code or 0)\n"
        "    codes.append(child)\n"
        "print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in codes])\n"
    )
    quarter = -(-count // 4)
    starts = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(first), str(min(first + quarter, count))],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        for first in range(0, count, quarter)
    ]  # fmt: skip
    return [code for process in starts for code in json.loads(process.communicate(timeout=600)[0])]


@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_concurrent_records_lose_nothing_and_never_overspend(dpbudget, budget, tmp_path: Path, count: int) -> None:
    """n Gaussians of multiplier 10 are one of 10 / sqrt(n); only some of them fit epsilon 2."""
    file = budget(epsilon=2)
    codes = writers(tmp_path, count)
    releases = budgetfile.load(budgetfile.read(file), filename=file).releases
    assert set(codes) <= {0, 3}
    assert sorted(r.name for r in releases) == sorted(f"w{i}" for i, code in enumerate(codes) if code == 0)
    assert dpbudget("check", file).code == 0
    room = dpbudget("epsilon", "--sigma", str(10 / (len(releases) + 1) ** 0.5), "--sampling", "full-batch", "-t", "1",
                    "-d", "1e-5", "-f", "value")  # fmt: skip
    assert len(releases) == count or float(room.out) > 2, "refused although there was room"
    assert [p.name for p in tmp_path.iterdir()] == ["budget.toml"]


def test_a_kill_in_mid_write_leaves_the_old_file_or_the_new_one(budget, tmp_path: Path) -> None:
    """The process is killed at every system call boundary that its write passes through, by a trace of os functions."""
    file = budget(named("a", TRAIN.format(sigma=1.1)))
    old = Path(file).read_text(encoding="utf-8")
    script = (
        "import os, signal, sys\n"
        "from dpbudget.budgetfile import edit, store\n"
        "stop = int(sys.argv[1])\n"
        "def trace(event, arguments):\n"
        "    global armed, stop\n"
        "    if event.split('.')[0] in ('open', 'os') and armed:\n"
        "        stop -= 1\n"
        "        if stop < 0:\n"
        "            armed = False\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "armed = False\n"
        "sys.addaudithook(trace)\n"
        "armed = True\n"
        "store.update('budget.toml', lambda text: edit.set_value(text, 0, 'status', '\"spent\"'))\n"
        "armed = False\n"
    )
    seen, code, at = set(), -signal.SIGKILL, 0
    while code == -signal.SIGKILL:
        Path(file).write_text(old, encoding="utf-8")
        code = subprocess.run([sys.executable, "-c", script, str(at)], cwd=tmp_path, timeout=60, check=False).returncode
        now = Path(file).read_text(encoding="utf-8")
        seen.add(now)
        at += 1
        assert at < 60
    assert code == 0 and at > 3
    assert seen == {old, old.replace('"planned"', '"spent"')}


def test_init_then_the_whole_way(dpbudget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert dpbudget("init", "--epsilon", "3", "--delta", "1e-6", "--unit", "user").code == 0
    assert dpbudget("init").code == 2
    assert dpbudget("solve", "budget.toml", "--write").code == 0
    assert dpbudget("check", "budget.toml").code == 0
    assert dpbudget("record", "budget.toml", "--name", "training").code == 0
    assert dpbudget("status", "budget.toml", "--json").json["result"]["budget"]["unit"] == "user"


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["text", "json", "markdown", "csv", "value", "statement"])
def test_names_do_no_harm(dpbudget, budget, form: str) -> None:
    gaussian = 'mechanism = "gaussian"\nnoise_multiplier = 3'
    file = budget(named(NASTY, gaussian), named("=cmd()", gaussian), epsilon=1.6)
    for command in (("check", "--annotate"), ("status",)):
        ran = dpbudget(*command, file, "-f", form)
        for stream in (ran.out, ran.err):
            assert "\x1b" not in stream and "\u202e" not in stream
            assert not any(line.startswith("::error::x") for line in stream.splitlines())
    ran = dpbudget("check", file, "-f", form)
    if form == "json":
        assert ran.json["result"]["releases"][0]["name"] == NASTY
    if form == "markdown":
        assert "<i>" not in ran.out
        rows = [line for line in ran.out.splitlines() if line.startswith("|")]
        assert {line.replace("\\|", "").count("|") for line in rows} == {6}
    if form == "csv":
        assert "\n'=cmd()," in ran.out and len(ran.out.splitlines()) == 3
    if form == "value":
        assert float(ran.out) > 1.6


def test_statement_names_all_that_it_rests_on(dpbudget, budget) -> None:
    out = " ".join(dpbudget("check", budget(named("run 7", TRAIN.format(sigma=1.1))), "-f", "statement").out.split())
    for part in ("dp-sgd", "run 7", "noise_multiplier 1.1", "add-or-remove-one", "unit example", "poisson", "delta 1e-5",
                 "Accountant: pld", "dpbudget 0.", "not tuning"):  # fmt: skip
        assert part in out, part


# --- import -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "name", "epsilon", "reported"),
    [
        ("opacus", "opacus_rdp.json", "3.44247", 4.0713),
        ("opacus", "opacus_prv.pt", "3.44247", None),
        ("flower", "flower_poisson_add_or_remove_one.json", "1.8025", 2.0207),
        ("flower", "flower_no_amplification_add_or_remove_one.json", "140.043", 145.2226),
    ],
)
def test_imported_states_cost(dpbudget, tool: str, name: str, epsilon: str, reported: float | None) -> None:
    """Certified to six digits, rounded up; the tool's own number to the digits that it printed."""
    question = ["import", tool, STATES / name, *(["-d", "1e-5"] if tool == "opacus" else []), "--tolerance", "1e-6"]
    assert dpbudget(*question, "--digits", "6", "-f", "value").out == f"{epsilon}\n"
    result = dpbudget(*question, "--json").json["result"]
    assert result["epsilon"]["upper"] - result["epsilon"]["lower"] <= 1e-6 * result["epsilon"]["upper"]
    if reported is not None:
        assert abs(result["tool_epsilon"]["value"] - reported) < 5e-5 * max(1, reported / 100)
        assert result["explanation"]


def test_both_readings_of_a_replace_one_state(dpbudget) -> None:
    state = STATES / "flower_without_replacement_replace_one.json"
    default, other = (
        dpbudget("import", "flower", state, "--json", *reading).json["result"]
        for reading in ((), ("--noise-relative-to", "sensitivity"))
    )
    assert default["noise_relative_to"] == "clipping-norm"
    assert default["other_reading"]["epsilon"] == other["epsilon"]
    assert other["epsilon"]["upper"] < 3.8451 < default["epsilon"]["upper"]
    text = dpbudget("import", "flower", state).out
    assert "relative to the clipping norm" in text and "relative to the sensitivity" in text


def test_append_an_import_once_more(dpbudget, budget) -> None:
    file = budget()
    for _ in range(2):
        assert dpbudget("import", "opacus", STATES / "opacus_rdp.json", "-d", "1e-5", "--append", file).code == 0
    names = [release.name for release in budgetfile.load(budgetfile.read(file), filename=file).releases]
    assert len(set(names)) == 4
    before = Path(file).read_bytes()
    state = STATES / "flower_without_replacement_replace_one.json"
    assert dpbudget("import", "flower", state, "--append", file).code == 2
    assert Path(file).read_bytes() == before
    # the same neighbours, but clients: not what a file about examples adds up, nor the other way round
    state = STATES / "flower_poisson_add_or_remove_one.json"
    ran = dpbudget("import", "flower", state, "--append", file)
    assert ran.code == 2 and 'the unit "client"' in ran.err and Path(file).read_bytes() == before
    Path(file).write_text(Path(file).read_text().replace("[budget]", '[budget]\nunit = "client"'))
    assert dpbudget("import", "flower", state, "--append", file).code == 0
    assert dpbudget("import", "opacus", STATES / "opacus_rdp.json", "-d", "1e-5", "--append", file).code == 2


def test_an_import_without_a_bound_is_not_appended(dpbudget, budget) -> None:
    file = budget()
    before = Path(file).read_bytes()
    Path("silent.csv").write_text("sigma,q,steps\n1,0.1,3\n0,0.1,3\n")
    ran = dpbudget("import", "csv", "silent.csv", "-d", "1e-5", "--append", file)
    assert ran.code == 4 and Path(file).read_bytes() == before
    assert f"nothing is appended to {file}" in ran.err and ran.out.count("[[release]]") == 2


def test_an_import_without_noise_is_unbounded(dpbudget, budget) -> None:
    Path("silent.json").write_text('{"history": [[0, 0.05, 60], [0.9, 0.05, 40]], "mechanism": "rdp"}')
    ran = dpbudget("import", "opacus", "silent.json", "-d", "1e-5", "--json")
    assert ran.code == 4 and ran.json["status"] == "unbounded" and ran.json["result"]["tool_epsilon"] is None


def test_check_of_many_releases_is_quick(dpbudget, budget) -> None:
    """Ten releases: twenty totals besides the sum; about 5 s of one core, minutes where all is computed again for each."""
    file = budget(*(named(f"r{i}", TRAIN.format(sigma=1 + i / 10)) for i in range(10)), epsilon=50)
    with patience(60):
        assert dpbudget("check", file).code == 0


FEDERATED = (
    'mechanism = "federated"\nclients = 100\nclients_per_round = 10\nrounds = 10\nnoise_multiplier = 2\n'
    'noise_at = "shared"\nmin_honest = 8\n'
)


def test_clients_are_no_examples(dpbudget, tmp_path: Path) -> None:
    def check(unit: str, adjacency: str):
        file = tmp_path / f"{unit}-{adjacency}.toml"
        file.write_text(
            f'schema = 1\n[budget]\nepsilon = 9\ndelta = 1e-5\nadjacency = "{adjacency}"\nunit = "{unit}"\n'
            f'[[release]]\nname = "rounds"\n{FEDERATED}'
        )
        return dpbudget("check", str(file), "--json")

    for adjacency in ("zero-out", "add-or-remove-one"):
        refused = check("example", adjacency)
        assert refused.code == 2 and 'unit = "client"' in refused.err
        assert check("client", adjacency).code == 0
    assert check("example", "replace-one").code == 0


def test_every_condition_of_a_file_is_said(dpbudget, tmp_path: Path) -> None:
    search = (
        'schema = 1\n[budget]\nepsilon = 90\ndelta = 1e-5\nadjacency = "zero-out"\nunit = "client"\n'
        '[[release]]\nname = "search"\nmechanism = "tuning"\ntrials = 3\nnoise_multiplier = 2.123456789\n'
        'sampling_rate = 0.01\nsteps = 10\npartition = "north"\n'
    )
    file = tmp_path / "search.toml"
    file.write_text(search)
    statement = " ".join(dpbudget("check", str(file), "--format", "statement", "--digits", "2").out.split())
    assert "noise_multiplier 2.123456789" in statement  # a shorter one would be another run
    assert "never revealed" in statement and "disjoint" in statement

    document = budgetfile.load(
        f'{search}[[release]]\nname = "rounds"\n{FEDERATED}'
        '[[release]]\nname = "mean"\nmechanism = "gaussian"\nnoise_std = 3\nsensitivity = 0.5\n'
        '[[release]]\nname = "cut"\nmechanism = "dp-sgd"\nnoise_multiplier = 3\nbatch_size = 10\n'
        "dataset_size = 1000\nsteps = 5\nmax_batch = 20\n",
        filename="all.toml",
    )
    planned = filecost.Plan(document, 1e-5)
    said = filewords.assumptions_json(planned)
    conditions = " ".join(said["conditions"])
    for words in (
        "trials of a search",
        "never revealed",
        "who takes part",
        "the larger of two",
        "disjoint",
        "sensitivities",
    ):
        assert words in conditions and words in filewords.assumptions(planned)
    assert said["sampling"] == ["poisson"]
