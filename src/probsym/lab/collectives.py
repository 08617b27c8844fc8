"""What processes that train together exchange: outputs before the loss, gradients after it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, distributed


def gathered(rows: Tensor) -> Tensor:
    """The rows of all processes, in their order: each has the same number.

    The gradient is for losses that every process computes of all rows alike and whose gradients are averaged.
    """
    return _Gathered.apply(rows)


def average_gradients(parameters: Iterable[Tensor]) -> None:
    """Replace every gradient by its mean over the processes; those that are None in one are None in all."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    joined = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(joined)
    joined /= distributed.get_world_size()
    parts = joined.split([gradient.numel() for gradient in gradients])
    torch._foreach_copy_(
        gradients, [part.view(gradient.shape) for part, gradient in zip(parts, gradients, strict=True)]
    )


def copy_from_first(tensors: Iterable[Tensor]) -> None:
    """Overwrite all that are floating by what the first process has there."""
    for tensor in tensors:
        if tensor.is_floating_point():
            sent = tensor.contiguous()
            distributed.broadcast(sent, 0)
            tensor.copy_(sent)


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        rows = rows.contiguous()
        parts = [torch.empty_like(rows) for _ in range(distributed.get_world_size())]
        distributed.all_gather(parts, rows)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        world, rank = distributed.get_world_size(), distributed.get_rank()
        return world * gradients[0].chunk(world)[rank]
