"""dpbudget tune: what a hyper-parameter search costs."""

from __future__ import annotations

from typing import Annotated

import typer

from dpbudget import checks
from dpbudget.accounting.accountants import ACCOUNTANTS
from dpbudget.cli import shell
from dpbudget.cli.options import (
    DeltaOption,
    EpsilonOption,
    GateOption,
    OneEngineOptions,
    OutputOptions,
    RunOptions,
    Text,
    _number,
    words,
)
from dpbudget.errors import InputError
from dpbudget.report import Report

LAWS = ("poisson", "geometric", "negative-binomial", "logarithmic", "binomial", "fixed")


@words(
    epsilon="The epsilon to meet: solves for the noise or the trials.",
    accountant=f"Of one run alone: {', '.join(ACCOUNTANTS)}. The bounds on the search are theorems of their own.",
)
def tune(
    run: RunOptions,
    delta: DeltaOption,
    epsilon: EpsilonOption,
    gate: GateOption,
    engine: OneEngineOptions,
    output: OutputOptions,
    trials: Annotated[
        Text, _number("--trials", "-k", help="Expected number of trials; exact with --law fixed.")
    ] = None,
    law: Annotated[
        str,
        typer.Option(
            "--law",
            metavar="poisson|geometric|negative-binomial|logarithmic|binomial|fixed",
            help="How the number of trials is drawn.",
        ),
    ] = "geometric",
    eta: Annotated[Text, _number("--eta", help="Shape of --law negative-binomial, above -1.")] = None,
    most_trials: Annotated[
        Text, _number("--most-trials", help="n of --law binomial: the number can't exceed it.")
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="The search looked at public data only.")] = False,
) -> None:
    """What it costs to release the best of several runs.

    Each run is as described. With --epsilon: the noise that one run needs (without --sigma), or the trials that fit
    (without --trials).

    dpbudget tune --sigma 2 -q 0.01 -t 1000 -d 1e-5 --trials 10 --law geometric
    """

    def build() -> Report:
        drawn = checks.choice("law", law, LAWS)
        target = None if epsilon.epsilon is None else shell.epsilon_of(epsilon.epsilon)
        noiseless = run.noise_multiplier is None and run.noise_std is None and run.history is None
        resolved = shell.run_of(run, unknown="noise_multiplier" if noiseless and target is not None else "")
        at = shell.one_delta(delta, resolved)
        count = None
        if trials is not None:
            count = checks.positive("trials", checks.number("trials", trials))
        if count is None and (target is None or noiseless):
            raise InputError(
                "trials", "is missing", hint="Pass --trials K, or --epsilon E with --sigma to solve for it."
            )
        if count is not None and target is not None and not noiseless:
            raise InputError(
                "epsilon", "leaves nothing to solve for: noise and trials are given", hint="Use --max-epsilon."
            )
        shape = None if eta is None else float(checks.number("eta", eta))
        if drawn == "negative-binomial" and shape is None:
            raise InputError("eta", "is missing", hint="Pass --eta 0.5, for example; 1 is geometric, 0 logarithmic.")
        most = None if most_trials is None else checks.whole("most_trials", checks.number("most_trials", most_trials))
        limit = None
        if gate.max_epsilon is not None:
            limit = checks.epsilon(checks.number("max_epsilon", gate.max_epsilon), "max_epsilon")
        name = shell.accountant_of(engine)
        tolerance, digits = shell.tolerance_of(engine), shell.digits_of(output)
        from dpbudget.answers import tuning

        return tuning.report(
            resolved, at, law=drawn, trials=count, eta=shape, most_trials=most, epsilon=target, public=public,
            accountant=name, tolerance=tolerance, digits=digits, max_epsilon=limit,
        )  # fmt: skip

    shell.answer(output, build)
