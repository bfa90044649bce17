"""delta(epsilon) by a contour integral over the cumulant of the loss: ten digits in milliseconds, and no proof.

With K(z) = sum_j T_j log E_{P_j}[e^{z L_j}] and any t > 0
    delta(eps) = (1 / 2 pi) int exp(K(t + iy) - eps (t + iy)) / ((t + iy)(1 + t + iy)) dy.
The trapezoid rule with step dy converges exponentially: its error is sum_{k != 0} e^{t k R} delta(eps + k R), R = 2 pi / dy.
t is the saddle point, so that the integrand does not cancel and delta = 1e-50 costs what 1e-5 does.
Every value is compared with the same sum on half the nodes and with finer panels in x; what can't be trusted to 1e-8 is
None, never a number. Estimates only: they steer the solvers, certified bounds come from elsewhere.
Source: Alghamdi et al. 2023, arXiv:2208.09595; the trapezoid error by Poisson summation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpbudget.accounting.core import Core, find_core
from dpbudget.accounting.pairs import Pair
from dpbudget.accounting.saddle import Cut, NoConvergence, Parts, Saddle, infinite_mass, solve_saddle
from dpbudget.accounting.single import single_epsilon, single_log_delta
from dpbudget.accounting.transform import Contour, contour_around
from dpbudget.errors import InputError, NotCertified

LOG_CUT, LOG_ENOUGH = math.log(1e-12), math.log(1e-10)  # share of delta above the last node: aimed at, accepted
LOG_CUT_CORE = math.log(1e-24)  # the same with a core: a cut is a jump, and its transform is all that decays slowly


def _live(parts: Parts) -> list[tuple[Pair, int]]:
    for _, count in parts:
        if not count >= 0:
            raise InputError("steps", f"{count} is not a number of steps >= 0")
    return [(pair, count) for pair, count in parts if count > 0]


def tilt(parts: Parts, delta: float) -> tuple[float, float]:
    """(t, epsilon): the saddle point of the composition at delta and the epsilon of leading order, within some per cent.

    delta: in (0, 1). Costs about a millisecond.
    """
    if not 0.0 < delta < 1.0:
        raise InputError("delta", f"{delta} is not in (0, 1)")
    cut = Cut(_live(parts), math.log(delta) + LOG_CUT)
    found = solve_saddle(cut, "log_delta", math.log(delta), _start(cut, math.log(delta)))
    return found.t, found.epsilon


def _start(cut: Cut, log_delta: float) -> float:
    spread = sum(count * float(n.weight @ np.square(n.loss)) for n, count in cut.nodes(1.0, 1.0))
    return math.sqrt(-2.0 * log_delta / spread) if 0.0 < spread < math.inf else 1.0


def epsilon(parts: Parts, delta: float) -> float | None:
    """epsilon at delta to about 1e-9 relative, or None where the method does not pass its own check. An estimate."""
    return epsilons(parts, [delta])[0]


def epsilons(parts: Parts, deltas: Sequence[float]) -> list[float | None]:
    """epsilon at each delta."""
    live = _live(parts)
    out: list[float | None] = []
    for delta in deltas:
        if not delta > 0.0:
            raise InputError("delta", f"{delta} is not in (0, 1]")
        if not live or delta >= 1.0:
            out.append(0.0)
            continue
        try:
            out.append(_epsilon(live, delta))
        except (NoConvergence, NotCertified):
            out.append(None)
    return out


def _epsilon(parts: list[tuple[Pair, int]], delta: float) -> float:
    if sum(count for _, count in parts) == 1:
        return single_epsilon(parts[0][0], math.log(delta))
    log_delta = math.log(delta)
    cut, infinite = Cut(parts, log_delta + LOG_CUT), infinite_mass(parts)
    if delta <= infinite:
        return math.inf
    if _total_variation(cut) <= delta:
        return 0.0
    target = math.log(delta - infinite) if infinite > 0.0 else log_delta
    saddle = solve_saddle(cut, "log_delta", target, _start(cut, target))
    try:
        return _find_epsilon(cut, saddle, target, False)
    except NoConvergence:
        return _find_epsilon(Cut(parts, log_delta + LOG_CUT_CORE), saddle, target, True)


def _total_variation(cut: Cut) -> float:
    """The sum of the steps' total variation distances, which bounds delta(0) from above."""
    return sum(
        count * (float(n.weight @ -np.expm1(-np.maximum(n.loss, 0.0))) + n.missing) for n, count in cut.nodes(1.0, 1.0)
    )


