"""One number for a whole curve: the mu of the Gaussian that covers it down to a stated floor.

Source: Gomez, Kulynych et al. 2025, arXiv:2503.10945; mu-GDP is Dong, Roth, Su 2022, arXiv:1905.02383, Sec. 2.3.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from dpbudget.accounting.tradeoff import NEGLIGIBLE, Array, Ends, Profile
from dpbudget.errors import InputError, NotCertified


def gaussian_delta(mu: Array | float, epsilon: Array) -> tuple[Array, Array]:
    """(delta, log of minus its slope in e^epsilon) of mu-GDP, nearest values; relative error below 1e-13 (1 + 1 / mu)."""
    a = log_ndtr(mu / 2 - epsilon / mu)
    b = log_ndtr(-mu / 2 - epsilon / mu)
    with np.errstate(under="ignore"):
        return np.exp(a) * -np.expm1(np.minimum(epsilon + b - a, 0.0)), b


def gaussian_mu(delta: Array, epsilon: Array) -> Array:
    """The mu at which mu-GDP has this delta at this epsilon, by bisection on log mu, all at once."""
    low, high = np.full(delta.shape, -20.0), np.full(delta.shape, 6.0)
    for _ in range(60):
        middle = (low + high) / 2
        over = gaussian_delta(np.exp(middle), epsilon)[0] > delta
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return np.asarray(np.exp((low + high) / 2), dtype=np.float64)


def gdp_summary(profile: Profile, floor: float, *, tolerance: float = 1e-5, budget: int = 3000) -> Ends:
    """(lower, upper) of the smallest mu whose curve lies above delta(epsilon) wherever delta(epsilon) >= floor.

    profile: of all directions (`largest`).  floor: in (0, 1).  Without a floor the answer would be useless: the far tail
    of a sampled Gaussian is that of an unsampled one.
    tolerance: wanted (upper - lower) / upper; cells that need it are halved until the profile was evaluated at `budget`
    points, or the ends of delta are the limit. The upper end is proven in any case.
    """
    if not (0.0 < floor < 1.0):
        raise InputError("floor", f"{floor} is not in (0, 1)")
    if profile.at(0.0)[1] < floor:
        return 0.0, 0.0
    shown, end = _floor_crossing(profile, floor)
    for e in np.linspace(0.0, end, 33):
        profile.at(float(e))
    lower = 0.0
    while True:
        table = profile.points()
        epsilon, low, high = (column[table[0] <= end] for column in table)
        safe = epsilon <= shown
        safe &= low > 0.0
        if safe.any():
            lower = max(lower, float(gaussian_mu(low[safe], epsilon[safe]).max()) * (1 - 1e-9))
        wanted = float(gaussian_mu(high, epsilon).max()) * (1 + tolerance)
        missed = ~(_lack(wanted, epsilon, high) <= 0.0)
        open_cells = np.flatnonzero(missed & (np.diff(epsilon) > 1e-4 * tolerance * end))
        if open_cells.size == 0 or epsilon.size + open_cells.size > budget:
            break
        for j in open_cells:
            profile.at(float(epsilon[j] + epsilon[j + 1]) / 2)
    mu, step = float(gaussian_mu(high, epsilon).max()), tolerance / 64
    while not np.all(_lack(mu, epsilon, high) <= 0.0):
        mu, step = mu * (1 + step), step * 1.3
        if not mu < 1e9:
            raise NotCertified("no Gaussian was shown to cover the curve")
    return lower, mu * (1 + 1e-12)


def _lack(mu: float, epsilon: Array, high: Array) -> Array:
    """Per cell, shape (n - 1,): positive where mu-GDP was not shown to be above the chord of the upper ends of delta.

    In a cell mu-GDP is above its two tangents; their maximum is compared with the chord at both ends and at the kink.
    """
    # in each cell e^epsilon is measured in units of its right end, since it may overflow
    width = -np.expm1(-np.diff(epsilon))
    value, log_slope = gaussian_delta(mu, epsilon)
    guard = 1e-11 + 1e-13 / mu
    v = value * (1 - guard)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        left = -np.exp(log_slope[:-1] + epsilon[1:]) * (1 + guard)
        right = -np.exp(log_slope[1:] + epsilon[1:]) * (1 + guard)
        cross = np.where(right > left, (v[1:] - v[:-1] - right * width) / (left - right), 0.0)
        cross = np.clip(cross, 0.0, width)
        chord = high[:-1] + (high[1:] - high[:-1]) * cross / width
        kink = np.maximum(v[:-1] + left * cross, v[1:] + right * (cross - width))
    return np.asarray(np.maximum.reduce((chord - kink, high[:-1] - v[:-1], high[1:] - v[1:])), dtype=np.float64)


def _floor_crossing(profile: Profile, floor: float) -> Ends:
    """(shown, end): delta >= floor is proven up to `shown` (-1: nowhere), delta <= floor at `end`; close to each other."""
    inside, outside = 0.0, 1.0
    while profile.at(outside, NEGLIGIBLE * floor)[1] > floor:
        inside, outside = outside, 2.0 * outside
        if outside > 1e6:
            raise NotCertified("delta does not fall to the floor", hint="Choose a floor above the mass at infinity.")
    for turn in range(60):
        if outside - inside <= 1e-8 * outside:
            break
        middle = (inside + outside) / 2
        if turn % 3 and profile.at(outside)[1] > 0.0:
            # log delta is almost straight between close points; a nudge to either side makes both ends move.
            a, b = math.log(profile.at(inside)[1]), math.log(profile.at(outside)[1])
            share = (a - math.log(floor)) / (a - b) if a > b else 0.5
            guess = inside + share * (outside - inside) + (4e-9 if turn % 3 == 1 else -4e-9) * outside
            middle = guess if inside < guess < outside else middle
        if profile.at(middle)[1] > floor:
            inside = middle
        else:
            outside = middle
    back = 1e-8
    while back < 1.0 and profile.at(outside * (1 - back))[0] < floor and profile.at(outside * (1 - back))[1] > 0.0:
        back *= 4.0
    epsilon, low, _ = profile.points()
    proven = epsilon[low >= floor]
    return (float(proven.max()) if proven.size else -1.0), outside
