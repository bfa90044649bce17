"""What a budget file says, as frozen values, and the problems that keep one from being read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dpbudget import checks
from dpbudget.budgetfile.keys import MECHANISMS
from dpbudget.budgetfile.values import SOLVE, Value, quoted
from dpbudget.errors import InputError
from dpbudget.model import Adjacency, Release, SampledGaussian, Sampling

MAX_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a file. `line` counts from 1; 0 where the file as a whole is meant.

    where: 'release "name"', "[budget]", ... or empty.
    """

    file: str
    line: int
    message: str
    where: str = ""
    key: str = ""
    suggestion: str = ""

    def __str__(self) -> str:
        place = self.file + (f":{self.line}" if self.line else "")
        text = ": ".join(part for part in (place, self.where, self.key, self.message) if part)
        if self.suggestion:
            text += f"; {self.suggestion}" if self.suggestion[0].islower() else f". {self.suggestion}"
        return one_line(text)


def one_line(text: str) -> str:
    """Text without characters that end a line or steer a terminal."""
    return "".join(c if c.isprintable() else quoted(c) for c in text)


class BudgetFileError(InputError):
    """A budget file cannot be used. `problems` holds everything that is wrong with it, in the order of its lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        shown = [str(problem) for problem in self.problems[:MAX_SHOWN]]
        if more := len(self.problems) - MAX_SHOWN:
            shown += [f"... and {more} more problems"] if more > 0 else []
        super().__init__("", "\n".join(shown))


@dataclass(frozen=True, slots=True)
class BudgetSection:
    """[budget]: what all releases together may cost, for whom, and whether later ones may depend on earlier outputs."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: str = "example"
    adaptive: bool = False


@dataclass(frozen=True, slots=True)
class DocumentRelease:
    """One [[release]], with the defaults merged in.

    index: its position in the file, from 0.  parameters: the mechanism's keys; at most one of them is "solve".
    line: of its header; `lines` of each key, in [defaults] where it comes from there.
    """

    index: int
    name: str
    mechanism: str
    parameters: Mapping[str, Value]
    spent: bool = False
    count: int = 1
    partition: str | None = None
    partition_fixed: bool = False
    line: int = 1
    lines: Mapping[str, int] | None = None

    @property
    def status(self) -> str:
        return "spent" if self.spent else "planned"

    @property
    def unknown(self) -> str | None:
        """The key whose value is "solve", if there is one."""
        return next((key for key, value in self.parameters.items() if value == SOLVE), None)

    def line_of(self, key: str) -> int:
        return (self.lines or {}).get(key, self.line)

    def with_value(self, key: str, value: Value) -> DocumentRelease:
        """The same release with one parameter set, and without the keys that would contradict it."""
        rivals = rival_keys(self.mechanism, key)
        kept = {name: old for name, old in self.parameters.items() if name not in rivals}
        return replace(self, parameters={**kept, key: value})


def rival_keys(mechanism: str, key: str) -> set[str]:
    """The keys that contradict a key: the first ones of the other alternatives of its group, and those set apart."""
    spec = MECHANISMS[mechanism]
    rivals = {other for pair in spec.apart for other in pair if key in pair}
    for group in spec.groups:
        if any(alternative[0] == key for alternative in group):
            rivals |= {alternative[0] for alternative in group}
    return rivals - {key}


@dataclass(frozen=True, slots=True)
class BudgetDocument:
    """A whole budget file."""

    filename: str
    budget: BudgetSection
    releases: tuple[DocumentRelease, ...]

    @property
    def unknown(self) -> tuple[DocumentRelease, str] | None:
        """The one unknown of the file: the release that has it, and its key."""
        return next(((release, release.unknown) for release in self.releases if release.unknown), None)


def to_releases(release: DocumentRelease, adjacency: Adjacency) -> list[Release]:
    """The model's releases that an entry stands for, repeated `count` times.

    Raises InputError, with the file's key as parameter, where the values do not fit together or one is unknown.
    """
    if release.unknown:
        raise InputError(
            release.unknown,
            f'release "{quoted(release.name)}" has an unknown',
            hint="dpbudget solve FILE finds its value.",
        )
    spec = MECHANISMS[release.mechanism]
    values = {**spec.implied(release.parameters), **release.parameters}
    result = []
    for part in spec.build(values, adjacency):
        total = part.count * release.count
        if total > checks.MAX_STEPS:
            raise InputError("count", f"{total:,} uses of the mechanism in all; {checks.MAX_STEPS:,} are the most")
        if release.count > 1 and not _repeats(part):
            raise InputError(
                "count",
                f"every one of the {release.count} runs has an unfinished epoch: together they are not one longer run",
                hint="Round the steps up to whole epochs.",
            )
        result.append(Release(part.mechanism, total))
    return result


def _repeats(part: Release) -> bool:
    """Whether repeating a run is the same as one with more steps: not where epochs are shuffled and one is unfinished."""
    step = part.mechanism
    if isinstance(step, SampledGaussian) and step.sampling in (Sampling.SHUFFLE, Sampling.BALLS_IN_BINS):
        return checks.whole_epochs(step.sampling_rate, part.count)
    return True
