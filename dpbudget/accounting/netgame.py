"""Fixed-size sampling under replace-one: an upper bound by a game over a net of triples (docs/math-sampling.md, 3).

Each step the adversary picks the gradients of the record, of its replacement and of a third record, knowing all earlier
outputs. With r the likelihood ratio so far, v_0(r) = (r - e^eps)_+ and v_{t+1}(r) = sup over triples of E_Q[v_t(r dP/dQ)],
the least delta at eps of T steps is exactly v_T(1). Every v_t is convex, so that on the grid l = log r - eps = j h

    w_t(l) = v_t(e^l) / e^l,   w_0(l) = (1 - e^{-l})_+,   w_{t+1}(l) <= max over kernels of sum_j p_j w_t(l + j h) + p_inf

for measures p whose hockey sticks lie above those of all triples of a box, and boxes that cover all triples. One run
bounds delta at every eps: delta_T(eps) <= w_T(-eps). One box is the symmetrised pair; more boxes are tighter.

It needs steps x kernels transforms; `plan` says whether a grid is affordable. For many steps `rdp_epsilon_upper` relaxes
the game to one exponential moment: w_t(l) <= A_t e^{lam l} + (mass cut off) is kept by a step with A_{t+1} = A_t max M.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri

from dpbudget.accounting import rdp
from dpbudget.accounting.gaussian_pairs import SampledGaussianRemove
from dpbudget.accounting.triples import PROFILE_ERROR, Kernel, boxes, kernels
from dpbudget.errors import InputError, NotCertified

Array = NDArray[np.float64]

WORK = 9e9
"""Affordable steps x transforms x points x log2(points): about 10 s on one core."""

LADDER = ((12, 70, 2.5e-4), (8, 31, 5e-4), (6, 20, 1e-3), (4, 10, 2e-3), (3, 6, 3e-3), (2, 3, 4e-3))
"""Cuts per angle, kernels that they leave, share of epsilon that the mesh may cost; from tight to cheap."""

KAPPA = 8.0
"""Assumption on the FFT: |error|_2 <= KAPPA u log2(N) |x|_2 for each transform, relative in the 2-norm."""


@dataclass(frozen=True)
class Plan:
    """A grid for the game. step: of the losses; low, high: first and last index of l; left, right: reach of a kernel."""

    cuts: int
    step: float
    low: int
    high: int
    left: int
    right: int

    @property
    def points(self) -> int:
        return int(next_fast_len(self.high - self.low + 1 + self.left + self.right, real=True))

    def work(self, steps: int, kernel_count: int) -> float:
        return steps * (kernel_count + 1) * self.points * math.log2(self.points)


@dataclass(frozen=True)
class Played:
    """delta(eps) <= value(-eps) for every eps: values at l = step * (low, low + 1, ...), rounding errors included."""

    plan: Plan
    value: Array
    kernel_count: int
    slack: float

    def delta(self, epsilon: float) -> float:
        """Upper bound of delta at epsilon; between grid points v is below its chord."""
        place = -epsilon / self.plan.step - self.plan.low
        i = math.floor(place)
        if not (i >= 0 and i + 1 < self.value.size):
            raise InputError("epsilon", f"{epsilon} is outside the grid of the game")
        share = math.expm1((place - i) * self.plan.step) / math.expm1(self.plan.step)
        r = math.exp(self.plan.step * (place - i))
        v = (1 - share) * float(self.value[i]) + share * float(self.value[i + 1]) * math.exp(self.plan.step)
        return min(1.0, v / r * (1 + 1e-12))

    def epsilon(self, delta: float) -> float:
        """The least epsilon >= 0 whose delta is proven; inf where the grid does not reach it."""
        fits = np.flatnonzero(self.value <= delta * (1 - 1e-12))
        if not fits.size:
            return math.inf
        i = int(fits[-1])
        if i + 1 == self.value.size:
            return 0.0
        h = self.plan.step
        here, there = float(self.value[i]), float(self.value[i + 1]) * math.exp(h)
        # the chord v = here + slope (r - 1) meets delta r at r = (slope - here) / (slope - delta)
        slope = (there - here) / math.expm1(h)
        r = min(max((slope - here) / (slope - delta) if slope > delta else 1.0, 1.0), math.exp(h))
        return max(0.0, -(h * (self.plan.low + i) + math.log(r)) + 1e-11)


def plan(rate: float, sigma: float, steps: int, delta: float, *, work: float = WORK) -> Plan | None:
    """The tightest affordable grid of LADDER, or None. A rule of counts alone, so that it is the same everywhere."""
    diameter = 2 / sigma
    if not steps * 1e-12 <= 0.1 * delta:
        return None
    guess = rdp.epsilon([(SampledGaussianRemove(sigma / 2, rate), steps)], delta)
    if not guess.epsilon < 1e4:
        return None
    for cuts, count, share in LADDER:
        lam = guess.order - 1 if guess.order > 1 else 1.0
        step = math.sqrt(4 * share * max(guess.epsilon, 1e-3) / (steps * (1 + lam)))
        trial = grid(rate, diameter, steps, delta, cuts=cuts, step=step, epsilon=guess.epsilon, lam=lam)
        if trial.work(steps, count) <= work:
            return trial
    return None


def grid(
    rate: float, diameter: float, steps: int, delta: float, *, cuts: int, step: float, epsilon: float, lam: float
) -> Plan:
    """Window and reach for an expected epsilon and tilt. Any choice is proven; a narrow one is only less tight."""
    margin = min(3.0, 8 / lam) + 0.05 * epsilon
    high = min(6.0 + 0.3 * epsilon, 24 / lam)
    low = -(1.25 * epsilon + margin)
    far = -float(ndtri(1e-4 * delta / steps))
    near = -float(ndtri(1e-4 / steps))
    right = math.log1p(rate * math.expm1(min(diameter * (far + diameter / 2), 690.0)))
    left = math.log1p(rate * math.expm1(min(max(diameter * (near - diameter / 2), 0.0), 690.0)))
    left = max(left, -2 * math.log1p(-rate) if rate < 1 else left, 8 * step)
    right = min(max(right, 8 * step), high - low)
    cells = [math.ceil(x / step) for x in (-low, high, left, right)]
    return Plan(cuts, step, -cells[0], cells[1], cells[2], cells[3])


def cover(rate: float, sigma: float, at: Plan) -> list[Kernel]:
    """The kernels of a plan: angles cut into equal parts."""
    edges = [i / at.cuts for i in range(at.cuts + 1)]
    return kernels(list(boxes(edges)), rate, 2 / sigma, at.step, at.left, at.right)


def play(pieces: list[Kernel], steps: int, at: Plan) -> Played:
    """Run the game. Left of the grid w is at most its first value, right of it v rises with slope at most 1.

    The slack bounds what profiles and transforms may be off: adding it once a step is enough, because kernels have
    mass at most 1 + 1e-12 and w enters with weights that sum to that.
    """
    n, size = at.high - at.low + 1, at.points
    spectra = np.zeros((len(pieces), size))
    for row, piece in zip(spectra, pieces, strict=True):
        row[piece.first + at.left : piece.first + at.left + piece.mass.size] = piece.mass
    transform = np.conj(rfft(spectra))
    infinite = [piece.infinite for piece in pieces]
    beyond = np.exp(-at.step * np.arange(1, at.right + 1))
    w = np.maximum(-np.expm1(-at.step * np.arange(at.low, at.high + 1.0)), 0.0)
    padded, slack = np.zeros(size), 0.0
    unit = 3 * KAPPA * 2.0**-53 * math.log2(size)
    for _ in range(steps):
        padded[: at.left] = w[0]
        padded[at.left : at.left + n] = w
        padded[at.left + n : at.left + n + at.right] = 1 - (1 - w[-1]) * beyond
        slack += PROFILE_ERROR + unit * math.sqrt(float(np.sum(padded * padded)))
        w = _best_move(rfft(padded), transform, infinite, size, n)
    return Played(at, np.minimum((w + slack) * (1 + 1e-11 * steps), 1.0), len(pieces), slack)


def _best_move(
    spectrum: NDArray[np.complex128], transform: NDArray[np.complex128], infinite: list[float], size: int, n: int
) -> Array:
    """The pointwise maximum over kernels, a few at a time, so that the arrays stay in the cache."""
    best = np.zeros(n)
    for i in range(0, len(infinite), 4):
        moved = irfft(spectrum * transform[i : i + 4], size, axis=1, overwrite_x=True)
        for row, extra in zip(moved, infinite[i : i + 4], strict=True):
            np.maximum(best, row[:n] + extra, out=best)
    return np.minimum(best, 1.0, out=best)


def epsilon_upper(rate: float, sigma: float, steps: int, delta: float, *, at: Plan | None = None) -> float:
    """Proven upper bound of epsilon: fixed-size sampling without replacement, replace-one, T adaptive steps.

    rate: batch / records, in (0, 1). sigma: noise standard deviation over the clipping norm C (a replacement moves the
    sum by up to 2 C). The gap to the truth is analysis (boxes) and mesh, never round-off. Raises NotCertified where no
    grid is affordable; then `rdp_epsilon_upper` and the symmetrised pair remain.
    """
    check(rate, sigma, steps, delta)
    at = at or plan(rate, sigma, steps, delta)
    if at is None:
        raise NotCertified("the net game is not affordable for so many steps", hint="Use the symmetrised pair.")
    return play(cover(rate, sigma, at), steps, at).epsilon(delta)


def delta_upper(rate: float, sigma: float, steps: int, epsilon: float, *, at: Plan | None = None) -> float:
    """Proven upper bound of delta at epsilon; as `epsilon_upper`. Absolute floor: about 3e-12 per step."""
    check(rate, sigma, steps, 0.5)
    if not (epsilon >= 0):
        raise InputError("epsilon", f"{epsilon} is not >= 0")
    at = at or _plan_at(rate, sigma, steps, epsilon)
    if at is None:
        raise NotCertified("the net game is not affordable for so many steps", hint="Use the symmetrised pair.")
    return play(cover(rate, sigma, at), steps, at).delta(epsilon)


def _plan_at(rate: float, sigma: float, steps: int, epsilon: float) -> Plan | None:
    """The plan for the delta at which one exponential moment would give this epsilon."""
    bound = rdp.delta([(SampledGaussianRemove(sigma / 2, rate), steps)], epsilon)
    found = plan(rate, sigma, steps, min(max(bound.delta, 20e-12 * steps), 0.5))
    if found is None or -found.low * found.step > epsilon + 2 * found.step:
        return found
    low = -math.ceil(1.25 * epsilon / found.step) - 2
    return Plan(found.cuts, found.step, min(low, found.low), found.high, found.left, found.right)


def rdp_epsilon_upper(rate: float, sigma: float, steps: int, delta: float, *, cuts: int = 8) -> float:
    """Proven upper bound of epsilon from one exponential moment, the largest over the boxes of the net.

    For any number of steps. With p the measure of a box, M(lam) = sum_j p_j e^{lam j h}: by induction over the steps
    w_t(l) <= lam^lam / (1 + lam)^{1 + lam} (max M)^t e^{lam l} + t max p_inf. Errs upwards only.
    """
    check(rate, sigma, steps, delta)
    diameter = 2 / sigma
    far = -float(ndtri(max(1e-3 * delta / steps, 1e-290)))
    right = math.log1p(rate * math.expm1(min(diameter * (far + diameter / 2), 690.0)))
    left = max(math.log1p(rate * math.expm1(min(diameter * far, 690.0))), 1e-6)
    step = max(right, left) / 3000
    at = Plan(cuts, step, -1, 1, math.ceil(left / step), math.ceil(right / step))
    pieces = cover(rate, sigma, at)
    rest = delta - steps * max(piece.infinite for piece in pieces)
    if not rest > 0:
        return math.inf

    def bound(log_lam: float) -> float:
        lam = math.exp(log_lam)
        log_m = max(_log_moment(piece, lam, step) for piece in pieces)
        value = steps * log_m - lam * math.log1p(1 / lam) - math.log1p(lam) - math.log(rest)
        return value / lam

    exponents = np.linspace(-7.0, 7.0, 57)
    values = [bound(float(x)) for x in exponents]
    i = int(np.nanargmin(values))
    finer = np.linspace(exponents[max(i - 1, 0)], exponents[min(i + 1, exponents.size - 1)], 33)
    return max(0.0, min(bound(float(x)) for x in finer)) * (1 + 1e-9)


def _log_moment(piece: Kernel, lam: float, step: float) -> float:
    """log sum p e^{lam l}, rounded up: masses are good to 1e-8 relative, and all of them together to 1e-12."""
    used = np.flatnonzero(piece.mass)
    exponent = lam * step * (piece.first + used) + np.log(piece.mass[used])
    top = float(exponent.max())
    with np.errstate(under="ignore"):
        excess = float(np.exp(exponent - top).sum())
    value = top + math.log(excess)
    return value + 1e-8 * abs(math.expm1(min(value, 1.0))) + 1e-12


def check(rate: float, sigma: float, steps: int, delta: float) -> None:
    if not (0 < rate < 1):
        raise InputError("sampling_rate", f"{rate} is not in (0, 1)")
    if not (0 < sigma < math.inf):
        raise InputError("noise_multiplier", f"{sigma} is not a positive number")
    if not (steps >= 1):
        raise InputError("steps", f"{steps} is not a positive number of steps")
    if not (0 < delta < 1):
        raise InputError("delta", f"{delta} is not in (0, 1)")
