"""The raw files of the long range graph benchmark's molecules, as torch-geometric's `LRGBDataset` downloads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from probsym.data.files import Arrays
from probsym.data.raw_files import load_raw
from probsym.errors import DataError


class Known(NamedTuple):
    """What is published of a set, by which it is known: graphs, mean numbers of nodes and edges, and the most nodes."""

    graphs: int
    nodes: float
    edges: float
    most: int


def read_molecules(paths: Sequence[Path], known: Known) -> Arrays:
    """The molecules of some files, one after the other, in small integers; `parts` says how many are in each file.

    A file holds a list of tuples: `x` (n, 9), `edge_attr` (e, 3), `edge_index` (2, e), and either targets (1, k), or
    pairs of nodes (2, p) and their labels (p,). The arrays are those of `probsym.data.packed.from_arrays`.
    """
    columns: list[list[Tensor]] = []
    parts = []
    for path in paths:
        graphs = load_raw(path)
        if not graphs or any(not _sound(graph) for graph in graphs) or len({len(graph) for graph in graphs}) > 1:
            raise DataError(
                f"Expected molecules (atoms, bonds, edges, targets or pairs, labels) in {path} (got others)"
            )
        parts.append(len(graphs))
        new = [list(column) for column in zip(*graphs, strict=True)]
        columns = [old + more for old, more in zip(columns, new, strict=True)] if columns else new
    nodes, bonds, edges, *rest = columns
    arrays = {
        "parts": np.array(parts, dtype=np.int64),
        "node_ptr": _starts(nodes, 0),
        "edge_ptr": _starts(edges, 1),
        "x": _small(torch.cat(nodes)),
        "edge_attr": _small(torch.cat(bonds)),
        "edge_index": _small(torch.cat(edges, 1)),
    }
    _check(arrays, known)
    if len(rest) == 1:
        return {**arrays, "y": torch.cat(rest[0]).float().numpy()}
    pairs, labels = rest
    index, y = _small(torch.cat(pairs, 1)), _small(torch.cat(labels))
    return {**arrays, "pair_ptr": _starts(pairs, 1), "pair_index": index, "y": y}


def _sound(graph: Any) -> bool:
    """Whether it is a molecule: tensors whose shapes fit each other."""
    if not isinstance(graph, list | tuple) or len(graph) not in (4, 5):
        return False
    if not all(isinstance(tensor, Tensor) for tensor in graph):
        return False
    nodes, bonds, edges, *rest = graph
    if nodes.dim() != 2 or bonds.dim() != 2 or edges.shape != (2, len(bonds)):
        return False
    if len(rest) == 1:
        return rest[0].dim() == 2 and len(rest[0]) == 1
    return rest[0].shape == (2, len(rest[1])) and rest[1].dim() == 1


def _starts(lists: Sequence[Tensor], axis: int) -> Any:
    return np.cumsum([0, *(tensor.shape[axis] for tensor in lists)], dtype=np.int64)


def _small(numbers: Tensor) -> Any:
    """Whole numbers from 0 on, in as few bytes as they need."""
    if numbers.numel() == 0:
        return numbers.to(torch.uint8).numpy()
    low, high = float(numbers.min()), float(numbers.max())
    small = numbers.to(torch.uint8 if high < 2**8 else torch.int16)
    if low < 0 or high >= 2**15 or not torch.equal(small.to(numbers.dtype), numbers):
        raise DataError(f"Expected whole numbers from 0 to {2**15 - 1} (got {low} to {high})")
    return small.numpy()


def _check(arrays: Arrays, known: Known) -> None:
    graphs, nodes, edges = len(arrays["node_ptr"]) - 1, len(arrays["x"]), len(arrays["edge_attr"])
    means, most = (nodes / graphs, edges / graphs), int(np.diff(arrays["node_ptr"]).max())
    right = graphs == known.graphs and most == known.most
    if not right or any(abs(mean - published) > 0.0051 for mean, published in zip(means, known[1:3], strict=True)):
        raise DataError(
            f"Expected {known.graphs} graphs with {known.nodes} nodes and {known.edges} edges on average, at most "
            f"{known.most} nodes (got {graphs}, {means[0]:.2f}, {means[1]:.2f} and {most})"
        )
