"""Pickles of graphs as torch-geometric 1 wrote them, made without it; and pickles that name what they should not."""

import pickle
from typing import Any

import torch


class Graph:
    """Stands in for the class `Data`, whose name replaces this one's in the bytes."""

    def __init__(self, x: Any, edge_index: Any, y: Any) -> None:
        self.x, self.edge_index, self.edge_attr, self.y, self.pos = x, edge_index, None, y, None


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def dumped(graphs: object) -> bytes:
    """Protocol 3, the default of the time; its names end with a line, so that they can be replaced."""
    own = f"c{Graph.__module__}\nGraph\n".encode()
    return pickle.dumps(graphs, protocol=3).replace(own, b"ctorch_geometric.data.data\nData\n")


def small() -> list[Graph]:
    """A path of three nodes, labelled 1, and an edge beside nothing, labelled 0; edges out of order."""
    path = Graph(torch.tensor([[1], [0], [1]]), torch.tensor([[1, 2, 0, 1], [2, 1, 1, 0]]), torch.tensor([1]))
    edge = Graph(torch.tensor([[0], [1]]), torch.tensor([[1, 0], [0, 1]]), torch.tensor(0))
    return [path, edge]
