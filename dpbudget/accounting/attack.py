"""A lower bound for fixed-size sampling under replace-one by an adversary that adapts (docs/math-sampling.md, 4).

Two triples of data sets that exist: R = ((1-q) N(0) + q N(1), N(0)) and its reverse. Whoever may choose between them at every
step, knowing the outputs so far, reaches v_T(1), v_{t+1}(r) = max over both of E_Q[v_t(r dP/dQ)]. On the grid of the net
game a kernel whose hockey stick lies below the true one gives a lower bound of a convex v_t, point by point.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr

from dpbudget.accounting.discretise import convex_minorant
from dpbudget.accounting.netgame import KAPPA, check
from dpbudget.accounting.pair import Array

POINTS = 40_000
"""Points of the grid of likelihood ratios; the kernels err by the square of its mesh."""

WORK = 4e9
"""Affordable steps x transforms x points x log2(points)."""

PROFILE_ERROR = 1e-14
_SMALLEST = 1e-13


def epsilon_lower(rate: float, sigma: float, steps: int, delta: float, *, upper: float) -> float:
    """Proven lower bound of epsilon; 0 where the game is not affordable or shows nothing.

    upper: a proven upper bound of epsilon, which places the grid. Errs downwards only: tangents below the hockey sticks, mass
    beyond the grid dropped, every rounding error subtracted.
    """
    check(rate, sigma, steps, delta)
    if not (steps * 3 * POINTS * math.log2(POINTS) <= WORK and 1e-3 < upper < 500 and steps * 1e-11 < 0.01 * delta):
        return 0.0
    low, high = -(1.05 * upper + 3), 6 + 0.5 * upper
    bulk = -math.log1p(-rate)
    step = bulk / max(1.0, math.ceil(bulk * POINTS / (high - low)))  # the bulk of R lies near a point of the grid
    if (high - low) / step > 4 * POINTS:
        return 0.0
    first, last = math.floor(low / step), math.ceil(high / step)
    losses = np.asarray(step * np.arange(first, last + 1), dtype=np.float64)
    value, slack = _play([_kernel(rate, 2 / sigma, step, high, back) for back in (False, True)], steps, losses, step)
    shown = np.flatnonzero(value - slack > delta * (1 + 1e-12))
    return max(0.0, -float(losses[shown[0]])) if shown.size else 0.0


def hockey_stick(log_y: Array, rate: float, distance: float, back: bool) -> tuple[Array, Array]:
    """H(y) and -H'(y) = Q(r > y) of R or of its reverse, at y = e^log_y."""
    y = np.exp(log_y)
    if back:
        value, _ = hockey_stick(-log_y, rate, distance, False)
        star = _threshold(-log_y, rate, distance)
        return 1 - y + y * value, (1 - rate) * ndtr(star) + rate * ndtr(star - distance)
    star = _threshold(log_y, rate, distance)
    tail = ndtr(-star)
    return (1 - rate) * tail + rate * ndtr(distance - star) - y * tail, tail


def _threshold(log_y: Array, rate: float, distance: float) -> Array:
    """Where the likelihood ratio 1 - q + q e^{d x - d^2/2} reaches y; -inf where it always does."""
    ratio = np.expm1(log_y) / rate + 1
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(ratio > 0, np.log(np.maximum(ratio, 0.0)) / distance + distance / 2, -np.inf))


def _kernel(rate: float, distance: float, step: float, reach: float, back: bool) -> tuple[int, Array]:
    """First index and masses of a measure below the pair: chords under the tangents at the middles of the cells.

    The line from y = 0 to the first point lies under the tangent there; after the last point with G > 0 the mass at
    infinity is dropped. Both only lower the hockey stick.
    """
    size = math.ceil(reach / step)
    index = np.arange(-size, size + 1)
    centre = np.asarray(step * (index[:-1] + 0.5), dtype=np.float64)
    y, middle = np.exp(step * index), np.exp(centre)
    value, slope = hockey_stick(centre, rate, distance, back)
    lower = np.minimum(
        np.append(value - slope * (y[:-1] - middle), np.inf), np.insert(value - slope * (y[1:] - middle), 0, np.inf)
    )
    here, steep = (float(v[0]) for v in hockey_stick(np.array([step * index[0]]), rate, distance, back))
    lower[0] = min(float(lower[0]), here)
    small = np.flatnonzero(lower < _SMALLEST)
    end = int(small[0]) if small.size else y.size
    y, lower = y[:end], lower[:end]
    slopes = np.concatenate([[(lower[0] - (here + steep * y[0])) / y[0]], np.diff(lower) / np.diff(y), [0.0]])
    mass = convex_minorant(y * np.diff(slopes), step)
    used = np.flatnonzero(mass > 0)
    return int(index[used[0]]), mass[used[0] : used[-1] + 1]


def _play(kernels: list[tuple[int, Array]], steps: int, losses: Array, step: float) -> tuple[Array, float]:
    """The values after `steps` rounds and what they may be too large by. A round may also be passed: w never falls."""
    n = losses.size
    left = max(0, -min(first for first, _ in kernels))
    right = max(0, max(first + mass.size - 1 for first, mass in kernels))
    size = int(next_fast_len(n + left + right, real=True))
    table = np.zeros((len(kernels), size))
    for row, (first, mass) in zip(table, kernels, strict=True):
        row[first + left : first + left + mass.size] = mass
    transform = np.conj(rfft(table))
    w = np.maximum(-np.expm1(-losses), 0.0)
    padded, slack = np.zeros(size), 0.0
    padded[left + n : left + n + right] = -np.expm1(-(losses[-1] + step * np.arange(1, right + 1)))
    unit = 3 * KAPPA * 2.0**-53 * math.log2(size)
    for _ in range(steps):
        padded[left : left + n] = w
        slack += PROFILE_ERROR + unit * math.sqrt(float(np.sum(padded * padded)))
        spectrum = rfft(padded)
        for row in transform:
            np.maximum(w, irfft(spectrum * row, size, overwrite_x=True)[:n], out=w)
    return w * (1 - 1e-11 * steps), slack
