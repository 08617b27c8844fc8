"""Logits for a finite group from a net that need not be equivariant."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from probsym._internal.callables import takes_mask
from probsym._internal.remembers_arguments import RemembersArguments
from probsym.errors import GroupError, MaskError, ShapeError
from probsym.groups import Group
from probsym.groups.base import Axis
from probsym.nets.features import Features, misread
from probsym.ops.argument_checks import check_size
from probsym.signature import Term


class Lifted(RemembersArguments, nn.Module):
    """Logits `z[h] = net(h^-1 x)`, which are equivariant, `(g z)[h] = z[g^-1 h]`, for any net.

    `net` maps (rows, ...) to one number per row, (rows,) or (rows, 1). Inside a model, its signature
    says which axes of x the group acts on, and how. Without a model, `axis` names the axis or pair of axes, counted
    from the end (the last axis if None), and `kind` its kind (if None, "grid" for a pair, else "plain").

    `forward(x, mask=None)`: x (B, K, ...), logits (B, K, order). With `rank`, the number of axes of one example, x may
    come without draws, (B, ...), and the logits are (B, order). A mask (B, ...) is repeated for every row and passed to
    the net if it takes one.

    >>> from probsym.groups import C
    >>> corner = Lifted(lambda image: image[:, 0, 0], C(4), axis=(-2, -1), rank=2)
    >>> corner(torch.tensor([[[1.0, 2.0], [4.0, 3.0]]])).logits
    tensor([[1., 4., 3., 2.]])
    """

    feature_fields = ("logits",)

    def __init__(
        self,
        net: Callable[..., Tensor],
        group: Group,
        axis: Axis | None = None,
        kind: str | None = None,
        *,
        rank: int | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(group, Group):
            raise GroupError(f"Expected a group, such as C(4) (got {group!r})")
        group.elements()  # which a group that is not finite refuses
        place = -1 if axis is None else axis
        own = kind or ("plain" if isinstance(place, int) else "grid")
        group.check_kind(own)
        if isinstance(place, int) == (own == "grid") and axis is not None:
            raise GroupError(f"Expected kind='grid' for a pair of axes, and for no other (got {axis}, {own!r})")
        if max((place,) if isinstance(place, int) else place) >= 0:
            raise GroupError(f"Expected axis to be counted from the end (got {axis})")
        if rank is not None:
            check_size(rank, "rank")
        self.perturbs: tuple[int, ...] = (0,)
        self.extra_noise = 0
        self.net, self.group, self.axis, self.kind, self.rank = net, group, axis, kind, rank
        self.places: tuple[tuple[Axis, str], ...] = ((place, own),)
        self._inferred = False

    def check_terms(self, terms: Sequence[Term], groups: Mapping[str, Group]) -> None:
        """Find the axes that the group acts on in the only term; refuse if `axis` names others."""
        bound: dict[str, list[tuple[Axis, str]]] = {}
        for axis, place in (*terms[0].places(),) if len(terms) == 1 else ():
            if axis.key in groups and groups[axis.key].linear == self.group:
                kind = "plain" if axis.kind == "point" else axis.kind  # points come about their centroid
                bound.setdefault(axis.key, []).append((place, kind))
        if not bound:
            wanted = f"one input with an axis bound to {self.group!r} or an equal group"
            raise misread(type(self).__name__, wanted, terms)
        fits = [tuple(places) for places in bound.values()]
        if self.axis is None and self.kind is None and len(fits) == 1:
            if self._inferred and self.places != fits[0]:
                raise GroupError(f"Expected one Lifted for each model (got one that acts on {self.places} in another)")
            self.places, self._inferred = fits[0], True
        if self.places not in fits:
            wanted = " or ".join(", ".join(f"axis={place}, kind={kind!r}" for place, kind in fit) for fit in fits)
            raise GroupError(
                f"Expected {wanted} for '{terms[0]}', or neither (got axis={self.axis}, kind={self.kind!r})"
            )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Features:
        draws = self.rank is None or x.dim() == self.rank + 2
        if x.dim() < 3 if self.rank is None else x.dim() not in (self.rank + 1, self.rank + 2):
            example = "..." if self.rank is None else f"{self.rank} axes"
            raise ShapeError(f"Expected x to be (batch, draws, {example}) (got {tuple(x.shape)})")
        leading = x.shape[: 2 if draws else 1]
        undo = self.group.inverse(self.group.elements(device=x.device))
        moved = x.unsqueeze(0)
        for axis, kind in self.places:
            moved = self.group.act(undo, moved, axis, kind)
        rows = moved.flatten(0, len(leading))
        if mask is None or not takes_mask(self.net):
            logits = self.net(rows)
        else:
            logits = self.net(rows, mask=self._spread(mask, x, len(leading), len(undo)))
        if tuple(logits.shape) not in ((rows.shape[0],), (rows.shape[0], 1)):
            raise ShapeError(
                f"Expected the net to give one number for each of {rows.shape[0]} rows (got {tuple(logits.shape)})"
            )
        return Features(logits=logits.reshape(len(undo), *leading).movedim(0, -1))

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
