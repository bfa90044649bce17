"""The exact optimal composition of k equal (epsilon0, 0) steps: a binomial tail, bounded from above.

Kairouz, Oh, Viswanath 2015, arXiv:1311.0776: the worst (epsilon0, delta0)-DP step is randomised response with an
infinite loss of probability delta0, so k of them have total delta 1 - (1 - delta0)^k (1 - S(epsilon)) with

    S(epsilon) = sum_j Binom(k, p; j) (1 - e^(epsilon - (2j - k) epsilon0))_+ ,     p = 1 / (1 + e^-epsilon0).

Thm 3.3 of the paper gives S at the epsilons (k - 2i) epsilon0; the sum is the hockey stick of the same pair at every
epsilon. All terms are positive, so S is computed to a relative error that is known, at a billion steps too (`binomial`).
What is cut off is bounded by Hoeffding and added.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpbudget.accounting.gaussian import ROUND_OFF
from dpbudget.binomial import log_mass
from dpbudget.errors import NotCertified

Array = NDArray[np.float64]


class ResponseTail:
    """S(epsilon) of k randomised responses, sharp where S is about `scale` or more.

    k: >= 1.  epsilon0: in (0, 500].  scale: in (0, 1], the size of S that matters: outcomes of total probability at
    most 5e-16 scale are left out of the window and counted as lost.
    """

    def __init__(self, k: int, epsilon0: float, scale: float) -> None:
        self.k, self.epsilon0, self.scale = k, epsilon0, scale
        log_scale = math.log(scale)
        # Hoeffding: P(|J - kp| >= w) <= 2 e^(-2 w^2 / k), here 2 e^-36 scale < 5e-16 scale.
        width = math.sqrt(k * (36.0 - log_scale) / 2.0) + 2.0
        mean = k * float(expit(epsilon0))
        low, high = max(0, math.floor(mean - width)), min(k, math.ceil(mean + width))
        j = np.arange(low, high + 1, dtype=np.float64)
        log_pmf, error = log_mass(j, k, float(expit(epsilon0)), float(expit(-epsilon0)))
        self.loss: Array = (2.0 * j - k) * epsilon0
        # Probabilities in units of e^shift, so that nothing that matters underflows.
        self.shift = max(log_scale, -600.0)
        with np.errstate(under="ignore"):
            self.mass: Array = np.exp(log_pmf + error - self.shift)
        self.lost = 5e-16 * scale
        self.nudge = 4 * ROUND_OFF * float(np.max(np.abs(self.loss)))

    def upper(self, epsilon: float) -> float:
        """An upper bound on S(epsilon), a relative 1e-13 (k = 1e4) to 1e-9 (k = 1e9) above it."""
        first = int(np.searchsorted(self.loss, epsilon - self.nudge, side="right"))
        with np.errstate(under="ignore"):
            # The losses are rounded; a lower epsilon makes up for it.
            weight = -np.expm1(epsilon - 2 * self.nudge - self.loss[first:])
            total = float(np.dot(self.mass[first:], weight))
        rounding = 1.0 + (weight.size + 64) * ROUND_OFF
        return min(1.0, total * math.exp(self.shift) * rounding + self.lost)

    def least_epsilon(self, target: float) -> float:
        """The least epsilon >= 0 with S(epsilon) <= target, rounded up; target: in (0, 1]."""
        if self.upper(0.0) <= target:
            return 0.0
        low, high = int(np.searchsorted(self.loss, 0.0, side="right")), self.loss.size - 1
        if low > high or self.upper(float(self.loss[high])) > target:
            return self.k * self.epsilon0 * (1 + 4 * ROUND_OFF)
        while low < high:
            middle = (low + high) // 2
            if self.upper(float(self.loss[middle])) <= target:
                high = middle
            else:
                low = middle + 1
        node = float(self.loss[high])
        # Between two nodes S = A - B e^(epsilon - node) exactly.
        with np.errstate(under="ignore"):
            above = float(np.sum(self.mass[high:]))
            tilted = float(np.dot(self.mass[high:], np.exp(node - self.loss[high:])))
        rest = above - target * math.exp(-self.shift)
        if not (rest > 0.0 and tilted > 0.0):
            return node
        root = min(node, max(0.0, node + math.log(rest / tilted)))
        step = 4 * ROUND_OFF
        while root < node and self.upper(root) > target:
            root += step * max(abs(node), self.epsilon0)
            step *= 2.0
        return min(root, node)


def optimal_epsilon(k: int, epsilon0: float, slack: float) -> float:
    """The least epsilon of k (epsilon0, 0)-DP steps at total delta `slack`, rounded up.

    k: >= 0.  epsilon0: >= 0.  slack: any; not positive leaves k epsilon0, exactly 0 being attainable and less not.
    """
    if k == 0 or epsilon0 == 0.0:
        return 0.0 if slack >= 0.0 else math.inf
    plain = k * epsilon0 * (1 + 4 * ROUND_OFF)
    if math.isnan(plain) or math.isnan(slack):
        raise NotCertified("the composition could not be evaluated")
    if slack < 0.0:
        return math.inf
    if slack >= 1.0:
        return 0.0
    # Beyond 500 no response is ever false: P(any) <= k e^-500, and k epsilon0 is the answer to round-off.
    if slack < 1e-305 or epsilon0 > 500.0 or plain < 1e-300:
        return plain
    return min(plain, ResponseTail(k, epsilon0, slack).least_epsilon(slack))


def least_slack(k: int, epsilon0: float, epsilon: float) -> float:
    """The total delta of k (epsilon0, 0)-DP steps at epsilon, rounded up, in [0, 1]."""
    if k == 0 or k * epsilon0 * (1 + 4 * ROUND_OFF) <= epsilon:
        return 0.0
    if not epsilon0 <= 500.0:
        return 1.0
    if epsilon0 < 1e-300:
        return min(1.0, k * epsilon0 * (1 + 1e-9))
    # The third closed form (Thm 3.4) bounds S and tells its size.
    size = math.sqrt(k) * epsilon0
    rest = (epsilon * (1 - 32 * ROUND_OFF) - k * epsilon0 * math.tanh(epsilon0 / 2) * (1 + 32 * ROUND_OFF)) / size
    rest = max(0.0, rest) * (1 - 32 * ROUND_OFF)
    value = min(1.0, math.exp(-0.5 * rest * rest) * (1 + 1e-12) + 5e-324)
    # Look closer until the window is wide enough for what is found in it.
    scale = max(1e-3 * value, 1e-304)
    while True:
        value = min(value, ResponseTail(k, epsilon0, scale).upper(epsilon))
        if value >= scale or scale <= 1e-304:
            return value
        scale = max(scale * scale, 1e-304)
