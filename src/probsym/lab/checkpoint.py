"""Checkpoints that are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from probsym.errors import RunError


def save_checkpoint(state: dict[str, Any], path: Path) -> None:
    """Write the state beside its place, then move it there: a kill at any moment leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.partial")
    try:
        with beside.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def load_checkpoint(path: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    """The state that was saved; tensors and plain values only, no code."""
    if not path.is_file():
        raise RunError(f"Expected a checkpoint at {path} (got none)")
    try:
        return torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # whatever the reader of a broken file raises
        raise RunError(f"Expected {path} to be a whole checkpoint (got: {error})") from error
