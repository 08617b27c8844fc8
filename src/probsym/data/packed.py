"""Graphs of different sizes, one after the other, and padded batches of them made where they are stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from probsym.data.files import Arrays
from probsym.data.rows import Rows
from probsym.errors import RangeError, ShapeError
from probsym.ops.edge_list import EdgeList

Kinds = tuple[int, ...]
"""How many values each number can take, where numbers name kinds: (17, 3) for 17 kinds of one thing, 3 of another."""
_CHUNK = 2000
"""Graphs that are looked through together, so that it takes little memory."""


class GraphBatch(NamedTuple):
    """B graphs, padded to n nodes and e edges."""

    features: Tensor
    """(B, n, channels), zero on padding."""
    edges: EdgeList
    """The entries of an array (B, n, n), ones, or with features (B, n, n, 1 + channels): a one, then the features.
    There are always B * e of them: those that are padding stand at row 0, column 0 with values of zero. `edges.dense()`
    is the array."""
    mask: Tensor
    """(B, n), True for nodes."""
    targets: Tensor
    """(B, ...) for graphs, (B, n, ...) for nodes, (B, n, n, ...) for pairs; zero where there are none. Whole numbers
    are int64, others of the dtype of the features."""
    known: Tensor
    """(B,), (B, n) or (B, n, n): where there are targets."""


@dataclass(frozen=True, eq=False)  # tensors have no one truth value to compare by
class PackedGraphs:
    """A set of graphs stored compactly, from which `batch` makes padded batches of fixed shapes.

    Args:
        nodes: (nodes, channels), one list per graph: numbers, or with `node_kinds`, kinds (one-hot in batches).
        edges: (edges, 2), one list per graph: the source and target node within the graph, integers of any dtype. List
            both directions of an undirected edge.
        targets: a tensor (graphs, ...); or rows, one per node, or one per pair if there are `pairs`.
        edge_features: (edges, channels), numbers or kinds, in the order of `edges`: `edges.like(...)`.
        pairs: (pairs, 2), one list per graph: the pairs of nodes that have a target, each at most once.
        node_kinds, edge_kinds: how many kinds there are in each channel.
        checked: whether all numbers are known to be in range, so that the check can be skipped.

    >>> path_and_dot = PackedGraphs(
    ...     nodes=Rows.join([torch.tensor([[0], [1], [0]], dtype=torch.uint8), torch.tensor([[1]], dtype=torch.uint8)]),
    ...     edges=Rows.join([torch.tensor([[0, 1], [1, 0], [1, 2], [2, 1]]), torch.zeros(0, 2)]),
    ...     targets=torch.tensor([0.5, -0.5]),
    ...     node_kinds=(2,),
    ... )
    >>> batch = path_and_dot.batch(torch.tensor([1, 0]))
    >>> batch.features.shape, batch.edges.dense().shape, batch.mask.sum(-1), batch.targets
    (torch.Size([2, 3, 2]), torch.Size([2, 3, 3]), tensor([1, 3]), tensor([-0.5000,  0.5000]))
    """

    nodes: Rows
    edges: Rows
    targets: Tensor | Rows
    edge_features: Rows | None = None
    pairs: Rows | None = None
    node_kinds: Kinds | None = None
    edge_kinds: Kinds | None = None
    checked: bool = False

    def __post_init__(self) -> None:
        for name, part in self._parts().items():
            if len(part) != len(self):
                raise ShapeError(f"Expected {name} of {len(self)} graphs like nodes (got {len(part)})")
        if self.edge_features is not None:
            _check_alike(self.edge_features, self.edges, "edge features")
        if isinstance(self.targets, Rows):
            _check_alike(self.targets, self.nodes if self.pairs is None else self.pairs, "targets")
        elif self.pairs is not None:
            raise ShapeError("Expected the targets of pairs to be rows (got a tensor)")
        if not self.checked and self.nodes.values.device.type == "cpu":
            self._check_numbers()

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def n(self) -> int:
        """The number of nodes that graphs are padded to."""
        return self.nodes.most

    def take(self, index: Tensor | slice) -> PackedGraphs:
        """Some of the graphs, padded to the same sizes; a slice without a step copies next to nothing."""
        parts = self._parts()
        taken: dict[str, Any] = {
            name: part.take(index) if isinstance(part, Rows) else part[index] for name, part in parts.items()
        }
        return replace(self, **taken, checked=True)

    def to(self, device: torch.device | str) -> PackedGraphs:
        """The whole set on another device."""
        return replace(self, **{name: part.to(device) for name, part in self._parts().items()}, checked=True)

    def batch(self, index: Tensor, dtype: torch.dtype = torch.float32) -> GraphBatch:
        """The graphs `index` (B,), on the device where the set is.

        Uses only tensor operations whose shapes depend on B and the set alone, so a CUDA graph can capture it.
        """
        nodes, mask = self.nodes.padded(index)
        targets, known = self._targets(index, mask)
        targets = targets.to(dtype if targets.is_floating_point() else torch.int64)
        return GraphBatch(
            _channels(nodes, mask, self.node_kinds, dtype), self._edges(index, dtype), mask, targets, known
        )

    def _parts(self) -> dict[str, Any]:
        names = ("nodes", "edges", "targets", "edge_features", "pairs")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def _edges(self, index: Tensor, dtype: torch.dtype) -> EdgeList:
        ends, real = self.edges.padded(index)
        values = real.to(dtype)
        if self.edge_features is not None:
            features, _ = self.edge_features.padded(index)
            values = torch.cat([values.unsqueeze(-1), _channels(features, real, self.edge_kinds, dtype)], -1)
        item = torch.arange(len(index), device=index.device).unsqueeze(-1).expand_as(real)
        places = torch.stack([item, *ends.long().unbind(-1)]).flatten(1)
        return EdgeList(places, values.flatten(0, 1), len(index), self.n)

    def _targets(self, index: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(self.targets, Tensor):
            return self.targets[index], torch.ones_like(index, dtype=torch.bool)
        values, real = self.targets.padded(index)
        if self.pairs is None:
            return values, mask
        ends, _ = self.pairs.padded(index)
        beyond = self.n**2  # one place more, for the padding
        place = torch.where(real, ends[..., 0].long() * self.n + ends[..., 1].long(), beyond)
        known = real.new_zeros((len(index), beyond + 1)).scatter_(1, place, real)[:, :-1]
        shape = (len(index), self.n, self.n)
        at = place.view(*place.shape, *(1 for _ in values.shape[2:])).expand_as(values)
        spread = values.new_zeros((len(index), beyond + 1, *values.shape[2:])).scatter_(1, at, values)[:, :-1]
        return spread.unflatten(1, shape[1:]), known.view(shape)

    def _check_numbers(self) -> None:
        for name, rows in (("edges", self.edges), ("pairs", self.pairs)):
            if rows is None or len(rows.values) == 0:
                continue
            if rows.values.dim() != 2 or rows.values.shape[1] != 2:
                raise ShapeError(f"Expected {name} to be (count, 2) (got {tuple(rows.values.shape)})")
            for first in range(0, len(self), _CHUNK):
                part = rows.take(slice(first, first + _CHUNK))
                sizes = self.nodes.sizes[first : first + _CHUNK].int().repeat_interleave(part.sizes)
                if (part.values < 0).any() or (part.values.amax(1) >= sizes).any():
                    raise RangeError(f"Expected {name} between nodes of their graph (got nodes that it does not have)")
        for name, rows, kinds in (
            ("nodes", self.nodes, self.node_kinds),
            ("edges", self.edge_features, self.edge_kinds),
        ):
            if kinds is not None and rows is not None:
                check_kinds(rows.values, kinds, name)


def from_arrays(arrays: Arrays, *, node_kinds: Kinds | None = None, edge_kinds: Kinds | None = None) -> PackedGraphs:
    """Graphs from arrays: `node_ptr`, `edge_ptr`, `x`, `edge_index` (2, edges), `y` and, if there is one, `edge_attr`.

    Targets `y` are one row per graph; or, if there are `pair_ptr` and `pair_index` (2, pairs), one per pair.
    """
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}

    def rows(what: str, name: str) -> Rows:
        starts = tensors[f"{what}_ptr"].long()
        values = tensors[name].T.contiguous() if name.endswith("_index") else tensors[name]
        return Rows(values, starts, int(starts.diff().max()) if len(starts) > 1 else 0)

    edges = rows("edge", "edge_index")
    pairs = rows("pair", "pair_index") if "pair_ptr" in tensors else None
    targets = tensors["y"] if pairs is None else pairs.like(tensors["y"])
    features = edges.like(tensors["edge_attr"]) if "edge_attr" in tensors else None
    return PackedGraphs(rows("node", "x"), edges, targets, features, pairs, node_kinds, edge_kinds)


def check_kinds(values: Tensor, kinds: Kinds, name: str) -> None:
    """Refuse kinds (count, channels) that are negative or too large."""
    if values.dim() != 2 or values.shape[1] != len(kinds):
        raise ShapeError(f"Expected kinds of {name} to be (count, {len(kinds)}) (got {tuple(values.shape)})")
    if len(values):
        low, high = values.amin(0).tolist(), values.amax(0).tolist()
        if min(low) < 0 or any(highest >= many for highest, many in zip(high, kinds, strict=True)):
            raise RangeError(f"Expected kinds of {name} below {kinds} (got {low} to {high})")


def _check_alike(rows: Rows, beside: Rows, what: str) -> None:
    if len(rows.values) != len(beside.values) or rows.most != beside.most:
        raise ShapeError(
            f"Expected {len(beside.values)} {what}, at most {beside.most} a graph "
            f"(got {len(rows.values)}, at most {rows.most})"
        )
    if rows.starts.device.type == "cpu" and not torch.equal(rows.starts, beside.starts):
        raise ShapeError(f"Expected {what} in lists as long as what they belong to (got other lengths)")


def _channels(values: Tensor, real: Tensor, kinds: Kinds | None, dtype: torch.dtype) -> Tensor:
    if kinds is None:
        return values.to(dtype)
    channels = zip(values.unbind(-1), kinds, strict=True)
    hot = [channel.unsqueeze(-1) == torch.arange(many, device=channel.device) for channel, many in channels]
    return (torch.cat(hot, -1) & real.unsqueeze(-1)).to(dtype)
