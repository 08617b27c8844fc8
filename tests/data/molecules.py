"""Small files of molecules, in the format of the long-range graph benchmark."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from probsym.data.lrgb import PCQM_ATOMS, PCQM_BONDS, PEPTIDES_ATOMS

Molecule = tuple[Tensor, ...]


def molecule(n: int, edges: list[tuple[int, int]], seed: int, *targets: Tensor) -> Molecule:
    """In the order of the published files: atoms, bonds, where bonds are, and what is to be predicted."""
    random = torch.Generator().manual_seed(seed)
    atoms = torch.stack(
        [
            torch.randint(min(in_peptides, in_pcqm), (n,), generator=random)
            for in_peptides, in_pcqm in zip(PEPTIDES_ATOMS, PCQM_ATOMS, strict=True)
        ],
        -1,
    )
    bonds = torch.stack([torch.randint(kinds, (len(edges),), generator=random) for kinds in PCQM_BONDS], -1)
    return atoms, bonds, torch.tensor(edges, dtype=torch.int64).view(-1, 2).T, *targets


def peptides(k: int) -> list[list[Molecule]]:
    y = torch.arange(4.0 * k).view(4, 1, k)
    return [
        [molecule(3, [(0, 1), (1, 0), (1, 2), (2, 1)], 0, y[0]), molecule(1, [], 1, y[1])],
        [molecule(2, [(0, 1), (1, 0)], 2, y[2])],
        [molecule(4, [], 3, y[3])],
    ]


def contacts() -> list[list[Molecule]]:
    none = torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0, dtype=torch.int32)
    some = torch.tensor([[0, 2, 0, 1], [2, 0, 1, 0]]), torch.tensor([1, 1, 0, 0], dtype=torch.int32)
    only_negative = torch.tensor([[1], [0]]), torch.tensor([0], dtype=torch.int32)
    return [
        [molecule(3, [(0, 1), (1, 0)], 0, *some), molecule(2, [(0, 1), (1, 0)], 1, *none)],
        [molecule(2, [], 2, *only_negative)],
        [molecule(4, [(3, 0)], 3, *some)],
    ]


def write(folder: Path, name: str, parts: list[Any]) -> None:
    (folder / name / "raw").mkdir(parents=True, exist_ok=True)
    for file, part in zip(("train", "val", "test"), parts, strict=True):
        torch.save(part, folder / name / "raw" / f"{file}.pt")
