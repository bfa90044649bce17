"""Edits of a budget file: what changes, and that nothing else does."""

from __future__ import annotations

import tomllib

import pytest
from conftest import patience
from hypothesis import given
from hypothesis import strategies as st
from test_budgetfile import DESIGN, HEAD

from dpbudget.budgetfile import load
from dpbudget.budgetfile.edit import append_release, append_releases, set_value, template, toml_value
from dpbudget.budgetfile.values import Decimal
from dpbudget.errors import InputError
from dpbudget.model import Adjacency

ENTRY = {"name": "new", "status": "spent", "mechanism": "zcdp", "rho": 0.25}


def test_solve_writes_its_answer_and_keeps_the_comment() -> None:
    changed = set_value(DESIGN, 1, "noise_multiplier", "0.93417")
    assert changed == DESIGN.replace('"solve" ', "0.93417 ")
    assert load(changed, filename="b.toml").releases[1].parameters["noise_multiplier"] == 0.93417


def test_a_key_that_is_not_there_becomes_the_last_line_of_its_release() -> None:
    changed = set_value(DESIGN, 0, "count", "3")
    assert changed == DESIGN.replace('sampling = "poisson"\n', 'sampling = "poisson"\ncount = 3\n')
    assert set_value(DESIGN.rstrip("\n"), 1, "count", "3") == DESIGN + "count = 3\n"


@pytest.mark.parametrize(
    ("text", "key", "before", "after"),
    [
        ('[[release]]\n"steps"=1#x', "steps", "=1#", "=2#"),
        ("[[release]]\nsteps = 1\r\nname = 'a'\r\n", "steps", "= 1\r", "= 2\r"),
        ('[[release]]\nname = """\nsteps = 1\n"""\nsteps = 1  \n', "steps", "\nsteps = 1  ", "\nsteps = 2  "),
        ('release = [{name = "a", steps = 1}]', "steps", "steps = 1", "steps = 2"),
        ("release = [{steps=[1,\n2]}]", "steps", "[1,\n2]", "2"),
        ("\ufeff[[release]]\nsteps = 1", "steps", "= 1", "= 2"),
        ("[[release]]\n[release.sub]\nx=1\n[[other]]\ny=2", "steps", "[[release]]\n", "[[release]]\nsteps = 2\n"),
        ("[[release]]\r\na = 1 # b\r\n\r\n[budget]\r\n", "steps", "# b\r\n", "# b\r\nsteps = 2\r\n"),
        ("[[release]]", "steps", "[[release]]", "[[release]]\nsteps = 2\n"),
        ("[[release]]\nx = [\n[1],\n] # end\n#z\n", "steps", "# end\n", "# end\nsteps = 2\n"),
        ("[[release]]\na.b = 1\n#z\n", "steps", "a.b = 1\n", "a.b = 1\nsteps = 2\n"),
    ],
)
def test_only_the_value_changes(text: str, key: str, before: str, after: str) -> None:
    assert text.count(before) == 1
    assert set_value(text, 0, key, "2") == text.replace(before, after)


@pytest.mark.parametrize("value", ["1\nstatus = 'spent'", "", "1 # x\ny = 2", "nope", '"', "[", "1, 2", "{a = 1}\n[x]"])
def test_a_value_that_would_say_more_than_one_thing_is_refused(value: str) -> None:
    with pytest.raises(InputError):
        set_value(DESIGN, 1, "noise_multiplier", value)


@pytest.mark.parametrize(
    ("text", "release"),
    [
        (DESIGN, 2),
        (DESIGN, -3),
        (HEAD, 0),
        ("release = 3", 0),
        ("release = [1]", 0),
        ("x = ", 0),
        ("a." * 99 + "b=1", 0),
    ],
)
def test_a_release_that_is_not_there(text: str, release: int) -> None:
    with pytest.raises(InputError):
        set_value(text, release, "steps", "1")


def test_a_new_key_of_an_inline_release_is_refused() -> None:
    with pytest.raises(InputError, match="not written as"):
        set_value("release = [{steps = 1}]", 0, "count", "1")


def test_append() -> None:
    changed = append_release(DESIGN, ENTRY)
    written = '\n[[release]]\nname = "new"\nstatus = "spent"\nmechanism = "zcdp"\nrho = 0.25\n'
    assert changed == DESIGN + written
    assert append_release(DESIGN.rstrip("\n"), ENTRY) == DESIGN + written
    assert append_release(DESIGN + "\n", ENTRY) == DESIGN + written
    assert append_release("", ENTRY) == written.removeprefix("\n")
    windows = DESIGN.replace("\n", "\r\n")
    assert append_release(windows, ENTRY) == windows + written.replace("\n", "\r\n")


