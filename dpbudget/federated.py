"""Federated runs: who adds the noise, who sees what, and which Gaussian steps each of them can be accounted as.

Client level: a round is one Gaussian step on the sum of clipped client updates (McMahan, Ramage, Talwar, Zhang 2018,
arXiv:1710.06963), q = expected clients a round / clients, T = rounds. Sample level: every client's local steps are
DP-SGD on its own data; disjoint data compose in parallel, so the worst client counts. Pure arithmetic, no engine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from dpbudget import checks, derive
from dpbudget.errors import InputError
from dpbudget.model import DEFAULT_ADJACENCY, Adjacency, Gaussian, Release, SampledGaussian, Sampling


class NoiseAt(StrEnum):
    """Where the noise on the updates is added."""

    SERVER = "server"
    SHARED = "shared"
    CLIENT = "client"


def default_adjacency(noise_at: NoiseAt, sampling: Sampling) -> Adjacency:
    """A client that leaves takes its noise along: with noise at the clients "counts as zero" is what can be proven."""
    own_noise = noise_at is not NoiseAt.SERVER and sampling is not Sampling.FIXED_SIZE
    return Adjacency.ZERO_OUT if own_noise else DEFAULT_ADJACENCY[sampling]


@dataclass(frozen=True)
class View:
    """What one adversary sees: Gaussian steps at `noise_multiplier`, or everything in the clear where it is None."""

    adversary: str
    noise_multiplier: float | None
    releases: tuple[Release, ...]
    why: str


@dataclass(frozen=True)
class Federation:
    """A federated run at client level.

    noise_multiplier: with noise at the server, of the noise on the sum; else of each client's own noise on its update.
    min_honest: clients a round whose noise can be relied on: drop-outs and colluders subtracted.
    max_participations: most rounds that one client takes part in, where that is enforced.
    tree: DP-FTRL by tree aggregation, every client in at most one round.
    """

    clients: int
    clients_per_round: float
    rounds: int
    noise_multiplier: float
    noise_at: NoiseAt = NoiseAt.SERVER
    min_honest: int | None = None
    sampling: Sampling = Sampling.POISSON
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
    max_participations: int | None = None
    tree: bool = False

    def __post_init__(self) -> None:
        if self.clients_per_round > self.clients:
            per_round = f"{self.clients_per_round:.12g}"
            raise InputError("clients_per_round", f"{per_round} is above the {self.clients} clients that there are")
        if self.min_honest is not None and self.min_honest > self.clients_per_round:
            raise InputError(
                "min_honest", f"{self.min_honest} is above the {self.clients_per_round:.12g} clients of a round"
            )

    @property
    def rate(self) -> float:
        return self.clients_per_round / self.clients

    @property
    def honest(self) -> int:
        """How many clients' noise is certainly in the sum. Under Poisson sampling no number is certain but the stated one."""
        return math.floor(self.clients_per_round) if self.min_honest is None else self.min_honest

    def steps(self, noise_multiplier: float) -> tuple[Release, ...]:
        """The rounds as releases, at a multiplier relative to the clipping norm of one client."""
        if self.sampling is Sampling.FIXED_SIZE and self.adjacency is Adjacency.ADD_OR_REMOVE_ONE:
            raise InputError(
                "adjacency",
                "where the number of clients a round is fixed, adding a client pushes another one out",
                hint="Use replace-one or zero-out with fixed-size sampling.",
            )
        distance = 2 if self.adjacency is Adjacency.REPLACE_ONE else 1
        if self.tree:
            return (Release(Gaussian(noise_multiplier / (distance * math.sqrt(tree_height(self.rounds))))),)
        if self.max_participations is not None:
            # Without secret sampling the rounds of one client are plain Gaussians, as many as it takes part in.
            count = min(self.max_participations, self.rounds)
            return (Release(Gaussian(noise_multiplier / distance), count),)
        return (Release(SampledGaussian(noise_multiplier, self.rate, self.sampling), self.rounds),)

    def uploads(self) -> tuple[Release, ...]:
        """What the server sees of one client that noises its own update: no sum, and no secret about who takes part.

        So it sees whether a client is there at all, and only what the client holds can be protected.
        """
        if self.adjacency is Adjacency.ADD_OR_REMOVE_ONE:
            raise InputError(
                "adjacency",
                "with noise on every upload the server sees who takes part, and so whether a client is there at all",
                hint="Use zero-out, which protects what a client holds, or replace-one.",
            )
        distance = 2 if self.adjacency is Adjacency.REPLACE_ONE else 1
        count = self.rounds if self.max_participations is None else min(self.max_participations, self.rounds)
        return (Release(Gaussian(self.noise_multiplier / distance), count),)

    def views(self) -> list[View]:
        """The public, a fellow participant and the server, each with what protects against it."""
        if self.noise_at is NoiseAt.SERVER:
            z = self.noise_multiplier
            return [
                View("public", z, self.steps(z), "sees the models that the server publishes"),
                View("participant", z, self.steps(z), "sees the models, and adds no noise of its own"),
                View("server", None, (), "sees the updates before it adds noise: it has to be trusted"),
            ]
        everybody = central(self.noise_multiplier, self.honest)
        fellows = central(self.noise_multiplier, self.honest - 1)
        fellow = View(
            "participant",
            fellows or None,
            self.steps(fellows) if fellows else (),
            "knows its own noise and can subtract it",
        )
        public = View("public", everybody, self.steps(everybody), "sees the sum of updates with everybody's noise")
        if self.noise_at is NoiseAt.SHARED:
            server = View("server", everybody, self.steps(everybody), "sees the sum alone, by secure aggregation")
            return [public, fellow, server]
        seen = "sees every noised upload and who took part: no amplification"
        return [public, fellow, View("server", self.noise_multiplier, self.uploads(), seen)]


