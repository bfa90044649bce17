"""delta(epsilon) of a run as a function that is cheap to ask again: what was built once answers a whole neighbourhood."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpbudget.accounting import closed_form, fourier, mesh, rdp, sampling
from dpbudget.accounting.account import Ledger, Parallel
from dpbudget.accounting.pairs import Pair
from dpbudget.accounting.tabulated import Tabulated
from dpbudget.accounting.tradeoff import Ends, Profile, largest
from dpbudget.errors import ContradictionError, NotCertified

Parts = Sequence[tuple[Pair, int]]

# Relative widths of delta.
SHARP = 1e-7
FINER = 1e-6  # asked of the sums that are shared, so that they stay sharp some way from where they were built
TOLERANCE = 1e-5  # asked of a lattice
FAIR = 1e-4  # of a lattice, as good as a sum where those are rarely to be had; also that of an epoch in bins
COARSE = 1e-3  # of a lattice, before another one is tried
POOR = 1e-2  # where lattices are no better, one this wide is not improved on

NEIGHBOURS = 3
LOG_NOTHING = -690.0
NOTHING = 1e-100
AHEAD = 2.5  # standard deviations: a lattice serves about five to either side of its tilt
MOST_SUMS, MOST_LATTICES = 8, 4  # tries that may fail: of Fourier sums, of lattices
NEAR = 0.1  # where one try failed another one this close, relatively, would fail as well


class SharedDelta:
    """Certified ends of delta at any epsilon >= 0 for one composition. parts: (pair, count), at least one.

    Ends of an earlier Fourier sum are taken if they are relatively SHARP at the new epsilon, or almost as sharp as where
    it was built, which they are some way around; else a new one is built. Where none is sharp a lattice is tabulated, good
    to about TOLERANCE at every epsilon around. After some tries the ends are what all that was built proves: wide then,
    never wrong. Raises ContradictionError where two proofs exclude each other.
    """

    def __init__(self, parts: Parts, tolerance: float = TOLERANCE) -> None:
        self.tolerance = tolerance
        self.parts = [(pair, count) for pair, count in parts if count]
        self.sums: list[tuple[float, fourier.Spectrum, float]] = []
        self.lattices: list[Tabulated] = []
        self.rough: list[float] = []
        self.coarse: list[float] = []
        self.fair = COARSE
        self.alone = len(self.parts) == 1 and self.parts[0][1] == 1 and closed_form.has_closed_form(self.parts[0][0])
        self.top = self._top()

    def _top(self) -> float:
        """A loss that the finite part of the sum exceeds with probability <= steps x e^LOG_NOTHING."""
        total = 0.0
        for pair, count in self.parts:
            ends = [loss for loss, _ in pair.atoms]
            start, end = pair.support(LOG_NOTHING)
            if end > start:
                ends.append(float(pair.loss(np.array([end]))[0]) if math.isfinite(end) else math.inf)
            total += count * max(ends, default=0.0)
        return total + 1e-12 * abs(total)

    def _beyond(self, epsilon: float) -> Ends:
        """delta from about `top` on: the mass of infinite losses, and 1 - e^{epsilon - top} at most of the finite ones."""
        finite = sum(n * (math.log1p(-p.infinite_mass) if p.infinite_mass < 1.0 else -math.inf) for p, n in self.parts)
        mass = -math.expm1(finite)
        rest = sum(count for _, count in self.parts) * math.exp(LOG_NOTHING) * 1.01
        rest += -math.expm1(min(0.0, epsilon - self.top))
        return mass * (1 - 1e-12), min(1.0, mass * (1 + 1e-12) + rest)

    def __call__(self, epsilon: float) -> Ends:
        return self.ends(epsilon)

    def ends(self, epsilon: float, ignore: float = 0.0) -> Ends:
        """(lower, upper) of delta; ends that only show delta <= ignore will do, which saves most of the work."""
        if epsilon >= self.top * (1 - 1e-11):
            return self._beyond(epsilon)
        if self.alone:
            return closed_form.delta_interval(self.parts[0][0], epsilon)
        with np.errstate(all="ignore"):  # near `top` the engines may overflow; what is not a number proves nothing
            found, sharpness = self._known(epsilon)
            if _narrow(found, sharpness) or found[1] <= ignore:
                return found
            if epsilon > 0.7 * self.top:
                # Close to the largest loss delta is beyond any use, and the tilt that would reach it has no bound.
                found = _both(found, (0.0, self._moment(epsilon)), epsilon)
                if found[1] <= max(NOTHING, ignore):
                    return found
            if len(self.rough) > len(self.sums):  # sums are hardly to be had: what a lattice proves will do
                sharpness = FAIR
            for build, wanted in ((self._sum, sharpness), (self._lattice, self.fair)):
                if _narrow(found, wanted):
                    break
                if build(epsilon):
                    found = _both(found, self._known(epsilon)[0], epsilon)
        return found if _narrow(found, COARSE) else _both(found, self._beyond(epsilon), epsilon)

    def _known(self, epsilon: float) -> tuple[Ends, float]:
        """What was built proves at epsilon, and the relative width that a new sum would have to improve on."""
        found, sharpness = (0.0, 1.0), SHARP
        for _, spectrum, width in sorted(self.sums, key=lambda item: abs(item[0] - epsilon))[:NEIGHBOURS]:
            ends, sharp = spectrum.bounds(epsilon), max(SHARP, 2 * min(width, TOLERANCE))
            if _narrow(ends, sharp):
                return ends, sharp
            found = _both(found, ends, epsilon)
        for lattice in reversed(self.lattices):
            found = _both(found, lattice.ends(epsilon), epsilon)
            if _narrow(found, self.tolerance):
                break
        return found, sharpness

    def _moment(self, epsilon: float) -> float:
        try:
            return rdp.delta(self.parts, epsilon).delta
        except (NotCertified, ArithmeticError):
            return 1.0

    def _sum(self, epsilon: float) -> bool:
        """Build a Fourier sum at epsilon; whether there is a new one."""
        if len(self.rough) >= MOST_SUMS or _close(epsilon, self.rough):
            return False
        try:
            log_delta = fourier.chernoff_log_delta(self.parts, epsilon)
            spectrum = fourier.build(self.parts, log_delta, epsilon, FINER)
        except (fourier.TooRough, NotCertified, ArithmeticError):
            self.rough.append(epsilon)
            return False
        low, high = spectrum.bounds(epsilon)
        if not _narrow((low, high), TOLERANCE):
            self.rough.append(epsilon)
        self.sums.append((epsilon, spectrum, (high - low) / high if high > 0.0 else 0.0))
        return True

    def _lattice(self, epsilon: float) -> bool:
        """Tabulate a lattice for epsilon and what lies around it; whether there is a new one."""
        if len(self.coarse) >= MOST_LATTICES or _close(epsilon, self.coarse):
            return False
        self.coarse.append(epsilon)
        built, tolerance, own = len(self.lattices), self.tolerance, [POOR]
        for ahead in (AHEAD, 0.0):
            try:
                compositions = mesh.table_compositions(self.parts, epsilon, ahead=ahead, tolerance=tolerance)
            except (NotCertified, ArithmeticError, MemoryError, ValueError):
                continue
            self.lattices.append(Tabulated.of(*compositions))
            low, high = self.lattices[-1].ends(epsilon)
            if _narrow((low, high), FAIR):
                break
            own.append((high - low) / high)
            # The mesh was made for the moment at the tilt, of which delta is a small part where few large losses rule.
            tolerance = self.tolerance * min(1.0, max(self.tolerance * high / (high - low), 1e-4))
        else:  # no better one is to be had around here
            self.fair = max(self.fair, 2 * min(own))
        return len(self.lattices) > built


def _narrow(ends: Ends, width: float) -> bool:
    return 0.0 <= ends[1] - ends[0] <= width * ends[1]


def _close(epsilon: float, others: Sequence[float]) -> bool:
    return any(abs(other - epsilon) <= NEAR * max(other, epsilon) for other in others)


def _both(one: Ends, other: Ends, epsilon: float) -> Ends:
    """What two proofs show together; ends that are not numbers show nothing."""
    low = max(one[0], other[0]) if other[0] >= 0.0 else one[0]
    high = min(one[1], other[1]) if other[1] >= 0.0 else one[1]
    if not low <= high:
        raise ContradictionError(f"two proofs exclude each other at epsilon {epsilon!r}: {low!r} > {high!r}")
    return low, high


class Enclosed:
    """delta of what no pair describes, between those of two compositions; without a lower one nothing is proven below."""

    def __init__(self, below: Parts, above: Parts) -> None:
        self.below = SharedDelta(below, FAIR) if below else None
        self.above = SharedDelta(above, FAIR)

    def ends(self, epsilon: float, ignore: float = 0.0) -> Ends:
        low = self.below.ends(epsilon, ignore)[0] if self.below else 0.0
        return low, self.above.ends(epsilon, ignore)[1]


def ledger_profiles(ledger: Ledger | Parallel) -> tuple[dict[str, Profile], bool]:
    """(profile by direction, attained): the largest delta of all partitions, direction by direction.

    Keys are "remove" and "add", or "both" alone. attained: whether the lower ends are those of the mechanism, and not
    only of a pair that dominates it; `upper_only` drops them where not.
    """
    ledgers = ledger.ledgers if isinstance(ledger, Parallel) else (ledger,)
    if any(each.unbounded for each in ledgers):
        return {"both": Profile(lambda _: (1.0, 1.0))}, True
    used = [_by_direction(each) for each in ledgers if each.counts]
    if not used:
        return {"both": Profile(lambda _: (0.0, 0.0))}, True
    names = sorted({name for each, _ in used for name in each if name != "both"}, reverse=True) or ["both"]
    found = {name: largest([each.get(name) or each["both"] for each, _ in used]) for name in names}
    return found, all(attained for _, attained in used)


def _by_direction(ledger: Ledger) -> tuple[dict[str, Profile], bool]:
    """The profiles of one ledger, and whether its lower ends are attained."""
    sources: dict[str, SharedDelta | Enclosed]
    if len(ledger.counts) == 1 and (around := sampling.enclosing_parts(*ledger.counts[0], ledger.adjacency)):
        sources, attained = {name: Enclosed(*parts) for name, parts in around.items()}, True
    else:
        sources = {name: SharedDelta(parts) for name, parts in ledger.directions.items()}
        attained = all(pair.tight for parts in ledger.directions.values() for pair, _ in parts)
    return {name: Profile(source.ends, source.ends) for name, source in sources.items()}, attained


def upper_only(profile: Profile) -> Profile:
    """Without the lower ends."""

    def ends(epsilon: float, ignore: float = 0.0) -> Ends:
        return 0.0, profile.at(epsilon, ignore)[1]

    return Profile(ends, ends)
