"""One small adapter for each accountant. Every import of another package happens inside `load`, in its own process.

A loaded contender answers (sigma, rate, steps, delta) with (lower, estimate, upper); None where it gives no such number.
"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
import types
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

Answer = tuple[float | None, float | None, float | None]
Ask = Callable[[float, float, int, float], Answer]
Solve = Callable[[float, int, float, float], float]
PRV_EPS_ERROR = 0.01  # what Opacus asks of the same algorithm


@dataclass(frozen=True)
class Contender:
    """One accountant, or one setting of it.

    gives: what kind of answer it is, by its own documentation. setting: what was chosen, defaults otherwise.
    slow: may be asked a part of the questions only, where time is short.
    """

    name: str
    package: str
    gives: str
    setting: str
    load: Callable[[], Ask]
    load_solver: Callable[[], Solve] | None = None
    slow: bool = False

    @property
    def version(self) -> str:
        return version(self.package)


def _dpbudget(tolerance: float) -> Callable[[], Ask]:
    def load() -> Ask:
        from dpbudget.accounting import account
        from dpbudget.model import Adjacency, Release, SampledGaussian

        def ask(sigma: float, rate: float, steps: int, delta: float) -> Answer:
            releases = [Release(SampledGaussian(sigma, rate), steps)]
            ledger = account.Ledger.of(releases, Adjacency.ADD_OR_REMOVE_ONE)
            value = account.epsilon(ledger, delta, accountant="pld", tolerance=tolerance).value
            return value.lower, value.estimate, value.upper

        return ask

    return load


def _dpbudget_sigma(digits: int) -> Callable[[], Solve]:
    def load() -> Solve:
        from dpbudget.accounting import account, solve
        from dpbudget.model import Adjacency, Release, SampledGaussian

        def sigma(rate: float, steps: int, delta: float, epsilon: float) -> float:
            def ledger(value: float) -> account.Ledger:
                return account.Ledger.of([Release(SampledGaussian(value, rate), steps)], Adjacency.ADD_OR_REMOVE_ONE)

            return float(solve.sigma(ledger, solve.Target(epsilon, delta), digits=digits))

        return sigma

    return load


def _google(name: str) -> tuple[Callable[[], Ask], Callable[[], Solve]]:
    def parts() -> tuple[Callable[[], Any], Callable[[float, float], Any], Any]:
        import dp_accounting
        from dp_accounting import pld, rdp

        def event(sigma: float, rate: float) -> Any:
            return dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))

        return {"pld": pld.PLDAccountant, "rdp": rdp.RdpAccountant}[name], event, dp_accounting

    def load() -> Ask:
        accountant, event, _ = parts()

        def ask(sigma: float, rate: float, steps: int, delta: float) -> Answer:
            return None, None, float(accountant().compose(event(sigma, rate), steps).get_epsilon(delta))

        return ask

    def load_solver() -> Solve:
        accountant, event, dp_accounting = parts()

        def solve(rate: float, steps: int, delta: float, epsilon: float) -> float:
            found = dp_accounting.calibrate_dp_mechanism(
                accountant, lambda s: dp_accounting.SelfComposedDpEvent(event(s, rate), steps), epsilon, delta
            )
            return float(found)

        return solve

    return load, load_solver


def _opake() -> Ask:
    """Through the native module: the Python layer over it can't be imported on every Python, and adds caches only."""
    [path] = Path(sysconfig.get_path("platlib")).glob("opake/**/opake_accounting*.so")
    spec = importlib.util.spec_from_file_location("opake_accounting", path)
    if spec is None or spec.loader is None:
        raise ImportError("opake_accounting")
    native = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(native)
    config = native.DiscretizationConfig()

    def ask(sigma: float, rate: float, steps: int, delta: float) -> Answer:
        step = native.poisson_pld(native.gaussian_pld(sigma, config), rate)
        return None, None, float(step.self_compose(steps).epsilon_at(delta))

    return ask


