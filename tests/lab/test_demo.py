"""The demonstration: three methods, a table, one page, nothing overwritten."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from probsym.errors import ProbsymError, RunError
from probsym.lab import demo
from probsym.lab.demo import Outcome, demonstrate, report

EPOCHS, TRAIN = 8, 400
METHODS = ("Learned", "Haar", "Canonical")


def outcomes() -> dict[str, Outcome]:
    return {name: Outcome(87.5, [50.0, 60.0, 87.5], 12.3, 1e-6, "3 of 500", 10) for name in METHODS}


def test_the_page_is_self_contained_and_has_every_number() -> None:
    page = report(outcomes(), 2000)
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>")
    assert page.count("<polyline") == 3
    for method in METHODS:
        assert f"<td>{method}</td><td>87.5</td><td>10</td><td>1.0e-06</td><td>3 of 500</td><td>12</td>" in page
    for word in ("http", "src=", "<script", "nan"):
        assert word not in page


def test_curves_stay_in_the_picture() -> None:
    chart = demo.chart({name: one._replace(curve=[0.0, 45.0, 100.0]) for name, one in outcomes().items()})
    points = chart.split('points="')[1].split('"')[0].split()
    for x, y in (map(float, point.split(",")) for point in points):
        assert 0 <= x <= 640
        assert 0 <= y <= 300


def test_a_report_that_is_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(RunError, match="Expected no report"):
        demonstrate(1, tmp_path, Console(file=io.StringIO()))
    assert (tmp_path / "report.html").read_text() == "mine"


@pytest.mark.slow
def test_a_short_demonstration_learns_reports_and_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("probsym.lab.recipes.demo.NODES", 12)
    file = io.StringIO()
    console = Console(file=file, width=120)
    found = demonstrate(EPOCHS, tmp_path, console, train=TRAIN)
    page, printed = (tmp_path / "report.html").read_text(), file.getvalue()
    assert set(found) == set(METHODS)
    for method, outcome in found.items():
        assert f"{outcome.accuracy:.1f} %" in next(line for line in printed.splitlines() if f"│ {method} " in line)
        assert f"<td>{method}</td>" in page
        assert len(outcome.curve) == EPOCHS
        assert outcome.error < 1e-4
    assert "http" not in page
    assert f"{TRAIN} graphs to learn from" in printed
    assert found["Learned"].accuracy > 75
    with pytest.raises(ProbsymError):
        demonstrate(EPOCHS, tmp_path, console, train=TRAIN)
