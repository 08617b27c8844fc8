"""A batch of permutations of the items of an axis, some of which may be padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from probsym.ops.permute import inverted, kept, moved, resolve_axes


@dataclass(frozen=True, eq=False)
class Order:
    """Permutations, where `index[j]` is the place of the item at position j, (*batch, n), and a mask of real items.

    `mask` broadcasts to the index; if given, the order puts real items first and padding last, and padding is zero in
    everything that is moved.

    >>> order = Order(torch.tensor([2, 0, 1]), torch.tensor([True, False, True]))
    >>> order.sort(torch.tensor([10.0, 20.0, 30.0])).tolist()
    [30.0, 10.0, 0.0]
    >>> order.unsort(torch.tensor([3.0, 1.0, 2.0])).tolist()
    [1.0, 0.0, 3.0]
    """

    index: Tensor
    mask: Tensor | None = None

    def sort(self, x: Tensor, axis: int | Sequence[int] = -1, *, zeroed: bool = False) -> Tensor:
        """Sort the items of x, with padding last and zero: `P' x` along each given axis.

        x is (*batch, ...); a batch axis of size 1 is shared by the draws. `zeroed` says that its padding is
        already zero, which saves a pass over it.
        """
        axes = resolve_axes(x, self.index, axis)
        return self._relaxed(moved(x, self.index, axes, None if zeroed else self.mask), axes, outwards=False)

    def unsort(self, y: Tensor, axis: int | Sequence[int] = -1) -> Tensor:
        """Move sorted items back to their places, with padding zero: `P y` along each given axis."""
        axes = resolve_axes(y, self.index, axis)
        batch = self.index.dim() - 1
        y = kept(y.expand(*self.index.shape[:batch], *y.shape[batch:]), self.sorted_mask(), axes)
        return moved(self._relaxed(y, axes, outwards=True), inverted(self.index), axes)

    def sorted_mask(self) -> Tensor | None:
        """The mask after sorting: True at the first positions, as many as there are real items."""
        if self.mask is None:
            return None
        return torch.arange(self.mask.shape[-1], device=self.mask.device) < self.mask.sum(-1, keepdim=True)

    def chunk(self, start: int, stop: int) -> Self:
        """The draws from `start` to `stop` of an index (B, K, n)."""
        mask = self.mask
        if mask is not None and mask.dim() == self.index.dim() and mask.shape[1] > 1:
            mask = mask[:, start:stop]
        return replace(self, index=self.index[:, start:stop], mask=mask)

    def _relaxed(self, x: Tensor, axes: tuple[int, ...], outwards: bool) -> Tensor:
        """What a subclass does to items that were just sorted or, with `outwards`, are about to be moved back."""
        return x
