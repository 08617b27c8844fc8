"""The demonstration: three methods, a table, one page by the report, nothing overwritten."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from probsym.errors import ProbsymError, RunError
from probsym.lab.demo import demonstrate

EPOCHS, TRAIN = 8, 400
METHODS = ("Learned", "Haar", "Canonical")


@pytest.mark.parametrize("name", ["report.html", "report.md", "picture.png"])
def test_what_is_there_is_not_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(RunError, match=r"Expected no (report|picture)"):
        demonstrate(1, tmp_path, Console(file=io.StringIO()))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "mine"}


@pytest.mark.slow
def test_a_short_demonstration_learns_reports_and_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("probsym.lab.recipes.demo.NODES", 12)
    file = io.StringIO()
    console = Console(file=file, width=120)
    outcomes = demonstrate(EPOCHS, tmp_path, console, train=TRAIN)
    page, printed = (tmp_path / "report.html").read_text(), file.getvalue()
    assert set(outcomes) == set(METHODS)
    tables = (tmp_path / "report.md").read_text()
    for (method, outcome), row in zip(outcomes.items(), ("mlp-ps", "mlp-ga", "mlp-canonical"), strict=True):
        assert f"{outcome.accuracy:.1f} %" in next(line for line in printed.splitlines() if f"│ {method} " in line)
        assert f"({method})" in page
        (line,) = [
            line for line in tables.splitlines() if line.startswith(f"| demo/{row} |") and "test accuracy" in line
        ]
        assert line.endswith(f"| {outcome.accuracy:.4g} (1 seed) |")
        (line,) = [line for line in tables.splitlines() if line.startswith(f"| {row} (seed 0) | 50 |")]
        left_out, _, draws = outcome.unclear.partition(" of ")
        assert line.startswith(f"| {row} (seed 0) | 50 | {draws} |")
        assert line.endswith(f"| {left_out} |")
        assert len(outcome.curve) == EPOCHS
        assert outcome.error < 1e-4
    assert page.count("<svg") == 2
    assert all(chart.split("</svg>")[0].count("<title>") == 4 for chart in page.split("<svg")[1:])
    assert f"{TRAIN} decorated cycles to learn from" in page
    assert f"Report: {tmp_path / 'report.html'}" in printed
    assert f"Picture: {tmp_path / 'picture.png'}" in printed
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    pages = [word.strip(",") for word in printed.partition("Next:")[2].split() if "/" in word]
    assert pages
    assert [page for page in pages if not (Path(__file__).parents[2] / page).exists()] == []
    assert f"{TRAIN} graphs to learn from" in printed
    assert outcomes["Learned"].accuracy > 75
    with pytest.raises(ProbsymError):
        demonstrate(EPOCHS, tmp_path, console, train=TRAIN)
