"""dpbudget risk: what a budget means for an attacker."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from dpbudget import checks, derive
from dpbudget.cli import shell
from dpbudget.cli.options import DeltaOption, OutputOptions, PlotOption, RunOptions, Text, _number
from dpbudget.errors import InputError
from dpbudget.model import Sampling
from dpbudget.report import Report
from dpbudget.run import Run

MOST_FPRS = 20
BESIDE = ("dataset_size", "unit")  # what may stand beside a guarantee that is not a run's


def risk(
    run: RunOptions,
    delta: DeltaOption,
    plot: PlotOption,
    output: OutputOptions,
    epsilon: Annotated[
        Text, _number("--epsilon", "-e", help="Instead of a run: what (epsilon, delta) alone says.")
    ] = None,
    fpr: Annotated[Text, _number("--fpr", help="False-positive rates: a list a,b,c. Default 0.001,0.01.")] = None,
    prior: Annotated[
        Text, _number("--prior", help="Belief before the output that the record took part. Default 0.5.")
    ] = (None),
    failure: Annotated[
        Text, _number("--failure", help="Share of outputs that the posterior may exceed. Default: delta.")
    ] = None,
    reconstruction_baseline: Annotated[
        Text,
        _number("--reconstruction-baseline", help="Chance to reconstruct a record without the output. Default 0.1."),
    ] = None,
    floor: Annotated[
        Text, _number("--floor", help="delta above which the Gaussian mu has to hold. Default 1e-5.")
    ] = None,
    target_advantage: Annotated[
        Text, _number("--target-advantage", help="Solve for the one of noise, steps, rate that is left out.")
    ] = None,
    target_tpr: Annotated[Text, _number("--target-tpr", help="The same, for a TPR at --at-fpr.")] = None,
    at_fpr: Annotated[Text, _number("--at-fpr", help="The FPR at which --target-tpr has to hold.")] = None,
) -> None:
    """What epsilon means: the best attacker's chances.

    From the run's whole loss distribution, or from (epsilon, delta) alone. With a target it solves for the one of noise,
    steps and rate that is left out.

    dpbudget risk --sigma 1 -q 0.01 -t 1000 -d 1e-5

    dpbudget risk --epsilon 3 -d 1e-5  # without a run

    dpbudget risk -q 0.01 -t 1000 -d 1e-5 --target-advantage 0.1  # the noise
    """

    def build() -> Report:
        odds, least = share("prior", prior, 0.5), share("floor", floor, 1e-5)
        blind = share("reconstruction_baseline", reconstruction_baseline, 0.1)
        rare = None if failure is None else share("failure", failure)
        fprs = _fprs(fpr)
        target = _target(target_advantage, target_tpr, at_fpr)
        unknown = "" if target is None or epsilon is not None else _unknown(run, target[0])
        resolved = None
        if epsilon is not None:
            _alone(run, target)
            at = _delta(run, delta)
        else:
            resolved = shell.run_of(run, unknown=unknown)
            at = shell.one_delta(delta, resolved)
        digits = shell.digits_of(output)
        from dpbudget.answers import risk as answers

        asked = answers.Asked(at, fprs, odds, rare or at, blind, least)
        if resolved is None:
            return answers.alone(shell.epsilon_of(epsilon), asked, run.unit)
        if target is None:
            return answers.report(resolved, asked)
        return answers.solve(resolved, asked, unknown, target, digits=digits)

    shell.answer(output, build, plot=plot.plot)


def share(parameter: str, text: Text, default: float = 0.5) -> float:
    """A number strictly between 0 and 1."""
    if text is None:
        return default
    value = checks.real(parameter, checks.number(parameter, text))
    if not 0 < value < 1:
        raise InputError(parameter, f"{value:g} is not in (0, 1)", hint="Give a share, such as 0.01.")
    return value


def _fprs(text: Text) -> list[float]:
    parts = (text or "0.001,0.01").split(",")
    if len(parts) > MOST_FPRS:
        raise InputError("fpr", f"lists {len(parts)} rates; {MOST_FPRS} are the most")
    return list(dict.fromkeys(share("fpr", part) for part in parts))


def _target(advantage: Text, tpr: Text, fpr: Text) -> tuple[str, float, float | None] | None:
    """(quantity, value, FPR) to be met, or None."""
    if advantage is not None and tpr is not None:
        raise InputError("target_advantage", "contradicts --target-tpr", hint="Pass one of the two.")
    if (tpr is None) != (fpr is None):
        missing, other = ("target_tpr", "--at-fpr") if tpr is None else ("at_fpr", "--target-tpr")
        raise InputError(missing, f"is missing: it goes with {other}", hint="Pass --target-tpr T --at-fpr F.")
    if advantage is not None:
        return "advantage", share("target_advantage", advantage), None
    if tpr is None:
        return None
    value, at = share("target_tpr", tpr), share("at_fpr", fpr)
    if not value > at:
        raise InputError(
            "target_tpr", f"{value:g} is not above the FPR {at:g}, which a coin reaches", hint="Aim for a larger TPR."
        )
    return "tpr", value, at


def _unknown(run: RunOptions, quantity: str) -> str:
    """The one of noise, steps and rate that is left out."""
    given = {
        "noise_multiplier": run.noise_multiplier or run.noise_std,
        "steps": run.steps or run.epochs,
        "sampling_rate": run.sampling_rate or run.batch_size or (run.sampling == Sampling.FULL_BATCH or None),
    }
    missing = [name for name, value in given.items() if value is None]
    if run.history is not None or not missing:
        raise InputError(
            f"target_{quantity}", "leaves nothing to solve for: noise, rate and steps are given",
            hint="Drop one of --sigma, --steps and --sampling-rate.",
        )  # fmt: skip
    if len(missing) > 1:
        raise InputError(
            missing[1],
            f"is missing as well as {shell.option(missing[0])}",
            hint="Only one of the two can be solved for.",
        )
    return missing[0]


def _alone(run: RunOptions, target: object) -> None:
    """Nothing may describe a run beside --epsilon."""
    if target is not None:
        raise InputError("epsilon", "has no noise to solve for", hint="Describe a run: --sampling-rate Q --steps T.")
    for field in dataclasses.fields(RunOptions):
        if field.name not in BESIDE and getattr(run, field.name) != field.default:
            raise InputError(
                "epsilon", f"stands for a guarantee without a run, and {shell.option(field.name)} describes one",
                hint="Drop one of the two; dpbudget sigma --epsilon E finds the noise.",
            )  # fmt: skip


def _delta(run: RunOptions, delta: DeltaOption) -> float:
    size = None if run.dataset_size is None else checks.records("dataset_size", run.dataset_size)
    if delta.delta is None and size is not None:
        return derive.default_delta(size)
    return shell.one_delta(delta, Run())
