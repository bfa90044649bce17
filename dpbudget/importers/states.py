"""Releases from Opacus and Flower accountant states.

Files are untrusted: nothing in them is executed, and each ends in an ImportedState or an InputError.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dpbudget import checks
from dpbudget.budgetfile.document import one_line
from dpbudget.budgetfile.values import Decimal, Value, finite
from dpbudget.errors import InputError
from dpbudget.importers.imported import (
    CLIPPING_NORM,
    READINGS,
    SAYS,
    SENSITIVITY,
    ImportedState,
    entry,
    limited,
    read_json,
    shown,
    unreadable,
)
from dpbudget.importers.safepickle import Opaque, load_checkpoint, numpy_scalar
from dpbudget.model import Adjacency, Sampling


def opacus(path: str | os.PathLike[str]) -> ImportedState:
    """The history in an Opacus accountant state (JSON) or a checkpoint of PrivacyEngine.save_checkpoint (.pt).

    Raises InputError where the file holds no history that can be read.
    """
    file = Path(path)
    state = next((found for root in _roots(file) if (found := _with_history(root)) is not None), None)
    if state is None:
        raise InputError(
            "",
            f"{shown(file)} holds no accountant state with a history",
            hint="Save privacy_engine.accountant.state_dict(), as JSON or in a checkpoint.",
        )
    history = _plain(state["history"])
    if not isinstance(history, list | tuple) or not history:
        raise InputError("", f"{shown(file)}: the history is empty")
    entries = []
    for number, row in enumerate(limited(history, file), 1):
        where = f"{shown(file)}: history entry {number}"
        if not isinstance(row, list | tuple) or len(row) != 3:
            raise InputError("", f"{where} is not (noise multiplier, sampling rate, steps)")
        noise, rate, steps = (_scalar(value, where) for value in row)
        values = {"noise_multiplier": noise, "sampling_rate": rate, "steps": steps, "sampling": "poisson"}
        entries.append(entry("opacus", number, values, where))
    return ImportedState(
        tool="Opacus",
        entries=tuple(entries),
        adjacency=Adjacency.ADD_OR_REMOVE_ONE,
        sampling=Sampling.POISSON,
        accountant=_mechanism(state.get("mechanism")),
        notes=(
            "The state does not say how batches were drawn; Poisson sampling is assumed, which is what Opacus does "
            "unless poisson_sampling=False was passed.",
            "The state does not hold delta.",
        ),
    )


def flower(path: str | os.PathLike[str], *, noise_relative_to: str = CLIPPING_NORM) -> ImportedState:
    """The compositions in a Flower RdpAccountant.state_dict() written as JSON.

    noise_relative_to matters under replace-one, where a record moves the sum by up to twice the clipping norm C:
    "clipping-norm" reads a multiplier z as noise z C, as everywhere in dpbudget; "sensitivity" as 2 z C, which is what
    Flower's own epsilon supposes. Raises InputError on anything that is not such a state.
    """
    if noise_relative_to not in READINGS:
        raise InputError("noise_relative_to", f"{noise_relative_to!r} is not one of {', '.join(READINGS)}")
    file = Path(path)
    state = _mapping(_json(file), f"{shown(file)}: the state")
    if (version := state.get("schema_version")) != 1 or isinstance(version, bool):
        raise InputError("", f"{shown(file)}: schema_version is not 1, the only one that is known")
    config = _mapping(state.get("config"), f"{shown(file)}: config")
    adjacency, sampling = _flower_setting(config, shown(file))
    factor = 2 if adjacency is Adjacency.REPLACE_ONE and noise_relative_to == SENSITIVITY else 1
    compositions = state.get("compositions")
    if not isinstance(compositions, list) or not compositions:
        raise InputError("", f"{shown(file)}: there are no compositions")
    entries = []
    for number, row in enumerate(limited(compositions, file), 1):
        where = f"{shown(file)}: composition {number}"
        composition = _mapping(row, where)
        event = _mapping(composition.get("event"), f"{where}: event")
        noise = _scalar(event.get("noise_multiplier"), f"{where}: noise_multiplier")
        values: dict[str, Value] = {
            "noise_multiplier": noise if factor == 1 else float(finite("noise_multiplier", noise)) * 2
        }
        if sampling is Sampling.FULL_BATCH:
            values["sampling_rate"] = 1
        else:
            values["batch_size"] = _scalar(event.get("sample_size"), f"{where}: sample_size")
            values["dataset_size"] = _scalar(event.get("population_size"), f"{where}: population_size")
        values |= {"steps": _scalar(composition.get("count"), f"{where}: count"), "sampling": str(sampling)}
        entries.append(entry("flower", number, values, where))
    return ImportedState(
        tool="Flower",
        entries=tuple(entries),
        adjacency=adjacency,
        sampling=sampling,
        unit="client",
        accountant=_mechanism(state.get("backend")),
        delta=_optional(config, "target_delta", file, checks.delta),
        max_epsilon=_optional(config, "max_epsilon", file, checks.epsilon),
        noise_relative_to=noise_relative_to,
        notes=_flower_notes(adjacency, sampling, noise_relative_to),
    )


FLOWER_SAMPLING: Mapping[str, Sampling] = {
    "poisson": Sampling.POISSON,
    "without-replacement": Sampling.FIXED_SIZE,
    "no-amplification": Sampling.FULL_BATCH,
}


def _flower_setting(config: Mapping[str, Any], shown: str) -> tuple[Adjacency, Sampling]:
    relation, method = config.get("neighboring_relation"), config.get("sampling_method")
    if relation not in (Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE):
        raise InputError("", f'{shown}: neighboring_relation is neither "add-or-remove-one" nor "replace-one"')
    if not isinstance(method, str) or method not in FLOWER_SAMPLING:
        raise InputError("", f"{shown}: sampling_method is not one of {', '.join(FLOWER_SAMPLING)}")
    sampling, adjacency = FLOWER_SAMPLING[method], Adjacency(relation)
    if sampling is Sampling.FIXED_SIZE and adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        raise InputError("", f"{shown}: sampling without replacement has no guarantee under add-or-remove-one")
    return adjacency, sampling


def _flower_notes(adjacency: Adjacency, sampling: Sampling, reading: str) -> tuple[str, ...]:
    notes = ["The unit of protection is the client."]
    if sampling is Sampling.FULL_BATCH:
        notes.append("The sample sizes are ignored, as the state asks: every client may be in every round.")
    if adjacency is Adjacency.REPLACE_ONE and reading == CLIPPING_NORM:
        notes.append(
            "The noise multipliers are read relative to the clipping norm. Flower's own epsilon reads them relative to "
            "the replace-one sensitivity, twice the clipping norm, and is therefore lower: --noise-relative-to "
            "sensitivity if the noise was really that large."
        )
    elif adjacency is Adjacency.REPLACE_ONE:
        notes.append("The noise multipliers are read relative to twice the clipping norm, and written doubled.")
    return tuple(notes)


def _roots(path: Path) -> Iterator[object]:
    """The top-level objects of a file: one of JSON, one or more of a checkpoint."""
    try:
        with path.open("rb") as stream:
            start = stream.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if start.startswith((b"{", b"[")):
        yield _json(path)
    else:
        yield from load_checkpoint(path)


def _json(path: Path) -> Any:
    way_out = f"For a CSV: dpbudget import csv {shown(path)}." if path.suffix == ".csv" else ""
    return read_json(path, number=Decimal, constant=Decimal, hint=way_out)


def _plain(value: object) -> object:
    """The items of something that behaves like a dict, the value itself otherwise."""
    return value.items if isinstance(value, Opaque) and value.items else value


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError("", f"{where} is missing, or is not an object")
    return value


def _with_history(root: object) -> dict[Any, Any] | None:
    """The nearest mapping with a `history`: a state_dict, the one in a checkpoint, or a pickled accountant."""
    queue, seen = deque([root]), set[int]()
    while queue:
        value = queue.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Opaque):
            queue += [value.items, value.state]
        elif isinstance(value, dict):
            if "history" in value:
                return value
            queue += value.values()
    return None


def _mechanism(value: object) -> str | None:
    """ "rdp", "prv", "gdp". Older versions of Opacus save the method that returns the name: its class tells."""
    if isinstance(value, str):
        return value if value in SAYS else None
    if isinstance(value, Opaque) and isinstance(value.args, tuple):
        names = [part.name.split(".") for part in value.args if isinstance(part, Opaque)]
        return next(
            (name[2] for name in names if name[:2] == ["opacus", "accountants"] and name[2:3] and name[2] in SAYS), None
        )
    return None


def _scalar(value: object, where: str) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if isinstance(value, Opaque):
        if (number := numpy_scalar(value)) is not None:
            return number
        raise InputError("", f"{where} holds a {one_line(value.name[:60])}", hint="Save it after float(...).")
    raise InputError("", f"{where} is missing, or is not a number")


def _optional(config: Mapping[str, Any], key: str, path: Path, check: Any) -> float | None:
    if config.get(key) is None:
        return None
    where = f"{shown(path)}: {key}"
    try:
        return float(check(finite(key, _scalar(config[key], where)), key))
    except InputError as error:
        raise InputError("", f"{where}: {error.message}" if error.parameter else error.message) from None
