"""Runs that are killed, interrupted and resumed, in processes of their own; see killed.py."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from probsym.errors import RunError, Stopped
from probsym.lab.checkpoint import load_checkpoint, save_checkpoint
from tests.lab.cases import DROPOUT, PS, assert_same, metrics_of, run_quietly, training_of, without_time

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("killed")
    words = [sys.executable, "-m", "tests.lab.killed", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return folder, json.loads((folder / "report.json").read_text())


def finished(folder: Path, name: str = PS.name) -> tuple[dict[str, Any], dict[str, Any]]:
    place = folder / name / "seed-0"
    return load_checkpoint(place / "checkpoint.pt"), json.loads((place / "result.json").read_text())


def assert_same_run(interrupted: Path, whole: Path, name: str = PS.name) -> None:
    (state, result), (wanted, reference) = finished(interrupted, name), finished(whole, name)
    for part in ("model", "optimiser", "best", "curve", "step", "loss"):
        assert_same(state[part], wanted[part])
    assert metrics_of(result) == metrics_of(reference)
    lines = [(folder / name / "seed-0" / "curve.csv").read_text().splitlines() for folder in (interrupted, whole)]
    first, second = ([line.rpartition(",")[0] for line in curve] for curve in lines)
    assert first == second
    assert len(first) == 16


def test_ten_kills_change_nothing(runs: tuple[Path, dict[str, Any]]) -> None:
    folder, report = runs
    assert report["killed"]["kills"] == 10
    assert report["killed"]["end"] == 0
    steps = report["killed"]["steps"]
    assert steps == sorted(steps)
    assert len(set(steps)) > 5
    assert max(steps) < 60
    assert_same_run(folder / "killed", folder / "whole", DROPOUT.name)


def test_dropout_takes_part(runs: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = runs
    (plain, _), (dropping, _) = (finished(folder / "whole", name) for name in (PS.name, DROPOUT.name))
    assert without_time(plain["curve"]) != without_time(dropping["curve"])


def test_a_kill_while_writing_leaves_the_checkpoint_before(runs: tuple[Path, dict[str, Any]]) -> None:
    folder, report = runs
    writing = report["writing"]
    assert writing["before"] > 0
    assert writing["middle"] == writing["move"] == [-9, writing["before"]]
    assert writing["end"] == 0
    assert_same_run(folder / "writing", folder / "whole")


def test_ctrl_c_keeps_a_checkpoint_and_exits_with_130(runs: tuple[Path, dict[str, Any]]) -> None:
    folder, report = runs
    assert report["interrupted"]["interrupt"] == 130
    assert 0 < report["interrupted"]["step"] < 60
    assert "Traceback" not in (folder / "interrupt.err").read_text()


def test_ctrl_c_says_where_the_checkpoint_is(runs: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = runs
    printed = (folder / "interrupt.err").read_text()
    assert "nterrupted" in printed
    assert str(folder / "interrupted" / PS.name / "seed-0" / "checkpoint.pt") in printed


def test_termination_is_an_interrupt_too(runs: tuple[Path, dict[str, Any]]) -> None:
    folder, report = runs
    assert report["interrupted"]["terminated"] == 130
    assert load_checkpoint(folder / "interrupted" / PS.name / "seed-1" / "checkpoint.pt")["step"] >= 2


def test_what_was_interrupted_goes_on_as_if_nothing_had_been(runs: tuple[Path, dict[str, Any]]) -> None:
    folder, report = runs
    assert report["interrupted"]["resumed"] == 0
    assert_same_run(folder / "interrupted", folder / "whole")


def test_a_folder_with_a_run_is_refused_without_resume(runs: tuple[Path, dict[str, Any]]) -> None:
    folder, report = runs
    printed = (folder / "refused.err").read_text()
    assert report["interrupted"]["refused"] == 1
    assert "RunError: Expected" in printed
    assert "Traceback" not in printed


def test_finished_runs_are_passed_over_and_stay_as_they_are(runs: tuple[Path, dict[str, Any]]) -> None:
    folder, report = runs
    assert report["interrupted"]["passed"] == 0
    assert report["interrupted"]["untouched"]
    assert "test_accuracy" in (folder / "passed.txt").read_text()


def test_resuming_after_the_last_epoch_only_tests(tmp_path: Path) -> None:
    (result,) = run_quietly(PS, tmp_path)
    (tmp_path / PS.name / "seed-0" / "result.json").unlink()
    (again,) = run_quietly(PS, tmp_path, resume=True)
    assert metrics_of(again) == metrics_of(result)


def test_a_run_goes_on_elsewhere_from_its_checkpoint_alone(tmp_path: Path) -> None:
    changes = ["epochs=6", "averaging=0.9", "validate_every=2"]
    (whole,) = run_quietly(DROPOUT, tmp_path / "whole", changes=changes)
    here, there = (tmp_path / name / DROPOUT.name / "seed-0" / "checkpoint.pt" for name in ("here", "there"))
    training = training_of(here.parent, DROPOUT, every=0, epochs=6, averaging=0.9, validate_every=2)
    with pytest.raises(Stopped):
        training.run(lambda epoch, *_: signal.raise_signal(signal.SIGTERM) if epoch == 3 else None)
    there.parent.mkdir(parents=True)
    shutil.copy(here, there)
    (moved,) = run_quietly(DROPOUT, tmp_path / "there", changes=changes, resume=True)
    assert metrics_of(moved) == metrics_of(whole)
    states = [
        load_checkpoint(tmp_path / name / DROPOUT.name / "seed-0" / "checkpoint.pt") for name in ("there", "whole")
    ]
    for part in ("model", "average", "optimiser", "best", "curve", "step", "loss"):
        assert_same(*(state[part] for state in states))


def test_the_time_of_a_resumed_run_has_what_was_trained_before(tmp_path: Path) -> None:
    run_quietly(PS, tmp_path)
    folder = tmp_path / PS.name / "seed-0"
    (folder / "result.json").unlink()
    state = load_checkpoint(folder / "checkpoint.pt")
    save_checkpoint({**state, "seconds": 1000.0}, folder / "checkpoint.pt")
    (again,) = run_quietly(PS, tmp_path, resume=True)
    assert 1000 <= again["metrics"]["train_seconds"] <= again["wall_seconds"] < 1600


def test_checkpoints_of_another_run_are_refused(tmp_path: Path) -> None:
    training_of(tmp_path).run()
    for other in (
        training_of(tmp_path, seed=1),
        training_of(tmp_path, epochs=4),
        training_of(tmp_path, recipe=PS.__class__("tiny/other", PS.task, PS.build, PS.settings)),
    ):
        with pytest.raises(RunError, match=r"to be of a run with (seed=1|settings.epochs=4|recipe=tiny/other) \(got"):
            other.resume()


def test_arguments_that_a_part_got_since_have_their_defaults(tmp_path: Path) -> None:
    training_of(tmp_path).run()
    path = tmp_path / "checkpoint.pt"
    state = load_checkpoint(path)
    assert state["built"]["sampler"].pop("fixed_noise") is False
    save_checkpoint(state, path)
    assert training_of(tmp_path).resume()
    state["built"]["sampler"]["noise"] = 0.5
    save_checkpoint(state, path)
    with pytest.raises(RunError, match=r"built.sampler.noise=1.0 \(got one with built.sampler.noise=0.5\)"):
        training_of(tmp_path).resume()


def test_without_a_checkpoint_there_is_nothing_to_resume(tmp_path: Path) -> None:
    training = training_of(tmp_path)
    before = torch.get_rng_state()
    assert not training.resume()
    assert torch.equal(torch.get_rng_state(), before)
