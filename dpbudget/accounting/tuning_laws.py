"""How many trials a hyper-parameter search makes: the law of K, drawn before the first run and never revealed.

Every bound on the cost of a search reads the probability generating function phi(x) = E[x^K] through its derivative,
the weight that the best of K runs gives to the quantile x. It is written with w = 1 - x as

    phi'(1 - w) = E[K] e^{-drop(w)},      drop(0) = 0, increasing on [0, 1],

because the bounds live where w is small. drop' = phi''/phi' is `rate`. Where drop has the shape
power * log1p(weight * (probability)), the largest ratio phi'(F) / phi'(F') is the root of one scalar equation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from dpbudget.accounting.pairs import Array
from dpbudget.errors import InputError


class Law(ABC):
    """A law of the number of trials K >= 0, independent of data and runs."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """E[K], the expected number of trials."""

    @property
    def zero(self) -> float:
        """Pr[K = 0], the chance that nothing is run and a symbol for "nothing" is released."""
        return 0.0


class RandomLaw(Law):
    """A law with phi' > 0 on all of [0, 1], so that the ratio of two values of phi' is bounded."""

    @property
    @abstractmethod
    def power(self) -> float:
        """How steep phi' is: it bounds the relative round-off of e^{-drop}, with `depth`."""

    @property
    @abstractmethod
    def steepest(self) -> float:
        """The largest rate: sup of phi''/phi' on [0, 1]."""

    @abstractmethod
    def drop(self, w: Array) -> Array:
        """log phi'(1) - log phi'(1 - w) for w in [0, 1]. Same shape."""

    @abstractmethod
    def rate(self, w: Array) -> Array:
        """phi''(1 - w) / phi'(1 - w), the derivative of drop. Same shape."""

    @abstractmethod
    def inverse_drop(self, level: Array) -> Array:
        """The w with drop(w) = level, for level in [0, depth]. Same shape."""

    @property
    def depth(self) -> float:
        """drop(1) = log phi'(1) / phi'(0)."""
        return float(self.drop(np.array([1.0]))[0])


@dataclass(frozen=True, slots=True)
class Fixed(Law):
    """Exactly `trials` runs. phi'(0) = 0 from two trials on: only composition bounds the cost."""

    trials: int

    def __post_init__(self) -> None:
        if not (1 <= self.trials <= 10**9) or self.trials != int(self.trials):
            raise InputError("trials", f"{self.trials} is not a whole number of trials >= 1")

    @property
    def mean(self) -> float:
        return float(self.trials)


@dataclass(frozen=True, slots=True)
class Poisson(RandomLaw):
    """K ~ Poisson(expected): phi'(x) = expected e^{-expected (1 - x)}. K = 0 has probability e^{-expected}."""

    expected: float

    def __post_init__(self) -> None:
        if not (0.0 < self.expected <= 1e12):
            raise InputError("trials", f"{self.expected} is not an expected number of trials in (0, 1e12]")

    @property
    def mean(self) -> float:
        return self.expected

    @property
    def zero(self) -> float:
        return math.exp(-self.expected)

    @property
    def power(self) -> float:
        return 1.0

    @property
    def steepest(self) -> float:
        return self.expected

    def drop(self, w: Array) -> Array:
        return self.expected * w

    def rate(self, w: Array) -> Array:
        return np.full_like(w, self.expected)

    def inverse_drop(self, level: Array) -> Array:
        return level / self.expected


@dataclass(frozen=True, slots=True)
class Binomial(RandomLaw):
    """K ~ Binomial(most, chance): phi'(x) = E[K] (1 - chance (1 - x))^{most - 1}. A coin decides each of `most` runs."""

    most: int
    chance: float

    def __post_init__(self) -> None:
        if not (1 <= self.most <= 10**9) or self.most != int(self.most):
            raise InputError("trials", f"{self.most} is not a whole number of trials >= 1")
        if not (0.0 < self.chance < 1.0):
            raise InputError(
                "trials",
                f"each of {self.most} trials has a chance of {self.chance}, which is not in (0, 1)",
                hint="Let the expected number be below the largest one, or take a fixed number of trials.",
            )

    @classmethod
    def expecting(cls, mean: float, most: int) -> Binomial:
        """The law with this E[K] among `most` possible trials."""
        return cls(most, mean / most if most > 0 else math.nan)

    @property
    def mean(self) -> float:
        return self.most * self.chance

    @property
    def zero(self) -> float:
        return math.exp(self.most * math.log1p(-self.chance))

    @property
    def power(self) -> float:
        return self.most - 1.0

    @property
    def weight(self) -> float:
        return self.chance / (1.0 - self.chance)

    @property
    def steepest(self) -> float:
        return self.power * self.weight

    def drop(self, w: Array) -> Array:
        return -self.power * np.log1p(-self.chance * w)

    def rate(self, w: Array) -> Array:
        return self.power * self.chance / (1.0 - self.chance * w)

    def inverse_drop(self, level: Array) -> Array:
        return np.minimum(-np.expm1(-level / self.power) / self.chance, 1.0)


