"""delta at an epsilon by sampling the privacy loss: an independent check of the accountant, with honest intervals.

With S the sum of the losses under the tilted law (`laws`), d = S - epsilon and K = sum of the K_j over all steps,

    delta = E[e^{K - lam S} (1 - e^{-d})_+] = B E[G],     B = e^{K - lam epsilon} lam^lam / (1 + lam)^{1 + lam},
    G = e^{-lam d} (1 - e^{-d})_+ (1 + lam)^{1 + lam} / lam^lam,   which lies in [0, 1] (its maximum is at e^d = 1 + 1/lam).

B is the Renyi bound of order lam + 1 (Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Prop. 12), and G is a bounded
variable of ordinary size at any delta: 20,000 samples give 1e-10 to 3 %. lam = 0 is plain sampling, with B = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri_exp

from dpbudget.errors import InputError, NotCertified
from dpbudget.montecarlo.intervals import METHODS, Tally, mean_interval, needed
from dpbudget.montecarlo.laws import CHUNK, AddLaw, FractionalRemoveLaw, Law, Phase, RemoveLaw

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]

DIRECTIONS = ("remove", "add")
MAX_TILT = 10**6
PILOT = 1000
MAX_SAMPLES = 10**8
CUT = 1e-5  # the P-mass above the ceilings, relative to the prefactor B
FINE = 4  # up to this tilt the spacing of the integers is coarse
KEPT = 1 / 300  # of the draws, at least, for a tilt between integers; else the nearest integer is taken


@dataclass(frozen=True)
class Sampled:
    """What sampling says of delta at one epsilon: lower <= delta <= upper with probability >= confidence.

    estimate: the unbiased mean. standard_error: of the estimate. tilt: lam. prefactor: B. weight: the mean of G.
    cut: P-mass that was left out of the sampling; it is part of `upper`. direction: "remove", "add" or "both".
    """

    direction: str
    epsilon: float
    estimate: float
    lower: float
    upper: float
    confidence: float
    standard_error: float
    samples: int
    tilt: float
    prefactor: float
    weight: float
    cut: float


@dataclass(frozen=True)
class Plan:
    """One direction at one epsilon, ready to be sampled. Without laws delta is known to be 0."""

    direction: str
    epsilon: float
    lam: float
    laws: Sequence[tuple[Law, int]]

    @property
    def log_prefactor(self) -> float:
        moment = sum(steps * law.log_moment for law, steps in self.laws)
        return moment - self.lam * self.epsilon - log_peak(self.lam)

    @property
    def cut(self) -> float:
        return min(1.0, sum(steps * law.missing for law, steps in self.laws))

    @property
    def round_off(self) -> float:
        """Relative error of B G that floating point may cause: in K, in the sum S (times lam) and in exp."""
        steps = sum(steps for _, steps in self.laws)
        return sum(n * law.error for law, n in self.laws) + (self.lam + 1) * (steps + 100) * 4e-16 + 1e-13


def log_peak(lam: float) -> float:
    """log of (1 + lam)^{1 + lam} / lam^lam."""
    return lam * math.log1p(1.0 / lam) + math.log1p(lam) if lam else 0.0


def plan(phases: Sequence[Phase], epsilon: float, direction: str, *, lam: float | None = None) -> Plan:
    """The tilt that makes B least (B is log-convex in lam), and ceilings where the far tail would carry the moment.

    lam: fix the tilt instead; 0 is plain sampling. Any choice is unbiased: it only decides how many samples it takes.
    """
    if direction not in DIRECTIONS:
        raise InputError("direction", f"{direction!r} is neither remove nor add")
    if not (0.0 <= epsilon < math.inf):
        raise InputError("epsilon", f"{epsilon} is not a number >= 0")
    if lam is not None and not (0.0 <= lam <= MAX_TILT):
        raise InputError("tilt", f"{lam} is not in [0, {MAX_TILT}]")
    kept = [phase for phase in phases if phase.steps]
    if not kept or (direction == "add" and epsilon >= _most_loss(kept)):
        return Plan(direction, epsilon, 0.0, [])

    def at(tilt: float, ceilings: Sequence[float]) -> Plan:
        pairs = zip(kept, ceilings, strict=True)
        return Plan(direction, epsilon, tilt, [(_law(p, tilt, direction, c), p.steps) for p, c in pairs])

    open_ended = [math.inf] * len(kept)
    if lam is not None:
        chosen = at(lam, open_ended)
    else:
        chosen = at(_least(lambda tilt: at(tilt, open_ended).log_prefactor), open_ended)
        if chosen.lam <= FINE:
            between = at(_between(lambda tilt: at(tilt, open_ended).log_prefactor, chosen.lam), open_ended)
            chosen = between if all(law.log_share > math.log(KEPT) for law, _ in between.laws) else chosen
        elif direction == "remove":
            chosen = _with_ceilings(kept, chosen, at)
    if not math.isfinite(chosen.log_prefactor):
        raise NotCertified("the moments of the privacy loss overflow; nothing was sampled")
    return chosen


def _law(phase: Phase, tilt: float, direction: str, ceiling: float) -> Law:
    if direction == "add":
        return AddLaw(phase.sigma, phase.rate, tilt)
    if tilt == int(tilt):
        return RemoveLaw(phase.sigma, phase.rate, int(tilt), ceiling)
    return FractionalRemoveLaw(phase.sigma, phase.rate, tilt)


def _with_ceilings(phases: Sequence[Phase], chosen: Plan, at: Callable[[float, Sequence[float]], Plan]) -> Plan:
    """`chosen`, or a plan with ceilings if that makes B smaller: lowered until the mass above is CUT of B at most."""
    limited, target = chosen, chosen.log_prefactor
    for _ in range(60):
        ceilings = _ceilings(phases, target + math.log(CUT))
        limited = at(_least(lambda tilt, c=ceilings: at(tilt, c).log_prefactor), ceilings)  # type: ignore[misc]
        if limited.log_prefactor >= target - 1.0:
            break
        target = limited.log_prefactor
    return limited if limited.log_prefactor < chosen.log_prefactor - 0.1 else chosen


def _most_loss(phases: Sequence[Phase]) -> float:
    """The loss in the add direction never exceeds -log(1 - q) in a step, so that delta is 0 from their sum on."""
    if any(phase.rate == 1.0 for phase in phases):
        return math.inf
    return sum(-phase.steps * math.log1p(-phase.rate) for phase in phases) * (1 + 1e-12)


def _ceilings(phases: Sequence[Phase], log_mass: float) -> list[float]:
    """x above which one step has P-mass e^{log_mass} / (number of steps), or less."""
    level = log_mass - math.log(sum(phase.steps for phase in phases)) - math.log(2.0)
    out = []
    for phase in phases:
        both = -phase.sigma * float(ndtri_exp(min(level, -1.0)))
        hit = 1.0 - phase.sigma * float(ndtri_exp(min(level - math.log(phase.rate), -1e-3)))
        out.append(math.inf if phase.rate == 1.0 else max(both, hit))
    return out


def _least(cost: Callable[[float], float]) -> int:
    """The integer in [0, MAX_TILT] at which a convex cost is least."""
    seen: dict[int, float] = {}

    def value(x: int) -> float:
        if x not in seen:
            found = cost(x)
            seen[x] = found if math.isfinite(found) else math.inf
        return seen[x]

    low, high = 0, 1
    while high < MAX_TILT and value(high) < value(high // 2):
        low, high = high // 2, min(2 * high, MAX_TILT)
    while high - low > 2:
        middle = (low + high) // 2
        if value(middle) <= value(middle + 1):
            high = middle + 1
        else:
            low = middle
    return min(range(low, high + 1), key=value)


def _between(cost: Callable[[float], float], whole: float) -> float:
    """A multiple of 1/16 near the integer `whole` at which a convex cost is least; a whole one if that is as good."""
    low, high = max(0, round(16 * (whole - 1))), round(16 * (whole + 1))
    while high - low > 2:
        middle = (low + high) // 2
        if cost(middle / 16) <= cost((middle + 1) / 16):
            high = middle + 1
        else:
            low = middle
    best = min((x / 16 for x in range(low, high + 1)), key=cost)
    return best if cost(best) < cost(whole) - 0.05 else whole


def weights(chosen: Plan, rng: np.random.Generator, rows: int) -> Array:
    """`rows` independent values of G, shape (rows,), each in [0, 1]."""
    total = np.zeros(rows)
    for law, steps in chosen.laws:
        total += law.sums(rng, rows, steps)
    d = np.maximum(total - chosen.epsilon, 0.0)
    with np.errstate(under="ignore"):
        value = np.exp(log_peak(chosen.lam) - chosen.lam * d) * -np.expm1(-d)
    if np.isnan(value).any():
        raise NotCertified("a sampled privacy loss is not a number")
    return np.asarray(np.minimum(value, 1.0), dtype=np.float64)


def _collect(chosen: Plan, rng: np.random.Generator, samples: int, report: Callable[[int], None]) -> Tally:
    longest = max(steps for _, steps in chosen.laws)
    rows = max(1, min(1 << 14, CHUNK // longest))
    tally = Tally()
    for first in range(0, samples, rows):
        count = min(rows, samples - first)
        tally.add(weights(chosen, rng, count))
        report(count)
    return tally


def sample_direction(
    chosen: Plan,
    rng: np.random.Generator,
    *,
    samples: int | None = None,
    precision: float | None = None,
    confidence: float = 0.99,
    interval: str = "betting",
    progress: Progress | None = None,
) -> Sampled:
    """Sample one direction, in memory that does not grow with the number of samples.

    samples: how many values of G, beside a small pilot that sizes the bet and is then thrown away.
    precision: instead, the wanted half-width of the interval over delta; the pilot's variance gives the number.
    progress: called with (samples done, samples in all).
    """
    if interval not in METHODS:
        raise InputError("interval", f"{interval!r} is not one of {', '.join(METHODS)}")
    if (samples is None) == (precision is None):
        raise InputError("samples", "give either samples or precision")
    if samples is not None and not (1 <= samples <= MAX_SAMPLES):
        raise InputError("samples", f"{samples} is not in [1, {MAX_SAMPLES:,}]")
    if precision is not None and not (0.0 < precision < 1.0):
        raise InputError("precision", f"{precision} is not in (0, 1)")
    if not chosen.laws:
        return Sampled(chosen.direction, chosen.epsilon, 0.0, 0.0, 0.0, confidence, 0.0, 0, 0, 0.0, 0.0, 0.0)
    pilot = _collect(chosen, rng, PILOT if samples is None else min(PILOT, 1 + samples // 10), lambda _: None)
    count = samples if samples is not None else _count(pilot, precision or 1.0, confidence)
    done = 0

    def report(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, count)

    tally = _collect(chosen, rng, count, report)
    low, high = mean_interval(tally, confidence, interval, pilot)
    prefactor, slack = math.exp(chosen.log_prefactor), chosen.round_off
    if not slack < 0.1:
        raise NotCertified("round-off swamps the sampled mean", hint="Check fewer steps, or a larger noise multiplier.")
    return Sampled(
        chosen.direction,
        chosen.epsilon,
        prefactor * tally.mean,
        max(0.0, prefactor * low * (1.0 - slack)),
        min(1.0, prefactor * high * (1.0 + slack) + chosen.cut),
        confidence,
        prefactor * math.sqrt(tally.variance / tally.count),
        tally.count,
        chosen.lam,
        prefactor,
        tally.mean,
        chosen.cut,
    )


def _count(pilot: Tally, precision: float, confidence: float) -> int:
    if pilot.mean == 0.0:
        raise NotCertified("no pilot sample exceeds epsilon; the tilt does not reach it", hint="Pass samples instead.")
    count = needed(pilot.variance / pilot.mean**2, precision, confidence)
    if count > MAX_SAMPLES:
        raise InputError(
            "precision", f"{precision:g} takes {count:,} samples", hint=f"At most {MAX_SAMPLES:,} are drawn."
        )
    return max(count, 100)


def sample_delta(
    phases: Sequence[Phase],
    epsilon: float,
    *,
    samples: int | None = None,
    precision: float | None = None,
    confidence: float = 0.99,
    seed: int = 0,
    directions: Sequence[str] = DIRECTIONS,
    tilted: bool = True,
    interval: str = "betting",
    progress: Progress | None = None,
) -> dict[str, Sampled]:
    """delta at epsilon by sampling every direction, and the larger of them under "both".

    Each direction has its own stream of `seed` and its own share of 1 - confidence (Bonferroni), so that all intervals
    hold together with probability >= confidence. tilted=False samples P itself: simpler to trust, and useless
    below delta ~ 1 / samples. progress: (done, in all) of the direction that is running.
    """
    if not directions:
        raise InputError("direction", "no direction is left to sample")
    share = 1.0 - (1.0 - confidence) / len(directions)
    found = {}
    for direction in directions:
        chosen = plan(phases, epsilon, direction, lam=None if tilted else 0)
        rng = np.random.default_rng([seed, DIRECTIONS.index(direction)])
        found[direction] = sample_direction(
            chosen, rng, samples=samples, precision=precision, confidence=share, interval=interval, progress=progress
        )
    return {**found, "both": larger(list(found.values()), confidence)}


def larger(sampled: Sequence[Sampled], confidence: float) -> Sampled:
    """The larger delta of several directions whose intervals hold together with probability >= confidence."""
    first = max(sampled, key=lambda item: item.estimate)
    return Sampled(
        "both",
        first.epsilon,
        first.estimate,
        max(item.lower for item in sampled),
        max(item.upper for item in sampled),
        confidence,
        first.standard_error,
        sum(item.samples for item in sampled),
        first.tilt,
        first.prefactor,
        first.weight,
        max(item.cut for item in sampled),
    )


def agrees(sampled: Sampled, lower: float, upper: float) -> bool:
    """Whether the sampled interval meets the certified interval [lower, upper] of delta. NaN never agrees."""
    return sampled.lower <= upper and lower <= sampled.upper


def refutes(sampled: Sampled, claimed_delta: float) -> bool:
    """Whether the claim "delta at this epsilon is at most claimed_delta" is refuted at the confidence of `sampled`."""
    return not (sampled.lower <= claimed_delta)
