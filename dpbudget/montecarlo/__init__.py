"""Monte-Carlo checks that do not trust the accountant: nothing here is shared with `dpbudget.accounting`.

`sample_delta` estimates delta at an epsilon with intervals that hold at any sample size; `audit`, `from_scores` and
`from_counts` bound epsilon from below by attacking.
"""

from dpbudget.montecarlo.attack import (
    Attack,
    Canary,
    Mechanism,
    PositionCanary,
    audit,
    convicts,
    from_counts,
    from_scores,
)
from dpbudget.montecarlo.laws import Phase
from dpbudget.montecarlo.sampling import Sampled, agrees, refutes, sample_delta

__all__ = [
    "Attack",
    "Canary",
    "Mechanism",
    "Phase",
    "PositionCanary",
    "Sampled",
    "agrees",
    "audit",
    "convicts",
    "from_counts",
    "from_scores",
    "refutes",
    "sample_delta",
]
