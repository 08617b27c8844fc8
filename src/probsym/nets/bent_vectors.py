"""The nonlinearity of vector neurons, `a q + b k`, and its derivatives, a block of rows at a time.

Each block fits a processor's cache, and the backward pass computes the numbers a and b again, so none of them is kept.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from probsym.nets.row_blocks import row_blocks

SLOPE = 0.2


def inner(x: Tensor | Sequence[Tensor], y: Tensor | Sequence[Tensor]) -> Tensor:
    """The inner products of vectors whose coordinates lie on the first axis."""
    total = x[0] * y[0]
    for i in range(1, len(x)):
        total.addcmul_(x[i], y[i])
    return total


def vector_length(squares: Tensor) -> Tensor:
    """A length from its square, with a finite gradient at zero."""
    return torch.sqrt(squares + torch.finfo(squares.dtype).tiny ** 0.5)


def coefficients(scaled: Tensor, products: Tensor, below: Tensor, direction_below: Tensor) -> tuple[Tensor, Tensor]:
    """a and b from |q| BN(|q|) and <q, k>, and the divisors <q, q> and <k, k> with their floors."""
    a = scaled / below
    return a, (SLOPE - 1) * (a * products).clamp_max(0) / direction_below


def gates(
    q: Tensor, k: Tensor, floor: Tensor, direction_floor: Tensor, mean: Tensor, scale: Tensor, bias: Tensor
) -> tuple[Tensor, ...]:
    """a, b, <q, q>, <q, k>, |q|, BN(|q|) and the divisors of a and b, with `BN(x) = scale (x - mean) + bias`."""
    squares, products = inner(q, q), inner(q, k)
    length = vector_length(squares)
    norm = torch.addcmul(bias, length - mean, scale)
    below, direction_below = squares + floor, inner(k, k) + direction_floor
    a, b = coefficients(norm * length, products, below, direction_below)
    return a, b, squares, products, length, norm, below, direction_below


class Bent(torch.autograd.Function):
    """`share (a q + b k)` for q (d, rows, n, channels), k like it or with one channel, share (rows, n, 1) or None.

    The floors are (rows, 1, 1); mean, scale and bias (channels,).
    """

    @staticmethod
    def forward(ctx: Any, share: Tensor | None, *given: Tensor) -> Tensor:
        ctx.save_for_backward(share, *given)
        bent = torch.empty_like(given[0], memory_format=torch.contiguous_format)
        for rows in row_blocks(bent.shape[1], bent.shape[2:].numel()):
            q, k, *others = _at(rows, *given)
            a, b, *_ = gates(q, k, *others)
            if share is not None:
                a, b = a.mul_(share[rows]), b.mul_(share[rows])
            torch.mul(a, q, out=bent[:, rows]).addcmul_(b, k)
        return bent

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        share, *given = ctx.saved_tensors
        if torch.is_grad_enabled():  # these gradients will be differentiated in their turn
            to_q, to_k, *others = _slopes(gradients[0], share, *given)
            return None, to_q, to_k, None, None, *others
        to_q, to_k = (torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in given[:2])
        others = []
        for rows in row_blocks(to_q.shape[1], to_q.shape[2:].numel()):
            here = None if share is None else share[rows]
            to_q[:, rows], to_k[:, rows], *parts = _slopes(gradients[0][:, rows], here, *_at(rows, *given))
            others.append(torch.stack(parts))
        return None, to_q, to_k, None, None, *torch.stack(others).sum(0)


def _at(rows: slice, q: Tensor, k: Tensor, floor: Tensor, direction_floor: Tensor, *others: Tensor) -> list[Tensor]:
    return [q[:, rows], k[:, rows], floor[rows], direction_floor[rows], *others]


def _slopes(gradient: Tensor, share: Tensor | None, *given: Tensor) -> tuple[Tensor, ...]:
    """The gradients of q, k, mean, scale and bias."""
    q, k, _, _, mean, scale, _ = given
    a, b, _, products, length, norm, below, direction_below = gates(*given)
    if share is not None:
        gradient = gradient * share
    to_b = inner(gradient, k) / direction_below
    against = (SLOPE - 1) * to_b * (b != 0)
    to_a = torch.addcmul(inner(gradient, q), against, products) / below
    to_norm = to_a * length
    to_products, to_squares = against * a, to_a * (torch.addcmul(norm, scale, length) / length - 2 * a)
    to_q = (a * gradient).addcmul_(to_squares, q).addcmul_(to_products, k)
    to_k, to_squares = (b * gradient).addcmul_(to_products, q), to_b * b
    if k.shape[-1] == 1:
        to_k, to_squares = to_k.sum(-1, keepdim=True), to_squares.sum(-1, keepdim=True)
    to_bias = to_norm.flatten(0, -2).sum(0)
    to_scale = (to_norm * (length - mean)).flatten(0, -2).sum(0)
    return to_q, to_k.addcmul_(to_squares, k, value=-2), -scale * to_bias, to_scale, to_bias
