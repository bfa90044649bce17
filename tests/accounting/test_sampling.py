"""Fixed size, shuffled, allocated and truncated batches: each bound against enumeration, quadrature or sampling."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.fft import irfft, rfft
from scipy.special import ndtr

from dpbudget.accounting import allocation, attack, fixedsize, gaussian, netgame, shuffle, triples, truncated
from dpbudget.accounting.atoms import atomic_pair, composed_delta, composed_epsilon, hockey_stick
from dpbudget.accounting.gaussian_pairs import SampledGaussianRemove
from dpbudget.accounting.lattice import certify_delta
from dpbudget.errors import InputError, NotCertified
from dpbudget.model import Adjacency


def normal(x: np.ndarray, centre: float, s: float) -> np.ndarray:
    return np.exp(-0.5 * ((x - centre) / s) ** 2) / (s * math.sqrt(2 * math.pi))


def stick(p: np.ndarray, q: np.ndarray, y: float, cell: float) -> float:
    return float(np.maximum(p - y * q, 0.0).sum() * cell)


# --- triples ----------------------------------------------------------------------------------------------------------


def planar(log_y: np.ndarray, b: np.ndarray, c: np.ndarray, rate: float) -> np.ndarray:
    """H by brute force on a plane, a at the origin, noise 1."""
    g = np.linspace(-9, 9, 1201)
    x, y = np.meshgrid(g, g, indexing="ij")
    base = np.exp(-(x**2 + y**2) / 2) / (2 * np.pi) * (g[1] - g[0]) ** 2
    up = np.exp(b[0] * x + b[1] * y - b @ b / 2)
    down = np.exp(c[0] * x + c[1] * y - c @ c / 2)
    return np.array(
        [
            (base * np.maximum((1 - rate) * (1 - np.exp(v)) + rate * up - rate * np.exp(v) * down, 0)).sum()
            for v in log_y
        ]
    )


def test_profile_of_a_triple_against_the_plane() -> None:
    rng = np.random.default_rng(3)
    log_y = np.array([0.0, 0.01, 0.3, 1.5])
    for _ in range(6):
        b, c, rate = rng.normal(size=2), rng.normal(size=2), rng.uniform(0.02, 0.6)
        sides = np.linalg.norm(b), np.linalg.norm(c), np.linalg.norm(b - c)
        # the sum over a kinked integrand is off by about cell^2
        assert triples.profile(log_y, *sides, rate) == pytest.approx(planar(log_y, b, c, rate), abs=1e-5)


def test_profile_of_a_flat_triple_is_the_sampled_gaussian() -> None:
    log_y = np.array([0.0, 0.001, 0.05, 0.5, 2.0])
    pair = SampledGaussianRemove(0.5, 0.01)
    exact = [certify_delta([(pair, 1)], float(v)).upper for v in log_y]
    assert triples.profile(log_y, 2.0, 0.0, 2.0, 0.01) == pytest.approx(exact, abs=1e-13)


def test_profile_is_monotone_in_the_distances() -> None:
    log_y = np.array([0.0, 0.02, 0.2, 1.0])
    base = triples.profile(log_y, 1.0, 0.9, 1.1, 0.1)
    assert np.all(triples.profile(log_y, 1.2, 0.9, 1.1, 0.1) >= base - 1e-13)
    assert np.all(triples.profile(log_y, 1.0, 0.9, 1.3, 0.1) >= base - 1e-13)
    assert np.all(triples.profile(log_y, 1.0, 1.1, 1.1, 0.1) <= base + 1e-13)


@pytest.mark.parametrize("edges", [(0.0, 1.0), (0.0, 0.3, 0.7, 1.0)])
def test_boxes_cover_every_triple(edges: tuple[float, ...]) -> None:
    """Random triples in the ball, in both directions of eps, lie below some kernel on the whole grid."""
    rng = np.random.default_rng(8)
    rate, diameter, step, reach = 0.1, 2.0, 0.05, 60
    pieces = triples.kernels(list(triples.boxes(edges)), rate, diameter, step, reach, reach)
    log_y = step * np.arange(reach + 1)
    losses = [step * (piece.first + np.arange(piece.mass.size)) for piece in pieces]
    for _ in range(40):
        a, b, c = (v * min(1.0, 1 / np.linalg.norm(v)) for v in rng.normal(size=(3, 3)) * rng.choice([0.7, 5.0]))
        u, v, w = np.linalg.norm(b - a), np.linalg.norm(c - a), np.linalg.norm(b - c)
        above = triples.profile(log_y, u, v, w, rate)
        below = 1 - np.exp(-log_y) + np.exp(-log_y) * triples.profile(log_y, v, u, w, rate)
        covered = False
        for piece, loss in zip(pieces, losses, strict=True):
            up = np.array([hockey_stick(loss, piece.mass, piece.infinite, x) for x in log_y])
            down = np.array([hockey_stick(loss, piece.mass, piece.infinite, -x) for x in log_y])
            covered |= bool(np.all(up >= above - 1e-12) and np.all(down >= below - 1e-12))
        assert covered


# --- the net game -----------------------------------------------------------------------------------------------------


def exact_game(rate: float, s: float, epsilon: float) -> float:
    """Two adaptive rounds of {R, its reverse} on the line: a true lower bound, by quadrature of the second round."""
    x = np.linspace(-8 * s, 1 + 8 * s, 2001)
    near, mixed = normal(x, 0, s), (1 - rate) * normal(x, 0, s) + rate * normal(x, 1, s)
    forward = SampledGaussianRemove(s, rate)

    def second(log_y: np.ndarray) -> np.ndarray:
        value = np.array([certify_delta([(forward, 1)], abs(float(v))).lower for v in log_y])
        swapped = 1 - np.exp(log_y) + np.exp(log_y) * value[::1]
        return np.where(log_y >= 0, value, swapped)

    knots = np.linspace(-3, 3, 241)
    table = second(knots)
    best = 0.0
    for p, q in ((mixed, near), (near, mixed)):
        with np.errstate(divide="ignore"):
            y = epsilon - np.log(p / q)
        best = max(best, float((p * np.interp(y, knots, table)).sum() * (x[1] - x[0])))
    return best


def test_game_of_two_rounds_exceeds_the_adaptive_adversary_and_every_fixed_pair() -> None:
    """proofs: T = 2, q = .1, s = 1, eps = 0: adaptive .06185, fixed pairs .0585, symmetrised .06525."""
    rate, sigma = 0.1, 2.0
    at = netgame.Plan(8, 0.01, -300, 900, 300, 600)
    value = netgame.play(netgame.cover(rate, sigma, at), 2, at).delta(0.0)
    fixed = certify_delta([(SampledGaussianRemove(1.0, rate), 2)], 0.0).upper
    attack = exact_game(rate, sigma / 2, 0.0)
    assert fixed < 0.0586
    assert attack > 0.0618  # composing R alone would claim less than what an adaptive adversary reaches
    assert attack <= value <= 0.0640


def test_interval_of_delta_holds_the_adaptive_adversary() -> None:
    """Two steps: no upper bound may be that of R alone, no lower end may exceed what the best adversary reaches."""
    ends = fixedsize.delta(0.1, 2.0, 2, 0.0)
    assert ends.lower <= exact_game(0.1, 1.0, 0.0) <= ends.upper <= 0.0653


def test_adversary_on_the_grid_stays_below_quadrature() -> None:
    rate, distance, step = 0.1, 1.0, 0.002
    pieces = [attack._kernel(rate, distance, step, 12.0, back) for back in (False, True)]
    losses = step * np.arange(-1500, 4000)
    one, slack = attack._play(pieces, 1, losses, step)
    two, _ = attack._play(pieces, 2, losses, step)
    exact = certify_delta([(SampledGaussianRemove(1.0, rate), 1)], 0.0).upper
    assert exact * 0.99 <= one[1500] - slack <= exact
    assert 0.0612 <= two[1500] <= exact_game(rate, 1.0, 0.0) * (1 + 1e-4)  # the quadrature is good to 1e-4
    for piece, forward in zip(pieces, (True, False), strict=True):
        first, mass = piece
        loss = step * (first + np.arange(mass.size))
        for x in (-0.5, -0.05, 0.0, 0.01, 0.7, 2.0):
            true = attack.hockey_stick(np.array([x]), rate, distance, not forward)[0][0]
            assert hockey_stick(loss, mass, 0.0, x) <= true + 1e-13


def test_adaptive_lower_end_beats_fixed_data_sets() -> None:
    rate, sigma, steps, delta = 0.1, 2.0, 30, 1e-3
    fixed = fixedsize.epsilon_lower(rate, sigma, steps, delta, Adjacency.REPLACE_ONE)
    ends = fixedsize.epsilon(rate, sigma, steps, delta)
    assert fixed < ends.lower < ends.upper < 1.1 * ends.lower


def test_one_box_is_the_symmetrised_pair() -> None:
    at = netgame.Plan(1, 0.005, -1200, 1200, 400, 1400)
    rate, sigma, steps = 0.05, 2.0, 20
    game = netgame.play(netgame.cover(rate, sigma, at), steps, at).delta(1.0)
    pair = fixedsize.fixed_size_replace_pair(sigma, rate)
    exact = certify_delta([(pair, steps)], 1.0)
    assert exact.lower * (1 - 1e-9) <= game <= exact.upper * 1.01  # the mesh only adds, here less than 1 %


def test_one_step_of_the_game_against_enumeration_of_batches() -> None:
    """n = 4, m = 2, gradients at +-C, all batches: no direction and no epsilon exceeds the one-step bound."""
    sigma, n, m = 0.8, 4, 2
    x, cell = np.linspace(-9, 9, 6001), 18 / 6000
    at = netgame.Plan(4, 0.01, -400, 400, 300, 600)
    played = netgame.play(netgame.cover(m / n, sigma, at), 1, at)
    worst = 0.0
    for others in itertools.product((-1.0, 0.0, 1.0), repeat=n - 1):
        for one, two in ((1.0, -1.0), (-1.0, 1.0), (1.0, 0.0)):
            outputs = []
            for record in (one, two):
                sums = [sum(c) for c in itertools.combinations((record, *others), m)]
                outputs.append(np.mean([normal(x, s, sigma) for s in sums], axis=0))
            for epsilon in (0.0, 0.4, 1.5):
                value = stick(outputs[0], outputs[1], math.exp(epsilon), cell)
                worst = max(worst, value / played.delta(epsilon))
                assert value <= played.delta(epsilon) * (1 + 1e-5)
    assert worst > 0.97  # attained up to the mesh: a sensitivity of C instead of 2 C would be far off


def test_moment_bound_is_above_the_game() -> None:
    rate, sigma, steps, delta = 0.05, 4.0, 200, 1e-5
    game = netgame.epsilon_upper(rate, sigma, steps, delta, at=_small_plan(rate, sigma, steps, delta))
    assert game < netgame.rdp_epsilon_upper(rate, sigma, steps, delta, cuts=6) < 1.5 * game


def _small_plan(rate: float, sigma: float, steps: int, delta: float) -> netgame.Plan:
    found = netgame.plan(rate, sigma, steps, delta, work=2e8)
    assert found is not None
    return found


@pytest.mark.skipif(np.finfo(np.longdouble).eps == np.finfo(float).eps, reason="no extended precision here")
@pytest.mark.parametrize("size", [12_800, 15_360, 40_500])
def test_transforms_keep_the_assumed_accuracy(size: int) -> None:
    """The slack of the game assumes a relative 2-norm error of KAPPA u log2 N for each transform."""
    x = 1 / (1 + np.exp(-np.linspace(-20, 20, size)))
    exact = rfft(x.astype(np.longdouble))
    error = np.linalg.norm(rfft(x) - exact) / np.linalg.norm(exact)
    back = np.linalg.norm(irfft(exact.astype(complex), size) - x) / np.linalg.norm(x)
    assert max(error, back) <= 0.25 * netgame.KAPPA * 2.0**-53 * math.log2(size)


def test_plan_is_refused_where_it_is_not_affordable() -> None:
    assert netgame.plan(0.01, 1.0, 10**7, 1e-5) is None
    assert netgame.plan(0.01, 1.0, 1000, 1e-12) is None  # below the absolute floor of the transforms
    with pytest.raises(NotCertified):
        netgame.epsilon_upper(0.01, 1.0, 10**7, 1e-5)
    with pytest.raises(InputError):
        netgame.epsilon_upper(math.nan, 1.0, 10, 1e-5)


@pytest.mark.slow
def test_reference_case_of_fixed_size() -> None:
    ends = fixedsize.epsilon_uppers(0.01, 1.0, 1000, 1e-5, Adjacency.REPLACE_ONE)
    assert ends["net game"] <= 13.50
    assert 14.8206 <= ends["symmetrised pair"] <= 14.8222
    lower = fixedsize.epsilon_lower(0.01, 1.0, 1000, 1e-5, Adjacency.REPLACE_ONE)
    assert 13.36 <= lower <= 13.4387 <= ends["net game"]  # the truth is in [13.4348, 13.4387]


@pytest.mark.slow
def test_reference_case_of_ten_thousand_steps() -> None:
    ends = fixedsize.epsilon(0.001, 0.8, 10_000, 1e-6)
    assert 15.245 <= ends.lower <= 15.3651
    assert 15.3 <= ends.upper <= 16.3201


# --- fixed size, zero-out ---------------------------------------------------------------------------------------------


def test_opposed_pair_against_enumeration_and_poisson_pair_is_no_bound() -> None:
    """n = 4, m = 1, others at -C: the zeroed record's outputs, enumerated; the Poisson zero-out pair lies below."""
    sigma, rate = 1.0, 0.25
    x, cell = np.linspace(-10, 10, 8001), 20 / 8000
    p = (1 - rate) * normal(x, -1, sigma) + rate * normal(x, 1, sigma)
    q = (1 - rate) * normal(x, -1, sigma) + rate * normal(x, 0, sigma)
    pair = fixedsize.Opposed(sigma, rate)
    removed = fixedsize.fixed_size_zero_out_pairs(sigma, rate)[0]
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        exact = stick(p, q, math.exp(epsilon), cell)
        mine = certify_delta([(pair, 1)], epsilon)
        assert mine.lower <= exact * (1 + 1e-5) and mine.upper >= exact * (1 - 1e-5)
        assert certify_delta([(removed, 1)], epsilon).upper >= exact * (1 - 1e-5)
    ends = fixedsize.delta(rate, sigma, 1, 0.5, adjacency=Adjacency.ZERO_OUT)
    for a, b in ((p, q), (q, p)):
        assert stick(a, b, math.exp(0.5), cell) <= ends.upper * (1 + 1e-5)
    assert stick(p, q, math.exp(0.5), cell) >= ends.lower * (1 - 1e-5)
    poisson = certify_delta([(SampledGaussianRemove(sigma, rate), 1)], 1.0).upper
    assert poisson < stick(p, q, math.e, cell)


