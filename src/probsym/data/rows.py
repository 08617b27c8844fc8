"""Lists of different lengths, stored one after the other in one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probsym.errors import DeviceError, DtypeError, RangeError, ShapeError
from probsym.ops.argument_checks import check_size


@dataclass(frozen=True, eq=False)  # tensors have no one truth value to compare by
class Rows:
    """Lists of rows: list i is `values[starts[i]:starts[i + 1]]`.

    Args:
        values: (total, ...), of any dtype.
        starts: int64 (lists + 1,), from 0 to total.
        most: the length that lists are padded to; at least that of the longest.

    >>> rows = Rows.join([torch.tensor([1, 2]), torch.tensor([]), torch.tensor([3])])
    >>> rows.padded(torch.tensor([2, 0, 1]))
    (tensor([[3., 0.],
            [1., 2.],
            [0., 0.]]), tensor([[ True, False],
            [ True,  True],
            [False, False]]))
    """

    values: Tensor
    starts: Tensor
    most: int

    def __post_init__(self) -> None:
        check_size(self.most, "most", least=0)
        if self.starts.dtype != torch.int64 or self.starts.dim() != 1 or len(self.starts) == 0:
            description = f"{self.starts.dtype} {tuple(self.starts.shape)}"
            raise ShapeError(f"Expected starts to be int64 (lists + 1,) (got {description})")
        if self.values.dim() == 0:
            raise ShapeError("Expected values to have rows (got shape ())")
        if self.values.device != self.starts.device:
            raise DeviceError(f"Expected starts to be on {self.values.device} like values (got {self.starts.device})")
        if self.starts.device.type == "cpu":
            self._check_starts()

    def __len__(self) -> int:
        return len(self.starts) - 1

    @staticmethod
    def join(lists: Sequence[Tensor], most: int | None = None) -> Rows:
        """Join lists (length, ...) into one; `most` is the length of the longest unless given."""
        sizes = torch.tensor([len(rows) for rows in lists], dtype=torch.int64)
        starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        longest = int(sizes.max()) if len(sizes) else 0
        return Rows(torch.cat(list(lists)), starts, longest if most is None else most)

    @property
    def sizes(self) -> Tensor:
        """How long each list is, (lists,)."""
        return self.starts.diff()

    def like(self, values: Tensor) -> Rows:
        """Other values (total, ...) in lists of the same lengths."""
        return Rows(values, self.starts, self.most)

    def to(self, device: torch.device | str) -> Rows:
        """On another device."""
        return Rows(self.values.to(device), self.starts.to(device), self.most)

    def take(self, index: Tensor | slice) -> Rows:
        """Some of the lists, still padded to the same length; a slice without a step copies no values."""
        if isinstance(index, slice):
            first, last, step = index.indices(len(self))
            if step == 1:
                starts = self.starts[first : max(first, last) + 1]
                return Rows(self.values[int(starts[0]) : int(starts[-1])], starts - starts[0], self.most)
            index = torch.arange(first, last, step, device=self.starts.device)
        check_index(index, len(self), self.starts.device)
        sizes = self.sizes[index]
        starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        shift = (self.starts[index] - starts[:-1]).repeat_interleave(sizes)
        return Rows(self.values[torch.arange(len(shift), device=shift.device) + shift], starts, self.most)

    def padded(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """The lists `index` (B,), padded with zeros, (B, most, ...), and booleans, True where real, (B, most).

        Shapes do not depend on which lists are taken, and nothing waits for the device.
        """
        check_index(index, len(self), self.starts.device)
        first = self.starts[index].unsqueeze(-1)
        place = torch.arange(self.most, device=index.device)
        real = place < self.starts[index + 1].unsqueeze(-1) - first
        if len(self.values) == 0:
            return self.values.new_zeros((*real.shape, *self.values.shape[1:])), real
        values = self.values[torch.where(real, first + place, 0)]
        return values.masked_fill(~real.view(*real.shape, *(1 for _ in values.shape[2:])), 0), real

    def _check_starts(self) -> None:
        sizes, total = self.sizes, len(self.values)
        if self.starts[0] != 0 or self.starts[-1] != total or (sizes < 0).any():
            raise RangeError(f"Expected starts to rise from 0 to {total} (got another order)")
        if len(sizes) and sizes.max() > self.most:
            raise RangeError(f"Expected lists of at most {self.most} rows (got {int(sizes.max())})")


def check_index(index: Tensor, count: int, device: torch.device) -> None:
    """Refuse all but integers (B,) on that device; those below 0 or from `count` on are found on the CPU only."""
    if not isinstance(index, Tensor) or index.dtype != torch.int64 or index.dim() != 1:
        description = f"{index.dtype} {tuple(index.shape)}" if isinstance(index, Tensor) else type(index).__name__
        raise DtypeError(f"Expected index to be int64 (B,) (got {description})")
    if index.device != device:
        raise DeviceError(f"Expected index to be on {device} (got {index.device})")
    if device.type == "cpu" and not torch.compiler.is_compiling() and len(index):
        low, high = int(index.min()), int(index.max())
        if low < 0 or high >= count:
            raise RangeError(f"Expected index from 0 to {count - 1} (got {low} to {high})")
