import hashlib
import os
import re
from pathlib import Path

import numpy as np
import pytest

from probsym.data import files
from probsym.errors import DataError

TEXT = b"some numbers"
SHA256 = hashlib.sha256(TEXT).hexdigest()
ARRAYS = {"a": np.arange(6).reshape(2, 3), "b": np.array([True, False])}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """PROBSYM_DATA and the cache; only the first exists."""
    own, kept = tmp_path / "own", tmp_path / "deep" / "cache"
    own.mkdir()
    monkeypatch.setenv("PROBSYM_DATA", str(own))
    monkeypatch.setenv("PROBSYM_CACHE", str(kept))
    return own, kept


def test_the_cache_is_in_the_users_home_unless_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PROBSYM_CACHE", raising=False)
    monkeypatch.delenv("PROBSYM_DATA", raising=False)
    assert files.folders() == [files.cache()] == [tmp_path / ".cache" / "probsym"]
    monkeypatch.setenv("PROBSYM_CACHE", "~/other")
    monkeypatch.setenv("PROBSYM_DATA", "~/own")
    assert files.folders() == [tmp_path / "own", tmp_path / "other"]


def test_own_files_come_before_the_cache(places: tuple[Path, Path]) -> None:
    own, kept = places
    kept.mkdir(parents=True)
    assert files.look("one") is None
    (kept / "one").write_bytes(TEXT)
    assert files.look("one") == files.find("one", SHA256) == kept / "one"
    (own / "one").write_bytes(TEXT)
    assert files.look("one") == files.find("one", SHA256) == own / "one"


