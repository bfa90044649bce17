"""Examples in docstrings run, and what a notebook shows of answers and errors."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import traceback

import pytest

import dpbudget
from dpbudget import api
from dpbudget.errors import InputError
from dpbudget.names import python_words

MODULES = sorted(m.name for m in pkgutil.walk_packages(dpbudget.__path__, "dpbudget.") if "__main__" not in m.name)
RUN = {"noise_multiplier": 1.1, "sampling_rate": 0.01, "steps": 1000}


def test_examples_in_docstrings() -> None:
    tried = 0
    for name in ["dpbudget", *MODULES]:
        found = doctest.testmod(importlib.import_module(name))
        assert not found.failed, name
        tried += found.attempted
    assert tried > 20


@pytest.mark.parametrize("name", dpbudget.__all__)
def test_what_is_public_is_documented_with_an_example(name: str) -> None:
    public = getattr(dpbudget, name)
    if not isinstance(public, str):
        assert inspect.getdoc(public)
        if public.__module__ == "dpbudget.api":
            assert ">>>" in (public.__doc__ or "")


def test_answers_show_their_ends_and_nothing_else() -> None:
    spent = dpbudget.epsilon(**RUN, delta=1e-5)
    assert repr(spent) == f"<pld: {spent.lower!r} to {spent.upper!r}>"
    bound = dpbudget.epsilon(**RUN, delta=1e-5, accountant="rdp")
    assert repr(bound) == f"<rdp: at most {bound.upper!r}>"
    guess = dpbudget.epsilon(**RUN, delta=1e-5, accountant="gdp-clt")
    assert repr(guess) == f"<gdp-clt: about {guess.estimate!r}, which proves nothing>"
    assert repr(dpbudget.epsilon(**{**RUN, "noise_multiplier": 0}, delta=1e-5)) == "<pld: unbounded>"
    enough = dpbudget.sigma(epsilon=2, delta=1e-5, sampling_rate=0.01, steps=1000, digits=2)
    assert repr(enough).startswith(f"<{enough.value} by <pld: ") and repr(enough).endswith(
        f"; {enough.beside} was not shown to suffice>"
    )


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: dpbudget.epsilon(delta=1e-5), "Pass sampling_rate=Q, or batch_size=B, dataset_size=N."),
        (lambda: dpbudget.epsilon(**{**RUN, "sampling_rate": 256}, delta=1e-5), "pass batch_size=256, dataset_size=N."),
        (lambda: dpbudget.epsilon(sigma=1, delta=1e-5), "Did you mean noise_multiplier?"),
        (lambda: dpbudget.epsilon(**RUN, delta=1e-5, accountant="prv"), "Did you mean pld?"),
        (lambda: dpbudget.gaussian(epsilon=1), "dpbudget.gaussian(epsilon=1, delta=1e-5)"),
        (lambda: dpbudget.Accountant(adjacency="replace"), "Did you mean replace-one?"),
        (lambda: dpbudget.Accountant().step(1.1, 2), "pass batch_size=2, dataset_size=N."),
        (lambda: dpbudget.Accountant.from_json("{}"), "to_json()"),
    ],
)
def test_errors_tell_the_way_out_below_the_traceback(call, told: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    last = traceback.format_exception(caught.value)[-1]
    assert told in last and "--" not in last


@pytest.mark.parametrize(
    ("solve", "given"),
    [
        (api.sigma, {"sampling_rate": 0.01, "steps": 10, "noise_multiplier": 1}),
        (api.sigma, {"sampling_rate": 0.01, "steps": 10, "noise_std": 1, "clip_norm": 1}),
        (api.steps, {"sampling_rate": 0.01, "steps": 10, "noise_multiplier": 1}),
        (api.steps, {"sampling_rate": 0.01, "epochs": 10, "noise_multiplier": 1}),
        (api.rate, {"sampling_rate": 0.01, "steps": 10, "noise_multiplier": 1}),
        (api.rate, {"batch_size": 10, "dataset_size": 100, "steps": 10, "noise_multiplier": 1}),
    ],
)
def test_what_is_solved_for_can_not_be_given(solve, given: dict[str, object]) -> None:
    with pytest.raises(InputError, match="is what is solved for"):
        solve(epsilon=2, delta=1e-5, **given)


def test_hints_in_python_words() -> None:
    assert python_words("Pass --delta 1e-5, or --dataset-size N for 1/N^1.1.") == (
        "Pass delta=1e-5, or dataset_size=N for 1/N^1.1."
    )
    assert python_words("Use --accountant rdp or pld.") == "Use accountant rdp or pld."
