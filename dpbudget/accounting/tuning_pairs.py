"""One trial given as a composition of dominating pairs: its certified profile as a dense table, its Renyi curve.

The bounds on tuning ask for delta at thousands of epsilons. A few transforms, each sharp around one delta, answer all of
them; between the tabulated points delta is convex in e^epsilon, so that the chord lies above it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbudget.accounting import fourier, mesh, rdp
from dpbudget.accounting.convolve import Composition
from dpbudget.accounting.ledger import Ledger
from dpbudget.accounting.pairs import Array, Pair, SampledGaussianAdd, SampledGaussianRemove
from dpbudget.accounting.tuning_base import ROUND, BaseRun, GaussianBase, ZCDPBase
from dpbudget.errors import InputError, NotCertified
from dpbudget.model import ZCDP

Parts = Sequence[tuple[Pair, int]]
Profile = Callable[[Array], Array]
LEVELS = 1.5
"""Distance of two transforms in z, delta = e^{-z^2/2}: about standard deviations of the tilted loss."""
REACH = 2.0
"""Distance in z up to which a transform is asked."""
SPACING = 0.012
"""Wanted logarithm of the ratio of neighbouring deltas: the chord is then at most 2e-5 above, relative to delta."""
MOST_POINTS = 6000


@dataclass(frozen=True)
class Table:
    """Upper bounds of delta at increasing epsilons from 0 on; beyond the last one the last value holds."""

    epsilons: Array
    deltas: Array

    def __call__(self, epsilons: Array) -> Array:
        """The chord in e^epsilon between neighbours. Shape of epsilons, each >= 0."""
        last = self.epsilons.size - 1
        i = np.clip(np.searchsorted(self.epsilons, epsilons, side="right") - 1, 0, last - 1)
        left, right = self.epsilons[i], self.epsilons[i + 1]
        at = np.minimum(epsilons, right)
        # (e^at - e^left) / (e^right - e^left), written so that nothing overflows
        share = np.exp(at - right) * -np.expm1(left - at) / -np.expm1(left - right)
        low, high = self.deltas[i], self.deltas[i + 1]
        return np.minimum((low + np.clip(share * (1 - 8 * ROUND), 0.0, 1.0) * (high - low)) * (1 + 8 * ROUND), 1.0)


def tabulate(parts: Parts, floor: float, tolerance: float = 1e-6) -> Table:
    """Certified upper bounds of the profile of the composition of `parts`, sharp down to delta = floor.

    Raises NotCertified where no transform can be built.
    """
    kept = [(pair, count) for pair, count in parts if count > 0]
    if not kept:
        return Table(np.array([0.0, 1.0]), np.zeros(2))
    deepest = max(math.sqrt(-2.0 * math.log(floor)), 2.0)
    z = np.linspace(1.0, deepest, max(2, math.ceil((deepest - 1.0) / LEVELS) + 1))
    profiles: list[Profile] = []
    for v in z:
        try:
            profiles.append(transform(kept, -0.5 * v * v, tolerance))
        except NotCertified:  # the neighbours answer; the table is looser, not wrong
            profiles.append(lambda epsilons: np.ones(epsilons.shape))

    def everywhere(epsilons: Array) -> Array:
        return np.asarray(np.minimum(np.min([one(epsilons) for one in profiles], axis=0), 1.0))

    end = _end(everywhere, floor)
    coarse = np.unique(np.concatenate([np.linspace(0.0, end, 100), end * np.geomspace(1e-4, 1.0, 60)]))
    depth = -np.log(np.maximum(np.minimum.accumulate(everywhere(coarse)), 1e-320))
    height = depth / SPACING + 200.0 * coarse / end
    points = int(min(max(height[-1] - height[0], 200.0), MOST_POINTS))
    epsilons = np.interp(np.linspace(height[0], height[-1], points), height, coarse)
    epsilons = np.unique(np.concatenate([coarse, epsilons]))
    where = np.clip(np.sqrt(2.0 * np.interp(epsilons, coarse, depth)), z[0], z[-1])
    deltas = np.ones(epsilons.size)
    for one, v in zip(profiles, z, strict=True):
        near = np.abs(where - v) <= REACH
        deltas[near] = np.minimum(deltas[near], one(epsilons[near]))
    return Table(epsilons, np.minimum.accumulate(deltas))


def _end(value: Profile, floor: float) -> float:
    """An epsilon at which delta is about `floor`, or no longer falls. Asked for many at once: a profile prepares each call."""
    doubling = np.geomspace(2.5e-4, 2.5e-4 * 2.0**32, 33)
    delta = value(doubling)
    high, here, before = doubling[2:], delta[2:], delta[:-2]
    ends = np.flatnonzero((here <= floor) | ((high > 8.0) & (here >= 0.9999 * before) & (before < 0.9999)))
    end = float(high[ends[0] if ends.size else -1])
    low = end / 2.0
    for _ in range(2):
        grid = np.linspace(low, end, 65, dtype=np.float64)
        under = np.flatnonzero(value(grid) <= floor)
        place = int(under[0]) if under.size else grid.size - 1
        low, end = float(grid[max(place - 1, 0)]), float(grid[place])
    return end


def transform(parts: Parts, log_delta: float, tolerance: float) -> Profile:
    """delta at any epsilon >= 0, certified from above and sharp near exp(log_delta). Fourier, else the lattice.

    Raises NotCertified where neither can be built.
    """
    try:
        if all(fourier.is_atomic(pair) for pair, _ in parts):
            raise fourier.TooRough  # no characteristic function of atoms alone decays
        # an error bound that overflows only says that the parts are too rough; what is not a number is refused
        with np.errstate(over="ignore", divide="ignore", invalid="raise"):
            spectrum = fourier.build(parts, log_delta, None, tolerance)
    except (fourier.TooRough, NotCertified, ArithmeticError):
        pass
    else:
        return lambda epsilons: np.array([_number(spectrum.bounds(float(e))[1]) for e in epsilons])
    loose = log_delta > -2.0 or sum(count for _, count in parts) > 1
    try:
        composition = mesh.upper_composition(parts, log_delta, 10 * tolerance if loose else tolerance)
    except ArithmeticError as why:  # losses that no lattice has room for
        raise NotCertified("the profile of a trial leaves the range of doubles") from why
    return lambda epsilons: lattice_upper(composition, epsilons)


def _number(bound: float) -> float:
    """1, which is always true, in place of a bound that is not a number."""
    return bound if bound >= 0.0 else 1.0


def lattice_upper(composition: Composition, epsilons: Array) -> Array:
    """Upper bounds of delta at many epsilons >= 0 from one composition; 1 where its window does not reach.

    As convolve.evaluate, with one table around the peak: sums more than 650 / lam above it are left out there, which
    costs at most e^-650 on the scale of the table.
    """
    peak = composition.offset + composition.step * (composition.first + int(np.argmax(composition.mass)))
    table = composition.table(1, max(peak, 0.0))
    log_scale = table.log_scale + composition.relative_error
    point = np.maximum(epsilons - composition.loss_error, 0.0)
    j = np.searchsorted(table.s, point)
    out = np.where(j == 0, 1.0, 0.0)
    inside = (j > 0) & (j < table.s.size)
    k = j[inside]
    with np.errstate(over="ignore", under="ignore"):
        scale = np.exp(min(log_scale, 700.0))
        out[j >= table.s.size] = table.error[-1] * scale
        value = table.head[k] - np.exp(point[inside] - table.s[k]) * table.fall[k] + table.error[k - 1]
        out[inside] = np.maximum(value, 0.0) * scale
        out += np.exp(min(log_scale - 640.0, 700.0)) + composition.infinite
    return np.where(out >= 0.0, np.minimum(out, 1.0), 1.0) if log_scale <= 700.0 else np.ones(epsilons.shape)


@dataclass(frozen=True)
class PairsBase:
    """A trial as the composition of dominating pairs, (pair, count) for each direction; see account.Ledger.directions.

    floor: the delta down to which the profile is sharp; below it the bounds stay true and get loose. Take about
    1e-6 of the delta of interest.  pure_epsilon: the sum of the epsilons where all of it is pure DP.
    """

    parts: Mapping[str, Parts]
    floor: float = 1e-20
    pure_epsilon: float = math.inf

    def __post_init__(self) -> None:
        if set(self.parts) not in ({"both"}, {"remove", "add"}):
            raise InputError("directions", "a trial needs the directions remove and add, or both")
        if not (1e-300 <= self.floor < 1.0):
            raise InputError("floor", f"{self.floor} is not in [1e-300, 1)")

    @cached_property
    def _curve(self) -> dict[tuple[str, float], float]:
        return {}

    @property
    def directions(self) -> tuple[str, ...]:
        return tuple(self.parts)

    @cached_property
    def tables(self) -> dict[str, Table]:
        return {name: tabulate(parts, self.floor) for name, parts in self.parts.items()}

    def delta_upper(self, direction: str, epsilons: Array) -> Array:
        return self.tables[direction](epsilons)

    def rdp(self, direction: str, orders: Array) -> Array:
        return np.array([self._rdp(direction, float(order)) for order in orders])

    def _rdp(self, direction: str, order: float) -> float:
        known = self._curve.get((direction, order))
        if known is None:
            try:
                known = float(rdp.rdp_total(self.parts[direction], np.array([order]))[0])
            except NotCertified:
                known = math.inf
            self._curve[direction, order] = known
        return known

    def repeated(self, count: int) -> BaseRun:
        if count == 1:
            return self
        longer = {name: [(pair, n * count) for pair, n in parts] for name, parts in self.parts.items()}
        return PairsBase(longer, self.floor, self.pure_epsilon * count)


def base_of(ledger: Ledger, delta: float) -> BaseRun:
    """One trial that makes the releases of `ledger`, sharp at `delta` and a good deal below.

    One Gaussian is taken in closed form. Raises NotCertified where no noise is added.
    """
    if ledger.unbounded:
        raise NotCertified(ledger.unbounded)
    rho = sum(count * mechanism.rho for mechanism, count in ledger.counts if isinstance(mechanism, ZCDP))
    if rho > 0.0 and all(isinstance(mechanism, ZCDP) for mechanism, _ in ledger.counts):
        return ZCDPBase(rho * (1.0 + 1e-13))
    if rho > 0.0:
        raise InputError(
            "mechanism",
            "no bound on tuning is known for zCDP guarantees together with other mechanisms",
            hint="State all of the trial in zCDP, or none of it.",
        )
    directions = ledger.directions
    sigmas = [_gaussian_sigma(parts) for parts in directions.values()]
    if all(sigma is not None and sigma == sigmas[0] for sigma in sigmas) and sigmas[0]:
        return GaussianBase(1.0 / sigmas[0] * (1.0 + 2 * ROUND))
    pure = max(sum(count * _largest_loss(pair) for pair, count in parts) for parts in directions.values())
    return PairsBase(directions, max(1e-300, min(1e-12, 1e-10 * delta)), pure)


def _gaussian_sigma(parts: Parts) -> float | None:
    """Standard deviation over sensitivity, where the composition is one plain Gaussian."""
    if len(parts) == 1 and parts[0][1] == 1:
        pair = parts[0][0]
        if isinstance(pair, SampledGaussianRemove | SampledGaussianAdd) and pair.rate == 1.0:
            return pair.sigma
    return None


def _largest_loss(pair: Pair) -> float:
    """The supremum of the privacy loss, rounded up; math.inf where it is infinite or not shown to be finite."""
    if pair.infinite_mass > 0.0:
        return math.inf
    largest = max((loss for loss, _ in pair.atoms), default=0.0)
    low, high = pair.support(-700.0)
    if low < high:
        largest = max(largest, float(pair.loss(np.array([high]))[0]))
        beyond = np.array([largest * (1.0 + 1e-12) + 1e-300])
        if float(pair.inverse_loss(beyond)[0]) != math.inf:
            return math.inf
    return max(largest, 0.0) * (1.0 + 1e-12)
