"""Contenders as processes: asked one at a time, ended when they take too long, started anew when they die."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


class Worker:
    def __init__(self, name: str) -> None:
        self.name = name
        self._process: subprocess.Popen[bytes] | None = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.worker", self.name],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process

    def ask(self, what: str, limit: float, **question: Any) -> dict[str, Any]:
        """The answer, or {"error": ...}: over the limit (seconds), or died of it."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write((json.dumps({"ask": what, **question}) + "\n").encode())
            process.stdin.flush()
        except OSError:
            return {"error": f"died with exit code {process.wait()}"}
        if not select.select([process.stdout], [], [], limit)[0]:
            self.close()
            return {"error": f"no answer in {limit:g} s"}
        line = process.stdout.readline()
        if not line:
            self.close()
            return {"error": f"died with exit code {process.returncode}"}
        return dict(json.loads(line))

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None


class Pool:
    """Workers that stay warm between questions."""

    def __init__(self, names: list[str]) -> None:
        self.workers = {name: Worker(name) for name in names}

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exception: object) -> None:
        for worker in self.workers.values():
            worker.close()
