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
        b = history[-1].t().contiguous()
        return (b.clone() if symmetric else history[-2].t().contiguous()), b

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        grad_a, grad_b = gradients
        points, rate, real, history, slopes = ctx.saved_tensors
        place = _unscale(points, rate, real, history, slopes, grad_a, grad_b, ctx.symmetric)
        grad_rate = (place * (points[:, :1] - points)).sum(1)
        return -rate.unsqueeze(1) * place, grad_rate, None, None, None


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

    With g the derivative for log w after a step and u that for the total K w before it, the step hands
    `w * (K u)` to its input and `-(u * slope(w) + w * slope(u))` to the positions.
    """
    kernel = ExponentialKernel(points.t().contiguous(), rate, None if real is None else real.t())
    steps = slopes.shape[0]
    gradient = grad_b.t() * history[-1]
    join = grad_a.t() * history[-1 if symmetric else -2]
    if symmetric or steps == 0:
        gradient = gradient + join
    place = torch.zeros_like(gradient)
    for step in range(steps - 1, -1, -1):
        weights = history[step]
        scaled = history[step + 1]
        if symmetric:
            gradient = 0.5 * gradient
            flow = -gradient * scaled * scaled / weights
        else:
            flow = -gradient * scaled
        lower, upper = kernel.triangles(flow)
        place.addcmul_(flow, slopes[step], value=-1).addcmul_(weights, lower - upper, value=-1)
        through = (lower + upper).add_(flow).mul_(weights)
        gradient = through.add_(gradient) if symmetric else through
        if step == steps - 1 and not symmetric:
            gradient.add_(join)
    return place.t().contiguous()


@_unscale.register_fake
def _(points: Tensor, *_: Any, **__: Any) -> Tensor:
    return torch.empty_like(points)
