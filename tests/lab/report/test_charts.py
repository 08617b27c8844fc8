"""Charts: everything drawn lies inside, whatever the numbers are."""

from __future__ import annotations

import math
import re

import pytest

from probsym.lab.report.charts import HEIGHT, WIDTH, Line, Track, dot_chart, line_chart, shade
from probsym.lab.report.scales import Scale

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


def places(chart: str) -> list[tuple[float, float]]:
    found = [tuple(map(float, one.split(","))) for text in re.findall(r'points="(.*?)"', chart) for one in text.split()]
    found += [(float(x), float(y)) for x, y in re.findall(r'cx="(.*?)" cy="(.*?)"', chart)]
    return found


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("name", CURVES)
def test_lines_stay_inside(name: str, log: bool) -> None:
    chart = line_chart("title", [Line("one", CURVES[name], 1)], "x", "y", log_x=log, log_y=log)
    for x, y in places(chart):
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT
    assert "nan" not in re.sub(r'aria-label=".*?"', "", chart)
    assert "inf" not in re.sub(r'aria-label=".*?"', "", chart)


@pytest.mark.parametrize("log", [False, True])
def test_dots_and_bars_stay_inside(log: bool) -> None:
    tracks = [Track("a", [("x", 1.0, 0, 2.0), ("y", 100.0, 1, 0.0)]), Track("b", [("x", 0.0, 0, 0.0)]), Track("c", [])]
    chart = dot_chart("title", tracks, "x", log=log)
    assert len(re.findall("<circle", chart)) == (2 if log else 3)
    ends = [float(x) for x in re.findall(r'x[12]="(.*?)"', chart)]
    assert min(ends) >= 0
    assert max(ends) <= WIDTH


def test_bars_longer_than_a_float_holds_end_with_the_chart() -> None:
    chart = dot_chart("title", [Track("a", [("x", 1.7e308, 0, 1.7e308), ("y", -1.7e308, 1, 1.7e308)])], "x")
    assert all(0 <= float(x) <= WIDTH for x in re.findall(r' (?:cx|x1|x2)="(.*?)"', chart))
    assert chart.count("<circle") == 2


def test_charts_have_names_and_escape_what_they_are_given() -> None:
    chart = line_chart("<b>", [Line('"<script>', [(1.0, 1.0)], 0)], "x<", 'y"')
    assert 'role="img"' in chart
    assert "<title>&lt;b&gt;</title>" in chart
    assert "<script" not in chart
    assert "&quot;&lt;script&gt;" in chart


def test_references_are_dashed_and_colours_come_again() -> None:
    chart = line_chart("t", [Line("a", [(1.0, 1.0), (2.0, 2.0)], 7, dashed=True)], "x", "y")
    assert 'class="line c7 reference"' in chart
    assert (shade(2), shade(10)) == ("c2", "c2 again")


@pytest.mark.parametrize("low", [0.0, 1e-9, 3.0, -5.0])
@pytest.mark.parametrize("high", [5.1, 1e6, 7e3])
def test_ticks_are_few_and_inside(low: float, high: float) -> None:
    for log in (False, True):
        if not log or low > 0:
            scale = Scale(low, high, 0, 1, log)
            ticks = scale.ticks()
            assert 2 <= len(ticks) <= 7
            room = 1e-6 * (high - low)
            assert all(low - room <= one <= high + room for one in ticks)
            assert ticks == sorted(ticks)
