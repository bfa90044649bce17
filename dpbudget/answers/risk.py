"""What a budget means: the best attacker's chances over the run's whole curve, and beside them what one epsilon says."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpbudget import risk
from dpbudget.accounting import account, approxcurve
from dpbudget.accounting.account import Ledger
from dpbudget.accounting.tradeoff import Profile
from dpbudget.answers import advice, pictures, words
from dpbudget.answers.refusal import infeasible
from dpbudget.errors import Infeasible, NotCertified
from dpbudget.model import Interval
from dpbudget.report import Cell, Notice, Quantity, Range, Report, Rounding, Table, interval_json
from dpbudget.run import Run

CURVE = (1e-6, 1e-5, 1e-4, 1e-3, 0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 0.99)
BESIDE = "from epsilon delta"
UNKNOWNS = {"noise_multiplier": "noise multiplier", "steps": "steps", "sampling_rate": "sampling rate"}
ALONE = (
    "Covers any mechanism that has this guarantee: every number is that of the worst one. A run's own curve lies below, "
    "often far below: describe it with --sigma, -q and -t."
)
ATTACKER = (
    "The attacker knows every other record, the model after every step and which two data sets are in question. Upper ends "
    "hold for every attacker; membership, attribute inference and singling-out share one curve."
)
EXPLANATION = (
    "Advantage: the largest TPR - FPR, the total variation distance, delta at epsilon 0.",
    "TPR at an FPR: one minus the trade-off curve f, the convex conjugate of delta(epsilon) (Dong, Roth, Su 2022, "
    "arXiv:1905.02383); both directions at once.",
    "Posterior: what the prior odds become under the largest log likelihood ratio, up to outputs of the stated total "
    "probability (--failure). That probability is not delta: more outputs than delta exceed epsilon, and up to delta alone "
    "may say everything, which is why (epsilon, delta) by itself bounds no posterior there.",
    "Bayes error: the error rate of the best guess; its lower end is the guarantee.",
    "Reconstruction: success of any attack whose success without the output is at most the baseline (Hayes, Mahloujifar, "
    "Balle 2023, arXiv:2302.07225).",
    "mu: the smallest Gaussian shift whose curve lies above delta(epsilon) wherever that is at least the floor (Gomez et al. "
    "2025, arXiv:2503.10945); without a floor it would describe the far tail alone.",
)


def _short(value: float) -> str:
    return f"{value:g}".replace("e-0", "e-")


@dataclass(frozen=True)
class Asked:
    """Where the curve is read: delta of the single guarantee beside it, and the arguments of each measure."""

    delta: float
    fprs: Sequence[float]
    prior: float
    failure: float
    baseline: float
    floor: float

    def input(self) -> dict[str, Any]:
        return {
            "delta": self.delta, "fpr": list(self.fprs), "prior": self.prior, "failure": self.failure,
            "baseline": self.baseline, "floor": self.floor,
        }  # fmt: skip


@dataclass(frozen=True)
class Measure:
    """One row: what the curve says, what (epsilon, delta) alone says, which end is the guarantee."""

    key: str
    name: str
    at: str
    value: Interval
    alone: float | None
    rounding: Rounding = Rounding.UP

    def json(self) -> dict[str, Any]:
        ends = {key: end for key, end in interval_json(self.value).items() if key != "estimate"}
        return {**ends, "from_epsilon_delta": self.alone}

    def row(self) -> list[Cell]:
        return [self.name, self.at, Range(self.value), Quantity(self.alone, self.rounding)]


def _measures(curves: risk.RiskCurves, epsilon: float, asked: Asked) -> tuple[list[Measure], risk.Posterior]:
    known, d = math.isfinite(epsilon), asked.delta
    e = epsilon if known else 0.0
    loss = approxcurve.approx_loss_bound(e, d, asked.failure) if known else math.inf
    belief = risk.posterior(curves, asked.prior, asked.failure)
    rows = [
        Measure(
            "advantage", "advantage", "", risk.advantage(curves), approxcurve.approx_advantage(e, d) if known else 1.0
        )
    ]
    for fpr in asked.fprs:
        alone = approxcurve.approx_tpr(e, d, fpr) if known else 1.0
        rows.append(Measure("tpr", "TPR", f"FPR {_short(fpr)}", risk.tpr(curves, fpr), alone))
    certain = approxcurve.posterior(asked.prior, loss) if math.isfinite(loss) else 1.0
    rows.append(Measure("posterior", "posterior", f"prior {_short(asked.prior)}", belief.value, certain))
    error = approxcurve.approx_bayes_error(e, d, asked.prior) if known else 0.0
    rows.append(
        Measure("bayes_error", "Bayes error", f"prior {_short(asked.prior)}", risk.bayes_error(curves, asked.prior), error,
                Rounding.DOWN)
    )  # fmt: skip
    rebuilt = approxcurve.approx_tpr(e, d, asked.baseline) if known else 1.0
    rows.append(
        Measure("reconstruction", "reconstruction", f"baseline {_short(asked.baseline)}",
                risk.reconstruction(curves, asked.baseline), rebuilt)
    )  # fmt: skip
    rows.append(Measure("mu", "Gaussian mu", f"floor {_short(asked.floor)}", _mu(curves, asked.floor), None))
    return rows, belief


def _mu(curves: risk.RiskCurves, floor: float) -> Interval:
    """Infinite where delta never falls to the floor."""
    try:
        return risk.gdp_mu(curves, floor)
    except NotCertified:
        return Interval(None, math.inf)


def _result(rows: Sequence[Measure], belief: risk.Posterior, asked: Asked, epsilon: Interval) -> dict[str, Any]:
    found = {row.key: row.json() for row in rows if row.key != "tpr"}
    tprs = [row.json() for row in rows if row.key == "tpr"]
    return {
        "advantage": found["advantage"],
        "tpr": [{"fpr": fpr, **entry} for fpr, entry in zip(asked.fprs, tprs, strict=True)],
        "posterior": {
            "prior": asked.prior,
            "failure": asked.failure,
            "loss": interval_json(belief.loss),
            **found["posterior"],
        },
        "bayes_error": {"prior": asked.prior, **found["bayes_error"]},
        "reconstruction": {"baseline": asked.baseline, **found["reconstruction"]},
        "mu": {"floor": asked.floor, **found["mu"]},
        "epsilon_delta": {"epsilon": interval_json(epsilon), "delta": asked.delta},
    }


def report(run: Run, asked: Asked) -> Report:
    """What a run tells an attacker."""
    ledger = Ledger.of(run.releases(), run.adjacency)
    curves = risk.RiskCurves(ledger)
    epsilon = account.epsilon(ledger, asked.delta).value
    found = _report(curves, epsilon, asked, words.assumptions(run))
    found.input = {**run.input(), **asked.input()}
    found.assumptions = run.assumptions()
    guarantee: tuple[str, Cell, str] = ("epsilon", Range(epsilon), f"at delta {_short(asked.delta)}")
    found.facts = [*words.facts(run), guarantee]
    found.warnings += advice.of_run(run, [asked.delta])
    if not curves.attained:
        found.warnings.append(
            Notice("upper-ends-only", f"with {run.sampling} sampling only the guarantees are shown, not that an attack "
                   "reaches them", "They hold as they are; the other ends are those of a coin.")
        )  # fmt: skip
    return found


def alone(epsilon: float, asked: Asked, unit: str) -> Report:
    """What (epsilon, delta) says of any mechanism that has it."""
    found = _report(_worst_curves(epsilon, asked.delta), Interval(None, epsilon), asked, ALONE, is_run=False)
    found.input = {"epsilon": epsilon, **asked.input()}
    found.assumptions = {
        "adjacency": "that of the guarantee", "unit": unit, "covers": "any mechanism with this guarantee",
    }  # fmt: skip
    found.facts = [("epsilon", Quantity(epsilon), ""), ("delta", Quantity(asked.delta), "")]
    return found


def _worst_curves(epsilon: float, delta: float) -> risk.RiskCurves:
    """The worst mechanism: with probability delta it says everything, else the truth with odds e^epsilon.

    Its delta at x is delta + (1 - delta) (e^epsilon - e^x)_+ / (e^epsilon + 1) (Kairouz, Oh, Viswanath 2015,
    arXiv:1311.0776, Thm 3.4), here to a relative 1e-14.
    """

    def ends(x: float) -> tuple[float, float]:
        value = delta + (1.0 - delta) * -math.expm1(min(0.0, x - epsilon)) / (1.0 + math.exp(-epsilon))
        return value * (1 - 1e-14), min(1.0, value * (1 + 1e-14))

    return risk.RiskCurves.covering(Profile(ends))


def _worst(row: Measure) -> Measure:
    """No single mechanism has the worst posterior: the upper end is that of all of them."""
    return row if row.key != "posterior" else replace(row, value=Interval(row.value.lower, row.alone))


def _report(curves: risk.RiskCurves, epsilon: Interval, asked: Asked, covers: str, *, is_run: bool = True) -> Report:
    assert epsilon.upper is not None
    rows, belief = _measures(curves, epsilon.upper, asked)
    if not is_run:
        rows = [_worst(row) for row in rows]
        loss = approxcurve.approx_loss_bound(epsilon.upper, asked.delta, asked.failure)
        belief = replace(belief, loss=Interval(belief.loss.lower, loss))
    result = _result(rows, belief, asked, epsilon)
    curve = risk.tradeoff_curve(curves, CURVE)
    result["curve"] = [
        {"fpr": p.fpr, "tpr": dict(zip(("lower", "upper"), p.tpr, strict=True)),
         "fnr": dict(zip(("lower", "upper"), p.fnr, strict=True))} for p in curve
    ]  # fmt: skip
    advantage, first = rows[0].value.upper, rows[1].value.upper
    unbounded = not math.isfinite(epsilon.upper)
    picture = None
    if not unbounded:
        picture = pictures.trade_off(
            CURVE, [p.tpr[1] for p in curve], epsilon.upper, asked.delta, covers, lower=[p.tpr[0] for p in curve]
        )
    columns = ("measure", "at", "this run", BESIDE) if is_run else ("measure", "at", BESIDE)
    return Report(
        command="risk",
        input={},
        assumptions={},
        result=result,
        headline="the best membership attack: advantage <= {0}, TPR <= {1} at FPR {2}",
        answers=[Quantity(advantage, Rounding.UP), Quantity(first, Rounding.UP), Quantity(asked.fprs[0])],
        value=Quantity(advantage, Rounding.UP),
        main=Table(columns, [row.row()[: len(columns)] for row in rows]),
        notes=[ATTACKER, covers],
        explanation=list(EXPLANATION),
        picture=picture,
        status="unbounded" if unbounded else "ok",
        exit_code=4 if unbounded else 0,
    )


# --- the inverse -----------------------------------------------------------------------------------------------------


def solve(run: Run, asked: Asked, unknown: str, target: tuple[str, float, float | None], *, digits: int) -> Report:
    """The least noise, most steps or largest rate that is proven to meet the target; then the risk of that run."""
    goal = risk.RiskTarget(*target)
    if run.noise_multiplier == 0:
        raise NotCertified("without noise no attack is bounded", hint="Pass a --noise-multiplier above 0.")
    searches: dict[str, Callable[[], risk.RiskSolution]] = {
        "noise_multiplier": lambda: risk.solve_sigma(lambda s: _at(run, noise_multiplier=s), goal, digits=digits),
        "steps": lambda: risk.solve_steps(lambda t: _at(run, steps=t), goal),
        "sampling_rate": lambda: risk.solve_rate(lambda q: _at(run, sampling_rate=q), goal, digits=digits),
    }
    quantity, value, fpr = target
    aim: dict[str, Any] = {f"target_{quantity}": value, **({} if fpr is None else {"at_fpr": fpr})}
    _at(run, **{unknown: {"noise_multiplier": 1.0, "steps": 1, "sampling_rate": 0.5}[unknown]})  # a run without a pair
    try:
        solution = searches[unknown]()
    except Infeasible as error:
        return infeasible(
            "risk", error, input={**run.input(), **asked.input(), **aim}, assumptions=run.assumptions(), quantity=quantity,
            facts=words.facts(run), notes=[words.assumptions(run)],
        )  # fmt: skip
    answer: float | int = int(solution.value) if unknown == "steps" else solution.value
    solved_for: dict[str, Any] = {unknown: answer}
    found = report(replace(run, **solved_for), asked)
    known = {name: item for name, item in found.input.items() if name != unknown}
    found.input = {**known, **aim}
    solved: dict[str, Any] = {
        "parameter": unknown, "value": answer, "insufficient": solution.beside, quantity: interval_json(solution.risk),
    }  # fmt: skip
    if unknown == "sampling_rate" and run.dataset_size is not None:
        solved["batch_size"] = math.floor(Fraction(repr(solution.value)) * run.dataset_size)
    found.result = {**found.result, "solved": solved}
    rounding = Rounding.NEAREST if unknown == "noise_multiplier" else Rounding.DOWN
    found.value = Quantity(answer, rounding)
    found.answers = [found.value, Quantity(solution.risk.upper, Rounding.UP), Quantity(value), Quantity(fpr)]
    what = "advantage <= {1}" if fpr is None else "TPR <= {1} at FPR {3}"
    verb = "{0} steps give" if unknown == "steps" else f"{UNKNOWNS[unknown]} {{0}} gives"
    found.headline = f"{verb} {what}; the target is {{2}}"
    if "batch_size" in solved:
        found.headline += ", batch size {4}"
        found.answers.append(Quantity(solved["batch_size"]))
    return found


def _at(run: Run, **found: Any) -> risk.Account:
    return Ledger.of(run.releases(**found), run.adjacency)
