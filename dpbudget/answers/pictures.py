"""What the pictures show, as plain data; the renderers only place it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpbudget.accounting import account
from dpbudget.accounting.account import Ledger
from dpbudget.answers import words
from dpbudget.errors import DpbudgetError, InputError
from dpbudget.model import Interval, Sampling
from dpbudget.report import Picture, Series
from dpbudget.run import Run

POINTS = 12
PICTURE_TOLERANCE = 1e-3


def over_steps(run: Run, delta: float, *, accountants: Sequence[str] = ("pld", "rdp")) -> Picture | None:
    """Epsilon after every so many steps of the run: the certified band, and the other bounds that were asked for.

    None for a history, for no step at all, and where nothing finite is proven.
    """
    if run.history or not run.steps or run.noise_multiplier is None:
        return None
    counts = _counts(run)
    series = []
    for name in accountants:
        points = _points(run, counts, delta, name)
        if not points:
            continue
        xs, ends = [float(n) for n, _ in points], [e for _, e in points]
        uppers = [e.upper for e in ends if e.upper is not None]
        lowers = [e.lower for e in ends if e.lower is not None]
        certified = len(lowers) == len(uppers)
        label = f"{name}: proven interval" if certified else f"{name}: upper bound"
        if len(uppers) == len(xs):
            series.append(
                Series(label, xs, uppers, lowers if certified else (), uppers if certified else (),
                       "line" if certified else "dashed")
            )  # fmt: skip
    if not series:
        return None
    rate = f"q = {run.sampling_rate:.4g}, " if run.sampling_rate is not None else ""
    return Picture(
        title=f"Epsilon over {run.steps:,} steps",
        x_label="steps (noisy updates)",
        y_label=f"epsilon at delta = {tidy(delta)}",
        series=series,
        caption=f"sigma = {run.noise_multiplier:g}, {rate}{run.sampling} sampling. {words.assumptions(run)}",
        from_zero=True,
    )


def _counts(run: Run) -> list[int]:
    """Counts up to all steps, denser at the beginning, where the curve bends; whole epochs where those are accounted."""
    assert run.steps is not None
    whole = 1
    if run.sampling in (Sampling.SHUFFLE, Sampling.BALLS_IN_BINS) and run.sampling_rate:
        whole = min(run.steps, round(1 / run.sampling_rate))
    shares = [(k / POINTS) ** 2 for k in range(1, POINTS + 1)]
    return sorted({min(run.steps, max(1, round(share * run.steps / whole)) * whole) for share in shares})


def tidy(value: float) -> str:
    """1e-5, not 1e-05."""
    return f"{value:.3g}".replace("e-0", "e-")


def _points(run: Run, counts: Sequence[int], delta: float, name: str) -> list[tuple[int, Interval]]:
    found = []
    for count in counts:
        try:
            ledger = Ledger.of(run.releases(steps=count), run.adjacency)
            value = account.epsilon(ledger, delta, accountant=name, tolerance=PICTURE_TOLERANCE).value
        except InputError:
            return []
        except DpbudgetError:
            continue
        if value.upper is not None and math.isfinite(value.upper):
            found.append((count, value))
    return found


def designs(
    rows: Sequence[Mapping[str, Any]], best: Mapping[str, Any], epsilon: float, delta: float, records: int, assumes: str
) -> Picture:
    """The design space of `plan`: what each batch and number of epochs costs in examples, and buys in signal."""
    sizes = sorted({row["batch_size"] for row in rows})
    series = []
    for size in sizes:
        line = sorted((row["examples"], row["total_snr"]) for row in rows if row["batch_size"] == size)
        series.append(Series(f"batch {size}", [float(x) for x, _ in line], [float(y) for _, y in line]))
    return Picture(
        title=f"Designs within epsilon {epsilon:g}",
        x_label="examples processed (steps x batch)",
        y_label="total signal-to-noise, sqrt(T) B / sigma",
        series=series,
        caption=f"{records:,} records, delta = {tidy(delta)}. Every point has the least noise that is proven to meet the "
        f"target. Best: {best['reason'][:1].lower()}{best['reason'][1:]} {assumes}",
        log_x=True,
        log_y=True,
        ranked=True,
        marks=[(float(best["examples"]), float(best["total_snr"]), "best")],
    )


def accuracy(
    points: Sequence[tuple[float, Mapping[str, float]]], baseline: Mapping[str, float], caption: str
) -> Picture | None:
    """The privacy-accuracy curve of `simulate`; the bands are one standard deviation over the repeats."""
    finite = sorted((e, s["mean"], s["sd"]) for e, s in points if math.isfinite(e) and e > 0)
    if not finite:
        return None
    xs = [e for e, _, _ in finite]
    reach = [xs[0] / 1.2, xs[-1] * 1.2]
    plain, sd = baseline["mean"], baseline["sd"]
    return Picture(
        title="Accuracy against epsilon",
        x_label="epsilon (proven upper end)",
        y_label="held-out accuracy, %",
        series=[
            Series("DP-SGD", xs, [100 * m for _, m, _ in finite], [100 * max(0.0, m - s) for _, m, s in finite],
                   [100 * min(1.0, m + s) for _, m, s in finite]),
            Series("without privacy", reach, [100 * plain] * 2, [100 * max(0.0, plain - sd)] * 2,
                   [100 * min(1.0, plain + sd)] * 2, "dashed"),
        ],
        caption=caption,
        log_x=True,
    )  # fmt: skip


def trade_off(
    fpr: Sequence[float],
    tpr: Sequence[float],
    epsilon: float,
    delta: float,
    caption: str,
    *,
    lower: Sequence[float] = (),
) -> Picture:
    """The best attacker's true-positive rate at every false-positive rate, below what (epsilon, delta) alone allows.

    fpr, tpr: of the run's whole curve, tpr an upper end; lower: its lower end. The single point (epsilon, delta) bounds
    tpr <= min(e^eps fpr + delta, 1 - e^-eps (1 - delta - fpr)) (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776, Thm 2.1).
    """
    single = [
        min(1.0, math.exp(min(epsilon, 700.0)) * x + delta, 1 - math.exp(-epsilon) * max(0.0, 1 - delta - x))
        for x in fpr
    ]
    return Picture(
        title="What the best attacker can do",
        x_label="false-positive rate",
        y_label="true-positive rate",
        series=[
            Series("this run, whole curve", list(fpr), list(tpr), list(lower), list(tpr) if lower else ()),
            Series(f"all that ({epsilon:.4g}, {tidy(delta)})-DP says", list(fpr), single, look="dashed"),
            Series("guessing", list(fpr), list(fpr), look="dashed"),
        ],
        caption=caption,
        log_x=min(fpr) > 0,
        log_y=min(fpr) > 0,
    )
