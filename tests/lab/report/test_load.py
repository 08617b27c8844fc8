"""What is loaded: every seed counts once, runs bring their analyses, and what cannot be read is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from probsym.errors import RunError
from probsym.lab.json_with_table import write_new, write_table
from probsym.lab.report import load_results, load_runs, write_report
from probsym.lab.report.write import markdown_text
from probsym.lab.results import curve_text, write_result
from tests.lab.report import cases
from tests.lab.report.cases import result, write_analysis, write_everything


def write_run(folder: Path, seed: int = 0, **changes: Any) -> Path:
    folder.mkdir(parents=True)
    content = result("exp-classify/mlp-ps", seed, test_accuracy=changes.pop("accuracy", 90.0))
    write_new(folder / "result.json", {**content, **changes})
    return folder


def table(folder: Path, *runs: Path) -> str:
    data = load_runs(runs) if runs else load_results(folder)
    return write_report(data, folder / "report.html")[1].read_text()


def test_a_seed_counts_once_by_its_newest_run(tmp_path: Path) -> None:
    old = write_run(tmp_path / "old", accuracy=10.0, date="2026-01-01")
    new = write_run(tmp_path / "new", accuracy=90.0, date="2026-02-01")
    other = write_run(tmp_path / "other", 1, accuracy=91.0)
    text = table(tmp_path, new, old, other)
    assert "| 100 | 90.5 ± 0.71 (2 seeds)" in text
    words = (
        f"There are two of exp-classify/mlp-ps, seed 0. {old}/result.json does not count beside the newer "
        f"{new}/result.json."
    )
    assert markdown_text(words) in text
    assert f"| exp-classify/mlp-ps, seed 0 | {markdown_text(str(old))}/result.json |" in text


def test_precisions_are_said_where_they_differ(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / str(seed), seed, precision=name) for seed, name in enumerate(("tf32", "32-true", "tf32"))
    ]
    assert "(3 seeds, in 32-true and tf32)" in table(tmp_path, *runs)
    again = write_run(tmp_path / "again", 0, precision="bf16-mixed", date="2027")
    (tmp_path / "report.html").unlink()
    (tmp_path / "report.md").unlink()
    text = table(tmp_path, *runs, again)
    assert "(3 seeds, in 32-true and bf16-mixed and tf32)" in text
    assert "The precision of the older is tf32, of the newer bf16-mixed." in text


def test_an_analysis_made_twice_counts_once(tmp_path: Path) -> None:
    write_result(tmp_path, result("nbody/gnn-ps", test_mse=1.0))
    path = write_analysis(tmp_path, "draws", "nbody/gnn-ps", [{"draws": 1, "loss": 1.0}])
    content = {**json.loads(path.read_text()), "date": "2027", "rows": [{"draws": 1, "loss": 2.0}]}
    path.with_name("seed-0.draws_2.json").write_text(json.dumps(content))
    data = load_results(tmp_path)
    assert [file.rows[0]["loss"] for file in data.analyses] == [2.0]
    assert "There are two of draws of nbody/gnn-ps, seed 0." in table(tmp_path)


def test_runs_bring_what_was_asked_of_them(tmp_path: Path) -> None:
    results = tmp_path / "results"
    run = write_run(tmp_path / "runs" / "seed-0", date="2026-03-01")
    write_analysis(results, "draws", "exp-classify/mlp-ps", [{"draws": 1, "loss": 1.0}])
    write_analysis(results, "draws", "exp-classify/mlp-ps", [{"draws": 1, "loss": 2.0}], 1)
    write_analysis(results, "draws", "exp-classify/mlp-ps", [{"draws": 1, "loss": 3.0}], epochs=3)
    write_analysis(results, "inner_symmetry", "figures", cases.inner_rows())
    other = write_analysis(results, "parts", "exp-classify/mlp-ps", [{"part": "all", "loss": 1.0}])
    content = json.loads(other.read_text())
    other.write_text(json.dumps({**content, "run": {**content["run"], "date": "2020-01-01"}}))  # of another run
    write_result(results, result("exp/gin", not_separated=1.0))
    data = load_runs([run], results)
    assert [file.row for file in data.runs] == ["exp-classify/mlp-ps"]
    assert [(file.analysis, file.rows[0]["loss"]) for file in data.analyses] == [("draws", 1.0)]
    assert load_runs([run], tmp_path / "nowhere").analyses == []
    own = {**json.loads((results / "exp-classify/mlp-ps/seed-0.draws.json").read_text()), "analysis": "cost"}
    (run / "cost.json").write_text(json.dumps(own))
    assert {file.analysis for file in load_runs([run], results).analyses} == {"cost", "draws"}


def test_a_newer_analysis_of_another_run_does_not_count(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", date="2026-03-01")
    path = write_analysis(tmp_path / "results", "draws", "exp-classify/mlp-ps", [{"draws": 1, "loss": 1.0}])
    content = json.loads(path.read_text())
    other = {**content, "date": "2027", "run": {**content["run"], "date": "2020-01-01"}}
    path.with_name("seed-0.draws_2.json").write_text(json.dumps(other))
    data = load_runs([run], tmp_path / "results")
    assert ([file.file for file in data.analyses], data.older) == ([str(path)], [])


def test_runs_are_reported_by_themselves(tmp_path: Path) -> None:
    write_everything(tmp_path / "results")
    for seed in (0, 1):
        folder = tmp_path / "runs" / "exp-classify" / "mlp-ps" / f"seed-{seed}"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps(result("exp-classify/mlp-ps", seed, test_accuracy=97.0)))
        write_table(folder / "curve.csv", curve_text(cases.curve(0.1)))
    single = load_runs([tmp_path / "runs" / "exp-classify" / "mlp-ps" / "seed-1"])
    assert [run.content["seed"] for run in single.runs] == [1]
    assert len(single.runs[0].curve) == 40
    both = load_runs([tmp_path / "runs", tmp_path / "runs" / "exp-classify"])
    assert [run.content["seed"] for run in both.runs] == [0, 1]
    with pytest.raises(RunError, match=r"Expected a finished run with a result\.json"):
        load_runs([tmp_path / "runs", tmp_path / "nowhere"])
    (tmp_path / "runs" / "result.json").write_text("{}")
    with pytest.raises(RunError, match="to be the result of a run"):
        load_runs([tmp_path / "runs"])


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"Expected results in .*nowhere"):
        load_results(tmp_path / "nowhere")
    write_result(tmp_path, {**result("exp/gin"), "metrics": [1]})
    with pytest.raises(RunError, match=r"seed-0\.json to have metrics"):
        load_results(tmp_path)
    (tmp_path / "exp" / "gin" / "seed-0.json").write_text("{")
    with pytest.raises(RunError, match=r"seed-0\.json to be JSON"):
        load_results(tmp_path)


def test_a_broken_curve_is_named(tmp_path: Path) -> None:
    path = write_result(tmp_path, result("exp/gin", not_separated=1.0))
    path.with_suffix(".csv").write_text("epoch,train_loss\n1,much\n")
    with pytest.raises(RunError, match=r"seed-0\.csv to be the curve"):
        write_report(load_results(tmp_path), tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()
