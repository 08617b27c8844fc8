"""Exact group averaging: every element of a finite group, each once."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from probsym.errors import GroupError, RangeError
from probsym.ops.transforms import eagerly, hidden
from probsym.samplers.base import Sampler
from probsym.samplers.batch import Batch
from probsym.samplers.draw import Draw
from probsym.samplers.noise import Noise, no_noise
from probsym.signature import Signature


class Enumerate(Sampler):
    """All elements of a finite group, so that the average is exact: C, D, S on few items, and their products.

    With masks, all orders of the largest number of real items are listed. An input with fewer real items uses their
    order within each of these, so that each of its own orders occurs equally often.

    Args:
        limit: the largest number of elements to list.

    >>> from probsym import Symmetrized, groups
    >>> model = Symmetrized(lambda x: x[:, 0], "n -> ", {"n": groups.S()}, Enumerate())
    >>> model(torch.tensor([[1.0, 2.0, 6.0]]))
    tensor([3.])
    """

    lists_elements = True

    def __init__(self, limit: int = 50_000) -> None:
        super().__init__()
        if limit < 1:
            raise RangeError(f"Expected limit to be 1 or more (got {limit})")
        self.limit = limit

    def extra_repr(self) -> str:
        return f"limit={self.limit}"

    def check(self, signature: Signature) -> None:
        for group in signature.groups.values():
            if not group.linear.finite:  # of those that are, the inputs may say how many elements there are
                group.cardinality()

    def read(self, signature: Signature) -> tuple[int, ...]:
        return ()

    def noise(self, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0) -> Noise:
        return no_noise()

    def forward(self, batch: Batch, noise: Noise) -> Draw:
        return every_element(batch, self.limit)


def every_element(batch: Batch, limit: int) -> Draw:
    """Each element of the group, or product of groups, for each batch item."""
    groups = batch.groups
    sizes = {key: batch.sizes[key] for key, group in groups.items() if group.takes_mask}
    padded = math.prod([group.cardinality(batch.sizes.get(key)) for key, group in groups.items()])
    # compiled code would split where masks are looked at, and be compiled anew for every largest number of real items
    unseen = padded <= limit and torch.compiler.is_compiling()
    most = sizes if unseen else _most_items(sizes, batch.masks)
    total = math.prod([group.cardinality(most.get(key, batch.sizes.get(key))) for key, group in groups.items()])
    if total > limit:
        raise GroupError(f"Expected at most {limit} elements to list (got {total}, for {most} items)")
    listed = {key: _elements(batch, key, most.get(key)) for key in groups}
    elements, repeats = {}, 1
    for key, factor in listed.items():  # the product: the first axis slowest
        repeats *= factor.shape[1]
        elements[key] = factor.repeat_interleave(total // repeats, 1).repeat(
            1, repeats // factor.shape[1], *(1 for _ in factor.shape[2:])
        )
    return Draw(
        total,
        elements,
        {key: groups[key].carrier(g, mask=batch.mask_of(key)) for key, g in elements.items()},
        exact=torch.ones(batch.count, dtype=torch.bool, device=batch.device),
    )


@eagerly
def _most_items(sizes: Mapping[str, int], masks: Mapping[str, Tensor]) -> dict[str, int]:
    """The largest number of real items on each axis, or of all where masks cannot be looked at."""
    most = dict(sizes)
    for key, mask in masks.items():
        if key in most and len(mask) and not hidden(mask):
            most[key] = max(1, int(mask.sum(-1).max()))
    return most


def _elements(batch: Batch, key: str, most: int | None) -> Tensor:
    """All elements of one group, (B, order, ...)."""
    group = batch.groups[key]
    listed = group.elements(size=most or batch.sizes.get(key), device=batch.device)
    if key in batch.masks:
        return group.among_real(listed, batch.masks[key])
    return listed.unsqueeze(0).expand(batch.count, *listed.shape)