def test_opposed_pair_inverts_its_loss_and_normalises() -> None:
    for sigma, rate in ((1.0, 0.01), (0.3, 0.5), (5.0, 0.1), (0.06, 0.2)):
        pair = fixedsize.Opposed(sigma, rate)
        x = np.linspace(pair.start + 0.05 * sigma, 1 + 5 * sigma, 50)
        assert pair.inverse_loss(pair.loss(x)) == pytest.approx(x, rel=1e-6, abs=1e-6)
        assert np.all(np.diff(pair.loss(x)) > 0)


def test_reference_case_of_zero_out() -> None:
    ends = fixedsize.epsilon(0.01, 1.0, 1000, 1e-5, adjacency=Adjacency.ZERO_OUT)
    assert 10.365 <= ends.lower <= ends.upper <= 10.51


def test_add_or_remove_is_refused() -> None:
    with pytest.raises(InputError):
        fixedsize.epsilon(0.01, 1.0, 10, 1e-5, adjacency=Adjacency.ADD_OR_REMOVE_ONE)
    with pytest.raises(InputError):
        shuffle.epsilon(1.0, 10, 1, 1e-5, adjacency=Adjacency.ADD_OR_REMOVE_ONE)


# --- shuffle ----------------------------------------------------------------------------------------------------------


