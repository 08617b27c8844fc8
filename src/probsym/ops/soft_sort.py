"""Sorting with a straight-through gradient: a hard permutation forward, a relaxed one backward."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
from torch import Tensor

from probsym.errors import DtypeError, RangeError
from probsym.ops import relaxation
from probsym.ops.argument_checks import check_size, check_tau
from probsym.ops.order import Order
from probsym.ops.permute import check_order, descending, moved
from probsym.ops.relaxation import Relaxation, Settings
from probsym.ops.transforms import needs_gradient


def soft_sort(
    scores: Tensor,
    *,
    mask: Tensor | None = None,
    ties: Tensor | None = None,
    tau: float = 0.01,
    iterations: int = 20,
    unit: Literal["norm", "gap"] = "norm",
    symmetric: bool = False,
    soft: bool = False,
    relax: bool | None = None,
) -> SoftSort:
    """Sort items by descending score, with a gradient for the scores.

    Forward, tensors are moved by the permutation P that sorts the scores: sort and gather, no matrix.
    Backward, P is replaced by `P^ = Sinkhorn(-|z 1' - 1 sort(z)'| / tau)`, where z are the scores divided
    by their norm and Sinkhorn normalises rows, then columns, `iterations` times. Memory is O(n) per draw: P^ is a
    scaled exponential kernel on the sorted line and is never built, except on a GPU under autocast, for arrays that are
    at least as large.

    Where scores tie exactly, the derivative of |z_r - z_j| is taken as that of z_r - z_j if r is placed before j: the
    one-sided derivative that keeps the current order.

    Args:
        scores: (*batch, n), floating.
        mask: booleans that broadcast to the scores, True for real items. Padding is placed last and is zero.
        ties: (*batch, n) numbers that order exactly tied scores, larger first. If None, ties keep their order.
        tau: temperature of the relaxation, positive.
        iterations: Sinkhorn iterations, each a row and a column normalisation (with `symmetric`, one scaling).
        unit: what tau is measured in: the "norm" of the scores, as in the paper, or the mean "gap" between
            neighbours, which keeps the relaxation equally sharp for every n.
        symmetric: scale both sides by w <- sqrt(w / (K w)) instead, which converges in fewer steps.
        soft: apply P^ itself in the forward pass too; the gradient is then exact, but items are blended.
        relax: whether to prepare the gradient. If None, only if grad mode is on and the scores require it.

    >>> scores = torch.tensor([0.1, 0.9, 0.5], requires_grad=True)
    >>> order = soft_sort(scores, tau=0.1)
    >>> order.sort(torch.tensor([10.0, 20.0, 30.0])).tolist()
    [20.0, 30.0, 10.0]
    >>> order.unsort(torch.tensor([1.0, 2.0, 3.0])).tolist()
    [3.0, 1.0, 2.0]
    """
    check_order(scores, mask, ties)
    check_tau(tau)
    iterations = check_size(iterations, "iterations", least=0)
    if unit not in ("norm", "gap"):
        raise RangeError(f"Expected unit to be 'norm' or 'gap' (got {unit!r})")
    if soft and relax is False:
        raise RangeError("Expected relax to be None or True where soft is True (got False)")
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    if relax is None:
        relax = needs_gradient(scores)
    order = SoftSort(
        scores=scores,
        index=descending(scores.detach(), mask, ties),
        mask=mask,
        settings=Settings(tau, iterations, unit, symmetric),
    )
    return replace(order, soft=soft, relaxation=order.prepared()) if relax or soft else order


@dataclass(frozen=True, eq=False, kw_only=True)
class SoftSort(Order):
    """A batch of sorting permutations; made by `soft_sort`.

    `relaxation` carries the gradient to the scores; it is None in evaluation, where no Sinkhorn is run. The result of
    `sort` is needed for the gradient, so do not change it in place.
    """

    scores: Tensor
    settings: Settings
    soft: bool = False
    relaxation: Relaxation | None = None

    def entropy(self) -> Tensor:
        """Row entropy plus column entropy of P^, averaged over the real items: (*batch,)."""
        count = self.index.shape[-1] if self.mask is None else self.mask.sum(-1).clamp(min=1)
        total = relaxation.entropy(self.prepared()).to(self.scores.dtype)
        return 2 * total.view(self.index.shape[:-1]) / count

    def matrix(self) -> Tensor:
        """P^ itself, (*batch, n, n): rows are places before sorting, columns positions after it. For small n."""
        n = self.index.shape[-1]
        identity = torch.eye(n, dtype=self.scores.dtype, device=self.scores.device).expand(*self.index.shape, n)
        order = replace(self, soft=True, relaxation=self.prepared())
        return order.unsort(identity, axis=-2)

    def prepared(self) -> Relaxation:
        """The relaxation, computed now if it was not prepared."""
        if self.relaxation is not None:
            return self.relaxation
        n, real = self.index.shape[-1], self.sorted_mask()
        points = moved(self.scores, self.index).reshape(self.index.shape[:-1].numel(), n)
        return relaxation.relax(
            points, None if real is None else real.expand(self.index.shape).reshape(points.shape), self.settings
        )

    def chunk(self, start: int, stop: int) -> Self:
        part = replace(super().chunk(start, stop), scores=self.scores[:, start:stop], relaxation=None)
        if self.relaxation is None:
            return part
        batch = self.index.shape[:2]

        def some(x: Tensor) -> Tensor:
            return x.unflatten(0, batch)[:, start:stop].flatten(0, 1)

        points, rate, a, b = (some(x) for x in self.relaxation[:4])
        return replace(part, relaxation=Relaxation(points, rate, a, b, self.relaxation.normalised))

    def _relaxed(self, x: Tensor, axes: tuple[int, ...], outwards: bool) -> Tensor:
        inner = tuple(axis - self.index.dim() + 2 for axis in axes)
        if not self.soft:
            if self.relaxation is None or not x.is_floating_point():
                return x
            return relaxation.straight_through(self._flat(x), self.relaxation, inner, outwards).view(x.shape)
        if not x.is_floating_point():
            raise DtypeError(f"Expected a floating tensor to blend its items (got {x.dtype})")
        for axis in inner:
            x = relaxation.soft_product(self._flat(x), self.prepared(), axis, outwards).reshape(x.shape)
        return x

    def _flat(self, x: Tensor) -> Tensor:
        """x (*batch, ...) with one axis for all draws."""
        return x.reshape(self.index.shape[:-1].numel(), *x.shape[self.index.dim() - 1 :])
