"""Budget files drawn from the registry of mechanisms: files that can be answered, then extremes and faults over them.

Whatever a new mechanism or key is called, it is drawn: unknown keys take numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from dpbudget.budgetfile.keys import COMMON_KEYS, LAWS, MECHANISMS
from dpbudget.budgetfile.reading import BUDGET_KEYS
from dpbudget.federated import NoiseAt
from dpbudget.model import Adjacency, Sampling

# TOML as it stands in a file. What a key is made for:
USUAL: Mapping[str, Sequence[str]] = {
    "noise_multiplier": ("1.1", "0.8", "4", "20.5"),
    "noise_std": ("1.5", "3", "10"),
    "clip_norm": ("1", "1.5", "0.1"),
    "sampling_rate": ("0.01", "0.25", "1e-3", "0.0042666666666666667"),
    "batch_size": ("256", "10", "30"),
    "dataset_size": ("60000", "1000", "100"),
    "steps": ("1000", "10", "1e3", "1_0"),
    "epochs": ("1", "3", "0.5", "2.0"),
    "max_batch": ("300", "1000"),
    "trials": ("10", "2.5", "4"),
    "eta": ("0.5", "-0.5", "1"),
    "most_trials": ("20", "100"),
    "clients": ("1000", "50"),
    "clients_per_round": ("10", "2.5", "50"),
    "rounds": ("100", "7"),
    "min_honest": ("5", "1"),
    "max_participations": ("3", "100"),
    "sensitivity": ("1", "0.5", "2"),
    "scale": ("10", "2.5", "1"),
    "categories": ("4", "2", "1000"),
    "epsilon": ("0.5", "1", "0.01"),
    "truth_probability": ("0.2", "0.5", "0"),
    "delta": ("1e-7", "1e-9", "0"),
    "rho": ("0.02", "0.1"),
    "count": ("1", "2", "10"),
    "tree": ("true", "false"),
    "sampling": tuple(f'"{value}"' for value in Sampling),
    "law": tuple(f'"{value}"' for value in LAWS),
    "noise_at": tuple(f'"{value}"' for value in NoiseAt),
    "status": ('"spent"', '"planned"'),
    "partition": ('"east"', '"west"'),
    "partition_fixed": ("true", "false"),
    "adjacency": tuple(f'"{value}"' for value in Adjacency),
    "unit": ('"example"', '"client"', '"user"'),
    "adaptive": ("false", "true"),
    "mechanism": tuple(f'"{name}"' for name in MECHANISMS),
    "name": ('"a"', '"b"'),
}
# Far from what anyone writes, and valid for some key or other.
EXTREME = (
    "0", "1", "-0.0", "0.05", "1e6", "1e9", "1000000000", "1e-9", "1e-100", "1e-300", "2.2250738585072014e-308", "5e-324",
    "1e308", "1e15", "999999999999999", "0.9999999999999999", "1.0000000000000002", "0x10", "0b11", "1e299", "5000", "1e5",
    "0.3333333333333333333333333333333333", "1e-12", "100000.5", "40", "700", "0.5",
)  # fmt: skip
# Never what a key takes, or not TOML at all.
WRONG = (
    "nan", "-nan", "inf", "-inf", "-1", "-1e-300", "1e999", "1e-999", "-0.5", "true", "false", '""', '" "', '"text"', '"1.1"',
    '"solve"', "[]", "[1]", "[[1], [2]]", "{}", "{a = 1}", "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", "9" * 301,
    "9" * 5000, "0x" + "f" * 300, "1." + "1" * 200, "0e999999999", '"' + "x" * 300 + '"', '"\\u0000"', '"\\u001b[31m"',
    '"\\U0010FFFF"', '"\\uD800"', '"é\u202e💥"', '"""a\nb"""', "'''c'''", "", "=", '"', "1 2", "[" * 20 + "]" * 20, "1e",
    '"' + "y" * 100_000 + '"', "\x00", "\u2028",
)  # fmt: skip
UNKNOWN = ("sampling_rat", "sigma", "x", '"é"', '"a b"', '""', "a.b", "release", "1", '"\\n"', "epsilon_", "notes")
STRAY = ("[release]", "[budget]", "[[budget]]", "[x]", "[[release.a]]", "[[", "x = 1")
EPSILONS, DELTAS = ("8", "1", "0.1", "50", "3.5"), ("1e-5", "1e-9", "0.01")
NAMES = (
    "a",
    "b",
    "run 1",
    "é💥",
    "=1+1",
    "a|b",
    "`x`",
    "[red]",
    "a\\\\b",
    "x" * 200,
    "a\\u001bb",
    "{0}",
    "%s",
    "c,d",
    "'",
)

Lines = list[str]


@dataclass(frozen=True)
class Kind:
    """What files are drawn. faulty: anything may be wrong; extreme: values that nobody writes; solve: an unknown."""

    faulty: bool = False
    extreme: bool = False
    solve: bool = True
    most: int = 4
    mechanisms: Sequence[str] = tuple(MECHANISMS)


USABLE = Kind()
EXTREMES = Kind(extreme=True)
FAULTY = Kind(faulty=True, extreme=True)


@st.composite
def value(draw: st.DrawFn, key: str, kind: Kind) -> str:
    """TOML for a key: mostly what it is made for; an extreme or a fault now and then, where they are allowed."""
    choice = draw(st.integers(0, 7))
    if choice == 7 and kind.faulty:
        return draw(st.sampled_from(WRONG))
    usual = USUAL.get(key, EXTREME)
    is_number = not usual[0].startswith('"') and usual[0] not in ("true", "false")
    return draw(st.sampled_from(EXTREME if choice == 6 and kind.extreme and is_number else usual))


@st.composite
def release(draw: st.DrawFn, name: str, kind: Kind, *, solve: bool = False) -> Lines:
    """The key lines of one entry: one alternative of each group, optional keys, and perhaps a fault."""
    mechanism = draw(st.sampled_from(kind.mechanisms))
    spec = MECHANISMS[mechanism]
    chosen = [key for group in spec.groups for key in draw(st.sampled_from(group))]
    grouped = {alternative[0] for group in spec.groups for alternative in group}
    apart = {other for pair in spec.apart for other in pair if set(pair) & set(chosen)}
    free = [key for key in (*spec.keys, *COMMON_KEYS) if key not in {*grouped, *apart, *chosen, "name", "mechanism"}]
    chosen += draw(st.lists(st.sampled_from(free), max_size=2, unique=True))
    solvable = [key for key in chosen if key in spec.keys and spec.keys[key].probe is not None]
    unknown = draw(st.sampled_from(solvable)) if solve and solvable else ""
    lines = [f'name = "{name}"', f'mechanism = "{mechanism}"']
    for key in chosen:
        lines.append(f'{key} = "solve"' if key == unknown else f"{key} = {draw(value(key, kind))}")
    return draw(_damaged(lines)) if kind.faulty else lines


@st.composite
def _damaged(draw: st.DrawFn, lines: Lines) -> Lines:
    """The lines with one dropped, doubled, moved, misspelt, or one more that does not belong."""
    kind = draw(st.integers(0, 9))
    at = draw(st.integers(0, len(lines) - 1)) if lines else 0
    if kind == 0 and lines:
        return lines[:at] + lines[at + 1 :]
    if kind == 1 and lines:
        return [*lines, lines[at]]
    if kind == 2:
        return [*lines, f"{draw(st.sampled_from(UNKNOWN))} = {draw(st.sampled_from((*EXTREME, *WRONG)))}"]
    if kind == 3:
        other = draw(st.sampled_from([key for spec in MECHANISMS.values() for key in spec.keys]))
        return [*lines, f"{other} = {draw(value(other, FAULTY))}"]
    return lines


@st.composite
def budget(draw: st.DrawFn, kind: Kind) -> Lines:
    """The key lines of [budget]."""
    lines = [
        f"epsilon = {draw(st.sampled_from(EPSILONS + (('0', '1e-6', '5000') if kind.extreme else ())))}",
        f"delta = {draw(st.sampled_from(DELTAS + (('0.999999', '1e-100', '1e-300') if kind.extreme else ())))}",
        f"adjacency = {draw(st.sampled_from(USUAL['adjacency']))}",
    ]
    lines += [f"{key} = {draw(value(key, kind))}" for key in draw(st.sets(st.sampled_from(("unit", "adaptive"))))]
    if kind.faulty and draw(st.integers(0, 5)) == 0:
        at, key = draw(st.integers(0, len(lines) - 1)), draw(st.sampled_from(list(BUDGET_KEYS)))
        lines[at] = f"{key} = {draw(value(key, FAULTY))}"
    return draw(_damaged(lines)) if kind.faulty and draw(st.integers(0, 3)) == 0 else lines


@st.composite
def defaults(draw: st.DrawFn, kind: Kind) -> Lines:
    key = draw(st.sampled_from([*COMMON_KEYS, *dict.fromkeys(k for s in MECHANISMS.values() for k in s.keys)]))
    return [] if key == "name" and not kind.faulty else [f"{key} = {draw(value(key, kind))}"]


@st.composite
def text(draw: st.DrawFn, kind: Kind = USABLE) -> str:
    """A whole file."""
    count = draw(st.integers(0, kind.most))
    unknown = draw(st.integers(0, 2 * count)) if kind.solve else count
    names = draw(st.lists(st.sampled_from(NAMES), min_size=count, max_size=count, unique=not kind.faulty))
    blocks = [["schema = 1"], ["[budget]", *draw(budget(kind))]]
    if draw(st.integers(0, 4)) == 0:
        blocks.append(["[defaults]", *draw(defaults(kind))])
    for index, name in enumerate(names):
        blocks.append(["[[release]]", *draw(release(name, kind, solve=index == unknown))])
    if kind.faulty and draw(st.integers(0, 5)) == 0:
        blocks.append([draw(st.sampled_from(STRAY))])
    newline = draw(st.sampled_from(("\n", "\n", "\n", "\r\n")))
    gap = draw(st.sampled_from((newline, newline * 2, f"  # é comment{newline}")))
    body = gap.join(newline.join(block) for block in blocks)
    return draw(st.sampled_from(("", "", "", "\ufeff", "# a budget\n"))) + body + draw(st.sampled_from((newline, "")))
