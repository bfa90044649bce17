"""One unsampled Gaussian release: epsilon, delta and the noise multiplier from the other two, exactly.

Source: Balle, Wang 2018, arXiv:1805.06530, Thm 8. With s the noise standard deviation over the L2 sensitivity,
m = 1/s, x = epsilon s - m/2 and y = x + m, the least delta is Phi(-x) - e^epsilon Phi(-y). Because
e^epsilon phi(y) = phi(x), this is

    delta = phi(x) (M(x) - M(y)),      M(t) = Phi(-t) / phi(t)      (Mills ratio),

and M(x) - M(y) = int_0^inf e^(-x u - u^2/2) (1 - e^(-m u)) du has a positive integrand: no digit is lost however small
delta is and however large s is. Releases with multipliers s_i are one release with (sum s_i^-2)^(-1/2), adaptively too.

`log_delta` is the nearest value. The `_interval` functions enclose the truth, and `delta`, `epsilon`, `sigma` are the
upper ends of theirs: they err upwards only, by a relative 1e-13 or so.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx

from dpbudget.accounting.search import next_share
from dpbudget.errors import InputError, NotCertified

ROUND_OFF = sys.float_info.epsilon
LOG_SQRT_2PI = 0.9189385332046727
_NODE, _WEIGHT = np.polynomial.legendre.leggauss(24)
_EDGES = np.array([0.0, 2.0, 6.0, 16.0, 50.0])
_HALF = np.diff(_EDGES)[:, None] / 2
_V = (_EDGES[:-1, None] + _HALF * (1 + _NODE)).ravel()
_W = (_HALF * _WEIGHT).ravel()


@dataclass(frozen=True, slots=True)
class ClassicalSigma:
    """sigma: the classical noise multiplier.  proven: whether the theorem covers this epsilon."""

    sigma: float
    proven: bool


def log_delta(epsilon: float, sigma: float) -> float:
    """Natural logarithm of the least delta of a Gaussian release with multiplier sigma, in nats, <= 0.

    epsilon: >= 0.  sigma: >= 0; 0 gives log 1.  The error is at most `log_delta_margin` of the result, to either side.
    Raises InputError on NaN or negative input.
    """
    _check(epsilon, sigma)
    if sigma == 0.0:
        return 0.0
    if math.isinf(epsilon) or math.isinf(sigma):
        return -math.inf
    x, m = _offset(epsilon, sigma), 1.0 / sigma
    log_phi = -0.5 * x * x - LOG_SQRT_2PI
    if x < -1.0:
        return math.log1p(-math.exp(log_phi) * (_mills(-x) + _mills(x + m)))
    gap = _mills_gap(x, m)
    return log_phi + math.log(gap) if gap > 0.0 else -math.inf


def log_delta_margin(value: float) -> float:
    """A bound on the error of log_delta that returned `value`: 2e-14 and 8 units of round-off of its size.

    x is rounded once from its exact value, so that x^2/2 carries 3 units; the integral is a sum of 96 positive terms.
    """
    return 2e-14 + 8 * ROUND_OFF * abs(value)


def delta_interval(epsilon: float, sigma: float) -> tuple[float, float]:
    """(lower, upper) around the least delta; the upper end is never 0 for finite input."""
    value = log_delta(epsilon, sigma)
    if value == 0.0:
        return (1.0, 1.0) if sigma == 0.0 else (1.0 - 1e-15, 1.0)
    if math.isinf(epsilon) or math.isinf(sigma):
        return 0.0, 0.0
    margin = log_delta_margin(value)
    if math.isinf(value):
        return 0.0, math.ulp(0.0)
    upper = math.nextafter(math.exp(value + margin), math.inf)
    return max(0.0, math.nextafter(math.exp(value - margin), -math.inf)), min(1.0, upper)


def delta(epsilon: float, sigma: float) -> float:
    """The least delta of a Gaussian release, rounded up (see `delta_interval`)."""
    return delta_interval(epsilon, sigma)[1]


def epsilon_interval(delta: float, sigma: float) -> tuple[float, float]:
    """(lower, upper) around the least epsilon >= 0 at this delta.

    delta: in [0, 1]; from the total variation distance on, both ends are 0; at 0 both are infinite.  sigma: >= 0.
    Raises InputError outside of these ranges and on NaN.
    """
    _check_delta(delta)
    _check(0.0, sigma)
    if delta == 1.0 or math.isinf(sigma):
        return 0.0, 0.0
    if delta == 0.0 or sigma == 0.0:
        return math.inf, math.inf
    below, above = _targets(delta)

    def excess(epsilon: float) -> float:
        return log_delta(epsilon, sigma) - above

    if _below(log_delta(0.0, sigma), above):
        return 0.0, 0.0
    # delta(epsilon) < Phi(-x) <= e^(-x^2/2) for x >= 0, so that x = sqrt(2 log 1/delta) is beyond the root.
    m = 1.0 / sigma
    top = m * (math.sqrt(-2.0 * above) + m / 2) * (1 + 1e-9)
    if math.isinf(top):
        return 0.0, math.inf
    if excess(0.0) <= 0.0:  # the total variation distance, to within the margin
        return 0.0, _walk(1e-15 * min(m, 1.0), 1.0, lambda e: _below(log_delta(e, sigma), above))
    root = falling_root(excess, 0.0, top)
    upper = _walk(root, 1.0, lambda e: _below(log_delta(e, sigma), above))
    lower = _walk(root, -1.0, lambda e: _above(log_delta(e, sigma), below))
    return lower, upper


def epsilon(delta: float, sigma: float) -> float:
    """The least epsilon at this delta, rounded up (see `epsilon_interval`); 0 from the total variation distance on."""
    return epsilon_interval(delta, sigma)[1]


def sigma_interval(epsilon: float, delta: float) -> tuple[float, float]:
    """(not sufficient, sufficient) noise multipliers around the least one that gives (epsilon, delta).

    epsilon: >= 0.  delta: in [0, 1]; 0 needs infinite noise, 1 none.
    Raises InputError outside of these ranges and on NaN.
    """
    _check_delta(delta)
    _check(epsilon, 0.0)
    if delta == 1.0 or math.isinf(epsilon):
        return 0.0, 0.0
    if delta == 0.0:
        return math.inf, math.inf
    below, above = _targets(delta)
    # delta(epsilon) <= delta(0) <= m / sqrt(2 pi), and delta(epsilon) < Phi(-x) <= e^(-x^2/2) as in epsilon_interval.
    top = math.exp(-LOG_SQRT_2PI - above) if above > -700.0 else math.inf
    z = math.sqrt(-2.0 * above)
    if epsilon > 0.0:
        top = min(top, (z + math.hypot(z, math.sqrt(2 * epsilon))) / 2 / epsilon)
    if not top < 1e300:
        return 0.0, math.inf
    high = math.log(top) + 1e-9

    def excess(log_sigma: float) -> float:
        return log_delta(epsilon, math.exp(log_sigma)) - above

    step = 1.0
    low = high - step
    while excess(low) <= 0.0:
        step *= 2.0
        low = high - step
        if low < -700.0:
            return 0.0, math.exp(high)
    root = math.exp(falling_root(excess, low, high))
    upper = _walk(root, 1.0, lambda s: _below(log_delta(epsilon, s), above))
    lower = _walk(root, -1.0, lambda s: _above(log_delta(epsilon, s), below))
    return lower, upper


def sigma(epsilon: float, delta: float) -> float:
    """The least noise multiplier that gives (epsilon, delta), rounded up (see `sigma_interval`)."""
    return sigma_interval(epsilon, delta)[1]


def classical_sigma(epsilon: float, delta: float) -> ClassicalSigma:
    """The textbook calibration sqrt(2 log(1.25 / delta)) / epsilon, and whether it is proven.

    Source: Dwork, Roth 2014, Foundations and Trends in TCS 9(3-4), Thm A.1 (3.22): for epsilon in (0, 1) any multiplier
    c / epsilon with c^2 > 2 log(1.25 / delta) suffices. From epsilon 1 on it proves nothing and in the end is false: at
    (10, 1e-5) it gives 0.48448 where 0.49989 is needed. What a classical sigma really gives is `delta(epsilon, sigma)`.
    epsilon: > 0.  delta: in (0, 1).  The multiplier is rounded up, so that the strict inequality holds.
    """
    _check_delta(delta)
    if not (0.0 < epsilon < math.inf):
        raise InputError("epsilon", f"{epsilon} is not a positive number")
    if not (0.0 < delta < 1.0):
        raise InputError("delta", f"{delta} is not in (0, 1)")
    root = math.sqrt(2.0 * (math.log(1.25) - math.log(delta)))
    return ClassicalSigma(root / epsilon * (1 + 8 * ROUND_OFF), epsilon < 1.0)


def combined_sigma(sigmas: list[tuple[float, float]], side: int = -1) -> float:
    """The multiplier that stands for all Gaussian releases (sigma, count): (sum count / sigma^2)^(-1/2).

    Rounded down (side -1) for upper ends, up (side 1) for lower ones.
    Exact, for adaptive composition too: Dong, Roth, Su 2019, arXiv:1905.02383, Cor. 3.3.
    """
    least = min((s for s, n in sigmas if n > 0), default=math.inf)
    if least == 0.0 or math.isinf(least):
        return least
    total = math.fsum(n * (least / s) ** 2 for s, n in sigmas if n > 0)
    return least / math.sqrt(total) * (1 + side * 8 * ROUND_OFF)


def falling_root(f: Callable[[float], float], low: float, high: float) -> float:
    """The root of a decreasing f with f(low) > 0 >= f(high), to about 4 units of round-off; no direction is promised.

    Steps by `next_share` inside a bracket. Raises NotCertified if f turns NaN or the bracket does not close.
    """
    a, b = low, high
    fa, fb = f(a), f(b)
    if not (fa > 0.0 >= fb):
        raise NotCertified("the search for a root has no bracket")
    c, fc, t = a, fa, 0.5
    for _ in range(300):
        x = a + t * (b - a)
        fx = f(x)
        if math.isnan(fx):
            raise NotCertified("a bound could not be evaluated")
        if (fx > 0.0) == (fa > 0.0):
            c, fc = a, fa
        else:
            c, b, fc, fb = b, a, fb, fa
        a, fa = x, fx
        best = a if abs(fa) < abs(fb) else b
        reach = 2 * ROUND_OFF * abs(best) + 5e-324
        width = abs(b - a)
        if fa == 0.0 or fb == 0.0 or width <= 2 * reach:
            return best
        t = min(max(next_share(a, b, c, fa, fb, fc), reach / width), 1 - reach / width)
    raise NotCertified("the search for a root did not converge")


def _offset(epsilon: float, sigma: float) -> float:
    """x = epsilon sigma - 1 / (2 sigma), rounded once from the exact rational number."""
    rough = epsilon * sigma - 0.5 / sigma
    if not abs(rough) < 1e150:
        return math.copysign(1e150, rough)
    a, b = epsilon.as_integer_ratio()
    c, d = sigma.as_integer_ratio()
    return (2 * a * c * c - b * d * d) / (2 * b * c * d)


def _mills(t: float) -> float:
    return math.sqrt(math.pi / 2) * float(erfcx(t / math.sqrt(2.0)))


def _mills_gap(x: float, m: float) -> float:
    """M(x) - M(x + m) for x >= -1, to a relative 1e-14."""
    scale = max(x, 1.0)
    if m > scale:  # M(x + m) is at most about 2/3 of M(x): nothing to lose
        return _mills(x) - _mills(x + m)
    with np.errstate(under="ignore"):
        decay = np.exp(-_V * (x / scale + _V / (2 * scale) / scale))
        return float(np.dot(_W, decay * -np.expm1(-(m / scale) * _V)) / scale)


def _check(epsilon: float, sigma: float) -> None:
    if not epsilon >= 0.0:
        raise InputError("epsilon", f"{epsilon} is not a number >= 0")
    if not sigma >= 0.0:
        raise InputError("noise_multiplier", f"{sigma} is not a number >= 0")


def _check_delta(delta: float) -> None:
    if not (0.0 <= delta <= 1.0):
        raise InputError("delta", f"{delta} is not in [0, 1]")


def _targets(delta: float) -> tuple[float, float]:
    """log delta rounded (up, down): what a lower and an upper end have to reach."""
    value = math.log(delta)
    slack = 2 * ROUND_OFF * abs(value)
    return value + slack, value - slack


def _below(value: float, target: float) -> bool:
    """Whether a log_delta that was computed as `value` is at most `target` for certain."""
    return value == -math.inf or value + log_delta_margin(value) <= target


def _above(value: float, target: float) -> bool:
    return value - log_delta_margin(value) >= target


def _walk(root: float, direction: float, done: Callable[[float], bool]) -> float:
    """The first of root (1 +- step), step doubling from 2 units of round-off, at which `done`; not below 0."""
    step = 2 * ROUND_OFF
    here = root
    for _ in range(120):
        if done(here):
            return here
        here = root * (1 + step) if direction > 0 else max(0.0, root * (1 - step))
        step *= 2
        if here == 0.0:
            return 0.0
    return math.inf
