"""Shuffled batches: a proven upper bound and the best known lower bound; the gap between them is analysis.

An epoch permutes the records and cuts them into T batches; the record is in exactly one. Given the permutation, the
step that uses the record is one Gaussian release and the others cost nothing, so that an epoch is at most one Gaussian
release: mu = 1 / sigma under zero-out, 2 / sigma under replace-one. Epochs compose. No amplification is proven.

The lower bound is a data set that exists: every other record contributes -1, the record +1. In units of the clipping
norm, and up to a public shift, its batch moves by 2, at a place that is uniform; zeroed out it moves by 1, replaced by
another -1 it does not move. Looking at the largest of the T sums alone gives a pair on the line,

    P(max <= c) = Phi((c - 2)/s) Phi(c/s)^{T-1},   Q(max <= c) = Phi((c - d)/s) Phi(c/s)^{T-1},   d = 1 or 0,

and cutting the line at finitely many points a finite pair; both are post-processing, so that its compositions over epochs
are lower bounds. Source: Chua et al. 2024, arXiv:2403.17673 (one epoch), arXiv:2411.04205 (several epochs).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from dpbudget.accounting import gaussian
from dpbudget.accounting.atoms import atomic_pair, composed_delta, composed_epsilon
from dpbudget.accounting.discrete_pairs import AtomicPair
from dpbudget.accounting.pair import Array
from dpbudget.errors import InputError
from dpbudget.model import Adjacency, Interval

PARTS = (4000, 1000)
"""Intervals of the largest sum that the lower bound tells apart, for one epoch and for several."""

TOLERANCE = 1e-4
"""Relative width that the composition of the lower bound may cost; the gap from analysis is larger."""

ROUND_OFF = 1e-11
"""Covers the relative error of the masses, differences of normal tails included, and of the losses."""

_SHIFT = {Adjacency.ZERO_OUT: 1.0, Adjacency.REPLACE_ONE: 0.0}


def epsilon(
    sigma: float, steps_per_epoch: int, epochs: int, delta: float, *, adjacency: Adjacency = Adjacency.ZERO_OUT
) -> Interval:
    """[lower, upper] of epsilon for `epochs` freshly shuffled epochs of `steps_per_epoch` batches.

    sigma: noise over the clipping norm. upper: proven, one Gaussian release an epoch. lower: proven, attained by a data
    set. The gap is analysis: nobody knows the truth in between.
    """
    _check(sigma, steps_per_epoch, epochs, adjacency)
    _, upper = gaussian.epsilon_interval(delta, _one_release(sigma, epochs, adjacency))
    pairs = lower_pairs(sigma, steps_per_epoch, adjacency, parts=PARTS[epochs > 1]).values()
    return Interval(min(max(composed_epsilon(pair, epochs, delta, TOLERANCE)[0] for pair in pairs), upper), upper)


def delta(
    sigma: float, steps_per_epoch: int, epochs: int, epsilon: float, *, adjacency: Adjacency = Adjacency.ZERO_OUT
) -> Interval:
    """[lower, upper] of delta at epsilon; as `epsilon`."""
    _check(sigma, steps_per_epoch, epochs, adjacency)
    _, upper = gaussian.delta_interval(epsilon, _one_release(sigma, epochs, adjacency))
    pairs = lower_pairs(sigma, steps_per_epoch, adjacency, parts=PARTS[epochs > 1]).values()
    return Interval(
        min(max(composed_delta(pair, epochs, epsilon, upper, TOLERANCE)[0] for pair in pairs), upper), upper
    )


def lower_pairs(
    sigma: float, steps_per_epoch: int, adjacency: Adjacency = Adjacency.ZERO_OUT, *, parts: int = PARTS[0]
) -> dict[str, AtomicPair]:
    """One epoch of the data set above, the largest sum known up to an interval: a finite pair for either direction.

    Every pair lies below the mechanism; composed over epochs it stays below.
    """
    _check(sigma, steps_per_epoch, 1, adjacency)
    log_p, log_q = _log_masses(sigma, steps_per_epoch, _SHIFT[adjacency], parts)
    used = np.isfinite(log_p) & np.isfinite(log_q)
    log_p, log_q = log_p[used], log_q[used]
    return {
        "remove": atomic_pair(log_p - log_q, np.exp(log_p), error=ROUND_OFF, side=-1),
        "add": atomic_pair(log_q - log_p, np.exp(log_q), error=ROUND_OFF, side=-1),
    }


def _log_masses(sigma: float, batches: int, shift: float, parts: int) -> tuple[Array, Array]:
    """Log masses of the largest sum in the intervals between cuts, under P and under Q.

    A mass is d exp(F) with F = log cdf: e^{F_b} (1 - e^{F_a - F_b}), and F_b - F_a without cancellation where the cdf
    is near 1, from differences of upper tails.
    """
    other = float(-ndtri_exp(-math.log(2) - math.log(batches))) if batches > 1 else 0.0  # about the median of the rest
    low, high = min(other, 0.0) - 2.0, max(other, 0.0) + 2.0 / sigma + 38.0
    cuts = np.linspace(low, high, parts)
    masses = []
    for centre in (2.0, shift):
        moved, rest = cuts - centre / sigma, cuts
        log_cdf = log_ndtr(moved) + (batches - 1) * log_ndtr(rest)
        rise = _log_rise(moved) + (batches - 1) * _log_rise(rest)
        with np.errstate(divide="ignore", under="ignore"):
            inner = log_cdf[1:] + np.log(-np.expm1(-rise))
            top = np.log(ndtr(-moved[-1]) + (batches - 1) * ndtr(-rest[-1]))
        masses.append(np.concatenate([log_cdf[:1], inner, [top]]))
    return masses[0][:-1], masses[1][:-1]


def _log_rise(x: Array) -> Array:
    """log Phi(x_{i+1}) - log Phi(x_i) for increasing x, with relative accuracy about 1e-12."""
    left, right = x[:-1], x[1:]
    with np.errstate(under="ignore", divide="ignore", invalid="ignore"):
        tails = np.log1p((ndtr(-left) - ndtr(-right)) / ndtr(left))
        direct = log_ndtr(right) - log_ndtr(left)
    return np.where(left > -1.0, tails, direct)


def _one_release(sigma: float, epochs: int, adjacency: Adjacency) -> float:
    """The multiplier of one Gaussian release worth all epochs, rounded down."""
    doubled = 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
    return sigma / doubled / math.sqrt(epochs) * (1 - 4e-16)


def _check(sigma: float, steps_per_epoch: int, epochs: int, adjacency: Adjacency) -> None:
    if not (0 < sigma < math.inf):
        raise InputError("noise_multiplier", f"{sigma} is not a positive number")
    if not (steps_per_epoch >= 1):
        raise InputError("steps", f"{steps_per_epoch} is not a positive number of batches per epoch")
    if not (epochs >= 1):
        raise InputError("epochs", f"{epochs} is not a positive number of epochs")
    if adjacency not in _SHIFT:
        raise InputError(
            "adjacency",
            "adding or removing a record moves all later batches of a shuffled epoch; no bound is known",
            hint="Use --adjacency zero-out or replace-one.",
        )
