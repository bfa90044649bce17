"""What a federated run costs: client level and sample level, and against whom each guarantee holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dpbudget.accounting.solve import Solution, Target
from dpbudget.answers import cost, federated_words
from dpbudget.answers.federated_cost import UNKNOWNS, Level, Question, Sample, client_level, sample_level, solved
from dpbudget.answers.refusal import infeasible
from dpbudget.errors import Infeasible, InputError
from dpbudget.federated import Federation
from dpbudget.model import Interval
from dpbudget.report import Cell, Quantity, Range, Report, Rounding, Table, guarantee_json, interval_json

GIVEN = (
    "clients", "clients_per_round", "rounds", "noise_multiplier", "min_honest", "max_participations", "clip_norm",
    "clip_count_std", "local_batch", "local_noise_multiplier",
)  # fmt: skip
AGAINST_SAMPLES = {
    "server": "sees every upload of the client",
    "participant": "the noise is another client's",
    "public": "sees no more than the server",
}


def report(
    question: Question,
    *,
    epsilon: float | None,
    accountant: str,
    tolerance: float,
    digits: int,
    max_epsilon: float | None = None,
) -> Report:
    """Both guarantees side by side. With a target epsilon, the one unknown of the client level is solved for."""
    unknown = question.unknown()
    solution: Solution | None = None
    if unknown:
        if epsilon is None:
            option = "--" + unknown.replace("_", "-")
            raise InputError(unknown, "is missing", hint=f"Pass {option}, or --epsilon E to solve for it.")
        names = [n for n in cost.accountants(accountant) if n != "all"] or ["pld"]
        try:
            solution = solved(question, unknown, Target(epsilon, question.delta, names[0], tolerance), digits)
        except Infeasible as error:
            return infeasible(
                "federated", error, input={**_input(question, epsilon), "solve": unknown},
                assumptions=federated_words.assumptions_json(question), notes=federated_words.notes(question, ()),
            )  # fmt: skip
        found: dict[str, Any] = {unknown: solution.value if unknown == "noise_multiplier" else int(solution.value)}
        question = replace(question, **found)
    elif epsilon is not None:
        raise InputError(
            "epsilon", "leaves nothing to solve for: every value is given", hint="Use --max-epsilon as a gate."
        )
    federation = question.federation()
    client = client_level(question, federation, accountant, tolerance)
    samples = sample_level(question, federation, tolerance)
    answer = _report(question, federation, client, samples, epsilon)
    if solution is not None:
        _tell_solution(answer, unknown, getattr(question, unknown), solution)
    if max_epsilon is not None:
        cost.gate(answer, [client.guarantee, *(sample.guarantee for sample in samples[:1])], max_epsilon)
    return answer


def _report(
    question: Question, federation: Federation, client: Level, samples: Sequence[Sample], epsilon: float | None
) -> Report:
    upper = client.guarantee.value.upper
    headline = "client level: epsilon <= {0} at delta {1}"
    answers: list[Cell] = [Quantity(upper, Rounding.UP, epsilon), Quantity(question.delta, Rounding.UP)]
    status, exit_code = "ok", 0
    if samples:
        headline += "; sample level: epsilon <= {2} for the worst client"
        answers.append(Quantity(samples[0].guarantee.value.upper, Rounding.UP))
    if upper is None:
        status, exit_code, headline = "estimate", 4, "client level: an estimate, not a guarantee, at delta {1}"
    elif upper == math.inf:
        status, exit_code, headline = "unbounded", 4, "client level: epsilon is unbounded at delta {1}: no noise"
    return Report(
        command="federated",
        input=_input(question, epsilon),
        assumptions=federated_words.assumptions_json(federation),
        result={
            "client_level": _client_json(federation, client),
            "sample_level": _sample_json(samples[0]) if samples else None,
            "clients": [_row_json(sample) for sample in samples],
        },
        headline=headline,
        answers=answers,
        value=Quantity(upper, Rounding.UP),
        facts=federated_words.facts(question, federation),
        main=Table(("unit", "against", "noise multiplier", "epsilon"), _rows(client, samples)),
        notes=federated_words.notes(federation, samples),
        explanation=[
            f"Against the {view.adversary}: {view.why}."
            + (" No guarantee." if found is None else f" Multiplier {view.noise_multiplier:.6g}.")
            for view, found in client.against
        ],
        warnings=federated_words.warnings(question, federation),
        status=status,
        exit_code=exit_code,
    )


def _tell_solution(report: Report, unknown: str, value: float, solution: Solution) -> None:
    """The value that was solved for is the answer; what it guarantees follows."""
    report.result = {
        **report.result,
        "solved": {
            "parameter": unknown,
            "value": value,
            "insufficient": solution.beside,
            "epsilon": interval_json(solution.guarantee.value),
        },
    }
    if report.exit_code == 0:
        report.headline = f"{UNKNOWNS[unknown]} {{{len(report.answers)}}} gives {report.headline}"
    report.answers = [*report.answers, Quantity(value, Rounding.EXACT)]
    report.value = Quantity(value, Rounding.UP)


def _input(question: Question, epsilon: float | None) -> dict[str, Any]:
    return {
        **{name: getattr(question, name) for name in GIVEN if getattr(question, name) is not None},
        "noise_at": str(question.noise_at),
        "delta": question.delta,
        "local_epochs": question.local_epochs,
        **({"epsilon": epsilon} if epsilon is not None else {}),
        **({"tree": True} if question.tree else {}),
    }


def _client_json(federation: Federation, client: Level) -> dict[str, Any]:
    return {
        "unit": "client",
        "accountant": client.guarantee.accountant,
        "epsilon": interval_json(client.guarantee.value),
        "sampling_rate": federation.rate,
        "steps": federation.rounds,
        "accountants": [guarantee_json(g, "epsilon") for g in client.everything],
        "against": [
            {
                "adversary": view.adversary,
                "noise_multiplier": view.noise_multiplier,
                "epsilon": None if found is None else interval_json(found.value),
                "why": view.why,
            }
            for view, found in client.against
        ],
    }


def _sample_json(worst: Sample) -> dict[str, Any]:
    epsilon = interval_json(worst.guarantee.value)
    return {
        "unit": "example",
        "epsilon": epsilon,
        "client": worst.client,
        "sampling_rate": worst.training.rate,
        "steps": worst.training.steps,
        "noise_multiplier": worst.training.noise_multiplier,
        "against": [{"adversary": who, "epsilon": epsilon, "why": why} for who, why in AGAINST_SAMPLES.items()],
    }


def _row_json(sample: Sample) -> dict[str, Any]:
    return {
        "client": sample.client,
        "size": sample.training.size,
        "sampling_rate": sample.training.rate,
        "steps": sample.training.steps,
        "epsilon": interval_json(sample.guarantee.value),
    }


def _rows(client: Level, samples: Sequence[Sample]) -> list[list[Cell]]:
    rows: list[list[Cell]] = [
        [
            "client",
            view.adversary,
            Quantity(view.noise_multiplier, Rounding.UP),
            Range(Interval(None, math.inf) if found is None else found.value),
        ]
        for view, found in client.against
    ]
    for worst in samples[:1]:
        noise = Quantity(worst.training.noise_multiplier, Rounding.UP)
        rows.append(["example", "anybody", noise, Range(worst.guarantee.value)])
    return rows
