"""Measurements in, docs/benchmarks.md out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks import cases
from benchmarks.cases import Case
from benchmarks.contenders import CONTENDERS, OURS, RIVAL
from benchmarks.goals import Goal, goals, sections, speedups, upper

Result = dict[str, Any]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def seconds(value: float) -> str:
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"


def cell(answer: Result, show: str) -> str:
    return "" if not answer else failed(answer) if "error" in answer else show


def failed(answer: Result) -> str:
    error = str(answer["error"])
    if answer.get("missing"):
        return "missing"
    return error if error.startswith(("no answer", "died")) else f"refuses ({error.split(':')[0]})"


def excess(case: Case, value: float) -> float:
    """Relative distance above the known interval, negative below it, 0 inside."""
    if value > case.high:
        return value / case.high - 1
    return value / case.low - 1 if value < case.low else 0.0


def _summary(known: Sequence[Case], epsilon: Result) -> str:
    rows = []
    for name, contender in CONTENDERS.items():
        answers = {case: epsilon[case.name][name] for case in known if name in epsilon.get(case.name, {})}
        if not answers:
            continue
        ends = {case: upper(answer) for case, answer in answers.items() if math.isfinite(upper(answer))}
        below = sum(excess(case, end) < 0 for case, end in ends.items())
        above = [excess(case, end) for case, end in ends.items() if case.exact and excess(case, end) >= 0]
        times = [answers[case]["wall"] for case in ends]
        ratios = [
            answers[case]["wall"] / epsilon[case.name][RIVAL]["wall"]
            for case in ends
            if math.isfinite(upper(epsilon[case.name].get(RIVAL, {})))
        ]
        rows.append(
            [
                name,
                contender.gives,
                f"{len(ends)} of {len(answers)}",
                str(below),
                f"{statistics.median(above):.1e}" if above else "",
                f"{max(above):.1e}" if above else "",
                seconds(statistics.median(times)) if times else failed(next(iter(answers.values()))),
                f"{statistics.median(ratios):.3g}" if ratios else "",
            ]
        )
    head = ["accountant", "answer", "finite", "below the truth", "excess, median", "excess, worst", "time, median"]
    return table([*head, f"time / {RIVAL}"], rows)


def _goals(found: Sequence[Goal]) -> str:
    words = {True: "met", False: "**missed**", None: "not measured"}
    return table(["goal", "measured", ""], [[goal.what, goal.found, words[goal.met]] for goal in found])


def _shown(case: Case, answer: Result, column: str) -> str:
    if column == "time":
        return cell(answer, seconds(answer.get("wall", 0.0)))
    end = upper(answer)
    if column == "epsilon" or not math.isfinite(end):
        return cell(answer, f"{end:.9g}")
    above = excess(case, end)
    return cell(answer, f"{above:.1e}" if above else "0")


def _numbers(questions: Sequence[Case], epsilon: Result, names: Sequence[str], column: str) -> str:
    """column: "excess", "epsilon" or "time"; the excess stands beside the truth that it is measured from."""
    rows = []
    for case in questions:
        if case.name not in epsilon:  # a quick look at every n-th case
            continue
        row = epsilon[case.name]
        truth = f"{(case.low + case.high) / 2:.9f}" if case.exact else f"{case.low:.6g} .. {case.high:.6g}"
        cells = [_shown(case, row.get(name, {}), column) for name in names]
        rows.append([case.label, *([truth] if column == "excess" else []), *cells])
    return table(["sigma / q / steps / delta", *(["truth"] if column == "excess" else []), *names], rows)


def _growth(growth: Result) -> str:
    parts = []
    for title, series in cases.growth().items():
        rows = []
        for case in series:
            row = growth.get(title, {}).get(case.name, {})
            shown = [cell(a, f"{upper(a):.6g}, {seconds(a.get('wall', 0.0))}") for a in row.values()]
            rows.append([f"{case.steps:.0e}", f"{case.rate:.3g}", *shown])
        names = list(next(iter(growth.get(title, {"": {}}).values())))
        parts.append(f"Sigma 2, delta 1e-6, {title}:\n\n" + table(["steps", "q", *names], rows))
    return "\n".join(parts)


def _memory(results: Result) -> str:
    every = [
        *cases.golden(),
        *cases.brackets(),
        *cases.hard(),
        *(case for row in cases.growth().values() for case in row),
    ]
    rows = []
    for name in CONTENDERS:
        answers = [(case, row.get(case.name, {}).get(name)) for row in sections(results) for case in every]
        peaks = {c.label: a["megabytes"] for c, a in answers if a is not None and a.get("megabytes") is not None}
        if peaks:
            worst = max(peaks, key=lambda label: peaks[label])
            rows.append([name, f"{statistics.median(peaks.values()):.0f} MB", f"{peaks[worst]:.0f} MB", worst])
    return table(["accountant", "median", "largest", "at sigma / q / steps / delta"], rows)


def _solvers(solvers: Result) -> str:
    names = list(next(iter(solvers.values()), {}))
    ratios = speedups(solvers)
    rows = []
    for target, row in solvers.items():
        shown = [
            cell(row[name], f"{row[name].get('value', 0.0):.7g}, {seconds(row[name].get('wall', 0.0))}")
            for name in names
        ]
        at_least, ratio = ratios.get(target, (False, 0.0))
        rows.append([target, *shown, f"{'at least ' if at_least else ''}{ratio:.3g}" if ratio else ""])
    return table(["target", *names, f"{RIVAL} / {OURS}"], rows)


def _processes(processes: Result) -> str:
    rows = [[f"`{name}`", cell(answer, seconds(answer.get("wall", 0.0)))] for name, answer in processes.items()]
    return table(["process", "time, median"], rows)


def _floors(floors: Result) -> str:
    rows = [
        [name, seconds(job["ours"]), seconds(job["bare"]), f"{job['ours'] / job['bare']:.3g}"]
        for name, job in floors.items()
    ]
    return table(["simulation", "dpbudget", "unavoidable", "ratio"], rows)


def _versions(versions: Result) -> str:
    rows = []
    for name, contender in CONTENDERS.items():
        answer = versions.get(name, {"error": "not asked"})
        number = "missing" if "error" in answer else answer["value"]
        rows.append([name, contender.package, number, contender.setting])
    return table(["accountant", "package", "version", "setting"], rows)


def _refusals(every: Sequence[Case], results: Result) -> str:
    """Everything that was not answered, word for word: nothing is hidden behind a short cell."""
    groups: dict[tuple[str, str], list[str]] = {}
    for case in every:
        for name, answer in results.get("epsilon", {}).get(case.name, {}).items():
            if "error" in answer:
                groups.setdefault((name, str(answer["error"])[:160]), []).append(case.label)
    rows = [[name, error, "; ".join(labels)] for (name, error), labels in groups.items()]
    return table(["accountant", "what it said", "sigma / q / steps / delta"], rows) if rows else "Everybody answered.\n"


def document(results: Result) -> str:
    chosen = " ".join(results["arguments"])
    command = f"sh benchmarks/run.sh {chosen}" if chosen else "make bench"
    golden, brackets, hard = cases.golden(), cases.brackets(), cases.hard()
    known, epsilon, machine = [*golden, *brackets], results.get("epsilon", {}), results["machine"]
    names = [name for name in CONTENDERS if any(name in row for row in epsilon.values())]
    load = machine.get("load")
    busy = f"; load average {load[0]:.1f} at the start, {results['load_end'][0]:.1f} at the end" if load else ""
    libraries = results["versions"]
    return f"""# Benchmarks

