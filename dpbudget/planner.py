"""The design space at a fixed privacy budget: which batch and how many epochs buy the cleanest gradients.

At fixed (epsilon, delta) a larger batch needs more noise on the sum, but less on the average; more epochs need more
noise and more compute. Over T noisy steps the signal adds up with T and the noise with sqrt(T), so that
sqrt(T) B / sigma, the total signal-to-noise, measures how far a design gets. A design is on the Pareto front if no other
has a larger total signal-to-noise without processing more examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpbudget import derive
from dpbudget.accounting import solve
from dpbudget.accounting.account import Ledger
from dpbudget.accounting.solve import Target
from dpbudget.answers import pictures, words
from dpbudget.answers.refusal import infeasible
from dpbudget.errors import DpbudgetError, Infeasible, InputError
from dpbudget.model import Guarantee
from dpbudget.report import Cell, Notice, Quantity, Report, Rounding, Table
from dpbudget.run import Run, resolve

Progress = Callable[[int, int], None]
EPOCHS = (1, 3, 10, 30, 100)
GOOD_ENOUGH = 0.8
COLUMNS = (
    "batch size", "epochs", "steps", "noise multiplier", "noise per gradient", "snr", "total snr", "examples", "mark",
)  # fmt: skip


@dataclass(frozen=True)
class Design:
    """One batch size and number of epochs with the least noise that is proven to meet the target.

    noise_per_gradient: standard deviation of the noise on the averaged gradient, sigma C / B.
    snr: length of a full-norm average gradient over that noise, B / sigma: per coordinate, relative, not absolute.
    examples: examples processed in expectation, steps x batch.
    """

    batch_size: int
    epochs: float
    run: Run
    noise_multiplier: float
    guarantee: Guarantee
    noise_per_gradient: float

    @property
    def steps(self) -> int:
        assert self.run.steps is not None
        return self.run.steps

    @property
    def snr(self) -> float:
        return self.batch_size / self.noise_multiplier

    @property
    def examples(self) -> int:
        return self.steps * self.batch_size

    @property
    def total_snr(self) -> float:
        """sqrt(T) B / sigma, relative like `snr`."""
        return math.sqrt(self.steps) * self.snr

    def beaten_by(self, other: Design) -> bool:
        mine, theirs = (-self.total_snr, self.examples), (-other.total_snr, other.examples)
        return theirs != mine and theirs[0] <= mine[0] and theirs[1] <= mine[1]


def default_batches(dataset_size: int) -> list[Fraction]:
    """Powers of two from 32 to a quarter of the data."""
    sizes = [Fraction(2**k) for k in range(5, 17) if 2**k <= dataset_size / 4]
    return sizes or [Fraction(max(1, dataset_size // 4))]


def plan(
    dataset_size: int,
    epsilon: float,
    delta: float,
    *,
    batches: Sequence[Fraction] | None,
    epochs: Sequence[Fraction] | None,
    clip_norm: float,
    given: Mapping[str, Any],
    accountant: str,
    tolerance: float,
    digits: int,
    progress: Progress = lambda done, total: None,
    max_epochs: float | None = None,
    max_batch: float | None = None,
    target_snr: float | None = None,
) -> Report:
    """Solve for the noise of every design, mark the Pareto set, recommend one; or report the nearest that would fit."""
    sizes = [b for b in batches or default_batches(dataset_size) if max_batch is None or b <= max_batch]
    passes = [e for e in epochs or [Fraction(e) for e in EPOCHS] if max_epochs is None or e <= max_epochs]
    if not passes and max_epochs is not None and epochs is None:
        passes = [Fraction(max_epochs)]
    if not sizes or not passes:
        raise InputError("batch_size" if not sizes else "epochs", "no value is left within the limits")
    target = Target(epsilon, delta, accountant, tolerance)
    designs: list[Design] = []
    failed: list[tuple[str, DpbudgetError]] = []
    for done, (size, count) in enumerate(((b, e) for b in sizes for e in passes), start=1):
        try:
            designs.append(_design(dataset_size, size, count, target, clip_norm, given, digits))
        except DpbudgetError as error:
            failed.append((f"batch {float(size):g}, {float(count):g} epochs", error))
        progress(done, len(sizes) * len(passes))
    fitting = [d for d in designs if target_snr is None or d.snr >= target_snr]
    if not fitting:
        sample = resolve(
            {**given, "batch_size": sizes[0], "dataset_size": dataset_size, "epochs": passes[0]},
            unknown="noise_multiplier",
        )
        asked = {"dataset_size": dataset_size, "epsilon": epsilon, "delta": delta, "clip_norm": clip_norm}
        refusal = _refusal(designs, [error for _, error in failed], target_snr)
        return infeasible(
            "plan", refusal, input=asked, assumptions=sample.assumptions(),
            quantity="target_snr" if designs else "epsilon", rounding=Rounding.DOWN if designs else Rounding.UP,
            notes=[words.assumptions(sample)],
        )  # fmt: skip
    return _report(dataset_size, target, fitting, clip_norm, [f"{name}: {error}" for name, error in failed])


def _refusal(designs: Sequence[Design], failed: Sequence[DpbudgetError], target_snr: float | None) -> Infeasible:
    """Why no design is left: of those that miss the target, the one that misses it least. Raises where none was asked."""
    if designs:
        most = max(design.snr for design in designs)
        hint = "Allow larger batches, or a larger epsilon."
        return Infeasible(
            f"no design reaches a signal-to-noise of {target_snr:g}", hint=hint, nearest={"target_snr": most}
        )
    missed = [error for error in failed if isinstance(error, Infeasible)]
    if not missed:
        raise failed[0]
    return min(missed, key=lambda error: error.nearest.get("epsilon", math.inf))


def _design(
    n: int, size: Fraction, epochs: Fraction, target: Target, clip: float, given: Mapping[str, Any], digits: int
) -> Design:
    run = resolve({**given, "batch_size": size, "dataset_size": n, "epochs": epochs}, unknown="noise_multiplier")
    found = solve.sigma(lambda s: Ledger.of(run.releases(noise_multiplier=s), run.adjacency), target, digits=digits)
    assert run.batch_size is not None
    return Design(run.batch_size, float(epochs), run, found.value, found.guarantee, found.value * clip / run.batch_size)


def _report(n: int, target: Target, designs: Sequence[Design], clip: float, errors: Sequence[str]) -> Report:
    front = [d for d in designs if not any(d.beaten_by(other) for other in designs)]
    most = max(d.total_snr for d in front)
    best = min((d for d in front if d.total_snr >= GOOD_ENOUGH * most), key=lambda d: d.examples)
    rows: list[list[Cell]] = [
        [
            Quantity(d.batch_size),
            Quantity(d.epochs),
            Quantity(d.steps),
            Quantity(d.noise_multiplier),
            Quantity(d.noise_per_gradient, Rounding.UP),
            Quantity(d.snr, Rounding.DOWN),
            Quantity(d.total_snr, Rounding.DOWN),
            Quantity(d.examples),
            "best" if d is best else "pareto" if d in front else "",
        ]
        for d in designs
    ]
    reason = (
        f"It processes the fewest examples among the designs that reach {GOOD_ENOUGH:.0%} of the largest total "
        "signal-to-noise, sqrt(T) B / sigma."
    )
    return Report(
        command="plan",
        input={"dataset_size": n, "epsilon": target.epsilon, "delta": target.delta, "clip_norm": clip},
        assumptions=best.run.assumptions(),
        result={
            "accountant": target.accountant,
            "rows": [_json(d, d in front) for d in designs],
            "best": {**_json(best, True), "reason": reason},
        },
        headline="best: batch size {0}, epochs {1}, noise multiplier {2}: within epsilon {3} at delta {4}",
        answers=[
            Quantity(best.batch_size), Quantity(best.epochs), Quantity(best.noise_multiplier),
            Quantity(target.epsilon, Rounding.EXACT),
            Quantity(target.delta, Rounding.UP),
        ],
        value=Quantity(best.noise_multiplier),
        facts=[("dataset size", Quantity(n), ""), ("clipping norm", Quantity(clip), "scales the noise per gradient only")],
        main=Table(COLUMNS, rows),
        notes=[
            reason,
            "Noise per gradient is sigma C / B, the noise on one coordinate of the averaged gradient; snr is C over it, "
            "relative: what a full-norm gradient along one coordinate would show. A design is marked pareto if none has more "
            "total signal-to-noise for fewer examples.",
            words.assumptions(best.run),
        ],
        explanation=[words.PARAMETERS],
        picture=pictures.designs(
            [_json(d, d in front) for d in designs], {**_json(best, True), "reason": reason}, target.epsilon,
            target.delta, n, words.assumptions(best.run),
        ),
        warnings=[Notice("design-failed", text) for text in errors],
    )  # fmt: skip


def _json(d: Design, pareto: bool) -> dict[str, Any]:
    return {
        "batch_size": d.batch_size,
        "epochs": d.epochs,
        "sampling_rate": float(derive.sampling_rate(d.batch_size, d.run.dataset_size or d.batch_size)),
        "steps": d.steps,
        "noise_multiplier": d.noise_multiplier,
        "noise_per_gradient": d.noise_per_gradient,
        "snr": d.snr,
        "total_snr": d.total_snr,
        "examples": d.examples,
        "epsilon": d.guarantee.value,
        "pareto": pareto,
    }
