"""Who started the processes that train together: torchrun, srun, or we ourselves."""

from __future__ import annotations

import os
from typing import NamedTuple

import torch
from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment

from probsym.errors import RunError

GO_ON = "the last checkpoint is whole, and --resume goes on from it with any number of processes"


class Launch(NamedTuple):
    """Processes that somebody else has started, this one among them."""

    by: str
    environment: ClusterEnvironment
    nodes: int
    per_node: int

    @property
    def processes(self) -> int:
        """On all nodes together."""
        return self.nodes * self.per_node


def launched() -> Launch | None:
    """What torchrun or srun started; None where this process is alone."""
    if TorchElasticEnvironment.detect():
        return _even("torchrun", TorchElasticEnvironment(), _number("WORLD_SIZE"), _number("GROUP_WORLD_SIZE"))
    if _number("SLURM_STEP_NUM_TASKS") > 1:  # in steps of srun only, not in the script that calls it
        try:
            environment = SLURMEnvironment()
        except RuntimeError as error:
            raise RunError(f"Expected tasks that srun spreads evenly (got: {error})") from error
        return _even("srun", environment, _number("SLURM_STEP_NUM_TASKS"), _number("SLURM_NNODES"))
    return None


def count_processes(wanted: int | None) -> int:
    """How many train together, on all nodes: as many as wanted, and as somebody else has started, if so."""
    launch = launched()
    if launch is None:
        return wanted or 1
    if wanted not in (None, launch.processes):
        raise RunError(
            f"Expected --processes to be left out or {launch.processes}, which {launch.by} started (got {wanted})"
        )
    return launch.processes


def lost_another(error: Exception) -> bool:
    """Whether an error says that another process could not be reached; gloo has no class of its own for that."""
    return isinstance(error, torch.distributed.DistError) or "gloo" in str(error)


def _even(by: str, environment: ClusterEnvironment, processes: int, nodes: int) -> Launch | None:
    if processes % nodes:
        raise RunError(f"Expected as many processes on each of {nodes} nodes (got {processes} in all, from {by})")
    return Launch(by, environment, nodes, processes // nodes) if processes > 1 else None


def _number(name: str) -> int:
    return int(os.environ.get(name, "1"))
