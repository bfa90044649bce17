"""The attacker's side: lower bounds on epsilon from membership guesses, counted, scored or simulated.

A mechanism that is (epsilon, delta)-DP for two worlds ("out" without the record, "in" with it) satisfies, for every guess,

    TPR <= e^epsilon FPR + delta      and      1 - FPR <= e^epsilon FNR + delta,

so that upper ends for FPR and FNR bound epsilon from below (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776, Thm 2.1; Nasr
et al. 2021, arXiv:2101.04535). The upper ends are Clopper-Pearson's, each with half of 1 - confidence, so that both
hold together. A lower bound above a certified upper end convicts the mechanism; one below it proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpbudget.errors import InputError
from dpbudget.montecarlo.intervals import success_upper
from dpbudget.montecarlo.laws import CHUNK, log_ratio

Array = NDArray[np.float64]
# mechanism(rng, world, runs): scores of `runs` independent runs, shape (runs,), higher where the attacker sees more of
# the record; world is True where the record takes part.
Mechanism = Callable[[np.random.Generator, bool, int], Array]

BLOCK = 50_000
HELD_OUT = 0.25
THRESHOLDS = 2000
LARGEST = 1e300


@dataclass(frozen=True)
class Attack:
    """epsilon: at least this much at `delta`, with probability >= confidence; 0 where nothing was shown.

    fpr_upper, fnr_upper: the upper ends behind it. threshold: a score above it is a guess "in"; None for plain counts.
    tp, fp, tn, fn: the counts of the runs that were judged (none of them chose the threshold).
    """

    epsilon: float
    delta: float
    confidence: float
    tp: int
    fp: int
    tn: int
    fn: int
    fpr_upper: float
    fnr_upper: float
    threshold: float | None = None


def from_counts(tp: int, fp: int, tn: int, fn: int, *, delta: float, confidence: float) -> Attack:
    """The bound from guesses: tp of tp + fn members were called members, fp of fp + tn non-members were.

    Zero counts are as good as any. The guessing rule must not have been chosen by looking at these runs.
    delta: in [0, 1).  confidence: in (0, 1), of the whole statement.  Errs downwards only.
    """
    for name, count in (("tp", tp), ("fp", fp), ("tn", tn), ("fn", fn)):
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 0:
            raise InputError(name, f"{count!r} is not a count")
    if tp + fn == 0 or fp + tn == 0:
        raise InputError("counts", "need at least one run with the record and one without")
    if not (0.0 <= delta < 1.0):
        raise InputError("delta", f"{delta} is not in [0, 1)")
    if not (0.0 < confidence < 1.0):
        raise InputError("confidence", f"{confidence} is not in (0, 1)")
    each = (1.0 - confidence) / 2.0
    fpr, fnr = success_upper(fp, fp + tn, each), success_upper(fn, fn + tp, each)
    found = max(_log_ratio(1.0 - fnr - delta, fpr), _log_ratio(1.0 - fpr - delta, fnr))
    return Attack(max(0.0, found * (1 - 1e-12)), delta, confidence, int(tp), int(fp), int(tn), int(fn), fpr, fnr)


def _log_ratio(above: float, below: float) -> float:
    return math.log(above / below) if above > 0.0 else -math.inf


def from_scores(
    scores_in: Array,
    scores_out: Array,
    *,
    delta: float,
    confidence: float,
    threshold: float | None = None,
    seed: int = 0,
) -> Attack:
    """The bound from attack scores: a run is called a member if its score is above the threshold.

    scores_in, scores_out: shapes (m,), (k,), of independent runs with and without the record.
    threshold: chosen in advance; without it a quarter of the runs, drawn by `seed`, chooses it and is then left out.
    Raises InputError on NaN scores or too few of them.
    """
    inside, outside = _scores(scores_in, "scores_in"), _scores(scores_out, "scores_out")
    if threshold is None:
        rng = np.random.default_rng(seed)
        chosen_in, inside = _split(inside, rng)
        chosen_out, outside = _split(outside, rng)
        sizes = (inside.size, outside.size)
        threshold = choose_threshold(chosen_in, chosen_out, delta=delta, confidence=confidence, sizes=sizes)
    if math.isnan(threshold):
        raise InputError("threshold", "is not a number")
    tp, fp = int((inside > threshold).sum()), int((outside > threshold).sum())
    counted = from_counts(tp, fp, outside.size - fp, inside.size - tp, delta=delta, confidence=confidence)
    return replace(counted, threshold=float(threshold))


def choose_threshold(
    scores_in: Array, scores_out: Array, *, delta: float, confidence: float, sizes: tuple[int, int]
) -> float:
    """The threshold whose bound is expected to be the largest on `sizes` fresh runs (with, without the record).

    The expected counts are the held-out rates times the sizes. Where no score of the held-out runs is passed, the rates
    are unknown, and the threshold lies at the most extreme score.
    """
    inside, outside = np.sort(scores_in), np.sort(scores_out)
    every = np.unique(np.concatenate((inside, outside)))
    if every.size > THRESHOLDS:
        # Good thresholds lie in the tails of the scores; quantiles of both laws on a logarithmic scale find them.
        share = np.geomspace(1.0 / every.size, 0.5, THRESHOLDS // 4)
        grid = np.concatenate([np.quantile(s, np.concatenate((share, 1.0 - share))) for s in (inside, outside)])
        every = np.unique(grid)
    middles = (every[:-1] + every[1:]) / 2 if every.size > 1 else every
    fp = (outside.size - np.searchsorted(outside, middles, side="right")) / outside.size
    fn = np.searchsorted(inside, middles, side="right") / inside.size
    each = math.log(2.0) - math.log1p(-confidence)
    fpr, fnr = _rough_upper(fp, sizes[1], each), _rough_upper(fn, sizes[0], each)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(1 - fnr > delta, np.log((1 - fnr - delta) / fpr), -np.inf)
        second = np.where(1 - fpr > delta, np.log((1 - fpr - delta) / fnr), -np.inf)
    return float(middles[int(np.argmax(np.maximum(first, second)))])


def _rough_upper(rate: Array, trials: int, log_odds: float) -> Array:
    """About Clopper-Pearson's upper end at `rate`: Chernoff for small rates. It only ranks thresholds."""
    x = log_odds / trials
    return np.minimum(1.0, rate + np.sqrt(2 * rate * np.maximum(1 - rate, 0.0) * x) + x)


