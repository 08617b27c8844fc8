"""Charts as SVG by matplotlib: lines over an axis, and dots along tracks. Their colours are variables of the page."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probsym.lab.colours import COLOURS
from probsym.lab.report.inline_svg import inline
from probsym.lab.report.load import METHODS, split_row
from probsym.lab.text import brief

WIDTH, HEIGHT, TRACK = 340, 240, 40
"""Of a chart, and the height of a track, in points."""
INK, SOFT, RULE, PAPER = "#1d2127", "#59616c", "#e2e4e7", "#ffffff"
VARIABLES = {INK: "--ink", SOFT: "--soft", RULE: "--rule", PAPER: "--paper"}
VARIABLES |= {colour: f"--c{place}" for place, colour in enumerate(COLOURS)}
GREY = len(COLOURS) - 1
LARGEST = 1e100
"""Larger numbers, and on a logarithmic axis those below its inverse, are drawn at the edge."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "probsym",
    "text.parse_math": False,  # a dollar in a file's text is a dollar
    "path.simplify": False,
    "font.size": 11,
    "text.color": INK,
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
    "axes.edgecolor": SOFT,
    "axes.grid": True,
    "grid.color": RULE,
    "lines.markeredgecolor": PAPER,
    "lines.dashed_pattern": (3, 2),
}


class Series(NamedTuple):
    """A line through points in order; few points are also shown as dots, and references are dashed."""

    label: str
    points: Sequence[tuple[float, float]]
    colour: int
    reference: bool = False


class Dot(NamedTuple):
    """A value with the half of its bar."""

    label: str
    value: float
    colour: int
    margin: float = 0.0


class Track(NamedTuple):
    """A line of a dot chart: title, dots, and labelled values that are marked by dashes."""

    title: str
    dots: Sequence[Dot]
    references: Sequence[tuple[str, float]] = ()

    @property
    def ends(self) -> list[float]:
        """All that the axis has to hold."""
        bars = [dot.value + side * dot.margin for dot in self.dots for side in (-1, 0, 1)]
        return [*bars, *(value for _, value in self.references)]


def css_class(colour: int, reference: bool = False) -> str:
    """The classes of a legend's key; after the last colour they begin again, dashed."""
    dashed = " dashed" if reference or colour >= len(COLOURS) else ""
    return f"c{colour % len(COLOURS)}{dashed}"


def colours_of(labels: Iterable[str]) -> dict[str, int]:
    """A colour for each label: that of its method where these tell them apart, else one after the other.

    >>> colours_of(["mlp-ps", "mlp-ga", "gin"]), colours_of(["gnn-ps", "egnn-ps"])
    ({'mlp-ps': 1, 'mlp-ga': 0, 'gin': 6}, {'gnn-ps': 0, 'egnn-ps': 1})
    """
    methods = {label: label if label in METHODS else split_row(f"/{label}").method for label in labels}
    known = [method for method in methods.values() if method]
    if not known or len(set(known)) < len(known):
        return {label: place for place, label in enumerate(methods)}
    others = [label for label, method in methods.items() if not method]
    return {
        label: METHODS.index(method) if method else len(METHODS) + others.index(label)
        for label, method in methods.items()
    }


def line_chart(
    title: str,
    lines: Sequence[Series],
    x_title: str,
    y_title: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    span: Sequence[tuple[float, float]] = (),
) -> str:
    """Lines over a common axis, which also holds the points of `span`: so several charts have the same axes."""
    with mpl.rc_context(STYLE):
        figure, axes = _figure(HEIGHT, y_title, left=48, bottom=38)
        points = [*span, *(point for line in lines for point in line.points)]
        _scale(axes, "x", [x for x, _ in points], log_x)
        _scale(axes, "y", [y for _, y in points], log_y)
        axes.grid(visible=False, axis="x")
        figure.text(1 - 12 / WIDTH, 5 / HEIGHT, _printable(x_title), color=SOFT, ha="right")
        names = {f"line-{place}": line.label for place, line in enumerate(lines)}
        for name, line in zip(names, lines, strict=True):
            axes.plot(
                [_drawn(x, log_x) for x, _ in line.points],
                [_drawn(y, log_y) for _, y in line.points],
                color=COLOURS[line.colour % len(COLOURS)],
                linestyle="--" if "dashed" in css_class(line.colour, line.reference) else "-",
                marker="o" if len(line.points) < 16 and not line.reference else "",
                zorder=2 if line.reference else 3,
                gid=name,
            )
        ends = [(line.label, *(brief(line.points[end][1]) for end in (0, -1))) for line in lines if line.points]
        spoken = "; ".join(f"{label}: {first} to {last}" for label, first, last in ends)
        return _svg(figure, title, f"{y_title} by {x_title}. {spoken}", names)


