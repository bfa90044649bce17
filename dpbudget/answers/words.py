"""Sentences that several answers share: what a number assumes, what each parameter does."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context

from dpbudget.model import Guarantee, Kind
from dpbudget.report import Cell, Quantity, Rounding
from dpbudget.run import Run

_SAMPLING = {
    "poisson": "every record joins each batch independently (Poisson sampling)",
    "fixed-size": "every batch is a fresh uniform subset of fixed size",
    "full-batch": "every record is in every batch",
    "shuffle": "the data are shuffled and cut into batches, once an epoch",
    "balls-in-bins": "every record falls into one random batch an epoch",
}


FIXED = "noise, rate, steps and the decision to run fixed without looking at earlier outputs"


def assumptions(run: Run) -> str:
    """One paragraph that goes with every number."""
    group = "" if run.group_size == 1 else f" of up to {run.group_size} records"
    clipped = (
        "clipped micro-batches (a record moves the sum by up to 2 C)" if run.microbatches else "clipped contributions"
    )
    return (
        f"Assumes: {run.adjacency} neighbours, unit {run.unit}{group}; {_SAMPLING[str(run.sampling)]}{_cut(run)}; "
        f"Gaussian noise on the sum of {clipped}, divided by a public constant; {FIXED}. Covers this run only: not "
        "hyper-parameter tuning, other releases on the same data, or floating-point effects of the noise."
    )


def _cut(run: Run) -> str:
    if run.max_batch is None:
        return ""
    return (
        f", batches above {run.max_batch} cut to a random subset of that size, {run.dataset_size} records in the larger of "
        "the neighbours"
    )


_SAFE = {
    "noise_multiplier": Rounding.UP,
    "noise_std": Rounding.UP,
    "delta": Rounding.UP,
    "epsilon": Rounding.UP,
    "sampling_rate": Rounding.DOWN,
    "epochs": Rounding.DOWN,
}


def typed(name: str, value: float) -> Quantity:
    """An input by its JSON key, shortened only to the side on which an upper bound that is said of it stays true."""
    return Quantity(value, _SAFE.get(name, Rounding.EXACT))


def rounded(value: float, digits: int, mode: str) -> str:
    """For sentences: the decimal with so many digits on the side of `mode`, ROUND_CEILING or ROUND_FLOOR."""
    return f"{Context(prec=digits, rounding=mode).create_decimal(repr(float(value))).normalize():f}"


def facts(run: Run) -> list[tuple[str, Cell, str]]:
    """What went in, with how derived values came about."""
    rows: list[tuple[str, Cell, str]] = []
    if run.history:
        rows.append(("history", f"{len(run.history)} phases", ""))
    for name, value in (
        ("noise multiplier", run.noise_multiplier),
        ("sampling rate", run.sampling_rate),
        ("steps", run.steps),
        ("batch size", run.batch_size),
        ("dataset size", run.dataset_size),
    ):
        if value is not None:
            key = name.replace(" ", "_")
            rows.append((name, typed(key, value), run.derived.get(key, "")))
    if run.clip_norm is not None:
        rows.append(("clipping norm", Quantity(run.clip_norm), "does not change epsilon at a fixed noise multiplier"))
    return rows


PARAMETERS = (
    "What the parameters do. The noise multiplier sigma is the standard deviation of the noise on the summed, clipped "
    "gradients, divided by the clipping norm C: more noise, less epsilon. The sampling rate q is the chance of one "
    "record to be in a batch: a smaller q hides who took part, so epsilon falls about in proportion. Every one of the T "
    "steps looks at the data once more; epsilon grows about with sqrt(T) while it is small, faster later. delta is the "
    "probability that the epsilon bound is allowed to fail; it should be well below 1/n. The clipping norm alone does "
    "not change epsilon: it only turns a noise standard deviation into a multiplier. Neither do the model, the learning "
    "rate or the loss."
)


def proves(guarantee: Guarantee) -> str:
    return {Kind.INTERVAL: "interval", Kind.UPPER_BOUND: "upper bound", Kind.ESTIMATE: "estimate, proves nothing"}[
        guarantee.kind
    ]


def remark(guarantee: Guarantee) -> str:
    """What is worth saying beside one accountant's number."""
    parts = []
    order = guarantee.detail.get("order")
    if isinstance(order, (int, float)):
        parts.append(f"order {order:.4g}")
    if guarantee.detail.get("met_tolerance") is False:
        parts.append("tolerance not met")
    if guarantee.detail.get("gap") == "analysis":
        parts.append("gap from analysis")
    reason = guarantee.detail.get("reason")
    if reason:
        parts.append(str(reason))
    return "; ".join(parts)


def how(guarantee: Guarantee, title: str, source: str) -> str:
    """Where one accountant's number comes from."""
    text = f"{guarantee.accountant}: {title} ({source})."
    order = guarantee.detail.get("order")
    if isinstance(order, (int, float)):
        text += f" The best order is {order:.6g}, found over all real orders."
    for key, label in (
        ("epsilon_per_step", "epsilon a step"),
        ("delta_per_step", "delta a step"),
        ("mu", "mu"),
        ("rho", "rho"),
    ):
        value = guarantee.detail.get(key)
        if isinstance(value, float):
            text += f" {label} {value:.6g}."
    engine = guarantee.detail.get("engine")
    if isinstance(engine, dict):
        for direction, detail in engine.items():
            items = ", ".join(f"{key} {_short(value)}" for key, value in detail.items())
            text += f" Direction {direction}: {items}."
    return text


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {_short(item)}" for key, item in value.items()) + ")"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_short(item) for item in value) + "]"
    return str(value)
