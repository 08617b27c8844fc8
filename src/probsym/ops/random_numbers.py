"""Random numbers from a generator, from the global one, or from seeds."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from probsym.ops.seeded import Seeded


def random_numbers(
    shape: Sequence[int],
    *,
    normal: bool,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    generator: torch.Generator | Seeded | None = None,
) -> Tensor:
    """Independent numbers: standard normal, or else uniform on [0, 1).

    Without a generator, the argument is left out: compilers do not support `generator=None` for dynamic shapes.
    A `Seeded` generator reads the first two axes of the shape as batch items and draws.
    """
    if isinstance(generator, Seeded):
        return generator.numbers(shape, normal=normal, dtype=dtype)
    draw = torch.randn if normal else torch.rand
    options: dict[str, Any] = {} if generator is None else {"generator": generator}
    return draw(tuple(shape), dtype=dtype, device=device, **options)


def normal_numbers(u: Tensor) -> Tensor:
    """Turn uniform float64 numbers in [0, 1) into standard normal ones."""
    return torch.special.ndtri(u.clamp(2.0**-54, 1 - 2.0**-53))
