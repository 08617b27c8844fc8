"""Layers on lists of vectors that commute with every rotation and reflection.

A feature is x (d, ..., channels): a list of vectors whose coordinates lie on the first axis, so that the inner product
of a channel is a sum of d slabs of memory. Linear maps mix the channels; what bends or chooses depends on inner
products alone.

What is zero by symmetry is only zero up to rounding in a computer, and a direction taken from rounding errors does not
follow a rotation. Each layer therefore has a floor, relative to the size of what it read, below which a vector
has no direction; and choices between equals are shared among them.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from probsym.nets.batch_norm import MaskedBatchNorm
from probsym.nets.features import check_size
from probsym.ops.gram_schmidt import TOLERANCE

SLOPE = 0.2


class VectorLinear(nn.Linear):
    """`y = x W'`: each of `outputs` vectors is a weighted sum of `inputs`; x (d, ..., inputs), y (d, ..., outputs).

    >>> VectorLinear(2, 5)(torch.rand(3, 4, 2)).shape
    torch.Size([3, 4, 5])
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        check_size(inputs, "inputs")
        check_size(outputs, "outputs")
        super().__init__(inputs, outputs, bias=False)

    def on_pairs(self, x: Tensor, index: Tensor | None) -> Tensor:
        """The pairs [x_j - x_i, x_i] mapped, (d, m, rows, n, outputs), from points x (d, rows, n, channels).

        The m neighbours j of a point i are given by index (m, rows, n), or are all n. Points are mapped before they
        are paired: `[x_j - x_i, x_i] [W1, W2]' = x_j W1' + x_i (W2 - W1)'`.
        """
        d, rows, n, channels = x.shape
        near, own = self.weight.split(channels, dim=1)
        theirs, ours = linear(x, near), linear(x, own - near)
        if index is None:
            theirs = theirs.transpose(1, 2).contiguous().unsqueeze(3)
        else:
            first = torch.arange(0, rows * n, n, device=x.device).view(rows, 1)
            theirs = theirs.flatten(1, 2).index_select(1, (index + first).flatten()).view(d, *index.shape, -1)
        return theirs + ours.unsqueeze(1)


class VectorLeakyReLU(nn.Module):
    """A linear map, batch norm of the lengths, and a leaky ReLU along a learned direction.

        q = x W',   k = x U',   q <- q BN(|q|) / |q|,   y = q - (1 - slope) min(<q, k>, 0) k / <k, k>

    in each channel: what of q points against k is reduced to a fifth. With `shared`, all channels have one k.
    Shapes: x (d, rows, n, inputs), y (d, rows, n, outputs), mask booleans (rows, n) of what enters the norm.

    >>> VectorLeakyReLU(2, 5)(torch.rand(3, 4, 6, 2)).shape
    torch.Size([3, 4, 6, 5])
    """

    def __init__(self, inputs: int, outputs: int, *, shared: bool = False) -> None:
        super().__init__()
        self.feature = VectorLinear(inputs, outputs)
        self.direction = VectorLinear(inputs, 1 if shared else outputs)
        self.norm = MaskedBatchNorm(outputs)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self._rectify(self.feature(x), self.direction(x), x, mask)

    def on_pairs(self, x: Tensor, index: Tensor | None, mask: Tensor | None = None) -> Tensor:
        """The same for pairs of points, as `VectorLinear.on_pairs` makes them; mask (m, rows, n)."""
        return self._rectify(self.feature.on_pairs(x, index), self.direction.on_pairs(x, index), x, mask)

    def _rectify(self, q: Tensor, k: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        squares, product, direction_squares = _Products.apply(q, k.expand_as(q))
        # where everything is zero, a positive number keeps 0 / 0 out, and out of the gradient of the root
        tiny = 1e-30
        length = torch.sqrt(squares + tiny)
        scale = self.norm(length, mask) * length / (squares + (_floor(x, self.feature.weight) + tiny))
        against = (scale * product).clamp_max(0)
        part = (SLOPE - 1) * against / (direction_squares + (_floor(x, self.direction.weight) + tiny))
        return _Blend.apply(scale, q, part, k.expand_as(q))


class VectorMaxPool(nn.Module):
    """In each channel the vector x_j for which `<x_j, (x_j D')>` is largest; the mean of those that tie.

    Shapes: x (d, m, ..., channels), mask booleans (m, ...), result (d, ..., channels); zero where none is real. D only
    chooses, so no gradient reaches it and none is asked for.

    >>> VectorMaxPool(2)(torch.rand(3, 6, 4, 2)).shape
    torch.Size([3, 4, 2])
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.direction = VectorLinear(channels, channels).requires_grad_(False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        with torch.no_grad():
            product = inner(x, self.direction(x))
            size = product.abs()
            if mask is not None:
                real = mask.unsqueeze(-1)
                product, size = torch.where(real, product, -torch.inf), torch.where(real, size, 0)
            slack = TOLERANCE[x.dtype] * size.amax(0).amax(-1, keepdim=True)
            chosen = product >= product.amax(0) - slack
            if mask is not None:
                chosen = chosen & real
            share = chosen.to(x.dtype)
            share = share / share.sum(0).clamp_min(1)
        return (share * x).sum(1)


def inner(x: Tensor, y: Tensor) -> Tensor:
    """The inner products of two lists of vectors (d, ..., channels), one coordinate after another."""
    total = x[0] * y[0]
    for a, b in zip(x[1:], y[1:], strict=True):
        total.addcmul_(a, b)
    return total


class _Products(torch.autograd.Function):
    """<q, q>, <q, k> and <k, k>, without the products of the coordinates in memory."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(q, k)
        return inner(q, q), inner(q, k), inner(k, k)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (q, k), (own, across, direction) = ctx.saved_tensors, gradients
        return (2 * own * q).addcmul_(across, k), (2 * direction * k).addcmul_(across, q)


class _Blend(torch.autograd.Function):
    """`a q + b k` with one number a and b for each vector."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, q: Tensor, b: Tensor, k: Tensor) -> Tensor:
        ctx.save_for_backward(a, q, b, k)
        return (a * q).addcmul_(b, k)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        a, q, b, k = ctx.saved_tensors
        (gradient,) = gradients
        return inner(gradient, q), a * gradient, inner(gradient, k), b * gradient


def _floor(x: Tensor, weight: Tensor) -> Tensor:
    """The square of the length below which `x weight'` is rounding: (rows, 1, 1), without gradient."""
    size = x.detach().square().sum((0, -1)).amax(-1)
    gain = weight.detach().square().sum() / len(weight)
    return (TOLERANCE[x.dtype] ** 2 * gain * size)[:, None, None]
