"""Where the records of a simulation come from, and what its repeats showed, as plain numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpbudget.simulate import data as records
from dpbudget.simulate.data import Array, Data
from dpbudget.simulate.dpsgd import Trace

WINDOWS = 20


@dataclass(frozen=True)
class Source:
    """Where the records come from. data: all records of a file, or None for generated ones.

    train: training records.  held_out: records that only measure accuracy.
    """

    name: str
    train: int
    held_out: int
    data: Data | None = None
    features: int = 8
    classes: int = 2
    separation: float = 1.5

    def draw(self, rng: np.random.Generator) -> tuple[Data, Data]:
        if self.data is None:
            return records.generate(rng, self.train, self.features, self.classes, self.held_out, self.separation)
        return records.split(self.data, self.held_out, rng)

    @property
    def coordinates(self) -> int:
        columns = self.features if self.data is None else len(self.data.columns)
        return (columns + 1) * self.kinds

    @property
    def kinds(self) -> int:
        """Classes to tell apart."""
        return self.classes if self.data is None else len(self.data.classes)


@dataclass(frozen=True)
class Outcome:
    """All repeats of one amount of noise. accuracies: held-out, one a repeat.  noise: root mean square norm, on the sum."""

    accuracies: Array
    traces: Sequence[Trace]
    noise: float

    def spread(self) -> dict[str, float]:
        a = self.accuracies
        sd = float(a.std(ddof=1)) if a.size > 1 else 0.0
        return {"mean": float(a.mean()), "sd": sd, "lowest": float(a.min()), "highest": float(a.max())}

    def clip_rate(self) -> float | None:
        return _mean(np.concatenate([t.clipped for t in self.traces]))

    def quantiles(self) -> dict[str, float]:
        norms = np.concatenate([t.norms for t in self.traces])
        names = {"q10": 0.1, "q25": 0.25, "median": 0.5, "q75": 0.75, "q90": 0.9, "q99": 0.99}
        return dict(zip(names, map(float, np.quantile(norms, list(names.values()))), strict=True)) if norms.size else {}

    def windows(self) -> list[dict[str, float | None]]:
        """Signal-to-noise, clip rate and loss in up to WINDOWS windows of steps: a median and means over the repeats."""
        steps = len(self.traces[0].signal)
        edges = np.unique(np.linspace(0, steps, WINDOWS + 1).round().astype(int))
        signal, clipped, losses = (
            np.array([getattr(t, n) for t in self.traces]) for n in ("signal", "clipped", "losses")
        )
        return [
            {
                "step": int(first) + 1,
                "snr": float(np.median(signal[:, first:last])) / self.noise if self.noise else None,
                "clip_rate": _mean(clipped[:, first:last]),
                "loss": _mean(losses[:, first:last]),
            }
            for first, last in itertools.pairwise(edges)
        ]

    def snr(self) -> dict[str, float] | None:
        """Norm of the clipped sum over the norm of its noise: at the median step, in the first and in the last tenth."""
        signal = np.array([t.signal for t in self.traces])
        if not self.noise or not signal.size:
            return None
        tenth = max(1, signal.shape[1] // 10)
        parts = {"median": signal, "first": signal[:, :tenth], "last": signal[:, -tenth:]}
        return {name: float(np.median(part)) / self.noise for name, part in parts.items()}

    def losses(self) -> Array:
        """Mean loss of every window in which records were looked at; it starts from log(classes), at zero weights."""
        found = [math.inf if w["loss"] is None else w["loss"] for w in self.windows()]
        return np.array([x for x in found if math.isfinite(x)])


def _mean(values: Array) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None
