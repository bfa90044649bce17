"""docs/math.md names code, tests and papers that exist; the lemmas that stand there alone hold in small exact cases."""

from __future__ import annotations

import importlib
import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from dpbudget.accounting import account, closed_form, filter, gaussian, gaussian_pairs, replace_pairs
from dpbudget.accounting.account import Ledger
from dpbudget.accounting.convolve import KAPPA
from dpbudget.accounting.discrete_pairs import AtomicPair, SampledLaplaceRemove
from dpbudget.accounting.discretise import _ORDERS, ROUND, LatticeMeasure, discretise
from dpbudget.accounting.pairs import Pair
from dpbudget.budgetfile import reading
from dpbudget.budgetfile.document import BudgetFileError
from dpbudget.errors import InputError
from dpbudget.model import Adjacency, Gaussian, Laplace, PureDP, Release, SampledGaussian, Sampling

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
TEXT = (DOCS / "math.md").read_text()
CHAPTERS = {path.name: path.read_text() for path in sorted(DOCS.glob("math*.md"))}
Array = np.ndarray


# --- the document ---------------------------------------------------------------------------------------------------


def code_names(text: str) -> set[str]:
    """What stands in backticks as module.name, file names apart."""
    found = set(re.findall(r"`([a-z_]+\.[A-Za-z_]+(?:\.[a-z_]+)?)`", text))
    return {name for name in found if name.rsplit(".", 1)[1] not in ("py", "md", "csv", "json", "toml")}


def exists(name: str) -> bool:
    module, *path = name.split(".")
    for package in ("dpbudget.accounting", "dpbudget"):
        try:
            value: object = importlib.import_module(f"{package}.{module}")
        except ModuleNotFoundError:
            continue
        for part in path:
            value = getattr(value, part, None)
        if value is not None:
            return True
    return False


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_named_function_exists(chapter: str) -> None:
    assert [name for name in sorted(code_names(CHAPTERS[chapter])) if not exists(name)] == []


def test_math_names_the_engines() -> None:
    assert len(code_names(TEXT)) >= 60


def test_every_engine_is_named() -> None:
    chapters = "\n".join(CHAPTERS.values())
    modules = [path.stem for path in (ROOT / "dpbudget" / "accounting").glob("*.py") if path.stem != "__init__"]
    assert [name for name in modules if not re.search(rf"\b{name}(?:\.py)?[.`:]", chapters)] == []


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_named_test_exists(chapter: str) -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    there = set(re.findall(r"def (test_\w+)", sources))
    for name in re.findall(r"`(test_[\w*]+)`", CHAPTERS[chapter]):
        pattern = re.compile(name.replace("*", r"\w*"))
        assert any(pattern.fullmatch(test) for test in there), f"{chapter} names {name}, and no test is called so"


def test_every_cited_paper_stands_in_the_document() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "dpbudget" / "accounting").glob("*.py"))
    cited = set(re.findall(r"arXiv:(\d{4}\.\d{4,5})", code))
    assert len(cited) > 20
    assert sorted(cited - set(re.findall(r"arXiv:(\d{4}\.\d{4,5})", TEXT))) == []


def test_every_accountant_has_a_section() -> None:
    headings = "\n".join(line for line in TEXT.splitlines() if line.startswith("## "))
    assert [name for name in account.ACCOUNTANTS if f"`{name}`" not in headings] == []


def test_every_document_that_is_pointed_to_exists() -> None:
    for path in [*(ROOT / "dpbudget").rglob("*.py"), *DOCS.glob("*.md")]:
        for name in re.findall(r"docs/([\w-]+\.md)", path.read_text()):
            assert (DOCS / name).exists(), f"{path.relative_to(ROOT)} points to docs/{name}"
    for path in DOCS.glob("*.md"):
        for name in re.findall(r"\]\(([\w./-]+?\.md)(?:#[\w-]*)?\)", path.read_text()):
            assert (DOCS / name).exists(), f"docs/{path.name} links to {name}"


