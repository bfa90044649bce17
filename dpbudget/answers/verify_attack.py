"""A reported guarantee against attacks: a simulated worst-case record, or the user's own counts and scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbudget import montecarlo
from dpbudget.accounting import account
from dpbudget.accounting.account import Ledger
from dpbudget.answers import verify, words
from dpbudget.answers.verify import MOST_DRAWS, Claim, Progress
from dpbudget.errors import InputError
from dpbudget.model import Interval
from dpbudget.montecarlo import Attack, Canary, PositionCanary
from dpbudget.report import Cell, Quantity, Report, Rounding, Table, interval_json
from dpbudget.run import Run

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
        report = verify.report(self.run, result, facts, table, verdict, unit)
        report.input = {
            **({} if self.run is None else self.run.input()),
            **verify.asked(None, self.delta, self.claim),
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
    steps = verify.phases(run)
    length = sum(phase.steps for phase in steps)
    if not length:
        raise InputError("steps", "0 leaves nothing to attack", hint="Pass --steps T.")
    if runs * length > MOST_DRAWS:
        raise verify.too_much(runs, length)
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
