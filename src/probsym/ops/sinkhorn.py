"""Sinkhorn scaling of the exponential kernel, with its own gradient, from vectors alone."""

from typing import Any

import torch
from torch import Tensor

from probsym.ops.kernel import ExponentialKernel


def sinkhorn(
    points: Tensor, rate: Tensor, real: Tensor | None = None, *, iterations: int = 20, symmetric: bool = False
) -> tuple[Tensor, Tensor]:
    """Vectors a, b such that `diag(a) K diag(b)` is nearly doubly stochastic, `K[r, j] = exp(-k |z_r - z_j|)`.

    Alternating: rows are normalised, then columns, `iterations` times; starting from b = 1 both are the one
    map `w <- 1 / (K w)`, since K is symmetric. Symmetric: `w <- sqrt(w / (K w))`, `iterations` times, a = b.

    Args:
        points: z (rows, n), descending.
        rate: k (rows,), positive.
        real: (rows, n) booleans, True first; K is the identity on the rest.

    Returns:
        a and b, each (rows, n), differentiable in points and rate.

    >>> points, rate = torch.tensor([[0.7, 0.1, -0.7]]), torch.tensor([2.0])
    >>> a, b = sinkhorn(points, rate)
    >>> kernel = torch.exp(-rate * (points.mT - points).abs())
    >>> (a.mT * kernel * b).sum(0)
    tensor([1.0000, 1.0000, 1.0000])
    """
    steps = iterations if symmetric else 2 * iterations
    return _Sinkhorn.apply(points, rate, real, steps, symmetric)


class _Sinkhorn(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, points: Tensor, rate: Tensor, real: Tensor | None, steps: int, symmetric: bool
    ) -> tuple[Tensor, Tensor]:
        history, slopes = _scale(points, rate, real, steps, symmetric)
        ctx.save_for_backward(points, rate, real, history, slopes)
        ctx.symmetric = symmetric
        last = history.shape[0] - 1
        return tuple(history[step].t().clone() for step in _ends(last, symmetric))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        grad_a, grad_b = gradients
        points, rate, real, history, slopes = ctx.saved_tensors
        place = _unscale(points, rate, real, history, slopes, grad_a, grad_b, ctx.symmetric)
        grad_rate = (place * (points[:, :1] - points)).sum(1)
        return -rate.unsqueeze(1) * place, grad_rate, None, None, None


def _ends(steps: int, symmetric: bool) -> tuple[int, int]:
    """Which iterates are a and b: the last but one, which normalised the rows, and the last."""
    return (steps if symmetric else max(steps - 1, 0)), steps


@torch.library.custom_op("probsym::sinkhorn_scale", mutates_args=())
def _scale(points: Tensor, rate: Tensor, real: Tensor | None, steps: int, symmetric: bool) -> tuple[Tensor, Tensor]:
    """All iterates w (steps + 1, n, rows) and, for each but the last, `(lower K - upper K) @ w`."""
    rows, n = points.shape
    kernel = ExponentialKernel(points.t().contiguous(), rate, None if real is None else real.t())
    history = points.new_ones(steps + 1, n, rows)
    slopes = points.new_empty(steps, n, rows)
    total = points.new_empty(n, rows)
    for weights, scaled, slope in zip(history, history[1:], slopes, strict=False):
        lower, upper = kernel.triangles(weights)
        torch.sub(lower, upper, out=slope)
        torch.add(lower, upper, out=total).add_(weights)
        if symmetric:
            torch.div(weights, total, out=scaled).sqrt_()
        else:
            torch.reciprocal(total, out=scaled)
    return history, slopes


@_scale.register_fake
def _(points: Tensor, rate: Tensor, real: Tensor | None, steps: int, symmetric: bool) -> tuple[Tensor, Tensor]:
    rows, n = points.shape
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
    """Derivative with respect to the position `k (z_0 - z_r)` of each point, (rows, n), by running the steps back.

    With g the derivative for log w after a step, and u = -dL/d(K w) the flow into the product before it, the step hands
    `-w * (K u)` to its input and `u * slope(w) + w * slope(u)` to the positions.
    """
    kernel = ExponentialKernel(points.t().contiguous(), rate, None if real is None else real.t())
    steps = slopes.shape[0]
    row_end, _ = _ends(steps, symmetric)
    gradient = grad_b.t() * history[-1]
    from_rows = grad_a.t() * history[row_end]
    if row_end == steps:
        gradient += from_rows
    place = torch.zeros_like(gradient)
    flow, slope = torch.empty_like(gradient), torch.empty_like(gradient)
    for step in range(steps - 1, -1, -1):
        weights, scaled = history[step], history[step + 1]
        torch.mul(gradient, scaled, out=flow)
        if symmetric:
            gradient *= 0.5
            flow.mul_(scaled).div_(weights).mul_(0.5)
        lower, upper = kernel.triangles(flow)
        torch.sub(lower, upper, out=slope)
        place.addcmul_(flow, slopes[step]).addcmul_(weights, slope)
        flow.add_(lower).add_(upper)
        if symmetric:
            gradient.addcmul_(weights, flow, value=-1)
        else:
            torch.mul(weights, flow, out=gradient).neg_()
        if step == row_end:
            gradient += from_rows
    return place.t().contiguous()


@_unscale.register_fake
def _(points: Tensor, *_: Any, **__: Any) -> Tensor:
    return torch.empty_like(points)
