"""Small graphs of different sizes, and the slow way to pad a batch of them."""

from typing import NamedTuple

import torch
from torch import Tensor

from probsym.data import PackedGraphs, Rows


class Graph(NamedTuple):
    nodes: Tensor
    edges: Tensor
    edge_features: Tensor
    target: Tensor
    node_targets: Tensor
    pairs: Tensor
    pair_targets: Tensor


def graph(n: int, edges: list[tuple[int, int]], pairs: list[tuple[int, int]], seed: int = 0) -> Graph:
    """A graph with random kinds (4, 2) of nodes, (3, 1) of edges, and random targets of every sort."""
    random = torch.Generator().manual_seed(seed)

    def kinds(count: int, *many: int) -> Tensor:
        columns = [torch.randint(number, (count,), generator=random, dtype=torch.uint8) for number in many]
        return torch.stack(columns, -1)

    return Graph(
        kinds(n, 4, 2),
        torch.tensor(edges, dtype=torch.uint8).view(-1, 2),
        kinds(len(edges), 3, 1),
        torch.rand(3, generator=random, dtype=torch.float64),
        kinds(n, 5)[:, 0],
        torch.tensor(pairs, dtype=torch.uint8).view(-1, 2),
        kinds(len(pairs), 2)[:, 0],
    )


def several() -> list[Graph]:
    """A triangle with a loop, one node without an edge, three nodes without an edge, a directed path with a double."""
    return [
        graph(3, [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2), (1, 1)], [(0, 2), (2, 0)], 1),
        graph(1, [], [(0, 0)], 2),
        graph(3, [], [], 3),
        graph(5, [(0, 1), (1, 2), (2, 3), (3, 4), (2, 3)], [(0, 4), (1, 3), (4, 0), (2, 2)], 4),
    ]


def packed(graphs: list[Graph], targets: str) -> PackedGraphs:
    nodes, edges, features, target, node_targets, pairs, pair_targets = zip(*graphs, strict=True)
    held = {"graph": torch.stack(target), "node": Rows.join(node_targets), "pair": Rows.join(pair_targets)}
    return PackedGraphs(
        Rows.join(nodes),
        Rows.join(edges),
        held[targets],
        Rows.join(features),
        Rows.join(pairs) if targets == "pair" else None,
        (4, 2),
        (3, 1),
    )


def literally(graphs: list[Graph], targets: str, n: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """Features, dense edges, mask, targets and where they are: one number after the other."""
    count = len(graphs)
    features, edges = torch.zeros(count, n, 6, dtype=dtype), torch.zeros(count, n, n, 5, dtype=dtype)
    mask = torch.zeros(count, n, dtype=torch.bool)
    shape = {"graph": (count,), "node": (count, n), "pair": (count, n, n)}[targets]
    known = torch.zeros(shape, dtype=torch.bool)
    values = torch.zeros((count, 3), dtype=dtype) if targets == "graph" else torch.zeros(shape, dtype=torch.int64)
    for b, item in enumerate(graphs):
        for i, (first, second) in enumerate(item.nodes.tolist()):
            features[b, i, first] = features[b, i, 4 + second] = 1
            mask[b, i] = True
            if targets == "node":
                known[b, i], values[b, i] = True, int(item.node_targets[i])
        for (i, j), (first, second) in zip(item.edges.tolist(), item.edge_features.tolist(), strict=True):
            for channel in (0, 1 + first, 4 + second):
                edges[b, i, j, channel] += 1
        if targets == "graph":
            known[b], values[b] = True, item.target
        if targets == "pair":
            for (i, j), value in zip(item.pairs.tolist(), item.pair_targets.tolist(), strict=True):
                known[b, i, j], values[b, i, j] = True, value
    return {"features": features, "edges": edges, "mask": mask, "targets": values, "known": known}