def test_numbers_in_prose() -> None:
    """What the examples say of rules of thumb, which no command prints."""
    text = (DOCS / "examples.md").read_text()
    root = math.sqrt(2 * math.log(1e5))
    imaging, hospitals, single = root * math.sqrt(14100) / 1.1, root * math.sqrt(50 / 8) / 0.4, root / 100
    assert f"{imaging:.0f} in place of 2.39" in text and f"front {imaging * 256 / 60000:.2f}" in text
    assert f"noise: {hospitals:.1f}" in text and f"{single:.3f}" in text
    assert f"the truth is {gaussian.epsilon(1e-5, 100.0):.4f}" in text
    ratio = gaussian.classical_sigma(0.5, 1e-5).sigma / gaussian.sigma(0.5, 1e-5)
    assert f"{100 * (ratio - 1):.0f} % too much" in text
    assert gaussian.classical_sigma(8.4, 1e-5).sigma > gaussian.sigma(8.4, 1e-5)
    assert gaussian.classical_sigma(8.5, 1e-5).sigma < gaussian.sigma(8.5, 1e-5)


# --- pairs ----------------------------------------------------------------------------------------------------------

YS = np.array([0.05, 0.3, 0.7, 0.95, 1.0, 1.1, 1.6, 3.0, 8.0])
ERROR = 2e-5  # trapezoid sums of a function with a kink on the grids below; a wrong pair is off by 1e-2


def plane(sigma: float, reach: float = 9.0, size: int = 700) -> tuple[Array, Array, float]:
    x = np.linspace(-reach * sigma, reach * sigma, size)
    return x[:, None], x[None, :], (x[1] - x[0]) ** 2


def bump(sigma: float, centre: tuple[float, float], grid: tuple[Array, Array, float]) -> Array:
    x, y, cell = grid
    return np.exp(-((x - centre[0]) ** 2 + (y - centre[1]) ** 2) / (2 * sigma**2)) * cell / (2 * np.pi * sigma**2)


def sticks(p: Array, q: Array) -> Array:
    return np.array([np.maximum(p - y * q, 0.0).sum() for y in YS])


def of_pair(pair: Pair) -> Array:
    """Hockey sticks at YS by a fine sum over x."""
    x = np.linspace(*pair.support(-60.0), 60_001)
    p = np.exp(pair.log_p(x)) * (x[1] - x[0])
    return sticks(p, p * np.exp(-pair.loss(x)))


@pytest.mark.parametrize("q", [0.05, 0.4])
def test_replace_one_pair_covers_other_gradients(q: float) -> None:
    sigma, grid = 0.9, plane(0.9)
    centre = (1 - q) * bump(sigma, (0, 0), grid)
    top = of_pair(replace_pairs.SampledGaussianReplace(sigma, q))
    attained = sticks(centre + q * bump(sigma, (1, 0), grid), centre + q * bump(sigma, (-1, 0), grid))
    np.testing.assert_allclose(attained, top, atol=ERROR)
    for b, other in [
        ((1, 0), (0, 1)),
        ((1, 0), (0, 0)),
        ((0, 0), (1, 0)),
        ((0.8, 0.6), (-0.3, 0.2)),
        ((0.2, 0), (-1, 0)),
    ]:
        p, r = centre + q * bump(sigma, b, grid), centre + q * bump(sigma, other, grid)
        assert np.all(sticks(p, r) <= top + ERROR)


@pytest.mark.parametrize("q", [0.1, 0.5])
def test_group_pair_covers_other_gradients(q: float) -> None:
    sigma, grid = 1.0, plane(1.0)
    remove = of_pair(gaussian_pairs.GroupRemove(sigma, q, 2))
    add = of_pair(gaussian_pairs.GroupAdd(sigma, q, 2))
    absent = bump(sigma, (0, 0), grid)
    for angle in (0.0, 0.5, 1.6, 2.6, math.pi):
        second = (math.cos(angle), math.sin(angle))
        both = (1 + second[0], second[1])
        alone = bump(sigma, (1, 0), grid) + bump(sigma, second, grid)
        present = (1 - q) ** 2 * absent + q * (1 - q) * alone + q * q * bump(sigma, both, grid)
        assert np.all(sticks(present, absent) <= remove + ERROR)
        assert np.all(sticks(absent, present) <= add + ERROR)
        if angle == 0.0:
            np.testing.assert_allclose(sticks(present, absent), remove, atol=ERROR)
            np.testing.assert_allclose(sticks(absent, present), add, atol=ERROR)


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE])
def test_zcdp_covers_laplace_under_replace_one(adjacency: Adjacency) -> None:
    """A replaced record moves a Laplace release twice as far: four times the rho."""
    ledger = Ledger.of([Release(Laplace(5.0), 100)], adjacency)
    truth = account.epsilon(ledger, 1e-5).value.lower
    bound = account.epsilon(ledger, 1e-5, accountant="zcdp").value.upper
    assert truth is not None and bound is not None and truth <= bound <= 1.5 * truth


