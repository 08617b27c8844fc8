"""EXP: pairs of planar graphs that 1-WL cannot tell apart, one encoding a satisfiable formula and the other not."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from probsym.data.files import Arrays, cached, fetch, find, load, look, missing
from probsym.data.graphs import Graphs, SplitIndices
from probsym.data.graphsat import read_graphsat
from probsym.data.packed import from_arrays

_PACKED, _SHA256 = "exp_graphsat.npz", "0b8646a9c5fabd2b3f2f1102604754fa969720160f622f80ff6be88fb0c105eb"
_PICKLED, _CONVERTED = "GRAPHSAT.pkl", "exp_converted.npz"
_CONTENTS = "fabca730e39629caf7bbeb1be53188d998350173caea7fff4556f9c5a4365e30"
_URL = f"https://github.com/ralphabb/GNN-RNI/raw/main/Data/EXP/raw/{_PICKLED}"


def exp(download: bool = True) -> Graphs:
    """The 1,200 graphs of EXP, with 32 to 64 nodes, padded to 64; graphs 2i and 2i + 1 are a pair with labels 1 and 0.

    Features (1200, 64, 2) are 1 for literals and 0 for clauses, and the degree. They are read from exp_graphsat.npz in
    the folder PROBSYM_DATA or in the cache (see `probsym.data.files`), and checked against its sha256; or else from the
    published GRAPHSAT.pkl in one of them, or downloaded. That file is read without running code, checked against the
    sha256 of the numbers it should hold, and converted once into the cache.

    From R. Abboud, I. I. Ceylan, M. Grohe, T. Lukasiewicz, The surprising power of graph neural networks with random
    node initialization, IJCAI 2021.

    >>> exp().features.shape  # doctest: +SKIP
    torch.Size([1200, 64, 2])
    """
    if look(_PACKED) is not None:
        return padded(load(find(_PACKED, _SHA256)))
    return padded(cached(_CONVERTED, _CONTENTS, lambda: _convert(download)))


def exp_splits() -> SplitIndices:
    """The parts of EXP-classify, as indices into `exp()`; pairs stay together.

    >>> [(int(part[0]), int(part[-1])) for part in exp_splits()]
    [(400, 1199), (0, 199), (200, 399)]
    """
    return SplitIndices(train=torch.arange(400, 1200), validation=torch.arange(200), test=torch.arange(200, 400))


def padded(arrays: Arrays) -> Graphs:
    """Graphs one after the other, in the layout of `read_graphsat`, as tensors padded to the largest of them.

    >>> import numpy as np
    >>> edge, node = {"node_ptr": [0, 2, 3], "edge_ptr": [0, 2, 2], "x": [[1], [0], [1]]}, {"y": [1, 0]}
    >>> arrays = {name: np.array(values) for name, values in {**edge, **node, "edge_index": [[0, 1], [1, 0]]}.items()}
    >>> padded(arrays).features.tolist()
    [[[1.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]]]
    """
    graphs = from_arrays(arrays)
    whole = graphs.batch(torch.arange(len(graphs)))
    adjacency = whole.edges.dense()
    features = torch.stack([whole.features[..., 0], adjacency.sum(-1)], -1)
    return Graphs(features, adjacency, whole.mask, whole.targets.float())


def _convert(download: bool) -> Arrays:
    path = look(_PICKLED)
    if path is not None:
        return read_graphsat(path)
    if not download:
        raise missing(f"{_PACKED} or {_PICKLED}", f"the latter is published at {_URL}")
    with tempfile.TemporaryDirectory() as folder:  # not kept: what it holds is, once it is checked
        path = Path(folder) / _PICKLED
        path.write_bytes(fetch(_URL))
        return read_graphsat(path)
