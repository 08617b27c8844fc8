"""Logits for a finite group from a net that knows nothing of it."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from probsym._internal.callables import takes_mask
from probsym._internal.checks import check_size
from probsym._internal.remembers_arguments import RemembersArguments
from probsym.errors import GroupError, MaskError, ShapeError
from probsym.groups import Group
from probsym.groups.base import Axis
from probsym.nets.features import Features


class Lifted(RemembersArguments, nn.Module):
    """Logits `z[h] = net(h^-1 x)`, which follow the input as `(g z)[h] = z[g^-1 h]` whatever the net is.

    `net` maps (rows, ...) to one number per row, (rows,) or (rows, 1). `axis`, counted from the end, is the axis of x
    on which the group acts, or the pair of axes, and `kind` is that axis' kind.

    `forward(x, mask=None)`: x (B, K, ...), logits (B, K, order). With `rank`, the number of axes of one example, x may
    come without draws, (B, ...), and the logits are (B, order). A mask (B, ...) is handed to
    the net row by row if it takes one.

    >>> from probsym.groups import C
    >>> corner = Lifted(lambda image: image[:, 0, 0], C(4), axis=(-2, -1), kind="grid", rank=2)
    >>> corner(torch.tensor([[[1.0, 2.0], [4.0, 3.0]]])).logits
    tensor([[1., 4., 3., 2.]])
    """

    def __init__(
        self,
        net: Callable[..., Tensor],
        group: Group,
        axis: Axis = -1,
        kind: str = "plain",
        *,
        rank: int | None = None,
    ) -> None:
        super().__init__()
        group.elements()  # which a group that is not finite refuses
        group.check_kind(kind)
        if max((axis,) if isinstance(axis, int) else axis) >= 0:
            raise GroupError(f"Expected axis to be counted from the end (got {axis})")
        if rank is not None:
            check_size(rank, "rank")
        self.perturbs: tuple[int, ...] = (0,)
        self.extra_noise = 0
        self.net, self.group, self.axis, self.kind, self.rank = net, group, axis, kind, rank

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Features:
        draws = self.rank is None or x.dim() == self.rank + 2
        if x.dim() < 3 if self.rank is None else x.dim() not in (self.rank + 1, self.rank + 2):
            example = "..." if self.rank is None else f"{self.rank} axes"
            raise ShapeError(f"Expected x to be (batch, draws, {example}) (got {tuple(x.shape)})")
        leading = x.shape[: 2 if draws else 1]
        undo = self.group.inverse(self.group.elements(device=x.device))
        moved = self.group.act(undo, x.unsqueeze(0), self.axis, self.kind)
        rows = moved.flatten(0, len(leading))
        if mask is None or not takes_mask(self.net):
            found = self.net(rows)
        else:
            found = self.net(rows, mask=self._spread(mask, x, len(leading), len(undo)))
        if tuple(found.shape) not in ((len(rows),), (len(rows), 1)):
            raise ShapeError(
                f"Expected the net to give one number for each of {len(rows)} rows (got {tuple(found.shape)})"
            )
        return Features(logits=found.reshape(len(undo), *leading).movedim(0, -1))

    @staticmethod
    def _spread(mask: Tensor, x: Tensor, leading: int, copies: int) -> Tensor:
        """The mask of every row: for all elements, then all examples, then all draws."""
        if mask.dtype != torch.bool or mask.dim() < 1 or mask.shape[0] != x.shape[0]:
            raise MaskError(
                f"Expected mask to be boolean with batch size {x.shape[0]} (got {tuple(mask.shape)}, {mask.dtype})"
            )
        if leading == 2:
            mask = mask.unsqueeze(1).expand(-1, x.shape[1], *mask.shape[1:])
        return mask.expand(copies, *mask.shape).flatten(0, leading)
