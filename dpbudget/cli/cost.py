"""dpbudget epsilon, delta, explain: what a run costs."""

from __future__ import annotations

import dataclasses

from dpbudget import checks
from dpbudget.cli import shell
from dpbudget.cli.options import (
    AdaptiveOption,
    DeltaOption,
    EngineOptions,
    EpsilonOption,
    GateOption,
    OutputOptions,
    PlotOption,
    RunOptions,
    words,
)
from dpbudget.errors import InputError
from dpbudget.report import Report

LIST = "Failure probability, or a list a,b,c; default 1/n^1.1 where n is known."


@words(delta=LIST)
def epsilon(
    run: RunOptions,
    delta: DeltaOption,
    gate: GateOption,
    adaptive: AdaptiveOption,
    engine: EngineOptions,
    plot: PlotOption,
    output: OutputOptions,
) -> None:
    """What a training run costs: epsilon at a delta.

    dpbudget epsilon --sigma 1.1 --batch-size 256 --dataset-size 60000 --epochs 60 --delta 1e-5

    dpbudget epsilon --sigma 1.1 -q 0.01 -t 10000 -d 1e-5 --max-epsilon 6  # a gate: exit 3 when it costs more
    """

    def build() -> Report:
        resolved = shell.run_of(run)
        deltas = shell.deltas_of(delta, resolved)
        limit = None
        if gate.max_epsilon is not None:
            limit = checks.epsilon(checks.number("max_epsilon", gate.max_epsilon), "max_epsilon")
        tolerance = shell.tolerance_of(engine)
        if adaptive.adaptive and limit is None:
            raise InputError(
                "adaptive",
                "needs the budget that the filter stops at, fixed beforehand",
                hint="Pass --max-epsilon E, or keep a budget file with adaptive = true.",
            )
        from dpbudget.answers import cost

        if adaptive.adaptive and limit is not None:
            return cost.filtered(resolved, shell.one_delta(delta, resolved), limit)
        report = cost.epsilon(resolved, deltas, accountant=engine.accountant, tolerance=tolerance, max_epsilon=limit)
        if plot.plot is not None or (output.explain and shell.format_of(output) == "text"):
            from dpbudget.answers import pictures

            report.picture = pictures.over_steps(resolved, deltas[0])
        return report

    shell.answer(output, build, plot=plot.plot)


@words(delta=LIST)
def explain(
    run: RunOptions,
    delta: DeltaOption,
    gate: GateOption,
    adaptive: AdaptiveOption,
    engine: EngineOptions,
    plot: PlotOption,
    output: OutputOptions,
) -> None:
    """The same as epsilon --explain: the number and where it comes from.

    What each parameter does, and how epsilon grows over the steps, in words and a picture.

    dpbudget explain --sigma 1.1 --sampling-rate 0.01 --steps 1000 --delta 1e-5
    """
    epsilon(run, delta, gate, adaptive, engine, plot, dataclasses.replace(output, explain=True))


@words(epsilon="Epsilon at which delta is asked for, or a list a,b,c.")
def delta(run: RunOptions, epsilon: EpsilonOption, engine: EngineOptions, output: OutputOptions) -> None:
    """What a training run costs: delta at an epsilon.

    dpbudget delta --sigma 1.1 --sampling-rate 0.01 --steps 1000 --epsilon 2
    """

    def build() -> Report:
        resolved = shell.run_of(run)
        texts = (epsilon.epsilon or "").split(",")
        epsilons = [shell.epsilon_of(text or None) for text in texts]
        tolerance = shell.tolerance_of(engine)
        from dpbudget.answers import cost

        return cost.delta(resolved, epsilons, accountant=engine.accountant, tolerance=tolerance)

    shell.answer(output, build)
