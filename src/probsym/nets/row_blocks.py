"""Rows of points and their neighbours, in blocks that fit a processor's cache."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from probsym.ops.transforms import traced

BLOCK = 1 << 16
"""Numbers of a coordinate that are looked at together, unless one row has more."""


def in_blocks(x: Tensor) -> bool:
    """Whether rows of x are worked on block by block: on a CPU, unless compilers or torch.func decide what to keep."""
    return x.device.type == "cpu" and not traced()


def row_blocks(rows: int, per_row: int) -> Iterator[slice]:
    """Rows that are looked at together; one empty block if there are no rows, so that results have a shape."""
    size = max(1, BLOCK // max(1, per_row))
    return (slice(start, start + size) for start in range(0, max(1, rows), size))


class Edges(NamedTuple):
    """The neighbours of each point, as places in its row, and which of them are edges."""

    places: Tensor  # (m, rows, n)
    real: Tensor  # (m, rows, n), along the first axis True before False

    def blocks(self, channels: int) -> "list[Block]":
        """All rows, without the neighbours that no point of a block uses: most are only there in case of ties."""
        rows, blocks = self.places.shape[1], []
        for block in row_blocks(rows, channels * int(self.real.sum()) // max(1, rows)):
            real = self.real[:, block]
            real = real[: max(1, int(real.flatten(1).any(1).sum()))]
            blocks.append(Block(block, self.places[: len(real), block], None if bool(real.all()) else real))
        return blocks


class Block(NamedTuple):
    """Some of the rows, the neighbours of their points, and which of these are edges; None if all are."""

    rows: slice
    places: Tensor
    real: Tensor | None

    def near(self, x: Tensor, buffer: Tensor | None = None) -> Tensor:
        """x (d, rows, n, channels) at the neighbours, (d, m, rows, n, channels); in a buffer if there is one."""
        flat, index = x[:, self.rows].reshape(-1, x.shape[-1]), self._index(len(x))
        if buffer is None:
            gathered = flat.index_select(0, index)
        else:
            gathered = torch.index_select(flat, 0, index, out=buffer[: len(index)])
        return gathered.view(len(x), *self.places.shape, x.shape[-1])

    def edges(self, near: Tensor, own: Tensor, buffer: Tensor | None = None) -> Tensor:
        """What both ends add to each edge."""
        return self.near(near, buffer).add_(own[:, None, self.rows])

    def sum_near(self, edges: Tensor) -> Tensor:
        """The sums of the edges (d, m, rows, n, channels) that lead to each point, (d, rows, n, channels)."""
        d, _, rows, n, channels = edges.shape
        total = edges.new_zeros(d * rows * n, channels)
        return total.index_add_(0, self._index(d), edges.flatten(0, -2)).view(d, rows, n, channels)

    def _index(self, d: int) -> Tensor:
        """Places among all coordinates of all points of the block."""
        _, rows, n = self.places.shape
        return (torch.arange(0, d * rows * n, n).view(d, 1, rows, 1) + self.places).flatten()


def buffer(x: Tensor, blocks: list[Block]) -> Tensor:
    """Memory for the vectors (d, ..., channels) of a block's edges, used again for each block."""
    return x.new_empty(len(x) * max(block.places.numel() for block in blocks), x.shape[-1])
