"""delta(epsilon) of a run as a function that is cheap to ask again: one Fourier sum serves a whole neighbourhood."""

from __future__ import annotations

from collections.abc import Sequence

from dpbudget.accounting import fourier, lattice
from dpbudget.accounting.account import Ledger, Parallel
from dpbudget.accounting.pairs import Pair
from dpbudget.accounting.tradeoff import Ends, Profile, largest
from dpbudget.errors import NotCertified

TOLERANCE = 1e-5  # of the sum that is built; its ends are much closer near the epsilon that it was built for
SHARP = 1e-7
NEIGHBOURS = 3


class SharedDelta:
    """Certified ends of delta at any epsilon >= 0 for one composition. parts: (pair, count), at least one.

    Ends of an earlier sum are taken if they are relatively SHARP at the new epsilon, which they are some way around the
    epsilon that it was built for; else a new one is built, or `lattice.certify_delta` asked where there is none.
    """

    def __init__(self, parts: Sequence[tuple[Pair, int]]) -> None:
        self.parts = [(pair, count) for pair, count in parts if count]
        self.built: list[tuple[float, fourier.Spectrum]] = []
        self.smooth = sum(count for _, count in self.parts) > 1

    def __call__(self, epsilon: float) -> Ends:
        for _, spectrum in sorted(self.built, key=lambda item: abs(item[0] - epsilon))[:NEIGHBOURS]:
            low, high = spectrum.bounds(epsilon)
            if 0.0 <= high - low <= SHARP * high:
                return low, high
        if self.smooth and self._build(epsilon):
            low, high = self.built[-1][1].bounds(epsilon)
            if 0.0 <= high - low <= TOLERANCE * high:
                return low, high
        found = lattice.certify_delta(self.parts, epsilon, tolerance=TOLERANCE)
        return found.lower, found.upper

    def _build(self, epsilon: float) -> bool:
        try:
            log_delta = fourier.chernoff_log_delta(self.parts, epsilon)
            self.built.append((epsilon, fourier.build(self.parts, log_delta, epsilon, TOLERANCE)))
        except (fourier.TooRough, NotCertified):
            return False
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
