"""Charts: everything drawn lies inside and has a name, whatever the numbers and texts are."""

from __future__ import annotations

import math
import re

import pytest

from probsym.lab.report.charts import HEIGHT, WIDTH, Dot, Series, Track, css_class, dot_chart, line_chart
from tests.lab.report.svg import Drawn

CURVES = {
    "plain": [(1.0, 2.0), (2.0, 5.0), (3.0, -1.0)],
    "one point": [(5.0, 5.0)],
    "constant": [(1.0, 0.0), (2.0, 0.0)],
    "huge": [(1.0, 1e300), (2.0, 1e-300)],
    "the largest": [(1.0, 1.7e308), (2.0, -1.7e308)],
    "large alone": [(1.7e308, 1.7e308)],
    "the smallest": [(1.0, 5e-324), (5e-324, 5e-324)],
    "tiny": [(1.0, 1e-14), (2.0, 1.01e-14)],
    "not finite": [(1.0, math.nan), (2.0, math.inf), (3.0, 1.0)],
    "nothing": [],
}


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("name", CURVES)
def test_lines_stay_inside(name: str, log: bool) -> None:
    chart = line_chart("title", [Series("one", CURVES[name], 1)], "x", "y", log_x=log, log_y=log)
    drawn = Drawn(chart)
    for x, y in (*drawn.paths[0], *drawn.markers[0]):
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT
    assert drawn.dots == sum(not math.isnan(y) and (y > 0 or not log) for _, y in CURVES[name])
    assert not re.search("nan|inf", re.sub(r'aria-label=".*?"', "", chart))


@pytest.mark.parametrize("log", [False, True])
def test_dots_and_bars_stay_inside(log: bool) -> None:
    tracks = [Track("a", [Dot("x", 1.0, 0, 2.0), Dot("y", 100.0, 1)]), Track("b", [Dot("x", 0.0, 0)]), Track("c", [])]
    drawn = Drawn(dot_chart("title", tracks, "x", log=log))
    assert drawn.dots == (2 if log else 3)
    assert all(0 <= x <= WIDTH for path in drawn.paths for x, _ in path)


def test_bars_longer_than_a_float_holds_end_with_the_chart() -> None:
    dots = [Dot("x", 1.7e308, 0, 1.7e308), Dot("y", -1.7e308, 1, 1.7e308)]
    drawn = Drawn(dot_chart("title", [Track("a", dots)], "x"))
    assert all(0 <= x <= WIDTH for path in drawn.paths for x, _ in path)
    assert drawn.dots == 2


def test_charts_have_names_and_escape_what_they_are_given() -> None:
    chart = line_chart("<b>", [Series('"<script>', [(1.0, 1.0), (2.0, 3.0)], 0)], "x<", 'y" $a_b$')
    assert 'role="img"' in chart
    assert "<title>&lt;b&gt;</title>" in chart
    assert "<script" not in chart
    drawn = Drawn(chart)
    assert drawn.titles == ['"<script>']
    assert drawn.root.get("aria-label") == '<b>. y" $a_b$ by x<. "<script>: 1 to 3'
    assert {"x<", 'y" $a_b$'} <= set(drawn.texts)  # text as text, and no mathematics


@pytest.mark.parametrize("text", ["\x00\x1b", "\ud800", "two\nlines", "图 $", "&amp;"])
def test_any_text_is_drawn(text: str) -> None:
    tracks = [Track(text, [Dot(text, 1.0, 0)], [(text, 2.0)])]
    for chart in (dot_chart(text, tracks, text), line_chart(text, [Series(text, [(1.0, 1.0)], 0)], text, text)):
        chart.encode(errors="replace")
        assert chart.startswith("<svg")


def test_references_are_dashed_and_colours_come_again() -> None:
    points = [(1.0, 1.0), (2.0, 2.0)]
    lines = [Series("a", points, 7, reference=True), Series("b", points, 10), Series("c", points, 2)]
    chart = line_chart("t", lines, "x", "y")
    styles = [style for style in re.findall(r'style="(.*?)"', chart) if "stroke: var(--c" in style]
    assert [re.findall(r"var\((--c\d)\)", style) for style in styles] == [["--c7"], ["--c2"], ["--c2"]]
    assert ["dasharray" in style for style in styles] == [True, True, False]
    assert [css_class(2), css_class(10), css_class(7, reference=True)] == ["c2", "c2 dashed", "c7 dashed"]


def test_charts_share_axes_over_a_span() -> None:
    span = [(0.0, 0.0), (10.0, 100.0)]
    short, long = ([(1.0, 1.0), (2.0, 2.0)], [(1.0, 1.0), (9.0, 90.0)])
    short_chart, long_chart = (
        Drawn(line_chart("t", [Series("a", points, 0)], "x", "y", span=span)) for points in (short, long)
    )
    assert short_chart.texts == long_chart.texts
    assert short_chart.paths[0][0] == long_chart.paths[0][0]


@pytest.mark.parametrize("low", [0.0, 1e-9, 3.0, -5.0, 6.9])
@pytest.mark.parametrize("high", [7.1, 1e6, 7e3])
@pytest.mark.parametrize("log", [False, True])
def test_ticks_are_few_and_inside(low: float, high: float, log: bool) -> None:
    if not log or low > 0:
        drawn = Drawn(line_chart("t", [Series("a", [(1.0, low), (2.0, high)], 0)], "epoch", "loss", log_y=log))
        texts = [element for element in drawn.root.iter("text") if "end" in element.get("style", "")]
        ticks = [
            float((element.text or "").replace("\N{MINUS SIGN}", "-")) for element in texts if element.text != "epoch"
        ]
        assert 2 <= len(ticks) <= 8
        assert ticks == sorted(ticks)
        room = 0.05 * (high - low) + 0.15 * high
        assert all(min(low - room, low / 1.2) <= tick <= high + room for tick in ticks)


def test_the_same_numbers_give_the_same_chart() -> None:
    first, second = (line_chart("t", [Series("a", [(1.0, 1.0)], 0)], "x", "y") for _ in range(2))
    assert first == second
