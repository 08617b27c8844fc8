"""Sets of examples that live on the device, so that a batch is one indexing, or made there from compact storage."""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from probsym.data import GraphBatch, PackedGraphs

NO_TARGET = -100
"""Stands where there is no target, among whole numbers; NaN does among others."""


class Examples(NamedTuple):
    """Padded inputs, their mask, targets, and the number of each example."""

    inputs: tuple[Tensor, ...]
    mask: Tensor | None
    targets: Tensor
    ids: Tensor

    def take(self, index: Tensor | slice) -> Examples:
        """Some of them."""
        mask = None if self.mask is None else self.mask[index]
        return Examples(tuple(x[index] for x in self.inputs), mask, self.targets[index], self.ids[index])

    def to(self, device: torch.device) -> Examples:
        """All of them on another device."""
        mask = None if self.mask is None else self.mask.to(device)
        return Examples(tuple(x.to(device) for x in self.inputs), mask, self.targets.to(device), self.ids.to(device))

    def numbered(self, first: int) -> Examples:
        """All of them with numbers from `first` on."""
        return self._replace(ids=torch.arange(first, first + self.size, device=self.ids.device))

    def double(self) -> Examples:
        """All of them with inputs in float64."""
        return self._replace(inputs=tuple(x.double() if x.is_floating_point() else x for x in self.inputs))

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.ids)

    @property
    def keywords(self) -> dict[str, Any]:
        """What a symmetrized model takes beside the inputs."""
        return {"mask": self.mask, "index": self.ids}


class Stored(Protocol):
    """Examples in whatever form: some of them are `Examples`."""

    @property
    def mask(self) -> Tensor | None: ...
    @property
    def targets(self) -> Tensor: ...
    @property
    def ids(self) -> Tensor: ...
    @property
    def size(self) -> int: ...
    def take(self, index: Tensor | slice) -> Examples: ...
    def to(self, device: torch.device) -> Stored: ...
    def numbered(self, first: int) -> Stored: ...


class PackedExamples:
    """Graphs of different sizes, padded when they are taken: features, adjacency, features of edges if there are any.

    Args:
        graphs: the graphs.
        first: the number of the first.
        ranks: numbers for the nodes of each graph, (graphs, n), as one more input.
    """

    def __init__(self, graphs: PackedGraphs, first: int = 0, ranks: Tensor | None = None) -> None:
        self.graphs, self.first, self.ranks = graphs, first, ranks
        self.ids = torch.arange(first, first + len(graphs), device=graphs.nodes.values.device)

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.graphs)

    @cached_property
    def mask(self) -> Tensor:
        """That of all graphs, (graphs, n)."""
        return self.graphs.nodes.padded(torch.arange(self.size, device=self.ids.device))[1]

    @cached_property
    def targets(self) -> Tensor:
        """Those of all graphs, as `take` has them."""
        parts = torch.arange(self.size, device=self.ids.device).split(512)
        return torch.cat([self._targets(self.graphs.batch(part)) for part in parts])

    def take(self, index: Tensor | slice) -> Examples:
        """Some of them, on the device where they are stored, of shapes that depend on their number alone."""
        chosen = torch.arange(self.size, device=self.ids.device)[index]
        batch = self.graphs.batch(chosen)
        dense = batch.edges.dense()
        pairs = (dense,) if dense.dim() == 3 else (dense[..., 0], dense[..., 1:])
        inputs = (batch.features, *pairs)
        if self.ranks is not None:
            inputs = (*inputs, self.ranks[chosen])
        return Examples(inputs, batch.mask, self._targets(batch), self.ids[chosen])

    @staticmethod
    def _targets(batch: GraphBatch) -> Tensor:
        known = batch.known.view(*batch.known.shape, *(1 for _ in batch.targets.shape[batch.known.dim() :]))
        return torch.where(known, batch.targets, torch.nan if batch.targets.is_floating_point() else NO_TARGET)

    def to(self, device: torch.device) -> PackedExamples:
        """All of them on another device."""
        ranks = None if self.ranks is None else self.ranks.to(device)
        return PackedExamples(self.graphs.to(device), self.first, ranks)

    def numbered(self, first: int) -> PackedExamples:
        """All of them with numbers from `first` on."""
        return PackedExamples(self.graphs, first, self.ranks)


class Splits(NamedTuple):
    """What to learn from, what to choose by, and what to report."""

    train: Stored
    valid: Stored
    test: Stored

    @staticmethod
    def numbered(*parts: Stored) -> Splits:
        """The three parts, their examples numbered on from one to the next."""
        starts = accumulate((part.size for part in parts[:-1]), initial=0)
        return Splits(*(part.numbered(start) for part, start in zip(parts, starts, strict=True)))

    def to(self, device: torch.device) -> Splits:
        """All three on another device."""
        return Splits(*(part.to(device) for part in self))
