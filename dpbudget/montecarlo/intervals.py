"""Confidence intervals that hold at every sample size, for means of values in [0, 1] and for success rates.

None of them is an approximation: each covers with at least its stated probability whatever the law of the values is,
which is what makes a check of delta = 1e-10 worth anything.

    kl          Hoeffding 1963 (J. Amer. Statist. Assoc. 58), Thm 1: P(mean >= m') <= exp(-n KL(m' || m)).
    bernstein   Maurer, Pontil 2009, arXiv:0907.3740, Thm 4: uses the sample variance.
    betting     Waudby-Smith, Ramdas 2024, arXiv:2010.09686, Thm 1 with Ville's inequality: a gambler who bets against
                the mean m multiplies his capital by 1 + bet (x - m); a mean that makes him rich is rejected.

`betting` is the narrowest where the values vary less than coin flips, as the weights of tilted sampling do; `kl`, which
needs the mean alone, is the narrowest for values near 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpbudget.binomial import MOST_TRIALS, tails
from dpbudget.errors import InputError

Array = NDArray[np.float64]

METHODS = ("betting", "kl", "bernstein")
LEAST_VALUE = 1e-30
RATIO = 1.02
BOLDNESS = 0.9
ROUND_OFF = 1e-12
TINY = 1e-300


def _edges() -> Array:
    steps = math.ceil(-math.log(LEAST_VALUE) / math.log(RATIO))
    return np.concatenate(([0.0], np.exp(np.linspace(math.log(LEAST_VALUE), 0.0, steps + 1))))


EDGES = _edges()


@dataclass
class Tally:
    """What the intervals need to know of any number of values in [0, 1], in bounded memory.

    `weight[j]` is the number of values at EDGES[j] after every value was split between its two neighbouring edges so
    that its mean stays. For a concave function f, sum weight f(EDGES) <= sum f(values): the chord lies below.
    """

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    weight: Array = field(default_factory=lambda: np.zeros(EDGES.size))

    def add(self, values: Array) -> None:
        """Count `values`, shape (k,), each in [0, 1]. Raises InputError on anything else, NaN included."""
        if not (values.size == 0 or (values.min() >= 0.0 and values.max() <= 1.0)):
            raise InputError("values", "are not all in [0, 1]")
        self.count += int(values.size)
        self.total += float(values.sum())
        self.squares += float(np.dot(values, values))
        index = np.minimum(np.searchsorted(EDGES, values, side="right") - 1, EDGES.size - 2)
        share = (values - EDGES[index]) / (EDGES[index + 1] - EDGES[index])
        self.weight += np.bincount(index, 1.0 - share, EDGES.size)
        self.weight += np.bincount(index + 1, share, EDGES.size)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    @property
    def variance(self) -> float:
        """Sample variance with divisor count - 1; 1/4, the largest there is, before the second value."""
        if self.count < 2:
            return 0.25
        return max(0.0, self.squares - self.total * self.mean) / (self.count - 1)


def mean_interval(
    tally: Tally, confidence: float, method: str = "betting", pilot: Tally | None = None
) -> tuple[float, float]:
    """(lower, upper): the mean of the law of the tallied values lies inside with probability >= confidence.

    pilot: values that are independent of `tally`; they choose the size of the bet, never whether the interval covers.
    Rounded outwards. Raises InputError for a confidence outside of (0, 1) or an unknown method.
    """
    _check_confidence(confidence)
    if method not in METHODS:
        raise InputError("interval", f"{method!r} is not one of {', '.join(METHODS)}")
    if tally.count == 0:
        return 0.0, 1.0
    log_odds = math.log(2.0) - math.log1p(-confidence)
    if method == "kl":
        low, high = _kl(tally.mean, log_odds / tally.count)
    elif method == "bernstein":
        low, high = _bernstein(tally, log_odds)
    else:
        low, high = _betting(tally, log_odds, pilot or Tally())
    return max(0.0, low * (1 - ROUND_OFF)), min(1.0, high * (1 + ROUND_OFF))


def success_upper(successes: int, trials: int, failure: float) -> float:
    """Upper end for a success probability that fails to cover with probability <= failure.

    Clopper, Pearson 1934, Biometrika 26: the p at which `successes` or fewer have probability `failure`, from tails of
    known error, since inverse beta functions are wrong by orders of magnitude in some versions of SciPy. Beyond
    MOST_TRIALS trials Hoeffding's bound, which is a little wider.
    """
    if not (0 <= successes <= trials):
        raise InputError("counts", f"{successes} of {trials} is not a success count")
    if not (0.0 < failure < 1.0):
        raise InputError("confidence", f"a failure probability of {failure} is not in (0, 1)")
    if successes == trials:
        return 1.0
    if successes == 0:
        return -math.expm1(math.log(failure) / trials) * (1 + ROUND_OFF)
    chernoff = _kl(successes / trials, -math.log(failure) / trials)[1]
    if trials > MOST_TRIALS:
        return chernoff

    def rejected(p: float) -> bool:
        return tails(successes, trials, p).below[1] <= failure

    found = _bisect(rejected, min(chernoff, math.nextafter(1.0, 0.0)), successes / trials)
    return found if rejected(found) else 1.0


def needed(relative_variance: float, precision: float, confidence: float) -> int:
    """About how many values make the `betting` interval reach half-width / mean = precision. A forecast, no promise."""
    log_odds = math.log(2.0) - math.log1p(-confidence)
    return math.ceil(1.1 * 2.0 * log_odds * relative_variance / precision**2 + 2.0 * log_odds / precision)


def _kl(mean: float, budget: float) -> tuple[float, float]:
    def divergence(m: float) -> float:
        left = mean * math.log(mean / m) if mean > 0.0 else 0.0
        right = (1.0 - mean) * (math.log1p(-mean) - math.log1p(-m)) if mean < 1.0 else 0.0
        return left + right

    def rejected(m: float) -> bool:
        return divergence(m) > budget

    low = 0.0 if mean <= TINY else _bisect(rejected, TINY, mean)
    high = 1.0 if mean >= 1.0 else _bisect(rejected, math.nextafter(1.0, 0.0), max(mean, TINY))
    return (low if low > TINY else 0.0), (high if high < math.nextafter(1.0, 0.0) else 1.0)


def _bernstein(tally: Tally, log_odds: float) -> tuple[float, float]:
    if tally.count < 2:
        return 0.0, 1.0
    # Thm 4 with delta = (1 - confidence) / 2 on each side: log(2 / delta) = log_odds + log 2.
    level = log_odds + math.log(2.0)
    width = math.sqrt(2.0 * tally.variance * level / tally.count) + 7.0 * level / (3.0 * (tally.count - 1))
    return max(0.0, tally.mean - width), min(1.0, tally.mean + width)


def _betting(tally: Tally, log_odds: float, pilot: Tally) -> tuple[float, float]:
    """Two gamblers with one constant bet each; both log capitals are monotone in m, so that bisection inverts them.

    The bet sqrt(2 log_odds / (n variance)) is the best for small deviations; capped at BOLDNESS / m (or 1 - m), so that
    no value can ruin the gambler. The cap depends on m alone: for every m the capital stays a martingale.
    """
    guess = max(pilot.variance, pilot.mean / (pilot.count + 1.0), 1.0 / (pilot.count + 1.0) ** 2)
    bet = math.sqrt(2.0 * log_odds / (tally.count * guess))
    used = np.flatnonzero(tally.weight)
    values, weight = EDGES[used], tally.weight[used]

    def too_low(m: float) -> bool:
        return float(np.dot(weight, np.log1p(min(bet, BOLDNESS / m) * (values - m)))) >= log_odds

    def too_high(m: float) -> bool:
        return float(np.dot(weight, np.log1p(-min(bet, BOLDNESS / (1.0 - m)) * (values - m)))) >= log_odds

    mean = tally.mean
    low = 0.0 if mean <= TINY else _bisect(too_low, TINY, mean)
    high = 1.0 if mean >= 1.0 else _bisect(too_high, math.nextafter(1.0, 0.0), max(mean, TINY))
    return (low if low > TINY else 0.0), (high if high < math.nextafter(1.0, 0.0) else 1.0)


def _bisect(rejected: Callable[[float], bool], outside: float, inside: float) -> float:
    """The rejected argument nearest to `inside`, up to a relative 1e-13, for a test that rejects from some argument on.

    `outside` itself where not even that is rejected.
    """
    if not rejected(outside):
        return outside
    a, b = math.log(outside), math.log(inside)
    while abs(b - a) > 1e-13 * max(1.0, abs(b)):
        middle = (a + b) / 2
        if rejected(math.exp(middle)):
            a = middle
        else:
            b = middle
    return math.exp(a)


def _check_confidence(confidence: float) -> None:
    if not (0.0 < confidence < 1.0):
        raise InputError("confidence", f"{confidence} is not in (0, 1)")