Measured on {machine["date"]} with `{command}`:
{machine["cores"]} cores, {machine["system"]}, Python {machine["python"]}, NumPy {libraries["numpy"]["value"]}, \
SciPy {libraries["scipy"]["value"]}{busy}.
In every section everybody is asked in turn, the same questions, warm and in process; times are medians. Times vary with
the machine: read the ratios. `make bench` measures everything; `--slow-every N` asks the PRV accountants every N-th
question only, which leaves cells empty.

## Summary

Epsilon of Poisson-sampled Gaussian steps, add-or-remove-one, on the {len(known)} questions of `tests/data/golden.csv` and
`tests/data/brackets.json`. *Below the truth* counts answers that are too small. *Excess* is how far the answer lies above
the truth, relative, where the truth is known to nine decimals (`golden.csv`; 0 means within half a unit of the last one).

{_summary(known, epsilon)}
An accountant that gives an interval is judged by its upper end, which is what a user may rely on.

## Goals

{_goals(goals(known, results))}
Comparisons with {RIVAL} take the rows where its answer is finite. Processor time stands beside time
since it suffers less from other work on the machine.

## Who was measured

{_versions(libraries)}
`python -m benchmarks.profile SIGMA Q STEPS DELTA` shows where the time of one question goes.

## Answers above the truth, golden.csv

Relative excess of the upper end; negative is an answer below the truth.

{_numbers(golden, epsilon, names, "excess")}
## Time, golden.csv

{_numbers(golden, epsilon, names, "time")}
## Answers above the bracket, brackets.json

Relative to the upper end of the bracket; 0 is inside of it. The brackets are up to 2e-2 wide.

{_numbers(brackets, epsilon, names, "excess")}
## Time, brackets.json

{_numbers(brackets, epsilon, names, "time")}
## Hard cases

{_numbers(hard, epsilon, names, "epsilon")}
{_numbers(hard, epsilon, names, "time")}
## Growth with the number of steps

{_growth(results.get("growth", {}))}
## Memory

Largest resident size of the contender's process while it answers one question, over all questions above that it answers;
an interpreter with NumPy and SciPy alone takes most of the median.

{_memory(results)}
## Solving for the noise

The noise multiplier that meets a target: dpbudget proves the least decimal of seven digits; dp-accounting's
`calibrate_dp_mechanism` stops at 1e-6; Opacus' `get_noise_multiplier` at an epsilon within 0.01.

{_solvers(results.get("solvers", {}))}
## Processes

{_processes(results.get("processes", {}))}
The command reports two accountants, `pld` and `rdp`, unless told otherwise.

## Simulations

Processor time over that of the random numbers, exponentials and matrix products alone, which no simulation can avoid.

{_floors(results.get("floors", {}))}
## Not answered

{_refusals([*known, *hard], results)}"""
