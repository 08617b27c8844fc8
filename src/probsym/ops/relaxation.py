"""The relaxed permutation as a scaled exponential kernel, and what gradients need of it."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.utils._pytree import tree_map

from probsym.ops.chunks import Sums, entropy_sums, pair_sums, product, sums_of
from probsym.ops.moments import moments
from probsym.ops.precision import at_least_float32
from probsym.ops.refused_gradient import differentiated_once
from probsym.ops.sinkhorn import sinkhorn
from probsym.ops.transforms import fold_rows, needs_gradient


class Settings(NamedTuple):
    """How a permutation is relaxed; `ops.soft_sort` explains each."""

    tau: float
    iterations: int
    unit: Literal["norm", "gap"]
    symmetric: bool


class Relaxation(NamedTuple):
    """`P^ = diag(a) K diag(b)` in sorted order, `K[r, j] = exp(-rate |points_r - points_j|)`, batch axes flat.

    Row r is the item that stands at position r, column j is position j. These vectors are float64 where the device
    has it: where P^ is nearly flat, the derivative of its entropy cancels to a few digits otherwise.
    """

    points: Tensor  # (rows, n), descending
    rate: Tensor  # (rows,)
    a: Tensor  # (rows, n), zero on padding
    b: Tensor  # (rows, n), zero on padding
    normalised: bool  # whether the columns sum to one whatever the points are


def relax(points: Tensor, real: Tensor | None, settings: Settings) -> Relaxation:
    """Relax the permutation of scores that are sorted already: points (rows, n), real (rows, n), True first."""
    if points.device.type != "mps":
        points = points.double()
    with torch.autocast(points.device.type, enabled=False):
        if real is not None:  # padding stands on the last real point, where it adds no length and no NaN
            points = torch.where(real, points, 0)
            points = torch.where(real, points, points.gather(1, (real.sum(1, keepdim=True) - 1).clamp(min=0)))
        points = points * _binary_scale(points.detach())
        rate = 1 / (settings.tau * _size(points, real, settings.unit))
        a, b = sinkhorn(points, rate, real, iterations=settings.iterations, symmetric=settings.symmetric)
        if real is not None:
            a, b = a * real, b * real
        return Relaxation(points, rate, a, b, settings.iterations > 0 and not settings.symmetric)


def _binary_scale(points: Tensor) -> Tensor:
    """The power of two for each row that brings its largest magnitude near 1; multiplying by it rounds nothing."""
    largest = points.abs().amax(1, keepdim=True)
    exponent = torch.frexp(largest.clamp(min=torch.finfo(points.dtype).tiny)).exponent
    return torch.where(largest > 0, torch.exp2(-exponent.to(points.dtype)), 1)


def _size(points: Tensor, real: Tensor | None, unit: str) -> Tensor:
    """What tau is measured in, (rows,): the norm of the points or their mean gap; 1 where that is zero."""
    if unit == "norm":
        size = torch.linalg.vector_norm(points if real is None else points * real, dim=1)
    else:
        gaps = points.shape[1] - 1 if real is None else real.sum(1) - 1
        size = (points[:, 0] - points[:, -1]) / torch.as_tensor(gaps).clamp(min=1)
    return torch.where(size > 0, size, 1)


def straight_through(x: Tensor, relaxation: Relaxation, axes: tuple[int, ...], outwards: bool) -> Tensor:
    """The identity on x (rows, ...) in sorted order; backward it also hands dL/dP to the relaxation.

    For x' = P' x and G = dL/dx', dL/dP is x' G' in sorted order, summed over every axis but the sorted one and
    then over the sorted axes; for an output y = P f (`outwards`) it is (P' dL/dy) f'.
    """
    return _StraightThrough.apply(x, *relaxation[:4], axes, outwards, _low_precision(x, axes))


def _low_precision(x: Tensor, axes: tuple[int, ...]) -> torch.dtype | None:
    """That of products under autocast on a GPU, for an array with as many numbers an item as there are items.

    The base rounds such an array to it anyhow, and with it the gradient. Products are then so fast there that M itself
    is built, which is no larger than the array.
    """
    n = x.shape[axes[0]]
    if (
        not x.is_cuda
        or x.dtype != torch.float32
        or x.dim() < 3
        or x.shape[1:].numel() < n * n
        or not torch.is_autocast_enabled("cuda")
    ):
        return None
    return torch.get_autocast_dtype("cuda")


def soft_product(x: Tensor, relaxation: Relaxation, axis: int, outwards: bool) -> Tensor:
    """`P^' x` along one axis of x (rows, ...) in sorted order (`outwards`: `P^ x`), with the exact gradient."""
    return _SoftProduct.apply(x, *relaxation[:4], axis, outwards)


def entropy(relaxation: Relaxation) -> Tensor:
    """`-sum P^ log P^`, (rows,): the sum of the row entropies, and as well that of the column entropies."""
    return _Entropy.apply(*relaxation)[0]


def _by_rows(function: type[torch.autograd.Function], size: int, in_dims: tuple[int | None, ...], given: Any) -> Any:
    """A function of rows, for the rows of all calls of a vmap at once."""
    outputs = function.apply(*fold_rows(size, in_dims, given))
    return tree_map(lambda tensor: tensor.unflatten(0, (size, -1)), outputs)


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, *_: Any) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, *kernel, ctx.axes, ctx.outwards, ctx.low = inputs
        ctx.save_for_backward(x if ctx.low is None else _outermost(x, ctx.axes, ctx.low)[0], *kernel)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> tuple[Tensor, int]:
        return _by_rows(_StraightThrough, info.batch_size, in_dims, given), 0

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, *kernel = ctx.saved_tensors
        moved = gradients[0]
        # to be differentiated again, here or by an outer transform: what x gets depends on the relaxation as well
        if needs_gradient(*kernel):
            moved = _StraightThrough.apply(moved, *kernel, ctx.axes, not ctx.outwards, ctx.low)
        if not any(ctx.needs_input_grad[1:5]):
            return moved, *(None for _ in range(7))
        relaxation_gradients = _dense_gradients if ctx.low is not None else _kernel_gradients
        return moved, *relaxation_gradients(x, gradients[0], kernel, ctx), None, None, None


class _SoftProduct(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, points: Tensor, rate: Tensor, a: Tensor, b: Tensor, axis: int, outwards: bool) -> Tensor:
        return _scaled_product(x, (points, rate, a, b), axis, outwards)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, axis, ctx.outwards = inputs
        ctx.axes = (axis,)
        ctx.save_for_backward(*tensors)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> tuple[Tensor, int]:
        return _by_rows(_SoftProduct, info.batch_size, in_dims, given), 0

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, *kernel = ctx.saved_tensors
        moved = _scaled_product(gradients[0], kernel, ctx.axes[0], not ctx.outwards)
        return moved, *_kernel_gradients(x, gradients[0], kernel, ctx), None, None


class _Entropy(torch.autograd.Function):
    @staticmethod
    def forward(points: Tensor, rate: Tensor, a: Tensor, b: Tensor, normalised: bool) -> tuple[Tensor, ...]:
        with torch.autocast(points.device.type, enabled=False):
            value, sums = entropy_sums(points, rate, a, b, normalised)
            return value, *_from_sums(sums, points, rate)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*inputs[:4], *output[1:])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        return _by_rows(_Entropy, info.batch_size, in_dims, given), (0,) * 5

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *sources, points, rate, a, b = ctx.saved_tensors
        each = gradients[0].unsqueeze(1)
        input_gradients = each * points, gradients[0] * rate, each * a, each * b
        return *differentiated_once("the gradient of the entropy", input_gradients, gradients[0], *sources), None


def _kernel_gradients(x: Tensor, gradient: Tensor, kernel: Sequence[Tensor], ctx: Any) -> tuple[Tensor, ...]:
    left, right = (gradient, x) if ctx.outwards else (x, gradient)
    fine, coarse = kernel[0].dtype, at_least_float32(x.dtype)
    points, rate, a, b = (part.to(coarse) for part in kernel)
    with torch.autocast(points.device.type, enabled=False):
        lefts, rights = ([_matrices(side, axis, points) for axis in ctx.axes] for side in (left, right))
        sums = Sums(*(part.to(fine) for part in pair_sums(points, rate, a, b, lefts, rights)))
        return _from_sums(sums, kernel[0], kernel[1])


def _dense_gradients(x: Tensor, gradient: Tensor, kernel: Sequence[Tensor], ctx: Any) -> tuple[Tensor, ...]:
    """As `_kernel_gradients`, with M built by products in low precision that are summed in float32."""
    gradient, axes = _outermost(gradient, ctx.axes, x.dtype)
    left, right = (gradient, x) if ctx.outwards else (x, gradient)
    moment = moments(left, right, axes, kernel[0].shape[1])
    points, rate, a, b = (part.to(moment.dtype) for part in kernel)
    sums = Sums(*(part.to(kernel[0].dtype) for part in sums_of(points, rate, a, b, moment)))
    return _from_sums(sums, kernel[0], kernel[1])


def _outermost(x: Tensor, axes: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, list[int]]:
    """x (rows, ...) contiguous with the first of the axes in front and the last behind, and where they are then.

    Of two axes that behind is filled up with zeros to a multiple of eight, as products in low precision want it.
    """
    ends = axes[:1] + axes[1:][-1:]
    order = [0, axes[0], *(i for i in range(1, x.dim()) if i not in ends), *ends[1:]]
    moved = x.permute(order).to(dtype, memory_format=torch.contiguous_format).contiguous()
    missing = -moved.shape[-1] % 8 if len(ends) == 2 else 0
    return pad(moved, (0, missing)) if missing else moved, [order.index(axis) for axis in axes]


def _from_sums(sums: Sums, points: Tensor, rate: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Derivatives for points, rate, a and b from those for the positions k (z_0 - z_r), a and b."""
    place = sums.place
    return -rate.unsqueeze(1) * place, (place * (points[:, :1] - points)).sum(1), sums.row, sums.column


def _scaled_product(x: Tensor, kernel: Sequence[Tensor], axis: int, outwards: bool) -> Tensor:
    points, rate, a, b = (part.to(at_least_float32(x.dtype)) for part in kernel)
    after, before = (a, b) if outwards else (b, a)
    with torch.autocast(points.device.type, enabled=False):
        moved = product(points, rate, before.unsqueeze(2) * _matrices(x, axis, points))
        return (after.unsqueeze(2) * moved).view(x.movedim(axis, 1).shape).movedim(1, axis).to(x.dtype)


def _matrices(x: Tensor, axis: int, points: Tensor) -> Tensor:
    """x (rows, ..., n, ...) as (rows, n, k) in the dtype of the points."""
    columns = x.shape[1:axis].numel() * x.shape[axis + 1 :].numel()
    return x.movedim(axis, 1).reshape(*points.shape, columns).to(points.dtype)