def _find_epsilon(cut: Cut, saddle: Saddle, target: float, with_core: bool) -> float:
    """Newton on one contour, a new contour where epsilon moved away from its saddle point, until it stays."""
    core, spread, before = None, 1.0, math.nan
    for _ in range(14):
        if with_core:
            core, saddle = _coring(cut, saddle, target)
        contour = contour_around(cut, saddle, spread, core)
        found, change = _newton(contour, target)
        moved = abs(found - saddle.epsilon) * saddle.t
        near = solve_saddle(cut, "epsilon", found, saddle.t, core)
        stays = abs(math.log(near.t / saddle.t)) < 0.3 or moved < 1e-3
        if stays and change < 3e-5 and contour.trusted(found, target):
            return max(found, 0.0)
        if stays and change < 3e-5 and abs(found - before) * saddle.t < 1e-7:
            raise NoConvergence  # the same value once more, and still not trusted
        before = found
        spread = spread * 1.6 if stays and change >= 3e-5 else spread
        saddle = near
    raise NoConvergence


def _coring(cut: Cut, saddle: Saddle, target: float) -> tuple[Core, Saddle]:
    """A core for about this epsilon, and the saddle point of what it leaves."""
    low, high = 0.0, math.inf
    for _ in range(24):
        core = find_core(cut.nodes(1.0, 1.0), saddle.epsilon, target)
        if core is None:
            raise NoConvergence
        if core.above:
            return core, solve_saddle(cut, "epsilon", saddle.epsilon, saddle.t, core)
        better = solve_saddle(cut, "log_delta", target, saddle.t, core)
        if abs(better.epsilon - saddle.epsilon) < 0.05 * abs(saddle.epsilon):
            return core, better
        if better.epsilon > saddle.epsilon:
            low, guess = saddle.epsilon, better.epsilon
        else:  # also where less than delta lies outside the core, and better.epsilon means nothing
            high, guess = saddle.epsilon, max(better.epsilon, saddle.epsilon / 8.0)
        if not low < guess < high:
            guess = math.sqrt(max(low, high / 64.0) * high)
        saddle = replace(saddle if better.epsilon <= 0.0 else better, epsilon=guess)
    raise NoConvergence


def _newton(contour: Contour, target: float) -> tuple[float, float]:
    """The epsilon where log delta is the target, and the change on half the nodes there."""
    guess = contour.centre
    for _ in range(30):
        value, slope, change = contour.log_delta(guess)
        if not slope < 0.0:
            raise NoConvergence
        step = (target - value) / slope
        step = min(max(step, -5.0 / contour.t), 5.0 / contour.t)
        guess += step
        if abs(step) < 1e-12 * abs(guess) + 1e-14 / contour.t or abs(guess - contour.centre) * contour.t > 15.0:
            return guess, change
    raise NoConvergence


def log_delta(parts: Parts, epsilon: float) -> float | None:
    """log delta at epsilon to about 1e-9, or None where the method does not pass its own check. An estimate."""
    if not epsilon >= 0.0:
        raise InputError("epsilon", f"{epsilon} is not a number >= 0")
    live = _live(parts)
    infinite = infinite_mass(live)
    if not live or epsilon == math.inf or infinite >= 1.0:
        return math.log(infinite) if infinite > 0.0 else -math.inf
    try:
        if sum(count for _, count in live) == 1:
            return single_log_delta(live[0][0], epsilon)[0]
        return float(np.logaddexp(_log_delta(live, epsilon), math.log(infinite) if infinite > 0.0 else -math.inf))
    except (NoConvergence, NotCertified):
        return None


def delta(parts: Parts, epsilon: float) -> float | None:
    """delta at epsilon, as log_delta."""
    value = log_delta(parts, epsilon)
    return None if value is None else math.exp(value)


def _log_delta(parts: list[tuple[Pair, int]], epsilon: float) -> float:
    """The cut must cost a fixed share of delta: cut by a guess, bound delta, and cut anew until the guess holds.

    The bound by one moment, not the leading order, which fails where a far tail still rules the moments.
    """
    guess = -60.0
    for _ in range(12):
        cut = Cut(parts, guess)
        saddle = solve_saddle(cut, "epsilon", epsilon, _start(cut, -30.0))
        wanted = min(saddle.log_bound, 0.0) + LOG_CUT - 4.0
        if abs(wanted - guess) < 2.0:
            break
        guess = wanted
    try:
        return _value_at(cut, saddle, epsilon, guess, None)
    except NoConvergence:
        guess += LOG_CUT_CORE - LOG_CUT
        cut = Cut(parts, guess)
        core = find_core(cut.nodes(1.0, 1.0), epsilon, saddle.log_bound)
        if core is None:
            raise
        return _value_at(cut, solve_saddle(cut, "epsilon", epsilon, saddle.t, core), epsilon, guess, core)


def _value_at(cut: Cut, saddle: Saddle, epsilon: float, log_cut: float, core: Core | None) -> float:
    for spread in (1.0, 1.6, 2.5):
        contour = contour_around(cut, saddle, spread, core)
        value, _, change = contour.log_delta(epsilon)
        if value + LOG_ENOUGH < log_cut or not contour.trusted(epsilon, value):
            raise NoConvergence
        if change < 3e-5:
            return min(value, 0.0)
    raise NoConvergence
