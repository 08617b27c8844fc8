"""Random numbers from a generator, or from the global one."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def random_numbers(
    shape: Sequence[int],
    *,
    normal: bool,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Independent numbers: standard normal, or else uniform on [0, 1).

    Without a generator none is named: compilers cannot make numbers of changing shapes with `generator=None`.
    """
    draw = torch.randn if normal else torch.rand
    options: dict[str, Any] = {} if generator is None else {"generator": generator}
    return draw(tuple(shape), dtype=dtype, device=device, **options)