@pytest.mark.parametrize(
    ("begun", "same"),
    [
        (SampledGaussian(0.5, 0.01, Sampling.SHUFFLE), SampledGaussian(0.5, 0.01, Sampling.FIXED_SIZE)),
        (SampledGaussian(0.5, 0.01, Sampling.BALLS_IN_BINS), SampledGaussian(0.5, 0.01)),
    ],
    ids=["shuffle", "balls-in-bins"],
)
def test_an_epoch_that_was_begun_proves_nothing_below(begun: SampledGaussian, same: SampledGaussian) -> None:
    """The first batch of a shuffled epoch is a fixed-size batch, the first of the bins a Poisson one."""
    run, batch = (
        account.epsilon(Ledger.of([Release(mechanism, 1)], Adjacency.ZERO_OUT), 1e-4).value
        for mechanism in (begun, same)
    )
    assert run.lower is not None and batch.upper is not None and run.upper is not None and batch.lower is not None
    assert run.lower <= batch.upper and batch.lower <= run.upper


@pytest.mark.parametrize("sampling", [Sampling.SHUFFLE, Sampling.BALLS_IN_BINS])
def test_two_unfinished_epochs_are_not_one(sampling: Sampling) -> None:
    """Two runs of 101 batches of 1/100 begin four epochs, one of 202 batches begins three."""
    run = SampledGaussian(1.0, 0.01, sampling)
    with pytest.raises(InputError, match="unfinished"):
        Ledger.of([Release(run, 101), Release(run, 101)], Adjacency.ZERO_OUT)
    twice = "\n".join(
        ("[[release]]", 'name = "a"', 'mechanism = "dp-sgd"', "noise_multiplier = 1", "sampling_rate = 0.01", "steps = 101",
         f'sampling = "{sampling}"', "count = 2")
    )  # fmt: skip
    head = 'schema = 1\n[budget]\nepsilon = 9\ndelta = 1e-5\nadjacency = "zero-out"\nunit = "example"\n'
    with pytest.raises(BudgetFileError, match="unfinished"):
        reading.load(head + twice, filename="budget.toml")
    whole = Ledger.of([Release(run, 100), Release(run, 200)], Adjacency.ZERO_OUT)
    assert whole.counts == ((run, 300),)


def test_a_largest_batch_is_no_poisson_sampling() -> None:
    """Two records, batches of one, the other record opposite: 1/2 N(1) + 1/2 N(-1) against N(-1), at distance 2."""
    run = SampledGaussian(1.0, 0.999, max_batch=1, dataset_size=2)
    ledger = Ledger.of([Release(run)], Adjacency.ADD_OR_REMOVE_ONE)
    truth = closed_form.epsilon_interval(gaussian_pairs.SampledGaussianRemove(0.5, 0.49), 1e-5)[0]
    plain = account.epsilon(Ledger.of([Release(Gaussian(1.0))], Adjacency.ADD_OR_REMOVE_ONE), 1e-5).value.upper
    upper = account.epsilon(ledger, 1e-5).value.upper
    assert upper is not None and plain is not None and plain < truth <= upper
    for name in ("basic", "strong", "kov", "kov-exact", "moments", "gdp-clt", "rule-of-thumb"):
        with pytest.raises(InputError):
            account.epsilon(ledger, 1e-5, accountant=name)
    always = Ledger.of([Release(SampledGaussian(1.0, 1.0, max_batch=1, dataset_size=2))], Adjacency.ADD_OR_REMOVE_ONE)
    with pytest.raises(InputError):
        account.epsilon(always, 1e-5)


# --- measures -------------------------------------------------------------------------------------------------------


