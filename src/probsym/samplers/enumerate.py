"""Exact group averaging: every element of a finite group, each once."""

import math

import torch
from torch import Tensor

from probsym.errors import GroupError, RangeError
from probsym.groups import S
from probsym.ops import Order, invert, take
from probsym.samplers.base import Sampler
from probsym.samplers.batch import Batch
from probsym.samplers.draw import Draw
from probsym.samplers.noise import Noise, no_noise
from probsym.signature import Signature


class Enumerate(Sampler):
    """All elements of the group, so that the average is exact. For C, D, S on few items, and their products.

    Items of a batch may have different numbers of real items: all orders of the largest number are listed, and an item
    with fewer takes from each the order of those it has, so that each of its orders comes equally often.

    Args:
        limit: the largest number of elements to list.

    >>> from probsym import Symmetrized, groups
    >>> model = Symmetrized(lambda x: x[:, 0], "n -> ", {"n": groups.S()}, Enumerate())
    >>> model(torch.tensor([[1.0, 2.0, 6.0]]))
    tensor([3.])
    """

    exact = True

    def __init__(self, limit: int = 50_000) -> None:
        super().__init__()
        if limit < 1:
            raise RangeError(f"Expected limit to be 1 or more (got {limit})")
        self.limit = limit

    def extra_repr(self) -> str:
        return f"limit={self.limit}"

    def check(self, signature: Signature) -> None:
        for group in signature.groups.values():
            if not isinstance(group, S):
                group.elements()

    def noise(self, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0) -> Noise:
        return no_noise()

    def forward(self, batch: Batch, noise: Noise) -> Draw:
        most = {key: _most_items(batch, key) for key, group in batch.signature.groups.items() if isinstance(group, S)}
        others = [group for key, group in batch.signature.groups.items() if key not in most]
        total = math.prod(math.factorial(items) for items in most.values())
        total *= math.prod(len(group.elements()) for group in others)
        if total > self.limit:
            raise GroupError(f"Expected at most {self.limit} elements to list (got {total}, for {most} items)")
        listed = {key: _elements(batch, key, most.get(key)) for key in batch.signature.groups}
        elements, repeats = {}, 1
        for key, one in listed.items():  # the product: the first axis slowest
            repeats *= one.shape[1]
            elements[key] = one.repeat_interleave(total // repeats, 1).repeat(
                1, repeats // one.shape[1], *(1 for _ in one.shape[2:])
            )
        groups = batch.signature.groups
        return Draw(
            total,
            elements,
            {key: Order(g, batch.mask_of(key)) if isinstance(groups[key], S) else g for key, g in elements.items()},
            exact=torch.ones(len(batch), dtype=torch.bool, device=batch.device),
        )


def _most_items(batch: Batch, key: str) -> int:
    """The largest number of real items on an axis."""
    if key not in batch.masks or len(batch) == 0:
        return batch.sizes[key]
    return max(1, int(batch.masks[key].sum(-1).max()))


def _elements(batch: Batch, key: str, most: int | None) -> Tensor:
    """All elements of one group, (B, order, ...)."""
    group, mask = batch.signature.groups[key], batch.mask_of(key)
    listed = group.elements(size=most, device=batch.device)
    if mask is None or not isinstance(group, S) or most is None:
        return listed.unsqueeze(0).expand(len(batch), *listed.shape)
    scores = torch.zeros(len(batch), len(listed), mask.shape[-1], device=batch.device)
    scores[..., :most] = -listed.to(scores.dtype)
    return group.project(take(scores, invert(batch.packing(key, len(listed)).index)), mask=mask)
