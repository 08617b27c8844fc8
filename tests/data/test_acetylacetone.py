import os
from pathlib import Path

import pytest
import torch

from probsym.data import acetylacetone
from probsym.errors import DataError

DATA = Path(os.environ.get("PROBSYM_DATA", ""), "acetylacetone.npz")


@pytest.mark.skipif(not DATA.is_file(), reason="no acetylacetone in PROBSYM_DATA")
def test_every_set_has_energies_and_snapshots_have_forces() -> None:
    sets, isolated = acetylacetone()
    assert [len(molecules.energy) for molecules in sets.values()] == [500, 500, 650, 650, 45, 15]
    assert sorted(isolated) == [1, 6, 8]
    for name, molecules in sets.items():
        assert molecules.positions.shape == molecules.forces.shape == (len(molecules.energy), 15, 3)
        assert (molecules.numbers.sort(1).values == torch.tensor([1] * 8 + [6] * 5 + [8] * 2)).all()
        assert bool(molecules.forces.isnan().all()) is (name in ("test_dihedral", "test_h_transfer"))
        bound = molecules.energy - sum(isolated[number] for number in molecules.numbers[0].tolist())
        assert (bound < -50).all()  # eV


def test_a_missing_or_changed_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBSYM_DATA", str(tmp_path))
    monkeypatch.setenv("PROBSYM_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DataError, match=r"Expected acetylacetone\.npz in .* \(got no such file\)"):
        acetylacetone()
    (tmp_path / "acetylacetone.npz").write_bytes(b"other")
    with pytest.raises(DataError, match="sha256"):
        acetylacetone()
