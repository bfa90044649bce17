"""python -m benchmarks: measure, or show what was measured. `make bench` sets the peers up first."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import cases, floors, measure, tables
from benchmarks.contenders import CONTENDERS, OPAKE, OURS, OURS_FINE, RIVAL
from benchmarks.goals import goals
from benchmarks.pool import ROOT

RESULTS = ROOT / ".venv-bench" / "results.json"
DOCUMENT = ROOT / "docs" / "benchmarks.md"
GROWING = [OURS, OURS_FINE, RIVAL, OPAKE, "dp-accounting RDP"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="timed repetitions of each question (5)")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one answer of a peer (60)")
    parser.add_argument("--solver-limit", type=float, default=120, help="seconds for one calibration of a peer (120)")
    parser.add_argument("--every", type=int, default=1, help="take every n-th case only, for a quick look")
    parser.add_argument("--slow-every", type=int, default=1, help="ask the slow peers every n-th of them only")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these contenders beside the two that goals compare")
    parser.add_argument("--sections", nargs="*", metavar="NAME", help="measure these anew, keep the last of the others")
    parser.add_argument("--render", action="store_true", help="measure nothing, show the last results again")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the raw results are kept, as JSON")
    parser.add_argument(
        "--output", type=Path, default=DOCUMENT, help="where the tables are written (docs/benchmarks.md)"
    )
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _sections(options: argparse.Namespace) -> dict[str, Callable[[], dict[str, Any]]]:
    names = [n for n in CONTENDERS if options.only is None or n.startswith(OURS) or n == RIVAL or n in options.only]
    known = [*cases.golden(), *cases.brackets()][:: options.every]
    rounds, limit = options.rounds, options.limit
    return {
        "processes": lambda: measure.processes(rounds + 2, _say),
        "epsilon": lambda: measure.epsilons([*known, *cases.hard()], names, rounds, limit, _say, options.slow_every),
        "solvers": lambda: measure.solvers(rounds, options.solver_limit, _say),
        "floors": lambda: floors.measure(rounds, _say),
        "growth": lambda: measure.growth([n for n in GROWING if n in names], rounds, limit, _say),
    }


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures section by section and keeps each as soon as it is there."""
    results: dict[str, Any] = {}
    if options.sections is not None and options.results.exists():
        results = json.loads(options.results.read_text())
    options.results.parent.mkdir(parents=True, exist_ok=True)
    results["machine"] = measure.machine()
    results["arguments"] = sys.argv[1:]
    results["versions"] = measure.versions(list(CONTENDERS))
    for section, measured in _sections(options).items():
        if options.sections is None or section in options.sections:
            results[section] = measured()
            results["load_end"] = measure.machine()["load"]
            options.results.write_text(json.dumps(results, indent=1))
    return results


def main() -> None:
    options = arguments()
    if options.render:
        results = json.loads(options.results.read_text())
    else:
        results = run(options)
    options.output.write_text(tables.document(results))
    print(tables.document(results))
    missed = [goal for goal in goals([*cases.golden(), *cases.brackets()], results) if goal.met is not True]
    for goal in missed:
        _say(f"{'missed' if goal.met is False else 'not measured'}: {goal.what}: {goal.found}")


if __name__ == "__main__":
    main()
