"""Molecules of the long range graph benchmark: Peptides-func, Peptides-struct and PCQM-Contact.

From V. P. Dwivedi, L. Rampasek, M. Galkin, A. Parviz, G. Wolf, A. T. Luu, D. Beaini, Long range graph benchmark,
NeurIPS 2022. Atoms have 9 features and bonds 3, numbered as in the Open Graph Benchmark; in batches they are one-hot.
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
    """15,535 peptides of at most 444 atoms; targets say which of 10 functions each has: (10,) of 0.0 and 1.0.

    The parts are "train" (10,873), "valid" (2,331) and "test" (2,331). They are read from peptides_func.npz in the
    folder PROBSYM_DATA or in the cache, and checked against its sha256; or else from peptides-func/raw in one of these
    folders, the raw files of torch-geometric's `LRGBDataset`, which downloads them into the cache if they are missing.

    >>> peptides_func()["test"].batch(torch.arange(8)).edges.shape  # doctest: +SKIP
    torch.Size([8, 444, 444, 8])
    """
    if look(_PACKED) is None:
        return _from_raw("peptides-func", download, PEPTIDES_ATOMS, PEPTIDES_BONDS)
    arrays = load(find(_PACKED, _SHA256))
    index = {name: torch.from_numpy(arrays.pop(file.removesuffix(".pt"))) for name, file in _PARTS.items()}
    arrays["y"] = arrays["y"].astype(np.float32)
    whole = from_arrays(arrays, node_kinds=PEPTIDES_ATOMS, edge_kinds=PEPTIDES_BONDS)
    return {name: whole.take(indices) for name, indices in index.items()}


def peptides_struct(*, download: bool = True) -> dict[str, PackedGraphs]:
    """The same peptides in the same parts, with 11 properties of their shape as targets: (11,), as in the files.

    They are read from peptides-struct/raw in the folder PROBSYM_DATA or in the cache, the raw files of
    torch-geometric's `LRGBDataset`, which downloads them into the cache if they are missing. No checksum is known for
    them, so the numbers of graphs, nodes and edges are checked instead.
    """
    return _from_raw("peptides-struct", download, PEPTIDES_ATOMS, PEPTIDES_BONDS)


def pcqm_contact(*, download: bool = True) -> dict[str, PackedGraphs]:
    """529,434 molecules of at most 53 atoms; targets: which atoms many bonds apart are close in space.

    Each target belongs to a pair of atoms: 1 for contacts, in both directions, and 0 for the other pairs that the files
    list. The files are found and checked as in `peptides_struct`, in pcqm-contact/raw. The first call takes minutes to
    pack them into the cache.
    """
    return _from_raw("pcqm-contact", download, PCQM_ATOMS, PCQM_BONDS)


def _from_raw(name: str, download: bool, atoms: Kinds, bonds: Kinds) -> dict[str, PackedGraphs]:
    def make() -> Arrays:
        return read_molecules(raw_files("LRGBDataset", name, list(_PARTS.values()), download=download), KNOWN[name])

    arrays = kept(f"{name}.npz", make, needs=("parts", "node_ptr", "edge_ptr", "x", "edge_index", "edge_attr", "y"))
    last = np.cumsum([0, *arrays.pop("parts")])
    whole = from_arrays(arrays, node_kinds=atoms, edge_kinds=bonds)
    return {part: whole.take(slice(*last[i : i + 2].tolist())) for i, part in enumerate(_PARTS)}