def dot_chart(
    title: str, tracks: Sequence[Track], x_title: str, *, log: bool = False, span: Sequence[float] = ()
) -> str:
    """One track per line, its title above it, and dots along a common axis, which also holds `span`."""
    with mpl.rc_context(STYLE):
        figure, axes = _figure(54 + TRACK * len(tracks), x_title, left=12, bottom=24)
        _scale(axes, "x", [*span, *(end for track in tracks for end in track.ends)], log)
        axes.set_ylim(TRACK * len(tracks) + 8, 0)
        axes.set_yticks([])
        names, spoken = {}, []
        for place, track in enumerate(tracks):
            y, texts = TRACK * place + 28, []
            axes.axhline(y, color=RULE, linewidth=0.8)
            axes.text(0, y - 12, _printable(track.title), transform=axes.get_yaxis_transform())
            for label, value in track.references:
                name = f"reference-{place}"
                axes.plot([_drawn(value, log)] * 2, [y - 8, y + 8], "--", color=COLOURS[GREY], gid=name)
                names[name] = f"{label}: {brief(value)}"
            for order, dot in enumerate(track.dots):
                beside = y + 5 * (order - (len(track.dots) - 1) / 2)  # so that none hides another
                low, middle, high = (_drawn(dot.value + side * dot.margin, log) for side in (-1, 0, 1))
                bar = [axes.get_xlim()[0] if math.isnan(low) else low, middle, high]
                colour, name = COLOURS[dot.colour % len(COLOURS)], f"dot-{place}-{order}"
                axes.plot(bar, [beside] * 3, color=colour, marker="o", markersize=9, markevery=[1], gid=name)
                names[name] = f"{dot.label}: {brief(dot.value)}"
                texts.append(f"{dot.label} {brief(dot.value)}" + (f" ± {brief(dot.margin, 2)}" if dot.margin else ""))
            texts += [f"{label} {brief(value)}" for label, value in track.references]
            spoken.append(f"{track.title}: {', '.join(texts)}")
        return _svg(figure, title, f"{x_title}. {'; '.join(spoken)}", names)


def _figure(height: float, title: str, *, left: float, bottom: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH / 72, height / 72), facecolor="none")
    figure.text(4 / WIDTH, 1 - 14 / height, _printable(title))
    place = (left / WIDTH, bottom / height, 1 - (left + 16) / WIDTH, 1 - (bottom + 22) / height)
    axes = figure.add_axes(place, facecolor="none", axisbelow=True)
    axes.spines[["left", "top", "right"]].set_visible(False)
    axes.tick_params(length=0)
    return figure, axes


def _scale(axes: Axes, name: str, values: Sequence[float], log: bool) -> None:
    """Limits that hold all values that can be drawn, with a little room, and a few round ticks."""
    kept = [place for value in values if not math.isnan(place := _drawn(value, log))]
    low, high = (min(kept), max(kept)) if kept else (1.0, 10.0)
    room = 0.04 * (high - low) or 0.1 * abs(high) or 1.0
    limits = (low / 1.15, high * 1.15) if log else (0.0 if 0 <= low < 0.25 * high else low - room, high + room)
    axes.set(**{f"{name}scale": "log" if log else "linear", f"{name}lim": limits})
    axis = axes.xaxis if name == "x" else axes.yaxis
    times = limits[1] / limits[0] if log else 1.0
    powers = ticker.LogLocator(subs=(1,) if times > 300 else (1, 2, 5), numticks=5)
    axis.set_major_locator(powers if times > 5 else ticker.MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter("{x:.4g}")
    axis.set_minor_locator(ticker.NullLocator())


def _drawn(value: float, log: bool) -> float:
    """Where a value is drawn; NaN if it cannot be."""
    if math.isnan(value) or (log and value <= 0):
        return math.nan
    return max(min(value, LARGEST), 1 / LARGEST if log else -LARGEST)


def _printable(text: str) -> str:
    """Without characters that XML may not hold."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _svg(figure: Figure, title: str, description: str, names: dict[str, str]) -> str:
    buffer = io.StringIO()
    with warnings.catch_warnings(action="ignore"):  # letters that matplotlib's fonts lack: the page has its own fonts
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return inline(buffer.getvalue(), title, description, names, VARIABLES)
