"""What this machine has: versions, devices, data."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable, Iterator

import torch

from probsym.data import exp, graph8c
from probsym.errors import ProbsymError

LIBRARIES = ("torch", "numpy", "lightning", "transformers", "torchmetrics", "torch-geometric", "scipy", "rich", "typer")
DATA: dict[str, Callable[[], object]] = {"exp": lambda: exp(download=False), "graph8c": graph8c}


def checks() -> Iterator[tuple[str, bool, str]]:
    """One after the other: what is looked at, whether it is there, and what was found."""
    yield "python", True, platform.python_version()
    for name in LIBRARIES:
        try:
            yield name, True, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield name, False, "not installed; it comes with probsym[lab]"
    devices = [torch.cuda.get_device_name(one) for one in range(torch.cuda.device_count())]
    yield "devices", True, ", ".join(devices) or f"CPU only, {torch.get_num_threads()} threads"
    for name, load in DATA.items():
        try:
            load()
            yield f"data: {name}", True, "found or generated, checksum right"
        except (ProbsymError, OSError) as error:
            yield f"data: {name}", False, str(error)
