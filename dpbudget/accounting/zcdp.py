"""Zero-concentrated differential privacy: rho adds up, and turns into epsilon and delta from above.

rho-zCDP means Renyi divergence at most rho alpha at every order alpha > 1 (Bun, Steinke 2016, arXiv:1605.02065,
Def. 1.1). With lam = alpha - 1 and L = log(1 / delta) the conversion of Canonne, Kamath, Steinke 2020,
arXiv:2004.00010, Prop. 12, reads

    epsilon(lam) = rho (1 + lam) + (L - log(1 + lam)) / lam - log(1 + 1 / lam),

whose derivative rho - (L - log(1 + lam)) / lam^2 has one root: the minimum over all orders is one equation. It is below
the classical rho + 2 sqrt(rho L) (Bun, Steinke 2016, Prop. 1.3) always. Both are upper bounds; for a Gaussian the truth
is `gaussian.epsilon(delta, sigma)`. Everything here errs upwards in epsilon and delta, downwards in `rho`.
"""

from __future__ import annotations

import math

from dpbudget.accounting.gaussian import ROUND_OFF, falling_root
from dpbudget.errors import InputError


def rho_of_gaussian(sigma: float) -> float:
    """rho = 1 / (2 sigma^2) of a Gaussian release with this noise multiplier (Bun, Steinke 2016, Prop. 1.6).

    Rounded up; infinite at 0. Raises InputError on NaN or a negative multiplier.
    """
    if not sigma >= 0.0:
        raise InputError("noise_multiplier", f"{sigma} is not a number >= 0")
    if sigma < 1e-150:
        return math.inf
    return 0.5 / sigma / sigma * (1 + 4 * ROUND_OFF)


def epsilon(rho: float, delta: float) -> float:
    """The least epsilon that either conversion proves for rho-zCDP at this delta; 0 where the order proves so much.

    rho: >= 0.  delta: in (0, 1].  Raises InputError outside and on NaN.
    """
    _check("rho", rho)
    if not (0.0 < delta <= 1.0):
        raise InputError("delta", f"{delta} is not in (0, 1]")
    if rho == 0.0 or delta == 1.0:
        return 0.0
    if math.isinf(rho):
        return math.inf
    log_inverse = -math.log(delta)
    return max(0.0, min(classical_epsilon(rho, delta), _epsilon_at(rho, log_inverse, _best_order(rho, log_inverse))))


def classical_epsilon(rho: float, delta: float) -> float:
    """rho + 2 sqrt(rho log(1/delta)), rounded up (Bun, Steinke 2016, Prop. 1.3)."""
    return (rho + 2.0 * math.sqrt(rho) * math.sqrt(-math.log(delta))) * (1 + 8 * ROUND_OFF)


def delta(rho: float, epsilon: float) -> float:
    """The least delta that either conversion proves for rho-zCDP at this epsilon, in (0, 1].

    rho, epsilon: >= 0.  Raises InputError on NaN or negative values.
    The derivative of log delta(lam) is rho (1 + 2 lam) - epsilon - log(1 + 1 / lam): again one root.
    """
    _check("rho", rho)
    _check("epsilon", epsilon)
    if rho == 0.0 or math.isinf(epsilon):
        return 0.0

    def slope(log_lam: float) -> float:
        lam = math.exp(log_lam)
        return epsilon + math.log1p(1.0 / lam) - rho * (1.0 + 2.0 * lam)

    low, high = -690.0, math.log(max(1.0, (epsilon + 1.0) / 2.0) / min(rho, 1.0)) + 1.0
    if high > 690.0 or not slope(low) > 0.0:  # rho so small or so large that doubles end first
        return 1.0
    lam = math.exp(falling_root(slope, low, high))
    terms = (lam * rho * (1.0 + lam), -lam * epsilon, -lam * math.log1p(1.0 / lam), -math.log1p(lam))
    value = math.fsum(terms) + 8 * ROUND_OFF * math.fsum(abs(term) for term in terms)
    return min(1.0, math.nextafter(math.exp(min(0.0, value)), math.inf))


def rho(epsilon: float, delta: float) -> float:
    """The largest rho whose `epsilon(rho, delta)` is at most this epsilon, rounded down.

    epsilon: >= 0.  delta: in (0, 1].  Raises InputError outside and on NaN.
    """
    _check("epsilon", epsilon)
    if not (0.0 < delta <= 1.0):
        raise InputError("delta", f"{delta} is not in (0, 1]")
    if delta == 1.0 or math.isinf(epsilon):
        return math.inf

    def room(log_rho: float) -> float:
        return epsilon - _epsilon_unclipped(math.exp(log_rho), delta)

    low, high = 0.0, 0.0
    while not room(low) > 0.0:
        low = 2.0 * low - 1.0
        if low < -690.0:
            return 0.0
    while room(high) > 0.0:
        high = 2.0 * high + 1.0
        if high > 690.0:
            return math.exp(690.0)
    root = math.exp(falling_root(room, low, high))
    step = 2 * ROUND_OFF
    answer = root
    while _epsilon_unclipped(answer, delta) > epsilon and step < 1.0:
        answer = root * (1.0 - step)
        step *= 2.0
    return answer if step < 1.0 else 0.0


def _check(name: str, value: float) -> None:
    if not value >= 0.0:
        raise InputError(name, f"{value} is not a number >= 0")


def _best_order(rho: float, log_inverse: float) -> float:
    """lam = alpha - 1 with rho lam^2 + log(1 + lam) = L, which is at most both sqrt(L / rho) and e^L - 1."""
    root_rho = math.sqrt(rho)
    top = math.sqrt(log_inverse) / root_rho
    if log_inverse < 700.0:
        top = min(top, math.expm1(log_inverse))
    return falling_root(lambda lam: log_inverse - math.log1p(lam) - (root_rho * lam) ** 2, 0.0, top * (1 + 1e-9))


def _epsilon_at(rho: float, log_inverse: float, lam: float) -> float:
    """The conversion at one order, rounded up; any order > 1 is valid."""
    if not lam > 0.0:
        return math.inf
    terms = (rho, rho * lam, log_inverse / lam, -math.log1p(lam) / lam, -math.log1p(1.0 / lam))
    return math.fsum(terms) + 8 * ROUND_OFF * math.fsum(abs(term) for term in terms)


def _epsilon_unclipped(rho: float, delta: float) -> float:
    log_inverse = -math.log(delta)
    return min(classical_epsilon(rho, delta), _epsilon_at(rho, log_inverse, _best_order(rho, log_inverse)))