def stick(loss: Array, mass: Array, infinite: float, y: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.maximum(mass - y * mass * np.exp(-loss), 0.0).sum()) + infinite


def profile_of_remove(sigma: float, q: float, y: float) -> float:
    if y <= 1 - q:
        return 1 - y
    start = sigma**2 * math.log((y - 1 + q) / q) + 0.5
    return float((1 - q - y) * ndtr(-start / sigma) + q * ndtr((1 - start) / sigma))


@pytest.mark.parametrize(
    ("sigma", "q", "step"), [(1.0, 0.1, 0.3), (0.6, 0.01, 0.05), (3.0, 0.5, 0.02), (0.5, 1.0, 1.0)]
)
def test_lattice_measures_enclose_the_profile(sigma: float, q: float, step: float) -> None:
    found = discretise(gaussian_pairs.SampledGaussianRemove(sigma, q), step, -60.0)
    ys = np.concatenate(
        [[0.0], np.exp(np.random.default_rng(1).uniform(-1.0, 6.0, 300)), np.exp(found.upper.losses[::7])]
    )
    gaps = []
    for y in ys[ys < 1e4]:
        truth = profile_of_remove(sigma, q, float(y))
        upper = stick(found.upper.losses, found.upper.mass, found.upper.infinite, y)
        lower = stick(found.lower.losses, found.lower.mass, found.lower.infinite, y)
        assert lower <= truth + 1e-14 and upper >= truth - 1e-14  # round-off of sums of numbers up to 1
        gaps.append(upper - lower)
    assert max(gaps) < 0.1  # of second order in the step: not merely the trivial measures


def pairwise(a: tuple[Array, Array, float], b: tuple[Array, Array, float]) -> tuple[Array, Array, float]:
    loss = (a[0][:, None] + b[0]).ravel()
    mass = (a[1][:, None] * b[1]).ravel()
    total = (a[1].sum() + a[2]) * (b[1].sum() + b[2])
    return loss, mass, float(total - mass.sum())


def test_replacement_needs_no_normalisation() -> None:
    """Products of unlike lower measures, whose masses do not add up to 1, stay below; those of upper ones above."""
    rng = np.random.default_rng(7)
    for _ in range(60):
        exact, low, high = [], [], []
        for _ in range(2):
            loss, p = rng.uniform(-1.5, 2.0, 3), rng.dirichlet(np.ones(4))
            q_mass = float(p[:3] @ np.exp(-loss))
            loss = loss + max(0.0, math.log(q_mass))  # a true pair: Q has mass at most 1
            pair = AtomicPair(tuple(zip(loss.tolist(), p[:3].tolist(), strict=True)), float(p[3]))
            found = discretise(pair, 0.4, -60.0)
            exact.append((loss, p[:3], float(p[3])))
            sides: list[tuple[list, LatticeMeasure]] = [(low, found.lower), (high, found.upper)]
            for side, measure in sides:
                side.append((measure.losses, measure.mass, measure.infinite))
        for y in (0.0, 0.2, 0.9, 1.0, 1.7, 6.0, 40.0):
            truth = stick(*pairwise(*exact), y)
            assert stick(*pairwise(*low), y) <= truth + 1e-14
            assert stick(*pairwise(*high), y) >= truth - 1e-14


def test_quadrature_orders_of_the_lattice() -> None:
    """docs/math.md 7.3: the remainder of m points stays below what is counted, up to 15 standard deviations."""
    previous = 0.0
    for bound, order in _ORDERS:
        width = min(bound, 1.0) / 2  # in standard deviations, the widest panel of this order
        constant = math.factorial(order) ** 4 / ((2 * order + 1) * math.factorial(2 * order) ** 3)
        for z in np.linspace(0.0, 15.0, 31):
            remainder = width ** (2 * order) * constant * (z + math.sqrt(2 * order)) ** (2 * order)
            assert remainder <= ROUND * (24 + z * z)
        assert bound > previous
        previous = bound
    laplace = SampledLaplaceRemove(2.0)
    assert laplace.panel <= laplace.scale / 2


