"""The published file of EXP, a pickled list of torch-geometric graphs, read without running any code it names."""

from __future__ import annotations

import io
import math
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from probsym.data.files import Arrays
from probsym.errors import DataError

_GRAPH_CLASSES = {
    ("torch_geometric.data.data", "Data"),
    ("torch_geometric.data.data", "DataEdgeAttr"),
    ("torch_geometric.data.data", "DataTensorAttr"),
    ("torch_geometric.data.storage", "GlobalStorage"),
}


def read_graphsat(path: Path) -> Arrays:
    """The graphs of a pickled list, one after the other; edges are sorted within each graph.

    With N nodes and E directed edges in all: `node_ptr` and `edge_ptr` (count + 1,) say where each graph begins; `x`
    (N, 1); `edge_index` (2, E), nodes counted from 0 in each graph; `y` (count,). All int64.

    A pickle can name any function to be called. This reader knows a handful of names, those of tensors and graphs, and
    gives each a plain stand-in: the bytes of a tensor are opened by `torch.load(weights_only=True)` and become tuples
    of numbers, a graph becomes its attributes. Any other name is refused.

    >>> read_graphsat(Path("nowhere.pkl"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    probsym.errors.DataError: Expected a pickled list of graphs in nowhere.pkl (got: ...)
    """
    try:
        with path.open("rb") as file:
            pickled = _Reader(file).load()
        if not isinstance(pickled, list) or not pickled:
            raise DataError(f"Expected a pickled list of graphs in {path} (got {type(pickled).__name__})")
        graphs = [_graph(holder) for holder in pickled]
    except DataError:
        raise
    except Exception as error:  # whatever the parser of a broken or hostile file raises
        raise DataError(f"Expected a pickled list of graphs in {path} (got: {error})") from error
    features, edges, labels = zip(*graphs, strict=True)
    return {
        "node_ptr": np.cumsum([0, *map(len, features)], dtype=np.int64),
        "edge_ptr": np.cumsum([0, *(index.shape[1] for index in edges)], dtype=np.int64),
        "x": np.concatenate(features),
        "edge_index": np.concatenate(edges, 1),
        "y": np.concatenate(labels),
    }


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BufferedReader) -> None:
        super().__init__(file)

        # Made anew for each file: a hostile one can set attributes of what it is given.
        class Holder:
            """What an object becomes: its attributes, and none of its code."""

        self.names: dict[tuple[str, str], Any] = {
            **dict.fromkeys(_GRAPH_CLASSES, Holder),
            ("torch._utils", "_rebuild_tensor_v2"): self.tensor,
            ("torch.storage", "_load_from_bytes"): self.storage,
            ("collections", "OrderedDict"): OrderedDict,
        }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.names:
            raise DataError(f"Expected a pickle of nothing but graphs and tensors (got {module}.{name}); not opened")
        return self.names[module, name]

    def storage(self, data: bytes) -> tuple[float, ...]:
        storage = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        if not isinstance(storage, torch.TypedStorage):
            raise DataError(f"Expected the numbers of a tensor (got {type(storage).__name__})")
        return tuple(torch.empty(0, dtype=storage.dtype).set_(storage).tolist())

    def tensor(self, numbers: tuple[float, ...], offset: int, size: list[int], stride: list[int], *_: Any) -> Any:
        if math.prod(size) > len(numbers):  # a stride of 0 would make much of little
            raise DataError(f"Expected a tensor of at most {len(numbers)} numbers (got {list(size)})")
        return torch.as_strided(torch.tensor(numbers), size, stride, offset).tolist()  # refuses to leave the storage


def _graph(holder: Any) -> tuple[np.ndarray[Any, Any], ...]:
    attributes = vars(holder)
    if "_store" in attributes:  # torch-geometric 2 keeps the tensors one level down
        attributes = vars(attributes["_store"])["_mapping"]
    features, edges, label = (np.array(attributes[name]) for name in ("x", "edge_index", "y"))
    if features.shape[1:] != (1,) or edges.shape[:1] != (2,) or edges.ndim != 2 or label.size != 1:
        shapes = ", ".join(str(array.shape) for array in (features, edges, label))
        raise DataError(f"Expected x (n, 1), edge_index (2, e) and one y (got {shapes})")
    edges = edges[:, np.lexsort(edges[::-1])]
    if edges.size and not 0 <= edges.min() <= edges.max() < len(features):
        raise DataError(f"Expected edges among {len(features)} nodes (got {edges.min()} to {edges.max()})")
    return features.astype(np.int64), edges.astype(np.int64), label.reshape(1).astype(np.int64)
