"""Sinkhorn scaling of the exponential kernel, with its own gradient, from vectors alone."""

from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from probsym.ops import sinkhorn_doubling
from probsym.ops.refused_gradient import differentiated_once
from probsym.ops.transforms import calls_first, fold_rows

LONGEST_FUSED = 2048
"""Points of a line up to which a GPU keeps all of it in registers."""


def sinkhorn(
    points: Tensor, rate: Tensor, real: Tensor | None = None, *, iterations: int = 20, symmetric: bool = False
) -> tuple[Tensor, Tensor]:
    """Vectors a, b such that `diag(a) K diag(b)` is nearly doubly stochastic, `K[r, j] = exp(-k |z_r - z_j|)`.

    By default, rows are normalised, then columns, `iterations` times, from b = 1; since K is symmetric, both steps are
    the same map `w <- 1 / (K w)`. If `symmetric`, `w <- sqrt(w / (K w))` is applied `iterations` times, and a = b = w.

    Args:
        points: z (rows, n), descending.
        rate: k (rows,), positive.
        real: (rows, n) booleans, real points (True) first; K is the identity on the rest.
        iterations: number of iterations.
        symmetric: which of the two schemes to use.

    Returns:
        a and b, each (rows, n), differentiable in points and rate.

    >>> points, rate = torch.tensor([[0.7, 0.1, -0.7]]), torch.tensor([2.0])
    >>> a, b = sinkhorn(points, rate)
    >>> kernel = torch.exp(-rate * (points.mT - points).abs())
    >>> (a.mT * kernel * b).sum(0)
    tensor([1.0000, 1.0000, 1.0000])
    """
    steps = iterations if symmetric else 2 * iterations
    a, b, *_ = _Sinkhorn.apply(points, rate, real, steps, symmetric)
    return a, b


class _Sinkhorn(torch.autograd.Function):
    """Saved for the way back are the iterates w (steps + 1, n, rows) and slopes `(lower K - upper K) w`.

    With g the derivative for log w after a step, and u = -dL/d(K w) the flow into the product before it, the step
    hands `-w * (K u)` to its input and `u * slope(w) + w * slope(u)` to the positions k (z_0 - z_r).
    """

    @staticmethod
    def forward(points: Tensor, rate: Tensor, real: Tensor | None, steps: int, symmetric: bool) -> tuple[Tensor, ...]:
        history, slopes = _scale(points, rate, real, steps, symmetric)
        return *(history[end].t().clone() for end in _ends(steps, symmetric)), history, slopes

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        points, rate, real, _, ctx.symmetric = inputs
        ctx.mark_non_differentiable(*output[2:])
        ctx.save_for_backward(points, rate, real, *output[2:])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        a, b, *saved = _Sinkhorn.apply(*fold_rows(info.batch_size, in_dims, given))
        size = (info.batch_size, -1)
        return (*(x.unflatten(0, size) for x in (a, b)), *(x.unflatten(2, size) for x in saved)), (0, 0, 2, 2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        grad_a, grad_b, *_ = gradients
        points, rate, real, history, slopes = ctx.saved_tensors
        with torch.no_grad():
            place = _unscale(points, rate, real, history, slopes, grad_a, grad_b, ctx.symmetric)
            input_gradients = -rate.unsqueeze(1) * place, (place * (points[:, :1] - points)).sum(1)
        once = differentiated_once("the gradient of Sinkhorn's scaling", input_gradients, points, rate, grad_a, grad_b)
        return *once, None, None, None


def _ends(steps: int, symmetric: bool) -> tuple[int, int]:
    """Which iterates are a and b: the last but one, which normalised the rows, and the last."""
    return (steps if symmetric else max(steps - 1, 0)), steps


def _fused(points: Tensor) -> bool:
    return points.is_cuda and points.shape[1] <= LONGEST_FUSED and find_spec("triton") is not None


def _backend(points: Tensor) -> ModuleType:
    if not _fused(points):
        return sinkhorn_doubling
    from probsym.ops import sinkhorn_triton  # noqa: PLC0415  (triton comes with CUDA builds of torch only)

    return sinkhorn_triton


@torch.library.custom_op("probsym::sinkhorn_scale", mutates_args=())
def _scale(points: Tensor, rate: Tensor, real: Tensor | None, steps: int, symmetric: bool) -> tuple[Tensor, Tensor]:
    return _backend(points).scale(points, rate, real, steps, symmetric)


@_scale.register_fake
def _(points: Tensor, rate: Tensor, real: Tensor | None, steps: int, symmetric: bool) -> tuple[Tensor, Tensor]:
    rows, n = points.shape
    if _fused(points):
        history, slopes = points.new_empty(steps + 1, rows, n), points.new_empty(steps, rows, n)
        return history.transpose(1, 2), slopes.transpose(1, 2)
    return points.new_empty(steps + 1, n, rows), points.new_empty(steps, n, rows)


@torch.library.custom_op("probsym::sinkhorn_unscale", mutates_args=())
def _unscale(
    points: Tensor,
    rate: Tensor,
    real: Tensor | None,
    history: Tensor,
    slopes: Tensor,
    grad_a: Tensor,
    grad_b: Tensor,
    symmetric: bool,
) -> Tensor:
    row_end, _ = _ends(slopes.shape[0], symmetric)
    return _backend(points).unscale(points, rate, real, history, slopes, grad_a, grad_b, symmetric, row_end)


@_unscale.register_vmap
def _(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> tuple[Tensor, int]:
    """Only the way back is called by torch.func alone: on the way there it goes through `_Sinkhorn`."""
    size, rows_last = info.batch_size, (3, 4)
    folded = [
        calls_first(size, value, axis).movedim(0, -2).flatten(-2)
        if i in rows_last
        else fold_rows(size, (axis,), (value,))[0]
        for i, (value, axis) in enumerate(zip(given, in_dims, strict=True))
    ]
    return _unscale(*folded).unflatten(0, (size, -1)), 0


@_unscale.register_fake
def _(points: Tensor, *_: Any, **__: Any) -> Tensor:
    return torch.empty_like(points)
