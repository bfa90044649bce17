"""Validators: each takes a parameter name and a value, returns the value or raises InputError. NaN always fails."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fractions import Fraction

from dpbudget.errors import InputError
from dpbudget.model import Sampling
from dpbudget.names import meant, plain

MAX_STEPS = 10**9
MAX_RECORDS = 10**18
LEAST_NOISE, MOST_NOISE = 1e-50, 1e50


def number(parameter: str, text: str | float | Fraction) -> Fraction:
    """The exact rational that a decimal text ("1e4", "0.01", "1/60") or a float stands for; finite."""
    if isinstance(text, Fraction):
        return text
    if isinstance(text, (bool,)) or not isinstance(text, (str, int, float)):
        raise InputError(parameter, f"{text!r} is not a number")
    if isinstance(text, int) and abs(text) < 10**308:  # counted, not typed: how large it is says more than its length
        return Fraction(text)
    shown = str(text).strip()
    if len(shown) > 200:
        raise InputError(parameter, f"a number of {len(shown)} characters", hint="Fifteen digits are enough.")
    parts = shown.split("/")
    try:
        values = [float(part) for part in parts]
    except ValueError:
        raise InputError(parameter, f"{shown!r} is not a number", hint=_way_out(shown)) from None
    if len(values) > 2 or any(math.isnan(v) for v in values):
        raise InputError(parameter, f"{shown} is not a number", hint="Write 0.01, 1e-5 or 1/60.")
    if any(math.isinf(v) for v in values):
        raise InputError(parameter, f"{shown} is not a finite number", hint="Give a value below 1e308.")
    if len(values) == 2 and values[1] == 0:
        raise InputError(parameter, f"{shown} divides by zero")
    if any(
        v == 0 and any(c in "123456789" for c in p.lower().split("e")[0]) for p, v in zip(parts, values, strict=True)
    ):
        raise InputError(
            parameter, f"{shown} is too small to be told from 0", hint="The smallest value is about 1e-307."
        )
    # A zero with a huge exponent would be expanded.
    exact = [Fraction(part.strip()) if value else Fraction(0) for part, value in zip(parts, values, strict=True)]
    return exact[0] if len(exact) == 1 else _quotient(parameter, shown, exact[0] / exact[1])


def _quotient(parameter: str, shown: str, value: Fraction) -> Fraction:
    """The value, where a double can hold it."""
    if _plain(value) in ("inf", "-inf"):
        raise InputError(parameter, f"{shown} is not a finite number", hint="Give a value below 1e308.")
    if value and float(value) == 0:
        raise InputError(
            parameter, f"{shown} is too small to be told from 0", hint="The smallest value is about 1e-307."
        )
    return value


def _way_out(text: str) -> str:
    """What to type instead of a text that is nearly a number."""
    if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+", text):
        return f"Write {text.replace(',', '')}: numbers take no thousands separator."
    if re.fullmatch(r"[+-]?\d*,\d+(e[+-]?\d+)?", text, re.IGNORECASE):
        return f"Write {text.replace(',', '.')}: decimals take a point."
    if match := re.fullmatch(r"([+-]?\d*\.?\d+) *%", text):
        return f"Write {float(match[1]) / 100:.12g}."
    if match := re.fullmatch(r"(\d*\.?\d+) *([km])", text, re.IGNORECASE):
        return f"Write {float(match[1]) * (1000 if match[2] in 'kK' else 1000000):.12g}."
    if match := re.fullmatch(r"(\d*\.?\d+ *\* *)?10 *(?:\^|\*\*) *([+-]?\d+)", text):
        return f"Write {(match[1] or '1').rstrip('* ')}e{match[2]}."
    return "Write 0.01, 1e-5 or 1/60."


def choice(parameter: str, typed: str, known: Iterable[str]) -> str:
    """The known name that was typed; upper case and underscores do not matter. Raises InputError with the one meant."""
    names = [str(name) for name in known]
    for name in names:
        if isinstance(typed, str) and plain(typed) == plain(name):
            return name
    near = meant(typed, names) if isinstance(typed, str) else ""
    listed = f"Choose from {', '.join(names)}."
    raise InputError(parameter, f"{typed!r} is unknown", hint=f"Did you mean {near}? {listed}" if near else listed)


def real(parameter: str, value: float | Fraction) -> float:
    if not math.isfinite(float(_plain(value))):
        raise InputError(parameter, f"{_plain(value)} is not a finite number", hint="Give a value below 1e308.")
    return float(value)


def _plain(value: float | Fraction) -> str:
    try:
        return f"{float(value):.12g}"
    except OverflowError:  # an exact number can be larger than any double
        return "inf" if value > 0 else "-inf"


def positive(parameter: str, value: float | Fraction, *, hint: str = "") -> float:
    result = real(parameter, value)
    if not result > 0:
        raise InputError(parameter, f"{_plain(value)} is not above 0", hint=hint)
    return result


def non_negative(parameter: str, value: float | Fraction, *, hint: str = "") -> float:
    result = real(parameter, value)
    if not result >= 0:
        raise InputError(parameter, f"{_plain(value)} is negative", hint=hint)
    return result


def sampling_rate(value: float | Fraction, parameter: str = "sampling_rate") -> float:
    result = real(parameter, value)
    if not 0 < result <= 1:
        hint = "The sampling rate is the chance of one record to be in a batch."
        if result > 1:
            hint = f"If {_plain(value)} is a batch size, pass --batch-size {_plain(value)} --dataset-size N."
        raise InputError(parameter, f"{_plain(value)} is not in (0, 1]", hint=hint)
    return result


def free_rate(sampling: Sampling) -> None:
    """Raises InputError where the sampling leaves no rate to solve for."""
    if sampling is Sampling.FULL_BATCH:
        raise InputError(
            "sampling", "full-batch means a sampling rate of 1: there is none to solve for",
            hint="Solve for the noise (dpbudget sigma) or the steps (dpbudget steps).",
        )  # fmt: skip
    if sampling in (Sampling.SHUFFLE, Sampling.BALLS_IN_BINS):
        raise InputError(
            "sampling", f"{sampling} cuts every epoch into whole batches: there is no sampling rate to solve for",
            hint=f"Try batch sizes instead: dpbudget table --sampling {sampling} --batch-size 64,128,256 --dataset-size N "
            "--epochs E --sigma S --delta D.",
        )  # fmt: skip


def delta(value: float | Fraction, parameter: str = "delta") -> float:
    result = real(parameter, value)
    if not 0 < result < 1:
        hint = "delta is a probability well below 1 / dataset size, for example 1e-5."
        raise InputError(parameter, f"{_plain(value)} is not in (0, 1)", hint=hint)
    return result


def noise_multiplier(value: float | Fraction, parameter: str = "noise_multiplier") -> float:
    """Zero is allowed: it means no noise, and no guarantee. Beyond LEAST_NOISE and MOST_NOISE squares leave the doubles."""
    hint = "The noise multiplier is the noise's standard deviation divided by the clipping norm."
    result = non_negative(parameter, value, hint=hint)
    if result > 0 and not LEAST_NOISE <= result <= MOST_NOISE:
        range_ = f"[{LEAST_NOISE:g}, {MOST_NOISE:g}]"
        raise InputError(parameter, f"a noise multiplier of {_plain(result)} is not in {range_}", hint=hint)
    return result


def epsilon(value: float | Fraction, parameter: str = "epsilon") -> float:
    return non_negative(parameter, value)


def whole(parameter: str, value: float | Fraction, *, least: int = 1, most: int | None = None, hint: str = "") -> int:
    exact = number(parameter, value)
    if exact.denominator != 1:
        short = _plain(exact)
        shown = f"almost {short}" if Fraction(short).denominator == 1 else short
        raise InputError(parameter, f"{shown} is not a whole number", hint=hint)
    result = int(exact)
    if result < least:
        raise InputError(parameter, f"{result} is below {least}", hint=hint or f"The least is {least}.")
    if most is not None and result > most:
        raise InputError(parameter, f"{_plain(result)} is above {most:,}", hint=hint or f"The most is {most:,}.")
    return result


def records(parameter: str, value: float | Fraction | str, *, hint: str = "") -> int:
    """A count of records, clients or devices, which nobody has more than MAX_RECORDS of."""
    return whole(parameter, number(parameter, value), most=MAX_RECORDS, hint=hint)


def steps(value: float | Fraction, parameter: str = "steps") -> int:
    hint = "Steps are noisy updates (optimizer steps, not micro-batches); round a fractional count up."
    return whole(parameter, value, least=0, most=MAX_STEPS, hint=hint)


def whole_epochs(sampling_rate: float, steps: int) -> bool:
    """Whether `steps` batches of 1 / sampling_rate an epoch end with a finished epoch."""
    return sampling_rate > 0 and steps % max(1, round(1 / sampling_rate)) == 0
