"""Extreme but valid values in little memory: an answer or one sentence, at each corner of what is taken."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

MEMORY = 2 * 2**30  # bytes of address space, of which the interpreter and the libraries take a fifth
SIGMAS, RATES, STEPS = ("0.05", "1e6"), ("1e-9", "1"), ("1", "1e9")
DELTAS, EPSILONS = ("1e-100", "0.5"), ("1e-6", "5000")

# Each line keeps the contract of test_fuzz_cli; one process for them all saves its start.
RUN_ALL = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
try:
    bytearray({memory})
    sys.exit("there is no limit here")
except MemoryError:
    import pytest, test_fuzz_cli
faults = []
for line in json.loads(sys.stdin.read()):
    try:
        test_fuzz_cli.check(line)
    except (AssertionError, pytest.fail.Exception) as fault:
        faults.append(str(fault))
print("kept" if not faults else "\\n".join(faults))
"""


def corners(command: str) -> list[list[str]]:
    asked = {
        "epsilon": (("-s", SIGMAS), ("-q", RATES), ("-t", STEPS), ("-d", DELTAS)),
        "delta": (("-s", SIGMAS), ("-q", RATES), ("-t", STEPS), ("-e", EPSILONS)),
        "sigma": (("-e", EPSILONS), ("-q", RATES), ("-t", STEPS), ("-d", DELTAS)),
        "steps": (("-e", EPSILONS), ("-q", RATES), ("-s", SIGMAS), ("-d", DELTAS)),
        "rate": (("-e", EPSILONS), ("-t", STEPS), ("-s", SIGMAS), ("-d", DELTAS)),
        "gaussian": (("-e", EPSILONS), ("-d", DELTAS)),
        "table": (("-s", ("0.05,1e6",)), ("-q", RATES), ("-t", ("1,1e9",)), ("-d", DELTAS)),
        "risk": (("-s", SIGMAS), ("-q", RATES), ("-t", STEPS), ("-d", DELTAS)),
        "check": (("", ("extreme.toml", "silent.toml")),),
        "status": (("", ("extreme.toml", "silent.toml")),),
    }[command]
    return [
        [command, *(word for (option, _), value in zip(asked, values, strict=True) for word in (option, value) if word)]
        for values in itertools.product(*(values for _, values in asked))
    ]


def keep_the_contract(lines: Sequence[Sequence[str]]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL.format(memory=MEMORY)],
        input=json.dumps(lines), capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.stdout == "kept\n", done.stdout + done.stderr


def test_a_few_corners() -> None:
    keep_the_contract([line.split() for line in (
        "epsilon -s 1e6 -q 1 -t 1e9 -d 1e-100", "epsilon -s 0.05 -q 1 -t 1e9 -d 0.5", "delta -s 1e6 -q 1 -t 1e9 -e 1e-6",
        "sigma -e 5000 -q 1 -t 1e9 -d 1e-100", "steps -e 1e-6 -q 1 -s 0.05 -d 0.5", "gaussian -e 1e-6 -d 1e-100",
        "check silent.toml",
    )])  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["epsilon", "delta", "sigma", "steps", "rate", "gaussian", "table", "risk", "check", "status"]
)
def test_every_corner(command: str) -> None:
    keep_the_contract(corners(command))
