"""Who started the processes, as the environment tells."""

from pathlib import Path

import pytest
import torch

from probsym.errors import RunError
from probsym.lab.launch import count_processes, launched, lost_another
from probsym.lab.run import Options, make_fabric
from tests.lab.cases import CPU, PS, run_quietly

TORCHRUN = {"TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "4", "GROUP_WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
TORCHRUN |= {"RANK": "3", "LOCAL_RANK": "1", "GROUP_RANK": "1"}
SLURM = {"SLURM_NTASKS": "4", "SLURM_NTASKS_PER_NODE": "2", "SLURM_NNODES": "2", "SLURM_JOB_NAME": "train"}
SLURM |= {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NODEID": "1"}
SRUN = {**SLURM, "SLURM_STEP_NUM_TASKS": "4"}


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*TORCHRUN, *SRUN):
        monkeypatch.delenv(name, raising=False)


def say(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def test_nobody_started_others() -> None:
    assert launched() is None
    assert (count_processes(None), count_processes(1), count_processes(3)) == (1, 1, 3)


@pytest.mark.parametrize(("by", "environment"), [("torchrun", TORCHRUN), ("srun", SRUN)])
def test_two_nodes_of_two(by: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, environment)
    launch = launched()
    assert launch is not None
    assert (launch.by, launch.nodes, launch.per_node, launch.processes) == (by, 2, 2, 4)
    assert count_processes(None) == count_processes(4) == 4
    with pytest.raises(RunError, match=rf"^Expected --processes to be left out or 4, which {by} started \(got 2\)$"):
        count_processes(2)
    fabric = make_fabric(Options("cpu", processes=None))
    assert (fabric.world_size, fabric.global_rank, fabric.local_rank, fabric.node_rank) == (4, 3, 1, 1)
    with pytest.raises(RunError, match="left out"):
        make_fabric(Options("cpu"))


def test_the_script_that_calls_srun_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, SLURM)
    assert launched() is None
    assert make_fabric(Options("cpu", processes=None)).world_size == 1


def test_one_process_of_torchrun_is_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    say(monkeypatch, {**TORCHRUN, "WORLD_SIZE": "1", "GROUP_WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"})
    assert launched() is None
    (result,) = run_quietly(PS, tmp_path, changes=["epochs=1"], options=CPU)
    assert result["processes"] == 1


def test_nodes_with_different_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, {**TORCHRUN, "WORLD_SIZE": "3"})
    with pytest.raises(RunError, match=r"on each of 2 nodes \(got 3 in all, from torchrun\)"):
        launched()


def test_tasks_that_are_not_given_by_node_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, SRUN)
    monkeypatch.delenv("SLURM_NTASKS_PER_NODE")
    with pytest.raises(RunError, match="ntasks-per-node"):
        launched()


def test_errors_of_others_are_told_from_ones_own() -> None:
    assert lost_another(RuntimeError("[/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:1"))
    assert lost_another(torch.distributed.DistBackendError("NCCL error"))
    assert not lost_another(RuntimeError("shape '[2]' is invalid for input of size 3"))
