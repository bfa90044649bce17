"""Single values of a budget file: exact decimals, and the checks that a key makes of its value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpbudget import checks
from dpbudget.errors import InputError
from dpbudget.names import PARAMETERS, SYNONYMS, meant

SOLVE = "solve"
MAX_DIGITS = 100
MAX_WORD = 60
WHOLE = "Counts are whole numbers; round a fractional one up."


class Decimal(float):
    """A double that remembers the decimal text it came from, so that derived step counts are exact."""

    __slots__ = ("text",)  # a hostile file may hold a million of them
    text: str

    def __new__(cls, text: str) -> Decimal:
        result = super().__new__(cls, text)
        result.text = text.replace("_", "")
        return result


Value = bool | int | float | str


def as_typed(text: str) -> int | Decimal:
    """A number from the command line as the file has it: digit for digit where TOML allows it."""
    number = checks.number("", text)
    if number.denominator == 1:
        return int(number)
    plain = re.fullmatch(r"\d+(\.\d+)?([eE][+-]?\d+)?", text.strip())
    return Decimal(plain[0] if plain else repr(float(number)))


Values = Mapping[str, Value]


def exact(value: Value) -> Fraction:
    """The rational number that a validated value stands for: the decimal as written, not the nearest double."""
    if isinstance(value, Decimal):
        return Fraction(value.text) if value else Fraction(0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError("", f"{value!r} is not a number")
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def finite(key: str, value: Value) -> Fraction:
    """`exact` after the checks that keep it cheap: a number, finite, not rounded to 0, not thousands of digits."""
    if isinstance(value, str):
        raise InputError(key, "must be a number, not text", hint="Write it without quotes.")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(key, "must be a number")
    if isinstance(value, int):
        if abs(value) >= 10**300:
            raise InputError(key, "the number is too large", hint="Give a value below 1e300.")
        return Fraction(value)
    text = value.text if isinstance(value, Decimal) else repr(float(value))
    if math.isnan(value) or text.lstrip("+-") == "inf":
        raise InputError(key, f"{text} is not a finite number")
    if len(text) > MAX_DIGITS:
        raise InputError(key, f"a number of {len(text)} characters", hint="Fifteen digits are enough.")
    if math.isinf(value):
        raise InputError(key, f"{text} is too large for a double")
    if value == 0 and any(digit in text.lower().split("e")[0] for digit in "123456789"):
        raise InputError(key, f"{text} is too small for a double and would be read as 0")
    return exact(value)


@dataclass(frozen=True, slots=True)
class Key:
    """What a key takes. `check` raises InputError and returns the value to keep; `meaning` is for help texts.

    `probe` stands in for "solve" while the rest of the release is checked; None: the key cannot be solved for.
    """

    check: Callable[[str, Value], Value]
    meaning: str
    probe: float | int | None = None


def number(validate: Callable[[str, Fraction], object]) -> Callable[[str, Value], Value]:
    def check(key: str, value: Value) -> Value:
        validate(key, finite(key, value))
        return value

    return check


def whole(least: int, most: int = checks.MAX_STEPS) -> Callable[[str, Value], Value]:
    return lambda key, value: checks.whole(key, finite(key, value), least=least, most=most, hint=WHOLE)


def probability(key: str, value: Fraction) -> None:
    if not 0 <= float(value) < 1:  # the double counts: 20 nines are a certainty
        raise InputError(key, f"{float(value):g} is not in [0, 1)", hint="At 1 nothing is hidden.")


def choice(*choices: str) -> Callable[[str, Value], Value]:
    def check(key: str, value: Value) -> Value:
        if isinstance(value, str) and value in choices:
            return value
        wanted = ", ".join(f'"{choice}"' for choice in choices)
        found = f'"{shown(value)}"' if isinstance(value, str) else "this"
        raise InputError(key, f"{found} is not one of {wanted}", hint=suggestion(value, choices))

    return check


def text(key: str, value: Value) -> Value:
    if not isinstance(value, str) or not value.strip():
        raise InputError(key, "must be text in quotes, and not empty")
    if len(value) > 200:
        raise InputError(key, f"has {len(value)} characters; 200 are the most")
    return value


def flag(key: str, value: Value) -> Value:
    if not isinstance(value, bool):
        raise InputError(key, "must be true or false, without quotes")
    return value


def quoted(text: str) -> str:
    """Text made safe for one line between double quotes: what cannot be printed is escaped, as TOML does."""
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
    return "".join(short.get(c) or (c if c.isprintable() else _escape(c)) for c in text)


def shown(word: str) -> str:
    """A word of the file in a message about it, `quoted`: a few kilobytes of it would not say more."""
    return quoted(word if len(word) <= MAX_WORD else f"{word[:MAX_WORD]}...")


def _escape(char: str) -> str:
    return f"\\u{ord(char):04X}" if ord(char) < 0x10000 else f"\\U{ord(char):08X}"


def suggestion(word: object, known: tuple[str, ...] | list[str]) -> str:
    """`did you mean "..."?` for the closest known word, or nothing."""
    near = meant(word, known, {**SYNONYMS, **PARAMETERS}) if isinstance(word, str) else ""
    return f'did you mean "{near}"?' if near else ""
