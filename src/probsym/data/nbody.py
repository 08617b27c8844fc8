"""Charged particles that attract and repel each other: positions and velocities, and where they are later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probsym._internal.progress import Show
from probsym.data.files import Arrays, kept
from probsym.ops.argument_checks import check_size

Floats = NDArray[np.float64]

SEED, SIZES = 43, {"train": 10_000, "valid": 2_000, "test": 2_000}
USED = {"train": 3_000, "valid": 2_000, "test": 2_000}
FRAMES = (30, 40)
_STEP, _EVERY, _SPEED, _BOX, _STRONGEST = 1e-3, 100, 0.5, 5.0, 100.0
_CHUNK = 500
"""Simulations that move together: few enough for all they need to stay in the processor's cache."""


class Particles(NamedTuple):
    """Systems of n particles, in float64."""

    position: Tensor
    """(count, n, 3), at the first frame."""
    velocity: Tensor
    """(count, n, 3), at the first frame."""
    charges: Tensor
    """(count, n, 1), each 1 or -1."""
    target: Tensor
    """(count, n, 3), the positions at the second frame."""

    @property
    def edges(self) -> Tensor:
        """The products of charges, (count, n, n)."""
        return self.charges * self.charges.mT


class Start(NamedTuple):
    """How simulations begin: charges (count, n), positions and velocities (count, 3, n)."""

    charges: Floats
    positions: Floats
    velocities: Floats


def nbody(show: Show | None = None) -> dict[str, Particles]:
    """The charged five-body system of the paper: 3,000 systems for training ("train"), 2,000 "valid", 2,000 "test".

    As published, 10,000 + 2,000 + 2,000 are simulated one after the other from one seed, and the first 3,000 are used.
    This takes a minute or two, once: the used systems are kept in the cache (see `probsym.data.files`). Charges equal
    those of the published set, and positions agree up to rounding, except where particles come so close that rounding
    decides: there ours are different trajectories of the same physics.
    """

    arrays = kept(
        "nbody_charged5.npz",
        lambda: _published(show),
        needs=[f"{name}_{field}" for name in SIZES for field in Particles._fields],
    )
    return {
        name: Particles(*(torch.from_numpy(arrays[f"{name}_{field}"]) for field in Particles._fields)) for name in SIZES
    }


def _published(show: Show | None) -> Arrays:
    """The systems that are used, under the names of `Particles`, part by part."""
    used = used_start()
    frames = simulate(used, FRAMES, show)
    (position, velocity), (target, _) = (frames[frame] for frame in FRAMES)
    fields = {"position": position, "velocity": velocity, "charges": used.charges[:, None], "target": target}
    return {
        f"{name}_{field}": part.transpose(0, 2, 1) for field, values in fields.items() for name, part in by_part(values)
    }


def used_start() -> Start:
    """The beginnings of all systems that are used, part after part."""
    starts = np.cumsum([0, *SIZES.values()])
    rows = [np.arange(first, first + USED[name]) for name, first in zip(SIZES, starts, strict=False)]
    return Start(*(array[np.concatenate(rows)] for array in published_start(int(starts[-1]))))


def by_part(values: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """What belongs to all systems that are used, for "train", "valid" and "test"."""
    return zip(SIZES, np.split(values, np.cumsum([USED[name] for name in SIZES])[:-1]), strict=True)


def published_start(count: int, n: int = 5, seed: int = SEED) -> Start:
    """Random beginnings, drawn in the order of the published generator, which draws unused noise after each.

    >>> start = published_start(2)
    >>> sorted(set(start.charges.flatten().tolist())), np.linalg.norm(start.velocities[0], axis=0).round(3).tolist()
    ([-1.0, 1.0], [0.5, 0.5, 0.5, 0.5, 0.5])
    """
    check_size(count, "count")
    check_size(n, "n")
    random = np.random.RandomState(seed)
    start = Start(np.empty((count, n)), np.empty((count, 3, n)), np.empty((count, 3, n)))
    for charges, position, velocity in zip(*start, strict=True):
        charges[:] = random.choice([-1.0, 0.0, 1.0], size=(n, 1), p=[0.5, 0.0, 0.5])[:, 0]
        position[:] = random.randn(3, n) * (n / 5.0) ** (1 / 3)
        direction = random.randn(3, n)
        velocity[:] = direction * _SPEED / np.sqrt((direction**2).sum(0))
        for _ in range(2):
            random.randn(49, 3, n)
    return start


def simulate(
    start: Start, frames: Sequence[int] = FRAMES, show: Show | None = None
) -> Mapping[int, tuple[Floats, Floats]]:
    """Positions and velocities (count, 3, n) at some frames; frame f is the state after step 100 (f + 1).

    The force on i is the sum over j of `q_i q_j (x_i - x_j) / |x_i - x_j|^3`, each component clipped to 100 in size;
    the step is 1e-3, velocities first. What begins outside a box of side 10 is reflected into it.
    """
    last = _EVERY * (max(frames) + 1)
    wanted = {_EVERY * (frame + 1): frame for frame in frames}
    count = len(start.charges)
    parts: dict[int, list[tuple[Floats, Floats]]] = {frame: [] for frame in frames}
    for first in range(0, count, _CHUNK):
        charges, x, v = (array[first : first + _CHUNK].copy() for array in start)
        products = charges[:, :, None] * charges[:, None, :]
        _reflect(x, v)
        v += _STEP * forces(x, products)
        for step in range(1, last + 1):
            x += _STEP * v
            if step in wanted:
                parts[wanted[step]].append((x.copy(), v.copy()))
            v += _STEP * forces(x, products)
        if show is not None:
            show(min(first + _CHUNK, count), count, "of charged particles")
    joined = {}
    for frame, states in parts.items():
        positions, velocities = (np.concatenate(chunks) for chunks in zip(*states, strict=True))
        joined[frame] = positions, velocities
    return joined


def forces(x: Floats, products: Floats) -> Floats:
    """The forces (count, 3, n) at positions (count, 3, n), for products of charges (count, n, n)."""
    n = x.shape[-1]
    squares = (x**2).sum(1)
    apart = squares[:, :, None] + squares[:, None, :] - 2 * (x.transpose(0, 2, 1) @ x)
    itself = np.arange(n)
    apart[:, itself, itself] = 0.0
    together = apart <= 0  # themselves, and others that rounding cannot tell from them: no force, no division by zero
    strength = np.where(together, 0.0, products / np.power(np.where(together, 1.0, apart), 1.5))
    total = (strength[:, None] * (x[:, :, :, None] - x[:, :, None, :])).sum(-1)
    return np.clip(total, -_STRONGEST, _STRONGEST)


def _reflect(x: Floats, v: Floats) -> None:
    for side in (1.0, -1.0):
        outside = side * x > _BOX
        x[outside] = side * 2 * _BOX - x[outside]
        v[outside] = -side * np.abs(v[outside])
