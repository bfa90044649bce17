"""The goals that dpbudget set itself, computed from the measurements: met or missed, with the worst number."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.cases import Case
from benchmarks.contenders import OURS, OURS_COARSE, OURS_FINE, RIVAL

Result = dict[str, Any]
TOLERANCES = {OURS_COARSE: 1e-4, OURS: 1e-5, OURS_FINE: 1e-7}


@dataclass(frozen=True)
class Goal:
    what: str
    found: str
    met: bool | None  # None: could not be measured


def upper(answer: Result) -> float:
    """What a contender lets its user rely on; its estimate where it has no upper end; inf where it fails."""
    if "value" not in answer:
        return math.inf
    _, estimate, high = answer["value"]
    number = high if high is not None else estimate
    return math.inf if number is None or math.isnan(number) else float(number)


def _finite(row: Result) -> bool:
    return RIVAL in row and math.isfinite(upper(row[RIVAL]))


def _worst(what: str, values: dict[str, float], most: float, unit: str = "") -> Goal:
    """Met where every value is at most `most`."""
    if not values:
        return Goal(what, "not measured", None)
    name = max(values, key=lambda key: values[key])
    above = sum(not value <= most for value in values.values())
    count = f"{len(values) - above} of {len(values)}"
    return Goal(what, f"{count}; worst {values[name]:.3g}{unit} ({name})", not above)


def _tightness(cases: Sequence[Case], epsilon: Result) -> list[Goal]:
    rows = [epsilon[case.name] for case in cases if case.name in epsilon and _finite(epsilon[case.name])]
    names = [case.name for case in cases if case.name in epsilon and _finite(epsilon[case.name])]
    goals = []
    for ours, slack, text in (
        (OURS, 1e-5, "default tolerance, at most its answer x (1 + 1e-5)"),
        (OURS_FINE, 0.0, "tolerance 1e-7, at most its answer"),
    ):
        excess = {name: upper(row[ours]) / upper(row[RIVAL]) - 1 for name, row in zip(names, rows, strict=True)}
        goals.append(_worst(f"upper end against {RIVAL}: {text}", excess, slack))
    return goals


def _speed(cases: Sequence[Case], epsilon: Result, clock: str) -> list[Goal]:
    rows = {case.name: epsilon[case.name] for case in cases if case.name in epsilon}

    def ratios(ours: str) -> dict[str, float]:
        """Where we have no answer and the rival has, the ratio is infinite."""
        return {
            name: row[ours].get(clock, math.inf) / row[RIVAL][clock]
            for name, row in rows.items()
            if _finite(row) and ours in row
        }

    def median(what: str, ours: str, most: float) -> Goal:
        values = ratios(ours)
        if not values:
            return Goal(what, "not measured", None)
        middle = statistics.median(values.values())
        return Goal(what, f"{middle:.3g}", middle <= most)

    label = {"wall": "time", "cpu": "processor time"}[clock]
    return [
        _worst(f"{label} over {RIVAL}'s: below 1 on every row", ratios(OURS), 1.0),
        median(f"{label} over {RIVAL}'s: at most 0.2 at the median", OURS, 0.2),
        median(f"{label} over {RIVAL}'s at tolerance 1e-4: at most 0.1 at the median", OURS_COARSE, 0.1),
    ]


def _soundness(cases: Sequence[Case], epsilon: Result) -> list[Goal]:
    goals = []
    for ours, tolerance in TOLERANCES.items():
        rows = {c.name: (c, epsilon[c.name][ours]) for c in cases if ours in epsilon.get(c.name, {})}
        ends = {name: (case, answer["value"]) for name, (case, answer) in rows.items() if "value" in answer}
        wrong = [name for name, (case, (low, _, high)) in ends.items() if low > case.high or high < case.low]
        said = f"{len(ends) - len(wrong)} of {len(rows)}"
        goals.append(
            Goal(f"interval at {tolerance:g} meets the known one", said, not wrong and len(ends) == len(rows) > 0)
        )
        widths = {name: (high - low) / high if high else 0.0 for name, (_, (low, _, high)) in ends.items()}
        goals.append(_worst(f"relative width at {tolerance:g}: at most the tolerance", widths, tolerance))
    off = {}
    for case in cases:
        answer = epsilon.get(case.name, {}).get(OURS, {})
        if case.exact and "value" in answer:
            estimate = answer["value"][1]
            distance = math.inf if estimate is None else max(0.0, case.low - estimate, estimate - case.high)
            off[case.name] = distance / case.high
    goals.append(_worst("estimate against golden.csv, beyond half a unit of its last decimal: at most 1e-8", off, 1e-8))
    return goals


def _growth(growth: Result) -> list[Goal]:
    goals = []
    for title, series in growth.items():
        times = {name.split()[-1]: row[OURS]["wall"] for name, row in series.items() if "wall" in row.get(OURS, {})}
        what = f"time at 1e8 steps over that at 1e4, {title}: at most 3"
        if not {"1e+04", "1e+08"} <= times.keys():
            goals.append(Goal(what, "not measured", None))
        else:
            ratio = times["1e+08"] / times["1e+04"]
            goals.append(Goal(what, f"{ratio:.3g}", ratio <= 3))
    return goals


def sections(results: Result) -> list[Result]:
    """Everything measured that is {case: {contender: answer}}."""
    return [results.get("epsilon", {}), *results.get("growth", {}).values()]


def _memory(results: Result) -> list[Goal]:
    peaks = {
        f"{case}, {name}": answer["megabytes"]
        for section in sections(results)
        for case, row in section.items()
        for name, answer in row.items()
        if name in TOLERANCES and answer.get("megabytes") is not None
    }
    return [_worst("largest resident size of the process: at most 500 MB", peaks, 500.0, " MB")]


def speedups(solvers: Result) -> dict[str, tuple[bool, float]]:
    """{target: (whether the rival was stopped at the limit, so that the ratio is at least this; ratio of times)}."""
    found = {}
    for target, row in solvers.items():
        ours, theirs = row.get(OURS, {}), row.get(RIVAL, {})
        if "wall" in ours and "wall" in theirs:
            found[target] = False, theirs["wall"] / ours["wall"]
        elif "wall" in ours and str(theirs.get("error")).startswith("no answer in"):
            found[target] = True, float(theirs["error"].split()[3]) / ours["wall"]
    return found


def _solvers(solvers: Result) -> list[Goal]:
    what = f"solving for sigma: at least 20 times faster than {RIVAL}'s calibration, every target"
    ratios = [ratio for _, ratio in speedups(solvers).values()]
    if not ratios:
        return [Goal(what, "not measured", None)]
    found = f"least {min(ratios):.3g}, median {statistics.median(ratios):.3g} times"
    return [Goal(what, found, min(ratios) >= 20)]


def _processes(processes: Result) -> list[Goal]:
    what = "`dpbudget epsilon` as a process: less time than `import dp_accounting`"
    ours, theirs = processes.get("dpbudget epsilon", {}), processes.get("import dp_accounting", {})
    if "wall" not in ours or "wall" not in theirs:
        return [Goal(what, "not measured", None)]
    return [Goal(what, f"{ours['wall']:.3g} s against {theirs['wall']:.3g} s", ours["wall"] < theirs["wall"])]


FLOORS = {"privacy losses": 2.0, "DP-SGD": 3.0}


def _floors(floors: Result) -> list[Goal]:
    found = []
    for what, most in FLOORS.items():
        ratios = {name: job["ours"] / job["bare"] for name, job in floors.items() if name.startswith(what)}
        found.append(_worst(f"{what}: processor time over the unavoidable, at most {most:g}", ratios, most))
    return found


def goals(cases: Sequence[Case], results: Result) -> list[Goal]:
    return [
        *_soundness(cases, results.get("epsilon", {})),
        *_tightness(cases, results.get("epsilon", {})),
        *_speed(cases, results.get("epsilon", {}), "wall"),
        *_speed(cases, results.get("epsilon", {}), "cpu"),
        *_solvers(results.get("solvers", {})),
        *_growth(results.get("growth", {})),
        *_memory(results),
        *_processes(results.get("processes", {})),
        *_floors(results.get("floors", {})),
    ]
