"""The cost of tuning: reference numbers, exact output laws, attacks, the direction of the testing region."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import gammaln, ndtr

from dpbudget.accounting import tuning, tuning_base, tuning_pairs, tuning_profile
from dpbudget.accounting.account import Ledger
from dpbudget.accounting.pairs import SampledGaussianAdd, SampledGaussianRemove, approximate_dp_pair
from dpbudget.accounting.tuning_base import REVERSE, GaussianBase, MixedBase, ZCDPBase, epsilon_of, profile
from dpbudget.accounting.tuning_laws import (
    Binomial,
    Fixed,
    Geometric,
    Law,
    Logarithmic,
    Poisson,
    RandomLaw,
    TruncatedNegativeBinomial,
)
from dpbudget.accounting.tuning_pairs import PairsBase
from dpbudget.errors import InputError, NotCertified
from dpbudget.model import ZCDP, Adjacency, ApproxDP, Gaussian, Laplace, PureDP, Release, SampledGaussian

DELTA = 1e-5
HALF = TruncatedNegativeBinomial.expecting(10, 0.5)


# --- an exact model: small finite mechanisms, ties included ------------------------------------------------------


@dataclass(frozen=True)
class FiniteBase:
    """Outputs 0..n-1 with laws q on D and r on D'; "remove" compares q with r."""

    q: np.ndarray
    r: np.ndarray
    directions: tuple[str, ...] = ("remove", "add")

    def _laws(self, direction: str) -> tuple[np.ndarray, np.ndarray]:
        return (self.q, self.r) if direction == "remove" else (self.r, self.q)

    @property
    def pure_epsilon(self) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = np.abs(np.log(self.q) - np.log(self.r))
        return float(np.max(np.nan_to_num(loss, nan=0.0, posinf=math.inf)))

    def delta_upper(self, direction: str, epsilons: np.ndarray) -> np.ndarray:
        p, q = self._laws(direction)
        return np.maximum(p - np.exp(np.minimum(epsilons, 700.0))[:, None] * q, 0.0).sum(axis=1)

    def rdp(self, direction: str, orders: np.ndarray) -> np.ndarray:
        p, q = self._laws(direction)
        p, q = p[p > 0], q[p > 0]
        if np.any(q == 0):
            return np.full(orders.shape, np.inf)
        exponent = orders[:, None] * np.log(p) + (1 - orders)[:, None] * np.log(q)
        top = exponent.max(axis=1, keepdims=True)
        moment = top[:, 0] + np.log(np.exp(exponent - top).sum(axis=1))
        return np.maximum(moment, 0.0) / (orders - 1)

    def repeated(self, count: int) -> FiniteBase:
        if count * math.log(self.q.size) > math.log(5000):
            raise NotCertified("too many outputs")
        q, r = self.q, self.r
        for _ in range(count - 1):
            q, r = np.outer(q, self.q).ravel(), np.outer(r, self.r).ravel()
        return FiniteBase(q, r)


def increase(law: RandomLaw, w: np.ndarray, width: np.ndarray) -> np.ndarray:
    """phi(1 - w) - phi(1 - w - width) without cancellation: closed forms in w and width, all terms positive."""
    if isinstance(law, Poisson):
        return np.exp(-law.expected * w) * -np.expm1(-law.expected * width)
    if isinstance(law, Binomial):
        inner = 1 - law.chance * w
        with np.errstate(divide="ignore"):
            return inner**law.most * -np.expm1(
                law.most * np.log1p(-law.chance * np.minimum(width / inner, 1 / law.chance))
            )
    assert isinstance(law, TruncatedNegativeBinomial)
    if law.weight == 0:
        return width
    u = 1 + law.weight * w
    ell = np.log1p(law.weight * width / u)
    spread = np.expm1(law.eta * ell) / law.eta if law.eta else ell
    return law.mean / law.weight * (u * np.exp(ell)) ** -law.eta * spread


