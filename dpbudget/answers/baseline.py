"""A check against an earlier one: what moved, and whether the truth moved with it."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from dpbudget.errors import InputError
from dpbudget.report import interval_json


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """What changed against an earlier report of `check`."""
    if old.get("command") != "check":
        raise _no_baseline()
    before = _old_table(old, "result")
    listed = before.get("releases")
    if not isinstance(listed, list) or not all(
        isinstance(r, Mapping) and isinstance(r.get("name"), str) for r in listed
    ):
        raise _no_baseline()
    if not all(isinstance(text, str) for text in (before.get("verdict"), *(r.get("status", "") for r in listed))):
        raise _no_baseline()
    then = {release["name"]: release for release in listed}
    now = {release["name"]: release for release in new["releases"]}
    moved = []
    for name in sorted(now.keys() & then.keys()):
        change: dict[str, Any] = {"release": name}
        alone = now[name]["epsilon_alone"]
        if alone is not None and then[name].get("epsilon_alone", {}) is not None:  # left out of a report on very many
            old_ends, ends = _old_table(then[name], "epsilon_alone"), interval_json(alone)
            if _differ(old_ends, ends):
                change |= {"from": _end(old_ends, "upper"), "to": ends.get("upper")}
        if then[name].get("status") != now[name]["status"]:
            change["status"] = {"from": then[name].get("status", ""), "to": now[name]["status"]}
        if len(change) > 1:
            moved.append(change)
    old_total, total = _old_table(before, "epsilon"), new["epsilon"]
    return {
        "verdict": {"from": before["verdict"], "to": new["verdict"]},
        "epsilon": {
            "from": _end(old_total, "upper"), "to": total.get("upper"), "changed": _differ(old_total, total),
        },
        "added": sorted(now.keys() - then.keys()),
        "removed": sorted(then.keys() - now.keys()),
        "changed": moved,
    }  # fmt: skip


def changed(changes: Mapping[str, Any] | None) -> list[str]:
    if changes is None:
        return []
    before, after = changes["epsilon"]["from"], changes["epsilon"]["to"]
    if not changes["epsilon"]["changed"]:
        text = "Against the baseline: epsilon is what it was."
    elif before is None or after is None or not math.isfinite(after):
        text = f"Against the baseline: epsilon {_was(before)} -> {_was(after)}."
    else:
        text = f"Against the baseline: epsilon {before:.6g} -> {after:.6g} ({after - before:+.3g})."
    for word in ("added", "removed"):
        if changes[word]:
            text += f" {word.capitalize()}: {', '.join(changes[word])}."
    if changes["changed"]:
        text += f" Changed: {', '.join(_moved(item) for item in changes['changed'])}."
    return [text]


def _no_baseline() -> InputError:
    return InputError("baseline", "is not a report of dpbudget check --json")


def _old_table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = data.get(key)
    if not isinstance(found, Mapping):
        raise _no_baseline()
    return found


def _end(ends: Mapping[str, Any], which: str) -> float | None:
    """One end of an interval in a report; None stands for an unbounded or a missing one."""
    value = ends.get(which)
    if value is None:
        return None
    # compared, not converted: JSON has whole numbers that are larger than any double
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
        raise _no_baseline()
    return float(value)


def _differ(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether the truth has moved: intervals that overlap may be one truth, computed on two machines or versions."""
    upper, other_upper = _end(old, "upper"), new.get("upper")
    lower, other_lower = _end(old, "lower"), new.get("lower")
    if upper is None or other_upper is None or not math.isfinite(other_upper):
        return (upper is None) != (other_upper is None or not math.isfinite(other_upper))
    if lower is None or other_lower is None:
        return not math.isclose(upper, other_upper, rel_tol=1e-6)
    return bool(lower > other_upper or other_lower > upper)


def _moved(item: Mapping[str, Any]) -> str:
    parts = []
    if "to" in item:
        parts.append(f"epsilon alone {_was(item['from'])} -> {_was(item['to'])}")
    if "status" in item:
        parts.append(f"{item['status']['from']} -> {item['status']['to']}")
    return f"{item['release']} ({'; '.join(parts)})"


def _was(value: float | None) -> str:
    return "unbounded" if value is None or not math.isfinite(value) else f"{value:.6g}"
