"""Acetylacetone: energies and forces of one molecule by density functional theory, at two temperatures and on paths."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from probsym.data.files import find, load

_FILE, _SHA256 = "acetylacetone.npz", "bd259118d4b22316ea7afe0cd632e9b63ba6fa3e97a5e7497891239a8a70fc4b"
SETS = ("train_300k", "train_600k", "test_300k", "test_600k", "test_dihedral", "test_h_transfer")


class Molecules(NamedTuple):
    """Configurations of molecules, in float64, eV and angstrom."""

    numbers: Tensor
    """(count, n), atomic numbers, int64."""
    positions: Tensor
    """(count, n, 3)."""
    energy: Tensor
    """(count,)."""
    forces: Tensor
    """(count, n, 3), NaN where they are not known."""


def acetylacetone() -> tuple[dict[str, Molecules], dict[int, float]]:
    """Configurations of acetylacetone, C5H8O2, by set, and the energies of its isolated atoms by atomic number.

    At each of two temperatures there are snapshots of molecular dynamics: 500 for training ("train_300k", "train_600k")
    and 650 for testing. Two paths without forces are also for testing: a rotation about a bond ("test_dihedral", 45)
    and the proton transfer from one oxygen to the other ("test_h_transfer", 15). The file acetylacetone.npz must be in
    the folder PROBSYM_DATA.
    """
    arrays = load(find(_FILE, _SHA256))
    sets = {}
    for name in SETS:
        numbers, positions, energy = (
            torch.from_numpy(arrays[f"{name}_{field}"]) for field in ("species", "positions", "energy")
        )
        forces = arrays.get(f"{name}_forces")
        known = torch.full_like(positions, torch.nan) if forces is None else torch.from_numpy(forces)
        sets[name] = Molecules(numbers.long(), positions, energy, known)
    isolated = zip(arrays["isolated_species"].tolist(), arrays["isolated_energy"].tolist(), strict=True)
    return sets, dict(isolated)
