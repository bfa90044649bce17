"""Good bytes damaged: files by bytes and lines, JSON by its values, pickles by their opcodes."""

from __future__ import annotations

import json
import pickletools
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

PIECES = (
    b"", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\n", b"\r", b'"', b"[", b"]", b"{", b"=", b"#", b".", b",", b";", b"1", b"e9",
    b"-", b"'''", b"nan", b"1e999", b"9" * 400, b"9" * 5000, b"\xe2\x80\xa8", b"\x1b[31m", b"x" * 200_000,
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes with some of them replaced, or some of their lines dropped, doubled, swapped or cut off."""
    for _ in range(draw(st.integers(1, 3))):
        data = draw(_bytes(data) if draw(st.booleans()) else _lines(data))
    return data


@st.composite
def _bytes(draw: st.DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, len(data)))
    piece = draw(st.one_of(st.sampled_from(PIECES), st.binary(min_size=1, max_size=2)))
    return data[:at] + piece + data[at + draw(st.integers(0, 2)) :]


@st.composite
def _lines(draw: st.DrawFn, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    at, to = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
    match draw(st.integers(0, 3)):
        case 0:
            del lines[at]
        case 1:
            lines.insert(to, lines[at])
        case 2:
            lines[at], lines[to] = lines[to], lines[at]
        case _:
            lines = lines[: at + 1]
    return b"".join(lines)


# --- JSON -------------------------------------------------------------------------------------------------------------

STRANGE: Sequence[Any] = (
    None, True, False, 0, -1, 1, 2, 0.5, -0.5, 1e-300, 5e-324, 1e300, 1e308, 10**15, 10**18, 10**308, 10**400, float("nan"),
    float("inf"), float("-inf"), "", "1", "nan", "é\u202e\x1b💥", "\ud800", "x" * 1000, [], {}, [[]], [1, 2], {"": None},
    {"history": [[1, 1, 1]]}, [None], [[1.1, 0.01, 10]] * 3,
)  # fmt: skip


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every value within a JSON document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(inner for key, item in items for inner in _paths(item, (*path, key)))]


def _changed(value: Any, path: tuple[Any, ...], change: str, new: Any) -> Any:
    """A copy of the document with something else at the path: another value, none, or the old one twice."""
    if not path:
        return new
    copy = value.copy()
    key = path[0]
    if len(path) > 1 or change == "replace":
        copy[key] = _changed(copy[key], path[1:], change, new)
    elif change == "drop":
        del copy[key]
    elif isinstance(copy, list):
        copy.insert(key, copy[key])
    else:
        copy[f"{key}2"] = copy[key]
    return copy


@st.composite
def json_mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """A JSON document with one or two of its values replaced, dropped or doubled."""
    document = json.loads(data)
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(_paths(document)))
        change = draw(st.sampled_from(("replace", "replace", "drop", "double")))
        document = _changed(document, path, change, draw(st.sampled_from(STRANGE)))
    return json.dumps(document, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")


# --- pickles ----------------------------------------------------------------------------------------------------------

ARGUMENTS = (
    b"", b"\0", b"\1", b"\xff\xff\xff\x7f", b"\xff" * 8, b"1\n", b"99999999999\n", b"os\nsystem\n", b"builtins\neval\n",
    b"'touch executed'\n", b"\x0etouch executed", b"a\\u0041\\q\n", b"1" * 5000 + b"\n",
)  # fmt: skip
CODES = [opcode.code.encode("latin-1") for opcode in pickletools.opcodes]
CALLS = (
    b"cos\nsystem\n(S'touch executed'\ntR", b"(S'touch executed'\nios\nsystem\n", b"(cos\nsystem\nS'touch executed'\no",
    b"cbuiltins\nexec\n(S'open(\"executed\", \"w\")'\ntR", b"\x8c\x02os\x8c\x06system\x93\x8c\x0etouch executed\x85R",
    b"csubprocess\nPopen\n(]S'touch'\naS'executed'\natR", b"cos\nsystem\n)\x81(S'a'\nS'touch executed'\ndb",
)  # fmt: skip


@st.composite
def pickle_mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """A pickle with opcodes dropped, doubled, or put in between: among them calls of what a pickle should never call."""
    starts = [at for _, _, at in pickletools.genops(data) if at is not None]
    parts = [data[at:end] for at, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(parts) - 1))
        match draw(st.integers(0, 4)):
            case 0:
                parts[at : at + draw(st.integers(1, 3))] = []
            case 1:
                parts.insert(at, parts[at])
            case 2:
                parts.insert(at, draw(st.sampled_from(CODES)) + draw(st.sampled_from(ARGUMENTS)))
            case _:
                parts.insert(at, draw(st.sampled_from(CALLS)) + draw(st.sampled_from((b"", b"0", b"h\0"))))
        parts = parts or [b"."]
    return b"".join(parts)
