"""The questions that everybody is asked, each with the interval that the truth is known to lie in."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent.parent / "tests" / "data"
LAST_DIGIT = 0.5e-9  # golden.csv has nine decimals


@dataclass(frozen=True)
class Case:
    """Epsilon of `steps` Poisson-sampled Gaussian steps at `delta`, add-or-remove-one: low <= truth <= high."""

    name: str
    sigma: float
    rate: float
    steps: int
    delta: float
    low: float = 0.0
    high: float = float("inf")
    exact: bool = False

    @property
    def label(self) -> str:
        return f"{self.sigma:g} / {self.rate:.4g} / {self.steps:.6g} / {self.delta:g}"

    def question(self) -> dict[str, float]:
        return {"sigma": self.sigma, "rate": self.rate, "steps": self.steps, "delta": self.delta}


def golden() -> list[Case]:
    """Truth to nine decimals: the larger of the two directions."""
    cases = []
    with (DATA / "golden.csv").open() as lines:
        for index, row in enumerate(csv.DictReader(lines), start=1):
            truth = max(float(row["epsilon_remove"]), float(row["epsilon_add"]))
            where = float(row["noise_multiplier"]), float(row["sampling_rate"]), int(row["steps"]), float(row["delta"])
            cases.append(Case(f"golden {index}", *where, truth - LAST_DIGIT, truth + LAST_DIGIT, True))
    return cases


def brackets() -> list[Case]:
    """Truth between the ends of a certified interval."""
    rows = json.loads((DATA / "brackets.json").read_text())["cases"]
    return [
        Case(
            row["name"],
            row["noise_multiplier"],
            row["sampling_rate"],
            int(row["steps"]),
            row["delta"],
            row["epsilon_lower"],
            row["epsilon_upper"],
        )
        for row in rows
    ]


def growth() -> dict[str, list[Case]]:
    """The same step ever more often; and with the rate scaled so that epsilon stays about the same."""
    counts = [10**power for power in range(4, 10)]
    return {
        "the same step": [Case(f"same {t:.0e}", 2.0, 1e-4, t, 1e-6) for t in counts],
        "rate = 1 / sqrt(steps)": [Case(f"scaled {t:.0e}", 2.0, t**-0.5, t, 1e-6) for t in counts],
    }


def hard() -> list[Case]:
    """Public cases that make accountants refuse, run out of memory or answer nonsense."""
    rows = [
        (0.8, 0.125, 1000, 1e-6),
        (1.0, 1e-5, 10**6, 1e-10),
        (0.1, 1.024e-5, 976562, 1e-7),
        (1.0, 1e-4, 10**7, 1e-9),
        (50.0, 0.01, 1000, 1e-5),
        (1.0, 0.00105, 1, 1e-4),
    ]
    return [Case(f"hard {index}", *row) for index, row in enumerate(rows, start=1)]


@dataclass(frozen=True)
class Target:
    """Which noise multiplier gives `epsilon` at `delta`?"""

    rate: float
    steps: int
    delta: float
    epsilon: float

    @property
    def label(self) -> str:
        return f"epsilon {self.epsilon:g} at {self.delta:g}, q {self.rate:.4g}, {self.steps} steps"

    def question(self) -> dict[str, float]:
        return {"rate": self.rate, "steps": self.steps, "delta": self.delta, "epsilon": self.epsilon}


def targets() -> list[Target]:
    return [
        Target(0.04, 2250, 1e-5, 8.0),
        Target(256 / 60000, 14062, 1e-5, 2.0),
        Target(0.01, 1000, 1e-5, 1.0),
        Target(0.001, 100_000, 1e-6, 1.0),
        Target(1 / 60, 900, 1e-5, 3.0),
        Target(0.1, 512, 1e-6, 0.5),
    ]
