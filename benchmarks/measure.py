"""What is measured. Every function returns plain data that can be written as JSON and looked at again later."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import cases
from benchmarks.cases import Case
from benchmarks.contenders import CONTENDERS
from benchmarks.pool import ROOT, Pool, Worker

Result = dict[str, Any]
Say = Callable[[str], None]
PATIENCE = 2.0  # seconds for the repetitions of one contender on one case
WARM_UP = Case("warm-up", 1.0, 0.01, 100, 1e-5)


def machine() -> Result:
    """The class of the machine, and how busy it is; nothing that names it."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
    }


def versions(names: Sequence[str]) -> Result:
    """Versions of the contenders and of what they compute with, or why there is none."""
    from importlib.metadata import version

    found: Result = {"numpy": {"value": version("numpy")}, "scipy": {"value": version("scipy")}}
    for name in names:
        worker = Worker(name)
        found[name] = worker.ask("version", 60)
        worker.close()
    return found


def _rounds(first: Result, most: int) -> int:
    """Fewer where one call is long; none where the first took longer than all may take, and must do."""
    return min(most, int(PATIENCE / first["wall"])) if "wall" in first else 0


def _interleaved(pool: Pool, names: Sequence[str], what: str, question: Result, rounds: int, limit: float) -> Result:
    """A first answer from everybody, then the timed rounds, everybody in turn: a busy second hits all alike."""
    answers = {name: pool.workers[name].ask(what, limit, **question, round=0) for name in names}
    left = {name: _rounds(answers[name], rounds) for name in names}
    times: dict[str, list[Result]] = {name: [] for name in names}
    for turn in range(1, rounds + 1):
        for name in names:
            if left[name] >= turn:
                times[name].append(pool.workers[name].ask(what, limit, **question, round=turn))
    return {name: _summary(answers[name], times[name]) for name in names}


def _summary(first: Result, again: Sequence[Result]) -> Result:
    if "error" in first:
        return first
    good = [result for result in again if "wall" in result] or [first]
    return {
        "value": first["value"],
        "wall": statistics.median(result["wall"] for result in good),
        "cpu": statistics.median(result["cpu"] for result in good),
        "rounds": len(again),
        "megabytes": first["megabytes"],
    }


def epsilons(
    questions: Sequence[Case], names: Sequence[str], rounds: int, limit: float, say: Say, slow_every: int = 1
) -> Result:
    """Answers and warm times: {case: {contender: {"value": [lower, estimate, upper], "wall", "cpu"} or {"error"}}}.

    The slow contenders are asked every `slow_every`-th question.
    """
    found: Result = {}
    with Pool(list(names)) as pool:
        for name in names:
            pool.workers[name].ask("epsilon", limit, **WARM_UP.question(), round=0)
        for index, case in enumerate(questions):
            asked = [name for name in names if index % slow_every == 0 or not CONTENDERS[name].slow]
            found[case.name] = _interleaved(pool, asked, "epsilon", case.question(), rounds, limit)
            say(f"{case.name}: {case.label}")
    return found


def growth(names: Sequence[str], rounds: int, limit: float, say: Say) -> Result:
    return {title: epsilons(series, names, rounds, limit, say) for title, series in cases.growth().items()}


def solvers(rounds: int, limit: float, say: Say) -> Result:
    """Solving for the noise multiplier: {target: {contender: {"value", "wall", "cpu"} or {"error"}}}."""
    names = [name for name, contender in CONTENDERS.items() if contender.load_solver is not None]
    found: Result = {}
    with Pool(names) as pool:
        for name in names:
            pool.workers[name].ask("sigma", limit, rate=1.0, steps=1, delta=1e-5, epsilon=1.0, round=0)
        for target in cases.targets():
            found[target.label] = _interleaved(pool, names, "sigma", target.question(), rounds, limit)
            say(f"sigma for {target.label}")
    return found


def processes(rounds: int, say: Say) -> Result:
    """Whole processes, from the shell's point of view: our command against the mere import of the rival."""
    command = Path(sys.executable).parent / "dpbudget"
    python = sys.executable
    arguments = ["epsilon", "--sigma", "1.1", "--sampling-rate", "0.01", "--steps", "1000", "--delta", "1e-5"]
    lines = {
        "dpbudget epsilon": [str(command), *arguments],
        "dpbudget epsilon --accountant pld": [str(command), *arguments, "--accountant", "pld"],
        "import dp_accounting": [python, "-c", "import dp_accounting"],
        "import opacus.accountants": [python, "-c", "import benchmarks.contenders as c; c._opacus_accountants()"],
        "import prv_accountant": [python, "-c", "import prv_accountant"],
        "import numpy, scipy.special": [python, "-c", "import numpy, scipy.special"],
    }
    times: dict[str, list[float]] = {name: [] for name in lines}
    errors: Result = {}
    for turn in range(rounds + 1):
        for name, line in lines.items():
            start = time.perf_counter()
            done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
            if done.returncode:
                errors[name] = {"error": (done.stderr.strip().splitlines() or ["failed"])[-1]}
            elif turn:  # the first fills the caches of the file system
                times[name].append(time.perf_counter() - start)
    say("processes")
    return {name: errors.get(name) or {"wall": statistics.median(times[name])} for name in lines}
