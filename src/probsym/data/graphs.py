"""Sets of graphs as padded tensors."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Graphs(NamedTuple):
    """A padded set of labelled graphs."""

    features: Tensor
    """(count, size, 2): the node's own feature (one where there is none), and the degree; zero on padding."""
    adjacency: Tensor
    """(count, size, size), symmetric, ones for edges."""
    mask: Tensor
    """(count, size), True for nodes."""
    labels: Tensor
    """(count,), the class as 0.0 or 1.0."""

    def take(self, index: Tensor) -> Graphs:
        """Some of the graphs."""
        return Graphs(*(tensor[index] for tensor in self))


class SplitIndices(NamedTuple):
    """The indices of the three parts of a data set."""

    train: Tensor
    validation: Tensor
    test: Tensor
