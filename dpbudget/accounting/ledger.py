"""Releases merged and sorted: what every accountant is handed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from dpbudget import checks
from dpbudget.accounting import gaussian, pairs, sampling
from dpbudget.accounting.pairs import Pair
from dpbudget.errors import InputError
from dpbudget.model import ZCDP, Adjacency, Gaussian, Mechanism, Release, SampledGaussian, Sampling, Tuned

Parts = list[tuple[Pair, int]]
NO_NOISE = "no noise is added: the output reveals a record, and no epsilon is finite"


def _canonical(mechanism: Mechanism, adjacency: Adjacency) -> Mechanism:
    """A full batch, or a rate of 1, is a plain Gaussian release, its multiplier relative to what neighbours can move.

    A group moves the sum by its size times the clipping norm, and a replaced record by twice what a removed one does.
    Where batches are cut to a largest size, a record pushes another one out: no plain release even at a rate of 1.
    """
    if (
        isinstance(mechanism, SampledGaussian)
        and mechanism.max_batch is None
        and (
            mechanism.sampling is Sampling.FULL_BATCH
            or (mechanism.sampling is Sampling.POISSON and mechanism.sampling_rate == 1)
        )
    ):
        return Gaussian(pairs.over_distance(mechanism.noise_multiplier, mechanism.group_size, adjacency))
    return mechanism


def _check_merging(mechanism: Mechanism, counts: Iterable[int]) -> None:
    """Two runs that each began an epoch began two: their steps do not add up to one run."""
    if not isinstance(mechanism, SampledGaussian):
        return
    finished = all(checks.whole_epochs(mechanism.sampling_rate, count) for count in counts)
    if mechanism.sampling in (Sampling.SHUFFLE, Sampling.BALLS_IN_BINS) and not finished:
        raise InputError(
            "steps",
            f"two equal runs under {mechanism.sampling} sampling, one with an unfinished epoch, are not one longer run",
            hint="Round the steps of each up to whole epochs.",
        )


def _order(mechanism: Mechanism) -> tuple[str, str]:
    return type(mechanism).__name__, repr(mechanism)


@dataclass(frozen=True)
class Ledger:
    """Releases merged and sorted, so that neither order nor repetition changes any answer."""

    counts: tuple[tuple[Mechanism, int], ...]
    adjacency: Adjacency

    @classmethod
    def of(cls, releases: Iterable[Release], adjacency: Adjacency) -> Ledger:
        totals: dict[Mechanism, int] = {}
        for release in releases:
            mechanism = _canonical(release.mechanism, adjacency)
            if release.count and mechanism != ZCDP(0.0):
                if mechanism in totals:
                    _check_merging(mechanism, (totals[mechanism], release.count))
                totals[mechanism] = totals.get(mechanism, 0) + release.count
        return cls(tuple(sorted(totals.items(), key=lambda item: _order(item[0]))), adjacency)

    @property
    def unbounded(self) -> str:
        """Why no epsilon is finite; empty where there may be one."""
        noisy = [mechanism.step if isinstance(mechanism, Tuned) else mechanism for mechanism, _ in self.counts]
        silent = any(getattr(mechanism, "noise_multiplier", 1.0) == 0 for mechanism in noisy)
        return NO_NOISE if silent else ""

    @property
    def tuned(self) -> list[tuple[Tuned, int]]:
        """Searches, which no pair describes."""
        return [(mechanism, count) for mechanism, count in self.counts if isinstance(mechanism, Tuned)]

    @property
    def is_ordinary(self) -> bool:
        """Whether `directions` says all that the accountant knows: no search, and no sampling with an engine of its own."""
        special = any(isinstance(m, SampledGaussian) and sampling.is_special(m) for m, _ in self.counts)
        return not self.tuned and not special

    def instead_of_tuned(self, *others: Release) -> Ledger:
        """The same without its searches, and with other releases in their place."""
        kept = [Release(mechanism, count) for mechanism, count in self.counts if not isinstance(mechanism, Tuned)]
        return Ledger.of([*kept, *others], self.adjacency)

    @property
    def rho(self) -> float:
        """The sum over releases of which only zCDP is known: rho adds up (Bun, Steinke 2016, Lemma 1.7)."""
        return sum(count * mechanism.rho for mechanism, count in self.counts if isinstance(mechanism, ZCDP))

    def without_zcdp(self, *instead: Mechanism) -> Ledger:
        """The releases that have a pair, and others in place of those of which only zCDP is known."""
        kept = [Release(mechanism, count) for mechanism, count in self.counts if not isinstance(mechanism, ZCDP)]
        return Ledger.of([*kept, *(Release(mechanism) for mechanism in instead)], self.adjacency)

    def with_gaussians(self) -> Ledger:
        """The same with every rho-zCDP release a Gaussian one of that rho: a likely case, for estimates."""
        return self.without_zcdp(Gaussian(1 / math.sqrt(2 * self.rho))) if self.rho > 0 else self.without_zcdp()

    @cached_property
    def directions(self) -> Mapping[str, Parts]:
        """The dominating pairs with their counts, one composition for each direction of the adjacency: for upper ends.

        Plain Gaussians are one Gaussian: mu^2 adds up (Dong, Roth, Su 2022, arXiv:1905.02383, Cor. 3.3).
        """
        return self._directions(-1)

    @cached_property
    def attained_directions(self) -> Mapping[str, Parts]:
        """The same for lower ends: only pairs that some mechanism attains, and merged Gaussians rounded the other way."""
        return {
            name: [(pair, count) for pair, count in parts if pair.tight] for name, parts in self._directions(1).items()
        }

    def _directions(self, side: int) -> Mapping[str, Parts]:
        found = []
        plain: list[tuple[float, float]] = []
        for mechanism, count in self.counts:
            if isinstance(mechanism, Gaussian):
                plain.append((mechanism.noise_multiplier, count))
                continue
            special = None
            if isinstance(mechanism, SampledGaussian) and sampling.is_special(mechanism):
                special = sampling.composable(mechanism, count, self.adjacency)
            found.append(special or (pairs.dominating_pairs(mechanism, self.adjacency), count))
        if plain:
            # one release alone keeps its own multiplier
            alone = len(plain) == 1 and plain[0][1] == 1
            sigma = plain[0][0] if alone else gaussian.combined_sigma(plain, side)
            found.append(({"both": pairs.SampledGaussianRemove(sigma, 1.0)}, 1))
        names = sorted({name for by_direction, _ in found for name in by_direction if name != "both"}) or ["both"]
        return {
            name: [(by_direction.get(name) or by_direction["both"], count) for by_direction, count in found]
            for name in reversed(names)
        }

    def gaussian_steps(self, accountant: str) -> list[tuple[float, float, int]]:
        """(sigma, q, count) for accountants that only know Poisson-sampled Gaussian steps."""
        steps = []
        for mechanism, count in self.counts:
            if isinstance(mechanism, Gaussian):
                steps.append((mechanism.noise_multiplier, 1.0, count))
            elif (
                isinstance(mechanism, SampledGaussian)
                and mechanism.sampling is Sampling.POISSON
                and mechanism.max_batch is None
                and mechanism.group_size == 1
                and self.adjacency is not Adjacency.REPLACE_ONE
            ):
                steps.append((mechanism.noise_multiplier, mechanism.sampling_rate, count))
            else:
                raise InputError(
                    "accountant",
                    f"{accountant} has no proof for this mechanism under {self.adjacency}",
                    hint="Use --accountant pld.",
                )
        return steps


@dataclass(frozen=True)
class Parallel:
    """Ledgers over disjoint parts of the data: a record is in one of them, so the total is the largest of them."""

    ledgers: tuple[Ledger, ...]