def test_reference_case_of_shuffle() -> None:
    ends = shuffle.epsilon(0.5, 10_000, 1, 1e-6)
    assert 10.9946 <= ends.lower <= 10.9948
    assert 10.9971 <= ends.upper <= 10.9974


def test_shuffle_partition_against_the_closed_form() -> None:
    """The event {max > c} of Chua et al., over c, is one of the events of the partition."""
    sigma, batches = 1.0, 100
    pairs = shuffle.lower_pairs(sigma, batches)
    c = np.linspace(1, 12, 2000)
    for epsilon in (0.5, 1.5, 3.0):
        p = 1 - ndtr((c - 2) / sigma) * ndtr(c / sigma) ** (batches - 1)
        q = 1 - ndtr((c - 1) / sigma) * ndtr(c / sigma) ** (batches - 1)
        closed = float(np.max(p - math.exp(epsilon) * q))
        mine = composed_delta(pairs["remove"], 1, epsilon, 1e-3)[0]
        assert closed * (1 - 1e-4) <= mine <= closed * 1.05  # the partition may tell a little more than one event


def test_shuffle_lower_bound_by_sampling() -> None:
    """The distribution of the largest of 5 sums, sampled: masses of both members of the pair, in both directions."""
    rng = np.random.default_rng(2)
    sigma, batches, n = 1.0, 5, 400_000
    pairs = shuffle.lower_pairs(sigma, batches)
    draws = {}
    for name, moved in (("p", 2.0), ("q", 1.0)):
        sums = sigma * rng.standard_normal((n, batches))
        sums[:, 0] += moved
        draws[name] = np.sort(sums.max(axis=1))
    cuts = np.linspace(-4, 9, 131)
    p, q = (np.diff(np.searchsorted(draws[k], cuts)) / n for k in "pq")
    for direction, (a, b) in {"remove": (p, q), "add": (q, p)}.items():
        sampled = float(np.maximum(a - math.exp(0.3) * b, 0).sum())
        # 130 bins lose little; the noise of the positive part is below 0.004
        assert composed_delta(pairs[direction], 1, 0.3, 0.1)[0] == pytest.approx(sampled, abs=0.006)


