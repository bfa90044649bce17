"""Pairs that live on finitely many points: what partitions and sums on a grid give, moved to the safe side."""

from __future__ import annotations

import math

import numpy as np

from dpbudget.accounting import mesh
from dpbudget.accounting.discrete_pairs import AtomicPair
from dpbudget.accounting.pair import Array
from dpbudget.errors import InputError, NotCertified

SUM_ERROR = 1e-10
"""Covers the round-off of sums over the atoms of one use: relative for delta, absolute for epsilon."""


def atomic_pair(loss: Array, mass: Array, *, infinite: float = 0.0, error: float, side: int) -> AtomicPair:
    """A pair from computed arrays, on the safe side: side 1 lies above the exact pair, side -1 below it.

    error: bound on the relative error of the P-masses and the absolute error of the losses. Raising P-masses and
    losses raises P and lowers Q, hence every hockey stick; lowering both lowers it. Empty atoms are left out.
    """
    if not (np.all(np.isfinite(loss)) and np.all(mass >= 0) and infinite >= 0 and error >= 0):
        raise NotCertified("the masses of a finite pair are not numbers >= 0")
    used = np.flatnonzero(mass > 0)
    moved = loss[used] + side * error
    scaled = mass[used] * (1 + side * error)
    return AtomicPair(tuple(zip(moved.tolist(), scaled.tolist(), strict=True)), infinite)


def hockey_stick(loss: Array, mass: Array, infinite: float, epsilon: float) -> float:
    """sum mass (1 - e^{epsilon - loss})_+ + infinite, the profile of one use of a finite pair."""
    above = loss > epsilon
    return float(mass[above] @ -np.expm1(epsilon - loss[above])) + infinite


def invert_hockey_stick(loss: Array, mass: Array, infinite: float, delta: float) -> float:
    """The epsilon >= 0 with profile delta: between neighbouring losses the profile is a - b e^epsilon exactly.

    inf where the infinite mass exceeds delta. The result carries round-off; the caller moves it to the safe side.
    """
    if infinite >= delta:
        return float("inf")
    order = np.argsort(loss)[::-1]
    level = loss[order]
    weight = mass[order]
    heads = infinite + np.cumsum(weight)
    with np.errstate(divide="ignore", under="ignore"):
        log_tails = np.logaddexp.accumulate(np.log(weight) - level)
        at = heads - np.exp(log_tails + level)  # the profile at each loss, including its own (zero) share
    i = int(np.searchsorted(at, delta)) - 1  # the profile rises as the loss falls; it passes delta below level[i]
    if i < 0:
        return max(0.0, float(level[0]))
    return max(0.0, float(np.log(heads[i] - delta) - log_tails[i]))


def composed_epsilon(pair: AtomicPair, count: int, delta: float, tolerance: float = 1e-6) -> tuple[float, float]:
    """(lower, upper) of epsilon for `count` uses of a finite pair: in closed form for one, else by the lattice."""
    if not (0 < delta < 1):
        raise InputError("delta", f"{delta} is not in (0, 1)")
    if -math.expm1(count * math.log1p(-min(pair.infinite_mass, 1 - 1e-16))) >= delta:
        return 0.0, math.inf
    if not pair.atoms:
        return 0.0, 0.0
    if count == 1:
        loss, mass = np.array(pair.atoms).T
        value = invert_hockey_stick(loss, mass, pair.infinite_mass, delta)
        low, high, margin = value - SUM_ERROR, value + SUM_ERROR, SUM_ERROR
        while low > 0 and hockey_stick(loss, mass, pair.infinite_mass, low) * (1 - SUM_ERROR) < delta:
            low, margin = low - margin, 2 * margin
        while hockey_stick(loss, mass, pair.infinite_mass, high) * (1 + SUM_ERROR) > delta:
            high, margin = high + margin, 2 * margin
        return max(0.0, low), high
    return mesh.mesh_epsilon([(pair, count)], delta, tolerance)[:2]


def composed_delta(
    pair: AtomicPair, count: int, epsilon: float, guess: float, tolerance: float = 1e-6
) -> tuple[float, float]:
    """(lower, upper) of delta at epsilon; guess: its rough size."""
    if not (epsilon >= 0):
        raise InputError("epsilon", f"{epsilon} is not a number >= 0")
    if count == 1 and pair.atoms:
        loss, mass = np.array(pair.atoms).T
        value = hockey_stick(loss, mass, pair.infinite_mass, epsilon)
        return value * (1 - SUM_ERROR), value * (1 + SUM_ERROR)
    infinite = -math.expm1(count * math.log1p(-min(pair.infinite_mass, 1 - 1e-16)))
    if epsilon >= count * max((loss for loss, _ in pair.atoms), default=0.0):
        return 0.0, min(1.0, infinite * (1 + SUM_ERROR))
    log_guess = math.log(min(max(guess, 1e-300), 1.0))
    return mesh.mesh_delta([(pair, count)], epsilon, log_guess, tolerance)[:2]
