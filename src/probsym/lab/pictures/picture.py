"""What every picture is made from, and how it is saved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from probsym._internal.atomic_write import atomic_write
from probsym.errors import RunError
from probsym.lab.engine import Engine


class Picture(Protocol):
    """A function of trained models with their data, by name."""

    def __call__(self, engines: Mapping[str, Engine], count: int, seed: int) -> Figure: ...


class Sketch(Protocol):
    """A function of a device and a seed alone, with models of its own."""

    def __call__(self, device: torch.device, seed: int) -> Figure: ...


def check_place(path: Path) -> None:
    """Refuse a file that is there already, or whose ending is no format of pictures."""
    formats = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix.removeprefix(".") not in formats:
        raise RunError(f"Expected {path} to end like a format of pictures: {', '.join(formats)} (got {path.suffix!r})")
    if path.exists():
        raise RunError(f"Expected no picture at {path}, which is never overwritten (got one)")


def save(figure: Figure, path: Path) -> None:
    """Write a picture, in the format that its name says; refuse to overwrite one."""
    check_place(path)
    with atomic_write(path, overwrite=False) as (partial,):
        figure.savefig(partial, format=path.suffix.removeprefix("."), dpi=130, bbox_inches="tight")
