"""The trapezoid sum of `dpbudget.accounting.fourier` with its error budget: delta at any epsilon, and epsilon at a delta."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbudget.accounting.discretise import ROUND
from dpbudget.accounting.pair import Array
from dpbudget.accounting.tilted import Tilted, TooRough, characteristic_grid, log_gmax


@dataclass(frozen=True)
class Spectrum:
    """The trapezoid sum, ready to be evaluated at any epsilon, and its error budget (relative to M(t) e^{-t eps})."""

    t: float
    period: float
    log_moment: float
    centre: float
    frequency: Array
    term: NDArray[np.complex128]
    truncation: float
    rounding: Array
    relative: float
    right: tuple[float, float]
    dropped: float
    infinite: tuple[float, float]
    nodes: int

    def bounds(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) bound of delta at epsilon >= 0."""
        value, error = self.relative_value(epsilon)
        log_scale = self.log_moment - self.t * epsilon
        slack = self.relative + 8 * ROUND * (2 + abs(self.log_moment) + self.t * epsilon)
        with np.errstate(over="ignore", under="ignore"):
            lower = max(value - error, 0.0) * float(np.exp(log_scale - slack))
            upper = max(value + error, 0.0) * float(np.exp(log_scale + slack))
            left = float(np.exp(-self.t * self.period))
            left /= -np.expm1(-self.t * self.period)
            decay = (1 + self.t) * self.period
            overlap = float(np.exp(epsilon - decay)) / -float(np.expm1(-decay))
        lower -= left * (1 + 1e-14)
        upper += overlap - left * (1 - self.dropped - self.infinite[1]) * (1 - 1e-14)
        lower = max(lower, 0.0) + self.infinite[0]
        upper = upper + self.dropped + self.infinite[1]
        return lower, min(upper, 1.0)

    def relative_value(self, epsilon: float) -> tuple[float, float]:
        """The sum at epsilon over M(t) e^{-t eps}, and its error: truncation, round-off, aliases from the right."""
        shift = epsilon - self.centre
        phase = np.exp(-1j * shift * self.frequency)
        value = float((self.term * phase).real.sum())
        size = np.abs(self.term)
        error = self.truncation + float(size @ (self.rounding + 8 * ROUND * (1 + np.abs(shift) * self.frequency)))
        error += float(size.sum()) * ROUND * (4 + np.sqrt(size.size))
        gap, log_excess = self.right
        log_alias = log_excess - gap * (epsilon + self.period)
        alias = float(np.exp(min(log_alias, 600.0))) / -float(np.expm1(-gap * self.period))
        return value, error + alias

    def epsilon_bounds(self, delta: float) -> tuple[float, float]:
        """[lower, upper] for epsilon at delta: a secant for the central value, then ends that are verified one by one."""
        if self.bounds(0.0)[1] <= delta:
            return 0.0, 0.0
        start = max(0.0, (self.log_moment + log_gmax(self.t) - float(np.log(delta))) / self.t)
        middle, slope = _central(self, delta, start)
        return _verified(self, delta, middle, slope, -1), _verified(self, delta, middle, slope, 1)

    def detail(self) -> dict[str, object]:
        """What a report may say about how the bounds came about."""
        return {
            "method": "fourier",
            "tilt": self.t,
            "frequencies": int(self.frequency.size),
            "nodes": self.nodes,
            "error_budget": {
                "truncation": self.truncation,
                "relative": self.relative,
                "dropped": self.dropped,
            },
        }


def assemble(
    parts: Sequence[Tilted],
    t: float,
    period: float,
    step: float,
    count: int,
    quadrature: float,
    log_goal: float,
    right: tuple[float, float],
) -> Spectrum:
    """log M along the line, as T log1p(phi - 1) + i y T mean, divided by z (1 + z)."""
    frequency = step * np.arange(count, dtype=np.float64)
    log_m = np.zeros(frequency.size, dtype=np.complex128)
    rounding = np.zeros(frequency.size)
    for part in parts:
        n = part.nodes.count
        phi = characteristic_grid(part, step, count)
        size2 = 2 * phi.real + phi.real**2 + phi.imag**2
        modulus = np.sqrt(np.maximum(1 + size2, 1e-300))
        log_m.real += 0.5 * n * np.log1p(np.maximum(size2, -1 + 1e-300))
        log_m.imag += n * np.arctan2(phi.imag, 1 + phi.real)
        blur = (part.phase_slope * frequency + quadrature / n) / modulus + 8 * ROUND * np.abs(np.log(modulus))
        rounding += n * blur + 8 * ROUND * n * np.abs(phi) / modulus
    z = t + 1j * frequency
    with np.errstate(under="ignore"):
        term = np.asarray(np.exp(log_m) / (z * (1 + z)) * (2 / period), dtype=np.complex128)
    term[0] /= 2
    rounding = np.where(rounding < 0.5, np.expm1(np.minimum(rounding, 1.0)), np.inf)
    if np.isinf(rounding).any():
        raise TooRough
    centre = sum(part.nodes.count * part.mean for part in parts)
    moment = sum(part.nodes.count * part.log_moment for part in parts)
    relative = sum(part.moment_error for part in parts) + quadrature + 1e-14
    dropped = -float(np.expm1(sum(p.nodes.count * np.log1p(-p.nodes.dropped) for p in parts))) * (1 + 1e-9)
    infinite = -float(np.expm1(sum(p.nodes.count * np.log1p(-p.nodes.pair.infinite_mass) for p in parts)))
    return Spectrum(
        t,
        period,
        moment,
        centre,
        frequency,
        term,
        float(np.exp(log_goal)),
        rounding,
        relative,
        right,
        dropped,
        (max(infinite * (1 - 1e-12) - dropped, 0.0) if infinite else 0.0, infinite * (1 + 1e-12)),
        sum(part.nodes.loss.size for part in parts),
    )


def _central(spectrum: Spectrum, delta: float, start: float) -> tuple[float, float]:
    """epsilon where the middle of the bounds equals delta (clipped at 0), and -d log delta / d epsilon there."""
    target = float(np.log(delta))

    def height(e: float) -> float:
        lower, upper = spectrum.bounds(e)
        return float(np.log(max((lower + upper) / 2, 1e-320))) - target

    a, slope = max(start, 0.0), spectrum.t
    fa = height(a)
    for _ in range(25):
        b = max(a + fa / slope, 0.0)
        if abs(b - a) <= 1e-12 * b + 1e-300:
            break
        fb = height(b)
        fresh = (fa - fb) / (b - a)
        slope = float(np.clip(fresh, spectrum.t / 10, 20 * (spectrum.t + 1))) if np.isfinite(fresh) else slope
        a, fa = b, fb
    return a, slope


def _verified(spectrum: Spectrum, delta: float, middle: float, slope: float, side: int) -> float:
    """An epsilon near `middle` at which the bound proves that the truth lies on the other side."""
    lower, upper = spectrum.bounds(middle)
    off = abs(np.log(max(upper if side > 0 else lower, 1e-320) / delta)) / slope
    move = max(1.05 * float(off), 1e-15 * max(middle, 1e-300))
    for _ in range(80):
        candidate = middle + side * move
        if candidate <= 0 and side < 0:
            return 0.0
        lower, upper = spectrum.bounds(candidate)
        if (upper <= delta) if side > 0 else (lower > delta):
            return candidate
        move *= 2
    return np.inf if side > 0 else 0.0
