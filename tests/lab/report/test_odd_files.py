"""Files that are not as they should be: named in one line, or left out and named, never a traceback."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from probsym.errors import RunError
from probsym.lab.report import load_results, write_report
from probsym.lab.report.paper_tables import NOT_RUN, tally
from probsym.lab.results import read_curve, write_result
from tests.lab.report.cases import curve, gradient_rows, result, write_analysis


def reported(folder: Path) -> str:
    return write_report(load_results(folder), folder / "report.html")[1].read_text()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_named_and_not_judged(tmp_path: Path, value: float) -> None:
    write_result(tmp_path, result("exp-classify/mlp-ps", 0, test_accuracy=99.0))
    write_result(tmp_path, result("exp-classify/mlp-ps", 1, test_accuracy=value))
    write_result(tmp_path, result("exp-classify/mlp-ga", test_accuracy=50.0))
    data = load_results(tmp_path)
    assert {**tally(data), NOT_RUN: 0} == {"same": 1, "not finite": 1, NOT_RUN: 0}
    text = reported(tmp_path)
    assert "| MLP-PS | 0 |  | 0 |  | 100 | not finite (2 seeds) |" in text
    assert "1 the same (=), 1 not finite, " in text
    assert "nan" not in text.replace("nano", "")


def test_scatter_that_is_not_finite_is_not_known(tmp_path: Path) -> None:
    write_result(tmp_path, result("exp-classify/mlp-ga", test_accuracy=49.7, test_accuracy_std=math.nan))
    assert "49.7 (1 seed) ▽" in reported(tmp_path)


def test_the_scatter_of_evaluations_reaches_the_mark(tmp_path: Path) -> None:
    write_result(tmp_path, result("exp-classify/mlp-ga", test_accuracy=49.7, test_accuracy_std=0.2))
    assert "49.7 (1 seed) ≈" in reported(tmp_path)


def test_numbers_that_a_float_does_not_hold(tmp_path: Path) -> None:
    path = write_result(tmp_path, result("exp-classify/mlp-ga", test_accuracy=1.0), curve(0.1))
    path.write_text(path.read_text().replace('"test_accuracy": 1.0', f'"test_accuracy": {10**400}'))
    write_analysis(tmp_path, "draws", "exp-classify/mlp-ga", [{"draws": 10**400, "loss": 1.0}])
    assert "not finite" in reported(tmp_path)


@pytest.mark.parametrize("value", [None, "99", [1.0], True])
def test_metrics_that_are_no_numbers_are_refused(tmp_path: Path, value: Any) -> None:
    path = write_result(tmp_path, result("exp-classify/mlp-ps", test_accuracy=value))
    with pytest.raises(RunError, match=rf"Expected {path} to have numbers for metrics \(got test_accuracy="):
        load_results(tmp_path)


@pytest.mark.parametrize("change", [{"row": None}, {"seed": [1]}])
def test_results_of_no_row_or_seed_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "odd.json").write_text(json.dumps({**result("exp-classify/mlp-ps", test_accuracy=1.0), **change}))
    with pytest.raises(RunError, match=r"odd\.json to name its row and seed"):
        load_results(tmp_path)


@pytest.mark.parametrize("changed", ["epochs=3", ["epochs"], 3])
def test_changed_settings_that_are_no_mapping_are_refused(tmp_path: Path, changed: Any) -> None:
    path = write_result(tmp_path, result("exp-classify/mlp-ps", test_accuracy=1.0))
    good = path.read_text()
    path.write_text(json.dumps({**json.loads(good), "changed": changed}))
    with pytest.raises(RunError, match=rf"Expected {path} to have changed settings by name \(got"):
        load_results(tmp_path)
    path.write_text(good)
    asked = write_analysis(tmp_path, "draws", "exp-classify/mlp-ps", [])
    asked.write_text(json.dumps({**json.loads(asked.read_text()), "run": {"row": "a/b", "changed": changed}}))
    with pytest.raises(RunError, match=rf"Expected {asked} to have changed settings by name \(got"):
        load_results(tmp_path)
    asked.write_text(json.dumps({**json.loads(asked.read_text()), "run": "a/b"}))
    with pytest.raises(RunError, match=rf"Expected {asked} to name the run that was asked"):
        load_results(tmp_path)


def test_an_analysis_without_a_run_is_one_of_no_run(tmp_path: Path) -> None:
    write_result(tmp_path, result("exp-classify/mlp-ps", test_accuracy=1.0))
    path = write_analysis(tmp_path, "draws", "exp-classify/mlp-ps", [{"draws": 1, "loss": 1.0}])
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "run"}))
    assert "Analyses: of no run" in reported(tmp_path)


def test_gradients_that_are_all_zero(tmp_path: Path) -> None:
    write_result(tmp_path, result("exp-classify/mlp-ps", test_accuracy=1.0))
    write_analysis(tmp_path, "gradient", "exp-classify/mlp-ps", gradient_rows(1.0))
    write_analysis(tmp_path, "gradient", "exp-classify/mlp-ga", gradient_rows(0.0))
    assert "7 of 7 hold, 0 &lt; 6 to 0 &lt; 36" in reported(tmp_path)


@pytest.mark.parametrize("size", [1.7e308, 1e-310, -1.7e308])
def test_numbers_at_the_ends_of_what_a_float_holds(tmp_path: Path, size: float) -> None:
    steps = [{"epoch": float(epoch), "train_loss": size, "valid_accuracy": size} for epoch in range(1, 300)]
    write_result(tmp_path, result("exp-classify/mlp-ps", test_accuracy=size, wall_seconds=size), steps)
    write_result(tmp_path, result("exp-classify/mlp-ps", 1, test_accuracy=-size), steps)
    write_analysis(tmp_path, "gradient", "exp-classify/mlp-ps", gradient_rows(size / 50))
    write_analysis(tmp_path, "gradient", "exp-classify/mlp-ga", [{**row, "norm": size} for row in gradient_rows(1.0)])
    for seed in (0, 1):
        rows = [
            {"graph": "D_4", "method": "ps", "draws": 1, "spread": spread, "spread_stderr": size}
            for spread in (size, -size)
        ]
        write_analysis(tmp_path, "inner_symmetry", "figures", rows, seed)
        rows = [{"coupling": "independent", "draws": n, "loss": size, "spread": size, "variance": size} for n in (1, 2)]
        write_analysis(tmp_path, "draws", "exp-classify/mlp-ps", rows, seed)
        rows = [{"move": "all", "largest": size, "moved_noise": size, "fresh": size, "change": 1e-300}]
        write_analysis(tmp_path, "equivariance", "exp-classify/mlp-ps", rows, seed)
    reported(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert '"nan' not in page
    assert '"inf' not in page


def test_a_pipe_among_the_results_keeps_nobody_waiting(tmp_path: Path) -> None:
    path = write_result(tmp_path, result("exp-classify/mlp-ps", test_accuracy=1.0))
    os.mkfifo(path.with_suffix(".csv"))
    with pytest.raises(RunError, match=r"seed-0.csv to be the curve of a run \(got: something else than a file\)"):
        reported(tmp_path)
    path.with_suffix(".csv").unlink()
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(RunError, match=r"pipe.json to be JSON \(got: something else than a file\)"):
        load_results(tmp_path)


@pytest.mark.parametrize("torn", [b"", b"epoch", None])
def test_a_curve_that_is_torn_or_gone_is_found(tmp_path: Path, torn: bytes | None) -> None:
    path = write_result(tmp_path, result("exp-classify/mlp-ps", test_accuracy=1.0), curve(0.1)).with_suffix(".csv")
    path.unlink() if torn is None else path.write_bytes(torn)
    with pytest.raises(
        RunError, match=r"names by sha256 \(got (none|another one)\); `probsym train --resume` mends it"
    ):
        reported(tmp_path)


@pytest.mark.parametrize("text", ["epoch,loss\n1," + "9" * 200_000, "epoch\n1,2,3\n", "epoch\nx\n"])
def test_curves_that_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "curve.csv").write_text(text)
    with pytest.raises(RunError, match=r"curve.csv to be the curve of a run"):
        read_curve(tmp_path / "curve.csv")


def test_json_that_is_nested_too_deeply(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(RunError, match=r"deep.json to be JSON \(got: "):
        load_results(tmp_path)


@pytest.mark.parametrize("value", [[1.0, 2.0], [], [[1], "two", None], [{"a": [1]}, {"b": []}], {"deep": [[[]]]}])
def test_lists_in_a_benchmark_disturb_nobody(tmp_path: Path, value: Any) -> None:
    write_result(tmp_path, result("exp-classify/mlp-ga", test_accuracy=50.0))
    (tmp_path / "benchmarks").mkdir()
    made = {"benchmark": "odd", "seconds": 0.25, "values": value, "hardware": "here", "torch": "2"}
    (tmp_path / "benchmarks" / "odd_cpu.json").write_text(json.dumps(made))
    data = load_results(tmp_path)
    assert [run.row for run in data.runs] == ["exp-classify/mlp-ga"]
    assert not data.analyses  # a benchmark is none
    assert "MLP-GA" in reported(tmp_path)
