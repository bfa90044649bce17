"""What two neighbouring data sets publish, written from the definition of each mechanism: the truth that pairs must dominate.

Nothing here is shared with dpbudget. Laws on the line are masses of fine cells, so that a hockey stick carries a relative
error of a few 1e-6 (the cell with the kink); discrete laws are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import binom

from dpbudget.model import (
    ZCDP,
    Adjacency,
    ApproxDP,
    Gaussian,
    GaussianMixture,
    Laplace,
    Mechanism,
    PureDP,
    RandomizedResponse,
    SampledGaussian,
    Sampling,
    Tuned,
)

Array = NDArray[np.float64]
CELLS = 12_000
ERROR = 2e-5  # relative, of a hockey stick


@dataclass(frozen=True)
class Laws:
    """Output masses with and without the record, or with two values of it; shape (cells,) each."""

    p: Array
    q: Array

    def turned(self) -> Laws:
        return Laws(self.q, self.p)

    @property
    def loss(self) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(self.p) - np.log(self.q)

    def delta(self, epsilon: Array) -> Array:
        """sup_S P(S) - e^epsilon Q(S), for each epsilon."""
        kept = (self.p > 0) | (self.q > 0)
        p, q = self.p[kept], self.q[kept]
        order = np.argsort(Laws(p, q).loss)
        above = [np.append(np.cumsum(mass[order][::-1])[::-1], 0.0) for mass in (p, q)]
        at = np.searchsorted(Laws(p, q).loss[order], epsilon, side="right")
        return np.maximum(above[0][at] - np.exp(np.minimum(epsilon, 700.0)) * above[1][at], 0.0)

    def delta_twice(self, epsilon: float) -> float:
        """The same for two independent uses: what is left for the second after the first one's loss, on average."""
        hit = self.p > 0
        left = epsilon - self.loss[hit]
        return float(self.p[hit] @ np.where(np.isfinite(left), self.delta(np.maximum(left, -700.0)), 1.0))


@dataclass(frozen=True)
class Truth:
    """Laws of pairs of neighbours by direction. exact: some of them cost what the mechanism costs, else all cost less.

    alone: one release is meant, that is never composed with itself here.
    """

    directions: Mapping[str, Sequence[Laws]]
    exact: bool = True
    alone: bool = False

    def delta(self, direction: str, epsilon: Array, uses: int = 1) -> Array:
        laws = self.directions[direction]
        if uses == 1:
            return np.max([law.delta(epsilon) for law in laws], axis=0)
        assert uses == 2
        return np.array([max(law.delta_twice(float(e)) for law in laws) for e in epsilon])


def truth(mechanism: Mechanism, adjacency: Adjacency) -> Truth | None:
    """None where the combination has no meaning, or no proof is known."""
    if isinstance(mechanism, SampledGaussian):
        return _sampled(mechanism, adjacency)
    if isinstance(mechanism, GaussianMixture):
        return None if adjacency is Adjacency.REPLACE_ONE else _removal(_mixed(mechanism))
    if isinstance(mechanism, Gaussian):
        return _removal(_gauss(mechanism.noise_multiplier, {1: 1.0}, {0: 1.0}))
    if isinstance(mechanism, Laplace):
        return _laplace(mechanism, adjacency)
    if isinstance(mechanism, RandomizedResponse):
        return _response(mechanism, adjacency)
    if isinstance(mechanism, PureDP):
        return _removal(_worst(mechanism.epsilon, 0.0))
    if isinstance(mechanism, ApproxDP):
        return _removal(_worst(mechanism.epsilon, mechanism.delta))
    if isinstance(mechanism, ZCDP):  # the Gaussian of that rho is one of the mechanisms that have it
        return Truth(_removal(_gauss((2 * mechanism.rho) ** -0.5, {1: 1.0}, {0: 1.0})).directions, exact=False)
    assert isinstance(mechanism, Tuned)  # where the score says nothing, the best run is any run
    base = truth(mechanism.step, adjacency)
    assert base is not None and mechanism.steps == 1
    return Truth(base.directions, exact=False, alone=True)


def _removal(laws: Laws, *, exact: bool = True) -> Truth:
    return Truth({"remove": [laws], "add": [laws.turned()]}, exact)


def _gauss(sigma: float, p: Mapping[int, float], q: Mapping[int, float]) -> Laws:
    """Mixtures of Gaussians: weight by centre."""
    x = np.linspace(-4 - 12 * sigma, 4 + 12 * sigma, CELLS)
    density = {c: np.exp(-(((x - c) / sigma) ** 2) / 2) / (sigma * np.sqrt(2 * np.pi)) for c in {*p, *q}}
    sums = [sum((weight * density[c] for c, weight in law.items()), np.zeros(CELLS)) for law in (p, q)]
    return Laws(sums[0] * (x[1] - x[0]), sums[1] * (x[1] - x[0]))


