"""dpbudget verify: a check that does not trust the accountant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from dpbudget import checks, derive
from dpbudget.cli import shell
from dpbudget.cli.options import DeltaOption, OutputOptions, RunOptions, Text, _number
from dpbudget.cli.progress import bar
from dpbudget.cli.risk import share
from dpbudget.errors import InputError
from dpbudget.report import Report
from dpbudget.run import Run

DESCRIBES = ("noise_multiplier", "noise_std", "history", "sampling_rate", "batch_size", "steps", "epochs")
ATTACKS = ("canary", "empirical", "scores")
BATCHES = ("drawn", "position")


@dataclass(frozen=True)
class SampleOptions:
    """How much is drawn, and how sure the answer has to be."""

    samples: Annotated[
        Text, _number("--samples", help="Privacy losses to draw. Default 20000, fewer for long runs.")
    ] = None
    precision: Annotated[
        Text, _number("--precision", help="Wanted half-width of the interval over delta, instead of --samples.")
    ] = None
    confidence: Annotated[Text, _number("--confidence", help="Of the whole answer. Default 0.99.")] = None
    seed: Annotated[Text, _number("--seed", help="Seed of everything random. Default 0.")] = None
    plain: Annotated[
        bool, typer.Option("--plain", help="Sample the losses as they are, not tilted: of use down to 1 / samples.")
    ] = False


@dataclass(frozen=True)
class AttackOptions:
    """The attacker's side."""

    canary: Annotated[
        Text, _number("--canary", help="Attack this many simulated runs, half of them with a worst-case record.")
    ] = None
    batches: Annotated[
        Text,
        typer.Option(
            "--batches", metavar="drawn|position", help="How --canary joins batches; by position breaks Poisson."
        ),
    ] = None
    empirical: Annotated[
        Text, typer.Option("--empirical", metavar="TP,FP,TN,FN", help="Counts of your own attack.")
    ] = None
    scores: Annotated[
        Text, typer.Option("--scores", metavar="FILE.csv", help="Scores of your own attack: columns world, score.")
    ] = None
    threshold: Annotated[
        Text, _number("--threshold", help="Score above which a run is called a member; else held-out runs choose it.")
    ] = None


def verify(
    run: RunOptions,
    delta: DeltaOption,
    sample: SampleOptions,
    attack: AttackOptions,
    output: OutputOptions,
    epsilon: Annotated[Text, _number("--epsilon", "-e", help="Epsilon at which delta is checked.")] = None,
    claim: Annotated[Text, typer.Option("--claim", metavar="EPS,DELTA", help="A published guarantee to check.")] = None,
) -> None:
    """Check a guarantee without the accountant: sample, or attack.

    It draws privacy losses, or attacks simulated runs, and shares no code with the accountant.

    dpbudget verify --sigma 1 -q 0.01 -t 1000 -d 1e-5

    dpbudget verify --sigma 1 -q 0.01 -t 1000 --claim 1.9,1e-5  # a published claim

    dpbudget verify --empirical 100,0,100,0 -d 1e-5  # an attack of your own
    """

    def build() -> Report:
        chosen = _attack(attack)
        claimed = None if claim is None else _claim(claim)
        if claimed is not None and (epsilon is not None or delta.delta is not None):
            raise InputError("claim", "already names epsilon and delta", hint="Drop --epsilon and --delta.")
        if epsilon is not None and delta.delta is not None:
            raise InputError("epsilon", "and --delta together are a claim", hint="Pass --claim EPS,DELTA.")
        sure = share("confidence", sample.confidence, 0.99)
        seed = 0 if sample.seed is None else checks.whole("seed", checks.number("seed", sample.seed), least=0)
        from dpbudget.answers import verify_attack, verify_sampling

        if not chosen:
            resolved = shell.run_of(run)
            at = None if epsilon is None else shell.epsilon_of(epsilon)
            d = None if claimed or at is not None else shell.one_delta(delta, resolved)
            samples, precision = _size(sample)
            draw = verify_sampling.Draw(samples, precision, sure, seed, not sample.plain)
            with bar("privacy losses", hidden=output.quiet) as progress:
                return verify_sampling.sampled(resolved, draw, epsilon=at, delta=d, claim=claimed, progress=progress)
        if epsilon is not None:
            raise InputError("epsilon", "is no argument of an attack", hint="Pass --delta D, or --claim EPS,DELTA.")
        for name in ("samples", "precision", "plain"):
            if getattr(sample, name):
                raise InputError(name, f"belongs to sampling, not to --{chosen}", hint="Drop one of the two.")
        described = any(getattr(run, name) is not None for name in DESCRIBES)
        attacked = shell.run_of(run) if described or chosen == "canary" else None
        d = claimed[1] if claimed else _delta(run, delta)
        if chosen == "canary":
            assert attacked is not None and attack.canary is not None
            runs = checks.whole("canary", checks.number("canary", attack.canary), least=8, most=10**8)
            with bar("simulated runs", hidden=output.quiet) as progress:
                return verify_attack.canary(
                    attacked, runs, d, sure, seed, by_position=_by_position(attack, attacked), claim=claimed,
                    threshold=_threshold(attack), progress=progress,
                )  # fmt: skip
        if chosen == "empirical":
            assert attack.empirical is not None
            return verify_attack.empirical(
                _counts(attack.empirical), d, sure, run=attacked, claim=claimed, unit=run.unit
            )
        from dpbudget.importers.scores import read_scores

        assert attack.scores is not None
        return verify_attack.scored(
            read_scores(attack.scores),
            d,
            sure,
            seed,
            run=attacked,
            claim=claimed,
            threshold=_threshold(attack),
            unit=run.unit,
        )

    shell.answer(output, build)


