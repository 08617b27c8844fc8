"""Which systems of charged particles are chaotic: where rounding decides, no two simulators agree."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probsym._internal.progress import Show
from probsym.data.files import Arrays, kept
from probsym.data.nbody import FRAMES, SIZES, Floats, Start, by_part, simulate, used_start

NUDGE = 1e-10
FAR = 1e-4


def nbody_chaos(show: Show | None = None) -> dict[str, Tensor]:
    """Booleans for the systems of `nbody`, by part: True where the start does not determine the target in practice.

    A system counts as chaotic if scaling all initial positions by 1 + 1e-10 moves some coordinate of its target by more
    than 1e-4. In such a system errors, those of rounding included, grow a millionfold or more.

    This takes half a minute, once.
    """
    arrays = kept("nbody_charged5_chaos.npz", lambda: _compared(show), needs=SIZES)
    return {name: torch.from_numpy(arrays[name]) for name in SIZES}


def _compared(show: Show | None) -> Arrays:
    start = used_start()
    half = len(start.charges)
    both = Start(
        *(np.concatenate([array, nudged_array]) for array, nudged_array in zip(start, nudged(start), strict=True))
    )
    target, nudged_target = np.split(simulate(both, FRAMES[1:], show)[FRAMES[1]][0], [half])
    return dict(by_part(moved(target, nudged_target)))


def nudged(start: Start) -> Start:
    """The same beginnings, a tiny bit further out."""
    return start._replace(positions=start.positions * (1 + NUDGE))


def moved(target: Floats, other: Floats) -> NDArray[np.bool_]:
    """Booleans (count,): whether some coordinate of a system differs by more than FAR."""
    return np.abs(target - other).max(axis=(1, 2)) > FAR
