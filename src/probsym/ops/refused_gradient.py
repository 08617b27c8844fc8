"""Tensors that raise an error if a gradient is to pass through them."""

from typing import Any

import torch
from torch import Tensor

from probsym.errors import DerivativeError
from probsym.ops.transforms import needs_gradient


def refused_gradient(message: str, tensors: tuple[Tensor, ...], *sources: Tensor) -> tuple[Tensor, ...]:
    """The tensors unchanged; a backward pass that goes through them to one of the sources raises `DerivativeError`.

    Gradients for anything else are as before.

    >>> (y,) = refused_gradient("Expected no gradient (got one)", (torch.ones(2),), torch.ones(2, requires_grad=True))
    >>> try:
    ...     y.sum().backward()
    ... except DerivativeError as error:
    ...     print(error)
    Expected no gradient (got one)
    """
    if not needs_gradient(*sources):
        return tensors
    # a zero beside each tensor, made of the sources alone: whoever asks for other gradients never comes by
    return tuple(tensor + _Refused.apply(message, tensor.dtype, *sources) for tensor in tensors)


def differentiated_once(what: str, gradients: tuple[Tensor, ...], *sources: Tensor) -> tuple[Tensor, ...]:
    """The gradients of a backward pass, as they are; where it is to be differentiated again, that is refused by name.

    `sources` are the tensors that it was made from.
    """
    message = (
        f"Expected {what} to be differentiated once (got a second derivative in the scores of a sort, which is "
        "not there; derivatives in the inputs, and then in the scores, are)"
    )
    return refused_gradient(message, tuple(gradient.detach() for gradient in gradients), *sources)


class _Refused(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(message: str, dtype: torch.dtype, *sources: Tensor) -> Tensor:
        return sources[0].new_zeros((), dtype=dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.message = inputs[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        raise DerivativeError(ctx.message)