def long_fft(x: Array) -> Array:
    """The transform in extended precision, by recursion on halves; accurate to its own round-off, x of size 2^k."""
    n = x.shape[-1]
    if n == 1:
        return x.astype(np.clongdouble)
    even, odd = long_fft(x[..., ::2]), long_fft(x[..., 1::2])
    angle = -2 * np.arctan2(np.longdouble(0), np.longdouble(-1)) * np.arange(n // 2) / np.longdouble(n)
    turned = (np.cos(angle) + 1j * np.sin(angle)) * odd
    return np.concatenate([even + turned, even - turned], axis=-1)


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 2e-18, reason="long double is no wider than double here")
@pytest.mark.parametrize("bits", [2, 5, 9, 12])
def test_fft_assumption(bits: int) -> None:
    """Entrywise error of both transforms at most KAPPA u log2(N) |x|_1; a tenth of it is what is seen."""
    from scipy.fft import irfft, rfft

    n = 2**bits
    rng = np.random.default_rng(bits)
    spike = np.zeros(n)
    spike[n // 3] = 1.0
    for x in (rng.random(n), rng.random(n) ** 20, np.exp(-np.arange(n) / 3.0), spike):
        exact = long_fft(x.astype(np.longdouble))
        error = np.abs(rfft(x) - exact[: n // 2 + 1]).max()
        assert error <= 0.2 * KAPPA * ROUND * bits * x.sum()
        z = rfft(x) ** 3
        whole = np.concatenate([z, np.conj(z[1:-1][::-1])])
        back = np.conj(long_fft(np.conj(whole).astype(np.clongdouble))).real / n
        assert np.abs(irfft(z, n) - back).max() <= 0.2 * KAPPA * ROUND * bits * np.abs(whole).sum() / n


# --- the filter -----------------------------------------------------------------------------------------------------


def response(epsilon: float) -> tuple[Array, Array]:
    p = np.array([1.0, math.exp(-epsilon)]) / (1 + math.exp(-epsilon))
    return p, p[::-1]


def renyi(epsilon: float, alpha: float) -> float:
    p, q = response(epsilon)
    return math.log(float(np.sum(p**alpha * q ** (1 - alpha)))) / (alpha - 1)


def afforded(first: float, budget: float, delta: float) -> float:
    """The largest second epsilon on a grid that the rule of the filter lets through after the first."""
    releases = [Release(PureDP(first))]

    def total(second: float) -> float:
        ledger = Ledger.of([*releases, Release(PureDP(second))], Adjacency.ADD_OR_REMOVE_ONE)
        upper = filter.epsilon(ledger, budget, delta).value.upper
        assert upper is not None
        return upper

    return max(float(e) for e in np.linspace(0.05, 6.0, 120) if total(float(e)) <= budget)


@pytest.mark.parametrize("budget", [1.0, 3.0])
def test_filter_holds_for_an_adaptive_choice(budget: float) -> None:
    """The second release, or its absence, depends on the output of the first; exact laws of the whole."""
    delta = 1e-3
    alpha = filter.order(budget, delta)
    for first in (0.2, 0.5):
        room = budget - filter.conversion(alpha, delta / 2)
        most = afforded(first, budget, delta)
        assert most > 0.1
        for choice in product([0.0, most / 2, most], repeat=2):  # the second epsilon after each output
            p, q = response(first)
            laws = [response(e) for e in choice]
            whole = np.concatenate([p[i] * laws[i][0] for i in (0, 1)])
            other = np.concatenate([q[i] * laws[i][1] for i in (0, 1)])
            assert float(np.maximum(whole - math.exp(budget) * other, 0.0).sum()) <= delta
            if all(renyi(first, alpha) + renyi(e, alpha) <= room for e in choice):  # the theorem at one order
                moment = math.log(float(np.sum(whole**alpha * other ** (1 - alpha)))) / (alpha - 1)
                assert moment <= room * (1 + 1e-12)


def test_filter_costs_more_than_fixed_parameters() -> None:
    ledger = Ledger.of([Release(Gaussian(4.0), 10), Release(PureDP(0.1))], Adjacency.ADD_OR_REMOVE_ONE)
    fixed = account.epsilon(ledger, 1e-5).value.lower
    assert fixed is not None and fixed <= filter.epsilon(ledger, 8.0, 1e-5).value.upper  # type: ignore[operator]
