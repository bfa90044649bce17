"""What epsilon means: certified ends contain closed forms, inverse questions return the proven side."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.special import ndtr, ndtri

from dpbudget import risk
from dpbudget.accounting import allocation, approxcurve, gaussian, profiles, sampling, tradeoff
from dpbudget.accounting.account import Ledger
from dpbudget.accounting.gdpsummary import gdp_summary
from dpbudget.accounting.pairs import GroupRemove, SampledGaussianRemove
from dpbudget.accounting.profiles import SharedDelta
from dpbudget.errors import ContradictionError, InputError, NotCertified
from dpbudget.model import Adjacency, ApproxDP, Gaussian, Laplace, Release, SampledGaussian, Sampling
from dpbudget.montecarlo import Canary


def ledger(sigma: float, rate: float, steps: int) -> Ledger:
    return Ledger.of([Release(SampledGaussian(sigma, rate), steps)], Adjacency.ADD_OR_REMOVE_ONE)


def gaussian_profile(mu: float) -> tradeoff.Profile:
    return tradeoff.Profile(lambda epsilon: gaussian.delta_interval(epsilon, 1 / mu))


@pytest.fixture(scope="module")
def run() -> risk.RiskCurves:
    return risk.RiskCurves(ledger(1.0, 0.01, 1000))


# --- one Gaussian: everything is known -------------------------------------------------------------------------------


def test_gaussian_of_the_issue() -> None:
    one = risk.RiskCurves(Ledger.of([Release(Gaussian(1.0), 1)], Adjacency.ADD_OR_REMOVE_ONE))
    found = risk.advantage(one)
    assert found.lower <= 2 * ndtr(0.5) - 1 <= found.upper
    assert round(found.upper, 5) == 0.38292
    assert round(risk.tpr(one, 0.01).upper, 5) == 0.09236
    assert round(risk.tpr(one, 0.001).upper, 6) == 0.018298
    assert risk.bayes_error(one, 0.5).lower <= ndtr(-0.5) <= risk.bayes_error(one, 0.5).upper
    mu = risk.gdp_mu(one)
    assert mu.lower <= 1.0 <= mu.upper < 1.0 + 2e-5


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 4.0, 12.0])
@pytest.mark.parametrize("fpr", [1e-12, 1e-5, 1e-3, 0.01, 0.2, 0.5, 0.9, 0.999])
def test_points_contain_the_gaussian_curve(mu: float, fpr: float) -> None:
    profile = gaussian_profile(mu)
    found = tradeoff.Curve(profile, profile).point(fpr)
    exact = float(ndtr(ndtri(fpr) + mu))
    missed = float(ndtr(-ndtri(fpr) - mu))
    slack = 1e-11  # ndtri near 1
    assert found.tpr[0] <= exact * (1 + slack)
    assert found.tpr[1] >= exact * (1 - slack)
    assert found.tpr[1] - found.tpr[0] <= 2e-6 * found.tpr[1]
    assert found.fnr[0] <= missed + 1e-15
    assert found.fnr[1] >= missed - 1e-15


def test_ends_of_the_curve() -> None:
    profile = gaussian_profile(1.0)
    curve = tradeoff.Curve(profile, profile)
    assert curve.point(1.0).tpr == (1.0, 1.0)
    zero = curve.point(0.0)
    assert zero.tpr[0] == 0.0
    assert zero.tpr[1] < 1e-30
    with pytest.raises(InputError):
        curve.point(math.nan)


@pytest.mark.parametrize("prior", [0.0, 1e-6, 0.2, 0.5, 0.7, 1 - 1e-9, 1.0])
def test_bayes_error_of_a_gaussian(prior: float) -> None:
    profile = gaussian_profile(1.5)
    low, high = tradeoff.Curve(profile, profile).bayes_error(prior)
    if 0 < prior < 1:
        cut = (math.log(1 - prior) - math.log(prior)) / 1.5 + 0.75
        exact = (1 - prior) * ndtr(-cut) + prior * ndtr(cut - 1.5)
        assert low <= exact * (1 + 1e-12)
        assert high >= exact * (1 - 1e-7)  # log1p(-prior) loses digits at 1 - 1e-9, in the test as well
    else:
        assert low == high == 0.0


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0, 8.0])
def test_tail_is_the_probability_of_the_loss_not_delta(epsilon: float) -> None:
    profile = gaussian_profile(1.0)
    low, high = tradeoff.Curve(profile, profile).tail(epsilon)
    exact = float(ndtr(0.5 - epsilon))
    assert low <= exact <= high
    assert high - low < 2e-3 * exact
    assert low > profile.at(epsilon)[1]


# --- certified ends stay certified whatever the profile --------------------------------------------------------------


def random_test(rng: np.random.Generator, atoms: int) -> tuple[np.ndarray, np.ndarray]:
    p, q = rng.dirichlet(np.full(atoms, 0.5), 2)
    return p, q


@pytest.mark.parametrize("seed", range(12))
def test_finite_laws_against_neyman_pearson(seed: int) -> None:
    """Piecewise linear curves with kinks, unequal directions, ends of delta loosened by up to 1e-3."""
    rng = np.random.default_rng(seed)
    p, q = random_test(rng, 3 + seed % 5)
    loose = [0.0, 1e-6, 1e-3][seed % 3]

    def profile(a: np.ndarray, b: np.ndarray) -> tradeoff.Profile:
        def ends(epsilon: float) -> tuple[float, float]:
            value = float(np.maximum(a - math.exp(min(epsilon, 700)) * b, 0).sum())
            return max(0.0, value * (1 - loose * rng.random()) - 1e-16), min(
                1.0, value * (1 + loose * rng.random()) + 1e-16
            )

        return tradeoff.Profile(ends)

    curve = tradeoff.Curve(profile(p, q), profile(q, p))
    order = np.argsort(-np.divide(p, q, out=np.full(p.size, 1e300), where=q > 0))
    fprs, tprs = np.concatenate(([0], np.cumsum(q[order]))), np.concatenate(([0], np.cumsum(p[order])))
    for fpr in (1e-4, 0.03, 0.25, 0.6, 0.95):
        exact = float(np.interp(fpr, fprs, tprs))
        found = curve.point(fpr)
        assert found.tpr[0] - 1e-12 <= exact <= found.tpr[1] + 1e-12
        assert found.fnr[0] - 1e-12 <= 1 - exact <= found.fnr[1] + 1e-12
    low, high = curve.bayes_error(0.3)
    assert low - 1e-12 <= np.minimum(0.7 * q, 0.3 * p).sum() <= high + 1e-12
    for epsilon in (0.1, 1.0):
        low, high = curve.tail(epsilon)
        assert low - 1e-12 <= p[p > math.exp(epsilon) * q].sum() <= high + 1e-12


def test_envelope_is_below_a_convex_function() -> None:
    y = np.array([1.0, 1.1, 1.5, 3.0, 9.0])
    truth = np.exp(-y)
    corner, floor = tradeoff.envelope(y, truth * 0.999, truth * 1.001, (0.5, math.exp(-0.5) * 1.001))
    assert np.all(floor <= np.exp(-corner) + 1e-15)
    assert np.max(np.exp(-corner) - floor) < 0.07


@pytest.mark.parametrize("ends", [(math.nan, 1.0), (0.2, 0.1), (0.0, 1.1), (-0.1, 0.5), (0.1, math.nan)])
def test_a_profile_that_is_not_certified_is_refused(ends: tuple[float, float]) -> None:
    with pytest.raises(NotCertified):
        tradeoff.Profile(lambda _: ends).at(1.0)


def test_proofs_that_exclude_each_other_are_a_defect() -> None:
    with pytest.raises(ContradictionError):
        tradeoff.intersect(tradeoff.Point(0.1, (0.2, 0.3), (0.7, 0.8)), tradeoff.Point(0.1, (0.4, 0.5), (0.5, 0.6)))


# --- sampled runs ----------------------------------------------------------------------------------------------------


def test_shared_sums_stay_inside_what_is_asked_apart() -> None:
    from dpbudget.accounting import lattice

    parts = ledger(1.0, 0.01, 1000).directions["remove"]
    shared = SharedDelta(parts)
    for epsilon in (1.0, 1.3, 0.8, 1.31, 0.0, 2.5):
        low, high = shared(epsilon)
        apart = lattice.certify_delta(parts, epsilon)
        assert max(low, apart.lower) <= min(high, apart.upper)
        assert high - low <= 1e-5 * high
    assert len(shared.sums) < 6


def test_beyond_the_largest_loss_of_the_add_direction() -> None:
    shared = SharedDelta(ledger(1.0, 0.01, 100).directions["add"])
    assert shared(1.02)[1] < 1e-290  # 100 steps lose at most 1.005


@pytest.mark.parametrize(("sigma", "rate", "steps"), [(1.0, 0.01, 1000), (4.0, 0.02, 100_000), (9.4, 0.328, 2000)])
def test_lattices_alone_agree_with_fourier_sums(
    sigma: float, rate: float, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for parts in ledger(sigma, rate, steps).directions.values():
        sums, lattices = SharedDelta(parts), SharedDelta(parts)
        for epsilon in (0.0, 0.01, 0.2, 0.7, 1.5, 3.0):
            exact = sums.ends(epsilon, 1e-12)
            with monkeypatch.context() as patched:
                patched.setattr(profiles, "MOST_SUMS", 0)
                low, high = lattices.ends(epsilon, 1e-12)
            assert low <= exact[1]
            assert high >= exact[0]
            assert high - low <= 1e-3 * high + 1e-12
        assert not lattices.sums
        assert len(lattices.lattices) <= 4


def test_a_group_of_one_is_a_record_and_larger_groups_cost_more() -> None:
    record = SharedDelta([(SampledGaussianRemove(1.0, 0.02), 40)])
    groups = [SharedDelta([(GroupRemove(1.0, 0.02, size), 40)]) for size in (1, 2, 3)]
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        ends = [group(epsilon) for group in groups]
        single = record(epsilon)
        assert max(single[0], ends[0][0]) <= min(single[1], ends[0][1])
        assert ends[0][1] < ends[1][0]
        assert ends[1][1] < ends[2][0]


@pytest.mark.parametrize(
    ("mechanism", "steps", "adjacency", "interval"),
    [
        (SampledGaussian(0.8, 0.05), 50, Adjacency.REPLACE_ONE, 2e-3),
        (SampledGaussian(1.0, 1e-5), 1000, Adjacency.ADD_OR_REMOVE_ONE, 1e-5),
        (SampledGaussian(0.5, 1e-3), 10, Adjacency.ADD_OR_REMOVE_ONE, 2e-3),
    ],
)
def test_rough_runs_against_another_tool(
    mechanism: SampledGaussian, steps: int, adjacency: Adjacency, interval: float
) -> None:
    """Ours between their optimistic and their pessimistic curve, up to the 1e-12 that their transforms lose."""
    found = risk.RiskCurves(Ledger.of([Release(mechanism, steps)], adjacency)).all
    relation = "REPLACE_ONE" if adjacency is Adjacency.REPLACE_ONE else "ADD_OR_REMOVE_ONE"
    below, above = (
        privacy_loss_distribution.from_gaussian_mechanism(
            mechanism.noise_multiplier,
            sampling_prob=mechanism.sampling_rate,
            value_discretization_interval=interval,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
            neighboring_relation=getattr(privacy_loss_distribution.NeighborRel, relation),
        ).self_compose(steps)
        for pessimistic in (False, True)
    )
    epsilons = [0.0, 1e-4, 0.01, 0.1, 0.5, 1.0, 2.0, 4.0]
    for epsilon, least, most in zip(
        epsilons, below.get_delta_for_epsilon(epsilons), above.get_delta_for_epsilon(epsilons), strict=True
    ):
        low, high = found.at(epsilon, 1e-12)
        assert low <= most + 1e-12
        assert high >= least - 1e-12
        assert high - low <= 2e-3 * high + 1e-12


def test_an_epoch_in_bins_against_its_own_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "CURVE_MESHES", (0.04,))
    bins = SampledGaussian(2.0, 0.25, sampling=Sampling.BALLS_IN_BINS, dataset_size=1000)

    def curves_of(steps: int) -> risk.RiskCurves:
        return risk.RiskCurves(Ledger.of([Release(bins, steps)], Adjacency.ADD_OR_REMOVE_ONE))

    curves = curves_of(12)
    assert curves.attained
    for epsilon in (0.0, 0.5, 1.5):
        apart = allocation.delta(2.0, 4, 3, epsilon, mesh=0.04)
        low, high = curves.all.at(epsilon)
        assert low <= apart.upper
        assert high >= apart.lower
        assert high - low <= 0.05 * high
    # 10 steps finish two epochs and begin a third: from above three, from below two
    begun = curves_of(10).all.at(0.5)
    assert begun[0] == pytest.approx(curves_of(8).all.at(0.5)[0], rel=1e-4)
    assert begun[1] == pytest.approx(curves.all.at(0.5)[1], rel=1e-4)
    # and where not even one is finished nothing is proven below
    assert risk.advantage(curves_of(3)).lower == 0.0 < risk.advantage(curves_of(3)).upper


def test_a_delta_that_is_ignored_need_not_be_sharp() -> None:
    asked: list[float] = []

    def rough(epsilon: float, ignore: float) -> tradeoff.Ends:
        asked.append(ignore)
        return 0.0, min(1e-3, 0.9 * ignore)

    profile = tradeoff.Profile(lambda epsilon: (1e-4, 2e-4), rough)
    assert profile.at(1.0, 1e-6) == (0.0, 0.9e-6)
    assert profile.at(1.0, 1e-5) == (0.0, 0.9e-6)  # still good enough, and not asked again
    assert profile.points()[0].size == 0
    assert profile.at(1.0) == (1e-4, 2e-4)
    assert profile.at(1.0, 1e-6) == (1e-4, 2e-4)
    assert asked == [1e-6]


def test_upper_ends_need_no_lower_ones() -> None:
    """Without lower ends the tail is bounded by Markov: delta(x) >= (1 - e^{x - epsilon}) P(L > epsilon)."""
    blind = profiles.upper_only(gaussian_profile(1.0))
    seen, unseen = (tradeoff.Curve(one, one) for one in (gaussian_profile(1.0), blind))
    for epsilon in (1.0, 3.0):
        exact = float(ndtr(0.5 - epsilon))
        assert unseen.tail(epsilon)[0] == 0.0
        assert exact <= unseen.tail(epsilon)[1] <= gaussian.delta(epsilon - 0.7, 1.0) / -math.expm1(-0.7) * (1 + 1e-9)
    assert unseen.point(0.01).tpr[1] == pytest.approx(seen.point(0.01).tpr[1], rel=1e-6)
    assert unseen.point(0.01).tpr[0] == 0.01


def test_gdp_summary_where_e_to_the_epsilon_overflows() -> None:
    def exact(epsilon: float) -> float:
        return 0.5 * gaussian.delta(epsilon, 1 / 40)

    mu = gdp_summary(tradeoff.Profile(lambda e: (exact(e) * (1 - 1e-9), exact(e) * (1 + 1e-9))), 1e-5)
    assert mu[0] <= mu[1] < 40.0
    for epsilon in np.linspace(0.0, 960.0, 200):
        if exact(float(epsilon)) >= 1e-5:
            assert gaussian.delta(float(epsilon), 1 / mu[1]) >= exact(float(epsilon)) * (1 - 1e-9)


def test_sampled_run_against_a_simulated_attack(run: risk.RiskCurves) -> None:
    """2,000 runs a world of the likelihood-ratio attack: its advantage is the truth up to 5 standard errors."""
    rng = np.random.default_rng(5)
    attack = Canary(1.0, 0.01, 1000)
    inside, outside = attack(rng, True, 2000), attack(rng, False, 2000)
    seen = (inside > 0).mean() - (outside > 0).mean()
    assert risk.advantage(run).upper == pytest.approx(seen, abs=5 * math.sqrt(0.5 / 2000))
    cut = np.quantile(outside, 0.9)
    found = run.directed["remove"].point(0.1)
    assert found.tpr[1] == pytest.approx((inside > cut).mean(), abs=5 * math.sqrt(0.5 / 2000))


def test_the_curve_of_both_directions_covers_each(run: risk.RiskCurves) -> None:
    for fpr in (0.001, 0.01, 0.5):
        both = run.both.point(fpr)
        each = [curve.point(fpr) for curve in run.directed.values()]
        assert both.tpr[1] >= max(point.tpr[0] for point in each)
        assert both.tpr[1] - both.tpr[0] <= 2e-6 * both.tpr[1]
        # Mixing the two directions cannot beat the larger by more than a chord between them.
        assert both.tpr[0] <= 1.02 * max(point.tpr[1] for point in each)


def test_gdp_summaries_of_the_issue(run: risk.RiskCurves) -> None:
    """1.567427 and 1.570118, .4627 and .5289: computed by another method to the digits shown."""
    census = risk.RiskCurves(ledger(9.4, 0.328, 2000))
    for curves, floor, value, digits in (
        (census, 1e-5, 1.567427, 5e-7), (census, 1e-10, 1.570118, 5e-7), (run, 1e-5, 0.4627, 5e-5), (run, 1e-10, 0.5289, 5e-5),
    ):  # fmt: skip
        mu = risk.gdp_mu(curves, floor)
        assert mu.lower <= value + digits
        assert mu.upper >= value - digits
        assert mu.upper - mu.lower <= 2e-5 * mu.upper
    assert f"{risk.gdp_mu(census).upper:.4f}" == "1.5674"


def test_gdp_summary_covers_between_the_points() -> None:
    """A mixture whose mu is largest in the middle: every epsilon of a fine grid must be covered."""

    def exact(epsilon: float) -> float:
        return 0.5 * gaussian.delta(epsilon, 1.0) + 0.5 * gaussian.delta(epsilon, 2.0)

    profile = tradeoff.Profile(lambda e: (exact(e) * (1 - 1e-9), exact(e) * (1 + 1e-9)))
    mu = gdp_summary(profile, 1e-6)[1]
    for epsilon in np.linspace(0.0, 5.0, 401):
        if exact(float(epsilon)) >= 1e-6:
            assert gaussian.delta(float(epsilon), 1 / mu) >= exact(float(epsilon)) * (1 - 1e-12)


def test_posterior_bounds_the_gaussian_loss() -> None:
    one = Ledger.of([Release(Gaussian(1.0), 1)], Adjacency.ADD_OR_REMOVE_ONE)
    found = risk.posterior(one, 0.1, 1e-3)
    exact = 0.5 - float(ndtri(1e-3))
    assert found.loss.lower <= exact <= found.loss.upper
    assert found.loss.upper - found.loss.lower < 1e-3
    assert found.value.upper == pytest.approx(1 / (1 + 9 * math.exp(-found.loss.upper)), rel=1e-12)
    assert found.loss.upper > gaussian.epsilon(1e-3, 1.0)  # delta would say too little


def test_nothing_released_and_nothing_hidden() -> None:
    empty = Ledger.of([], Adjacency.ADD_OR_REMOVE_ONE)
    assert risk.advantage(empty).upper == 0.0
    assert risk.tpr(empty, 0.01).upper == pytest.approx(0.01, rel=1e-12)
    assert risk.gdp_mu(empty).upper == 0.0
    silent = ledger(0.0, 0.01, 10)
    assert risk.advantage(silent).lower == risk.advantage(silent).upper == 1.0
    assert risk.tpr(silent, 0.01).upper == 1.0
    assert risk.posterior(silent, 0.5, 1e-5).value.upper == 1.0


def test_bounded_losses_and_a_mass_at_infinity() -> None:
    """Curves with a largest loss: three Laplace releases, and the worst (1, 1e-5)-DP mechanism, whose curve is known."""
    laplace = Ledger.of([Release(Laplace(2.0), 3)], Adjacency.ADD_OR_REMOVE_ONE)
    assert risk.tpr(laplace, 1e-4).upper <= math.exp(1.5) * 1e-4 * (
        1 + 1e-4
    )  # 1.5-DP; halving finds the kink to about 1e-5
    worst = risk.RiskCurves(Ledger.of([Release(ApproxDP(1.0, 1e-5), 1)], Adjacency.ADD_OR_REMOVE_ONE))
    for fpr in (1e-4, 0.01, 0.3):
        found, exact = risk.tpr(worst, fpr), approxcurve.approx_tpr(1.0, 1e-5, fpr)
        assert found.lower <= exact * (1 + 1e-9)
        assert found.upper >= exact * (1 - 1e-9)
        assert found.upper - found.lower < 2e-3 * exact  # two atoms on a tilted lattice: the ends are good to 1e-3


# --- (epsilon, delta) alone ------------------------------------------------------------------------------------------


def test_epsilon_delta_alone_overstates(run: risk.RiskCurves) -> None:
    assert round(approxcurve.approx_tpr(8.0, 1e-5, 0.01), 5) == 0.99967
    assert round(approxcurve.approx_advantage(1.0, 1e-5), 5) == 0.46212
    assert approxcurve.approx_bayes_error(1.0, 1e-5, 0.5) == pytest.approx((1 - 0.46212) / 2, abs=1e-5)
    assert approxcurve.approx_loss_bound(1.0, 1e-5, 1e-5) == math.inf
    assert approxcurve.approx_loss_bound(1.0, 1e-5, 1e-4) > 1.0
    # at the run's own (1.8283, 1e-5)
    assert risk.tpr(run, 0.01).upper < 0.5 * approxcurve.approx_tpr(1.8283, 1e-5, 0.01)
    assert risk.advantage(run).upper < 0.3 * approxcurve.approx_advantage(1.8283, 1e-5)
    with pytest.raises(InputError):
        approxcurve.approx_tpr(math.nan, 1e-5, 0.01)


# --- the inverse -----------------------------------------------------------------------------------------------------


def test_sigma_for_an_advantage_is_the_proven_side() -> None:
    target = risk.RiskTarget("advantage", 0.1)
    found = risk.solve_sigma(lambda s: ledger(s, 0.01, 1000), target)
    assert found.risk.upper <= 0.1 < found.risk_beside.upper
    assert float(f"{found.value:.4e}") == found.value
    one = risk.solve_sigma(lambda s: Ledger.of([Release(Gaussian(s), 1)], Adjacency.ADD_OR_REMOVE_ONE), target)
    assert one.beside < 1 / (2 * float(ndtri(0.55))) <= one.value


def test_steps_and_rate_for_a_tpr() -> None:
    target = risk.RiskTarget("tpr", 0.02, 0.01)
    steps = risk.solve_steps(lambda t: ledger(1.0, 0.01, t), target, start=300)
    assert steps.beside == steps.value + 1
    assert steps.risk.upper <= 0.02 < steps.risk_beside.upper
    rate = risk.solve_rate(lambda q: ledger(1.0, q, 1000), target, digits=3)
    assert rate.value < rate.beside
    assert rate.risk.upper <= 0.02 < rate.risk_beside.upper


@pytest.mark.parametrize(
    "arguments",
    [
        ("auc", 0.1),
        ("advantage", 0.0),
        ("advantage", math.nan),
        ("tpr", 0.1),
        ("tpr", 0.01, 0.02),
        ("tpr", 0.5, math.nan),
    ],
)
def test_targets_without_a_meaning(arguments: tuple) -> None:
    with pytest.raises(InputError):
        risk.RiskTarget(*arguments)


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "riskcal"),
    [
        (1.0, 0.01, 1000, 0.16101842),
        (2.0, 0.05, 500, 0.23174380),
        (9.4, 0.328, 2000, 0.56505287),
        (0.8, 0.005, 1000, 0.11814457),
    ],
)
def test_sampled_runs_against_other_tools(sigma: float, rate: float, steps: int, riskcal: float) -> None:
    """Advantage as riskcal 1.5.1 gives it from a pessimistic grid of 1e-4, and the TPR that dp-accounting's delta bounds.

    riskcal's own TPR is not held against ours: it lies up to 9 % below what its own PLD proves through delta(epsilon).
    """
    curves = risk.RiskCurves(Ledger.of([Release(SampledGaussian(sigma, rate), steps)], Adjacency.ADD_OR_REMOVE_ONE))
    advantage = risk.advantage(curves)
    assert advantage.lower <= riskcal <= advantage.upper + 1e-5  # what a grid of 1e-4 adds to delta(0)
    pld = privacy_loss_distribution.from_gaussian_mechanism(
        sigma, sampling_prob=rate, value_discretization_interval=1e-4
    ).self_compose(steps)
    epsilons = np.linspace(0.0, 8.0, 2001)
    deltas = np.array(pld.get_delta_for_epsilon(epsilons))
    for fpr in (0.01, 0.001):
        ceiling = float((deltas + np.exp(epsilons) * fpr).min())
        found = risk.tpr(curves, fpr)
        assert found.lower <= ceiling
        assert ceiling == pytest.approx(found.upper, rel=1e-4)  # their mesh, and a grid of 0.004 for epsilon