def test_a_missing_file_is_reported_with_places_and_advice(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, kept = places
    with pytest.raises(DataError, match=re.escape(f"Expected one in {own} or {kept} (got no such file); put it there")):
        files.find("one", SHA256)
    with pytest.raises(FileNotFoundError, match=r"; ask for it$"):
        files.find("one", SHA256, advice="ask for it")
    monkeypatch.delenv("PROBSYM_DATA")
    with pytest.raises(DataError, match="PROBSYM_DATA is not set"):
        files.find("one", SHA256)


def test_a_file_with_another_checksum_is_refused_even_if_a_good_one_can_be_had(places: tuple[Path, Path]) -> None:
    own, kept = places
    kept.mkdir(parents=True)
    (kept / "one").write_bytes(TEXT)
    (own / "one").write_bytes(TEXT + b"!")
    with pytest.raises(DataError, match=re.escape(f"Expected {own / 'one'} to have sha256 {SHA256} (got ")):
        files.find("one", SHA256)


def test_what_is_at_an_address_is_fetched_or_the_failure_said(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(TEXT)
    assert files.fetch(source.as_uri()) == TEXT
    source.unlink()
    with pytest.raises(DataError, match=r"^Expected to download file:.*source \(got: "):
        files.fetch(source.as_uri())


def test_digests_see_names_types_shapes_and_numbers_but_not_layout() -> None:
    assert files.digest(ARRAYS) == files.digest(dict(reversed(ARRAYS.items())))
    assert files.digest(ARRAYS) == files.digest({**ARRAYS, "a": np.asfortranarray(ARRAYS["a"])})
    assert files.digest(ARRAYS) == files.digest({**ARRAYS, "a": ARRAYS["a"].astype(">i8")})
    changed = [ARRAYS["a"] + 1, ARRAYS["a"].astype(np.int32), ARRAYS["a"].reshape(3, 2)]
    others = [*({**ARRAYS, "a": array} for array in changed), {"b": ARRAYS["b"], "c": ARRAYS["a"]}]
    assert len({files.digest(arrays) for arrays in [ARRAYS, *others]}) == 5


def test_what_is_saved_can_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "new" / "one.npz"
    files.save(path, ARRAYS)
    assert files.digest(files.load(path)) == files.digest(ARRAYS)
    assert [file.name for file in path.parent.iterdir()] == ["one.npz"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_save_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    files.save(tmp_path / "one.npz", ARRAYS)
    before = (tmp_path / "one.npz").read_bytes()

    def half(file, **arrays) -> None:
        file.write(b"half")
        raise error

    monkeypatch.setattr(np, "savez_compressed", half)
    with pytest.raises(error):
        files.save(tmp_path / "one.npz", {"a": np.zeros(3)})
    assert [file.name for file in tmp_path.iterdir()] == ["one.npz"]
    assert (tmp_path / "one.npz").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no archive"])
def test_broken_archives_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "one.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"Expected .*one.npz to be a whole npz archive"):
        files.load(tmp_path / "one.npz")


def test_archives_with_pickles_in_them_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", a=np.array([{}], dtype=object))
    with pytest.raises(DataError, match="allow_pickle"):
        files.load(tmp_path / "one.npz")
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(DataError, match="whole npz archive"):
        files.load(tmp_path / "one.npy")


class Maker:
    """Makes the arrays, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> files.Arrays:
        self.calls += 1
        return dict(ARRAYS)


def test_arrays_are_made_once_and_anew_when_the_cache_is_broken(places: tuple[Path, Path]) -> None:
    path, make = places[1] / "one.npz", Maker()
    for calls in (1, 1):
        assert files.digest(files.cached("one.npz", files.digest(ARRAYS), make)) == files.digest(ARRAYS)
        assert make.calls == calls
    whole = path.read_bytes()
    for calls, content in enumerate((whole[:-9], whole.replace(b"a.npy", b"c.npy"), b""), start=2):
        path.write_bytes(content)
        assert files.digest(files.cached("one.npz", files.digest(ARRAYS), make)) == files.digest(ARRAYS)
        assert make.calls == calls
        assert files.digest(files.load(path)) == files.digest(ARRAYS)
    files.save(path, {"a": np.zeros(2)})  # a whole archive of something else
    assert "b" in files.cached("one.npz", files.digest(ARRAYS), make)
    assert make.calls == 5


def test_what_is_made_wrong_is_refused_and_not_kept(places: tuple[Path, Path]) -> None:
    with pytest.raises(DataError, match="Expected contents with sha256 00"):
        files.cached("one.npz", "00", Maker())
    assert not places[1].exists()


def test_without_a_place_to_keep_them_arrays_are_still_returned(places: tuple[Path, Path]) -> None:
    places[1].parent.write_bytes(b"a file where the folder should be")
    with pytest.warns(UserWarning, match=r"Expected to keep .*one.npz"):
        assert "a" in files.cached("one.npz", files.digest(ARRAYS), Maker())


def test_what_is_kept_is_made_anew_where_it_holds_other_arrays(places: tuple[Path, Path]) -> None:
    make = Maker()
    for calls in (1, 1):
        assert files.digest(files.kept("one.npz", make, needs=["a", "b"])) == files.digest(ARRAYS)
        assert make.calls == calls
    other = {"c": np.zeros(3)}
    files.save(places[1] / "one.npz", {**other, "sha256": np.array(files.digest(other))})
    assert "a" in files.kept("one.npz", make, needs=["a", "b"])
    assert make.calls == 2


def test_a_pipe_in_the_cache_keeps_nobody_waiting(places: tuple[Path, Path]) -> None:
    places[1].mkdir(parents=True)
    os.mkfifo(places[1] / "one.npz")
    with pytest.raises(DataError, match="something else than a file"):
        files.load(places[1] / "one.npz")
    assert "a" in files.kept("one.npz", Maker(), needs=["a"])
    assert (places[1] / "one.npz").is_file()


@pytest.mark.parametrize("variable", ["PROBSYM_DATA", "PROBSYM_CACHE"])
@pytest.mark.parametrize("value", ["~nobody-of-that-name/data", "x" * 5000])
def test_odd_folders_are_refused_by_name(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(DataError, match=rf"Expected {variable} to be a folder that can be read \(got '{value[:4]}"):
        files.look("one")
