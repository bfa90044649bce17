"""One Gaussian release: any one of epsilon, delta and noise from the other two."""

from __future__ import annotations

from dpbudget.accounting import gaussian as mechanism
from dpbudget.errors import InputError, NotCertified
from dpbudget.report import Notice, Quantity, Report, Rounding, Table

NOT_PROVEN = "the classical formula sqrt(2 ln(1.25/delta)) / epsilon is proven for epsilon below 1 only"


def gaussian(
    *, epsilon: float | None, delta: float | None, noise_multiplier: float | None, sensitivity: float, given: str
) -> Report:
    """Exact calibration (Balle, Wang 2018) beside the classical one. Exactly one of the three is None.

    `given` names how the noise came ("noise_multiplier" or "noise_std"), for the echo of the input.
    """
    missing = [n for n, v in (("epsilon", epsilon), ("delta", delta), ("noise", noise_multiplier)) if v is None]
    if len(missing) != 1:
        known = [n for n in ("epsilon", "delta", "noise") if n not in missing]
        told = ("none is given", f"{''.join(known)} alone is given", "", "all three are given")[len(known)]
        raise InputError(
            "",
            f"two of epsilon, delta and noise give the third, and {told}",
            hint="For example: dpbudget gaussian --epsilon 1 --delta 1e-5.",
        )
    sought = missing[0]
    echo = {"epsilon": epsilon, "delta": delta, "sensitivity": sensitivity}
    if noise_multiplier is not None:
        echo[given] = noise_multiplier * (sensitivity if given == "noise_std" else 1.0)
        if noise_multiplier == 0:
            raise NotCertified("epsilon is unbounded: no noise is added", hint="Pass a noise above 0.")
    if epsilon is None:
        assert delta is not None and noise_multiplier is not None
        epsilon = mechanism.epsilon(delta, noise_multiplier)
    elif delta is None:
        assert noise_multiplier is not None
        delta = mechanism.delta(epsilon, noise_multiplier)
    else:
        noise_multiplier = mechanism.sigma(epsilon, delta)
    assert noise_multiplier is not None
    noise_std = noise_multiplier * sensitivity
    classical = _classical(epsilon, delta, sensitivity)
    warnings = []
    true_delta = classical["true_delta"]
    if sought == "noise" and true_delta is not None and true_delta > delta:
        warnings.append(
            Notice(
                "classical-unproven",
                f"{NOT_PROVEN}; at epsilon {epsilon:g} its true delta is {true_delta:.3g}, above the {delta:g} asked for",
                "Use the exact noise.",
            )
        )
    up = Rounding.UP  # what is given too: the claim holds for more noise, and at a larger epsilon or delta
    answer = {
        "epsilon": Quantity(epsilon, up),
        "delta": Quantity(delta, up),
        "noise": Quantity(noise_std, up),
    }
    headline = {
        "epsilon": "epsilon <= {0} at delta {1} with noise standard deviation {2}",
        "delta": "delta <= {1} at epsilon {0} with noise standard deviation {2}",
        "noise": "noise standard deviation {2} gives epsilon {0} at delta {1}",
    }[sought]
    rows = [
        ("exact", answer["noise"], Quantity(delta, up), "yes"),
        (
            "classical",
            Quantity(classical["noise_std"], up),
            Quantity(classical["true_delta"], up),
            "yes" if classical["proven"] else "no (epsilon >= 1)" if classical["noise_std"] else "no (epsilon is 0)",
        ),
    ]
    return Report(
        command="gaussian",
        input={k: v for k, v in echo.items() if v is not None},
        assumptions={
            "adjacency": "any: the sensitivity is the largest change between neighbours in L2 norm",
            "sampling": "full-batch",
            "covers": "this release only",
            "not_covered": ["other releases on the same data", "floating-point noise: the Gaussian is taken as ideal"],
        },
        result={
            "epsilon": epsilon,
            "delta": delta,
            "noise_std": noise_std,
            "sensitivity": sensitivity,
            "noise_multiplier": noise_multiplier,
            "classical": classical,
        },
        headline=headline,
        answers=[answer["epsilon"], answer["delta"], answer["noise"]],
        value=answer[sought],
        facts=[
            ("sensitivity", Quantity(sensitivity, Rounding.DOWN), "L2, between neighbours"),
            (
                "noise multiplier",
                Quantity(noise_multiplier, up),
                "noise / sensitivity",
            ),
        ],
        main=Table(("calibration", "noise std", "true delta", "proven"), rows),
        notes=[
            "Assumes: one Gaussian release, without sampling; neighbours differ by at most the sensitivity in L2 norm. "
            "Covers this release only: not other releases on the same data, or floating-point effects of the noise."
        ],
        explanation=[
            "Exact: delta = Phi(D/(2s) - eps s/D) - e^eps Phi(-D/(2s) - eps s/D) for noise s and sensitivity D "
            "(Balle, Wang 2018, arXiv:1805.06530, Theorem 8), solved in log space and rounded to the safe side.",
            f"Classical: {NOT_PROVEN}; above, it may add too little noise, and below it wastes a quarter or more.",
        ],
        warnings=warnings,
    )


def _classical(epsilon: float, delta: float, sensitivity: float) -> dict[str, float | bool | None]:
    if not (epsilon > 0 and 0 < delta < 1):
        return {"noise_std": None, "true_delta": None, "proven": False}
    found = mechanism.classical_sigma(epsilon, delta)
    return {
        "noise_std": found.sigma * sensitivity,
        "true_delta": mechanism.delta(epsilon, found.sigma),
        "proven": found.proven,
    }
