"""What this machine has: versions, devices, data."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable, Iterator

import torch

from probsym.data import exp, graph8c, pattern, pcqm_contact, peptides_func, peptides_struct
from probsym.data.files import folders
from probsym.errors import ProbsymError

LIBRARIES = ("torch", "numpy", "lightning", "transformers", "torchmetrics", "torch-geometric", "scipy", "rich", "typer")
DATA: dict[str, Callable[[], object]] = {"exp": lambda: exp(download=False), "graph8c": graph8c}

LATER: dict[str, tuple[Callable[[], object], tuple[str, ...], str]] = {
    "pattern": (pattern, ("pattern.npz",), "generated in seconds"),
    "peptides-func": (
        lambda: peptides_func(download=False),
        ("peptides_func.npz", "peptides-func.npz", "peptides-func/raw"),
        "downloaded",
    ),
    "peptides-struct": (
        lambda: peptides_struct(download=False),
        ("peptides-struct.npz", "peptides-struct/raw"),
        "downloaded",
    ),
    "pcqm-contact": (lambda: pcqm_contact(download=False), ("pcqm-contact.npz", "pcqm-contact/raw"), "downloaded"),
}
"""Sets that need not be here before they are used: how to load them, by what to see that they are, how they come."""


def checks() -> Iterator[tuple[str, bool | None, str]]:
    """One after the other: what is looked at, whether it is there (None: not yet, nor need it be), what was found."""
    yield "python", True, platform.python_version()
    for name in LIBRARIES:
        try:
            yield name, True, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield name, False, "not installed; it comes with probsym[lab]"
    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    yield "devices", True, ", ".join(devices) or f"CPU only, {torch.get_num_threads()} threads"
    for name, load in DATA.items():
        yield f"data: {name}", *_loaded(load, "found or generated, checksum right")
    for name, (load, signs, how) in LATER.items():
        if any((folder / sign).exists() for folder in folders() for sign in signs):
            yield f"data: {name}", *_loaded(load, "found, and sound")
        else:
            yield f"data: {name}", None, f"{how} when first used"


def _loaded(load: Callable[[], object], well: str) -> tuple[bool, str]:
    try:
        load()
    except (ProbsymError, OSError) as error:
        return False, str(error)
    return True, well
