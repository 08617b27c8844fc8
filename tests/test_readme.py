"""The README: its diff runs on both sides, its numbers are those of the result files, and it stays short."""

import re
from pathlib import Path
from typing import Any

import pytest

from probsym.lab.paper import paper_number
from probsym.lab.results import read_results

README = Path(__file__).resolve().parents[1] / "README.md"
TEXT = README.read_text()


@pytest.mark.parametrize("side", ["-", "+"], ids=["before", "after"])
def test_the_diff_runs_on_both_sides(side: str, capsys: pytest.CaptureFixture[str]) -> None:
    (diff,) = re.findall(r"```diff\n(.*?)```", TEXT, flags=re.DOTALL)
    lines = [line[1:] for line in diff.splitlines() if line[:1] in ("", " ", side)]
    names: dict[str, Any] = {}
    exec(compile("\n".join(lines), f"{README} ({side})", "exec"), names)
    assert names["loss"].isfinite()
    assert ("Equivariance(" in capsys.readouterr().out) is (side == "+")


def test_the_two_commands_come_first() -> None:
    lines = [line for line in TEXT.splitlines() if line.startswith(("make ", "    pip "))]
    assert [line.split()[1] for line in lines[:3]] == ["demo", "test", "install"]


def test_it_is_short() -> None:
    assert len(TEXT.encode()) <= 7 * 1024


def test_results_are_those_of_the_files() -> None:
    rows = re.findall(r"\(`results/([^`]+)`\) \| ([\d.]+) \| ([\d.]+) \| (\d+) \|", TEXT)
    assert len(rows) == 7
    for row, paper, ours, seeds in rows:
        results = [result for result in read_results(README.parent / "results")[row] if not result.get("changed")]
        (metric,) = paper_number(row)
        assert float(paper) == paper_number(row)[metric], row
        assert len(results) == int(seeds), row
        mean = sum(result["metrics"][metric] for result in results) / len(results)
        digits = len(ours.partition(".")[2])
        assert float(ours) == pytest.approx(mean, abs=0.51 * 10**-digits), row
