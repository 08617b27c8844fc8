"""Sinkhorn scaling with plain tensor operations: every product with the kernel is a doubling scan."""

import torch
from torch import Tensor

from probsym.ops.kernel import ExponentialKernel


def scale(points: Tensor, rate: Tensor, real: Tensor | None, steps: int, symmetric: bool) -> tuple[Tensor, Tensor]:
    """The iterates (steps + 1, n, rows) and slopes (steps, n, rows) that `ops.sinkhorn` describes."""
    rows, n = points.shape
    kernel = _kernel(points, rate, real)
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


def unscale(
    points: Tensor,
    rate: Tensor,
    real: Tensor | None,
    history: Tensor,
    slopes: Tensor,
    grad_a: Tensor,
    grad_b: Tensor,
    symmetric: bool,
    row_end: int,
) -> Tensor:
    """The derivative for the position of each point, (rows, n); `row_end` says which iterate is a."""
    kernel = _kernel(points, rate, real)
    steps = slopes.shape[0]
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


def _kernel(points: Tensor, rate: Tensor, real: Tensor | None) -> ExponentialKernel:
    return ExponentialKernel(points.t().contiguous(), rate, None if real is None else real.t())
