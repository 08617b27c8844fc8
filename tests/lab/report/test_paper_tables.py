"""The paper's tables with ours beside: compared where nothing was changed, and each number with its file."""

from __future__ import annotations

from pathlib import Path

from probsym.lab.paper import TABLES
from probsym.lab.report import load_results
from probsym.lab.report.paper_tables import NOT_RUN, control_grids, other_grid, paper_grids, tally
from probsym.lab.results import write_result
from tests.lab.report.cases import HOSTILE, result, write_everything


def counts(folder: Path) -> dict[str, int]:
    return {kind: count for kind, count in tally(load_results(folder)).items() if kind != NOT_RUN}


def test_every_number_of_ours_leads_to_its_file(tmp_path: Path) -> None:
    data = load_results(write_everything(tmp_path))
    anchors = {run.anchor: run.row for run in data.runs}
    cells = [cell for grid in paper_grids(data) for row in grid.rows for cell in row if cell.mark]
    assert [anchors[cell.link] for cell in cells] == [
        "exp-classify/gin",
        "exp-classify/mlp-ga",
        "exp/mlp-ps",
        "exp-classify/mlp-ps",
    ]


def test_changed_settings_are_not_compared(tmp_path: Path) -> None:
    write_result(tmp_path, result("nbody/gnn-ps", changed={"epochs": 9}, test_mse=9.0))
    (grid,) = paper_grids(load_results(tmp_path))
    assert "ours with epochs=9: not compared" in grid.caption
    assert [[cell.text for cell in row] for row in grid.rows] == [["GNN-PS", "0.00386", "9"]]
    assert not any(cell.mark for row in grid.rows for cell in row)
    assert counts(tmp_path) == {}
    write_result(tmp_path, result("nbody/gnn-ps", test_mse=0.00386))
    plain, changed = paper_grids(load_results(tmp_path))
    assert [sum(bool(cell.mark) for row in grid.rows for cell in row) for grid in (plain, changed)] == [1, 0]
    assert counts(tmp_path) == {"same": 1}


def test_lines_without_a_number_are_left_out(tmp_path: Path) -> None:
    write_result(tmp_path, result("pattern/deit-ti-scratch-fa", test_accuracy=70.0))
    (grid,) = paper_grids(load_results(tmp_path))
    lines = {row[0].text: [cell.text for cell in row[1:]] for row in grid.rows}
    assert lines["DeiT-Ti-FA"] == ["", "70"]
    assert lines["ViT-FA"] == ["71.377", ""]
    assert all(any(numbers) for numbers in lines.values())
    assert len(lines) < len(TABLES[3].lines)


def test_a_row_in_two_tables_counts_once(tmp_path: Path) -> None:
    write_result(tmp_path, result("nbody/gnn-fa", test_mse=0.1))
    assert len(paper_grids(load_results(tmp_path))) == 2
    assert counts(tmp_path) == {"behind": 1}


def test_what_was_not_run_is_counted(tmp_path: Path) -> None:
    write_result(tmp_path, result("nbody/gnn-fa", test_mse=0.1))
    data = load_results(tmp_path)
    wanted = {
        (f"{column.task}/{line.row}", line.metric or column.metric)
        for table in TABLES.values()
        for line in table.lines
        for column in table.columns
        if line.row and column.title in line.numbers
    }
    assert tally(data)[NOT_RUN] == len(wanted) - 1


def test_controls_have_their_totals(tmp_path: Path) -> None:
    (grid,) = control_grids(load_results(write_everything(tmp_path)))
    (row,) = grid.rows
    assert [(cell.text, cell.note) for cell in row[5:]] == [
        ("3", "of 600"),
        ("7", "of 1200"),
        ("5", "of 600"),
        ("1", "of 1200"),
    ]


def test_rows_of_no_table_are_shown(tmp_path: Path) -> None:
    grid = other_grid(load_results(write_everything(tmp_path)))
    assert grid is not None
    assert [[cell.text for cell in row] for row in grid.rows] == [[HOSTILE, "", "test accuracy", "12"]]
    write_result(tmp_path / "none", result("nbody/gnn-fa", test_mse=0.1))
    assert other_grid(load_results(tmp_path / "none")) is None