def _mixed(mechanism: GaussianMixture) -> Laws:
    return _gauss(mechanism.noise_multiplier, dict(enumerate(mechanism.masses)), {0: 1.0})


def _sampled(run: SampledGaussian, adjacency: Adjacency) -> Truth | None:
    sigma, q, replaced = run.noise_multiplier, run.sampling_rate, adjacency is Adjacency.REPLACE_ONE
    if run.sampling is Sampling.FIXED_SIZE:
        return None if adjacency is Adjacency.ADD_OR_REMOVE_ONE or run.group_size > 1 else _fixed_size(run, replaced)
    if run.sampling is Sampling.FULL_BATCH:
        return _removal(_gauss(sigma, {run.group_size: 1.0}, {-run.group_size if replaced else 0: 1.0}))
    if replaced and (run.group_size > 1 or run.sampling is Sampling.BALLS_IN_BINS):
        return None
    if run.sampling is Sampling.SHUFFLE and adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        return None
    if run.max_batch is not None:
        assert run.dataset_size is not None
        others = np.arange(run.dataset_size)
        share = np.minimum(1.0, run.max_batch / (others + 1.0))  # of batches of that size that keep the record
        q *= float(binom.pmf(others, run.dataset_size - 1, q) @ share)
    taken = {k: float(binom.pmf(k, run.group_size, q)) for k in range(run.group_size + 1)}
    laws = _gauss(sigma, taken, {-k: mass for k, mass in taken.items()} if replaced else {0: 1.0})
    # batches of one epoch depend on each other, and a cut batch on all records: an adversary who sees one batch sees less
    partial = run.sampling is not Sampling.POISSON or run.max_batch is not None
    return Truth(_removal(laws).directions, exact=not partial, alone=partial)


def _fixed_size(run: SampledGaussian, replaced: bool) -> Truth:
    """The record, or in its place one of the others, which all contribute c."""
    sigma, q = run.noise_multiplier, run.sampling_rate
    found = []
    for c in (-1, 0, 1):
        with_it, changed = {0: 1 - q}, {0: 1 - q}
        for law, value in ((with_it, 1), (changed, -1 if replaced else 0)):
            law[value - c] = law.get(value - c, 0.0) + q
        found.append(_gauss(sigma, with_it, changed))
    return Truth({"remove": found, "add": [laws.turned() for laws in found]}, exact=False)


def _laplace(mechanism: Laplace, adjacency: Adjacency) -> Truth | None:
    scale, q, replaced = mechanism.scale, mechanism.sampling_rate, adjacency is Adjacency.REPLACE_ONE
    if replaced and q < 1:
        return None

    def masses(centre: float, edges: Array) -> Array:
        x = (edges - centre) / scale
        below = np.where(x < 0, np.exp(np.minimum(x, 0.0)) / 2, 1 - np.exp(-np.maximum(x, 0.0)) / 2)
        return np.diff(np.concatenate([[0.0], below, [1.0]]))

    edges = np.linspace(-1.0, 1.0, CELLS + 1)  # beyond the two centres every output has the same loss
    there, other = masses(1.0, edges), masses(-1.0 if replaced else 0.0, edges)
    return _removal(Laws(q * there + (1 - q) * other, other))


def _response(mechanism: RandomizedResponse, adjacency: Adjacency) -> Truth | None:
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        return None
    k, t = mechanism.categories, mechanism.truth_probability
    one, other = (t * np.eye(k)[answer] + (1 - t) / k for answer in (0, 1))
    return _removal(Laws(one, other if adjacency is Adjacency.REPLACE_ONE else np.full(k, 1 / k)))


def _worst(epsilon: float, delta: float) -> Laws:
    """Tells the data set with probability delta, else lies as little as epsilon asks for."""
    high = 1 / (1 + np.exp(-epsilon))
    kept = (1 - delta) * np.array([high, 1 - high])
    return Laws(np.array([delta, 0.0, *kept]), np.array([0.0, delta, *kept[::-1]]))


def gaussian_delta(epsilon: Array, sigma: float) -> Array:
    """The closed form, against which the cells are checked (Balle, Wang 2018, arXiv:1805.06530, Thm 8)."""
    return ndtr(0.5 / sigma - epsilon * sigma) - np.exp(epsilon) * ndtr(-0.5 / sigma - epsilon * sigma)
