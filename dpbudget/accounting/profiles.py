"""delta(epsilon) of a run as a function that is cheap to ask again: one Fourier sum serves a whole neighbourhood."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpbudget.accounting import fourier, lattice, mesh, rdp
from dpbudget.accounting.account import Ledger, Parallel
from dpbudget.accounting.convolve import Composition, evaluate
from dpbudget.accounting.pairs import Pair
from dpbudget.accounting.tradeoff import Ends, Profile, largest
from dpbudget.errors import ContradictionError, NotCertified

TOLERANCE = 1e-5
FINER = 1e-6  # asked of the sums that are shared, so that they stay sharp some way from where they were built
SHARP = 1e-7
NEIGHBOURS = 3
LOG_NOTHING = -690.0
NOTHING = 1e-100
MESHES = 4
WORK = 250_000_000  # lattice points looked at, some ten seconds
MESH_TOLERANCE = 1e-4
COARSE = 1e-3  # relative width that is good enough where only lattices answer


class SharedDelta:
    """Certified ends of delta at any epsilon >= 0 for one composition. parts: (pair, count), at least one.

    Ends of an earlier sum are taken if they are relatively SHARP at the new epsilon, or almost as sharp as where it was
    built, which they are some way around; else a new one is built, or `lattice.certify_delta` asked where none is sharp.
    """

    def __init__(self, parts: Sequence[tuple[Pair, int]]) -> None:
        self.parts = [(pair, count) for pair, count in parts if count]
        self.built: list[tuple[float, fourier.Spectrum, float]] = []
        self.meshes: list[tuple[Composition, Composition]] = []
        self.tries = 0
        self.work = 0
        self.smooth = sum(count for _, count in self.parts) > 1
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
        for _, spectrum, width in sorted(self.built, key=lambda item: abs(item[0] - epsilon))[:NEIGHBOURS]:
            low, high = spectrum.bounds(epsilon)
            if 0.0 <= high - low <= max(SHARP, 2 * width) * high or 0.0 <= low <= high <= ignore:
                return low, high
        if epsilon > 0.7 * self.top:
            # Close to the largest loss delta is beyond any use, and the tilt that would reach it has no bound.
            bound = rdp.delta(self.parts, epsilon).delta
            if bound < max(NOTHING, ignore):
                return 0.0, bound
        if self.smooth and self._build(epsilon):
            return self.built[-1][1].bounds(epsilon)
        if self.smooth and (ends := self._by_lattice(epsilon, ignore)) is not None:
            return ends
        try:
            with np.errstate(all="ignore"):  # near `top` the engines may overflow; their NaN raises
                found = lattice.certify_delta(self.parts, epsilon, tolerance=TOLERANCE)
        except (NotCertified, ArithmeticError):
            if epsilon > 0.99 * self.top:
                return self._beyond(epsilon)  # coarse, but proven, where no tilt reaches
            raise
        return found.lower, found.upper

    def _by_lattice(self, epsilon: float, ignore: float) -> Ends | None:
        """What all lattices so far prove at epsilon; one more is built while that is not sharp, MESHES at most."""
        self.work += sum(below.mass.size + above.mass.size for below, above in self.meshes)
        if self.work > WORK:
            raise NotCertified(
                "the loss distribution of this run is too rough for its whole curve within the limit on work",
                hint="dpbudget epsilon and delta answer for it; risk does for Poisson sampling without groups or a maximum.",
            )
        with np.errstate(all="ignore"):
            ends = self._meshed(epsilon)
            while not (ends[1] - ends[0] <= COARSE * ends[1] or ends[1] <= ignore) and self.tries < MESHES:
                self.tries += 1
                try:
                    level = fourier.chernoff_log_delta(self.parts, epsilon)
                    self.meshes.append(mesh.both_compositions(self.parts, min(level, -0.1), MESH_TOLERANCE))
                except (NotCertified, ArithmeticError, MemoryError, fourier.TooRough):
                    break
                before, ends = ends, self._meshed(epsilon)
                if ends == before:
                    break
        return ends if self.meshes else None

    def _meshed(self, epsilon: float) -> Ends:
        low, high = 0.0, 1.0
        for below, above in self.meshes:
            low = max(low, evaluate(below, epsilon, -1))
            high = min(high, evaluate(above, epsilon, 1))
        if not (low <= high):
            raise ContradictionError(f"two lattices exclude each other at epsilon {epsilon!r}: {low!r} > {high!r}")
        return low, high

    def _build(self, epsilon: float) -> bool:
        """Whether a sum was built at epsilon that is sharp there."""
        try:
            with np.errstate(all="ignore"):
                log_delta = fourier.chernoff_log_delta(self.parts, epsilon)
                spectrum = fourier.build(self.parts, log_delta, epsilon, FINER)
        except (fourier.TooRough, NotCertified, ArithmeticError):
            return False
        low, high = spectrum.bounds(epsilon)
        if not (0.0 <= high - low <= TOLERANCE * high):
            return False
        self.built.append((epsilon, spectrum, (high - low) / high if high > 0.0 else 0.0))
        return True


def ledger_profiles(ledger: Ledger | Parallel) -> tuple[dict[str, Profile], bool]:
    """(profile by direction, attained): the largest delta of all partitions, direction by direction.

    Keys are "remove" and "add", or "both" alone. attained: whether the lower ends are those of the mechanism, and not
    only of a pair that dominates it; they are 0 where not.
    """
    ledgers = ledger.ledgers if isinstance(ledger, Parallel) else (ledger,)
    if any(each.unbounded for each in ledgers):
        return {"both": Profile(lambda _: (1.0, 1.0))}, True
    used = [each.directions for each in ledgers if each.counts]
    if not used:
        return {"both": Profile(lambda _: (0.0, 0.0))}, True
    attained = all(pair.tight for each in used for parts in each.values() for pair, _ in parts)
    names = sorted({name for each in used for name in each if name != "both"}, reverse=True) or ["both"]
    found = {}
    for name in names:
        profiles = [Profile(SharedDelta(each[name] if name in each else each["both"])) for each in used]
        found[name] = largest(profiles) if attained else _upper_only(largest(profiles))
    return found, attained


def _upper_only(profile: Profile) -> Profile:
    return Profile(lambda epsilon: (0.0, profile.at(epsilon)[1]))
