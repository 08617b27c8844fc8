"""PATTERN: random communities with one of a hundred patterns hidden among them; generated, or read as published."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from probsym._internal.progress import Show
from probsym.data.files import Arrays, cached
from probsym.data.packed import PackedGraphs
from probsym.data.pattern_file import read_pattern
from probsym.data.rows import Rows

Bits = NDArray[np.bool_]
Integers = NDArray[np.int64]

SEED, PATTERNS, EACH = 41, 100, {"train": 100, "valid": 20, "test": 20}
COMMUNITIES, SIZES, FEATURES, MOST = 5, (5, 34), 3, 188
WITHIN, ACROSS, ATTACHED, INSIDE = 0.5, 0.35, 0.5, 0.5
_CONTENTS = "25df8a9b3c61c73fa85378efa600c100a03630165379db84f9493393d88e8e3a"


class Drawn(NamedTuple):
    """One graph: adjacency (n, n), features (n,), and the community of each node (n,), the last of them the pattern."""

    adjacency: Bits
    features: Integers
    community: Integers


def pattern(show: Show | None = None, *, published: str | Path | None = None) -> dict[str, PackedGraphs]:
    """10,000 graphs of at most 188 nodes for training ("train"), 2,000 "valid" and 2,000 "test".

    Each node has one of 3 features, one-hot in batches, and is of class 1 if it belongs to the pattern, else 0. The
    published generator fixes no seed, so this is another draw by the same rule: each of 100 patterns, a random graph on
    5 to 34 nodes, is hidden in 140 graphs. Each of these has 5 communities of 5 to 34 nodes, linked with probability
    0.5 within and 0.35 across, and 0.5 to the pattern; graphs with more than 188 nodes, the most in the published set,
    are drawn again. This takes seconds, once: the set is kept in the cache (see `probsym.data.files`).

    Args:
        show: called with the progress.
        published: a folder in which `torch_geometric.datasets.GNNBenchmarkDataset(folder, "PATTERN")` has put the
            published set, to read that one.

    From V. P. Dwivedi, C. K. Joshi, A. T. Luu, T. Laurent, Y. Bengio, X. Bresson, Benchmarking graph neural networks,
    JMLR 2023.

    >>> pattern()["train"].batch(torch.arange(128)).features.shape  # doctest: +SKIP
    torch.Size([128, 188, 3])
    """
    if published is not None:
        whole, counts = read_pattern(Path(published))
    else:
        whole = unpacked(cached("pattern.npz", _CONTENTS, lambda: generate(SEED, PATTERNS, show)))
        counts = [PATTERNS * many for many in EACH.values()]
    last = np.cumsum([0, *counts])
    return {name: whole.take(slice(*last[i : i + 2].tolist())) for i, name in enumerate(EACH)}


def generate(seed: int = SEED, patterns: int = PATTERNS, show: Show | None = None) -> Arrays:
    """The whole set: all training graphs in the order of their patterns, then the others; as few bytes as it takes.

    `sizes` (graphs,); `x` and `y` (nodes,); `bits`, for each graph the upper triangle of its adjacency matrix without
    the diagonal, eight entries a byte.
    """
    random = np.random.RandomState(seed)  # its numbers are the same in every version of NumPy
    graphs: dict[str, list[Drawn]] = {name: [] for name in EACH}
    total = patterns * sum(EACH.values())
    for i in range(patterns):
        hidden = draw_pattern(random)
        for name, many in EACH.items():
            graphs[name] += [draw(random, hidden) for _ in range(many)]
        if show is not None:
            show((i + 1) * total // patterns, total, "graphs")
    whole = [graph for part in graphs.values() for graph in part]
    uppers = [graph.adjacency[_upper(len(graph.features))] for graph in whole]
    return {
        "sizes": np.array([len(graph.features) for graph in whole], dtype=np.int64),
        "x": np.concatenate([graph.features for graph in whole]).astype(np.uint8),
        "y": np.concatenate([graph.community == COMMUNITIES for graph in whole]).astype(np.uint8),
        "bits": np.concatenate([np.packbits(upper) for upper in uppers]),
    }


def draw_pattern(random: np.random.RandomState) -> Drawn:
    """A graph on 5 to 34 nodes, each two linked with probability 0.5."""
    n = _size(random)
    upper = np.triu(random.random_sample((n, n)) < INSIDE, 1)
    return Drawn(upper | upper.T, _features(random, n), np.full(n, COMMUNITIES))


def draw(random: np.random.RandomState, hidden: Drawn) -> Drawn:
    """Five communities around a pattern, in random order, on at most 188 nodes."""
    sizes = [MOST]
    while sum(sizes) + len(hidden.features) > MOST:
        sizes = [_size(random) for _ in range(COMMUNITIES)]
    community = np.concatenate([np.repeat(np.arange(COMMUNITIES), sizes), hidden.community])
    first, n = sum(sizes), len(community)
    probability = np.where(community[:, None] == community, WITHIN, ACROSS)
    probability[:first, first:] = ATTACHED
    upper = np.triu(random.random_sample((n, n)) < probability, 1)
    adjacency = upper | upper.T
    adjacency[first:, first:] = hidden.adjacency
    features = np.concatenate([_features(random, first), hidden.features])
    order = random.permutation(n)
    return Drawn(adjacency[order][:, order], features[order], community[order])


def unpacked(arrays: Arrays) -> PackedGraphs:
    """The graphs of `generate`, each edge in both directions, sorted."""
    starts = np.cumsum([0, *arrays["sizes"]])
    edges, byte = [], 0
    for n in arrays["sizes"].tolist():
        pairs = n * (n - 1) // 2
        last = byte + -(-pairs // 8)
        adjacency = np.zeros((n, n), dtype=np.bool_)
        adjacency[_upper(n)] = np.unpackbits(arrays["bits"][byte:last], count=pairs)
        edges.append(
            torch.from_numpy(np.stack(np.nonzero(adjacency | adjacency.T), -1, dtype=np.uint8, casting="unsafe"))
        )
        byte = last
    features = torch.from_numpy(arrays["x"]).unsqueeze(-1)
    nodes = Rows(features, torch.from_numpy(starts), MOST)
    return PackedGraphs(
        nodes, Rows.join(edges), nodes.like(torch.from_numpy(arrays["y"])), node_kinds=(FEATURES,), checked=True
    )


def _size(random: np.random.RandomState) -> int:
    return int(random.randint(SIZES[0], SIZES[1] + 1, dtype=np.int64))


def _features(random: np.random.RandomState, n: int) -> Integers:
    return np.asarray(random.randint(FEATURES, size=n, dtype=np.int64))


@lru_cache(MOST)
def _upper(n: int) -> Bits:
    return np.triu(np.ones((n, n), dtype=np.bool_), 1)