def winner(law: RandomLaw, q: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Exact law of the released output (K = 0 apart), ties broken at random: q(y) (phi(b) - phi(a)) / (b - a)."""
    above = np.array([q[scores > s].sum() for s in scores])
    level = np.array([q[scores == s].sum() for s in scores])
    safe = np.where(level > 0, level, 1.0)
    return np.where(q > 0, q / safe * increase(law, above, safe), 0.0)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def random_law(rng: np.random.Generator) -> RandomLaw:
    kind = rng.integers(4)
    if kind == 0:
        return Poisson(float(np.exp(rng.uniform(math.log(0.03), math.log(50)))))
    if kind == 1:
        return Binomial(int(rng.integers(1, 60)), float(rng.uniform(0.02, 0.98)))
    eta = float(rng.choice([-0.9, -0.5, 0.0, 0.5, 1.0, 2.0, 5.0]))
    return TruncatedNegativeBinomial(eta, float(10 ** rng.uniform(-3, 0)))


def random_base(rng: np.random.Generator) -> tuple[FiniteBase, np.ndarray]:
    n = int(rng.integers(2, 7))
    q, r = rng.dirichlet(np.full(n, rng.choice([0.2, 1.0, 5.0])), 2)
    if rng.random() < 0.5:  # close laws, as a private mechanism has them
        r = q * np.exp(rng.normal(0, rng.choice([0.01, 0.3, 2.0]), n))
        r /= r.sum()
    if rng.random() < 0.3:
        q[rng.integers(n)] = 0.0
        q /= q.sum()
    if rng.random() < 0.2:
        r[rng.integers(n)] = 0.0
        r /= r.sum()
    order = np.argsort(np.log(q + 1e-300) - np.log(r + 1e-300)) if rng.random() < 0.5 else rng.permutation(n)
    scores = np.empty(n)
    scores[order] = rng.integers(0, 4, n) if rng.random() < 0.5 else np.roll(np.arange(n), int(rng.integers(n)))
    return FiniteBase(q, r), scores


def check_random_cases(cases: int, seed: int) -> None:
    """No bound lies below the exact delta of the winner; 1e-9 relative and 1e-14 absolute cover the reference's sums."""
    rng = np.random.default_rng(seed)
    for _ in range(cases):
        base, scores = random_base(rng)
        law = random_law(rng)
        exact = {"remove": winner(law, base.q, scores), "add": winner(law, base.r, scores)}
        found = (
            tuning.bounds(base, law)
            if rng.random() < 0.15
            else [
                tuning._shifted("profile", base, law, tuning_profile.ratio_exponent_from_point),
                tuning._shifted("ratio", base, law, tuning_profile.ratio_exponent),
                tuning._divergence(base, law),
            ]
        )
        for epsilon in [0.0, *np.exp(rng.uniform(math.log(0.01), math.log(12), 3))]:
            truth = max(hockey_stick(exact[d], exact[REVERSE[d]], epsilon) for d in base.directions)
            for bound in filter(None, found):
                claim = bound.delta(epsilon)
                assert truth <= claim * (1 + 1e-9) + 1e-14, (bound.name, law, base, scores, epsilon, truth, claim)


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few cells, knots and lines: the bounds must hold at any resolution, and thousands of cases must be cheap."""
    monkeypatch.setattr(tuning_profile, "CELLS", 25)
    monkeypatch.setattr(tuning_profile, "KNOTS", 25)
    monkeypatch.setattr(tuning_profile, "LINES", 12)


@pytest.mark.usefixtures("coarse")
def test_no_bound_is_below_the_exact_law() -> None:
    check_random_cases(1000, seed=1)


def test_no_bound_is_below_the_exact_law_at_full_resolution() -> None:
    check_random_cases(10, seed=2)


@pytest.mark.slow
@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("seed", range(10, 14))
def test_no_bound_is_below_the_exact_law_many(seed: int) -> None:
    check_random_cases(6_000, seed)


def mass_function(law: Law, most: int) -> list[float]:
    """Pr[K = k] for k = 0..most, by the definitions of the laws."""
    if isinstance(law, Poisson):
        return [math.exp(-law.expected + k * math.log(law.expected) - gammaln(k + 1)) for k in range(most + 1)]
    if isinstance(law, Binomial):
        p = law.chance
        return [math.comb(law.most, k) * p**k * (1 - p) ** (law.most - k) for k in range(most + 1)]
    assert isinstance(law, TruncatedNegativeBinomial)
    eta, gamma = law.eta, law.gamma
    out, product = [0.0], 1.0
    for k in range(1, most + 1):
        if eta == 0:
            out.append((1 - gamma) ** k / (k * math.log(1 / gamma)))
        else:
            product *= (k - 1 + eta) / k
            out.append((1 - gamma) ** k / (gamma**-eta - 1) * product)
    return out


@pytest.mark.parametrize(
    "law",
    [
        Poisson(0.7),
        Poisson(12.0),
        Binomial(9, 0.3),
        *(TruncatedNegativeBinomial(eta, gamma) for eta in (-0.7, 0.0, 0.5, 1.0, 3.0) for gamma in (0.05, 0.6)),
    ],
)
def test_laws_agree_with_their_mass_functions(law: RandomLaw) -> None:
    masses = np.array(mass_function(law, law.most if isinstance(law, Binomial) else 900))
    k = np.arange(masses.size)
    assert masses.sum() == pytest.approx(1.0, abs=1e-11)
    assert masses @ k == pytest.approx(law.mean, rel=1e-10)
    assert masses[0] == pytest.approx(law.zero, rel=1e-10)
    x = np.array([0.0, 0.2, 0.7, 0.95, 1.0])
    slope = np.array([np.sum(masses[1:] * k[1:] * v ** (k[1:] - 1)) for v in x])
    np.testing.assert_allclose(law.mean * np.exp(-law.drop(1 - x)), slope, rtol=1e-9)
    steep = np.array([np.sum(masses[2:] * k[2:] * (k[2:] - 1) * v ** (k[2:] - 2)) for v in x])
    np.testing.assert_allclose(law.rate(1 - x) * slope, steep, rtol=1e-8)
    np.testing.assert_allclose(law.inverse_drop(law.drop(x)), x, rtol=1e-12, atol=1e-15)
    assert law.steepest == pytest.approx(np.max(law.rate(np.linspace(0, 1, 11))), rel=1e-12)


def test_exact_law_agrees_with_enumeration() -> None:
    """All tuples of up to four runs, ties broken by the first index; by a coin would give the same law."""
    rng = np.random.default_rng(5)
    law = Binomial(4, 0.4)
    masses = mass_function(law, 4)
    for _ in range(20):
        q = rng.dirichlet(np.ones(4))
        scores = rng.integers(0, 3, 4).astype(float)
        out = np.zeros(4)
        for k in range(1, 5):
            for runs in itertools.product(range(4), repeat=k):
                best = max(runs, key=lambda y: scores[y])  # the first of the best
                out[best] += masses[k] * math.prod(q[y] for y in runs)
        np.testing.assert_allclose(winner(law, q, scores), out, rtol=1e-12)


# --- reference numbers ---------------------------------------------------------------------------------------------

PUBLISHED = [
    # law, published, profile, ratio, divergence, attack (a true lower bound); mu = 0.3, 10 expected trials, delta 1e-5
    (Geometric(10), 2.589, 2.242, 1.831, 1.739, 1.728),
    (HALF, 2.383, 2.108, 1.775, 1.697, 1.686),
    (Logarithmic(10), None, 1.943, 1.705, 1.646, 1.633),
    (Geometric(50), 3.08, 2.763, 2.282, 2.162, 2.137),
    (Poisson(10), 2.307, 2.485, 2.485, 2.225, 2.199),
    (Binomial(20, 0.5), None, 3.4325, 2.8595, 2.484, 2.445),
]


@pytest.mark.parametrize("law, published, at_profile, ratio, divergence, attack", PUBLISHED)
def test_reference_values(
    law: Law, published: float | None, at_profile: float, ratio: float, divergence: float, attack: float
) -> None:
    """Each at most the reference rounded up, none below what an explicit mechanism attains."""
    best = tuning.epsilon(GaussianBase(0.3), law, DELTA)
    found = best.detail["bounds"]
    assert isinstance(found, dict)
    for name, value in (("profile", at_profile), ("ratio", ratio), ("divergence", divergence)):
        assert attack < found[name] <= value, name
        assert found[name] > value - (0.02 if name == "divergence" else 0.002)
    if published is not None:
        assert published - 0.002 < found["published"] <= published
    assert best.value.upper == min(found.values()) and best.value.lower is None


def test_reference_values_for_a_stronger_base() -> None:
    found = tuning.epsilon(GaussianBase(1.0), Geometric(10), DELTA).detail["bounds"]
    assert isinstance(found, dict)
    assert 6.403 < found["divergence"] <= 6.426 and found["ratio"] <= 6.6185 and found["profile"] <= 7.5115
    poisson = tuning.epsilon(GaussianBase(1.0), Poisson(10), DELTA).detail["bounds"]
    assert isinstance(poisson, dict)
    assert 8.109 < poisson["divergence"] <= 8.164 and poisson["ratio"] == poisson["profile"] <= 8.7165


def attacked_delta(law: RandomLaw, mu: float, epsilon: float) -> float:
    """A score that puts outputs below t on top and those above s right below them; the best (t, s) on a grid."""
    t = np.linspace(-4, 2, 121)[:, None]
    s = np.linspace(mu / 2 - 1, 7, 121)[None, :]
    with_record = increase(law, ndtr(t - mu), np.minimum(ndtr(mu - s), ndtr(mu - t)))
    without = increase(law, ndtr(t), np.minimum(ndtr(-s), ndtr(-t)))
    return float(np.max(np.where(s >= t, with_record - math.exp(epsilon) * without, 0.0)))


@pytest.mark.parametrize("law", [Geometric(10), HALF, Poisson(10), Binomial(20, 0.5), Poisson(0.3), Geometric(1.2)])
@pytest.mark.parametrize("mu", [0.1, 0.3, 1.0, 3.0])
def test_no_bound_is_below_an_attack(law: RandomLaw, mu: float) -> None:
    base = GaussianBase(mu)
    for guarantee in tuning.epsilon_bounds(base, law, DELTA):
        assert guarantee.value.upper is not None
        assert attacked_delta(law, mu, guarantee.value.upper * (1 - 1e-7)) <= DELTA, guarantee.accountant


def test_pure_dp() -> None:
    """(2 + eta) epsilon at delta 0, attained in the limit; three epsilon for geometric stopping."""
    e = 0.4
    p = math.exp(e) / (1 + math.exp(e))
    base = FiniteBase(np.array([p, 1 - p]), np.array([1 - p, p]))
    found = tuning.epsilon(base, Geometric(1000), 1e-9).detail["bounds"]
    assert isinstance(found, dict)
    assert found["published-pure"] == pytest.approx(3 * e, rel=1e-9)
    assert found["ratio"] <= found["published-pure"] * (1 + 1e-9)
    quiet = tuning.epsilon(base, TruncatedNegativeBinomial.expecting(1000, 0.5), 1e-9).detail["bounds"]
    assert isinstance(quiet, dict) and quiet["published-pure"] == pytest.approx(2.5 * e, rel=1e-9)
    assert tuning.delta(base, Geometric(1000), 3 * e + 1e-12).value.upper == 0.0


# --- the direction of the testing region ------------------------------------------------------------------------------


def test_wrong_direction_is_unsound_on_two_outputs() -> None:
    """Q = (0, 1), Q' = (.1, .9), the first output wins: the reversed region would claim 0.314 where 2.49 is true."""
    base, law, scores = (
        FiniteBase(np.array([0.0, 1.0]), np.array([0.1, 0.9])),
        TruncatedNegativeBinomial(1, 0.01),
        [1, 0],
    )
    right = tuning_profile.ratio_exponent(base, law, "remove")
    wrong = tuning_profile.ratio_exponent(base, law, "add")
    assert right == pytest.approx(4.7775, abs=1e-4)
    assert wrong == pytest.approx(0.2085, abs=1e-4)
    own, other = winner(law, base.q, np.array(scores)), winner(law, base.r, np.array(scores))
    claimed = wrong + math.log(1 / 0.9)  # delta_{Q|Q'} is 0 from log(1 / .9) on
    assert hockey_stick(own, other, claimed) > 0.8
    assert hockey_stick(own, other, 2.49) > 0.0 and hockey_stick(own, other, 2.495) == 0.0
    assert tuning_profile.shifted_delta(base, law, "remove", right, 2.0) >= hockey_stick(own, other, 2.0)


def test_wrong_direction_is_unsound_for_the_binomial_law() -> None:
    """A bottom block of large loss lifts F over F' = 0.025 for what lies right above it; losses are log 6 at most."""
    base, law = FiniteBase(np.array([0.15, 0.15, 0.7]), np.array([0.025, 0.025, 0.95])), Binomial(4, 0.942)
    right = tuning_profile.ratio_exponent(base, law, "remove")
    wrong = tuning_profile.ratio_exponent(base, law, "add")
    own, other = (winner(law, q, np.array([0, 1, 2])) for q in (base.q, base.r))
    claimed = math.log(6) + wrong + 1e-9
    assert tuning_profile.shifted_delta(base, law, "remove", wrong, claimed) < 1e-9
    attained = hockey_stick(own, other, claimed)
    assert attained > 0.01
    assert tuning_profile.shifted_delta(base, law, "remove", right, claimed) >= attained


@pytest.fixture(scope="module")
def sampled() -> PairsBase:
    """One sampled Gaussian step with a rare, large loss in one direction alone."""
    return PairsBase(
        {"remove": [(SampledGaussianRemove(0.3, 0.02), 1)], "add": [(SampledGaussianAdd(0.3, 0.02), 1)]}, 1e-12
    )


@pytest.mark.parametrize("law", [Geometric(300), Binomial(300, 0.9), Poisson(200)], ids=repr)
def test_sampled_gaussian_uses_the_right_direction(sampled: PairsBase, law: RandomLaw) -> None:
    """Attacks on both directions, outputs above (or below) t on top: all bounds hold, the turned negative binomial one fails.

    D' holds a record that D lacks ("add") or the reverse; x ~ N(0, s^2) without it, the mixture with it.
    """
    s, q = 0.3, 0.02
    t = np.linspace(-2, 3, 400)[:, None]
    u = np.linspace(-2, 3, 400)[None, :]

    def above(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return q * ndtr((1 - x) / s) + (1 - q) * ndtr(-x / s), ndtr(-x / s)  # with, without

    def below(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return q * ndtr((x - 1) / s) + (1 - q) * ndtr(x / s), ndtr(x / s)

    def truth(direction: str, epsilon: float) -> float:
        """Winner in a set of large loss, right below a top block of small loss; for any pair of thresholds."""
        i = 0 if direction == "remove" else 1
        top, good = (below(t), above(u)) if direction == "remove" else (above(t), below(u))
        valid = (u >= t) if direction == "remove" else (u <= t)
        own = increase(law, top[i], np.minimum(good[i], 1 - top[i]))
        other = increase(law, top[1 - i], np.minimum(good[1 - i], 1 - top[1 - i]))
        return float(np.max(np.where(valid, own - math.exp(epsilon) * other, 0.0)))

    turned_fails = False
    for direction in sampled.directions:
        c = tuning_profile.ratio_exponent(sampled, law, direction)
        turned = tuning_profile.ratio_exponent(sampled, law, REVERSE[direction])
        chosen = tuning_profile.selection(sampled, law, direction)
        assert chosen is not None
        for epsilon in (0.0, 0.3, 1.0, 2.0, 3.0, 5.0):
            attained = truth(direction, epsilon)
            assert attained <= tuning_profile.shifted_delta(sampled, law, direction, c, epsilon) * (1 + 1e-9)
            assert attained <= chosen.delta(epsilon) * (1 + 1e-9)
            turned_fails |= attained > 1.1 * tuning_profile.shifted_delta(sampled, law, direction, turned, epsilon)
    if isinstance(law, TruncatedNegativeBinomial):
        assert turned_fails


def test_turning_the_region_round_breaks_the_divergence_bound(
    sampled: PairsBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    law = Geometric(300)
    right = tuning_profile.selection(sampled, law, "add")
    build = tuning_profile.Edge.of.__func__  # type: ignore[attr-defined]
    turned = classmethod(lambda cls, base, direction, tail: build(cls, base, REVERSE[direction], tail))
    monkeypatch.setattr(tuning_profile.Edge, "of", turned)
    wrong = tuning_profile.selection(sampled, law, "add")
    assert right is not None and wrong is not None
    # outputs above 1 on top; the winner is below them, where nearly all of N(0, s^2) is
    with_record, without = 0.02 * 0.5 + 0.98 * ndtr(-1 / 0.3), ndtr(-1 / 0.3)
    own = increase(law, np.array(without), np.array(1 - without))
    other = increase(law, np.array(with_record), np.array(1 - with_record))
    attained = float(own - math.exp(0.5) * other)
    assert attained > 0.4
    assert wrong.delta(0.5) < attained <= right.delta(0.5)


# --- behaviour -----------------------------------------------------------------------------------------------------


def test_costs_rise_with_trials_and_fall_with_delta() -> None:
    base = GaussianBase(0.3)
    for family in (Geometric, Poisson, lambda m: Binomial.expecting(m, 2000)):
        values = [tuning.epsilon(base, family(m), DELTA).value.upper for m in (1.5, 10, 1000)]
        assert all(a < b for a, b in itertools.pairwise(values))  # type: ignore[operator]
    for law in (Geometric(10), Poisson(10), Fixed(10)):
        values = [tuning.epsilon(base, law, 10.0**-k).value.upper for k in (2, 9, 90)]
        assert all(a < b for a, b in itertools.pairwise(values))  # type: ignore[operator]


@pytest.mark.parametrize("law", [Geometric(10), Poisson(10), Binomial(20, 0.5), Fixed(7)], ids=repr)
def test_delta_inverts_epsilon(law: Law) -> None:
    """delta(epsilon(delta)) is delta to 1e-5: the search stops at 1e-9 in epsilon, of slope about 10."""
    base = GaussianBase(0.3)
    epsilon = tuning.epsilon(base, law, 1e-6).value.upper
    assert epsilon is not None
    back = tuning.delta(base, law, epsilon).value.upper
    assert back is not None and 1e-6 * (1 - 1e-5) <= back <= 1e-6
    assert tuning.within(base, law, epsilon, 1e-6)
    assert not tuning.within(base, law, epsilon * 0.999, 1e-6)


def test_one_trial_costs_what_a_run_costs() -> None:
    base = GaussianBase(0.3)
    alone = epsilon_of(base, "both", DELTA)
    assert alone == pytest.approx(1.1318, abs=5e-5)
    for law in (Fixed(1), Geometric(1), Binomial(1, 0.999999)):
        assert tuning.epsilon(base, law, DELTA).value.upper == pytest.approx(alone, rel=1e-5)


def test_a_fixed_number_of_trials_is_composition() -> None:
    base = GaussianBase(0.3)
    assert tuning.epsilon(base, Fixed(9), DELTA).value.upper == pytest.approx(
        epsilon_of(GaussianBase(0.9), "both", DELTA)
    )
    steps = PairsBase({"remove": [(SampledGaussianRemove(1, 0.01), 250)], "add": [(SampledGaussianAdd(1, 0.01), 250)]})
    four = tuning.epsilon(steps, Fixed(4), DELTA).value.upper
    assert four is not None and 1.828237 - 5e-7 <= four <= 1.828237 * (1 + 1e-5)


def test_inverse_questions_return_the_proven_side() -> None:
    base = GaussianBase(0.3)
    found = tuning.most_trials(base, Geometric, 1.739, DELTA, digits=3)
    assert found is not None and 10.0 <= found < 11.0
    assert tuning.within(base, Geometric(found), 1.739, DELTA)
    assert not tuning.within(base, Geometric(found + 0.1), 1.739, DELTA)
    assert tuning.most_trials(base, Geometric, 0.9, DELTA) is None
    fixed = tuning.most_fixed_trials(base, 4.2, DELTA)
    assert fixed == 10
    assert tuning.most_fixed_trials(base, 0.5, DELTA) == 0


def test_no_trial_at_all() -> None:
    """K = 0 releases a symbol of the same probability on D and D': it adds nothing to delta at epsilon >= 0."""
    base = FiniteBase(np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    for law in (Poisson(0.2), Binomial(3, 0.1)):
        assert tuning.epsilon(base, law, 1e-9).value.upper == 0.0
    rare = tuning.epsilon(GaussianBase(0.3), Poisson(0.01), DELTA).value.upper
    assert rare is not None and rare < epsilon_of(GaussianBase(0.3), "both", DELTA)


def test_law_names() -> None:
    assert tuning.law_named("geometric", 10) == Geometric(10)
    assert tuning.law_named("negative-binomial", 10, eta=0.5) == HALF
    assert tuning.law_named("logarithmic", 10).mean == pytest.approx(10, rel=1e-12)
    assert tuning.law_named("binomial", 10, most_trials=20) == Binomial(20, 0.5)
    assert tuning.law_named("fixed", 4.0) == Fixed(4)
    for name, trials, options in (
        ("geometric", 0.5, {}),
        ("geometric", math.nan, {}),
        ("geometric", 10, {"eta": 1.0}),
        ("fixed", 2.5, {}),
        ("binomial", 20, {"most_trials": 20}),
        ("negative-binomial", 10, {"eta": -1.0}),
        ("negative-binomial", 1e6, {"eta": -0.999}),
        ("negative-binomial", 10, {}),
        ("until-good", 10, {}),
    ):
        with pytest.raises(InputError):
            tuning.law_named(name, trials, **options)


@pytest.mark.parametrize("mean", [1.0, 1.0001, 3.0, 1e3, 1e9])
@pytest.mark.parametrize("eta", [-0.5, 0.0, 1e-9, 0.5, 1.0, 4.0])
def test_expected_number_is_met(mean: float, eta: float) -> None:
    assert TruncatedNegativeBinomial.expecting(mean, eta).mean == pytest.approx(mean, rel=1e-12)


def test_not_a_number_fails_closed() -> None:
    class Broken(GaussianBase):
        def delta_upper(self, direction: str, epsilons: np.ndarray) -> np.ndarray:
            return np.full(epsilons.shape, np.nan)

    with pytest.raises(NotCertified):
        tuning.epsilon(Broken(0.3), Geometric(10), DELTA)
    for bad in (math.nan, 0.0, 1.0, -1.0):
        with pytest.raises(InputError):
            tuning.epsilon(GaussianBase(0.3), Geometric(10), bad)


# --- bases -----------------------------------------------------------------------------------------------------------


def test_profile_below_zero_uses_the_reverse_direction() -> None:
    base = FiniteBase(np.array([0.1, 0.6, 0.3]), np.array([0.3, 0.3, 0.4]))
    for epsilon in (-3.0, -0.5, 0.0, 0.7):
        for direction in base.directions:
            own, other = base._laws(direction)
            assert profile(base, direction, np.array([epsilon]))[0] == pytest.approx(hockey_stick(own, other, epsilon))


def test_ledgers_become_trials() -> None:
    """Replace-one doubles the move of a Gaussian; pure mechanisms add up; what has no noise has no bound."""
    plain = Ledger.of([Release(Gaussian(2.0), 4)], Adjacency.ADD_OR_REMOVE_ONE)
    assert tuning_pairs.base_of(plain, DELTA).mu == pytest.approx(1.0, rel=1e-14)  # type: ignore[attr-defined]
    replaced = Ledger.of([Release(SampledGaussian(4.0, 1.0), 4)], Adjacency.REPLACE_ONE)
    assert tuning_pairs.base_of(replaced, DELTA).mu == pytest.approx(1.0, rel=1e-14)  # type: ignore[attr-defined]
    pure = [Release(PureDP(0.5), 2), Release(Laplace(4.0))]
    for adjacency, total in ((Adjacency.ADD_OR_REMOVE_ONE, 1.25), (Adjacency.REPLACE_ONE, 1.5)):
        base = tuning_pairs.base_of(Ledger.of(pure, adjacency), DELTA)
        assert total <= base.pure_epsilon <= total * (1 + 1e-10)
        found = tuning.epsilon(base, Geometric(30), DELTA).detail["bounds"]
        assert isinstance(found, dict) and found["published-pure"] == pytest.approx(3 * total)
        assert found["divergence"] < found["published-pure"]
    square = tuning_pairs.base_of(Ledger.of([Release(ZCDP(0.02), 2)], Adjacency.REPLACE_ONE), DELTA)
    assert isinstance(square, ZCDPBase) and square.rho == pytest.approx(0.04)
    like_zcdp, like_gaussian = (
        tuning.epsilon(b, Geometric(5), DELTA).value.upper for b in (square, GaussianBase(0.08**0.5))
    )
    assert like_zcdp is not None and like_gaussian is not None and like_gaussian < like_zcdp < 1.5 * like_gaussian
    with pytest.raises(NotCertified):
        tuning_pairs.base_of(Ledger.of([Release(Gaussian(0.0))], Adjacency.ADD_OR_REMOVE_ONE), DELTA)
    nothing = tuning_pairs.base_of(Ledger.of([], Adjacency.ADD_OR_REMOVE_ONE), DELTA)
    assert tuning.epsilon(nothing, Geometric(10), DELTA).value.upper == 0.0


def test_trial_with_a_chance_of_failure() -> None:
    """(0.5, 1e-7)-DP: delta never falls below 1e-7, and ten trials cannot prove less than that."""
    ledger = Ledger.of([Release(ApproxDP(0.5, 1e-7))], Adjacency.REPLACE_ONE)
    base = tuning_pairs.base_of(ledger, DELTA)
    assert base.pure_epsilon == math.inf
    found = tuning.epsilon(base, Geometric(10), DELTA).value.upper
    assert found is not None and 0.5 < found < 1.5 + 1e-3
    assert tuning.epsilon(base, Geometric(10), 1e-8).value.upper == math.inf


def test_sampled_training_run() -> None:
    """sigma 1, q 0.01, 1000 steps: 1.828237 for one run; three runs at random cost between that and the published bound."""
    steps = SampledGaussian(1.0, 0.01)
    base = tuning_pairs.base_of(Ledger.of([Release(steps, 1000)], Adjacency.ADD_OR_REMOVE_ONE), DELTA)
    assert set(base.directions) == {"remove", "add"}
    once = max(epsilon_of(base, direction, DELTA) for direction in base.directions)
    assert 1.828237 - 5e-7 <= once <= 1.828237 * (1 + 1e-5)
    found = tuning.epsilon(base, Geometric(3), DELTA).detail["bounds"]
    assert isinstance(found, dict)
    assert once < found["divergence"] < found["ratio"] < found["profile"] < found["published"]


def test_table_lies_above_the_closed_form() -> None:
    """A plain Gaussian by the lattice: never below, at most 5e-5 above (chord 2e-5, mesh 1e-6 in epsilon of slope 13)."""
    base = PairsBase({"both": [(SampledGaussianRemove(1 / 0.3, 1.0), 1)]}, 1e-12)
    epsilons = np.linspace(0.0, 1.9, 333)
    excess = base.delta_upper("both", epsilons) / GaussianBase(0.3).delta_upper("both", epsilons) - 1
    assert np.all(excess > -1e-12) and np.all(excess < 5e-5)
    assert np.all(base.delta_upper("both", np.array([5.0, 50.0])) <= 1e-11)


@pytest.mark.parametrize("direction, pair", [("remove", SampledGaussianRemove), ("add", SampledGaussianAdd)])
def test_table_encloses_the_engine(direction: str, pair: type) -> None:
    """The table at arbitrary epsilons against the Fourier engine aimed at each: above its lower end, close to it."""
    from dpbudget.accounting import fourier

    parts = [(pair(0.8, 0.005), 2000)]
    table = tuning_pairs.tabulate(parts, 1e-16)
    for epsilon in (0.013, 0.21, 0.77, 1.31):
        spectrum = fourier.build(parts, fourier.chernoff_log_delta(parts, epsilon), epsilon, 1e-8)
        lower, upper = spectrum.bounds(epsilon)
        if upper > 1e-16:
            assert lower <= table(np.array([epsilon]))[0] <= upper * (1 + 1e-4)


def test_lattice_window_is_not_trusted_outside() -> None:
    """A transform aimed at a deep delta knows nothing of small epsilons: it must answer 1 there, not less."""
    from dpbudget.accounting import mesh

    composition = mesh.upper_composition([(SampledGaussianRemove(1.0, 1.0), 4)], -60.0, 1e-5)
    epsilons = np.array([0.0, 1.0, 5.0, 15.0, 20.0, 30.0])
    claimed = tuning_pairs.lattice_upper(composition, epsilons)
    assert np.all(claimed >= GaussianBase(2.0).delta_upper("both", epsilons) * (1 - 1e-9))


@pytest.mark.parametrize("failure", [OverflowError, FloatingPointError])
def test_a_lattice_beyond_the_doubles_leaves_the_table_to_its_neighbours(
    monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    """One transform of many that can't be built bounds delta by 1, as one that is refused does; it is no accident."""
    from dpbudget.accounting import mesh

    parts, build = PairsBase({"both": [(approximate_dp_pair(1.0, 0.0), 2)]}).parts["both"], mesh.upper_composition
    tried = []

    def now_and_then(*arguments: object) -> object:
        tried.append(arguments)
        if len(tried) % 2:
            raise failure("too large")
        return build(*arguments)  # type: ignore[arg-type]

    whole = tuning_pairs.tabulate(parts, 1e-10)(np.array([0.5, 1.5]))
    monkeypatch.setattr(mesh, "upper_composition", now_and_then)
    partly = tuning_pairs.tabulate(parts, 1e-10)(np.array([0.5, 1.5]))
    assert len(tried) > 2 and np.all(partly >= whole * (1 - 1e-9)) and np.all(partly < 1)


def test_random_configuration_is_the_mean() -> None:
    quiet, loud = GaussianBase(0.2), GaussianBase(0.6)
    mixed = MixedBase((quiet, loud), (0.75, 0.25))
    e = np.array([0.0, 0.5, 2.0])
    expected = 0.75 * quiet.delta_upper("both", e) + 0.25 * loud.delta_upper("both", e)
    np.testing.assert_allclose(mixed.delta_upper("both", e), expected, rtol=1e-11)
    orders = np.array([2.0, 9.0])
    moment = 0.75 * np.exp((orders - 1) * quiet.rdp("both", orders)) + 0.25 * np.exp(
        (orders - 1) * loud.rdp("both", orders)
    )
    np.testing.assert_allclose(mixed.rdp("both", orders), np.log(moment) / (orders - 1), rtol=1e-11)
    between = [tuning.epsilon(base, Geometric(5), DELTA).value.upper for base in (quiet, mixed, loud)]
    assert between == sorted(between)  # type: ignore[type-var]
    with pytest.raises(InputError):
        MixedBase((quiet, loud), (0.7, 0.2))


def test_search_returns_a_passing_point() -> None:
    seen: list[tuple[float, float]] = []

    def value(x: float) -> float:
        seen.append((x, math.exp(-x * x)))
        return seen[-1][1]

    found = tuning_base.least_passing(value, 1e-30, 0.0, 100.0)
    assert dict(seen)[found] <= 1e-30 and found == pytest.approx(math.sqrt(30 * math.log(10)), rel=2e-9)
    assert len(seen) < 60
    assert tuning_base.least_passing(value, 1.0, 0.0, 1.0) == 0.0
    assert tuning_base.least_passing(value, 1e-3, 0.0, 1.0) == math.inf