def test_one_batch_and_several_epochs() -> None:
    exact = gaussian.epsilon(1e-5, 2.0 / math.sqrt(3))
    ends = shuffle.epsilon(2.0, 1, 3, 1e-5)  # one batch: nothing is hidden, both ends are the Gaussian
    assert exact * 0.995 <= ends.lower <= exact <= ends.upper * (1 + 1e-9)
    assert ends.upper == pytest.approx(exact, rel=1e-9)
    doubled = shuffle.epsilon(2.0, 1, 1, 1e-5, adjacency=Adjacency.REPLACE_ONE)
    assert doubled.upper == pytest.approx(gaussian.epsilon(1e-5, 1.0), rel=1e-9)
    assert doubled.lower == pytest.approx(doubled.upper, rel=1e-3)


# --- balls in bins ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sigma", "steps", "value"), [(1.0, 64, 1.80), (2.0, 64, 0.3295), (1.0, 128, 1.2613)])
def test_reference_cases_of_allocation(sigma: float, steps: int, value: float) -> None:
    ends = allocation.epsilon(sigma, steps, 1, 1e-8, tolerance=2e-3)
    half = 0.5 * 10.0 ** -(len(str(value).split(".")[1]) if value != 1.80 else 2)
    assert ends.lower <= value + half and ends.upper >= value - half
    assert ends.upper - ends.lower <= 3e-3 * ends.upper