def audit(
    mechanism: Mechanism,
    runs: int,
    *,
    delta: float,
    confidence: float,
    seed: int = 0,
    threshold: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Attack:
    """Run any mechanism `runs` times, half with the record and half without, and bound its epsilon from below.

    mechanism: callable(rng, world, runs) -> scores, see `Mechanism`. It is called several times with up to BLOCK runs.
    runs: at least 8.  threshold: chosen in advance; None takes a quarter of the runs to choose it.
    """
    if not (runs >= 8):
        raise InputError("runs", f"{runs} runs are too few; at least 8 are needed")
    half = runs // 2
    rng = np.random.default_rng([seed, 1])
    scores: dict[bool, list[Array]] = {True: [], False: []}
    done = 0
    for world, count in ((True, half), (False, runs - half)):
        for first in range(0, count, BLOCK):
            size = min(BLOCK, count - first)
            got = np.asarray(mechanism(rng, world, size), dtype=np.float64)
            if got.shape != (size,):
                raise InputError("mechanism", f"returned shape {got.shape} for {size} runs, not ({size},)")
            scores[world].append(got)
            done += size
            if progress is not None:
                progress(done, runs)
    inside, outside = np.concatenate(scores[True]), np.concatenate(scores[False])
    return from_scores(inside, outside, delta=delta, confidence=confidence, threshold=threshold, seed=seed)


def convicts(attack: Attack, certified_upper: float) -> bool:
    """Whether the attack shows more epsilon than the certified upper end allows. A NaN bound convicts."""
    return not (attack.epsilon <= certified_upper)


@dataclass(frozen=True)
class Canary:
    """DP-SGD as its worst-case record sees it: `Mechanism` for `audit`.

    In the record's own coordinate everyone else's clipped gradient is 0 and its own is 1 (in clipping norms), so that
    step t shows b_t + sigma z_t, b_t ~ Bernoulli(rate) if the record takes part and 0 if not. The score is the
    log-likelihood ratio, the best score there is (Neyman, Pearson 1933).
    """

    sigma: float
    rate: float
    steps: int

    def __call__(self, rng: np.random.Generator, world: bool, runs: int) -> Array:
        total = np.zeros(runs)
        rows = max(1, CHUNK // min(self.steps, CHUNK))
        for first in range(0, runs, rows):
            count = min(rows, runs - first)
            for done in range(0, self.steps, CHUNK):
                shape = (count, min(CHUNK, self.steps - done))
                seen = self.sigma * rng.standard_normal(shape)
                if world:
                    seen += rng.random(shape) < self.rate
                exponent = (seen - 0.5) / self.sigma**2
                total[first : first + count] += log_ratio(self.rate, exponent, wide=True).sum(axis=1)
        return total


@dataclass(frozen=True)
class PositionCanary:
    """Fixed batches by position: the record is in the same batch of every epoch, 1/rate batches an epoch, no shuffling.

    Nobody who knows the data order gains anything from the sampling: the score adds up the record's own steps.
    """

    sigma: float
    rate: float
    steps: int
    position: int = 0

    def __call__(self, rng: np.random.Generator, world: bool, runs: int) -> Array:
        period = round(1.0 / self.rate)
        hits = len(range(self.position % period, self.steps, period))
        noise = self.sigma * rng.standard_normal((runs, hits)).sum(axis=1)
        return np.asarray(noise + (hits if world else 0), dtype=np.float64)


def _scores(values: Array, name: str) -> Array:
    scores = np.asarray(values, dtype=np.float64).ravel()
    if scores.size == 0 or np.isnan(scores).any():
        raise InputError(name, "holds no scores, or one that is not a number")
    return np.clip(scores, -LARGEST, LARGEST)  # infinite scores are as good as any, but have no middle


def _split(scores: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """(held out, judged)"""
    if scores.size < 4:
        raise InputError("scores", "are too few to choose a threshold on some of them", hint="Pass a threshold.")
    shuffled = rng.permutation(scores)
    cut = max(1, int(HELD_OUT * scores.size))
    return shuffled[:cut], shuffled[cut:]
