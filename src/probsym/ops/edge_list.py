"""Graphs as lists of edges: a sparse form of an array of order 2."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from probsym.errors import DeviceError, DtypeError, RangeError, ShapeError
from probsym.ops.argument_checks import check_size, readable
from probsym.ops.permute import inverted
from probsym.ops.transforms import needs_gradient, traced

_INTEGERS = (torch.int64, torch.int32)
BLOCK = 1 << 22
"""Entries of a product that are made at a time where no gradient is needed: 16 megabytes of float32."""


@dataclass(frozen=True, eq=False)  # tensors have no one truth value to compare by
class EdgeList:
    """The non-zero entries of an array (batch, n, n) or (batch, n, n, c).

    Args:
        index: integers (3, edges): batch item, row and column of each edge. Edges at the same place add up. Places
            outside the array are refused on the CPU. On other devices they are not checked, since that would wait for
            the device: there the caller must avoid them.
        values: (edges,) or (edges, c).
        batch, n: the sizes of the array.

    >>> edges = EdgeList.from_dense(torch.eye(3).unsqueeze(0))
    >>> edges.shape, edges.index.shape
    (torch.Size([1, 3, 3]), torch.Size([3, 3]))
    >>> bool((edges.permuted(torch.tensor([[2, 0, 1]])).dense() == torch.eye(3)).all())
    True
    """

    index: Tensor
    values: Tensor
    batch: int
    n: int

    def __post_init__(self) -> None:
        _check_integers(self.index, "index")
        if not isinstance(self.values, Tensor):
            raise DtypeError(f"Expected values to be a tensor (got {type(self.values).__name__})")
        check_size(self.batch, "batch", least=0)
        check_size(self.n, "n", least=0)
        if self.index.dim() != 2 or self.index.shape[0] != 3:
            raise ShapeError(f"Expected index to be (3, edges): item, row, column (got {tuple(self.index.shape)})")
        count = self.index.shape[1]
        if self.values.dim() not in (1, 2) or self.values.shape[0] != count:
            raise ShapeError(f"Expected values to be ({count},) or ({count}, c) (got {tuple(self.values.shape)})")
        if self.index.device != self.values.device:
            raise DeviceError(f"Expected index to be on {self.values.device} like values (got {self.index.device})")
        if readable(self.index) and count:
            self._check_places()

    @property
    def shape(self) -> torch.Size:
        """The shape of the array that it stands for."""
        return torch.Size([self.batch, self.n, self.n, *self.values.shape[1:]])

    @property
    def device(self) -> torch.device:
        return self.values.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the values."""
        return self.values.dtype

    def is_floating_point(self) -> bool:
        """Whether the values are floating."""
        return self.values.is_floating_point()

    @staticmethod
    def from_dense(x: Tensor) -> EdgeList:
        """The non-zero entries of an array (batch, n, n) or (batch, n, n, c)."""
        if not isinstance(x, Tensor):
            raise DtypeError(f"Expected x to be a tensor (got {type(x).__name__})")
        if x.dim() not in (3, 4) or x.shape[1] != x.shape[2]:
            raise ShapeError(f"Expected x to be (batch, n, n) or (batch, n, n, c) (got {tuple(x.shape)})")
        index = (x != 0 if x.dim() == 3 else (x != 0).any(-1)).nonzero().T
        return EdgeList(index, x[tuple(index)], x.shape[0], x.shape[1])

    def dense(self) -> Tensor:
        """The array itself."""
        return self.values.new_zeros(self.shape).index_put(tuple(self.index), self.values, accumulate=True)

    def permuted(self, p: Tensor) -> EdgeList:
        """The array y with `y[b, j, k] = x[b, p[b, j], p[b, k]]`, for indices p (batch, n)."""
        self._check_permutation(p)
        return self._renamed(inverted(p.long()))

    def renamed(self, names: Tensor) -> EdgeList:
        """The array y with `y[b, names[b, j], names[b, k]] = x[b, j, k]`, for new names of the items, (batch, n)."""
        self._check_permutation(names)
        return self._renamed(names.long())

    def repeated(self, times: int) -> EdgeList:
        """Repeat every batch item as `repeat_interleave` does; the list holds one copy of all edges after the other.

        >>> EdgeList(torch.tensor([[0, 1], [0, 1], [1, 0]]), torch.ones(2), batch=2, n=2).repeated(2).index[0]
        tensor([0, 2, 1, 3])
        """
        item, row, column = self.index.long()
        copies = torch.arange(times, device=item.device).unsqueeze(1) + item * times
        index = torch.stack([copies, row.expand_as(copies), column.expand_as(copies)]).flatten(1)
        values = self.values.repeat(times, *(1 for _ in self.values.shape[1:]))
        return EdgeList(index, values, self.batch * times, self.n)

    def masked(self, mask: Tensor) -> EdgeList:
        """The same edges, with value zero where an end is padding, that is False in the booleans (batch, n)."""
        item, row, column = self.index.long()
        real = mask[item, row] & mask[item, column]
        real = real.unsqueeze(-1) if self.values.dim() == 2 else real
        return replace(self, values=torch.where(real, self.values, self.values.new_zeros(())))

    def matmul(self, x: Tensor) -> Tensor:
        """`A x` for an array A without channels and x (batch, n, c): `y[b, i] = sum over edges (b, i, j) of a x[b, j]`.

        >>> path = torch.tensor([[[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]])
        >>> EdgeList.from_dense(path).matmul(torch.tensor([[[1.0], [2.0], [4.0]]])).flatten()
        tensor([2., 5., 2.])
        """
        if self.values.dim() != 1:
            raise ShapeError(f"Expected values without channels for a product (got {tuple(self.values.shape)})")
        if x.dim() != 3 or tuple(x.shape[:2]) != (self.batch, self.n):
            raise ShapeError(f"Expected x to be {(self.batch, self.n)}, then channels (got {tuple(x.shape)})")
        item, row, column = self.index.long()
        rows, columns = item * self.n + row, item * self.n + column
        values, table = self.values.to(x.dtype).unsqueeze(-1), x.flatten(0, 1)
        if needs_gradient(values, x) or traced():
            product = torch.zeros_like(table).index_add(0, rows, table.index_select(0, columns) * values)
            return product.view(x.shape)
        product = torch.zeros_like(table)
        step = max(1, BLOCK // max(1, x.shape[-1]))
        for start in range(0, len(rows), step):  # what comes along the edges is more than all items have
            some = slice(start, start + step)
            product.index_add_(0, rows[some], table.index_select(0, columns[some]).mul_(values[some]))
        return product.view(x.shape)

    def detach(self) -> EdgeList:
        """The same without a gradient to the values."""
        return replace(self, values=self.values.detach())

    def to(self, target: torch.device | torch.dtype | str) -> EdgeList:
        """On another device, or with values of another dtype."""
        index = self.index if isinstance(target, torch.dtype) else self.index.to(target)
        return EdgeList(index, self.values.to(target), self.batch, self.n)

    def _renamed(self, names: Tensor) -> EdgeList:
        item, row, column = self.index.long()
        return replace(self, index=torch.stack([item, names[item, row], names[item, column]]))

    def _check_places(self) -> None:
        lowest, highest = (bounds.tolist() for bounds in torch.aminmax(self.index, dim=1))
        most = self.batch - 1, self.n - 1, self.n - 1
        if min(lowest) < 0 or any(place > last for place, last in zip(highest, most, strict=True)):
            raise RangeError(
                f"Expected places in an array of {(self.batch, self.n, self.n)} "
                f"(got items {lowest[0]} to {highest[0]}, rows {lowest[1]} to {highest[1]}, "
                f"columns {lowest[2]} to {highest[2]})"
            )

    def _check_permutation(self, p: Tensor) -> None:
        _check_integers(p, "p")
        if tuple(p.shape) != (self.batch, self.n):
            raise ShapeError(f"Expected p to be {(self.batch, self.n)} (got {tuple(p.shape)})")
        if p.device != self.index.device:
            raise DeviceError(f"Expected p to be on {self.index.device} like the edges (got {p.device})")
        if readable(p) and not torch.equal(p.long().sort(1).values, torch.arange(self.n).expand_as(p)):
            raise RangeError(f"Expected p to be the numbers 0 to {self.n - 1} in every row (got others)")


Input = Tensor | EdgeList
"""What a model is given for a term of its signature."""


def numbers(x: Input) -> Tensor:
    """The numbers in an input: the tensor itself, or the values of its edges."""
    return x.values if isinstance(x, EdgeList) else x


def _check_integers(x: Tensor, what: str) -> None:
    if not isinstance(x, Tensor) or x.dtype not in _INTEGERS:
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise DtypeError(f"Expected {what} to be integers (got {kind})")
