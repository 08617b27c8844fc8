"""Gradients that cannot be differentiated again, and say so."""

from typing import Any

import torch
from torch import Tensor

from probsym.errors import DerivativeError


def differentiated_once(what: str, found: tuple[Tensor, ...], *sources: Tensor) -> tuple[Tensor, ...]:
    """What a backward pass found, as it is; where it is to be differentiated again, that is refused by name.

    `sources` are the tensors that it was made from.
    """
    if not torch.is_grad_enabled() or not any(one.requires_grad for one in sources):
        return found
    return _Refused.apply(what, len(found), *(one.detach() for one in found), *sources)


class _Refused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, what: str, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.what = what
        return tuple(one.clone() for one in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        raise DerivativeError(
            f"Expected {ctx.what} to be differentiated once (got a second derivative in the scores of a sort, which is "
            "not there; derivatives in the inputs, and then in the scores, are)"
        )
