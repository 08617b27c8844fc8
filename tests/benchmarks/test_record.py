"""Where a run spends its time."""

import torch

from benchmarks.record import kernel_times


def test_kernels_are_counted_per_run_longest_first() -> None:
    x = torch.rand(300, 300)

    def run() -> None:
        (x @ x @ x).relu()

    rows = kernel_times(run, torch.device("cpu"))
    calls = {row["kernel"]: row["calls"] for row in rows}
    assert (calls["aten::mm"], calls["aten::relu"]) == (2, 1)
    spent = [float(str(row["ms"])) for row in rows]
    assert spent == sorted(spent, reverse=True)
    assert rows[0]["kernel"] == "aten::mm"
