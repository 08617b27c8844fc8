from pathlib import Path

import pytest
import torch

from probsym.data.raw_files import found_in, load_raw, raw_files
from probsym.errors import DataError


def test_the_first_place_with_all_files_counts(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("first", "second", "third")]
    for place in places:
        (place / "set" / "raw").mkdir(parents=True)
    for place, files in zip(places, (["a"], ["a", "b"], ["a", "b"]), strict=True):
        for file in files:
            (place / "set" / "raw" / file).touch()
    assert found_in(places, "set", ["a", "b"]) == [places[1] / "set" / "raw" / file for file in ("a", "b")]
    assert found_in(places, "set", ["a"]) == [places[0] / "set" / "raw" / "a"]
    assert found_in(places, "set", ["c"]) is None


def test_files_that_are_nowhere_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBSYM_DATA", str(tmp_path))
    monkeypatch.setenv("PROBSYM_CACHE", str(tmp_path))
    with pytest.raises(
        DataError, match=r"Expected set/raw/a, set/raw/b in .*GNNBenchmarkDataset\(that folder, 'set'\)"
    ):
        raw_files("GNNBenchmarkDataset", "set", ["a", "b"], download=False)


def test_lists_of_tensors_are_read(tmp_path: Path) -> None:
    torch.save([(torch.arange(3), torch.zeros(2, 0))], tmp_path / "list.pt")
    ((first, second),) = load_raw(tmp_path / "list.pt")
    assert first.tolist() == [0, 1, 2]
    assert second.shape == (2, 0)


@pytest.mark.parametrize("content", [b"", b"half of a file"])
def test_broken_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "broken.pt").write_bytes(content)
    with pytest.raises(DataError, match=r"broken.pt to hold nothing but tensors"):
        load_raw(tmp_path / "broken.pt")
