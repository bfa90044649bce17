"""delta by sampling the privacy loss: the certified answer first, the independent one second."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpbudget import montecarlo
from dpbudget.accounting import account
from dpbudget.accounting.account import Ledger
from dpbudget.answers import verify, words
from dpbudget.answers.verify import MOST_DRAWS, Claim, Progress
from dpbudget.errors import ContradictionError, NotCertified
from dpbudget.model import Interval
from dpbudget.montecarlo import Phase, Sampled
from dpbudget.report import Cell, Notice, Quantity, Range, Report, Rounding, Table, interval_json
from dpbudget.run import Run

USUAL_SAMPLES, LEAST_SAMPLES = 20_000, 1000
USUAL_DRAWS = 2 * 10**8  # some seconds in each direction
VAGUE = 2.0
INDEPENDENT = (
    "The sampler shares no code with the accountant, and its interval holds at any sample size; a right guarantee is "
    "called wrong with probability 1 - confidence at most, over the seed."
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


def sampled(
    run: Run, draw: Draw, *, epsilon: float | None, delta: float | None, claim: Claim | None, progress: Progress
) -> Report:
    """delta at `epsilon`, at the certified epsilon of `delta`, or of a claim: proven, then sampled."""
    steps = verify.phases(run)
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
    report = verify.report(run, result, facts, Table(("source", "delta", "confidence"), rows), verdict)
    report.input = {**run.input(), **verify.asked(epsilon, delta, claim), **draw.input()}
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


def _sample(steps: Sequence[Phase], epsilon: float, draw: Draw, progress: Progress) -> dict[str, Sampled]:
    length = max(1, sum(phase.steps for phase in steps))
    samples = draw.samples
    if samples is None and draw.precision is None:
        samples = min(USUAL_SAMPLES, max(LEAST_SAMPLES, USUAL_DRAWS // length))
    work = length * (samples or LEAST_SAMPLES)
    if work > MOST_DRAWS:
        raise verify.too_much(samples or LEAST_SAMPLES, length)

    def watched(done: int, total: int) -> None:
        if total * length > MOST_DRAWS:
            raise verify.too_much(total, length)
        progress(done, total)

    return montecarlo.sample_delta(
        steps, epsilon, samples=samples, precision=draw.precision, confidence=draw.confidence, seed=draw.seed,
        tilted=draw.tilted, progress=watched,
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
