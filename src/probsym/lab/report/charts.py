"""Charts as SVG, drawn by hand: lines over an axis, and dots along tracks. Colours are classes of the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

from probsym.lab.colours import COLOURS
from probsym.lab.report.names import said
from probsym.lab.report.scales import Scale, written

WIDTH, HEIGHT = 340, 240
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 12, 40
TRACK = 40
MOST_LETTERS = 44
GREY = 7


class Line(NamedTuple):
    """A line through points in order; few points are also shown as dots, and references are dashed."""

    label: str
    points: Sequence[tuple[float, float]]
    colour: int
    dashed: bool = False


class Span(NamedTuple):
    """Values that axes must hold besides those drawn, so that several charts have the same axes."""

    x: Sequence[float] = ()
    y: Sequence[float] = ()


class Track(NamedTuple):
    """One line of a dot chart: its title, and a dot with a label, value, colour and margin for each number.

    References are labels and values of upright dashes in grey.
    """

    title: str
    dots: Sequence[tuple[str, float, int, float]]
    references: Sequence[tuple[str, float]] = ()


EVERYTHING = Span()


def shade(colour: int) -> str:
    """The class of a colour; after the last one they begin again, dashed."""
    return f"c{colour % len(COLOURS)}{' again' if colour >= len(COLOURS) else ''}"


def kind_of(line: Line) -> str:
    """The classes of a line, and of its key in a legend."""
    return f"{shade(line.colour)}{' reference' if line.dashed else ''}"


def line_chart(
    title: str,
    lines: Sequence[Line],
    x_title: str,
    y_title: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    span: Span = EVERYTHING,
) -> str:
    """Lines over a common axis."""
    xs = Scale.over([*span.x, *(x for line in lines for x, _ in line.points)], LEFT + 4, WIDTH - RIGHT - 6, log_x)
    ys = Scale.over([*span.y, *(y for line in lines for _, y in line.points)], HEIGHT - BOTTOM, TOP + 14, log_y)
    body = [_y_axis(ys), _x_axis(xs, HEIGHT - BOTTOM)]
    body.append(f'<text class="name" x="4" y="{TOP}">{escape(y_title)}</text>')
    body.append(f'<text class="tick" x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{escape(x_title)}</text>')
    # references first, so that they lie below
    body += [_line(one, xs, ys) for one in sorted(lines, key=lambda one: not one.dashed)]
    summary = "; ".join(
        f"{one.label}: {said(one.points[0][1])} to {said(one.points[-1][1])}" for one in lines if one.points
    )
    return _svg(title, f"{y_title} by {x_title}. {summary}", HEIGHT, body)


def ends(track: Track) -> list[float]:
    """A track's dots, where their bars begin and end, and its references."""
    bars = [end for _, value, _, margin in track.dots for end in (value, value - margin, value + margin)]
    return [*bars, *(value for _, value in track.references)]


def dot_chart(title: str, tracks: Sequence[Track], x_title: str, *, log: bool = False, span: Span = EVERYTHING) -> str:
    """One track a line, its title above it, and dots along a common axis."""
    top, below = TOP + 8, 24
    height = top + TRACK * len(tracks) + 8 + below
    xs = Scale.over([*span.x, *(end for one in tracks for end in ends(one))], 12, WIDTH - RIGHT - 8, log)
    body = [f'<text class="name" x="4" y="{TOP}">{escape(x_title)}</text>', _x_axis(xs, height - below, top)]
    values = [", ".join(said(value, 3) for _, value, _, _ in track.dots) for track in tracks]
    room = all(len(track.title) + len(text) < MOST_LETTERS for track, text in zip(tracks, values, strict=True))
    for place, track in enumerate(tracks):
        y = top + TRACK * place + 28
        body.append(f'<text class="track" x="4" y="{y - 12}">{escape(track.title)}</text>')
        if room:
            text = f'x="{WIDTH - RIGHT}" y="{y - 12}" text-anchor="end">{values[place]}'
            body.append(f'<text class="tick" {text}</text>')
        body.append(f'<line class="grid" x1="4" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        body += [*_references(track, xs, y), *_dots(track, xs, y)]
    summary = "; ".join(f"{one.title}: {', '.join(_spoken(one))}" for one in tracks)
    return _svg(title, f"{x_title}. {summary}", height, body)


def _svg(title: str, description: str, height: float, body: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(f"{title}. {description}")}">'
        f"<title>{escape(title)}</title>{''.join(body)}</svg>"
    )


def _y_axis(ys: Scale) -> str:
    parts = []
    for tick in ys.ticks():
        y = ys(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{written(tick)}</text>')
    return "".join(parts)


def _x_axis(xs: Scale, y: float, top: float | None = None) -> str:
    parts = [f'<line class="axis" x1="{xs.start - 4:g}" x2="{WIDTH - RIGHT}" y1="{y:g}" y2="{y:g}"/>']
    for tick in xs.ticks():
        x = xs(tick)
        if top is not None:
            parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{y:g}"/>')
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{y:g}" y2="{y + 4:g}"/>')
        anchor = "end" if x > WIDTH - 24 else "start" if x < 14 else "middle"
        parts.append(f'<text class="tick" x="{x:.1f}" y="{y + 16:g}" text-anchor="{anchor}">{written(tick)}</text>')
    return "".join(parts)


def _line(line: Line, xs: Scale, ys: Scale) -> str:
    places = [(xs(x), ys(y)) for x, y in line.points if xs.has(x) and ys.has(y)]
    parts = [f'<g class="line {kind_of(line)}"><title>{escape(line.label)}</title>']
    if len(places) > 1:
        parts.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>')
    if len(places) < 16 and not line.dashed:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places]
    return "".join([*parts, "</g>"])


def _spoken(track: Track) -> Iterator[str]:
    for label, value, _, margin in track.dots:
        yield f"{label} {said(value)}" + (f" ± {said(margin, 2)}" if margin else "")
    yield from (f"{label} {said(value)}" for label, value in track.references)


def _references(track: Track, xs: Scale, y: float) -> list[str]:
    return [
        f'<g class="dot {shade(GREY)} reference"><title>{escape(label)}: {said(value)}</title>'
        f'<line x1="{xs(value):.1f}" x2="{xs(value):.1f}" y1="{y - 8:g}" y2="{y + 9:g}"/></g>'
        for label, value in track.references
        if xs.has(value)
    ]


def _dots(track: Track, xs: Scale, middle: float) -> list[str]:
    parts = []
    for place, (label, value, colour, margin) in enumerate(track.dots):
        if not xs.has(value):
            continue
        y = middle + 5 * (place - (len(track.dots) - 1) / 2)  # apart, so that none hides another
        parts.append(f'<g class="dot {shade(colour)}"><title>{escape(label)}: {said(value)}</title>')
        if margin:
            low = xs(value - margin) if xs.has(value - margin) else xs.start
            high = xs(value + margin) if xs.has(value + margin) else xs.end
            parts.append(f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y:g}" y2="{y:g}"/>')
        parts.append(f'<circle cx="{xs(value):.1f}" cy="{y:g}" r="4.5"/></g>')
    return parts