def _attack(attack: AttackOptions) -> str:
    """Which attack was asked for; "" for none."""
    given = [name for name in ATTACKS if getattr(attack, name) is not None]
    if len(given) > 1:
        raise InputError(given[0], f"contradicts --{given[1]}", hint="Pass one of the two.")
    chosen = given[0] if given else ""
    if attack.batches is not None and chosen != "canary":
        raise InputError("batches", "belongs to --canary", hint="Pass --canary RUNS.")
    if attack.threshold is not None and chosen not in ("canary", "scores"):
        raise InputError("threshold", "belongs to --canary or --scores", hint="Pass one of them, or drop it.")
    return chosen


def _claim(text: str) -> tuple[float, float]:
    parts = text.split(",")
    if len(parts) != 2:
        raise InputError("claim", f"{text!r} is not EPS,DELTA", hint="Write --claim 3,1e-5.")
    return checks.epsilon(checks.number("claim", parts[0]), "claim"), checks.delta(
        checks.number("claim", parts[1]), "claim"
    )


def _counts(text: str) -> tuple[int, int, int, int]:
    parts = text.split(",")
    if len(parts) != 4:
        raise InputError("empirical", f"{len(parts)} counts, not 4", hint="Write TP,FP,TN,FN: --empirical 100,0,100,0.")
    tp, fp, tn, fn = (
        checks.whole("empirical", checks.number("empirical", part), least=0, most=10**15) for part in parts
    )
    return tp, fp, tn, fn


def _size(sample: SampleOptions) -> tuple[int | None, float | None]:
    """(samples, precision): at most one of them."""
    if sample.precision is not None:
        if sample.samples is not None:
            raise InputError("samples", "contradicts --precision", hint="Pass one of the two.")
        return None, share("precision", sample.precision)
    if sample.samples is None:
        return None, None
    return checks.whole("samples", checks.number("samples", sample.samples), most=10**8), None


def _by_position(attack: AttackOptions, run: Run) -> bool:
    batches = checks.choice("batches", attack.batches or "drawn", BATCHES)
    if batches == "position" and run.history:
        raise InputError("batches", "by position is for one run, not for a history", hint="Pass --sigma, -q and -t.")
    return batches == "position"


def _threshold(attack: AttackOptions) -> float | None:
    return None if attack.threshold is None else checks.real("threshold", checks.number("threshold", attack.threshold))


def _delta(run: RunOptions, delta: DeltaOption) -> float:
    if delta.delta is None and run.dataset_size is not None:
        return derive.default_delta(checks.records("dataset_size", run.dataset_size))
    return shell.one_delta(delta, Run())
