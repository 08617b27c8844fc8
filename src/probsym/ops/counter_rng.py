"""Random numbers that are a function of their position: (seed, stream, example, draw, entry)."""

from collections.abc import Sequence

import torch
from torch import Tensor

_STEPS = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0x8CB92BA72F3D8DD7, 0xAEF17502108EF2D9, 0xDB4F0B9175AE2165)
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def counter_uniform(
    seed: int,
    stream: int,
    ids: Tensor,
    start: int,
    draws: int,
    shape: Sequence[int],
    dtype: torch.dtype,
    entries: Tensor | None = None,
) -> Tensor:
    """Uniform numbers in [0, 1), (B, draws, *shape), the same for the same example, draw and entry in every call.

    `entries` (B, size of the shape) number the entries; by default they are numbered in order.

    >>> uniform = counter_uniform(0, 0, torch.tensor([7, 3]), 0, 2, (3,), torch.float32)
    >>> bool((uniform[1:, 1:] == counter_uniform(0, 0, torch.tensor([3]), 1, 1, (3,), torch.float32)).all())
    True
    """
    if entries is None:
        entries = torch.arange(torch.Size(shape).numel(), device=ids.device).unsqueeze(0)
    numbers = torch.arange(start, start + draws, device=ids.device)
    entries = entries.unsqueeze(1)
    place = ids.long()[:, None, None], numbers[:, None], entries
    key = sum(
        (coordinate * _signed(step) for coordinate, step in zip(place, _STEPS, strict=False)),
        start=torch.zeros_like(entries),
    )
    key = mixed(key + _signed(seed * _STEPS[3] + stream * _STEPS[4]))
    bits = 24 if dtype == torch.float32 else 53
    return (_shifted(mixed(key), 64 - bits).to(dtype) * 2.0**-bits).view(ids.shape[0], draws, *shape)


def counter_normal(
    seed: int,
    stream: int,
    ids: Tensor,
    start: int,
    draws: int,
    shape: Sequence[int],
    dtype: torch.dtype,
    entries: Tensor | None = None,
) -> Tensor:
    """Standard normal numbers, (B, draws, *shape), the same for the same example, draw and entry in every call."""
    radius = 1 - counter_uniform(seed, 2 * stream + (1 << 32), ids, start, draws, shape, dtype, entries)
    angle = 2 * torch.pi * counter_uniform(seed, 2 * stream + 1 + (1 << 32), ids, start, draws, shape, dtype, entries)
    return (-2 * radius.log()).sqrt() * angle.cos()


def mixed(key: Tensor) -> Tensor:
    """A bijection of 64 bits that spreads every bit over all."""
    for shift, factor in zip((30, 27), _FACTORS, strict=True):
        key = (key ^ _shifted(key, shift)) * _signed(factor)
    return key ^ _shifted(key, 31)


def _shifted(key: Tensor, by: int) -> Tensor:
    """The bits moved right, zeros coming in: integers here have a sign."""
    return (key >> by) & ((1 << (64 - by)) - 1)


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >= 1 << 63 else value
