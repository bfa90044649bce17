"""dpbudget sigma, steps, rate, gaussian: what a target epsilon allows."""

from __future__ import annotations

from typing import Annotated

from dpbudget import checks, derive
from dpbudget.cli import shell
from dpbudget.cli.options import (
    DeltaOption,
    EngineOptions,
    EpsilonOption,
    OutputOptions,
    RunOptions,
    Text,
    _number,
    words,
)
from dpbudget.errors import InputError
from dpbudget.report import Report


@words(hide=("noise_multiplier", "noise_std", "noise_on", "history"))
def sigma(
    run: RunOptions, epsilon: EpsilonOption, delta: DeltaOption, engine: EngineOptions, output: OutputOptions
) -> None:
    """The least noise multiplier that meets a target epsilon.

    dpbudget sigma --epsilon 3 --delta 1e-5 --batch-size 256 --dataset-size 60000 --epochs 60
    """

    def build() -> Report:
        resolved = shell.run_of(run, unknown="noise_multiplier")
        target, at = shell.epsilon_of(epsilon.epsilon), shell.one_delta(delta, resolved)
        tolerance, digits = shell.tolerance_of(engine), shell.digits_of(output)
        from dpbudget.answers import inverse

        return inverse.sigma(resolved, target, at, accountant=engine.accountant, tolerance=tolerance, digits=digits)

    shell.answer(output, build)


@words(hide=("steps", "epochs", "history"))
def steps(
    run: RunOptions, epsilon: EpsilonOption, delta: DeltaOption, engine: EngineOptions, output: OutputOptions
) -> None:
    """The most steps that a target epsilon allows.

    dpbudget steps --epsilon 3 --delta 1e-5 --sigma 1.1 --sampling-rate 0.01
    """

    def build() -> Report:
        resolved = shell.run_of(run, unknown="steps")
        target, at = shell.epsilon_of(epsilon.epsilon), shell.one_delta(delta, resolved)
        tolerance = shell.tolerance_of(engine)
        from dpbudget.answers import inverse

        return inverse.steps(resolved, target, at, accountant=engine.accountant, tolerance=tolerance)

    shell.answer(output, build)


@words(hide=("sampling_rate", "batch_size", "epochs", "devices", "accumulate", "loader", "history"))
def rate(
    run: RunOptions, epsilon: EpsilonOption, delta: DeltaOption, engine: EngineOptions, output: OutputOptions
) -> None:
    """The largest sampling rate, or batch, that a target epsilon allows.

    The steps stay fixed. With --dataset-size the answer is a batch size too.

    dpbudget rate --epsilon 3 --delta 1e-5 --sigma 1.1 --steps 10000 --dataset-size 60000
    """

    def build() -> Report:
        resolved = shell.run_of(run, unknown="sampling_rate")
        target, at = shell.epsilon_of(epsilon.epsilon), shell.one_delta(delta, resolved)
        tolerance, digits = shell.tolerance_of(engine), shell.digits_of(output)
        from dpbudget.answers import inverse

        return inverse.rate(resolved, target, at, accountant=engine.accountant, tolerance=tolerance, digits=digits)

    shell.answer(output, build)


@words(epsilon="Epsilon, if it is given.", delta="Delta, if it is given.")
def gaussian(
    epsilon: EpsilonOption,
    delta: DeltaOption,
    output: OutputOptions,
    noise_multiplier: Annotated[
        Text, _number("--noise-multiplier", "--sigma", "-s", help="Noise / sensitivity.")
    ] = None,
    noise_std: Annotated[Text, _number("--noise-std", help="Noise standard deviation.")] = None,
    sensitivity: Annotated[
        Text, _number("--sensitivity", help="Largest L2 change between neighbours. Default 1.")
    ] = None,
) -> None:
    """One Gaussian release: epsilon, delta or noise from the other two.

    Exactly calibrated, with the classical formula beside it.

    dpbudget gaussian --epsilon 1 --delta 1e-5 --sensitivity 2  # the noise

    dpbudget gaussian --noise-std 4 --delta 1e-5  # epsilon
    """

    def build() -> Report:
        e = None if epsilon.epsilon is None else checks.epsilon(checks.number("epsilon", epsilon.epsilon))
        d = None if delta.delta is None else checks.delta(checks.number("delta", delta.delta))
        size = 1.0 if sensitivity is None else checks.positive("sensitivity", checks.number("sensitivity", sensitivity))
        if noise_multiplier is not None and noise_std is not None:
            raise InputError(
                "noise_std", "contradicts --noise-multiplier: both say the same thing", hint="Pass one of the two."
            )
        s = None
        if noise_multiplier is not None:
            s = checks.noise_multiplier(checks.number("noise_multiplier", noise_multiplier))
        elif noise_std is not None:
            s = derive.noise_multiplier(float(checks.number("noise_std", noise_std)), size)
        from dpbudget.answers import single

        return single.gaussian(
            epsilon=e, delta=d, noise_multiplier=s, sensitivity=size,
            given="noise_multiplier" if noise_multiplier is not None else "noise_std",
        )  # fmt: skip

    shell.answer(output, build)
