"""Files of JSON with a table beside them; what kills and full disks do to them is in test_faults.py."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from probsym.errors import RunError
from probsym.lab.json_with_table import TABLE, find_table, mend_table, table_text, write_new, write_table

ROWS = [{"draws": 1, "loss": 0.25}, {"draws": 2, "loss": None, "name": "ä, b"}]


def test_the_json_names_its_table(tmp_path: Path) -> None:
    path, table = tmp_path / "deep" / "one.json", tmp_path / "deep" / "one.csv"
    content = write_new(path, {"rows": ROWS}, table, table_text(ROWS))
    assert json.loads(path.read_text()) == content
    assert content[TABLE] == hashlib.sha256(table.read_bytes()).hexdigest()
    assert find_table(table, content, "") == table
    assert TABLE not in write_new(tmp_path / "two.json", {"rows": ROWS})
    with pytest.raises(RunError, match=rf"{path}, which is never overwritten \(got one\)"):
        write_new(path, {}, table, "other")
    assert table.read_bytes() == table_text(ROWS).encode()
    assert len(list(tmp_path.rglob("*"))) == 4


def test_a_lock_that_was_left_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / ".one.json.lock").touch()
    with pytest.raises(
        RunError, match=r"\(got the lock of a writer that is at work or was killed: .*\.one\.json\.lock"
    ):
        write_new(tmp_path / "one.json", {})


def test_tables_are_found_and_mended(tmp_path: Path) -> None:
    table = tmp_path / "one.csv"
    content = write_new(tmp_path / "one.json", {}, table, "a,b\n")
    for torn in ("a,", None):
        table.unlink() if torn is None else table.write_text(torn)
        there = "none" if torn is None else "another one"
        with pytest.raises(RunError, match=rf"Expected {table} .* \(got {there}\); ask again"):
            find_table(table, content, "ask again")
        with pytest.raises(RunError, match="got another, or none"):
            mend_table(table, content, lambda: "a,c\n")
        mend_table(table, content, lambda: "a,b\n")
        assert table.read_text() == "a,b\n"
    mend_table(table, content, lambda: pytest.fail("whole"))
    table.rename(tmp_path / ".one.csv.1-1.partial")  # as a writer leaves it that is killed between the two names
    assert find_table(table, content, "").name == ".one.csv.1-1.partial"
    mend_table(table, content, lambda: pytest.fail("there is a whole one"))
    assert table.read_text() == "a,b\n"


def test_older_files_name_no_table(tmp_path: Path) -> None:
    assert find_table(tmp_path / "none.csv", {}, "") == tmp_path / "none.csv"
    mend_table(tmp_path / "none.csv", {}, lambda: pytest.fail("none was named"))
    write_table(tmp_path / "one.csv", "a\n")
    write_table(tmp_path / "one.csv", "b\n")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["b\n"]