def _prv() -> Ask:
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    def ask(sigma: float, rate: float, steps: int, delta: float) -> Answer:
        step = PoissonSubsampledGaussianMechanism(sampling_probability=rate, noise_multiplier=sigma)
        accountant = PRVAccountant(
            prvs=step, max_self_compositions=steps, eps_error=PRV_EPS_ERROR, delta_error=delta / 1000
        )
        lower, estimate, upper = accountant.compute_epsilon(delta=delta, num_self_compositions=steps)
        return float(lower), float(estimate), float(upper)

    return ask


def _opacus_accountants() -> Any:
    """Opacus' accountants without the rest of it, which needs PyTorch; they use it in one type annotation only."""
    spec = importlib.util.find_spec("opacus")
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError("No module named 'opacus'")
    package = types.ModuleType("opacus")
    package.__path__ = list(spec.submodule_search_locations)
    optimizers = types.ModuleType("opacus.optimizers")
    optimizers.DPOptimizer = type("DPOptimizer", (), {})  # type: ignore[attr-defined]
    sys.modules.update({"opacus": package, "opacus.optimizers": optimizers})
    import opacus.accountants

    return opacus.accountants


def _opacus(name: str) -> Callable[[], Ask]:
    def load() -> Ask:
        accountants = _opacus_accountants()

        def ask(sigma: float, rate: float, steps: int, delta: float) -> Answer:
            accountant = accountants.create_accountant(name)
            accountant.history = [(sigma, rate, steps)]
            return None, None, float(accountant.get_epsilon(delta=delta))

        return ask

    return load


def _opacus_sigma() -> Solve:
    _opacus_accountants()
    from opacus.accountants.utils import get_noise_multiplier

    def solve(rate: float, steps: int, delta: float, epsilon: float) -> float:
        found = get_noise_multiplier(
            target_epsilon=epsilon, target_delta=delta, sample_rate=rate, steps=steps, accountant="prv"
        )
        return float(found)

    return solve


def _accelerator() -> Ask:
    from dp_accelerator import DPSGDAccountant, compute_epsilon_batch

    orders = DPSGDAccountant(1.0, 1, 2).orders

    def ask(sigma: float, rate: float, steps: int, delta: float) -> Answer:
        return None, None, float(compute_epsilon_batch(rate, sigma, [steps], orders, delta)[0])

    return ask


_PLD, _PLD_SIGMA = _google("pld")
_RDP, _ = _google("rdp")
_INTERVAL = "certified interval and estimate"

OURS, OURS_COARSE, OURS_FINE = "dpbudget", "dpbudget 1e-4", "dpbudget 1e-7"
RIVAL = "dp-accounting PLD"
OPAKE = "opake-accounting"

CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender(OURS, "dpbudget", _INTERVAL, "default tolerance, 1e-5", _dpbudget(1e-5), _dpbudget_sigma(7)),
        Contender(OURS_COARSE, "dpbudget", _INTERVAL, "tolerance 1e-4", _dpbudget(1e-4)),
        Contender(OURS_FINE, "dpbudget", _INTERVAL, "tolerance 1e-7", _dpbudget(1e-7)),
        Contender(RIVAL, "dp-accounting", "upper bound", "default mesh, 1e-4", _PLD, _PLD_SIGMA),
        Contender("dp-accounting RDP", "dp-accounting", "upper bound (RDP)", "default orders", _RDP),
        Contender(OPAKE, "opake-accounting", "upper bound", "default mesh, 1e-4; native module", _opake),
        Contender(
            "prv-accountant",
            "prv-accountant",
            "interval and estimate",
            "eps_error 0.01, delta_error delta / 1000",
            _prv,
            slow=True,
        ),
        Contender(
            "Opacus PRV", "opacus", "upper bound", "defaults (eps_error 0.01)", _opacus("prv"), _opacus_sigma, slow=True
        ),
        Contender("Opacus RDP", "opacus", "upper bound (RDP)", "default orders", _opacus("rdp")),
        Contender("dp-accelerator", "dp-accelerator", "upper bound (RDP)", "its orders", _accelerator),
    )
}
