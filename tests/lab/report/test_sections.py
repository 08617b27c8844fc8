"""The sections of a report: what is said at a glance, and where every number comes from."""

from __future__ import annotations

from pathlib import Path

from probsym.lab.report import load_results
from probsym.lab.report.document import Grid
from probsym.lab.report.sections import document
from probsym.lab.results import write_result
from tests.lab.report.cases import gradient_rows, result, write_analysis, write_everything


def test_sections_without_anything_are_left_out(tmp_path: Path) -> None:
    write_result(tmp_path, result("tiny/mlp-ps", test_accuracy=1.0))
    assert [section.anchor for section in document(load_results(tmp_path)).sections] == [
        "glance",
        "others",
        "cost",
        "provenance",
    ]
    everything = document(load_results(write_everything(tmp_path / "all"))).sections
    assert {section.anchor for section in everything} >= {"tables", "controls", "curves", "figures"}


def test_what_the_paper_claims_and_what_we_do_are_apart(tmp_path: Path) -> None:
    write_result(tmp_path, result("exp-classify/mlp-ps", test_accuracy=1.0))
    write_analysis(tmp_path, "gradient", "exp-classify/mlp-ps", gradient_rows(1.0))
    write_analysis(tmp_path, "draws", "exp-classify/mlp-ps", [{"draws": 1, "loss": 1.0}])
    grids = [block for block in document(load_results(tmp_path)).sections[0].blocks if isinstance(block, Grid)]
    assert [grid.caption.split(",")[0] for grid in grids] == ["What the paper claims", "What we claim ourselves"]
    assert [len(grid.rows) for grid in grids] == [1, 1]
    assert "net gradient" in grids[0].rows[0][0].text
    assert "More draws" in grids[1].rows[0][0].text


def test_every_file_has_its_line(tmp_path: Path) -> None:
    data = load_results(write_everything(tmp_path))
    section = next(section for section in document(data).sections if section.anchor == "provenance")
    grids = [block for block in section.blocks if isinstance(block, Grid)]
    lines = {anchor: row[1].text for grid in grids for anchor, row in zip(grid.anchors, grid.rows, strict=True)}
    assert lines == {file.anchor: file.file for file in (*data.runs, *data.analyses)}
