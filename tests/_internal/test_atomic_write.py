import os
from pathlib import Path

import pytest

from probsym._internal.atomic_write import atomic_write


def write_half(path: Path, *others: Path) -> None:
    with atomic_write(path, *others) as beside:
        beside[0].write_text("new")
        raise KeyError


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    with atomic_write(path) as (beside,):
        beside.write_text("one")
        assert not path.exists()
    with atomic_write(path) as (beside,):
        beside.write_text("two")
        assert path.read_text() == "one"
    assert path.read_text() == "two"
    assert [file.name for file in path.parent.iterdir()] == ["file"]


def test_a_failure_leaves_everything_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyError):
        write_half(path)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_the_new_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, named = tmp_path / "file", []
    fsync = os.fsync

    def noted(handle: int) -> None:
        named.append(path.exists())
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    with atomic_write(path) as (beside,):
        beside.write_text("one")
    assert named == [False]


def test_of_several_none_is_replaced_before_all_are_written(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("old")
    with pytest.raises(KeyError):
        write_half(first, second)
    assert first.read_text() == "old"
    assert not second.exists()


@pytest.mark.parametrize("links", [True, False])
def test_without_overwriting_the_first_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "file"
    with atomic_write(path, overwrite=False) as (beside,):
        beside.write_text("one")
    with pytest.raises(FileExistsError), atomic_write(path, overwrite=False) as (beside,):
        beside.write_text("two")
    assert path.read_text() == "one"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_of_two_that_write_at_once_without_links_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / ".file.lock").touch()  # the other is just about to rename
    with pytest.raises(FileExistsError), atomic_write(tmp_path / "file", overwrite=False) as (beside,):
        beside.write_text("two")
    assert [file.name for file in tmp_path.iterdir()] == [".file.lock"]


def test_temporary_names_tell_processes_apart(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "file") as (beside,):
        beside.write_text("one")
        assert str(os.getpid()) in beside.name
