"""Tensors that raise an error if a gradient is to pass through them."""

from typing import Any

import torch
from torch import Tensor

from probsym.errors import DerivativeError
from probsym.ops.transforms import needs_gradient


def refused_gradient(message: str, tensors: tuple[Tensor, ...], *sources: Tensor) -> tuple[Tensor, ...]:
    """The tensors unchanged; if one of the sources needs a gradient, a backward pass raises `DerivativeError`.

    >>> (y,) = refused_gradient("Expected no gradient (got one)", (torch.ones(2),), torch.ones(2, requires_grad=True))
    >>> try:
    ...     y.sum().backward()
    ... except DerivativeError as error:
    ...     print(error)
    Expected no gradient (got one)
    """
    if not needs_gradient(*sources):
        return tensors
    guarded: tuple[Tensor, ...] = _Refused.apply(
        message, len(tensors), *(tensor.detach() for tensor in tensors), *sources
    )
    return guarded


class _Refused(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(message: str, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.clone() for tensor in tensors[:count])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.message = inputs[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        raise DerivativeError(ctx.message)
