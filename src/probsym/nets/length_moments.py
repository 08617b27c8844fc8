"""Mean and variance of the lengths of many vectors, a block of rows at a time."""

from typing import Any

import torch
from torch import Tensor

from probsym.nets.bent_vectors import inner, vector_length
from probsym.nets.row_blocks import Block, buffer, row_blocks


def point_moments(q: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The number of real points, the mean of |q| over them and the sum of squared differences from it, (channels,).

    q is (d, rows, n, channels), mask booleans (rows, n).
    """
    _, rows, n, channels = q.shape
    places = torch.empty(0, dtype=torch.long)
    blocks = [Block(block, places, None if mask is None else mask[block]) for block in row_blocks(rows, n * channels)]
    return _Moments.apply(blocks, q, None)


def edge_moments(blocks: list[Block], near: Tensor, own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same over edges, with what their ends add to q."""
    return _Moments.apply(blocks, near, own)


class _Moments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, blocks: list[Block], near: Tensor, own: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        moments, memory = [], None if own is None else buffer(near, blocks)
        for block in blocks:
            q = near[:, block.rows] if own is None else block.edges(near, own, memory)
            length = vector_length(inner(q, q))
            length = (length if block.real is None else length[block.real]).view(-1, near.shape[-1])
            mean = length.mean(0) if len(length) else near.new_zeros(near.shape[-1])
            moments.append((near.new_full((1,), len(length)), mean, (length - mean).square_().sum(0)))
        counts, means, squares = (torch.stack(column) for column in zip(*moments, strict=True))
        # by differences: the difference of two large moments would lose the variance
        count = counts.sum(0)
        mean = (counts * means).sum(0) / count.clamp_min(1)
        ctx.blocks = blocks
        ctx.save_for_backward(near, own, count, mean)
        ctx.mark_non_differentiable(count)
        return count, mean, (squares + counts * (means - mean).square()).sum(0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        near, own, count, mean = ctx.saved_tensors
        _, to_mean, to_squares = gradients
        to_mean, to_squares = to_mean / count.clamp_min(1), 2 * to_squares
        again = torch.is_grad_enabled()  # these gradients will be differentiated in their turn
        memory = None if own is None or again else buffer(near, ctx.blocks)
        to_near, to_own = torch.empty_like(near), None if own is None else torch.empty_like(own)
        for block in ctx.blocks:
            q = near[:, block.rows] if own is None else block.edges(near, own, memory)
            length = vector_length(inner(q, q))
            slope = torch.addcmul(to_mean, to_squares, length - mean) / length
            if block.real is not None:
                slope = slope * block.real.unsqueeze(-1)
            if to_own is None:
                to_near[:, block.rows] = slope * q
            else:
                edges = slope * q if again else q.mul_(slope)
                to_own[:, block.rows], to_near[:, block.rows] = edges.sum(1), block.sum_near(edges)
        return None, to_near, to_own
