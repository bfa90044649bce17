"""Pictures: the plain data behind them, the files that matplotlib writes, and the charts in plain characters."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from dpbudget.answers import pictures
from dpbudget.errors import InputError
from dpbudget.render import chart, plot
from dpbudget.report import Picture, Series
from dpbudget.run import resolve

RUN = ("--sigma", "1.1", "-q", "0.01", "-t", "500", "-d", "1e-5")
CURVE = Picture(
    "Title", "steps", "epsilon", [Series("upper", [1, 10, 100], [1.0, 2.0, 4.0], [0.5, 1.5, 3.5], [1.0, 2.0, 4.0]),
                                  Series("other", [1, 10, 100], [1.5, 3.0, 6.0], look="dashed")], "What it assumes.",
)  # fmt: skip


def words(svg: bytes) -> str:
    """Every text of an SVG: matplotlib names it in a comment beside its outlines."""
    return "\n".join(part.split("-->")[0].strip() for part in svg.decode().split("<!--")[1:])


# --- data -------------------------------------------------------------------------------------------------------------


def test_epsilon_over_steps_is_what_epsilon_says(dpbudget) -> None:
    run = resolve({"noise_multiplier": 1.1, "sampling_rate": 0.01, "steps": 500})
    picture = pictures.over_steps(run, 1e-5)
    assert picture is not None
    pld, rdp = picture.series
    assert pld.x[-1] == 500 and list(pld.x) == sorted(pld.x)
    assert list(pld.y) == sorted(pld.y) and list(pld.y) == list(pld.high)
    assert all(low <= high for low, high in zip(pld.low, pld.high, strict=True))
    assert all(tight <= loose for tight, loose in zip(pld.low, rdp.y, strict=True))
    for steps, low, high in list(zip(pld.x, pld.low, pld.high, strict=True))[::4]:
        typed = dpbudget(
            "epsilon", "--sigma", "1.1", "-q", "0.01", "-t", int(steps), "-d", "1e-5", "--json", "--quiet"
        ).json
        epsilon = typed["result"]["epsilon"]
        # the picture's band is computed at a tolerance of 1e-3, and both bands contain the truth
        assert low <= epsilon["upper"] and epsilon["lower"] <= high
        assert high == pytest.approx(epsilon["upper"], rel=2e-3)
    assert "sigma = 1.1" in picture.caption and "add-or-remove-one" in picture.caption


def test_shuffled_runs_are_drawn_at_whole_epochs_with_their_wide_band() -> None:
    run = resolve({"noise_multiplier": 1.2, "batch_size": 64, "dataset_size": 600, "epochs": 4, "sampling": "shuffle"})
    picture = pictures.over_steps(run, 1e-5)
    assert picture is not None
    band = picture.series[0]
    assert all(x % 10 == 0 for x in band.x)
    assert band.high[-1] > 1.1 * band.low[-1]


@pytest.mark.parametrize("given", [{"steps": 0}, {"steps": 5, "noise_multiplier": 0}])
def test_nothing_to_draw(given: dict[str, int]) -> None:
    assert pictures.over_steps(resolve({"noise_multiplier": 1, "sampling_rate": 0.1, **given}), 1e-5) is None


def test_accuracy_leaves_out_what_has_no_epsilon() -> None:
    spread = {"mean": 0.9, "sd": 0.2, "lowest": 0.5, "highest": 1.0}
    picture = pictures.accuracy([(3.0, spread), (1.0, spread), (math.inf, spread)], spread, "")
    assert picture is not None
    assert picture.series[0].x == [1.0, 3.0] and max(picture.series[0].high) == 100
    assert pictures.accuracy([(math.inf, spread)], spread, "") is None


def test_trade_off_of_a_single_point() -> None:
    fpr = [0.001, 0.01, 0.1, 0.5, 0.9]
    picture = pictures.trade_off(fpr, [2 * x / (1 + x) for x in fpr], 1.0, 1e-5, "")
    single = picture.series[1].y
    assert single[0] == pytest.approx(math.e * 0.001 + 1e-5)
    assert single[-1] == pytest.approx(1 - math.exp(-1) * (1 - 1e-5 - 0.9))
    assert all(0 <= y <= 1 for y in single)


# --- files ------------------------------------------------------------------------------------------------------------


def test_svg_says_what_it_shows_and_is_the_same_every_time() -> None:
    first, again = plot.draw(CURVE, ".svg"), plot.draw(CURVE, ".svg")
    assert first == again
    assert {"Title", "steps", "epsilon", "upper", "other", "What it assumes."} <= set(words(first).split("\n"))


def test_png_is_a_png_of_a_readable_size() -> None:
    data = plot.draw(CURVE, ".PNG")
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20]) >= 1000 and int.from_bytes(data[20:24]) >= 700


def test_lines_differ_without_colour() -> None:
    assert len(set(map(str, plot.DASHES))) == len(plot.DASHES) == len(set(plot.MARKERS)) == len(plot.COLOURS)

    def grey(colour: str) -> float:
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        return 0.299 * red + 0.587 * green + 0.114 * blue

    assert abs(grey(plot.COLOURS[0]) - grey(plot.COLOURS[1])) > 40
    ramp = [sum(plot._ramp(i, 9)) for i in range(9)]
    assert ramp == sorted(ramp, reverse=True)


def test_dollars_are_no_formula() -> None:
    odd = Picture("a$b$c", "x", "y", [Series("$x_1$", [1, 2], [1, 2])], "costs $5 and $6")
    assert "costs $5 and $6" in words(plot.draw(odd, ".svg")).replace("\\", "")


@pytest.mark.parametrize("command", ["epsilon", "plan", "simulate", "federated"])
def test_plot_option(dpbudget, tmp_path: Path, command: str) -> None:
    arguments = {
        "epsilon": ("epsilon", *RUN), "plan": ("plan", "-e", "3", "-d", "1e-5", "-n", "5000", "-b", "64,256", "-E", "1,5"),
        "simulate": ("simulate", "--sigma", "1,4", "-d", "1e-4", "-r", "2", "-E", "2"),
        "federated": ("simulate", "federated", "--sigma", "1", "-d", "1e-4", "-r", "1", "--rounds", "2"),
    }[command]  # fmt: skip
    path = tmp_path / "picture.svg"
    bare = dpbudget(*arguments, "--quiet")
    ran = dpbudget(*arguments, "--quiet", "--plot", path)
    assert ran.code == 0 and ran.out == bare.out  # the picture changes no word of the report
    label = {"epsilon": "steps (noisy updates)", "plan": "examples processed (steps x batch)"}
    shown = words(path.read_bytes())
    assert label.get(command, "epsilon (proven upper end)") in shown
    assert "neighbours" in shown  # the assumptions stand below the picture
    assert [p.name for p in tmp_path.iterdir()] == ["picture.svg"]


@pytest.mark.parametrize("name", ["picture.pdf", "picture", "nowhere/picture.svg", "."])
def test_a_file_that_can_not_be_drawn_is_said_first(dpbudget, tmp_path: Path, name: str) -> None:
    ran = dpbudget("epsilon", *RUN, "--plot", tmp_path / name)
    assert ran.code == 2 and ran.err.startswith("error: --plot:") and not ran.out


def test_without_matplotlib(dpbudget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = dpbudget("epsilon", *RUN, "--plot", tmp_path / "picture.svg")
    assert ran.code == 2 and "pip install matplotlib" in ran.err
    with pytest.raises(InputError):
        plot.check(".svg")


def test_nothing_to_draw_writes_nothing(dpbudget, tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    ran = dpbudget("epsilon", "--sigma", "0", "-q", "0.1", "-t", "10", "-d", "1e-5", "--plot", path)
    assert ran.code == 4 and "nothing to draw" in ran.err and not path.exists()


# --- plain characters -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("logs", [(False, False), (True, False), (True, True)])
def test_chart_fits_and_has_no_escape_codes(width: int, logs: tuple[bool, bool]) -> None:
    picture = Picture(CURVE.title, CURVE.x_label, CURVE.y_label, CURVE.series, "", *logs, marks=[(10, 2.0, "best")])
    drawn = chart.draw(picture, width)
    assert all(len(line) <= width for line in drawn.split("\n"))
    assert drawn.isascii() and all(c.isprintable() or c == "\n" for c in drawn)
    assert "epsilon" in drawn and "steps" in drawn and "! best" in drawn and "*.* upper (: its band)" in drawn


def test_points_stand_where_they_belong() -> None:
    drawn = chart.draw(Picture("t", "x", "y", [Series("s", [0, 50, 100], [0, 5, 10], look="points")]), 60).split("\n")
    rows = [line for line in drawn if ("*" in line and "|" in line) or ("+" in line and "*" in line)]
    columns = [line.index("*") for line in rows]
    assert len(rows) == 3 and columns == sorted(columns, reverse=True)
    assert rows[0].split()[0] == "10" and rows[-1].split()[0] == "0"  # the largest value on top, beside its tick
    assert columns[1] - columns[2] == pytest.approx(columns[0] - columns[1], abs=1)


@pytest.mark.parametrize(
    "series",
    [
        Series("one", [5.0], [2.0]), Series("flat", [1, 2, 3], [7.0, 7.0, 7.0]), Series("tiny", [1, 2], [1e-12, 3e-12]),
        Series("wide", [1, 1e9], [1e-3, 1e6]), Series("none", [], []), Series("zero", [0, 1], [0.0, 0.0]),
    ],
)  # fmt: skip
def test_odd_series_are_drawn(series: Series) -> None:
    for logs in ((False, False), (True, True)):
        drawn = chart.draw(Picture("t", "x", "y", [series], "", *logs), 60)
        assert "*" in drawn or "nothing to draw" in drawn


@pytest.mark.parametrize(("low", "high", "most"), [(0, 1, 6), (3, 17, 6), (0.1, 0.10002, 5), (-4, 9, 5)])
def test_ticks_are_round_and_inside(low: float, high: float, most: int) -> None:
    ticks = chart.Axis(low, high, 20, False).ticks(most)
    assert 2 <= len(ticks) <= most and all(low - 1e-12 <= t <= high + 1e-12 for t in ticks)


def test_verbose_text_has_the_chart_and_json_has_not(dpbudget) -> None:
    ran = dpbudget("epsilon", *RUN, "-v", "--quiet", columns=60)
    assert "Epsilon over 500 steps" in ran.out and "- - rdp: upper bound" in ran.out
    assert "picture" not in dpbudget("epsilon", *RUN, "--json", "--quiet").json
    assert "Epsilon over" not in dpbudget("epsilon", *RUN, "--quiet").out
