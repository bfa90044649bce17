"""Independent truth for compositions of the sampled Gaussian: nothing here comes from dpbudget.

`Line` is a contour integral of its own: panels of another order and width, all cut where they turn too fast, another tilt
than the optimal one, and a flat-topped taper in frequency instead of a proven cut-off. It proves nothing; how much it is worth
is measured by doing it again with twice as many frequencies, nodes and periods.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mpmath
import numpy as np
from scipy.special import erfc, ndtri_exp

REMOVE, ADD = "remove", "add"
LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class Unstable(Exception):
    """The reference does not agree with itself under doubling, or would be too large."""


def _log_mix(q, a):
    """log(1 - q + q e^a), written with logaddexp and, where it is small, with log1p."""
    if q == 1.0:
        return a
    with np.errstate(over="ignore"):
        small = np.log1p(np.maximum(q * np.expm1(np.minimum(a, 50.0)), -0.9))
    return np.where((small < 0.5) & (small > -0.5), small, np.logaddexp(math.log1p(-q), math.log(q) + a))


def loss_and_log_p(direction, sigma, q, x):
    base = -0.5 * (x / sigma) ** 2 - math.log(sigma) - LOG_SQRT_2PI
    if direction == REMOVE:
        loss = _log_mix(q, (x - 0.5) / sigma**2)
        return loss, base + loss
    return -_log_mix(q, (x - 0.5) / sigma**2), base


def _span(direction, sigma, q, log_tail):
    """Range of x that holds all but e^log_tail of P on either side."""
    z = -float(ndtri_exp(log_tail))
    if direction == ADD:
        return -sigma * z, sigma * z
    shift = min(0.0, log_tail - math.log(q))
    top = 1.0 - sigma * float(ndtri_exp(shift)) if shift < -1e-12 else -np.inf
    return -sigma * z, max(top, sigma * z)


@dataclass(frozen=True)
class Line:
    """M(t + iy) / M(t) on a uniform grid of y, T-fold, and what is needed to invert it."""

    t: float
    log_m: float
    centre: float
    step: float
    term: np.ndarray
    left: float

    def delta(self, epsilon):
        """log delta."""
        y = self.step * np.arange(self.term.size)
        total = float(np.sum((self.term * np.exp(-1j * y * (epsilon - self.centre))).real))
        scale = self.log_m - self.t * epsilon
        value = total - self.left * math.exp(min(-scale, 700.0))
        return scale + math.log(value) if value > 0 else -math.inf


def _chernoff(loss, mass, steps, log_delta):
    """The t of the best Chernoff bound on epsilon, by golden section on a grid of log t."""
    sd = math.sqrt(steps * float(mass @ loss**2))
    grid = np.log(math.sqrt(2 * -log_delta) / sd) + np.linspace(-9, 9, 73)
    best, at = np.inf, 0.0
    for u in grid:
        t = math.exp(u)
        bound = (log_moment(loss, mass, steps, t) + log_gmax(t) - log_delta) / t
        if bound < best:
            best, at = bound, t
    return at


def log_gmax(t):
    return -t * math.log1p(1 / t) - math.log1p(t)


def log_moment(loss, mass, steps, t):
    with np.errstate(under="ignore"):
        top = float(np.max(t * loss))
        change = float(mass @ np.expm1(np.minimum(t * loss, 500.0)))
        if top < 500 and change > -0.5:
            return steps * math.log1p(change)
        return steps * (top + math.log(float(mass @ np.exp(t * loss - top))))


_X, _W = np.polynomial.legendre.leggauss(20)


def nodes(direction, sigma, q, lo, hi, frequency, fineness):
    """Gauss-Legendre panels of 20 points, so narrow that e^{iyL} turns by at most 6 in each: points, losses, masses."""
    count = max(1, math.ceil((hi - lo) / min(sigma / 2, math.pi * sigma**2 / 4) * fineness))
    edges = np.linspace(lo, hi, count + 1)
    if frequency:
        share = np.maximum(_share(direction, sigma, q, edges[1:]), _share(direction, sigma, q, edges[:-1]))
        pieces = np.ceil(np.diff(edges) * frequency * share / sigma**2 / 6 * fineness).astype(int)
        pieces = np.maximum(pieces, 1)
        if pieces.sum() > 60_000:
            raise Unstable("too many points")
        parts = [np.linspace(a, b, n + 1)[:-1] for a, b, n in zip(edges[:-1], edges[1:], pieces, strict=True)]
        edges = np.append(np.concatenate(parts), hi)
    half = np.diff(edges)[:, None] / 2
    x = (edges[:-1, None] + half * (1 + _X)).ravel()
    loss, log_p = loss_and_log_p(direction, sigma, q, x)
    with np.errstate(under="ignore"):
        mass = np.exp(log_p) * (half * _W).ravel()
    return x, loss, mass


def _share(direction, sigma, q, x):
    v = math.log(q) + (x - 0.5) / sigma**2
    return np.exp(v - np.logaddexp(v, math.log1p(-q) if q < 1 else -np.inf))


def line(direction, sigma, q, steps, log_delta, epsilon, fineness=1.0, lean=0.8, work=3e9, reach=1500):
    """The contour at lean times the tilt of the best Chernoff bound; Unstable beyond `work` products."""
    lo, hi = _span(direction, sigma, q, log_delta - math.log(steps) - 25.0)
    x, loss, mass = nodes(direction, sigma, q, lo, hi, 0.0, fineness)
    t = lean * _chernoff(loss, mass, steps, log_delta)
    log_m = log_moment(loss, mass, steps, t)
    with np.errstate(under="ignore"):
        w = mass * np.exp(t * loss - log_m / steps)
    heavy = np.flatnonzero(w > 1e-21 / steps * w.max())
    lo, hi = x[max(heavy[0] - 1, 0)], x[min(heavy[-1] + 1, x.size - 1)]
    mean = float(w @ loss)
    sd = math.sqrt(steps * float(w @ (loss - mean) ** 2))
    period = (30.0 - log_delta) / t
    far = np.inf
    for factor in (1.3, 1.6, 2.0, 3.0, 5.0):
        t2 = t * factor
        need = log_moment(loss, mass, steps, t2) + log_gmax(t2) - t2 * epsilon - log_delta + 32.0
        far = min(far, need / (t2 - t))
    period = max(period, far, 8 * sd) * 1.1 * fineness**0.5
    step = 2 * math.pi / period
    top = _reach(loss, w, mean, steps, sd, reach) * fineness
    count = int(top / step) + 2
    x, loss, mass = nodes(direction, sigma, q, lo, hi, top, fineness)
    if count * loss.size > work or count > 1e6:
        raise Unstable("too many frequencies")
    with np.errstate(under="ignore"):
        w = mass * np.exp(t * loss - log_m / steps)
    mean = float(w @ loss)
    change = _characteristic(loss - mean, w, step, count)
    y = step * np.arange(count)
    z = t + 1j * y
    size = np.maximum(2 * change.real + np.abs(change) ** 2, -1 + 1e-15)
    log_phi = steps * (0.5 * np.log1p(size) + 1j * np.arctan2(change.imag, 1 + change.real))
    taper = 0.5 * erfc(24 * (y / top - 0.75))
    with np.errstate(under="ignore"):
        term = np.exp(log_phi) * taper / (z * (1 + z)) * (2 / period)
    term[0] /= 2
    return Line(t, log_m, steps * mean, step, term, math.exp(-t * period) if t * period < 700 else 0.0)


def _reach(loss, w, mean, steps, sd, reach):
    """A frequency at which the tilted power is below 1e-17, if the sum is smooth; otherwise `reach` times the scale."""
    y = np.geomspace(2, reach, 60) / sd
    c = loss - mean
    small = []
    for v in y:
        re, im = float(w @ np.cos(v * c)), float(w @ np.sin(v * c))
        small.append(steps * 0.5 * math.log(max(re * re + im * im, 1e-300)) < -40)
    good = np.array(small)
    for i in range(y.size):
        if good[i:].all():
            return float(y[i])
    return float(y[-1])


def _characteristic(c, w, step, count):
    """E[e^{iyc}] - 1 at step * (0, 1, ...), blockwise."""
    block = max(1, int(math.sqrt(count)))
    blocks = -(-count // block)
    fine = np.expm1(1j * np.outer(c, step * np.arange(block)))
    out = np.empty((blocks, block), dtype=complex)
    group = max(1, int(2e6 / c.size))
    for i in range(0, blocks, group):
        a = step * block * np.arange(i, min(i + group, blocks))
        coarse = np.expm1(1j * np.outer(a, c))
        out[i : i + group] = ((coarse + 1) * w) @ fine + (coarse @ w)[:, None]
    return out.ravel()[:count]


# --- one, two and three steps ----------------------------------------------------------------------------------


def delta_mp(direction, sigma, q, epsilon, digits=60):
    """delta of one step at any real epsilon, in mpmath; sigma may be an mpf.

    With e^{eps_0} = (e^{eps} - 1 + q) / q the difference is q (PhiBar(b) - e^{eps_0} PhiBar(a)), and nothing cancels for small q.
    """
    with mpmath.workdps(digits + 10):
        s, q, e = mpmath.mpf(sigma), mpmath.mpf(q), mpmath.mpf(epsilon)

        def upper(v):
            return mpmath.erfc(v / mpmath.sqrt(2)) / 2

        inside = (mpmath.expm1(e) if direction == REMOVE else mpmath.expm1(-e)) / q + 1
        if inside <= 0:
            return -mpmath.expm1(e) if direction == REMOVE else mpmath.mpf(0)
        x = s**2 * mpmath.log(inside) + mpmath.mpf(1) / 2
        if direction == REMOVE:
            return +(q * (upper((x - 1) / s) - inside * upper(x / s)))
        return +(mpmath.exp(e) * q * (inside * upper(-x / s) - upper((1 - x) / s)))


_U = (np.arange(4)[:, None] + (1 + _X) / 2).ravel() / 4
_V = np.tile(_W / 2, 4) / 4


def delta_one(direction, sigma, q, epsilon):
    """delta of one step at real epsilons, in double precision and to a relative 1e-12: a positive integral."""
    e = np.asarray(epsilon, dtype=float)
    sign = 1.0 if direction == REMOVE else -1.0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        inside = np.expm1(sign * e) / q + 1.0
        log_in = np.where(inside > 1e300, sign * e - math.log(q), np.log(np.maximum(inside, 1e-300)))
    x = sigma**2 * log_in + 0.5
    c = (x - 1) / sigma if direction == REMOVE else -x / sigma
    top = np.maximum(-c, 0.0) + 12.0 / np.maximum(1.0, c / 4)
    u = top[..., None] * _U
    with np.errstate(under="ignore", over="ignore"):
        total = (np.exp(-0.5 * (c[..., None] + u) ** 2 - LOG_SQRT_2PI) * -np.expm1(-u / sigma)) @ _V * top
        if direction == REMOVE:
            return np.where(inside > 0, q * total, -np.expm1(np.minimum(e, 0.0)))
        return np.where(inside > 0, np.exp(e + log_in + math.log(q)) * total, 0.0)


def delta_few(direction, sigma, q, steps, log_delta, epsilon, fineness=1.0):
    """log delta of two or three steps by one or two outer integrals over x."""
    lo, hi = _span(direction, sigma, q, log_delta - 28.0)
    _, loss, mass = nodes(direction, sigma, q, lo, hi, 0.0, fineness * (8.0 if steps == 2 else 0.5))
    keep = mass > 0
    loss, mass = loss[keep], mass[keep]
    if steps == 2:
        total = float(mass @ delta_one(direction, sigma, q, epsilon - loss))
    else:
        if loss.size > 1200:
            raise Unstable("too many points")
        inner = (mass @ delta_one(direction, sigma, q, epsilon - a - loss) for a in loss)
        total = sum(float(w * v) for w, v in zip(mass, inner, strict=True))
    return math.log(total) if total > 0 else -math.inf
