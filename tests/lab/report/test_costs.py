"""What rows cost."""

from __future__ import annotations

from pathlib import Path

from probsym.lab.report import load_results
from probsym.lab.report.costs import cost_grid
from probsym.lab.results import write_result
from tests.lab.report.cases import result, write_everything


def test_times_are_means_over_seeds(tmp_path: Path) -> None:
    rows = {
        row[0].text: [cell.text for cell in row] for row in cost_grid(load_results(write_everything(tmp_path))).rows
    }
    assert rows["exp-classify/mlp-ps"] == ["exp-classify/mlp-ps", "two cores", "", "3", "3.5 s", "2 s", "50 ms"]


def test_a_time_shorter_than_its_training_is_left_out(tmp_path: Path) -> None:
    for seed, training in enumerate((2.0, 3.55)):  # of 3.5 s in all, which is rounded
        write_result(tmp_path, result("exp-classify/mlp-ps", seed, test_accuracy=99.0, train_seconds=training))
    (row,) = cost_grid(load_results(tmp_path)).rows
    assert [cell.text for cell in row[3:7]] == ["2", "3.5 s", "2.77 s", "69.4 ms"]
    write_result(tmp_path, result("exp-classify/mlp-ps", 2, test_accuracy=99.0, train_seconds=4.0))
    (row,) = cost_grid(load_results(tmp_path)).rows
    assert [cell.text for cell in row[3:6]] == ["3", "", "3.18 s"]
