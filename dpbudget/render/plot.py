"""Pictures for a page: SVG or PNG by matplotlib, the extra `plot`. Lines differ in dash, marker and lightness, not hue alone."""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING, Any

from dpbudget.errors import InputError
from dpbudget.render import numbers
from dpbudget.report import Picture, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".svg", ".png")
# Dark to light, so that grey print keeps their order; dashes and markers tell them apart by themselves.
COLOURS = ("#08306b", "#b3500f", "#3f7d4e", "#8a6fb0", "#c79a1b", "#6b6b6b", "#4ea3c9", "#a3567b")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (3, 1)), (0, (8, 2)), (0, (2, 3)), (0, (6, 1, 1, 1)))
MARKERS = "osD^vPX*"
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "dpbudget",  # the same picture gives the same bytes
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#d9d9d9",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
}
INCHES = (7.0, 5.0)
DOTS = 150
FEW = 4


def check(suffix: str) -> None:
    """Raises InputError for another suffix, or where matplotlib is not installed."""
    if suffix.lower() not in SUFFIXES:
        wrong = f"can't be drawn as {suffix}" if suffix else "names a file without an ending"
        raise InputError("plot", wrong, hint="End it in .svg or .png.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(
            "plot",
            "needs matplotlib, which is not installed",
            hint="Run pip install matplotlib where dpbudget is installed.",
        ) from None


def draw(picture: Picture, suffix: str) -> bytes:
    """The bytes of an SVG or PNG file."""
    check(suffix)
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kind = suffix.lower().removeprefix(".")
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=INCHES, dpi=DOTS)
        FigureCanvasAgg(figure)
        caption = textwrap.fill(_literal(picture.caption), 112)
        foot = 0.035 * (caption.count("\n") + 1) + 0.03 if caption else 0.02
        beside = 0.16 if len(picture.series) > FEW else 0.0
        axes = figure.add_axes((0.125, foot + 0.105, 0.845 - beside, 0.81 - foot))
        _fill(axes, picture)
        figure.text(0.125, 0.955, textwrap.shorten(_literal(picture.title), 90), size=12, weight="bold", va="center")
        figure.text(0.03, 0.02, caption, size=8, color="#404040", va="bottom", linespacing=1.3)
        buffer = io.BytesIO()
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(buffer, format=kind, dpi=DOTS, metadata=metadata)
    return buffer.getvalue()


def _literal(text: str) -> str:
    """matplotlib reads what stands between dollar signs as a formula."""
    return text.replace("$", r"\$")


def _fill(axes: Axes, picture: Picture) -> None:
    many = len(picture.series) > FEW
    for index, series in enumerate(picture.series):
        colour = _ramp(index, len(picture.series)) if picture.ranked else COLOURS[index % len(COLOURS)]
        _series(axes, series, index, colour)
    for x, y, word in picture.marks:
        axes.plot([x], [y], "o", markersize=13, markerfacecolor="none", markeredgecolor="black", markeredgewidth=1.4)
        paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0}
        axes.annotate(
            _literal(word), (x, y), xytext=(-14, 13), textcoords="offset points", size=9, weight="bold", ha="right",
            bbox=paper, zorder=5,
        )  # fmt: skip
    for scale, log, values in (
        ("x", picture.log_x, [v for s in picture.series for v in s.x]),
        ("y", picture.log_y, [v for s in picture.series for v in [*s.y, *s.low, *s.high]]),
    ):
        if log and values and min(values) > 0:
            axes.set(**{f"{scale}scale": "log"})
            _plain_ticks(axes, scale)
    axes.set_xlabel(_literal(picture.x_label))
    axes.set_ylabel(_literal(picture.y_label))
    axes.margins(0.04)
    if picture.from_zero:
        axes.set_ylim(bottom=0)
    handles, labels = axes.get_legend_handles_labels()
    if many:  # beside the plot, in the order in which ranked lines usually lie
        axes.legend(
            handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9
        )
    elif len(labels) > 1 or picture.series[0].low:
        axes.legend(frameon=True, framealpha=0.9, edgecolor="#d9d9d9", fontsize=9)


def _ramp(index: int, count: int) -> tuple[float, float, float]:
    """From light to dark blue: the order of ranked series survives grey print."""
    share = index / max(1, count - 1)
    light, dark = (0.62, 0.75, 0.88), (0.03, 0.10, 0.30)
    red, green, blue = (a + share * (b - a) for a, b in zip(light, dark, strict=True))
    return red, green, blue


def _series(axes: Axes, series: Series, index: int, colour: Any) -> None:
    dash = DASHES[index % len(DASHES)]
    look: dict[str, Any] = {"color": colour, "label": _literal(series.label), "zorder": 3}
    if series.look == "points":
        axes.plot(series.x, series.y, MARKERS[index % len(MARKERS)], **look)
    elif series.look == "dashed":
        axes.plot(series.x, series.y, linestyle=(0, (6, 3) if index < 2 else (1.5, 2)), linewidth=1.5, **look)
    else:
        dense = len(series.x) > 40
        axes.plot(series.x, series.y, linestyle=dash, linewidth=1.8, markersize=0 if dense else 4.5,
                  marker=MARKERS[index % len(MARKERS)], **look)  # fmt: skip
    if series.low:
        axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.18, linewidth=0, zorder=2)


def _plain_ticks(axes: Axes, scale: str) -> None:
    """3, 10, 30 instead of powers, at a handful of places."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    chosen = axes.xaxis if scale == "x" else axes.yaxis
    low, high = chosen.get_view_interval()
    decades = high / low
    subs = (1.0, 2.0, 5.0) if decades < 300 else (1.0,)
    chosen.set_major_locator(LogLocator(subs=subs, numticks=12))
    chosen.set_major_formatter(FuncFormatter(lambda value, _: numbers.number(value, 3)))
    chosen.set_minor_formatter(NullFormatter())
