"""Where the keys and values of a TOML text stand: line numbers for messages, offsets for edits that touch nothing else.

tomllib gives the values but no positions. This scanner knows just enough of the grammar (TOML 1.0) to find them and
accepts everything that tomllib accepts, so its answer is used only beside tomllib's. It also bounds what tomllib is
asked to read: tomllib needs quadratic time for a key of many dots, and recurses once per bracket.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from dataclasses import dataclass, field

Path = tuple[str | int, ...]

MAX_DEPTH = 16
MAX_PARTS = 8
MAX_VALUES = 100_000

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_SCALAR = re.compile(r"""[^,\[\]{}#\r\n"']+""")
# Possessive quantifiers: an unterminated string fails in linear time.
_STRING = re.compile(
    r'"""(?:[^"\\]++|\\[\s\S]|"(?!""))*+""""{0,2}'
    r"|'''(?:[^']++|'(?!''))*+''''{0,2}"
    r'|"(?:[^"\\\n]++|\\[^\n])*+"'
    r"|'[^'\n]*+'"
)


class ScanError(ValueError):
    """The text is not TOML, or is nested beyond the limits (`hazard`: tomllib must not see it)."""

    def __init__(self, offset: int, message: str, *, hazard: bool = False) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message
        self.hazard = hazard


@dataclass(frozen=True, slots=True)
class Span:
    """A key stands on `line` (from 1); its value is text[start:end]. For a table header start:end is the header."""

    line: int
    start: int
    end: int
    header: bool = False


@dataclass(slots=True)
class Layout:
    """The spans of a text by path; ("release", 0, "steps") is `steps` of the first [[release]].

    Elements of an array have a span where they are tables.
    """

    spans: dict[Path, Span] = field(default_factory=dict)
    error: ScanError | None = None
    error_line: int = 1

    def line(self, *path: str | int) -> int:
        """The line of the path, or of the closest enclosing thing that has one, or 1."""
        for length in range(len(path), 0, -1):
            if span := self.spans.get(path[:length]):
                return span.line
        return 1


def scan(text: str) -> Layout:
    """The layout of a text, up to the first error, which is kept in `error`. Never raises. A leading BOM is skipped."""
    scanner = _Scanner(text)
    try:
        scanner.document()
    except ScanError as error:
        scanner.layout.error = error
        scanner.layout.error_line = scanner.line_at(error.offset)
    return scanner.layout


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 1 if text.startswith("\ufeff") else 0
        self.layout = Layout()
        self.newlines = [match.start() for match in re.finditer("\n", text)]
        self.lengths: dict[Path, int] = {}  # of the arrays of tables met so far
        self.values = 0

    def line_at(self, offset: int) -> int:
        return bisect_left(self.newlines, offset) + 1

    def peek(self) -> str:
        return self.text[self.pos : self.pos + 1]

    def skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.pos)
        self.pos = match.end() if match else self.pos

    def expect(self, token: str) -> None:
        if not self.text.startswith(token, self.pos):
            raise ScanError(self.pos, f"expected {token!r}")
        self.pos += len(token)

    def note(self, path: Path, offset: int, start: int, end: int, *, header: bool = False) -> None:
        self.layout.spans.setdefault(path, Span(self.line_at(offset), start, end, header))

    def document(self) -> None:
        table: Path = ()
        self.skip(_BLANK)
        while self.pos < len(self.text):
            if self.peek() == "[":
                table = self.header()
            else:
                self.pair(table, 0)
            self.end_of_line()
            self.skip(_BLANK)

    def end_of_line(self) -> None:
        self.skip(_SPACE)
        if self.peek() not in ("", "\r", "\n", "#"):
            raise ScanError(self.pos, "expected the end of the line")

    def header(self) -> Path:
        start = self.pos
        array = self.text.startswith("[[", self.pos)
        self.pos += 2 if array else 1
        parts = self.key()
        self.expect("]]" if array else "]")
        path: Path = ()
        for part in parts:
            # A table below an array of tables belongs to the array's latest element.
            path = (*self.latest(path), part)
        if array:
            self.lengths[path] = self.lengths.get(path, 0) + 1
            path = self.latest(path)
        self.note(path, start, start, self.pos, header=True)
        return path

    def latest(self, path: Path) -> Path:
        length = self.lengths.get(path)
        return path if length is None else (*path, length - 1)

    def key(self) -> list[str]:
        parts = []
        while True:
            self.skip(_SPACE)
            parts.append(self.key_part())
            self.skip(_SPACE)
            if self.peek() != ".":
                return parts
            if len(parts) >= MAX_PARTS:
                raise ScanError(self.pos, f"a key of more than {MAX_PARTS} dotted parts", hazard=True)
            self.pos += 1

    def key_part(self) -> str:
        if match := _BARE.match(self.text, self.pos):
            self.pos = match.end()
            return match[0]
        start = self.pos
        raw = self.string()
        try:
            return str(tomllib.loads(f"key = {raw}")["key"])
        except ValueError as error:
            raise ScanError(start, "not a valid key") from error

    def string(self) -> str:
        match = _STRING.match(self.text, self.pos)
        if match is None:
            raise ScanError(self.pos, "expected a key, or a string is not closed")
        self.pos = match.end()
        return match[0]

    def pair(self, table: Path, depth: int) -> None:
        offset = self.pos
        path = (*table, *self.key())
        self.expect("=")
        self.skip(_SPACE)
        start = self.pos
        self.value(path, depth)
        for length in range(len(table) + 1, len(path)):
            self.note(path[:length], offset, start, start)
        self.note(path, offset, start, self.pos)

    def value(self, path: Path, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ScanError(self.pos, f"values nested more than {MAX_DEPTH} deep", hazard=True)
        self.values += 1
        if self.values > MAX_VALUES:
            raise ScanError(self.pos, f"more than {MAX_VALUES:,} values", hazard=True)
        match self.peek():
            case '"' | "'":
                self.string()
            case "[":
                self.array(path, depth)
            case "{":
                self.inline_table(path, depth)
            case _:
                self.scalar()

    def scalar(self) -> None:
        match = _SCALAR.match(self.text, self.pos)
        if match is None or not match[0].strip():
            raise ScanError(self.pos, "a value is missing")
        self.pos += len(match[0].rstrip())

    def array(self, path: Path, depth: int) -> None:
        self.expect("[")
        index = 0
        self.skip(_BLANK)
        while self.peek() != "]":
            start = self.pos
            self.value((*path, index), depth + 1)
            if self.text[start] == "{":
                self.note((*path, index), start, start, self.pos)
            index += 1
            if not self.separator("]"):
                break
        self.expect("]")

    def inline_table(self, path: Path, depth: int) -> None:
        self.expect("{")
        self.skip(_BLANK)
        while self.peek() != "}":
            self.pair(path, depth + 1)
            if not self.separator("}"):
                break
        self.expect("}")

    def separator(self, closing: str) -> bool:
        """Pass blanks and one comma; False where the closing bracket must follow."""
        self.skip(_BLANK)
        if self.peek() != ",":
            return False
        self.pos += 1
        self.skip(_BLANK)
        return self.peek() != closing