@dataclass(frozen=True, slots=True)
class TruncatedNegativeBinomial(RandomLaw):
    """K >= 1 with phi'(x) = E[K] (1 + weight (1 - x))^{-(eta + 1)}, weight = (1 - gamma) / gamma.

    eta > -1; eta = 1 is geometric, eta = 0 logarithmic.  gamma in (0, 1]; 1 is one trial for certain.
    Source: Papernot, Steinke 2022, arXiv:2110.03620, Def. 1; E[K] = eta (1 - gamma) / (gamma (1 - gamma^eta)).
    """

    eta: float
    gamma: float

    def __post_init__(self) -> None:
        if not (-1.0 < self.eta <= 1e6):
            raise InputError("eta", f"{self.eta} is not in (-1, 1e6]")
        if not (1e-300 <= self.gamma <= 1.0):
            raise InputError("gamma", f"{self.gamma} is not in [1e-300, 1]")

    @classmethod
    def expecting(cls, mean: float, eta: float) -> TruncatedNegativeBinomial:
        """The law with this E[K] >= 1, by bisection on log(1 / gamma). Raises InputError where gamma underflows."""
        if not (1.0 <= mean <= 1e12):
            raise InputError("trials", f"{mean} is not an expected number of trials in [1, 1e12]")
        if eta == 1.0:
            return cls(eta, 1.0 / mean)
        if not (-1.0 < eta <= 1e6):
            raise InputError("eta", f"{eta} is not in (-1, 1e6]")
        low, high = 0.0, 690.0
        if _negative_binomial_mean(high, eta) < mean:
            raise InputError(
                "eta", f"{eta} is too close to -1 for {mean:g} expected trials", hint="Take a larger eta, such as 0."
            )
        while high - low > 1e-15 * high:
            middle = (low + high) / 2
            if not low < middle < high:
                break
            if _negative_binomial_mean(middle, eta) < mean:
                low = middle
            else:
                high = middle
        return cls(eta, math.exp(-high))

    @property
    def mean(self) -> float:
        return _negative_binomial_mean(self.log_inverse, self.eta)

    @property
    def log_inverse(self) -> float:
        """log(1 / gamma)."""
        return -math.log(self.gamma)

    @property
    def power(self) -> float:
        return self.eta + 1.0

    @property
    def weight(self) -> float:
        return (1.0 - self.gamma) / self.gamma

    @property
    def steepest(self) -> float:
        return self.power * self.weight

    def drop(self, w: Array) -> Array:
        return self.power * np.log1p(self.weight * w)

    def rate(self, w: Array) -> Array:
        return self.power * self.weight / (1.0 + self.weight * w)

    def inverse_drop(self, level: Array) -> Array:
        return np.minimum(np.expm1(level / self.power) / self.weight, 1.0)


def _negative_binomial_mean(log_inverse: float, eta: float) -> float:
    """E[K] = (e^L - 1) / L * z / (1 - e^{-z}) with L = log(1 / gamma) and z = eta L; no cancellation at eta = 0."""
    z = eta * log_inverse
    if log_inverse == 0.0:
        return 1.0
    spread = z / -math.expm1(-z) if z != 0.0 else 1.0
    return math.expm1(log_inverse) / log_inverse * spread


def Geometric(mean: float) -> TruncatedNegativeBinomial:
    """Stop after each trial with probability 1 / mean: E[K] = mean >= 1."""
    return TruncatedNegativeBinomial.expecting(mean, 1.0)


def Logarithmic(mean: float) -> TruncatedNegativeBinomial:
    """The truncated negative binomial law with eta = 0 and E[K] = mean >= 1."""
    return TruncatedNegativeBinomial.expecting(mean, 0.0)
