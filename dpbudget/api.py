"""The public functions: the commands' names, pure, typed, and as certified as the commands themselves.

Every function takes the run by keyword, as the command line does: noise_multiplier or noise_std with clip_norm;
sampling_rate, or batch_size with dataset_size; steps or epochs; sampling, adjacency, unit, group_size.
Numbers may be floats, ints, Fractions or decimal texts.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, Unpack

from dpbudget import checks
from dpbudget.accounting import account, solve
from dpbudget.accounting.account import DEFAULT_TOLERANCE, Ledger
from dpbudget.accounting.solve import Solution, Target
from dpbudget.errors import DpbudgetError, InputError, NotCertified
from dpbudget.model import Adjacency, Guarantee, Release, SampledGaussian
from dpbudget.names import python_words
from dpbudget.run import Run, RunParameters, resolve

P = ParamSpec("P")
T = TypeVar("T")


def _told(function: Callable[P, T]) -> Callable[P, T]:
    """The function, with the way out of an error below its traceback, in Python's words."""

    @functools.wraps(function)
    def told(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except DpbudgetError as error:
            if error.hint and not getattr(error, "__notes__", None):
                error.add_note(python_words(error.hint))
            raise

    return told


def _target(epsilon: float, delta: float, accountant: str, tolerance: float) -> Target:
    return Target(checks.epsilon(epsilon), checks.delta(delta), accountant, checks.positive("tolerance", tolerance))


@_told
def epsilon(
    *, delta: float, accountant: str = "pld", tolerance: float = DEFAULT_TOLERANCE, **run: Unpack[RunParameters]
) -> Guarantee:
    """Epsilon of a run at `delta`, as a Guarantee; float(result) is the proven upper end, the guarantee.

    The run, by keyword:
        noise_multiplier, or noise_std with clip_norm (noise_on="mean": noise on the average, with batch_size)
        sampling_rate, or batch_size with dataset_size (devices, accumulate: several such batches to one update)
        steps, or epochs; loader="opacus" or "tf-privacy" counts rate and steps as those tools do
        sampling: "poisson" (default), "fixed-size", "shuffle", "balls-in-bins", "full-batch"
        adjacency: "add-or-remove-one", "replace-one", "zero-out"; the default follows from the sampling
        unit: "example" (default), "client", "user"; group_size: records that one of them owns; max_batch; microbatches
    accountant: "pld" (default, proven from both sides), "rdp", "rdp-classic", "moments", "basic", "strong", "kov",
    "kov-exact", "zcdp", or an estimate: "gdp-clt", "rule-of-thumb".  tolerance: relative width of the interval.

    Raises InputError on a wrong parameter, NotCertified where no bound is reached.

    >>> spent = epsilon(noise_multiplier=1.1, batch_size=256, dataset_size=60000, epochs=60, delta=1e-5)
    >>> round(spent.lower, 5), round(spent.upper, 5)
    (2.38512, 2.38512)
    """
    resolved = resolve(run)
    ledger = Ledger.of(resolved.releases(), resolved.adjacency)
    return account.epsilon(ledger, checks.delta(delta), accountant=accountant, tolerance=tolerance)


@_told
def delta(
    *, epsilon: float, accountant: str = "pld", tolerance: float = DEFAULT_TOLERANCE, **run: Unpack[RunParameters]
) -> Guarantee:
    """Delta of a run at `epsilon`; see `epsilon` for what describes a run.

    >>> round(delta(noise_multiplier=1, sampling_rate=1, steps=1, epsilon=1).upper, 6)
    0.126937
    """
    resolved = resolve(run)
    ledger = Ledger.of(resolved.releases(), resolved.adjacency)
    return account.delta(ledger, checks.epsilon(epsilon), accountant=accountant, tolerance=tolerance)


@_told
def sigma(
    *,
    epsilon: float,
    delta: float,
    accountant: str = "pld",
    tolerance: float = DEFAULT_TOLERANCE,
    digits: int = 5,
    **run: Unpack[RunParameters],
) -> Solution:
    """The least noise multiplier with `digits` significant digits that is proven to give (epsilon, delta).

    float(result) is safe to use; result.beside, one digit less, was not shown to suffice.
    Raises Infeasible where no noise is enough for this accountant. See `epsilon` for what describes a run.

    >>> enough = sigma(epsilon=2, delta=1e-5, sampling_rate=0.01, steps=1000)
    >>> enough.value, enough.beside
    (0.95911, 0.9591)
    """
    resolved = resolve(run, unknown="noise_multiplier")
    target = _target(epsilon, delta, accountant, tolerance)
    return solve.sigma(lambda s: _ledger(resolved, noise_multiplier=s), target, digits=digits)


@_told
def steps(
    *,
    epsilon: float,
    delta: float,
    accountant: str = "pld",
    tolerance: float = DEFAULT_TOLERANCE,
    **run: Unpack[RunParameters],
) -> Solution:
    """The most steps that are proven to give (epsilon, delta). Raises Infeasible where not even one does.

    >>> steps(epsilon=3, delta=1e-5, noise_multiplier=1.1, sampling_rate=0.01).value
    3712
    """
    resolved = resolve(run, unknown="steps")
    _needs_noise(resolved)
    return solve.steps(lambda t: _ledger(resolved, steps=t), _target(epsilon, delta, accountant, tolerance))


@_told
def rate(
    *,
    epsilon: float,
    delta: float,
    accountant: str = "pld",
    tolerance: float = DEFAULT_TOLERANCE,
    digits: int = 5,
    **run: Unpack[RunParameters],
) -> Solution:
    """The largest sampling rate with `digits` significant digits that is proven to give (epsilon, delta).

    >>> rate(epsilon=3, delta=1e-5, noise_multiplier=1.1, steps=10000).value
    0.0061882
    """
    resolved = resolve(run, unknown="sampling_rate")
    _needs_noise(resolved)
    target = _target(epsilon, delta, accountant, tolerance)
    return solve.rate(lambda q: _ledger(resolved, sampling_rate=q), target, digits=digits)


@_told
def gaussian(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_std: float | None = None,
    sensitivity: float = 1.0,
) -> Mapping[str, Any]:
    """One Gaussian release: the missing one of epsilon, delta and noise_std, exactly calibrated.

    Returns epsilon, delta, noise_std, sensitivity, noise_multiplier and the classical calibration beside them.

    >>> round(gaussian(epsilon=1, delta=1e-5, sensitivity=2)["noise_std"], 4)
    7.4613
    """
    from dpbudget.answers import single

    size = checks.positive("sensitivity", sensitivity)
    report = single.gaussian(
        epsilon=None if epsilon is None else checks.epsilon(epsilon),
        delta=None if delta is None else checks.delta(delta),
        noise_multiplier=None if noise_std is None else checks.non_negative("noise_std", noise_std) / size,
        sensitivity=size,
        given="noise_std",
    )
    return report.result


def _ledger(run: Run, **unknown: Any) -> Ledger:
    return Ledger.of(run.releases(**unknown), run.adjacency)


def _needs_noise(run: Run) -> None:
    if run.noise_multiplier == 0:
        raise NotCertified(f"epsilon is unbounded: {account.NO_NOISE}")


class Accountant:
    """Counts the steps of a training loop; asks nothing of numpy until epsilon is asked for.

    Poisson sampling. Noise and rates have to be fixed without looking at earlier outputs.

    >>> accountant = Accountant()
    >>> for _ in range(100):
    ...     accountant.step(noise_multiplier=1.1, sampling_rate=0.01)
    >>> Accountant.from_json(accountant.to_json()).history == accountant.history
    True
    """

    @_told
    def __init__(self, *, adjacency: str = "add-or-remove-one", accountant: str = "pld") -> None:
        account.get(accountant)
        self.adjacency = Adjacency(checks.choice("adjacency", adjacency, Adjacency))
        self.accountant = accountant
        self._counts: dict[tuple[float, float], int] = {}

    def __repr__(self) -> str:
        steps = sum(self._counts.values())
        return f"<Accountant: {steps} {'step' if steps == 1 else 'steps'}, {self.adjacency}, {self.accountant}>"

    @_told
    def step(self, noise_multiplier: float, sampling_rate: float, steps: int = 1) -> None:
        """Note noisy updates. The cost is a dictionary look-up once a pair of values has been seen."""
        key = (noise_multiplier, sampling_rate)
        if key in self._counts and type(steps) is int and steps > 0:
            self._counts[key] += steps
            return
        key = (checks.noise_multiplier(noise_multiplier), checks.sampling_rate(sampling_rate))
        self._counts[key] = self._counts.get(key, 0) + checks.steps(steps)

    @property
    def history(self) -> list[tuple[float, float, int]]:
        """(noise_multiplier, sampling_rate, steps), merged, in the order first seen."""
        return [(sigma, rate, count) for (sigma, rate), count in self._counts.items()]

    def _ledger(self) -> Ledger:
        return Ledger.of((Release(SampledGaussian(s, q), t) for s, q, t in self.history), self.adjacency)

    @_told
    def epsilon(self, delta: float, *, tolerance: float = DEFAULT_TOLERANCE) -> Guarantee:
        """Epsilon of all steps so far. Asking changes nothing."""
        return account.epsilon(self._ledger(), checks.delta(delta), accountant=self.accountant, tolerance=tolerance)

    @_told
    def delta(self, epsilon: float, *, tolerance: float = DEFAULT_TOLERANCE) -> Guarantee:
        """Delta of all steps so far. Asking changes nothing."""
        return account.delta(self._ledger(), checks.epsilon(epsilon), accountant=self.accountant, tolerance=tolerance)

    def to_json(self) -> str:
        """Everything needed to go on later, as one JSON document."""
        return json.dumps(
            {
                "schema": "dpbudget.accountant/1",
                "adjacency": str(self.adjacency),
                "accountant": self.accountant,
                "history": [list(item) for item in self.history],
            },
            allow_nan=False,
        )

    @classmethod
    @_told
    def from_json(cls, text: str) -> Accountant:
        """The accountant that `to_json` saved. Raises InputError on anything else."""
        try:
            data = json.loads(text)
            if data["schema"] != "dpbudget.accountant/1":
                raise KeyError("schema")
            restored = cls(adjacency=data["adjacency"], accountant=data["accountant"])
            entries = [(s, q, t) for s, q, t in data["history"]]
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                "state", f"is no saved accountant: {error}", hint="It is what to_json() returned."
            ) from None
        for sigma, rate, count in entries:
            restored.step(sigma, rate, count)
        return restored