def test_one_bin_is_the_gaussian() -> None:
    for sigma in (0.3, 1.0, 20.0):
        exact = gaussian.epsilon(1e-6, sigma)
        for ends in allocation.directions(sigma, 1, 1, 1e-6, tolerance=1e-3).values():
            assert ends.lower <= exact <= ends.upper <= ends.lower * 1.01


@pytest.mark.parametrize("sigma", [0.6, 1.0, 3.0])
def test_two_bins_against_quadrature_in_both_directions(sigma: float) -> None:
    x, cell = np.linspace(-10 * sigma, 1 + 10 * sigma, 2001), (1 + 20 * sigma) / 2000
    near, moved = normal(x, 0, sigma), normal(x, 1, sigma)
    q = near[:, None] * near
    p = (moved[:, None] * near + near[:, None] * moved) / 2
    pairs = allocation.epoch_pairs(sigma, 2, 1e-4)
    for name, (a, b) in {"remove": (p, q), "add": (q, p)}.items():
        for epsilon in (0.0, 0.3, 1.0):
            exact = stick(a, b, math.exp(epsilon), cell * cell)
            low = composed_delta(pairs[name].lower, 1, epsilon, exact)[0]
            high = composed_delta(pairs[name].upper, 1, epsilon, exact)[1]
            assert low <= exact + 2e-6 and high >= exact - 2e-6  # the kinked sum is good to 1e-6
            assert high - low <= 2e-3 * high + 1e-7


