"""A reported guarantee against sampling and against attacks: the certified answer first, the independent one second."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbudget import montecarlo
from dpbudget.accounting import account
from dpbudget.accounting.account import Ledger
from dpbudget.answers import advice, words
from dpbudget.errors import ContradictionError, InputError, NotCertified
from dpbudget.model import Adjacency, Interval, SampledGaussian, Sampling
from dpbudget.montecarlo import Attack, Canary, Phase, PositionCanary, Sampled
from dpbudget.report import Cell, Notice, Quantity, Range, Report, Rounding, Table, interval_json
from dpbudget.run import Run

Progress = Callable[[int, int], None]
Claim = tuple[float, float]

USUAL_SAMPLES, LEAST_SAMPLES = 20_000, 1000
USUAL_DRAWS = 2 * 10**8  # some seconds in each direction
MOST_DRAWS = 10**11  # about an hour
VAGUE = 2.0
INDEPENDENT = (
    "The sampler shares no code with the accountant, and its interval holds at any sample size; a right guarantee is "
    "called wrong with probability 1 - confidence at most, over the seed."
)
ATTACKED = (
    "An attack proves a lower bound and nothing else: one above the claim refutes it, one below it leaves room for "
    "better attacks. The rule that guesses must not be chosen by looking at the runs that are judged."
)
BY_POSITION = (
    "The attacked runs cut the data into the same batches every epoch, without shuffling: what the guarantee assumes of the "
    "sampling does not hold for them, and the attack is to show it."
)
NO_RUN = (
    "Covers the mechanism that the runs came from, for the two data sets that they were made with; runs independent of each "
    "other."
)


@dataclass(frozen=True)
class Draw:
    """How to sample. Without samples and precision as many as take some seconds."""

    samples: int | None
    precision: float | None
    confidence: float
    seed: int
    tilted: bool

    def input(self) -> dict[str, Any]:
        given = {"samples": self.samples, "precision": self.precision}
        shown = {name: value for name, value in given.items() if value is not None}
        return {
            **shown,
            "confidence": self.confidence,
            "seed": self.seed,
            "method": "tilted" if self.tilted else "plain",
        }


def phases(run: Run) -> list[Phase]:
    """The run as independent steps that the sampler knows. Raises InputError for any other."""
    found = []
    for release in run.releases():
        step = release.mechanism
        assert isinstance(step, SampledGaussian)
        if step.sampling not in (Sampling.POISSON, Sampling.FULL_BATCH) or step.max_batch is not None:
            what = "max_batch" if step.max_batch is not None else "sampling"
            raise InputError(
                what, "can't be sampled here: only Poisson and full-batch runs can", hint="Check one of those; or "
                "attack the real thing: --empirical, --scores, or dpbudget.audit in Python.",
            )  # fmt: skip
        replace = run.adjacency is Adjacency.REPLACE_ONE
        distance = step.group_size * (2 if replace else 1)
        if step.sampling is Sampling.POISSON and distance > 1:
            raise InputError(
                "adjacency" if replace else "group_size", "can't be sampled with Poisson batches here",
                hint="Check the run under add-or-remove-one and for single records.",
            )  # fmt: skip
        if step.noise_multiplier == 0:
            raise NotCertified("without noise nothing is guaranteed", hint="Pass a --noise-multiplier above 0.")
        if release.count:
            found.append(Phase(step.noise_multiplier / distance, step.sampling_rate, release.count))
    return found


# --- sampling the loss -----------------------------------------------------------------------------------------------


def sampled(
    run: Run, draw: Draw, *, epsilon: float | None, delta: float | None, claim: Claim | None, progress: Progress
) -> Report:
    """delta at `epsilon`, at the certified epsilon of `delta`, or of a claim: proven, then sampled."""
    steps = phases(run)
    ledger = Ledger.of(run.releases(), run.adjacency)
    if claim is not None:
        at = claim[0]
    elif epsilon is not None:
        at = epsilon
    else:
        assert delta is not None
        at = _upper(account.epsilon(ledger, delta).value)
    certified = _proven(account.delta(ledger, at).value, delta)
    found = _sample(steps, at, draw, progress)
    both = found["both"]
    assert certified.lower is not None and certified.upper is not None
    meets = montecarlo.agrees(both, certified.lower, certified.upper)
    bound = claim[1] if claim else delta if delta is not None else certified.upper
    verdict = _verdict(certified, meets, both, bound) if claim else "agrees" if meets else "disagrees"
    result: dict[str, Any] = {
        "claimed": {"epsilon": at, "delta": bound},
        "certified": {"delta": interval_json(certified)},
        "delta": _sampled_json(both),
        "directions": {name: _sampled_json(one) for name, one in found.items() if name != "both"},
        "sampling_meets_certified": meets,
        "verdict": verdict,
    }
    if claim:
        result["certified"]["epsilon"] = interval_json(account.epsilon(ledger, claim[1]).value)
    rows: list[list[Cell]] = [["certified", Range(certified), "proven"]]
    sure = f"{draw.confidence:.12g}"
    rows.append(["sampled", Range(Interval(both.lower, both.upper)), sure])
    rows += [[f"  {name}", Range(Interval(one.lower, one.upper)), ""] for name, one in found.items() if name != "both"]
    shown = Quantity(at, Rounding.UP if delta is not None else Rounding.NEAREST)
    facts: list[tuple[str, Cell, str]] = [*words.facts(run), ("epsilon", shown, "")]
    if claim:
        facts.append(("claimed delta", Quantity(bound), ""))
        facts.append(("proven epsilon", Range(account.epsilon(ledger, claim[1]).value), "at the claimed delta"))
    way = "tilted" if draw.tilted else "plain"
    facts.append(("samples", Quantity(both.samples), f"{way}, both directions, seed {draw.seed}"))
    report = _report(run, result, facts, Table(("source", "delta", "confidence"), rows), verdict)
    report.input = {**run.input(), **_asked(epsilon, delta, claim), **draw.input()}
    report.headline = _headline(claim is not None, verdict, meets)
    report.answers = [shown, Quantity(bound)]
    report.value = Quantity(both.upper, Rounding.UP)
    report.notes = [INDEPENDENT, words.assumptions(run)]
    report.warnings += _vague(both, certified.upper)
    return report


def _proven(found: Interval, delta: float | None) -> Interval:
    """delta at the certified epsilon of `delta` is at most `delta` as well: both proofs hold."""
    if delta is None:
        return found
    assert found.lower is not None and found.upper is not None
    if not found.lower <= delta:
        raise ContradictionError(f"delta is above {found.lower:.12g} at the certified epsilon of delta {delta:.12g}")
    return Interval(found.lower, min(found.upper, delta))


def _upper(interval: Interval) -> float:
    if interval.upper is None or not math.isfinite(interval.upper):
        raise NotCertified("epsilon is unbounded: there is nothing to check", hint="Pass --epsilon E.")
    return interval.upper


def _asked(epsilon: float | None, delta: float | None, claim: Claim | None) -> dict[str, Any]:
    given = {"epsilon": epsilon, "delta": delta, "claim": None if claim is None else list(claim)}
    return {name: value for name, value in given.items() if value is not None}


def _sample(steps: Sequence[Phase], epsilon: float, draw: Draw, progress: Progress) -> dict[str, Sampled]:
    length = max(1, sum(phase.steps for phase in steps))
    samples = draw.samples
    if samples is None and draw.precision is None:
        samples = min(USUAL_SAMPLES, max(LEAST_SAMPLES, USUAL_DRAWS // length))
    work = length * (samples or LEAST_SAMPLES)
    if work > MOST_DRAWS:
        raise _too_much(samples or LEAST_SAMPLES, length)

    def watched(done: int, total: int) -> None:
        if total * length > MOST_DRAWS:
            raise _too_much(total, length)
        progress(done, total)

    return montecarlo.sample_delta(
        steps, epsilon, samples=samples, precision=draw.precision, confidence=draw.confidence, seed=draw.seed,
        tilted=draw.tilted, progress=watched,
    )  # fmt: skip


def _too_much(samples: int, length: int) -> InputError:
    return InputError(
        "steps", f"{samples:,} samples of {length:,} steps are too much work; {MOST_DRAWS:,} draws are the limit",
        hint="Check fewer steps: a mistake of the accountant shows there as well.",
    )  # fmt: skip


def _sampled_json(found: Sampled) -> dict[str, Any]:
    return {
        "lower": found.lower, "upper": found.upper, "confidence": found.confidence, "estimate": found.estimate,
        "standard_error": found.standard_error, "samples": found.samples, "tilt": found.tilt,
    }  # fmt: skip


def _verdict(certified: Interval, meets: bool, both: Sampled, claimed: float) -> str:
    """A claim is wrong if the proof or the samples exclude it, and right only if it is proven."""
    assert certified.lower is not None and certified.upper is not None
    if not meets or certified.lower > claimed or montecarlo.refutes(both, claimed):
        return "disagrees"
    return "agrees" if certified.upper <= claimed else "inconclusive"


def _headline(claimed: bool, verdict: str, meets: bool) -> str:
    if not meets:
        return "sampling disagrees with the certified delta at epsilon {0}"
    if not claimed:
        return "sampling agrees with the certified delta at epsilon {0}"
    return {
        "agrees": "the claim epsilon {0} at delta {1} is proven, and sampling agrees",
        "disagrees": "the claim epsilon {0} at delta {1} is wrong",
        "inconclusive": "the claim epsilon {0} at delta {1} is neither proven nor refuted",
    }[verdict]


def _vague(both: Sampled, certified: float) -> list[Notice]:
    """An interval that is far wider than delta agrees with anything."""
    if certified <= 0 or (both.upper <= VAGUE * certified and both.lower > 0):
        return []
    return [
        Notice(
            "weak-check",
            f"the samples only show delta between {both.lower:.2g} and {both.upper:.2g}: a weak check",
            "Pass more --samples, or --precision 0.1; drop --plain where it is given.",
        )
    ]


def _report(
    run: Run | None, result: dict[str, Any], facts: list[tuple[str, Cell, str]], table: Table, verdict: str | None,
    unit: str = "example",
) -> Report:  # fmt: skip
    """The common parts; the caller fills in words and numbers."""
    return Report(
        command="verify",
        input={},
        assumptions=run.assumptions()
        if run is not None
        else {"adjacency": "the two worlds of the attack", "unit": unit, "covers": "the mechanism that was attacked"},
        result=result,
        headline="",
        answers=[],
        value=Quantity(None),
        facts=facts,
        main=table,
        warnings=[] if run is None else advice.of_run(run),
        status="ok" if verdict is None or verdict == "agrees" else verdict,
        exit_code=0 if verdict in ("agrees", None) else 3,
    )


# --- attacking -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Judge:
    """What an attack is held against: a claim, else the certified epsilon of the run, else nothing."""

    run: Run | None
    claim: Claim | None
    delta: float
    certified: Interval | None

    @classmethod
    def of(cls, run: Run | None, claim: Claim | None, delta: float) -> _Judge:
        certified = None
        if run is not None:
            certified = account.epsilon(Ledger.of(run.releases(), run.adjacency), delta).value
        return cls(run, claim, delta, certified)

    def report(self, attack: Attack, how: str, given: dict[str, Any], unit: str) -> Report:
        bound = self.claim[0] if self.claim else None if self.certified is None else self.certified.upper
        verdict = None if bound is None else "disagrees" if montecarlo.convicts(attack, bound) else "agrees"
        counts = {"tp": attack.tp, "fp": attack.fp, "tn": attack.tn, "fn": attack.fn}
        result: dict[str, Any] = {
            "claimed": None if bound is None else {"epsilon": bound, "delta": self.delta},
            "attack": {
                "epsilon": {"lower": attack.epsilon}, "confidence": attack.confidence, **counts,
                "fpr_upper": attack.fpr_upper, "fnr_upper": attack.fnr_upper, "threshold": attack.threshold,
            },
            "verdict": verdict,
        }  # fmt: skip
        rows: list[list[Cell]] = [["attack", _least(attack.epsilon), Quantity(None), f"{attack.confidence:.12g}"]]
        if self.certified is not None:
            result["certified"] = {"epsilon": interval_json(self.certified)}
            ends = self.certified
            rows.append(["certified", Quantity(ends.lower, Rounding.DOWN), Quantity(ends.upper, Rounding.UP), "proven"])
        if self.claim:
            rows.append(["claim", Quantity(None), Quantity(bound), ""])
        facts = words.facts(self.run) if self.run is not None else []
        facts.append(("delta", Quantity(self.delta), ""))
        facts.append(("attack", how, ""))
        facts.append(("guesses", " ".join(f"{name} {count}" for name, count in counts.items()), ""))
        if attack.threshold is not None:
            facts.append(("threshold", Quantity(attack.threshold), "a score above it is a guess in"))
        table = Table(("source", "epsilon at least", "epsilon at most", "confidence"), rows)
        report = _report(self.run, result, facts, table, verdict, unit)
        report.input = {
            **({} if self.run is None else self.run.input()),
            **_asked(None, self.delta, self.claim),
            **given,
        }
        if self.claim:
            del report.input["delta"]
        report.headline = {
            None: "the attack shows epsilon >= {0} at delta {1}",
            "agrees": "the attack shows epsilon >= {0} at delta {1}, which agrees with epsilon <= {2}",
            "disagrees": "the attack shows epsilon >= {0} at delta {1}: epsilon <= {2} is wrong",
        }[verdict]
        limit = Quantity(bound, Rounding.NEAREST if self.claim else Rounding.UP)
        report.answers = [_least(attack.epsilon), Quantity(self.delta), limit]
        report.value = _least(attack.epsilon)
        report.notes = [ATTACKED, NO_RUN if self.run is None else words.assumptions(self.run)]
        return report


def _least(epsilon: float) -> Quantity:
    return Quantity(epsilon, Rounding.DOWN)


def canary(
    run: Run, runs: int, delta: float, confidence: float, seed: int, *, by_position: bool, claim: Claim | None,
    threshold: float | None, progress: Progress,
) -> Report:  # fmt: skip
    """The simulated worst-case record, against the claim or the certified upper end."""
    steps = phases(run)
    length = sum(phase.steps for phase in steps)
    if not length:
        raise InputError("steps", "0 leaves nothing to attack", hint="Pass --steps T.")
    if runs * length > MOST_DRAWS:
        raise _too_much(runs, length)
    judge = _Judge.of(run, claim, delta)
    if by_position:
        phase = steps[0]
        attacked: montecarlo.Mechanism = PositionCanary(phase.sigma, phase.rate, phase.steps)
    else:
        parts = [Canary(phase.sigma, phase.rate, phase.steps) for phase in steps]

        def attacked(rng: np.random.Generator, world: bool, size: int) -> NDArray[np.float64]:
            return np.asarray(sum(part(rng, world, size) for part in parts), dtype=np.float64)

    found = montecarlo.audit(
        attacked, runs, delta=delta, confidence=confidence, seed=seed, threshold=threshold, progress=progress
    )
    batches = "position" if by_position else "drawn"
    given = {"canary": runs, "batches": batches, "confidence": confidence, "seed": seed}
    how = f"simulated, {runs} runs, batches {'by position' if by_position else 'as the run says'}"
    report = judge.report(found, how, given, run.unit)
    if by_position:
        report.notes = [BY_POSITION, *report.notes]
    return report


def empirical(
    counts: tuple[int, int, int, int],
    delta: float,
    confidence: float,
    *,
    run: Run | None,
    claim: Claim | None,
    unit: str,
) -> Report:
    """The user's own attack, as counts of right and wrong guesses."""
    tp, fp, tn, fn = counts
    if not tp + fn or not fp + tn:
        raise InputError(
            "empirical", "needs at least one run with the record (tp or fn) and one without (fp or tn)",
            hint="Write TP,FP,TN,FN: --empirical 100,0,100,0.",
        )  # fmt: skip
    found = montecarlo.from_counts(tp, fp, tn, fn, delta=delta, confidence=confidence)
    given = {"empirical": list(counts), "confidence": confidence}
    return _Judge.of(run, claim, delta).report(found, "your own, as counts", given, unit)


def scored(
    scores: tuple[Sequence[float], Sequence[float]], delta: float, confidence: float, seed: int, *, run: Run | None,
    claim: Claim | None, threshold: float | None, unit: str,
) -> Report:  # fmt: skip
    """The user's own attack, as a score for every run."""
    inside, outside = (np.array(part, dtype=np.float64) for part in scores)
    found = montecarlo.from_scores(inside, outside, delta=delta, confidence=confidence, threshold=threshold, seed=seed)
    given = {"scores": [len(inside), len(outside)], "confidence": confidence, "seed": seed}
    how = f"your own, {len(inside)} scores with the record, {len(outside)} without"
    return _Judge.of(run, claim, delta).report(found, how, given, unit)
