"""Where a run spends its time, and rows that are written once."""

import csv
from pathlib import Path

import pytest
import torch

from benchmarks.record import kernel_times, write_rows


def test_kernels_are_counted_per_run_longest_first(tmp_path: Path) -> None:
    x = torch.rand(300, 300)

    def run() -> None:
        (x @ x @ x).relu()

    rows = kernel_times(run, torch.device("cpu"))
    assert {row["kernel"]: row["calls"] for row in rows if row["kernel"] in ("aten::mm", "aten::relu")} == {
        "aten::mm": 2,
        "aten::relu": 1,
    }
    spent = [float(str(row["ms"])) for row in rows]
    assert spent == sorted(spent, reverse=True)
    assert rows[0]["kernel"] == "aten::mm"
    path = tmp_path / "more" / "kernels.csv"
    write_rows(rows, path)
    with path.open(newline="") as file:
        assert [row["kernel"] for row in csv.DictReader(file)] == [row["kernel"] for row in rows]
    with pytest.raises(FileExistsError):
        write_rows(rows, path)