def test_allocation_by_importance_sampling() -> None:
    """(1, 64) at delta 1e-8: the sampled delta at both ends, drawn where any one of the bins is large."""
    rng = np.random.default_rng(5)
    sigma, bins, centre, n = 1.0, 64, 6.4, 200_000
    x = sigma * rng.standard_normal((n, bins))
    x[:, 0] += 1
    first = rng.random(n) < 0.7
    x[first, 0] += centre - 1
    rows = np.flatnonzero(~first)
    x[rows, rng.integers(1, bins, rows.size)] += centre
    own = np.exp((x[:, 0] * 2 * (centre - 1) - (centre**2 - 1)) / 2)
    rest = np.exp((2 * x[:, 1:] * centre - centre**2) / 2).mean(axis=1)
    ratio = np.exp((2 * x - 1) / 2).mean(axis=1)
    ends = allocation.epsilon(sigma, bins, 1, 1e-8, tolerance=2e-3)
    for epsilon, sign in ((ends.lower, 1), (ends.upper, -1)):
        value = np.maximum(1 - math.exp(epsilon) / ratio, 0) / (0.7 * own + 0.3 * rest)
        mean, error = value.mean(), value.std() / math.sqrt(n)
        assert sign * (mean - 1e-8) >= -4 * error  # at the lower end delta is at least 1e-8, at the upper one at most


def test_epochs_compose() -> None:
    one = allocation.directions(2.0, 16, 1, 1e-6, tolerance=1e-3)["remove"]
    two = allocation.directions(2.0, 16, 2, 1e-6, tolerance=1e-3)["remove"]
    assert one.upper < two.lower < two.upper < 2 * one.upper
    with pytest.raises(NotCertified):
        allocation.epsilon(0.01, 10, 1, 1e-6)
    with pytest.raises(InputError):
        allocation.epsilon(math.nan, 10, 1, 1e-6)


# --- truncated Poisson ------------------------------------------------------------------------------------------------


def test_reference_case_of_truncation() -> None:
    runs = [truncated.Truncated(1, 0.5, 4, 2, 3), truncated.Truncated(1, 0.5, 3, 2, 2)]
    assert 16.4560 <= truncated.epsilon(runs, 1e-6).upper <= 16.4570


