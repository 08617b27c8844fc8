"""Sinkhorn scaling on an NVIDIA GPU: all steps of a line in one kernel, the line kept in registers.

The two operations of `ops.sinkhorn`, for lines that fit. Each program holds one line and runs the
recurrence behind the exponential kernel, `L_r = f_r (L_{r-1} + w_{r-1})`, as an associative scan from either end.
"""

# Triton reads the annotations of its kernels itself.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _then(first_factor, first_value, factor, value):
    return first_factor * factor, first_value * factor + value


@triton.jit
def _triangles(weights, before, after, place, BLOCK: tl.constexpr):
    """Products with the strictly lower and the strictly upper triangle of K."""
    left = tl.gather(weights, tl.maximum(place - 1, 0), 0)
    right = tl.gather(weights, tl.minimum(place + 1, BLOCK - 1), 0)
    _, lower = tl.associative_scan((before, before * left), 0, _then)
    _, upper = tl.associative_scan((after, after * right), 0, _then, reverse=True)
    return lower, upper


@triton.jit
def _neighbours(points, rate, real, n, place, MASKED: tl.constexpr):
    """K to the point before and to the point after, zero where there is none."""
    here = tl.load(points + place, mask=place < n, other=0.0)
    left = tl.load(points + place - 1, mask=(place > 0) & (place < n), other=0.0)
    right = tl.load(points + place + 1, mask=place + 1 < n, other=0.0)
    has_left, has_right = (place > 0) & (place < n), place + 1 < n
    if MASKED:
        has_left = has_left & (tl.load(real + place, mask=place < n, other=0) != 0)
        has_right = has_right & (tl.load(real + place + 1, mask=place + 1 < n, other=0) != 0)
    before = tl.where(has_left, tl.exp(rate * (here - left)), 0.0)
    after = tl.where(has_right, tl.exp(rate * (right - here)), 0.0)
    return before, after


@triton.jit
def _scale_kernel(
    points, rate, real, history, slopes, n, whole,
    STEPS: tl.constexpr, SYMMETRIC: tl.constexpr, MASKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    inside = place < n
    before, after = _neighbours(points + row * n, tl.load(rate + row), real + row * n, n, place, MASKED)
    iterate, slope = history + row * n + place, slopes + row * n + place
    weights = before * 0 + 1
    tl.store(iterate, weights, mask=inside)
    for _ in range(STEPS):
        lower, upper = _triangles(weights, before, after, place, BLOCK)
        total = lower + upper + weights
        weights = tl.sqrt(weights / total) if SYMMETRIC else 1 / total
        tl.store(slope, lower - upper, mask=inside)
        slope += whole
        iterate += whole
        tl.store(iterate, weights, mask=inside)


@triton.jit
def _unscale_kernel(
    points, rate, real, last, last_slope, at_rows, grad_a, grad_b, result, n, whole,
    STEPS: tl.constexpr, ROW_END: tl.constexpr, SYMMETRIC: tl.constexpr, MASKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    inside = place < n
    before, after = _neighbours(points + row * n, tl.load(rate + row), real + row * n, n, place, MASKED)
    own = row * n + place
    iterate, slope = last + own, last_slope + own
    scaled = tl.load(iterate, mask=inside, other=1.0)
    gradient = tl.load(grad_b + own, mask=inside, other=0.0) * scaled
    from_rows = tl.load(grad_a + own, mask=inside, other=0.0) * tl.load(at_rows + own, mask=inside, other=1.0)
    gradient += tl.where(ROW_END == STEPS, from_rows, 0.0)
    total = gradient * 0
    for back in range(STEPS):
        iterate -= whole
        weights = tl.load(iterate, mask=inside, other=1.0)
        flow = gradient * scaled
        if SYMMETRIC:
            gradient = 0.5 * gradient
            flow = 0.5 * flow * scaled / weights
        lower, upper = _triangles(flow, before, after, place, BLOCK)
        total += flow * tl.load(slope, mask=inside, other=0.0) + weights * (lower - upper)
        through = weights * (flow + lower + upper)
        gradient = gradient - through if SYMMETRIC else -through
        gradient += tl.where(STEPS - 1 - back == ROW_END, from_rows, 0.0)
        scaled = weights
        slope -= whole
    tl.store(result + own, total, mask=inside)


def scale(points: Tensor, rate: Tensor, real: Tensor | None, steps: int, symmetric: bool) -> tuple[Tensor, Tensor]:
    """The iterates (steps + 1, n, rows) and slopes (steps, n, rows) of `ops.sinkhorn`, points last in memory."""
    rows, n = points.shape
    points, rate = points.contiguous(), rate.contiguous()
    history, slopes = points.new_empty(steps + 1, rows, n), points.new_empty(steps, rows, n)
    block, warps = _launch(n)
    mask = points if real is None else real.to(torch.uint8).contiguous()
    with torch.cuda.device(points.device):
        _scale_kernel[(rows,)](
            points, rate, mask, history, slopes, n, rows * n,
            STEPS=steps, SYMMETRIC=symmetric, MASKED=real is not None, BLOCK=block, num_warps=warps,
        )  # fmt: skip
    return history.transpose(1, 2), slopes.transpose(1, 2)


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
    """The derivative for the position of each point, (rows, n)."""
    rows, n = points.shape
    points, rate, grad_a, grad_b = (tensor.contiguous() for tensor in (points, rate, grad_a, grad_b))
    history, slopes = (tensor.transpose(1, 2).contiguous() for tensor in (history, slopes))
    result = torch.empty_like(points)
    block, warps = _launch(n)
    mask = points if real is None else real.to(torch.uint8).contiguous()
    with torch.cuda.device(points.device):
        _unscale_kernel[(rows,)](
            points, rate, mask, history[-1], slopes[-1:], history[row_end], grad_a, grad_b, result, n, rows * n,
            STEPS=len(slopes), ROW_END=row_end, SYMMETRIC=symmetric, MASKED=real is not None, BLOCK=block,
            num_warps=warps,
        )  # fmt: skip
    return result


def _launch(n: int) -> tuple[int, int]:
    """The power of two that holds a line, and the warps that share it."""
    block = max(triton.next_power_of_2(n), 2)
    return block, max(1, min(8, block // 128))
