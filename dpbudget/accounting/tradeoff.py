"""The trade-off curve of a mechanism, with certified ends, from certified hockey-stick divergences.

Testing "out" (Q) against "in" (P): TPR(alpha) = sup {P(S): Q(S) <= alpha} = 1 - f(alpha). With y = e^x, x real, and
H(y) = sup_S P(S) - y Q(S), which is delta(x) of the pair (P, Q) for x >= 0 and, through the reverse pair (Q, P),
H(1/z) = 1 - 1/z + delta_reverse(log z) / z below,

    TPR(alpha) = inf_y H(y) + y alpha,      f(alpha) = sup over x >= 0 of 1 - delta(x) - e^x alpha and
                                                       e^-x (1 - delta_reverse(x) - alpha)

(Dong, Roth, Su 2022, arXiv:1905.02383, Prop. 2.13; Zhu, Dong, Wang 2022, arXiv:2106.08567). Upper ends of TPR take the
infimum over the points that were evaluated. Lower ends need H between them: H is convex and falls, so that chords
through certified ends, extended beyond their points, lie below it; both errors shrink with the square of the spacing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbudget.errors import ContradictionError, InputError, NotCertified

Array = NDArray[np.float64]
Ends = tuple[float, float]
DeltaEnds = Callable[[float], Ends]

ROUND = 1e-15  # a few units of round-off, of numbers up to 1
MOST = 690.0  # e^x stays finite
ROUNDS = 40
WIDEST = 0.05  # keeps a tiny FNR to about 1e-3 of itself where the TPR is next to 1
NEGLIGIBLE = 1e-3  # a direction this much below another need not be known any better
FAINT = 1e-8  # a delta below this share of what it is added to need not be known at all


class Profile:
    """Certified ends of delta(epsilon), epsilon >= 0, of one ordered pair; every value is computed once.

    source: epsilon -> (lower, upper). ignoring: the same with a second argument, a delta that is as good as none, where
    ends that only show delta to be at most that cost less. Raises NotCertified where ends are crossed or not numbers in [0, 1].
    """

    def __init__(self, source: DeltaEnds, ignoring: Callable[[float, float], Ends] | None = None) -> None:
        self._source, self._ignoring = source, ignoring
        self._seen: dict[float, Ends] = {}
        self._rough: dict[float, Ends] = {}

    def at(self, epsilon: float, ignore: float = 0.0) -> Ends:
        if epsilon in self._seen:
            return self._seen[epsilon]
        if epsilon in self._rough and self._rough[epsilon][1] <= ignore:
            return self._rough[epsilon]
        may_be_rough = self._ignoring is not None and ignore > 0.0
        found = self._ignoring(epsilon, ignore) if self._ignoring and may_be_rough else self._source(epsilon)
        low, high = (float(end) for end in found)
        if not (0.0 <= low <= high <= 1.0):
            raise NotCertified(f"delta at {epsilon:g} is not certified: [{low!r}, {high!r}]")
        (self._rough if may_be_rough and high <= ignore else self._seen)[epsilon] = low, high
        return low, high

    def points(self) -> tuple[Array, Array, Array]:
        """(epsilon, lower, upper) of all that was evaluated without ignoring, epsilon increasing; shapes (n,)."""
        table = np.array(sorted((e, *ends) for e, ends in self._seen.items())).reshape(-1, 3)
        return table[:, 0], table[:, 1], table[:, 2]


def largest(profiles: list[Profile]) -> Profile:
    """The pointwise maximum: the profile that covers every direction at once."""

    def ends(epsilon: float, ignore: float = 0.0) -> Ends:
        low, high = profiles[0].at(epsilon, ignore)
        for profile in profiles[1:]:
            other = profile.at(epsilon, max(ignore, (1.0 - NEGLIGIBLE) * low))
            low, high = max(low, other[0]), max(high, other[1])
        return low, high

    return profiles[0] if len(profiles) == 1 else Profile(ends, ends)


@dataclass(frozen=True)
class Point:
    """One point of the curve: certified (lower, upper) of the TPR and of the FNR at this FPR."""

    fpr: float
    tpr: Ends
    fnr: Ends


def intersect(one: Point, other: Point) -> Point:
    """What two proofs for the same FPR show together."""
    tpr = max(one.tpr[0], other.tpr[0]), min(one.tpr[1], other.tpr[1])
    fnr = max(one.fnr[0], other.fnr[0]), min(one.fnr[1], other.fnr[1])
    if not (tpr[0] <= tpr[1] and fnr[0] <= fnr[1]):
        raise ContradictionError(f"the certified ends of the TPR at FPR {one.fpr:g} are crossed: {tpr}")
    return Point(one.fpr, tpr, fnr)


class Curve:
    """The curve of testing Q against P: `ahead` is the profile of (P, Q), `behind` that of (Q, P).

    For the curve that covers both directions (the convex minorant of min(f, f^-1)) both are the pointwise maximum.
    """

    def __init__(self, ahead: Profile, behind: Profile) -> None:
        self.ahead, self.behind = ahead, behind

    def height(self, x: float, ignore: float = 0.0) -> Ends:
        """Ends of H(e^x); ignore: a delta that is as good as none, see `Profile.at`."""
        if x >= 0.0:
            return self.ahead.at(x, ignore)
        low, high = self.behind.at(-x, ignore)
        y = math.exp(x)
        return max(0.0, -math.expm1(x) + y * low - ROUND), min(1.0, -math.expm1(x) + y * high + ROUND)

    def advantage(self) -> Ends:
        """max TPR - FPR, the total variation distance delta(0)."""
        (low, high), (low_too, high_too) = self.ahead.at(0.0), self.behind.at(0.0)
        return max(low, low_too), max(high, high_too)

    def bayes_error(self, prior: float) -> Ends:
        """The least error probability of a guess where "in" has probability `prior`: min (1 - pi) alpha + pi f(alpha).

        Equals pi (1 - H((1 - pi) / pi)), the reverse pair taking the place of H where pi > 1/2.
        """
        check_probability("prior", prior)
        if prior <= 0.5:
            low, high = self.ahead.at(math.log1p(-prior) - math.log(prior), FAINT) if prior > 0.0 else (0.0, 0.0)
            scale = prior
        else:
            low, high = self.behind.at(math.log(prior) - math.log1p(-prior), FAINT) if prior < 1.0 else (0.0, 0.0)
            scale = 1.0 - prior
        return max(0.0, scale * (1.0 - high) * (1 - ROUND)), scale * (1.0 - low) * (1 + ROUND)

    def tail(self, epsilon: float, negligible: float = 0.0) -> Ends:
        """P(L > epsilon), epsilon >= 0: how often the loss really exceeds epsilon ("probabilistic DP").

        negligible: what lies far below this probability need not be known any better.

        P(L > log y) = H(y) - y H'(y), with H' between the chords to both sides: the best of several widths, since wide
        chords are loose and narrow ones suffer from the width of the ends.
        """
        ignore = NEGLIGIBLE**2 * negligible
        low = self.height(epsilon, ignore)[0]
        least, most = low, 1.0
        for width in (1e-4, 1e-3, 1e-2, 0.1, 0.7):
            high_left = self.height(epsilon - width, ignore)[1]
            high_right = self.height(epsilon + width, ignore)[1]
            most = min(most, (high_left - math.exp(-width) * low) / -math.expm1(-width))
            least = max(least, low + (low - high_right) / math.expm1(width))
            if most - least <= 1e-3 * most:
                break
        return max(0.0, least * (1 - 1e-12)), min(1.0, most * (1 + 1e-12))

    def point(self, fpr: float, *, tolerance: float = 1e-6) -> Point:
        """The certified point at one FPR, the TPR to a relative `tolerance` or as close as the ends of delta allow.

        The infimum over y is convex: a coarse grid grows until the best point is inside, parabolas find it, and evenly
        spaced points around it prove it.
        """
        check_probability("fpr", fpr)
        if fpr == 1.0:
            return Point(1.0, (1.0, 1.0), (0.0, 0.0))
        coarse = self._bracketing(fpr)
        best, bend = self._locate(coarse, fpr, tolerance)
        found = self._ends(sorted({*coarse, best}), fpr)
        spacing = max(_spacing(tolerance, self._value(best, fpr), bend), 1e-6)
        for h in (
            spacing * factor for factor in (1.0, 3.0, 9.0, 27.0, 81.0, 243.0, 0.3)
        ):  # wider ones help where the ends are loose
            if not 1e-9 < h < 1.0:
                continue
            # 0 stays a point, since the two sides of y = 1 meet there.
            first = h * math.floor(best / h) if abs(best) < 5 * h else best
            near = [first + k * h for k in (-3, -2, -1, 0, 1, 2, 3, 4)]
            near = [0.0 if abs(x) < h / 2 else x for x in near]
            far = [x for x in coarse if not near[0] - 2 * h <= x <= near[-1] + 2 * h]
            trial = self._ends(sorted({*near, *far, 0.0}), fpr)
            found = intersect(found, trial)
            if found.tpr[1] - found.tpr[0] <= tolerance * found.tpr[1]:
                break
        return found

    def _value(self, x: float, fpr: float) -> float:
        return self.height(x, _faint(x, fpr))[1] + math.exp(x) * fpr

    def _bracketing(self, fpr: float) -> list[float]:
        """Increasing x with the best of them inside, unless that lies at an end of all that makes sense; holds 0."""
        limit = min(MOST, -math.log(fpr)) if fpr > 0.0 else MOST
        xs = [-2.0, -0.5, 0.0, min(limit, 4.0) / 2, min(limit, 4.0)]

        def best() -> float:
            return min(xs, key=lambda x: self._value(x, fpr))

        while best() == xs[-1] and xs[-1] < limit:
            xs.append(min(limit, 2 * xs[-1] + 0.5))
        while best() == xs[0] and xs[0] > -MOST:
            xs.insert(0, max(-MOST, 2 * xs[0]))
        return sorted(set(xs))

    def _locate(self, coarse: list[float], fpr: float, tolerance: float) -> tuple[float, float]:
        """(x, bend): about where the value is least, and half its second derivative there.

        Parabolas through the best three points, every third time a halving of the wider side, until the three are as
        close as the points that will prove the value.
        """
        xs = list(coarse)
        bend = 0.0
        for turn in range(ROUNDS):
            i = min(range(len(xs)), key=lambda j: self._value(xs[j], fpr))
            lo, mid, hi = xs[max(i - 1, 0)], xs[i], xs[min(i + 1, len(xs) - 1)]
            if lo == mid or mid == hi:
                break
            a, b, c = (self._value(x, fpr) for x in (lo, mid, hi))
            p, r = (b - a) / (mid - lo), (c - b) / (hi - mid)
            bend = (r - p) / (hi - lo)
            close = _spacing(tolerance, b, bend)
            if bend > 0.0 and hi - lo <= max(4 * close, 1e-9):
                break
            # The value is convex in e^x, not in x: where the three bend the other way, halve.
            vertex = (lo + mid) / 2 - p / (2 * bend) if bend > 0.0 else math.inf
            wider = (mid + hi) / 2 if hi - mid > mid - lo else (lo + mid) / 2
            if turn % 3 == 2 or not lo < vertex < hi:
                vertex = wider
            elif abs(vertex - mid) < close:
                vertex = mid + math.copysign(min(close, abs(wider - mid)), wider - mid)
            xs = sorted({*xs, vertex})
        return xs[min(range(len(xs)), key=lambda j: self._value(xs[j], fpr))], bend

    def _ends(self, xs: list[float], fpr: float) -> Point:
        """All that the evaluated points prove at this FPR; xs increasing, with 0 inside."""
        x = np.array(xs)
        ends = np.array([self.height(v, _faint(v, fpr)) for v in xs])
        ahead, behind = x >= 0.0, x <= 0.0
        y = np.exp(x[ahead])
        z = np.exp(-x[behind])[::-1]
        a, b = ends[ahead], np.array([self.behind.at(float(-v), FAINT * (1.0 - fpr)) for v in x[behind]])[::-1]
        # The point next to 1 on the other side, as seen from each side; H(0) = 1 if there is none.
        before_y = (1.0 / z[1], float(ends[behind][-2, 1])) if z.size > 1 else (0.0, 1.0)
        before_z = (1.0 / y[1], float(1.0 - 1.0 / y[1] + a[1, 1] / y[1])) if y.size > 1 else (0.0, 1.0)
        corner, floor = envelope(y, a[:, 0], a[:, 1], before_y)
        corner_z, floor_z = envelope(z, b[:, 0], b[:, 1], before_z)
        # Each side of y = 1 in the form that loses no digit: TPR for y >= 1, FNR for y <= 1.
        steep_low, steep_high = float(np.min(floor + corner * fpr)), float(np.min(a[:, 1] + y * fpr))
        flat_high, flat_low = float(np.max((1.0 - floor_z - fpr) / corner_z)), float(np.max((1.0 - b[:, 1] - fpr) / z))
        tpr_low = min(steep_low * (1 - ROUND), 1.0 - flat_high - ROUND)
        tpr_high = min(steep_high * (1 + ROUND), 1.0 - flat_low + ROUND, 1.0)
        fnr_low = max(flat_low - ROUND, 1.0 - steep_high - ROUND, 0.0)
        fnr_high = max(flat_high, 1.0 - steep_low) + ROUND
        # No test need be worse than a coin.
        tpr_low, fnr_high = min(max(tpr_low, fpr), tpr_high), min(fnr_high, 1.0 - fpr + ROUND)
        return Point(fpr, (tpr_low, tpr_high), (min(fnr_low, fnr_high), fnr_high))


def _faint(x: float, fpr: float) -> float:
    """The delta that changes nothing of e^x fpr, or on the other side of a FNR."""
    return FAINT * (math.exp(x) * fpr if x >= 0.0 else 1.0 - fpr)


def _spacing(tolerance: float, value: float, bend: float) -> float:
    """The distance between points at which the envelope misses about a third of tolerance x value; at most WIDEST."""
    return min(WIDEST, math.sqrt(0.3 * tolerance * value / bend)) if bend > 0.0 and value > 0.0 else 0.0


def envelope(y: Array, low: Array, high: Array, before: tuple[float, float]) -> tuple[Array, Array]:
    """Corners (Y, V) of a piecewise linear function below a convex falling H on [y_0, inf) with low <= H(y) <= high.

    y: shape (n,), increasing.  before: a point left of y_0 and an upper end of H there.  Shapes of the result (m,).
    At y_i the slope of H is at least (low_i - high_{i-1}) / (y_i - y_{i-1}) and at most (high_{i+1} - low_i) / (...), so
    that in a cell H is above both the line from its left end and the line from its right end; beyond the last point
    it is above the line from there and above 0.
    """
    left = np.concatenate(([before[0]], y[:-1]))
    left_high = np.concatenate(([before[1]], high[:-1]))
    falls = np.minimum((low - left_high) / (y - left), 0.0)
    rises = np.append(np.minimum((high[1:] - low[:-1]) / np.diff(y), 0.0), 0.0)
    start, stop, width = low[:-1], low[1:], np.diff(y)
    s, r = falls[:-1], rises[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        cross = np.where(r > s, (stop - start - r * width) / (s - r), 0.0)
    cross = np.clip(cross, 0.0, width)
    kink = np.maximum(start + s * cross, stop + r * (cross - width))
    end_left = np.maximum(start, stop - r * width)
    end_right = np.maximum(stop, start + s * width)
    last = low[-1]
    with np.errstate(over="ignore"):
        zero = y[-1] - last / falls[-1] if falls[-1] < 0.0 and last > 0.0 else y[-1]
    corners = np.concatenate((y[:-1], y[:-1] + cross, y[1:], [y[-1], zero]))
    floor = np.concatenate((end_left, kink, end_right, [last, 0.0]))
    return corners, np.maximum(floor, 0.0)


def check_probability(name: str, value: float) -> None:
    if not (0.0 <= value <= 1.0):
        raise InputError(name, f"{value} is not in [0, 1]")
