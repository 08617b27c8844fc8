"""Random numbers determined by the seed of each batch item, in place of a generator."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from probsym.ops.counter_rng import counter_normal, counter_uniform


class Seeded:
    """A source of random numbers (B, K, ...) that depend only on an item's seed, the draw and the entry.

    `seeds` are int64 (B,), `start` is the number of the first draw. Each request gets
    numbers of its own, so requests must come in the same order for every batch.

    >>> both = Seeded(torch.tensor([7, 3])).numbers((2, 4, 5), normal=True, dtype=torch.float32)
    >>> alone = Seeded(torch.tensor([3]), start=1).numbers((1, 3, 5), normal=True, dtype=torch.float32)
    >>> torch.equal(both[1:, 1:], alone)
    True
    """

    def __init__(self, seeds: Tensor, start: int = 0) -> None:
        self.seeds, self.start = seeds, start
        self._real: Tensor | None = None
        self._asked = [0]  # shared with what `along` returns

    def along(self, real: Tensor | None) -> Seeded:
        """The same source for entries with padding, which is skipped in the count; `real` is (B, ...)."""
        source = copy.copy(self)
        source._real = real
        return source

    def numbers(self, shape: Sequence[int], *, normal: bool, dtype: torch.dtype | None = None) -> Tensor:
        """Independent numbers (B, K, ...): standard normal, or else uniform on [0, 1)."""
        stream = self._asked[0]
        self._asked[0] += 1
        entries = None
        if self._real is not None:
            entries = self._real.expand(shape[0], *shape[2:]).flatten(1).cumsum(1) - 1
        counter = counter_normal if normal else counter_uniform
        dtype = torch.get_default_dtype() if dtype is None else dtype
        return counter(0, stream, self.seeds, self.start, shape[1], tuple(shape[2:]), dtype, entries)
