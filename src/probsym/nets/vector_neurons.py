"""Layers on lists of vectors that commute with every rotation and reflection.

A feature is x (d, ..., channels): a list of vectors whose coordinates lie on the first axis, so that the inner product
of a channel is a sum of d slabs of memory. Linear maps mix the channels; nonlinearities and choices depend on inner
products alone.

What is zero by symmetry is only zero up to rounding in a computer, and a direction taken from rounding errors does not
follow a rotation. Each layer therefore has a floor, relative to the size of what it read, below which a vector
has no direction; and where candidates tie, their mean is taken.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from probsym.nets.bent_vectors import Bent, coefficients, vector_length
from probsym.nets.length_moments import point_moments
from probsym.nets.row_blocks import in_blocks
from probsym.ops.argument_checks import check_size
from probsym.ops.gram_schmidt import TOLERANCE
from probsym.ops.masked_batch_norm import MaskedBatchNorm

TIE = {torch.float32: 1e-5, torch.float64: 1e-10}
"""Numbers that differ by less, relative to what they are made of, are the same up to rounding."""


class VectorLinear(nn.Linear):
    """`y = x W'`: each of `outputs` vectors is a weighted sum of `inputs`; x (d, ..., inputs), y (d, ..., outputs).

    >>> VectorLinear(2, 5)(torch.rand(3, 4, 2)).shape
    torch.Size([3, 4, 5])
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        check_size(inputs, "inputs")
        check_size(outputs, "outputs")
        super().__init__(inputs, outputs, bias=False)


