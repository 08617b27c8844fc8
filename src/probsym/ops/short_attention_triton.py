"""`ops.short_attention` on an NVIDIA GPU: one program for each head of each sequence, all of it in registers."""

# Triton reads the annotations of its kernels itself.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _shares(queries, keys, seen, row, tokens, scale, place, MASKED: tl.constexpr, PRECISION: tl.constexpr):
    """The softmax over the keys that are there, zeros for all others."""
    there = place < tokens
    if MASKED:
        there = there & (tl.load(seen + row * tokens + place, mask=there, other=0) != 0)
    scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION) * scale
    scores = tl.where(there[None, :], scores, -1e30)
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    weights = tl.where(there[None, :], weights, 0.0)
    total = tl.sum(weights, 1)
    return weights / tl.where(total == 0, 1.0, total)[:, None]


@triton.jit
def _forward_kernel(
    packed, seen, output, tokens, scale,
    HEADS: tl.constexpr, SIZE: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr,
    TOKENS_BLOCK: tl.constexpr, SIZE_BLOCK: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    place, entry = tl.arange(0, TOKENS_BLOCK), tl.arange(0, SIZE_BLOCK)
    inside = (place < tokens)[:, None] & (entry < SIZE)[None, :]
    width = HEADS * SIZE
    own = packed + row * tokens * 3 * width + place[:, None] * 3 * width + head * SIZE + entry[None, :]
    queries = tl.load(own, mask=inside, other=0.0)
    keys = tl.load(own + width, mask=inside, other=0.0)
    values = tl.load(own + 2 * width, mask=inside, other=0.0)
    weights = _shares(queries, keys, seen, row, tokens, scale, place, MASKED, PRECISION)
    attended = tl.dot(weights.to(values.dtype), values, input_precision=PRECISION)
    target = output + row * tokens * width + place[:, None] * width + head * SIZE + entry[None, :]
    tl.store(target, attended.to(values.dtype), mask=inside)


@triton.jit
def _backward_kernel(
    gradient, packed, seen, result, tokens, scale,
    HEADS: tl.constexpr, SIZE: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr,
    TOKENS_BLOCK: tl.constexpr, SIZE_BLOCK: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    place, entry = tl.arange(0, TOKENS_BLOCK), tl.arange(0, SIZE_BLOCK)
    inside = (place < tokens)[:, None] & (entry < SIZE)[None, :]
    width = HEADS * SIZE
    offset = row * tokens * 3 * width + place[:, None] * 3 * width + head * SIZE + entry[None, :]
    queries = tl.load(packed + offset, mask=inside, other=0.0)
    keys = tl.load(packed + offset + width, mask=inside, other=0.0)
    values = tl.load(packed + offset + 2 * width, mask=inside, other=0.0)
    given = gradient + row * tokens * width + place[:, None] * width + head * SIZE + entry[None, :]
    flow = tl.load(given, mask=inside, other=0.0)
    weights = _shares(queries, keys, seen, row, tokens, scale, place, MASKED, PRECISION)
    to_values = tl.dot(tl.trans(weights).to(flow.dtype), flow, input_precision=PRECISION)
    to_weights = tl.dot(flow, tl.trans(values), input_precision=PRECISION)
    to_scores = weights * (to_weights - tl.sum(weights * to_weights, 1)[:, None]) * scale
    to_queries = tl.dot(to_scores.to(keys.dtype), keys, input_precision=PRECISION)
    to_keys = tl.dot(tl.trans(to_scores).to(queries.dtype), queries, input_precision=PRECISION)
    tl.store(result + offset, to_queries.to(queries.dtype), mask=inside)
    tl.store(result + offset + width, to_keys.to(queries.dtype), mask=inside)
    tl.store(result + offset + 2 * width, to_values.to(queries.dtype), mask=inside)


def attend(packed: Tensor, seen: Tensor | None, heads: int, tf32: bool) -> Tensor:
    """The output (rows, tokens, width)."""
    packed = packed.contiguous()
    rows, tokens, width = packed.shape[0], packed.shape[1], packed.shape[2] // 3
    output = packed.new_empty(rows, tokens, width)
    _launch(_forward_kernel, (packed, _bytes(seen, packed), output), packed, seen, heads, tf32)
    return output


def attend_back(gradient: Tensor, packed: Tensor, seen: Tensor | None, heads: int, tf32: bool) -> Tensor:
    """The derivative for queries, keys and values, packed as they are."""
    packed, gradient = packed.contiguous(), gradient.to(packed.dtype).contiguous()
    result = torch.empty_like(packed)
    _launch(_backward_kernel, (gradient, packed, _bytes(seen, packed), result), packed, seen, heads, tf32)
    return result


def _bytes(seen: Tensor | None, packed: Tensor) -> Tensor:
    return packed if seen is None else seen.to(torch.uint8).contiguous()


def _launch(kernel, tensors, packed: Tensor, seen: Tensor | None, heads: int, tf32: bool) -> None:
    rows, tokens, size = packed.shape[0], packed.shape[1], packed.shape[2] // (3 * heads)
    if rows == 0 or tokens == 0:
        return
    block = max(16, triton.next_power_of_2(tokens))
    with torch.cuda.device_of(packed):
        kernel[(rows, heads)](
            *tensors, tokens, size**-0.5,
            HEADS=heads, SIZE=size, MASKED=seen is not None, PRECISION="tf32" if tf32 else "ieee",
            TOKENS_BLOCK=block, SIZE_BLOCK=max(16, triton.next_power_of_2(size)), num_warps=max(1, block // 32),
        )  # fmt: skip