def central(client_multiplier: float, clients: int) -> float:
    """Independent noise of `clients` clients adds up in variance: sqrt(K) times each one's multiplier, rounded down."""
    return client_multiplier * math.sqrt(max(0, clients)) * (1 - 2**-51)


def tree_height(leaves: int) -> int:
    """Nodes of a binary tree over `leaves` rounds that one round touches: floor(log2 n) + 1.

    Source: Kairouz et al. 2021, arXiv:2103.00039, single participation.
    """
    return leaves.bit_length()


def update_multiplier(multiplier: float, count_std: float) -> float:
    """The multiplier that the noise on the updates needs where adaptive clipping spends a part on the clipped count.

    z_update = (z^-2 - (2 sigma_b)^-2)^-1/2, rounded up. Source: Andrew et al. 2021, arXiv:1905.03871, Thm 1.
    """
    checks.positive("clip_count_std", count_std)
    share = multiplier / 2 / count_std * (1 + 2**-51)  # up, so that what is left errs downwards however little it is
    if not share < 1:
        raise InputError(
            "clip_count_std",
            f"{count_std:g} spends the whole budget on the clipped count",
            hint=f"It has to be above half the noise multiplier, {multiplier / 2:g}; usual is clients per round / 20.",
        )
    return multiplier / math.sqrt((1 - share) * (1 + share)) * (1 + 2**-50)


@dataclass(frozen=True)
class LocalTraining:
    """DP-SGD inside one client, with its own noise in every local step.

    size: examples of the client.  epochs: local epochs a round.  rounds: rounds that it takes part in at most.
    """

    size: int
    batch_size: int
    epochs: int
    rounds: int
    noise_multiplier: float

    @property
    def rate(self) -> float:
        return float(derive.sampling_rate(min(self.batch_size, self.size), self.size))

    @property
    def steps(self) -> int:
        """T = rounds x local epochs x ceil(size / batch)."""
        local = derive.steps(self.epochs, batch_size=min(self.batch_size, self.size), dataset_size=self.size)
        return checks.steps(self.rounds * local, "rounds")

    def releases(self) -> list[Release]:
        return [Release(SampledGaussian(self.noise_multiplier, self.rate), self.steps)]


def distinct(sizes: Sequence[tuple[str, int]]) -> dict[int, list[str]]:
    """Clients by size: equal clients cost the same, and are computed once."""
    found: dict[int, list[str]] = {}
    for name, size in sizes:
        found.setdefault(size, []).append(name)
    return found
