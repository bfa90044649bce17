"""Warnings that belong to the input: each says what is doubtful and what to type next."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_FLOOR

from dpbudget import derive
from dpbudget.answers import words
from dpbudget.model import Guarantee, Kind, Sampling
from dpbudget.report import Notice
from dpbudget.run import Run

SMALL_SIGMA = 0.3
TINY_DATASET = 100


def of_run(run: Run, deltas: Sequence[float] = ()) -> list[Notice]:
    notices = []
    size = run.dataset_size
    for delta in deltas:
        if size is not None and delta >= 1 / size:
            notices.append(
                Notice(
                    "delta-large",
                    f"delta {delta:g} is not below 1/n = {1 / size:.3g}: publishing one whole record would satisfy it",
                    f"Pass --delta {float(words.rounded(derive.default_delta(size), 1, ROUND_FLOOR)):g} or less.",
                )
            )
    sigmas: list[float | None] = [sigma for sigma, _, _ in run.history] or [run.noise_multiplier]
    if any(sigma is not None and 0 < sigma < SMALL_SIGMA for sigma in sigmas):
        notices.append(
            Notice(
                "sigma-small",
                f"a noise multiplier below {SMALL_SIGMA} hides next to nothing",
                "Solve for the noise instead: dpbudget sigma --epsilon E ...",
            )
        )
    if run.sampling is Sampling.POISSON and run.sampling_rate == 1:
        notices.append(
            Notice(
                "rate-one",
                "at a sampling rate of 1 every record is in every batch: there is no amplification",
                "If 1 is a batch size, pass --batch-size 1 --dataset-size N; if it is meant, --sampling full-batch says so.",
            )
        )
    if size is not None and size < TINY_DATASET:
        notices.append(
            Notice(
                "dataset-small",
                f"with {size} records the size of the data set is itself telling: the normaliser must be a public constant",
                "Divide by a number fixed beforehand, never by the actual batch or data set size.",
            )
        )
    return notices


def of_guarantees(guarantees: Sequence[Guarantee]) -> list[Notice]:
    notices = [
        Notice(
            "estimate",
            f"{g.accountant} is an estimate: it can lie below the truth and proves nothing",
            "Quote pld's upper end as the guarantee.",
        )
        for g in guarantees
        if g.kind is Kind.ESTIMATE
    ]
    for g in guarantees:
        if g.detail.get("met_tolerance") is False:
            notices.append(
                Notice(
                    "tolerance-not-met",
                    f"{g.accountant} reached its work limit: the interval is certified, but wider than asked",
                    "Pass a larger --tolerance, or quote the upper end as it is.",
                )
            )
    return notices
