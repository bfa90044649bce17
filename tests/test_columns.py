"""Tables of text: whatever the width, no digit is lost and no number is broken."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbudget.model import Interval
from dpbudget.render import columns, numbers
from dpbudget.report import Quantity

ENDS = st.floats(1e-12, 1e12).map(lambda value: numbers.number(value, 5))
NUMBERS = st.one_of(
    ENDS,
    st.integers(0, 10**9).map(str),
    st.floats(1e-3, 1e3).map(lambda value: numbers.interval(Interval(value * 0.999, value), 5)),
    ENDS.map(lambda text: f"<= {text}"),
    ENDS.map(lambda text: f"about {text}"),
    st.sampled_from(["-", "", "inf", "unbounded"]),
)
WORDS = st.lists(st.text("abcdefgh-()", min_size=1, max_size=12), max_size=4).map(" ".join)
TABLES = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from(["noise multiplier", "epsilon", "steps", "release"]), min_size=n, max_size=n),
        st.tuples(*(st.sampled_from([NUMBERS, WORDS]) for _ in range(n))).flatmap(
            lambda kinds: st.lists(st.tuples(*kinds), min_size=1, max_size=8)
        ),
    )
)


@given(TABLES, st.integers(30, 140))
def test_nothing_is_lost_at_any_width(table: tuple[list[str], list[tuple[str, ...]]], width: int) -> None:
    heads, rows = table
    text = columns.table(heads, rows, width)
    for i in range(len(heads)):
        column = [row[i] for row in rows]
        for cell in column:
            if columns.numeric(column):
                assert cell in text, "a number is broken"
            assert all(word in text for word in cell.split())
    for line in text.splitlines():
        assert len(line) <= width or "  " not in line.strip() or line.count(";") <= 1


@pytest.mark.parametrize("width", [20, 40, 80])
def test_points_stand_below_each_other(width: int) -> None:
    cells = ["2.3851 to 2.3852", "<= 12.6", "about 1000", "7.5e-12", "unbounded", "-", "3"]
    text = columns.table(["epsilon"], [(cell,) for cell in cells], width)
    lines = text.splitlines()[1:]
    point = lines[0].rindex(".")
    for line, end in zip(lines, ["2", "12", "1000", "7", None, None, "3"], strict=True):
        assert end is None or re.search(rf"(^| ){end}$", line[:point]), line
    assert len({len(line) for line in lines if line.endswith(("unbounded", "-"))}) == 1


def test_heads_shorten_before_rows_are_taken_apart() -> None:
    heads, row = ["steps", "noise multiplier", "epsilon"], ("1000", "1.25", "0.99991 to 0.99992")
    wide, narrow, narrower = (columns.table(heads, [row] * 5, width) for width in (50, 36, 20))
    assert wide.splitlines()[1].split() == ["steps", "multiplier", "epsilon"]
    assert narrow.splitlines()[0].split() == ["steps", "sigma", "epsilon"]
    assert narrower.splitlines()[0].split() == ["steps", "1000;"] and narrower.count("0.99991 to 0.99992") == 5


def test_words_wrap_and_numbers_do_not() -> None:
    rows = [("a release with a long name", "0.049996 to 0.049999"), ("b", "1 to 2")]
    text = columns.table(["release", "epsilon alone"], rows, 36)
    assert text.splitlines()[1] == "  a release     0.049996 to 0.049999"
    assert [line.strip() for line in text.splitlines()[2:4]] == ["with a long", "name"]


def test_few_rows_become_blocks() -> None:
    rows = [("a" * 30, "b" * 30), ("c", "d")]
    assert columns.table(["first", "second"], rows, 40).count("\n\n") == 1


@pytest.mark.parametrize("digits", [1, 5, 12])
def test_what_the_renderers_write_counts_as_a_number(digits: int) -> None:
    for value in (0.0, 1.5, 1e-300, 1e300, float("inf"), 123456789):
        assert columns.numeric([numbers.quantity(Quantity(value), digits)])
    assert columns.numeric([numbers.interval(Interval(1e-9, 2e-9), digits)])
    assert not columns.numeric(["order 8.113"]) and not columns.numeric(["-", ""])
