"""One contender in a process of its own: a JSON question a line in, a JSON answer a line out, timed inside.

python -m benchmarks.worker NAME
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.contenders import CONTENDERS, Contender

MEMORY_LIMIT = 8 << 30  # of addresses: a contender that wants more gets a MemoryError, not the machine
NUDGE = 2.0**-45


def forget_peak() -> None:
    """From here on the peak is that of what follows, where the system can forget (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_megabytes() -> float | None:
    """Largest resident size of this process. getrusage would count what the parent had before it started us."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    found = re.search(r"VmHWM:\s*(\d+) kB", status)
    return int(found[1]) / 1024 if found else None


def timed(call: Callable[[], Any]) -> dict[str, Any]:
    forget_peak()
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = call()
    except Exception as error:  # whatever a contender raises is its answer
        return {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"}
    spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    return {"value": value, **spent, "megabytes": peak_megabytes()}


class Desk:
    """Answers questions. Round r moves sigma or the target by r parts in 3.5e13, so that no cache can answer."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self._ask: Any = None
        self._solve: Any = None

    def epsilon(self, sigma: float, rate: float, steps: int, delta: float, round: int) -> Any:
        self._ask = self._ask or self.contender.load()
        return timed(lambda: self._ask(sigma * (1 + round * NUDGE), rate, int(steps), delta))

    def sigma(self, rate: float, steps: int, delta: float, epsilon: float, round: int) -> Any:
        if self.contender.load_solver is None:
            raise LookupError(f"{self.contender.name} has no solver here")
        self._solve = self._solve or self.contender.load_solver()
        return timed(lambda: self._solve(rate, int(steps), delta, epsilon * (1 + round * NUDGE)))

    def version(self) -> Any:
        return {"value": self.contender.version}

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        what = question.pop("ask")
        try:
            return dict(getattr(self, what)(**question))
        except Exception as error:  # a package that can't be imported
            return {"error": f"{type(error).__name__}: {error}", "missing": True}


def main(name: str) -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a package prints must not pass for an answer
    desk = Desk(CONTENDERS[name])
    for line in sys.stdin:
        channel.write(json.dumps(desk.answer(json.loads(line))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
