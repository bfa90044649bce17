"""Which known name was meant by one that is not known: for "did you mean" in every error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

# What other tools, papers and everyday words call it. Offered, never taken silently: the meanings are only near.
SYNONYMS: Mapping[str, str] = {
    # accountants
    "prv": "pld", "fft": "pld", "renyi": "rdp", "rényi": "rdp", "ma": "moments", "advanced": "strong", "naive": "basic",
    "gdp": "gdp-clt", "clt": "gdp-clt",
    # formats
    "md": "markdown", "txt": "text", "number": "value",
    # sampling and data loaders
    "without-replacement": "fixed-size", "wor": "fixed-size", "fixed": "fixed-size", "bernoulli": "poisson",
    "full": "full-batch", "none": "full-batch", "epochs": "shuffle", "bnb": "balls-in-bins",
    "tf": "tf-privacy", "tensorflow": "tf-privacy",
    # neighbours and units
    "substitute": "replace-one", "substitution": "replace-one", "swap": "replace-one", "edit": "replace-one",
    "bounded": "replace-one", "unbounded": "add-or-remove-one", "add-remove": "add-or-remove-one",
    "remove": "add-or-remove-one", "record": "example", "sample": "example", "row": "example", "image": "example",
    "instance": "example", "patient": "user", "person": "user", "individual": "user", "device": "client",
    "institution": "client", "hospital": "client",
    # where noise is added, mechanisms, laws
    "central": "server", "local": "client", "distributed": "shared", "secagg": "shared", "average": "mean",
    "dpsgd": "dp-sgd", "sgd": "dp-sgd", "gauss": "gaussian", "normal": "gaussian", "rr": "randomized-response",
    "constant": "fixed", "done": "spent", "finished": "spent", "past": "spent", "used": "spent", "future": "planned",
    "todo": "planned", "open": "planned",
}  # fmt: skip

PARAMETERS: Mapping[str, str] = {
    "sigma": "noise_multiplier", "noise": "noise_multiplier", "s": "noise_multiplier",
    "noise-scale": "noise_multiplier", "std": "noise_std", "noise-stddev": "noise_std", "q": "sampling_rate",
    "sample-rate": "sampling_rate", "rate": "sampling_rate", "sampling-probability": "sampling_rate",
    "batch": "batch_size", "b": "batch_size", "lot-size": "batch_size", "n": "dataset_size", "size": "dataset_size",
    "records": "dataset_size", "num-examples": "dataset_size", "number-of-examples": "dataset_size", "t": "steps",
    "iterations": "steps", "num-steps": "steps", "num-epochs": "epochs", "c": "clip_norm", "clip": "clip_norm",
    "max-grad-norm": "clip_norm", "l2-norm-clip": "clip_norm", "clipping-norm": "clip_norm", "eps": "epsilon",
    "target-epsilon": "epsilon", "target-delta": "delta", "neighbours": "adjacency", "neighbors": "adjacency",
    "title": "name", "id": "name", "type": "mechanism", "kind": "mechanism", "state": "status", "repeat": "count",
    "times": "count", "b-scale": "scale", "l1-sensitivity": "sensitivity", "l2-sensitivity": "sensitivity",
}  # fmt: skip


VALUE = r"[A-Z0-9](?:[A-Za-z0-9.^/-]*[A-Za-z0-9])?"
OPTION = re.compile(rf"--([a-z][a-z-]*)(?: ({VALUE}))?")


def python_words(hint: str) -> str:
    """A hint that speaks of the command line, in the words of the Python functions.

    >>> python_words("If 256 is a batch size, pass --batch-size 256 --dataset-size N.")
    'If 256 is a batch size, pass batch_size=256, dataset_size=N.'
    >>> python_words("For example: dpbudget gaussian --epsilon 1 --delta 1e-5.")
    'For example: dpbudget.gaussian(epsilon=1, delta=1e-5).'
    """

    def word(match: re.Match[str]) -> str:
        return match[1].replace("-", "_") + (f"={match[2]}" if match[2] else "")

    def call(match: re.Match[str]) -> str:
        return f"dpbudget.{match[1]}({', '.join(word(option) for option in OPTION.finditer(match[2]))})"

    hint = re.sub(rf"dpbudget ([a-z]+)((?: --[a-z-]+ {VALUE})+)", call, hint)
    hint = re.sub(rf"(--[a-z-]+ {VALUE}) (?=--)", r"\1, ", hint)
    return OPTION.sub(word, hint)


def plain(name: str) -> str:
    """The spelling that names have here: lower case, words joined by dashes."""
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def meant(typed: str, known: Iterable[str], synonyms: Mapping[str, str] = SYNONYMS) -> str:
    """The known name that was probably meant: spelled alike, a synonym, begun alike, or nearly alike; else "".

    >>> meant("possion", ["poisson", "fixed-size"]), meant("prv", ["pld", "rdp"]), meant("xyz", ["pld"])
    ('poisson', 'pld', '')
    """
    names = list(known)
    by_spelling = {plain(name): name for name in names}
    wanted = plain(typed[:40])
    if wanted in by_spelling:
        return by_spelling[wanted]
    if synonyms.get(wanted) in names:
        return synonyms[wanted]
    begins = [name for spelling, name in by_spelling.items() if len(wanted) > 1 and spelling.startswith(wanted)]
    close = get_close_matches(wanted, by_spelling, 1, 0.7)
    return begins[0] if begins else by_spelling[close[0]] if close else ""
