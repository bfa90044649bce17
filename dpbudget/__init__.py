"""dpbudget: certified privacy budgets for differentially private training.

What a run costs: `epsilon`, `delta`. What a target allows: `sigma`, `steps`, `rate`, `gaussian`. A training loop:
`Accountant`. Attacks on a mechanism of one's own: `audit`, `convicts`. help(dpbudget.epsilon) lists what describes a run.

>>> import dpbudget
>>> spent = dpbudget.epsilon(noise_multiplier=1.1, batch_size=256, dataset_size=60000, epochs=60, delta=1e-5)
>>> 2.385 < spent.lower <= spent.upper < 2.3852
True
>>> float(dpbudget.sigma(epsilon=2, delta=1e-5, batch_size=256, dataset_size=60000, epochs=60))
1.2254

Both ends of an answer are proven; float(answer) is the upper end, the guarantee. A wrong parameter raises
dpbudget.errors.InputError, a target that nothing meets Infeasible, no finite bound NotCertified.
Importing the package loads neither numpy nor scipy; the first question does.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from dpbudget.version import __version__

if TYPE_CHECKING:
    from dpbudget.api import Accountant, delta, epsilon, gaussian, rate, sigma, steps
    from dpbudget.montecarlo import audit, convicts

__all__ = ["Accountant", "__version__", "audit", "convicts", "delta", "epsilon", "gaussian", "rate", "sigma", "steps"]
ATTACKS = ("audit", "convicts")  # bound the epsilon of a mechanism of one's own from below


def __getattr__(name: str) -> Any:
    if name in ATTACKS:
        from dpbudget import montecarlo

        return getattr(montecarlo, name)
    if name in __all__:
        from dpbudget import api

        return getattr(api, name)
    raise AttributeError(f"module 'dpbudget' has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted(__all__)
