"""Batch normalisation that ignores padding, with statistics shared by all processes."""

import math
from typing import Any

import torch
from torch import Tensor, distributed, nn

from probsym.errors import MaskError, RangeError, ShapeError, TracingError
from probsym.ops.argument_checks import check_size
from probsym.ops.transforms import hidden, transformed


class MaskedBatchNorm(nn.Module):
    """`weight (x - mean) / sqrt(var + eps) + bias` in each channel, with mean and variance over the real rows.

    Shapes: x (..., channels), mask booleans that broadcast to x's leading axes, True where real. In training
    the statistics are those of the batch, or of all processes' batches together if training is distributed; in
    evaluation they are running ones (variance unbiased, as in torch). With at most one real row, nothing is divided by
    zero and the running variance is not updated. The output on padding is finite, whatever the input there.

    >>> norm = MaskedBatchNorm(1)
    >>> x, real = torch.tensor([[1.0], [3.0], [float("nan")]]), torch.tensor([True, True, False])
    >>> norm(x, real)[:2].round(decimals=3).flatten().tolist()
    [-1.0, 1.0]
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        check_size(channels, "channels")
        if not 0 <= momentum <= 1:
            raise RangeError(f"Expected momentum between 0 and 1 (got {momentum})")
        if not eps > 0:
            raise RangeError(f"Expected eps to be positive (got {eps})")
        self.channels, self.momentum, self.eps = channels, momentum, eps
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def extra_repr(self) -> str:
        return f"{self.channels}, momentum={self.momentum}, eps={self.eps}"

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        rows = self._rows(x, mask)
        self._check_mapped(x, mask)
        precise = x.to(torch.promote_types(x.dtype, self.weight.dtype))
        joined = self._joined()
        if mask is None and not joined and (not self.training or rows > 1):
            return self._plain(precise).to(x.dtype)
        real = None if mask is None else mask.unsqueeze(-1)
        if not self.training:
            # not left to multiplying by zero, which keeps NaN
            return self._plain(torch.where(real, precise, 0) if real is not None else precise).to(x.dtype)
        count = precise.new_full((1,), rows)
        if real is not None:
            # whole numbers: compiled for any size, a GPU divides them in float32 and may miss one
            count = (real.sum()[None] * (rows // max(real.numel(), 1))).to(precise.dtype)
        total = _sum_rows(precise if real is None else torch.where(real, precise, 0))
        if joined:
            total, count = _AllReduce.apply(torch.cat([total, count])).split([self.channels, 1])
        mean = total / count.clamp_min(1)
        centred = precise - mean
        if real is not None:
            centred = torch.where(real, centred, 0)
        # squares of what is centred already: the difference of two large moments would lose the variance
        squares = _sum_rows(centred * centred)
        if joined:
            squares = _AllReduce.apply(squares)
        return torch.addcmul(self.bias, centred, self._scale(mean, squares, count)).to(x.dtype)

    def statistics(self, moments: tuple[Tensor, Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
        """The mean and the factor m, s of `BN(x) = s (x - m) + bias`, for x that is not in memory at once.

        In training the moments over this process' real rows are needed: their count (1,), their mean and the sum of
        squared differences from it, (channels,).
        """
        if not self.training:
            return self.running_mean, self.weight * torch.rsqrt(self.running_var + self.eps)
        assert moments is not None
        count, mean, squares = moments
        if self._joined():
            total, every = _AllReduce.apply(torch.cat([count * mean, count])).split([self.channels, 1])
            own, mean = mean, total / every.clamp_min(1)
            squares, count = _AllReduce.apply(squares + count * (own - mean).square()), every
        return mean, self._scale(mean, squares, count)

    def _scale(self, mean: Tensor, squares: Tensor, count: Tensor) -> Tensor:
        self._remember(mean.detach(), squares.detach(), count.detach())
        return self.weight * torch.rsqrt(squares / count.clamp_min(1) + self.eps)

    def _joined(self) -> bool:
        """Whether statistics are those of several processes."""
        here = self.training and distributed.is_available() and distributed.is_initialized()
        return here and distributed.get_world_size() > 1

    def _plain(self, x: Tensor) -> Tensor:
        flat = nn.functional.batch_norm(
            x.reshape(-1, self.channels),
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training,
            self.momentum,
            self.eps,
        )
        return flat.view(x.shape)

    def _remember(self, mean: Tensor, squares: Tensor, count: Tensor) -> None:
        with torch.no_grad():
            _move_towards(self.running_mean, mean, self.momentum * count.clamp(0, 1))
            unbiased = squares / (count - 1).clamp_min(1)
            _move_towards(self.running_var, unbiased, self.momentum * (count - 1).clamp(0, 1))

    def _check_mapped(self, x: Tensor, mask: Tensor | None) -> None:
        """Refuse a vmap in training over items that share the running statistics, which each item would change."""
        if not self.training or torch.compiler.is_compiling() or not transformed() or hidden(self.running_mean):
            return
        if hidden(x) or (mask is not None and hidden(mask)):
            raise TracingError("Expected a model in evaluation mode for a vmap, model.eval() (got one in training)")

    def _rows(self, x: Tensor, mask: Tensor | None) -> int:
        if x.dim() < 2 or x.shape[-1] != self.channels:
            raise ShapeError(f"Expected x to be (..., {self.channels}) with a row axis (got {tuple(x.shape)})")
        if mask is not None:
            if mask.dtype != torch.bool:
                raise MaskError(f"Expected mask to be boolean (got {mask.dtype})")
            own = mask.shape
            if len(own) != x.dim() - 1 or any(a not in (1, b) for a, b in zip(own, x.shape, strict=False)):
                raise MaskError(f"Expected mask to broadcast to {tuple(x.shape[:-1])} (got {tuple(own)})")
        return math.prod(x.shape[:-1])


def _move_towards(running: Tensor, x: Tensor, share: Tensor) -> None:
    if not torch.compiler.is_compiling() and transformed() and not hidden(running):
        # torch.func.grad refuses `lerp_` on what the function was not given, but takes what torch's own norm does
        torch.lerp(running, x.to(running.dtype), share, out=running)
    else:
        running.lerp_(x.to(running.dtype), share)


def _sum_rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1]).sum(0)


class _AllReduce(torch.autograd.Function):
    """The sum over all processes; each one's part takes part in every process' loss, so gradients sum as well."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return _AllReduce.apply(gradients[0])