def outputs_of(records: tuple[float, ...], rate: float, cap: int, sigma: float, x: np.ndarray) -> np.ndarray:
    """Density of one truncated step by enumeration of all draws and all subsets."""
    density = np.zeros(x.shape)
    for chosen in itertools.product((False, True), repeat=len(records)):
        weight = math.prod(rate if c else 1 - rate for c in chosen)
        batch = [r for r, c in zip(records, chosen, strict=True) if c]
        batches = list(itertools.combinations(batch, min(cap, len(batch))))
        density += weight * np.mean([normal(x, sum(b), sigma) for b in batches], axis=0)
    return density


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_truncation_against_enumeration_in_every_direction(adjacency: Adjacency) -> None:
    sigma, rate, n, cap = 1.0, 0.5, 4, 2
    x, cell = np.linspace(-9, 9, 3001), 18 / 3000
    run = truncated.Truncated(sigma, rate, n, cap, 1)
    pairs = truncated.dominating_pairs(run, adjacency, -40.0)
    worst = 0.0
    for others in itertools.product((-1.0, 1.0), repeat=n - 1):
        with_record = outputs_of((1.0, *others), rate, cap, sigma, x)
        without = {
            Adjacency.ADD_OR_REMOVE_ONE: others,
            Adjacency.ZERO_OUT: (0.0, *others),
            Adjacency.REPLACE_ONE: (-1.0, *others),
        }[adjacency]
        other = outputs_of(without, rate, cap, sigma, x)
        for name, (a, b) in {"remove": (with_record, other), "add": (other, with_record)}.items():
            pair = pairs.get(name) or pairs["both"]
            for epsilon in (0.0, 0.5, 1.5):
                exact, bound = stick(a, b, math.exp(epsilon), cell), composed_delta(pair, 1, epsilon, 0.1)[1]
                assert exact <= bound + 1e-6
                worst = max(worst, exact / bound)
    assert worst > 0.6  # not attained, but of the right size


def test_truncation_weights_dominate_at_any_size() -> None:
    # scipy's binomial tail is off by 2e-9 at 800,000 records, by 2e-7 at 1e8, and useless beyond 2^31
    for n, rate, cap in ((833_479, 0.12837, 107_300), (10**8, 1e-5, 1050), (10**9, 1e-6, 1030)):
        run = truncated.Truncated(1.0, rate, n, cap, 10)
        assert run.others.above[0] <= run.cut_probability <= run.others.above[0] * (1 + 1e-9)
        assert run.others.below[1] + run.cut_probability >= 1
        assert 0 < run.cut_rate <= rate * cap / (cap + 1) * (1 + 1e-9)
    with pytest.raises(InputError, match="1,000,000,000"):
        truncated.Truncated(1.0, 1e-6, 10**10, 20_000, 10)


def test_without_truncation_it_is_poisson() -> None:
    """A limit that is never reached costs nothing; one that always is costs the sensitivity of 2 C."""
    exact = certify_delta([(SampledGaussianRemove(1.0, 0.1), 3)], 0.5)
    free = truncated.delta([truncated.Truncated(1.0, 0.1, 50, 50, 3)], 0.5).upper
    assert exact.lower <= free <= exact.upper * 1.01
    assert truncated.delta([truncated.Truncated(1.0, 0.1, 50, 2, 3)], 0.5).upper > 1.5 * free
    with pytest.raises(InputError):
        truncated.Truncated(1.0, math.nan, 50, 2, 3)


# --- finite pairs -----------------------------------------------------------------------------------------------------


def test_finite_pair_inverts_its_own_profile() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        p, q = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
        pair = atomic_pair(np.log(p / q), p, error=0.0, side=1)
        for delta in (1e-3, 0.05, 0.3):
            low, high = composed_epsilon(pair, 1, delta)
            if low > 0:
                assert composed_delta(pair, 1, low, delta)[1] >= delta
            assert composed_delta(pair, 1, high, delta)[0] <= delta
            assert high - low < 1e-6
