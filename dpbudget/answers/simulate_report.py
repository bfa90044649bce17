"""What every simulation reports: the runs, their guarantees, what tuning would cost, and advice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpbudget.accounting import tuning
from dpbudget.accounting.account import Ledger
from dpbudget.accounting.tuning_pairs import base_of
from dpbudget.answers import pictures
from dpbudget.errors import DpbudgetError
from dpbudget.model import Guarantee, Interval
from dpbudget.report import Cell, Notice, Quantity, Range, Report, Rounding, Table, interval_json
from dpbudget.simulate.outcome import Outcome, Source

TRIALS = 10
FEW, MANY = 0.05, 0.95
FAINT = 0.1
NO_RELEASE = (
    "A simulation is no release: it shows accuracies, losses and gradient norms of these very records without noise, and no "
    "guarantee covers them. Keep this report as private as the data, or simulate on public or generated records."
)

GENERATED = (
    "A simulation is no release. These records are generated: what they show costs no privacy, and says little of yours. On "
    "private records it would show accuracies, losses and gradient norms without noise, covered by no guarantee."
)


@dataclass(frozen=True)
class Setting:
    """How the simulation is done, whatever the noise. Repeat r draws its split and its batches from (seed, r)."""

    source: Source
    learning_rate: float
    clip_norm: float
    repeats: int
    seed: int
    delta: float
    tolerance: float
    digits: int
    accountant: str = "pld"

    def input(self) -> dict[str, Any]:
        return {
            "data": self.source.name, "delta": self.delta, "clip_norm": self.clip_norm,
            "learning_rate": self.learning_rate, "repeats": self.repeats, "seed": self.seed,
            "held_out": self.source.held_out,
        }  # fmt: skip


@dataclass(frozen=True)
class Level:
    """One amount of noise and what it proves. target: the epsilon that it was solved for."""

    noise_multiplier: float
    guarantee: Guarantee
    target: float | None = None
    name: str = "noise multiplier"

    @property
    def upper(self) -> float:
        return math.inf if self.guarantee.value.upper is None else self.guarantee.value.upper


def tuned(base: Ledger, trials: int, delta: float) -> float | None:
    """What the best of a geometric number of `trials` expected runs costs; None where no bound is finite."""
    if base.unbounded or not base.counts:
        return None
    try:
        upper = tuning.epsilon(base_of(base, delta), tuning.law_named("geometric", trials), delta).value.upper
    except DpbudgetError:
        return None
    return upper if upper is not None and math.isfinite(upper) else None


def assemble(
    setting: Setting,
    found: Sequence[Level],
    outcomes: Sequence[Outcome],
    baseline: Outcome,
    base: Ledger,
    *,
    unit: str,
    assumes: str,
) -> Report:
    """What both kinds of simulation report alike."""
    worst = max(found, key=lambda level: level.upper)
    trials = max(TRIALS, len(found))
    charge = tuned(base, trials, setting.delta)
    plain = baseline.spread()
    hints = [
        hint for level, outcome in zip(found, outcomes, strict=True) for hint in _advice(setting, level, outcome, unit)
    ]
    hints = list({hint.code: hint for hint in reversed(hints)}.values())[::-1]
    rows: list[list[Cell]] = [_row(Quantity(lv.noise_multiplier), Range(lv.guarantee.value), out)
                              for lv, out in zip(found, outcomes, strict=True)]  # fmt: skip
    rows.append(_row("none", "unbounded", baseline))
    headline, answers = _headline(setting, found, outcomes, plain["mean"])
    result: dict[str, Any] = {
        "runs": [_json(level, outcome) for level, outcome in zip(found, outcomes, strict=True)],
        "epsilon": interval_json(worst.guarantee.value),
        "baseline": {"accuracy": {**plain, "repeats": setting.repeats}, "gradient_norm": baseline.quantiles()},
        "tuning": {"law": "geometric", "expected_trials": trials, "epsilon": {"upper": charge}},
        "advice": [{"code": hint.code, "message": hint.message, "hint": hint.hint} for hint in hints],
    }
    unbounded = any(level.upper == math.inf for level in found)
    return Report(
        command="simulate",
        input=setting.input(),
        assumptions={},
        result=result,
        headline=headline,
        answers=answers,
        value=Quantity(outcomes[0].spread()["mean"]),
        facts=_facts(setting, charge, trials, many=len(found) > 1),
        main=Table(("noise multiplier", "epsilon", "accuracy %", "sd", "range", "clipped %", "median norm", "snr"), rows),
        notes=_notes(setting, hints, charge, trials, many=len(found) > 1),
        explanation=[
            "Accuracy is measured on held-out records, mean and standard deviation over the repeats. snr is the norm of the "
            "clipped sum over the root mean square norm of its noise, sigma C sqrt(coordinates), at the median step. "
            "The run without privacy has the same batches, steps and learning rate, without clipping and noise.",
        ],
        warnings=_missing(setting.source),
        picture=pictures.accuracy(
            [(lv.upper, out.spread()) for lv, out in zip(found, outcomes, strict=True)], plain, f"{_caption(setting)} {assumes}"
        ),
        status="unbounded" if unbounded else "ok",
        exit_code=4 if unbounded else 0,
    )  # fmt: skip


def _headline(
    setting: Setting, found: Sequence[Level], outcomes: Sequence[Outcome], plain: float
) -> tuple[str, list[Cell]]:
    """The first run, or the first and the last one."""
    ends = [0] if len(found) == 1 else [0, len(found) - 1]
    answers: list[Cell] = [Quantity(setting.delta), Quantity(_percent(plain))]
    parts = []
    for end in ends:
        bound = f"at epsilon <= {{{len(answers) + 1}}}" if math.isfinite(found[end].upper) else "without a guarantee"
        parts.append(f"{{{len(answers)}}} % {bound}")
        answers += [Quantity(_percent(outcomes[end].spread()["mean"])), Quantity(found[end].upper, Rounding.UP)]
    return f"accuracy {' to '.join(parts)}, delta {{0}}; without privacy {{1}} %", answers


def _notes(setting: Setting, hints: Sequence[Notice], charge: float | None, trials: int, *, many: bool) -> list[str]:
    told = "dpbudget tune says how much."
    if charge is not None:
        which = ", each as costly as the costliest above." if many else "."
        told = f"the line 'if tuned' is what dpbudget tune charges for the best of {trials} expected runs{which}"
    return [
        *(f"{hint.message[:1].upper()}{hint.message[1:]}. {hint.hint}" for hint in hints),
        GENERATED if setting.source.data is None else NO_RELEASE,
        f"To choose among runs by what they show on private data costs privacy too: {told}",
    ]


def _percent(share: float) -> float:
    return round(100 * share, 2)


def _row(noise: Cell, epsilon: Cell, outcome: Outcome) -> list[Cell]:
    spread, rate, snr = outcome.spread(), outcome.clip_rate(), outcome.snr()
    return [
        noise,
        epsilon,
        Quantity(_percent(spread["mean"])),
        Quantity(_percent(spread["sd"])),
        f"{_percent(spread['lowest']):g}-{_percent(spread['highest']):g}",
        Quantity(None if rate is None else _percent(rate)),
        Quantity(_short(outcome.quantiles().get("median"))),
        Quantity(None if snr is None else _short(snr["median"])),
    ]


def _short(value: float | None) -> float | None:
    """Three digits: what is simulated is not known better."""
    return None if value is None else float(f"{value:.3g}")


def _json(level: Level, outcome: Outcome) -> dict[str, Any]:
    data: dict[str, Any] = {
        "noise_multiplier": level.noise_multiplier,
        "epsilon": interval_json(level.guarantee.value),
        "accuracy": {**outcome.spread(), "repeats": len(outcome.traces)},
        "clip_rate": outcome.clip_rate(),
        "gradient_norm": outcome.quantiles(),
        "snr": outcome.snr(),
        "steps": outcome.windows(),
    }
    if level.target is not None:
        data["target_epsilon"] = level.target
    if level.upper == math.inf:
        data["status"] = "unbounded"
    return data


def _facts(setting: Setting, charge: float | None, trials: int, *, many: bool) -> list[tuple[str, Cell, str]]:
    source = setting.source
    size = f"{source.coordinates} weights"
    rows: list[tuple[str, Cell, str]] = [
        ("data", source.name, size),
        ("held out", Quantity(source.held_out), "records that only measure accuracy"),
        ("learning rate", Quantity(setting.learning_rate), ""),
        ("clipping norm", Quantity(setting.clip_norm), "does not change epsilon at a fixed noise multiplier"),
        ("repeats", Quantity(setting.repeats), f"seed {setting.seed}"),
    ]
    if charge is not None:
        each = ", at the largest epsilon" if many else ""
        remark = f"epsilon for the best of {trials} expected runs{each}: dpbudget tune, geometric law"
        rows.append(("if tuned", Range(Interval(None, charge)), remark))
    return rows


def _advice(setting: Setting, level: Level, outcome: Outcome, unit: str) -> list[Notice]:
    """On the clipping norm, the batch and the learning rate, from what the run looked like."""
    hints = []
    rate, norms, snr, losses = outcome.clip_rate(), outcome.quantiles(), outcome.snr(), outcome.losses()
    at = f"at {level.name} {level.noise_multiplier:g}"
    clip, step = setting.clip_norm, setting.learning_rate
    if rate is not None and rate > MANY and norms and outcome.noise:
        hints.append(Notice(
            "clip-many", f"{rate:.0%} of the {unit}s are clipped {at}: only directions are left of their contributions",
            f"If accuracy lags behind, try C near the median norm, {norms['median']:.2g}; the noise grows with it, epsilon "
            "does not change.",
        ))  # fmt: skip
    if rate is not None and rate < FEW and norms and outcome.noise:
        hints.append(Notice(
            "clip-few", f"hardly any {unit} is clipped ({rate:.1%}) {at}: the noise is measured against a norm that "
            "nobody reaches", f"Try C near {norms['q75']:.2g}, which three quarters do not exceed (they peak near "
            f"{norms['q99']:.2g}): the noise shrinks by {clip / max(norms['q75'], 1e-12):.3g} at the same epsilon.",
        ))  # fmt: skip
    if snr is not None and snr["median"] < FAINT:
        hints.append(Notice(
            "noise-loud", f"the noise is {1 / max(snr['median'], 1e-9):.0f} times the signal {at}",
            "Take more clients a round: the sum grows with them, the noise at the server does not." if unit == "update" else
            "Take a larger batch: its sum grows with it, its noise much less; dpbudget plan shows which one pays.",
        ))  # fmt: skip
    start = math.log(setting.source.kinds)
    if not losses.size:
        return hints
    if losses[-1] > 1.02 * start:
        hints.append(Notice(
            "rate-high", f"the loss ends above where it began {at}",
            "A lower learning rate alone does not help: the noise is added to the updates. Lower C too, or take fewer rounds."
            if unit == "update" else f"Lower the learning rate: a third of {step:g} is {step / 3:.2g}.",
        ))  # fmt: skip
    elif losses[-1] > 1.1 * losses.min():
        hints.append(Notice(
            "rate-late", f"the loss rises again {at}: the noise of late steps adds up",
            "Stop after fewer steps, which also costs less epsilon, or lower the learning rate.",
        ))  # fmt: skip
    elif losses.size > 4 and losses[-5] - losses[-1] > 0.1 * (start - losses[-1]):
        hints.append(Notice(
            "rate-low", f"the loss is still falling at the last step {at}",
            f"Raise the learning rate, which costs no epsilon: three times {step:g} is {3 * step:.2g}.",
        ))  # fmt: skip
    return hints


def _missing(source: Source) -> list[Notice]:
    if source.data is None or not source.data.missing:
        return []
    lines = ", ".join(map(str, source.data.missing_lines))
    more = ", ..." if source.data.missing > len(source.data.missing_lines) else ""
    return [
        Notice(
            "missing-values",
            f"{source.data.missing} rows with a missing value were left out (lines {lines}{more})",
            "Fill them with a public constant beforehand if the records should take part.",
        )
    ]


def _caption(setting: Setting) -> str:
    source = setting.source
    return (
        f"{source.name}: {source.train} training records, {source.held_out} held out; softmax regression, C = "
        f"{setting.clip_norm:g}, learning rate {setting.learning_rate:g}. Mean and standard deviation of {setting.repeats} "
        f"repeats. Epsilon is the proven upper end at delta = {pictures.tidy(setting.delta)} for one run, tuning not counted."
    )
