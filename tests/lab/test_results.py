"""Result files: what they hold, that none is overwritten, and what tables make of them."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import torch

from probsym.errors import RunError
from probsym.lab import provenance as provenance_module
from probsym.lab.json_with_table import TABLE, write_table
from probsym.lab.provenance import provenance
from probsym.lab.results import Summary, curve_text, read_curve, read_results, summarised, write_result
from probsym.lab.tables import spoken_number
from tests.lab.cases import CPU, PS, SEPARATION, run_quietly

FIELDS = [
    "row",
    "metrics",
    "paper",
    "seed",
    "epochs",
    "train_size",
    "test_size",
    "command",
    "commit",
    "hardware",
    "torch",
    "wall_seconds",
    "date",
]


def result(seed: int = 0, row: str = "exp-classify/mlp-ps", **metrics: float) -> dict[str, Any]:
    rest = dict.fromkeys(("command", "commit", "hardware", "torch", "date"), "")
    return {"row": row, "seed": seed, "metrics": metrics, **rest}


def test_results_are_written_read_and_never_overwritten(tmp_path: Path) -> None:
    curve = [{"epoch": 1.0, "valid_loss": 0.123456789}, {"epoch": 2.0, "valid_loss": 0.1}]
    path = write_result(tmp_path, result(3, test_accuracy=99.5), curve)
    assert path == tmp_path / "exp-classify" / "mlp-ps" / "seed-3.json"
    assert path.with_suffix(".csv").read_text().split() == ["epoch,valid_loss", "1,0.123457", "2,0.1"]
    before = path.read_bytes(), path.with_suffix(".csv").read_bytes()
    with pytest.raises(RunError, match=f"{path}, which is never overwritten"):
        write_result(tmp_path, result(3, test_accuracy=1.0), curve[:1])
    assert (path.read_bytes(), path.with_suffix(".csv").read_bytes()) == before
    (content,) = read_results(tmp_path)["exp-classify/mlp-ps"]
    assert content.pop(TABLE) == hashlib.sha256(before[1]).hexdigest()
    assert content == result(3, test_accuracy=99.5)


def test_all_seeds_are_read_and_other_files_passed_over(tmp_path: Path) -> None:
    for seed in (1, 0):
        write_result(tmp_path, result(seed))
    write_result(tmp_path, result(0, "exp/gin"))
    (tmp_path / "benchmark.json").write_text('{"milliseconds": 3}')
    (tmp_path / "list.json").write_text("[1]")
    results = read_results(tmp_path)
    assert [content["seed"] for content in results["exp-classify/mlp-ps"]] == [0, 1]
    assert set(results) == {"exp-classify/mlp-ps", "exp/gin"}
    assert read_results(tmp_path / "nowhere") == {}


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe"])
def test_broken_files_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(RunError, match=r"a\.json to be JSON"):
        read_results(tmp_path)


def test_summaries_have_the_mean_and_the_sample_deviation() -> None:
    assert summarised([result(0, mse=1.0), result(1, mse=2.0), result(2, mse=6.0)], "mse") == Summary(
        3.0, pytest.approx(7.0**0.5), 3
    )
    assert summarised([result(0, mse=1.5)], "mse") == Summary(1.5, None, 1)
    assert summarised([result(0, mse=1.5)], "mae") is None
    assert summarised([], "mse") is None


@pytest.mark.parametrize("value", [math.nan, math.inf, 10**400])
def test_a_mean_with_something_that_is_not_finite_is_not(value: float) -> None:
    summary = summarised([result(0, mse=1.0), result(1, mse=value)], "mse")
    assert summary is not None
    assert math.isnan(summary.mean)
    assert (summary.deviation, summary.seeds) == (None, 2)
    assert spoken_number(summary) == "not finite (2 seeds)"


def test_huge_numbers_have_a_mean_and_a_deviation() -> None:
    summary = summarised([result(0, mse=1e308), result(1, mse=1.5e308)], "mse")
    assert summary == Summary(1.25e308, pytest.approx(0.5e308 / 2**0.5), 2)


def test_a_seed_counts_once_by_its_newest_run() -> None:
    runs = [{**result(0, mse=float(day)), "date": f"2026-01-0{day}"} for day in (2, 3, 1)]
    assert summarised(runs, "mse") == Summary(3.0, None, 1)
    assert summarised([*runs, result(1, mse=5.0)], "mse") == Summary(4.0, pytest.approx(2**0.5), 2)


def test_precisions_are_kept_with_the_mean() -> None:
    runs = [{**result(seed, mse=1.0), "precision": name} for seed, name in enumerate(("tf32", "32-true", "tf32"))]
    summary = summarised(runs, "mse")
    assert summary == Summary(1.0, 0.0, 3, ("32-true", "tf32"))
    assert spoken_number(summary) == "1 ± 0 (3 seeds, in 32-true and tf32)"


@pytest.mark.parametrize("value", [None, True])
def test_metrics_that_are_no_numbers_are_named(value: object, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({**result(0), "metrics": {"mse": value}}))
    with pytest.raises(RunError, match=rf"a\.json to have numbers for metrics \(got mse={value}\)"):
        read_results(tmp_path)


def test_runs_with_changed_settings_do_not_count() -> None:
    changed = {**result(1, mse=9.0), "changed": {"epochs": 1}}
    assert summarised([result(0, mse=1.0), changed], "mse") == Summary(1.0, None, 1)
    assert summarised([changed], "mse") is None
    assert summarised([{**changed, "changed": {}}], "mse") == Summary(9.0, None, 1)


def test_runs_with_the_same_changes_count_together() -> None:
    runs = [
        {**result(seed, mse=float(seed)), "changed": changed}
        for seed, changed in enumerate(({}, {"epochs": 9}, {"epochs": 9}, {"epochs": 9, "tau": 1.0}, {"epochs": 8}))
    ]
    assert summarised(runs, "mse", {"epochs": 9}) == Summary(1.5, pytest.approx(0.5**0.5), 2)
    assert summarised(runs, "mse", {"tau": 1.0, "epochs": 9}) == Summary(3.0, None, 1)
    listed = {**result(0, mse=4.0), "changed": {"also_test_samples": [1, 2]}}
    assert summarised([listed], "mse", {"also_test_samples": (1, 2)}) == Summary(4.0, None, 1)


def test_changed_runs_have_their_own_place(tmp_path: Path) -> None:
    changed = {"also_test_samples": [1, 2], "epochs": 9}
    write_result(tmp_path, result(0, "exp/gin"))
    path = write_result(tmp_path, {**result(0, "exp/gin"), "changed": changed})
    assert path == tmp_path / "exp/gin/also_test_samples=1,2+epochs=9/seed-0.json"
    assert len(read_results(tmp_path)["exp/gin"]) == 2


def test_a_run_leaves_what_the_design_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBSYM_COMMIT", "abc123")
    (content,) = run_quietly(PS, tmp_path / "runs", (4,), changes=["epochs=1"], results=tmp_path / "results")
    folder = tmp_path / "runs" / PS.name / "seed-4"
    written = json.loads((folder / "result.json").read_text())
    assert written == content == json.loads((tmp_path / "results" / PS.name / "epochs=1" / "seed-4.json").read_text())
    assert set(FIELDS) <= set(written)
    wanted = {
        "row": PS.name,
        "seed": 4,
        "epochs": 1,
        "train_size": 40,
        "test_size": 30,
        "paper": {},
        "commit": "abc123",
    }
    assert {name: written[name] for name in wanted} == wanted
    assert written["changed"] == {"epochs": 1}
    assert written["torch"] == torch.__version__
    assert written["wall_seconds"] >= 0
    assert datetime.fromisoformat(written["date"]).tzinfo is not None
    assert {"test_loss", "test_accuracy", "valid_loss", "best_epoch_loss"} <= set(written["metrics"])
    assert (folder / "curve.csv").read_bytes() == (
        tmp_path / "results" / PS.name / "epochs=1" / "seed-4.csv"
    ).read_bytes()
    assert list((folder / "tensorboard").iterdir())
    assert {path.name for path in folder.iterdir()} == {"result.json", "curve.csv", "tensorboard", "checkpoint.pt"}


def test_results_are_checked_before_anything_is_run(tmp_path: Path) -> None:
    write_result(tmp_path / "results", result(0, PS.name))
    with pytest.raises(RunError, match="Expected no result of tiny/mlp-ps, seed 0"):
        run_quietly(PS, tmp_path / "runs", results=tmp_path / "results")
    assert not (tmp_path / "runs").exists()


def test_resuming_a_finished_run_still_writes_its_result(tmp_path: Path) -> None:
    run_quietly(PS, tmp_path / "runs", changes=["epochs=1"])
    run_quietly(PS, tmp_path / "runs", changes=["epochs=1"], resume=True, results=tmp_path / "results")
    assert (tmp_path / "results" / PS.name / "epochs=1" / "seed-0.json").exists()


def test_a_kill_while_the_result_is_written_is_not_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", killed)
        with pytest.raises(SystemExit):
            run_quietly(PS, tmp_path, changes=["epochs=1"])
    assert not (tmp_path / PS.name / "seed-0" / "result.json").exists()
    (content,) = run_quietly(PS, tmp_path, changes=["epochs=1"], resume=True)
    assert content["metrics"]["test_accuracy"] >= 0


def test_other_settings_are_not_passed_off_as_the_finished_run(tmp_path: Path) -> None:
    run_quietly(PS, tmp_path, changes=["epochs=1"])
    with pytest.raises(RunError):
        run_quietly(PS, tmp_path, changes=["epochs=2"], resume=True)


def test_separation_leaves_a_result_too(tmp_path: Path) -> None:
    (content,) = run_quietly(SEPARATION, tmp_path)
    assert content["metrics"]["pairs"] == 4
    assert content == json.loads((tmp_path / SEPARATION.name / "seed-0" / "result.json").read_text())
    assert set(FIELDS) - {"train_size", "test_size"} <= set(content)


def test_where_a_number_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROBSYM_COMMIT", raising=False)
    words = ["/usr/bin/probsym", "train", "exp/gin", "--out", "somewhere", "--seed", "1", "--results", "there"]
    monkeypatch.setattr(sys, "argv", words)
    origin = provenance(torch.device("cpu"))
    assert origin["command"] == "probsym train exp/gin --seed 1"
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?|unknown", origin["commit"])
    assert origin["hardware"].endswith("cores")
    monkeypatch.setattr(sys, "argv", ["script.py", "--set", "epochs=1"])
    assert provenance(torch.device("cpu"))["command"] == "python script.py --set epochs=1"


def test_places_are_left_out_of_the_command_however_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["probsym", "train", "exp/gin", "--out=/home/me", "--results=there"])
    assert provenance(torch.device("cpu"))["command"] == "probsym train exp/gin"


def test_the_commit_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBSYM_COMMIT", "f00")
    assert provenance(torch.device("cpu"))["commit"] == "f00"
    monkeypatch.delenv("PROBSYM_COMMIT")
    monkeypatch.setenv("PATH", "/nowhere")
    assert provenance(torch.device("cpu"))["commit"] == "unknown"


def test_the_commit_of_another_repository_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROBSYM_COMMIT", raising=False)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message=another"], check=True)
    monkeypatch.setattr(provenance_module, "__file__", str(tmp_path / "provenance.py"))
    assert provenance(torch.device("cpu"))["commit"] == "unknown"
    (tmp_path / "provenance.py").write_text("")
    subprocess.run([*git, "add", "provenance.py"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message=ours"], check=True)
    assert re.fullmatch("[0-9a-f]{40}", provenance(torch.device("cpu"))["commit"])


def test_precision_is_kept_with_the_result(tmp_path: Path) -> None:
    (content,) = run_quietly(PS, tmp_path, changes=["epochs=1"], options=CPU)
    assert content["precision"] == "32-true"


def test_curves_come_back(tmp_path: Path) -> None:
    curve = [{"epoch": 1.0, "valid_loss": 0.25}, {"epoch": 2.0, "valid_loss": 0.125}]
    write_table(tmp_path / "curve.csv", curve_text(curve))
    assert read_curve(tmp_path / "curve.csv") == curve
    assert read_curve(tmp_path / "none.csv") == []


@pytest.mark.parametrize(
    "change",
    [
        {"seed": "x/../../y"},
        {"seed": True},
        {"seed": 1.0},
        {"row": "../up"},
        {"row": "/etc/passwd"},
        {"row": ""},
        {"row": "exp/.hidden"},
        {"row": ["exp"]},
        {"row": "x" * 300},
        {"changed": {"padding": "../../up"}},
        {"changed": {"tau": "9" * 300}},
    ],
)
def test_results_are_written_nowhere_else(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(RunError, match="Expected a row, seed and settings that name a file"):
        write_result(tmp_path / "results", {**result(), **change})
    assert list(tmp_path.iterdir()) == []


def test_a_curve_that_was_lost_is_mended_on_resuming(tmp_path: Path) -> None:
    options = {"changes": ["epochs=1"], "results": tmp_path / "results", "resume": True}
    run_quietly(PS, tmp_path / "runs", **options)
    folder = tmp_path / "runs" / PS.name / "seed-0"
    own, kept = folder / "curve.csv", tmp_path / "results" / PS.name / "epochs=1" / "seed-0.csv"
    whole = own.read_bytes()
    assert json.loads((folder / "result.json").read_text())[TABLE] == hashlib.sha256(whole).hexdigest()
    for lost in ((own,), (kept,), (own, kept)):
        for path in lost:
            path.write_bytes(whole[:-5])
        left = [folder / ".checkpoint.pt.1-1.partial", folder / ".curve.csv.1-1.partial"]
        for path in left:
            path.write_bytes(b"half")
        run_quietly(PS, tmp_path / "runs", **options)
        assert own.read_bytes() == kept.read_bytes() == whole
        assert not any(path.exists() for path in left)
    (folder / "checkpoint.pt").unlink()
    own.unlink()
    with pytest.raises(RunError, match="Expected a checkpoint"):
        run_quietly(PS, tmp_path / "runs", **options)
