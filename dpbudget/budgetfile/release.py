"""Reading the [[release]] tables of a budget file: defaults, single values, keys that go together, the one unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpbudget.budgetfile.document import DocumentRelease, rival_keys, to_releases
from dpbudget.budgetfile.findings import Findings, file_words, where_it_belongs
from dpbudget.budgetfile.keys import COMMON_KEYS, MECHANISMS, MechanismSpec
from dpbudget.budgetfile.values import SOLVE, Value, quoted, shown, suggestion
from dpbudget.errors import InputError
from dpbudget.model import Adjacency
from dpbudget.names import meant


class ReleaseReader:
    """Reads release tables one after the other; `findings` grows by what is wrong with them."""

    def __init__(self, defaults: Mapping[str, Any], findings: Findings) -> None:
        self.defaults = defaults
        self.findings = findings
        self.names: dict[str, int] = {}
        self.unknown_at = ""

    def read(self, index: int, table: dict[str, Any]) -> DocumentRelease | None:
        """The release, or None if anything is wrong with it by itself."""
        before = len(self.findings.problems)
        line = self.findings.layout.line("release", index)
        where = self._where(index, table)
        self._name(index, table, where, line)
        name, spec = self._mechanism(index, table, where, line)
        if spec is None:
            return None
        merged, lines = self._merge(index, table, name, spec)
        values = {key: self._value(key, value, spec, lines[key], where) for key, value in merged.items()}
        self._groups(spec, merged, lines, where, line)
        self._unknowns(index, table, merged, spec, lines, where)
        if len(self.findings.problems) > before:
            return None
        return self._release(index, {key: value for key, value in values.items() if value is not None}, line, lines)

    def fit(self, release: DocumentRelease, adjacency: Adjacency) -> None:
        """Note where the values of a good release do not fit together, or do not fit the adjacency of the file."""
        where = f'release "{quoted(release.name)}"'
        if release.partition is not None and adjacency is Adjacency.REPLACE_ONE and not release.partition_fixed:
            message = "under replace-one a replaced record may move to another partition, so that both would pay"
            hint = "If a record cannot change its partition, set partition_fixed = true."
            self.findings.add(release.line_of("partition"), message, where=where, key="partition", hint=hint)
        if release.unknown:
            probe = MECHANISMS[release.mechanism].keys[release.unknown].probe
            assert probe is not None, "other unknowns are refused before"
            release = release.with_value(release.unknown, probe)
        try:
            to_releases(release, adjacency)
        except InputError as error:
            line = release.line_of(error.parameter)
            hint = file_words(error.hint)
            self.findings.add(line, error.message, where=where, key=error.parameter, hint=hint)

    def _where(self, index: int, table: dict[str, Any]) -> str:
        name = table.get("name")
        if isinstance(name, str) and name.strip():
            return f'release "{quoted(name[:200])}"'
        return f"release {index + 1}"

    def _name(self, index: int, table: dict[str, Any], where: str, line: int) -> None:
        if "name" not in table:
            self.findings.add(line, "name is missing", where=where, hint="Each release has a name of its own.")
            return
        if isinstance(name := table["name"], str) and name in self.names:
            hint = f"The release on line {self.names[name]} has it too."
            at = self.findings.layout.line("release", index, "name")
            self.findings.add(at, "the name is not unique", where=where, key="name", hint=hint)
        elif isinstance(name, str):
            self.names[name] = line

    def _mechanism(self, index: int, table: dict[str, Any], where: str, line: int) -> tuple[str, MechanismSpec | None]:
        name = table.get("mechanism", self.defaults.get("mechanism"))
        if name is None:
            hint = "It is one of " + ", ".join(MECHANISMS) + "."
            self.findings.add(line, "mechanism is missing", where=where, hint=hint)
        elif not isinstance(name, str) or name not in MECHANISMS:
            path = ("release", index, "mechanism") if "mechanism" in table else ("defaults", "mechanism")
            hint = suggestion(name, list(MECHANISMS)) or "It is one of " + ", ".join(MECHANISMS) + "."
            told = f'unknown mechanism "{shown(name)}"' if isinstance(name, str) else "mechanism must be text"
            self.findings.add(self.findings.layout.line(*path), told, where=where, hint=hint)
            near = meant(name, MECHANISMS) if isinstance(name, str) else ""
            if near:  # its keys are checked as well: one run reports all of it
                return near, MECHANISMS[near]
        else:
            return name, MECHANISMS[name]
        return "", None

    def _merge(
        self, index: int, table: dict[str, Any], mechanism: str, spec: MechanismSpec
    ) -> tuple[dict[str, Any], dict[str, int]]:
        """The release's own keys and the defaults that concern it, each with its line."""
        layout = self.findings.layout
        merged = dict(table)
        lines = {key: layout.line("release", index, key) for key in table}
        overridden = _overridden(table, mechanism, spec)
        for key, value in self.defaults.items():
            if (key in spec.keys or key in COMMON_KEYS) and key not in merged and key not in overridden:
                merged[key] = value
                lines[key] = layout.line("defaults", key)
        return merged, lines

    def _value(self, key: str, value: Any, spec: MechanismSpec, line: int, where: str) -> Value | None:
        if key in spec.keys and value == SOLVE:
            return SOLVE
        if known := COMMON_KEYS.get(key) or spec.keys.get(key):
            return self.findings.value(known, key, value, line, where)
        hint = where_it_belongs(key, [*spec.keys, *COMMON_KEYS], ("epsilon", "delta", "adjacency", "unit", "adaptive"))
        if any(key in other.keys for other in MECHANISMS.values()):
            hint = "The keys of this mechanism are " + ", ".join(spec.keys) + "."
        self.findings.add(line, f'unknown key "{shown(key)}"', where=where, hint=hint)
        return None

    def _groups(
        self, spec: MechanismSpec, given: Mapping[str, Any], lines: Mapping[str, int], where: str, line: int
    ) -> None:
        present = {**spec.implied(given), **given}
        for first, second in spec.apart:
            if first in given and second in given:
                self._contradiction(first, second, lines, where)
        for group in spec.groups:
            chosen = [alternative for alternative in group if alternative[0] in present]
            for other in chosen[1:]:
                self._contradiction(chosen[0][0], other[0], lines, where)
            if not chosen:
                wanted = ", or ".join(" with ".join(alternative) for alternative in group)
                self.findings.add(line, f"{wanted} is missing", where=where)
            for key in chosen[0][1:] if len(chosen) == 1 else ():
                if key not in present:
                    message = f"needs {key} beside it"
                    self.findings.add(lines.get(chosen[0][0], line), message, where=where, key=chosen[0][0])

    def _contradiction(self, first: str, second: str, lines: Mapping[str, int], where: str) -> None:
        line = max(lines.get(first, 0), lines.get(second, 0))
        self.findings.add(line, f"{first} and {second} contradict each other", where=where, hint="Keep one of them.")

    def _unknowns(
        self,
        index: int,
        table: dict[str, Any],
        merged: Mapping[str, Any],
        spec: MechanismSpec,
        lines: Mapping[str, int],
        where: str,
    ) -> None:
        for key in (key for key, value in merged.items() if key in spec.keys and value == SOLVE):
            solvable = [name for name, known in spec.keys.items() if known.probe is not None]
            if key not in solvable:
                message = f'cannot be "solve"; {", ".join(solvable) or "nothing in this mechanism"} can'
                self.findings.add(lines[key], message, where=where, key=key)
            elif merged.get("status") == "spent":
                self.findings.add(lines[key], "a spent release has no unknown", where=where, key=key)
            elif self.unknown_at:
                message, hint = 'a second "solve"; a file has at most one', f"The first is {self.unknown_at}."
                self.findings.add(lines[key], message, where=where, key=key, hint=hint)
            else:
                self.unknown_at = f"{key} on line {lines[key]}"

    def _release(self, index: int, values: Mapping[str, Value], line: int, lines: Mapping[str, int]) -> DocumentRelease:
        return DocumentRelease(
            index=index,
            name=str(values["name"]),
            mechanism=str(values["mechanism"]),
            parameters={key: value for key, value in values.items() if key not in COMMON_KEYS},
            spent=values.get("status") == "spent",
            count=int(values.get("count", 1)),
            partition=str(values["partition"]) if "partition" in values else None,
            partition_fixed=bool(values.get("partition_fixed", False)),
            line=line,
            lines=lines,
        )


def _overridden(table: Mapping[str, Any], mechanism: str, spec: MechanismSpec) -> set[str]:
    """The keys that a default must not bring in, because the release's own keys choose another alternative."""
    overridden = {rival for key in table for rival in rival_keys(mechanism, key)}
    for group in spec.groups:
        for alternative in group:
            if alternative[0] in overridden:
                overridden |= set(alternative)
    return overridden
