"""The published set PATTERN, from the raw file of torch-geometric's `GNNBenchmarkDataset`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from probsym.data.files import folders
from probsym.data.packed import PackedGraphs
from probsym.data.raw_files import found_in, load_raw
from probsym.data.rows import Rows
from probsym.errors import DataError

_FILE = "PATTERN_v2.pt"


def published_folder() -> Path | None:
    """The first of the folders for data that holds the published set, if any does."""
    paths = found_in(folders(), "PATTERN", [_FILE])
    return None if paths is None else paths[0].parents[2]


def read_pattern(folder: Path) -> tuple[PackedGraphs, list[int]]:
    """The graphs of FOLDER/PATTERN/raw/PATTERN_v2.pt, part after part, and how many there are in each part.

    The file holds three lists of dicts with `x` (n, 3), one-hot, `edge_index` (2, edges) and `y` (n,).
    """
    paths = found_in([folder], "PATTERN", [_FILE])
    if paths is None:
        raise DataError(f"Expected {folder / 'PATTERN' / 'raw' / _FILE} (got no such file)")
    parts = load_raw(paths[0])
    if len(parts) != 3:
        raise DataError(f"Expected three lists of graphs in {paths[0]} (got {len(parts)})")
    try:
        graphs = [_graph(graph) for part in parts for graph in part]
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"Expected graphs with x, edge_index and y in {paths[0]} (got: {error!r})") from error
    features, edges, labels = (Rows.join(lists) for lists in zip(*graphs, strict=True))
    return PackedGraphs(features, edges, labels, node_kinds=(3,)), [len(part) for part in parts]


def _graph(graph: Any) -> tuple[Tensor, Tensor, Tensor]:
    x, edges, labels = (graph[name] for name in ("x", "edge_index", "y"))
    if x.dim() != 2 or x.shape[1] != 3 or edges.dim() != 2 or len(edges) != 2 or labels.shape != x.shape[:1]:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (x, edges, labels))
        raise DataError(f"Expected x (n, 3), edge_index (2, edges) and y (n,) (got {shapes})")
    kinds = x.argmax(1, keepdim=True)
    if not torch.equal(x, torch.zeros_like(x).scatter_(1, kinds, 1)):
        raise DataError("Expected x to be one-hot (got other numbers)")
    return kinds.to(torch.uint8), edges.T.to(torch.int16), labels.to(torch.uint8)
