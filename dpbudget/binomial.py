"""Binomial probabilities with a known error: the mass of one count, and both tails beyond a count. Plain numerics.

The mass comes from deviances (Loader 2000, "Fast and accurate computation of binomial probabilities"), never from
differences of log-gammas, which lose 1e-6 at n = 1e9; tails are sums of positive masses, so that nothing cancels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbudget.errors import InputError

Array = NDArray[np.float64]

MOST_TRIALS = 10**9
"""Tails of more trials would be sums of too many terms."""

ROUND = 2.0**-52
HALF_LOG_2PI = 0.9189385332046727
_STIRLING = np.array([0.0] + [math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - HALF_LOG_2PI for n in range(1, 16)])


def log_mass(j: Array, n: int, p: float, q: float) -> tuple[Array, Array]:
    """(log Pr[Bin(n, p) = j], bound on its absolute error), each of the shape of j.

    j: whole numbers in [0, n].  p, q = 1 - p in (0, 1), both with full relative accuracy.
    """
    log_p = math.log1p(-q) if q < 0.5 else math.log(p)
    log_q = math.log1p(-p) if p < 0.5 else math.log(q)
    rest = n - j
    ends = (j == 0.0) | (rest == 0.0)
    first, first_size = _deviance(j, n * p)
    second, second_size = _deviance(rest, n * q)
    inner = np.where(ends, 1.0, j * (rest / n))
    correction = _stirling_error(np.asarray([n], dtype=np.float64)) - _stirling_error(j) - _stirling_error(rest)
    value = correction - first - second - 0.5 * np.log(inner) - HALF_LOG_2PI
    value = np.where(j == 0.0, n * log_q, value)
    value = np.where(rest == 0.0, n * log_p, value)
    # n p carries 4 units of round-off, which the deviance takes up |x - np| + x |log(x / np)| fold.
    return value, 2e-14 + 16 * ROUND * (first_size + second_size) + 4 * ROUND * np.abs(value)


@dataclass(frozen=True)
class Tails:
    """(lower, upper) ends of Pr[Bin <= k] and of Pr[Bin > k], each good relative to itself."""

    below: tuple[float, float]
    above: tuple[float, float]


def tails(k: int, n: int, p: float) -> Tails:
    """Both tails of Bin(n, p) beyond k. n: from 0 to MOST_TRIALS.  p: in (0, 1).

    The smaller one is a sum of masses, with a geometric bound on what follows; the other is 1 less that sum.
    """
    if not (0 <= n <= MOST_TRIALS and 0.0 < p < 1.0):
        raise InputError("dataset_size", f"tails of {n} trials at {p} are not computed")
    if k < 0 or k >= n:
        sure, never = (1.0, 1.0), (0.0, 0.0)
        return Tails(never, sure) if k < 0 else Tails(sure, never)
    if k + 1 > n * p:
        above = _from(k + 1, n, p, 1.0 - p)
        return Tails(_complement(above), above)
    below = _from(n - k, n, 1.0 - p, p)  # as failures: at least n - k of them
    return Tails(below, _complement(below))


def _from(first: int, n: int, p: float, q: float) -> tuple[float, float]:
    """Ends of Pr[Bin(n, p) >= first] for first above the mean, where the masses fall."""
    reach = math.ceil(13.0 * math.sqrt(n * p * q)) + 200
    last = min(n, first + reach)
    log_masses, error = log_mass(np.arange(first, last + 1, dtype=np.float64), n, p, q)
    with np.errstate(under="ignore"):
        masses = np.exp(log_masses)
    slack = float(error.max()) * 1.01 + (masses.size + 8) * ROUND
    ratio = (n - last) / (last + 1) * (p / q) * (1 + 4 * ROUND)
    total, rest = float(masses.sum()), float(masses[-1]) * ratio / (1.0 - ratio) if ratio < 1.0 else math.inf
    return total * (1.0 - slack), min(1.0, (total + rest) * (1.0 + slack) + 1e-300)


def _complement(ends: tuple[float, float]) -> tuple[float, float]:
    return (1.0 - ends[1]) * (1 - 2 * ROUND), min(1.0, (1.0 - ends[0]) * (1 + 2 * ROUND))


def _deviance(x: Array, mean: float) -> tuple[Array, Array]:
    """x log(x / mean) + mean - x >= 0, and the size that its round-off is relative to. Same shape as x."""
    d = (x - mean) / mean
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = np.where(x > 0.0, np.log1p(d), 0.0)
    return x * logarithm - (x - mean), np.abs(x - mean) + x * np.abs(logarithm)


def _stirling_error(n: Array) -> Array:
    """log n! - log(sqrt(2 pi n) (n / e)^n), to 1e-14 absolutely; 0 at n = 0. Same shape as n."""
    big = np.maximum(n, 16.0)
    square = big * big
    tail = 1 / 1680 - (1 / 1188) / square
    series = (1 / 12 - (1 / 360 - (1 / 1260 - tail / square) / square) / square) / big
    return np.where(n < 16.0, _STIRLING[np.minimum(n, 15.0).astype(np.intp)], series)
