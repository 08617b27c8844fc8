"""Molecules of the long range graph benchmark: Peptides-func, Peptides-struct and PCQM-Contact.

From V. P. Dwivedi, L. Rampasek, M. Galkin, A. Parviz, G. Wolf, A. T. Luu, D. Beaini, Long range graph benchmark,
NeurIPS 2022. Atoms have 9 features and bonds 3, numbered as by the Open Graph Benchmark, which batches have one-hot.
"""

from __future__ import annotations

import numpy as np
import torch

from probsym.data.files import Arrays, find, kept, load, look
from probsym.data.lrgb_files import Known, read_molecules
from probsym.data.packed import Kinds, PackedGraphs, from_arrays
from probsym.data.raw_files import raw_files

PEPTIDES_ATOMS: Kinds = (17, 3, 7, 7, 5, 1, 6, 2, 2)
PEPTIDES_BONDS: Kinds = (4, 1, 2)
PCQM_ATOMS: Kinds = (35, 3, 7, 7, 2, 4, 6, 2, 2)
PCQM_BONDS: Kinds = (4, 1, 1)
"""Kinds that occur: 50 channels for the atoms of peptides and 7 for their bonds, 68 and 6 for those of PCQM-Contact.

Those of peptides are what Peptides-func has. The paper has 64 where that has 50; its other numbers are the same. Those
of PCQM-Contact are from the published code; a molecule with others is refused."""

_PACKED, _SHA256 = "peptides_func.npz", "7b785448f2490f946d54411fa793ce5f3374bc7aa801b9cf5fcdb6834b61671e"
_PARTS = {"train": "train.pt", "valid": "val.pt", "test": "test.pt"}


KNOWN = {
    "peptides-func": Known(15_535, 150.94, 307.30, 444),
    "peptides-struct": Known(15_535, 150.94, 307.30, 444),
    "pcqm-contact": Known(529_434, 30.14, 61.09, 53),
}


def peptides_func(*, download: bool = True) -> dict[str, PackedGraphs]:
    """15,535 peptides of at most 444 atoms, and which of 10 functions they have: (10,) of 0.0 and 1.0.

    10,873 to learn from ("train"), 2,331 "valid", 2,331 "test". They are read from peptides_func.npz in the folder
    PROBSYM_DATA or in the cache, and checked against its sha256; or else from the raw files of torch-geometric's
    `LRGBDataset` in peptides-func/raw of one of them; or downloaded by it into the cache.

    >>> peptides_func()["test"].batch(torch.arange(8)).edges.shape  # doctest: +SKIP
    torch.Size([8, 444, 444, 8])
    """
    if look(_PACKED) is None:
        return _from_raw("peptides-func", download, PEPTIDES_ATOMS, PEPTIDES_BONDS)
    arrays = load(find(_PACKED, _SHA256))
    index = {name: torch.from_numpy(arrays.pop(file.removesuffix(".pt"))) for name, file in _PARTS.items()}
    arrays["y"] = arrays["y"].astype(np.float32)
    whole = from_arrays(arrays, node_kinds=PEPTIDES_ATOMS, edge_kinds=PEPTIDES_BONDS)
    return {name: whole.take(one) for name, one in index.items()}


def peptides_struct(*, download: bool = True) -> dict[str, PackedGraphs]:
    """The same peptides in the same parts, and 11 properties of their shape: (11,), as the files have them.

    They are read from the raw files of torch-geometric's `LRGBDataset` in peptides-struct/raw of the folder
    PROBSYM_DATA or of the cache; or downloaded by it into the cache. No checksum of them is known to us; numbers of
    graphs, nodes and edges are checked.
    """
    return _from_raw("peptides-struct", download, PEPTIDES_ATOMS, PEPTIDES_BONDS)


def pcqm_contact(*, download: bool = True) -> dict[str, PackedGraphs]:
    """529,434 molecules of at most 53 atoms, and which atoms, far along the bonds, are close in space.

    Targets are for pairs: 1 for contacts, both ways, and 0 for the others that the files list. Found and checked like
    those of `peptides_struct`, in pcqm-contact/raw. The first time takes minutes, to pack them into the cache.
    """
    return _from_raw("pcqm-contact", download, PCQM_ATOMS, PCQM_BONDS)


def _from_raw(name: str, download: bool, atoms: Kinds, bonds: Kinds) -> dict[str, PackedGraphs]:
    def make() -> Arrays:
        return read_molecules(raw_files("LRGBDataset", name, list(_PARTS.values()), download=download), KNOWN[name])

    arrays = kept(f"{name}.npz", make, needs=("parts", "node_ptr", "edge_ptr", "x", "edge_index", "edge_attr", "y"))
    last = np.cumsum([0, *arrays.pop("parts")])
    whole = from_arrays(arrays, node_kinds=atoms, edge_kinds=bonds)
    return {part: whole.take(slice(*last[i : i + 2].tolist())) for i, part in enumerate(_PARTS)}
