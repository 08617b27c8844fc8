"""Colour refinement (1-WL) of many graphs at once, with colours that mean the same in every graph and every call."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probsym.errors import ShapeError

Colours = NDArray[np.uint64]

_PADDING = np.iinfo(np.int64).max


def wl_colours(adjacency: Tensor, features: Tensor, mask: Tensor) -> Tensor:
    """The histogram of stable colours of each graph, written as its sorted colours: int64 (count, size).

    Colours start from the features (count, size, channels) and become c'(v) = hash(c(v), {{c(w) : w adjacent to v}}),
    n times in a graph of n nodes: histograms of two graphs that still agree then agree for ever. Two rows, of this call
    or of another, are equal if 1-WL cannot tell the graphs apart, and differ if it can, up to collisions of
    64-bit hashes. Entries of `adjacency` (count, size, size) other than zero are edges. Padding comes last, as the
    largest int64.

    >>> ring, triangles = torch.eye(6).roll(1, 0), torch.block_diag(*[torch.eye(3).roll(1, 0)] * 2)
    >>> adjacency = torch.stack([ring + ring.T, triangles + triangles.T, 1 - torch.eye(6)])
    >>> colours = wl_colours(adjacency, torch.ones(3, 6, 1), torch.ones(3, 6, dtype=torch.bool))
    >>> torch.equal(colours[0], colours[1]), torch.equal(colours[0], colours[2])
    (True, False)
    """
    colours = node_colours(*(tensor.detach().cpu().numpy() for tensor in (adjacency, features, mask))).view(np.int64)
    return torch.from_numpy(np.sort(np.where(mask.cpu().numpy(), colours, _PADDING), axis=1))


def wl_classes(adjacency: Tensor, features: Tensor, mask: Tensor) -> Tensor:
    """A number for each graph (count,), the same for those that 1-WL cannot tell apart; arguments as in `wl_colours`.

    >>> from probsym.data import decorated_cycles
    >>> graphs = decorated_cycles(4, generator=torch.Generator().manual_seed(0))
    >>> wl_classes(graphs.adjacency, graphs.features, graphs.mask).view(2, 2).diff().flatten().tolist()
    [0, 0]
    """
    return torch.unique(wl_colours(adjacency, features, mask), dim=0, return_inverse=True)[1]


def node_colours(adjacency: NDArray[Any], features: NDArray[Any], mask: NDArray[np.bool_]) -> Colours:
    """The stable colour of every node (count, size), in place; arguments as in `wl_colours`, as arrays.

    >>> star = np.array([[[0, 1, 1], [1, 0, 0], [1, 0, 0]]])
    >>> centre, *leaves = node_colours(star, np.ones((1, 3, 1)), np.ones((1, 3), dtype=bool))[0].tolist()
    >>> leaves[0] == leaves[1] != centre
    True
    """
    count, size = _sizes(adjacency, features, mask)
    graph, source, target = (adjacency.astype(bool) & mask[:, :, None] & mask[:, None]).nonzero()
    neighbours = graph * size + target
    end = np.bincount(graph * size + source, minlength=count * size).cumsum()
    start = np.concatenate([[0], end])[:-1]
    colours = np.zeros(count * size, dtype=np.uint64)
    for channel in np.moveaxis(features.astype(np.float64) + 0.0, -1, 0):  # + 0.0 makes one zero of two
        colours = _hash(colours ^ np.ascontiguousarray(channel).view(np.uint64).ravel())
    nodes = np.repeat(mask.sum(1), size)
    for step in range(int(nodes.max(initial=0))):
        # A multiset hashes to the sum of its members' hashes; sums over neighbours are differences of running sums.
        running = np.concatenate([np.zeros(1, dtype=np.uint64), _hash(colours)[neighbours].cumsum(dtype=np.uint64)])
        refined = _hash(_hash(~colours) + running[end] - running[start])
        colours = np.where(step < nodes, refined, colours)
    return colours.reshape(count, size)


def _hash(x: Colours) -> Colours:
    """The finalizer of splitmix64, a bijection of 64-bit words that mixes all bits."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _sizes(adjacency: NDArray[Any], features: NDArray[Any], mask: NDArray[np.bool_]) -> tuple[int, int]:
    if mask.ndim != 2:
        raise ShapeError(f"Expected mask to be (count, size) (got {mask.shape})")
    square = (*mask.shape, mask.shape[1])
    if adjacency.shape != square:
        raise ShapeError(f"Expected adjacency to be {square}, as the mask (got {adjacency.shape})")
    if features.ndim != 3 or features.shape[:2] != mask.shape:
        raise ShapeError(f"Expected features to be {mask.shape} and channels, as the mask (got {features.shape})")
    return mask.shape[0], mask.shape[1]