def test_append_many_at_once() -> None:
    entries = [{**ENTRY, "name": f"new {index}"} for index in range(3000)]
    with patience(60):  # one check for all takes a second, appending one by one minutes
        changed = append_releases(DESIGN, entries)
    assert len(load(changed, filename="b.toml").releases) == 3002
    assert append_releases(DESIGN, entries[:2]) == append_release(append_release(DESIGN, entries[0]), entries[1])
    assert append_releases(DESIGN, []) == DESIGN


@pytest.mark.parametrize(
    "text", ['release = [{name = "a"}]', "release = 1", "[release]\na=1", "x = ", 'x = """', "[" * 99]
)
def test_append_where_it_cannot_be(text: str) -> None:
    with pytest.raises(InputError):
        append_release(text, ENTRY)


def test_a_file_that_ends_in_a_comment_or_inside_a_table() -> None:
    text = DESIGN + "  # the end"
    assert append_release(text, ENTRY).startswith(text + "\n\n[[release]]\n")
    assert len(load(append_release(HEAD, ENTRY), filename="b.toml").releases) == 1


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_comes_back(name: str) -> None:
    changed = append_release(DESIGN, {**ENTRY, "name": name})
    assert changed.startswith(DESIGN)
    assert tomllib.loads(changed)["release"][2]["name"] == name
    # Nothing of the name can end the line or steer a terminal.
    assert all(line.isprintable() for line in changed[len(DESIGN) :].split("\n"))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_double_comes_back(value: float) -> None:
    changed = append_release(HEAD, {"name": "a", "rho": value})
    assert tomllib.loads(changed)["release"][0]["rho"] == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), "\ud800"])
def test_what_cannot_be_written_is_refused(value: float | str) -> None:
    with pytest.raises(InputError):
        append_release(HEAD, {"name": "a", "rho": value})


def test_values_as_toml() -> None:
    assert [toml_value(value) for value in (True, 3, 1e-5, 1e22, Decimal("1e-5"), Decimal("0.10"), "a\t\x7f\x85é\U000e0001")] == [
        "true", "3", "1e-05", "1e+22", "1e-5", "0.10", '"a\\t\\u007F\\u0085é\\U000E0001"',
    ]  # fmt: skip


LINES = st.sampled_from(
    ["", "# [[release]] steps = 1", "[[release]]", "[budget]", "steps = 1", "steps = 1.50 # one", "name = 'a'", "x = [1,",
     "]", '"""', "y = '''", "'''", "[release.sub]", "'q' = {a=1}", "a.b = 2", "\ufeff", "release = []"]
)  # fmt: skip


@given(st.lists(LINES), st.sampled_from(["\n", "\r\n"]), st.integers(0, 2), st.sampled_from(["steps", "name", "count"]))
def test_an_edit_keeps_every_other_byte(lines: list[str], newline: str, release: int, key: str) -> None:
    text = newline.join(lines)
    try:
        changed = set_value(text, release, key, "7")
    except InputError:
        return
    start = 0
    while start < min(len(text), len(changed)) and text[start] == changed[start]:
        start += 1
    end = 0
    while end < min(len(text), len(changed)) - start and text[-1 - end] == changed[-1 - end]:
        end += 1
    # One place changed, by no more than one short line; what tomllib then reads differs in that one key.
    assert len(changed) - end - start <= len(f"{key} = 7{2 * newline}")
    before, after = tomllib.loads(text.removeprefix("\ufeff")), tomllib.loads(changed.removeprefix("\ufeff"))
    assert after["release"][release].pop(key) == 7
    before["release"][release].pop(key, None)
    assert before == after


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_template_is_a_valid_file(adjacency: Adjacency) -> None:
    document = load(template(epsilon=3, delta=1e-6, adjacency=adjacency, unit="client"), filename="b.toml")
    assert (document.budget.epsilon, document.budget.delta) == (3, 1e-6)
    assert (document.budget.adjacency, document.budget.unit) == (adjacency, "client")
    assert document.unknown == (document.releases[0], "noise_multiplier")
    assert set_value(template(), 0, "noise_multiplier", "1.5").count("solve") == 1  # in the comment
