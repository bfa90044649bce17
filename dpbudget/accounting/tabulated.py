"""delta of a composition at every epsilon from one lattice: its tail sums, computed once.

Between lattice points delta of a lattice measure is exactly linear in e^epsilon, so that there is nothing to interpolate:
the tail sums of the measure above give an upper end at every epsilon, those of the measure below a lower one. How sharp
they are falls with the distance from the epsilon that the tilt was made for. Proof of the directions: docs/math.md, 7.5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbudget.accounting.convolve import Composition
from dpbudget.accounting.discretise import ROUND
from dpbudget.accounting.pair import Array

LOG_CUT = -640.0
"""What the sums far on the right that a table leaves out add at most, in logarithms and on its scale."""
TINY = 1e-300
"""Covers what underflows."""


@dataclass(frozen=True)
class TailSums:
    """One side of a composition; s, head, fall, error: shape (n,), as in `convolve.Table`, about `reference`.

    beside: shape (n + 1,), the best that the lattice points on the safe side prove for s_{j-1} < epsilon <= s_j: delta
    falls, so that a lower end at a larger epsilon is one here, and an upper end at a smaller epsilon.
    noise: what the window and the FFT may hide, on the scale of the reference. shift: error of the losses.
    whole: on the left nothing was cut off but what the window leaves out.
    """

    side: int
    lam: float
    reference: float
    s: Array
    head: Array
    fall: Array
    error: Array
    beside: Array
    noise: float
    log_scale: float
    shift: float
    infinite: float
    whole: bool

    @classmethod
    def of(cls, composition: Composition, side: int) -> TailSums:
        """side: 1 for a measure that lies above, -1 for one that lies below."""
        base = composition.offset + composition.step * composition.first
        peak = base + composition.step * int(np.argmax(composition.mass))
        reference = max(peak, 0.0)
        table = composition.table(side, reference)
        if side < 0:
            beside = np.append(np.maximum.accumulate(table.value[::-1])[::-1], 0.0)
        else:
            beside = np.append(np.inf, np.minimum.accumulate(table.value))
        return cls(
            side,
            composition.lam,
            reference,
            table.s,
            table.head,
            table.fall,
            table.error,
            beside,
            composition.noise,
            table.log_scale + side * composition.relative_error,
            composition.loss_error,
            composition.infinite,
            bool(table.s[0] <= max(base, -composition.loss_error)),
        )

    def at(self, epsilons: Array) -> Array:
        """Bounds of delta at epsilons >= 0 of any shape: from above for side 1, from below for side -1."""
        point = np.asarray(epsilons, dtype=np.float64) - self.side * self.shift
        last = self.s.size - 1
        j = np.searchsorted(self.s, point)
        k = np.minimum(j, last)
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            drop = np.exp(np.minimum(point - self.s[k], 0.0)) * self.fall[k]
            outside = self.noise * np.exp(-self.lam * (point - self.reference))  # grows to the left, without a limit
            noise = self.error[np.maximum(k - 1, 0)] + 8 * ROUND * np.abs(drop) + np.where(j == 0, outside, 0.0)
            value = np.where(j > last, 0.0, self.head[k] - drop) + self.side * noise
            value = (np.maximum if self.side < 0 else np.minimum)(value, self.beside[j])
            # as one exponential: far from the tilt the scale alone would underflow
            finite = np.exp(np.log(np.maximum(value, 0.0)) + self.log_scale)
            if self.side < 0:
                return np.minimum(np.where(np.isfinite(finite), finite, 0.0) + self.infinite, 1.0)
            found = finite + (np.exp(self.log_scale + LOG_CUT) + self.infinite + TINY)
        blind = ~(found >= 0.0) | ((j == 0) & (not self.whole))
        return np.where(blind, 1.0, np.minimum(found, 1.0))


@dataclass(frozen=True)
class Tabulated:
    """A composition between two measures, asked at any epsilon."""

    below: TailSums
    above: TailSums

    @classmethod
    def of(cls, below: Composition, above: Composition) -> Tabulated:
        return cls(TailSums.of(below, -1), TailSums.of(above, 1))

    def ends(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) of delta at epsilon >= 0."""
        point = np.array([epsilon])
        return float(self.below.at(point)[0]), float(self.above.at(point)[0])