class VectorLeakyReLU(nn.Module):
    """A linear map, batch norm of the lengths, and a leaky ReLU along a learned direction.

        q = x W',   k = x U',   q <- q BN(|q|) / |q|,   y = q - (1 - slope) min(<q, k>, 0) k / <k, k>

    in each channel: the part of q that points against k is scaled to a fifth. With `shared`, all channels have one k.
    Shapes: x (d, rows, n, inputs), y (d, rows, n, outputs), mask booleans (rows, n), True for what enters the norm. The
    floor is relative to the largest x of a row, or to `least` if that is larger (1 after a batch norm, 0 for inputs).
    Vectors that all points of a row have in `common`, (d, rows, 1, inputs), are read as if appended to x.

    >>> VectorLeakyReLU(2, 5)(torch.rand(3, 4, 6, 2)).shape
    torch.Size([3, 4, 6, 5])
    """

    def __init__(self, inputs: int, outputs: int, *, shared: bool = False, least: float = 1.0) -> None:
        super().__init__()
        self.least = least
        self.feature = VectorLinear(inputs, outputs)
        self.direction = VectorLinear(inputs, 1 if shared else outputs)
        self.norm = MaskedBatchNorm(outputs)

    def forward(self, x: Tensor, mask: Tensor | None = None, common: Tensor | None = None) -> Tensor:
        q, k = linear_maps(x, common, self.feature.weight, self.direction.weight)
        return self.bend(q, k, self.floor(x, common), mask)

    def bend(self, q: Tensor, k: Tensor, floor: Tensor, mask: Tensor | None) -> Tensor:
        """The norm and the ReLU, given both linear maps."""
        if in_blocks(q):
            moments = point_moments(q, mask) if self.norm.training else None
            return self.bent(q, k, floor, *self.norm.statistics(moments))
        squares, products, direction_squares = (q * q).sum(0), (q * k).sum(0), (k * k).sum(0)
        length = vector_length(squares)
        scale, part = self.gates(squares, self.norm(length, mask) * length, products, direction_squares, floor)
        return torch.addcmul(scale * q, part, k)

    def bent(
        self, q: Tensor, k: Tensor, floor: Tensor, mean: Tensor, scale: Tensor, share: Tensor | None = None
    ) -> Tensor:
        """`share (a q + b k)` on a CPU, where numbers in between stay in its cache; mean and scale are the norm's."""
        return Bent.apply(share, q, k, *self.floors(floor), mean, scale, self.norm.bias)

    def floors(self, floor: Tensor) -> tuple[Tensor, Tensor]:
        """The floor as it is for q and for k."""
        return floor * _gain(self.feature), floor * _gain(self.direction)

    def gates(
        self, squares: Tensor, scaled: Tensor, products: Tensor, direction_squares: Tensor, floor: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The numbers a, b of `y = a q + b k`, from <q, q>, |q| BN(|q|), <q, k>, <k, k>, all (..., outputs)."""
        floor, direction_floor = self.floors(floor)
        return coefficients(scaled, products, squares + floor, direction_squares + direction_floor)

    def floor(self, x: Tensor, common: Tensor | None = None) -> Tensor:
        """The square of the length below which x is rounding, (rows, 1, 1), without gradient; positive at zero."""
        size, small = _size(x), TOLERANCE[x.dtype] ** 2
        if common is not None:
            size = size + _size(common)
        least = max(small * self.least**2 * self.feature.in_features, torch.finfo(x.dtype).tiny ** 0.5)
        return (small * size).clamp_min(least)[:, None, None]


class VectorMaxPool(nn.Module):
    """In each channel the vector x_j for which `<x_j, (x_j D')>` is largest; the mean of those that tie.

    Shapes: x (d, m, ..., channels), mask booleans (m, ...), result (d, ..., channels); zero where none is real. D only
    chooses, so it gets no gradient and does not require one.

    >>> VectorMaxPool(2)(torch.rand(3, 6, 4, 2)).shape
    torch.Size([3, 4, 2])
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.direction = VectorLinear(channels, channels).requires_grad_(False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        with torch.no_grad():
            taken = self.taken((x * self.direction(x)).sum(0), (x * x).sum(0).sqrt(), mask)
            share = shares(taken, x.dtype)
        return (share * x).sum(1)

    def taken(self, products: Tensor, lengths: Tensor, mask: Tensor | None) -> Tensor:
        """Which x_j have the largest product, up to what rounding does to vectors so long, all (m, ..., channels)."""
        if mask is not None:
            real = mask.unsqueeze(-1)
            products, lengths = torch.where(real, products, -torch.inf), torch.where(real, lengths, 0)
        longest = lengths.amax(0)
        slack = TIE[products.dtype] * _gain(self.direction).sqrt() * longest * longest.amax(-1, keepdim=True)
        chosen = products >= products.amax(0) - slack
        return chosen if mask is None else chosen & real


def linear_maps(x: Tensor, common: Tensor | None, *weights: Tensor) -> tuple[Tensor, ...]:
    """`[x, common] W'` for each of the weights; common (d, rows, 1, inputs) are vectors that all points have."""
    joint = torch.cat(weights)
    mapped = linear(x, joint[:, : x.shape[-1]])
    if common is not None:
        mapped = mapped.add_(linear(common, joint[:, x.shape[-1] :]))
    return split_channels(mapped, *(len(weight) for weight in weights))


def split_channels(x: Tensor, *sizes: int) -> tuple[Tensor, ...]:
    """x (..., channels) as so many tensors with these numbers of channels."""
    parts = x.split(sizes, dim=-1)
    # if views are kept for the backward pass, torch 2.11 compiles it for one batch size
    return tuple(part.contiguous() for part in parts) if torch.compiler.is_compiling() else parts


def shares(taken: Tensor, dtype: torch.dtype) -> Tensor:
    """Equal parts for those of the first axis that are taken, zero where none is."""
    share = taken.to(dtype)
    return share / share.sum(0).clamp_min(1)


def _size(x: Tensor) -> Tensor:
    """The squared length of the largest point of each row, all its vectors together."""
    return torch.linalg.vector_norm(x.detach(), dim=-1).square().sum(0).amax(-1)


def _gain(layer: nn.Linear) -> Tensor:
    """The mean square of the factors by which a map lengthens."""
    return layer.weight.detach().square().sum(1).mean()
