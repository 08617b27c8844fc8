"""Self-attention among few tokens, where moving data in memory costs more than the products."""

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from probsym.errors import DeviceError, DtypeError, RangeError, ShapeError

MOST_FUSED = 64
"""Tokens up to which a GPU keeps a sequence in registers."""
LARGEST_HEAD = 128
"""Numbers of a head up to which it does."""
TRITON = find_spec("triton") is not None


def short_attention(packed: Tensor, heads: int, seen: Tensor | None = None) -> Tensor:
    """Softmax attention of every token to the tokens of its own sequence.

    On an NVIDIA GPU, for up to 64 tokens, heads of up to 128 numbers and dtypes below float64, the forward pass is one
    kernel that reads queries, keys and values in place and writes the output in its final layout. The backward pass is
    one kernel too, which recomputes the attention weights; second derivatives are not available then. Otherwise it is
    two matrix products and a softmax.

    Args:
        packed: queries, keys and values, (rows, tokens, 3 * width); each has `width` numbers, head by head.
        heads: number of attention heads.
        seen: which tokens are attended to, booleans (rows, tokens). In a row without any, the output is zero.

    Returns:
        (rows, tokens, width).

    >>> short_attention(torch.randn(8, 25, 3 * 64), heads=4).shape
    torch.Size([8, 25, 64])
    """
    _check(packed, heads, seen)
    if _fused(packed, heads):
        attended: Tensor = _attend(packed, seen, heads)
        return attended
    queries, keys, values = packed.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    return (shares(queries, keys, seen) @ values).transpose(1, 2).flatten(2)


def shares(queries: Tensor, keys: Tensor, seen: Tensor | None = None) -> Tensor:
    """The attention weights of each query (rows, heads, tokens, size) on each key; zero if no token is seen."""
    scores = (queries * queries.shape[-1] ** -0.5) @ keys.mT
    if seen is None:
        return scores.softmax(-1)
    seen = seen[:, None, None]
    # the lowest number rather than -inf: a softmax of nothing but -inf is NaN, and so is its gradient
    weights = torch.where(seen, scores, torch.finfo(scores.dtype).min).softmax(-1)
    return torch.where(seen, weights, 0)


def _check(packed: Tensor, heads: int, seen: Tensor | None) -> None:
    if heads < 1:
        raise RangeError(f"Expected heads to be 1 or more (got {heads})")
    if packed.dim() != 3 or packed.shape[2] % (3 * heads):
        raise ShapeError(f"Expected packed (rows, tokens, 3 * width), {heads} dividing it (got {tuple(packed.shape)})")
    if seen is None:
        return
    if seen.dtype != torch.bool:
        raise DtypeError(f"Expected seen to be boolean (got {seen.dtype})")
    if seen.shape != packed.shape[:2]:
        raise ShapeError(f"Expected seen to be {tuple(packed.shape[:2])} (got {tuple(seen.shape)})")
    if seen.device != packed.device:
        raise DeviceError(f"Expected seen to be on {packed.device} like packed (got {seen.device})")


def _fused(packed: Tensor, heads: int) -> bool:
    return (
        packed.is_cuda
        and packed.shape[2] <= 3 * heads * LARGEST_HEAD
        and packed.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and packed.shape[1] <= MOST_FUSED
        and TRITON
    )


def _tf32() -> bool:
    """Whether products of float32 may be made of TF32, as the user has set it for all of them."""
    return torch.get_float32_matmul_precision() != "highest"


@torch.library.custom_op("probsym::short_attention", mutates_args=())
def _attend(packed: Tensor, seen: Tensor | None, heads: int) -> Tensor:
    from probsym.ops import short_attention_triton  # noqa: PLC0415  (triton comes with CUDA builds of torch only)

    return short_attention_triton.attend(packed, seen, heads, _tf32())


@_attend.register_fake
def _(packed: Tensor, seen: Tensor | None, heads: int) -> Tensor:
    return packed.new_empty(*packed.shape[:2], packed.shape[2] // 3)


@torch.library.custom_op("probsym::short_attention_backward", mutates_args=())
def _attend_back(gradient: Tensor, packed: Tensor, seen: Tensor | None, heads: int) -> Tensor:
    from probsym.ops import short_attention_triton  # noqa: PLC0415

    return short_attention_triton.attend_back(gradient, packed, seen, heads, _tf32())


@_attend_back.register_fake
def _(gradient: Tensor, packed: Tensor, *_: Any) -> Tensor:
    return packed.new_empty(packed.shape)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    packed, seen, ctx.heads = inputs
    ctx.save_for_backward(packed, seen)


def _back(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
    packed, seen = ctx.saved_tensors
    return _attend_back(gradient, packed, seen, ctx.heads), None, None


_attend.register_autograd(_back, setup_context=_remember)
