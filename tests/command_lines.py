"""Command lines drawn from the registry: a recipe that can be answered, then options, extremes and nonsense over it.

Whatever a new command or option is called, it is drawn: unknown names take numbers.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from conftest import DATA
from hypothesis import strategies as st

from dpbudget.cli import app

COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
FORMATS = ("text", "json", "markdown", "csv", "value", "statement")

BUDGET = """schema = 1
[budget]
epsilon = {epsilon}
delta = 1e-5
adjacency = "add-or-remove-one"
unit = "example"

[[release]]
name = "pretrain"
status = "spent"
mechanism = "dp-sgd"
noise_multiplier = {sigma}
sampling_rate = {rate}
steps = {steps}
"""
PLANNED = """
[[release]]
name = "finetune"
mechanism = "dp-sgd"
noise_multiplier = {}
sampling_rate = 0.01
steps = 200
"""
FILES: dict[str, str | bytes] = {
    "budget.toml": BUDGET.format(epsilon=8, sigma=1.1, rate=0.01, steps=100) + PLANNED.format(1.2),
    "unknown.toml": BUDGET.format(epsilon=8, sigma=1.1, rate=0.01, steps=100) + PLANNED.format('"solve"'),
    "over.toml": BUDGET.format(epsilon=1, sigma=0.6, rate=0.05, steps=1000) + PLANNED.format(0.8),
    "extreme.toml": BUDGET.format(epsilon=5000, sigma=0.05, rate=1, steps=10**9),
    "silent.toml": BUDGET.format(epsilon=0, sigma=0, rate="1e-9", steps=0),
    "bad.toml": BUDGET.format(epsilon='"nan"', sigma="nan", rate=256, steps=0.5),
    "history.csv": "sigma,q,steps\n1.1,0.01,100\n0.9,0.02,50\n",
    "short.csv": "sigma,q,steps\n4,1,1\n",
    "extreme.csv": "sigma,q,steps\n0.05,1,1000000000\n1e6,1e-9,1\n",
    "bad.csv": "sigma,q,steps\nnan,0.1,3\n1,inf,\n1,0.5,1e400\n",
    "sizes.csv": "client,size\na,100\n=b|c,5000\n",
    "scores.csv": "world,score\n" + "".join(f"in,{i}\nout,{i - 2}\n" for i in range(40)),
    "records.csv": "x,y,site,kind\n" + "".join(f"{i % 7},{i % 5},s{i % 3},{'ab'[i % 2]}\n" for i in range(60)),
    "ranges.csv": "column,low,high\nx,0,7\ny,0,5\nsite,0,1\nkind,0,1\n",
    "old.json": "{}",
    "empty.csv": "",
    "binary.pt": bytes(range(256)) * 4,
    "naïve 💥.csv": "sigma,q,steps\n1,0.1,10\n",
}
STATES = tuple(sorted(path.name for path in (DATA / "states").iterdir() if path.suffix in (".json", ".pt")))
NO_FILE = (
    "missing.csv", ".", "", "no/such/folder/x", "/dev/null", "empty.csv", "binary.pt", "bad.csv", "budget.toml", "a\x1bb",
)  # fmt: skip
HISTORIES = ("history.csv", "extreme.csv", "naïve 💥.csv")
BUDGETS = ("budget.toml", "unknown.toml", "over.toml", "extreme.toml", "silent.toml", "bad.toml", "-")
NEW_FILES = ("out.txt", "new 💥", "budget.toml", "/dev/null")

NONSENSE = (
    "nan", "NaN", "inf", "-inf", "Infinity", "-1", "-1e-9", "-0.0", "0", "", " ", "1e400", "-1e400", "1e-400", "9" * 190,
    "9" * 400, "1e308", "1e-308", "5e-324", "0x10", "1_000", "1,,2", ",", "1,2,3", "1:2", "1:2:3", "log:0:1:3", "1:2:1e9",
    "1:2:0", "0.5:0.5:2", "1/3", "1/0", "0/0", "1/1e-300", "1e300/1e-300", "é", "１２", "∞", "💥", "\x1b[31m1", "\udcff1",
    "|", "=1", "`x`", "{}", "{0}", "%s", "--", "None", "true", "one", "1e", "1 2", "1.5", "a,b", "::",
)  # fmt: skip

# what an option is given where it is meant to be understood, extremes included, by its Python name
SIGMAS = ("1", "1.1", "0.05", "1e6", "0.3", "4", "20", "0", "1e-3")
RATES = ("0.01", "1e-9", "1", "0.5", "1/60", "0.001", "1e-300", "0.999999")
STEPS = ("1", "1000", "1e9", "0", "10", "1e4", "1e6")
DELTAS = ("1e-5", "1e-100", "0.5", "1e-9", "0.999999", "1e-300", "1e-15")
EPSILONS = ("1", "3", "1e-6", "5000", "0", "50", "0.1", "1e-12", "1e5")
COUNTS = ("1", "2", "10", "256", "60000", "1e9", "1e18", "9" * 30)
SHARES = ("0.5", "0.01", "1e-9", "0.999999", "1e-300")
POSITIVES = ("1", "0.1", "1e-9", "1e9", "1e-300", "1e300")
SMALL = ("1", "2", "3", "10")
ADJACENCIES = ("add-or-remove-one", "replace-one", "zero-out")
SAMPLINGS = ("poisson", "fixed-size", "shuffle", "balls-in-bins", "full-batch")
ACCOUNTANTS = (
    "pld", "rdp", "rdp-classic", "moments", "basic", "strong", "kov", "kov-exact", "zcdp", "gdp-clt", "rule-of-thumb",
    "all", "pld,rdp", "rdp,pld,gdp-clt", "pld,all",
)  # fmt: skip
VALUES: dict[str, Sequence[str]] = {
    "noise_multiplier": SIGMAS, "sampling_rate": RATES, "batch_size": ("256", "1", "10", "100", "1e6"),
    "dataset_size": ("60000", "1", "100", "1e9", "1e18"), "steps": STEPS, "epochs": ("1", "60", "0.5", "0", "1e6"),
    "clip_norm": POSITIVES, "noise_std": POSITIVES, "noise_on": ("sum", "mean"), "devices": COUNTS, "accumulate": COUNTS,
    "loader": ("exact", "opacus", "tf-privacy"), "history": HISTORIES, "sampling": SAMPLINGS, "adjacency": ADJACENCIES,
    "unit": ("example", "client", "user"), "group_size": ("1", "2", "3", "1000"), "max_batch": ("1", "300", "1e6"),
    "delta": (*DELTAS, "1e-5,1e-6", "1e-100,0.5"), "epsilon": (*EPSILONS, "1,3", "1:4:3"), "max_epsilon": EPSILONS,
    "accountant": ACCOUNTANTS, "tolerance": ("1e-5", "1e-3", "1", "1e-12", "0.1"), "plot": ("p.svg", "p.png", "p.pdf"),
    "format": FORMATS, "output": NEW_FILES, "digits": ("1", "2", "5", "15"), "summary": NEW_FILES, "outputs": NEW_FILES,
    "file": BUDGETS, "state": (*STATES, *HISTORIES), "tool": ("opacus", "flower", "csv"), "append": BUDGETS[:3],
    "reported": EPSILONS, "noise_relative_to": ("clipping-norm", "sensitivity"), "baseline": ("old.json",),
    "name": ("a", "pretrain", "finetune", "=é|`x`\x1b", " "), "mechanism": (
        "dp-sgd", "gaussian", "laplace", "randomized-response", "pure-dp", "approx-dp", "zcdp", "federated", "tuning",
    ),
    "values": ("epsilon=0.1", "rho=0.01", "scale=10", "count=3", "delta=1e-9", "categories=4", "=", "x", "noise=1"),
    "mode": ("sgd", "federated"), "law": ("poisson", "geometric", "negative-binomial", "logarithmic", "binomial", "fixed"),
    "trials": ("10", "1", "1.5", "1e6", "1e18"), "eta": ("0.5", "0", "-0.5", "1", "100"), "most_trials": COUNTS,
    "noise_at": ("server", "shared", "client"), "clients": COUNTS, "clients_per_round": ("1", "5", "100", "1e6"),
    "client_rate": RATES, "rounds": STEPS, "local_sigma": SIGMAS, "local_batch": COUNTS, "local_size": COUNTS,
    "local_epochs": COUNTS, "sizes": ("sizes.csv",), "claim": ("1,1e-5", "0,0.5", "5000,1e-100", "1e-6,1e-5"),
    "canary": ("8", "100", "1000"), "batches": ("drawn", "position"), "scores": ("scores.csv",),
    "empirical": ("100,0,100,0", "0,0,0,0", "1,2,3,4", "1e15,0,1e15,0"), "threshold": ("0", "1", "-1e300"),
    "data": ("records.csv",), "label": ("kind", "x"), "client_column": ("site",), "ranges": ("ranges.csv",),
    "fpr": ("0.01", "0.001,0.1", "1e-300", "0.999999"), "held_out": ("0.25", "0.5", "1e-9"),
}  # fmt: skip
# what a simulation can do in a moment; its own limits are tested beside it
CHEAP: dict[str, Sequence[str]] = {
    "dataset_size": ("2", "10", "100"), "steps": ("0", "1", "20"), "epochs": ("1", "0.5", "3"), "rounds": ("1", "3"),
    "clients": ("1", "2", "10"), "clients_per_round": ("1", "2"), "features": ("1", "3"), "classes": ("2", "3"),
    "repeats": ("1", "2"), "samples": ("1", "100", "2000"), "batch_size": ("1", "10", "64"), "local_epochs": ("1", "2"),
    "local_batch": ("1", "20"), "epsilon": ("1", "3,8", "1e-6", "5000"), "precision": ("0.5", "0.1"),
    "devices": SMALL, "accumulate": SMALL,
}  # fmt: skip
# what every command answers at once; the first of each is what the first line of a command has
FRUGAL: dict[str, Sequence[str]] = {
    "noise_multiplier": ("4", "1", "1e6", "20", "0"), "sampling_rate": ("1",), "steps": ("1", "0", "10"),
    "batch_size": ("100",), "dataset_size": ("100",), "epochs": ("1", "0", "0.5"), "history": ("short.csv",),
    "delta": ("1e-5", "0.5", "1e-9"), "epsilon": ("3", "1", "50"), "file": ("silent.toml", "bad.toml"),
    "accountant": ("rdp", "basic", "gdp-clt", "zcdp", "kov", "moments", "rule-of-thumb"), "tolerance": ("0.1", "1"),
    "sampling": ("full-batch", "poisson"), "adjacency": ("add-or-remove-one", "zero-out"), "group_size": ("1", "2"),
    "trials": ("1", "1.5"), "clients": ("10",), "clients_per_round": ("10", "5"), "rounds": ("1", "3"),
    "local_size": ("2", "10"), "local_batch": ("2",), "state": ("short.csv", "empty.csv"), "canary": ("8",),
    "samples": ("100", "1"), "repeats": ("1",), "target_advantage": ("0.5",), "fpr": ("0.01",), "plot": ("p.txt",),
    "mechanism": ("gaussian", "pure-dp", "zcdp"),
}  # fmt: skip
RUN = ("noise_multiplier", "sampling_rate", "steps")
RUNS = (
    RUN, ("noise_multiplier", "batch_size", "dataset_size", "epochs"), ("noise_std", "clip_norm", "sampling_rate", "steps"),
    ("history",),
)  # fmt: skip
Recipe = Sequence[str | tuple[str, Sequence[str]]]
"""Options that ask something together, each with values of its own where those of VALUES are too many."""

DELTA = ("delta", DELTAS)
EPSILON = ("epsilon", EPSILONS)
FILE = ("file", ("budget.toml", "over.toml", "extreme.toml", "silent.toml"))
OPACUS, FLOWER = ([name for name in STATES if name.startswith(tool)] for tool in ("opacus", "flower"))
RECIPES: dict[str, Sequence[Recipe]] = {
    "epsilon": [(*run, DELTA) for run in RUNS],
    "delta": [(*run, EPSILON) for run in RUNS],
    "explain": [(*RUN, DELTA)],
    "sigma": [(EPSILON, DELTA, "sampling_rate", "steps"), (EPSILON, "dataset_size", "batch_size", "epochs")],
    "steps": [(EPSILON, DELTA, "noise_multiplier", "sampling_rate")],
    "rate": [(EPSILON, DELTA, "noise_multiplier", "steps"), (EPSILON, "noise_multiplier", "steps", "dataset_size")],
    "gaussian": [(EPSILON, DELTA), ("noise_multiplier", DELTA), ("noise_std", EPSILON), (EPSILON, DELTA, "sensitivity")],
    "compare": [(*RUN, DELTA), (*RUNS[1], DELTA)],
    "table": [(*RUN, "delta"), ("epsilon", "delta", "sampling_rate", "steps"), (*RUNS[1], "delta"), ("history", "delta")],
    "plan": [(EPSILON, "dataset_size", "batch_size", "epochs"), (EPSILON, DELTA, "dataset_size", "batch_size", "epochs")],
    "init": [(("file", NEW_FILES[:2]),), (("file", NEW_FILES[:2]), EPSILON, DELTA)],
    "check": [("file",), (FILE,)],
    "solve": [("file",), (("file", ("unknown.toml",)),)],
    "status": [("file",), (FILE,)],
    "record": [
        ("file", "name", *RUN), (FILE, ("name", ("a", "=é|`x`\x1b")), *RUN), (FILE, ("name", ("finetune",))),
        (FILE, ("name", ("a",)), ("mechanism", ("pure-dp",)), ("values", ("epsilon=0.1",))),
    ],
    "import": [
        ("tool", "state"), (("tool", ("opacus",)), ("state", OPACUS), DELTA), (("tool", ("flower",)), ("state", FLOWER)),
        (("tool", ("csv",)), ("state", HISTORIES), DELTA),
    ],
    "federated": [
        (("clients", COUNTS[2:]), ("clients_per_round", ("1", "5")), "rounds", "noise_multiplier", DELTA),
        (("clients", COUNTS[3:]), ("clients_per_round", ("5", "100")), "rounds", EPSILON),
        ("clients", "client_rate", "rounds", "noise_multiplier", "local_size", ("local_batch", ("1", "2"))),
    ],
    "tune": [
        (*RUN, DELTA, "trials"), (*RUN, DELTA, EPSILON), ("sampling_rate", "steps", DELTA, EPSILON, "trials"),
    ],
    "risk": [(*RUN, DELTA), (EPSILON, DELTA), ("sampling_rate", "steps", DELTA, "target_advantage")],
    "verify": [
        (*RUN, DELTA, "samples"), (*RUN, "claim", "samples"), ("empirical", DELTA), ("scores", DELTA),
        (*RUN, DELTA, "canary"),
    ],
    "simulate": [
        ("epsilon", "dataset_size", "batch_size", "epochs", "repeats"), ("noise_multiplier", "dataset_size", "repeats", "steps"),
        (("mode", ("federated",)), "noise_multiplier", "rounds", "clients", "dataset_size", "repeats"),
        ("data", "label", "epsilon", "epochs", "repeats"),
    ],
}  # fmt: skip


def fill(folder: Path) -> None:
    """The files that the drawn lines name."""
    for name, content in FILES.items():
        data = content.encode("utf-8") if isinstance(content, str) else content
        (folder / name).write_bytes(data)
    for name in STATES:
        shutil.copy(DATA / "states" / name, folder / name)


def _understood(command: str, name: str, frugal: bool) -> Sequence[str]:
    """Values that the option is made for."""
    if frugal and name in FRUGAL:
        return FRUGAL[name]
    if command in ("simulate", "verify") and name in CHEAP:
        return CHEAP[name]
    return VALUES.get(name, (*SHARES, *POSITIVES, *SMALL))


@st.composite
def _value(draw: st.DrawFn, command: str, name: str, frugal: bool) -> str:
    """Mostly what the option is made for; else nonsense, a file that is none, or any text."""
    kind = draw(st.sampled_from((0, 0, 0, 0, 0, 1, 1, 2, 3)))
    if kind == 0:
        return draw(st.sampled_from(_understood(command, name, frugal)))
    if kind == 1:
        return draw(st.sampled_from(NONSENSE))
    if kind == 2:
        return draw(st.sampled_from(NO_FILE))
    # no argument holds a NUL, and nothing is to be written outside the folder
    return draw(st.text(st.characters(codec="utf-8", exclude_characters="\x00/"), max_size=6))


@st.composite
def command_line(draw: st.DrawFn, command: str, frugal: bool = False) -> list[str]:
    """The arguments of one run: a recipe, at times short of an option or with a wrong value, and a few options more.

    frugal: where a value is right, it is one that is answered at once; and more of them are wrong.
    """
    parameters = {p.name: p for p in COMMANDS[command].params}
    recipe = dict(item if isinstance(item, tuple) else (item, ()) for item in draw(st.sampled_from(RECIPES[command])))
    wrong = draw(st.sampled_from(list(recipe))) if draw(st.integers(0, 2 if frugal else 5)) == 2 else ""
    left_out = draw(st.sampled_from(list(recipe))) if draw(st.integers(0, 9)) == 9 else ""
    others = [name for name in parameters if name not in recipe and name not in ("help", "format", "json")]
    more = draw(st.lists(st.sampled_from(others), max_size=draw(st.sampled_from((0, 0, 1, 1, 2, 4))), unique=True))
    line = [command]
    for name in [*recipe, *more]:
        parameter = parameters[name]
        if name == left_out:
            continue
        if name in recipe and name != wrong:
            value = draw(st.sampled_from(_of_recipe(command, recipe, name, frugal)))
        else:
            value = draw(_value(command, name, frugal))
        if parameter.param_type_name == "argument":
            line.append(value)
        elif parameter.is_flag:
            line.append(draw(st.sampled_from(parameter.opts)))
        else:
            line += _typed(draw(st.sampled_from(parameter.opts)), value)
    form = draw(st.sampled_from((*FORMATS, *FORMATS, "--json", "", "xml")))
    return [*line, *([form] if form == "--json" else ["-f", form] if form else [])]


def _of_recipe(command: str, recipe: Mapping[str, Sequence[str]], name: str, frugal: bool) -> Sequence[str]:
    own = recipe[name]
    cheap = [value for value in FRUGAL.get(name, ()) if value in own] if frugal else []
    return cheap or own or _understood(command, name, frugal)


def _typed(option: str, value: str) -> list[str]:
    """`--name=value`, which a value that begins with a dash needs, or `-x value`."""
    return [f"{option}={value}"] if option.startswith("--") else [option, value]
