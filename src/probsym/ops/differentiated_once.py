"""Gradients that cannot be differentiated again, and say so."""

from typing import Any

import torch
from torch import Tensor

from probsym.errors import DerivativeError
from probsym.ops.transforms import needs_gradient


def differentiated_once(what: str, found: tuple[Tensor, ...], *sources: Tensor) -> tuple[Tensor, ...]:
    """What a backward pass found, as it is; where it is to be differentiated again, that is refused by name.

    `sources` are the tensors that it was made from.
    """
    if not needs_gradient(*sources):
        return found
    return _Refused.apply(what, len(found), *(one.detach() for one in found), *sources)


class _Refused(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(what: str, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(one.clone() for one in tensors[:count])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.what = inputs[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        raise DerivativeError(
            f"Expected {ctx.what} to be differentiated once (got a second derivative in the scores of a sort, which is "
            "not there; derivatives in the inputs, and then in the scores, are)"
        )
