from contextlib import ExitStack
from pathlib import Path

import pytest

from probsym._internal.atomic_write import atomic_write


def write_half(path: Path, *others: Path) -> None:
    with ExitStack() as stack:
        beside = [stack.enter_context(atomic_write(one)) for one in (path, *others)]
        beside[0].write_text("new")
        raise KeyError


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    with atomic_write(path) as beside:
        beside.write_text("one")
        assert not path.exists()
    with atomic_write(path) as beside:
        beside.write_text("two")
        assert path.read_text() == "one"
    assert path.read_text() == "two"
    assert [one.name for one in path.parent.iterdir()] == ["file"]


def test_a_failure_leaves_everything_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyError):
        write_half(path)
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_of_several_none_is_replaced_before_all_are_written(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("old")
    with pytest.raises(KeyError):
        write_half(first, second)
    assert first.read_text() == "old"
    assert not second.exists()
