"""Checkpoints that are whole or not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from probsym._internal.atomic_write import atomic_write
from probsym.errors import RunError


def save_checkpoint(state: dict[str, Any], path: Path) -> None:
    """Write the state: a kill at any moment leaves the old one or the new one."""
    with atomic_write(path) as (beside,), beside.open("wb") as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):  # what the system said, such as that the disk is full
                raise error.__context__ from None
            raise


def load_checkpoint(path: Path, device: torch.device | str = "cpu", *, mapped: bool = False) -> dict[str, Any]:
    """The state that was saved; tensors and plain values only, no code. If `mapped`, tensors are read when used."""
    if not path.is_file():
        raise RunError(f"Expected a checkpoint at {path} (got none)")
    try:
        state = torch.load(path, map_location=device, weights_only=True, mmap=mapped)
    except Exception as error:  # whatever the reader of a broken file raises
        raise RunError(f"Expected {path} to be a whole checkpoint (got: {error})") from error
    if not isinstance(state, dict):
        raise RunError(f"Expected {path} to be a checkpoint, values by name (got a {type(state).__name__})")
    return state


def clear_partials(folder: Path) -> None:
    """Remove what killed runs left half written in the folder of a run."""
    for path in folder.rglob(".*.partial"):
        if path.is_file():
            path.unlink(missing_ok=True)
