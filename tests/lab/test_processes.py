"""Several processes that train together do what one does, whoever started them, and however many went on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from probsym.errors import NonFiniteError, RunError
from probsym.lab.checkpoint import load_checkpoint
from probsym.lab.recipe import Recipe
from tests.lab.cases import CPU, FAILING, NORMED, WEIGHTED, run_quietly
from tests.side_by_side import finish, free_port
from tests.symmetrized_cases import IN_CI

TWO = replace(CPU, processes=2)
PROGRAM = ("-m", "tests.lab.program", "train", "--device", "cpu", "--checkpoint-every", "0")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed"),
]

Outcome = tuple[dict[str, Any], dict[str, Any]]
"""A result, and the checkpoint behind it."""


def torchrun(*words: str, **environment: str) -> list[tuple[int, str, str]]:
    """Two agents of two processes each, as on two machines."""
    run = ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"]
    run += ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    return finish([[*run, "--node-rank", node, *PROGRAM, *words] for node in ("0", "1")], [environment] * 2)


def srun(*words: str) -> list[tuple[int, str, str]]:
    """Two processes with what srun tells those of two nodes."""
    common = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "1", "SLURM_NNODES": "2"}
    common |= {"SLURM_JOB_ID": "1", "SLURM_NODELIST": "127.0.0.1", "SLURM_LOCALID": "0"}
    common |= {"MASTER_PORT": str(free_port())}
    places = [{**common, "SLURM_PROCID": number, "SLURM_NODEID": number} for number in ("0", "1")]
    return finish([[*PROGRAM, *words]] * 2, places)


def outcome(folder: Path, recipe: Recipe = WEIGHTED) -> Outcome:
    place = folder / recipe.name / "seed-0"
    return json.loads((place / "result.json").read_text()), load_checkpoint(place / "checkpoint.pt")


def assert_as_one(together: Outcome, alone: Outcome) -> None:
    """Losses, weights, statistics and metrics."""
    (result, state), (expected, wanted) = together, alone
    assert len(state["curve"]) == len(wanted["curve"]) == 3
    for ours, theirs in zip(state["curve"], wanted["curve"], strict=True):
        for name in ("train_loss", "train_total", "valid_loss"):
            assert ours[name] == pytest.approx(theirs[name], abs=1e-5)
    assert any("running_var" in name for name in wanted["model"])
    torch.testing.assert_close(state["model"], wanted["model"], rtol=1e-5, atol=1e-5)
    assert result["metrics"]["test_loss"] == pytest.approx(expected["metrics"]["test_loss"], abs=1e-5)
    assert result["metrics"]["best_epoch_loss"] == expected["metrics"]["best_epoch_loss"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("alone")
    run_quietly(WEIGHTED, folder)
    return outcome(folder)


def test_a_run_goes_on_under_torchrun_after_one_process_of_ours_died(
    alone: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends as one process would have ended."""
    with monkeypatch.context() as during:
        during.setenv("DIES_IN", "1")
        with pytest.raises(
            RunError, match=r"^Expected all 2 processes to go on \(got: process 1 .* SIGKILL\); the last"
        ):
            run_quietly(WEIGHTED, tmp_path, options=TWO)
    assert load_checkpoint(tmp_path / WEIGHTED.name / "seed-0" / "checkpoint.pt")["step"] == 3
    first, second = torchrun(WEIGHTED.name, "--resume", "--out", str(tmp_path))
    assert (first[0], second[0]) == (0, 0), first[2] + second[2]
    assert "test_loss" in first[1]
    assert "test_loss" not in second[1]
    result, _ = resumed = outcome(tmp_path)
    assert result["processes"] == 4
    assert_as_one(resumed, alone)


@IN_CI
def test_one_that_dies_brings_all_down_under_torchrun(alone: Outcome, tmp_path: Path) -> None:
    """The message says which; the run goes on with two processes of ours."""
    first, second = torchrun(WEIGHTED.name, "--out", str(tmp_path), DIES_IN="3")
    assert 0 not in (first[0], second[0])
    assert "Signal 9 (SIGKILL)" in second[2]
    assert "rank      : 3" in second[2]
    assert "RunError: Expected all 4 processes to go on (got, in process 0, that another one ended" in first[2]
    assert load_checkpoint(tmp_path / WEIGHTED.name / "seed-0" / "checkpoint.pt")["step"] == 3
    run_quietly(WEIGHTED, tmp_path, options=TWO, resume=True)
    assert_as_one(outcome(tmp_path), alone)


@IN_CI
def test_compiled_steps_in_tasks_of_srun(tmp_path: Path) -> None:
    run_quietly(NORMED, tmp_path / "alone")
    first, second = srun(NORMED.name, "--compile", "--out", str(tmp_path / "two"))
    assert (first[0], second[0]) == (0, 0), first[2] + second[2]
    assert_as_one(outcome(tmp_path / "two", NORMED), outcome(tmp_path / "alone", NORMED))


@IN_CI
def test_what_the_first_process_refuses_all_refuse(tmp_path: Path) -> None:
    (tmp_path / WEIGHTED.name / "seed-0" / "taken").mkdir(parents=True)
    for code, _, said in srun(WEIGHTED.name, "--out", str(tmp_path)):
        assert code == 1
        assert "to be empty, or to resume" in said


def test_errors_of_the_processes_are_typed(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError, match="in epoch 3"):
        run_quietly(FAILING, tmp_path, options=TWO)
