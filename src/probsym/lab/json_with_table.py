"""Files of JSON that are never overwritten, and the table that one may have beside it as CSV.

The JSON has the table's digest, so that a table that was torn, lost or exchanged is found, and can be mended.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from probsym._internal.atomic_write import atomic_write, written
from probsym.errors import RunError

TABLE = "csv_sha256"
"""What the JSON calls the digest of its table; older files have none."""


def write_new(path: Path, content: Mapping[str, Any], table: Path | None = None, text: str = "") -> dict[str, Any]:
    """Write a file of JSON, with a table beside it if there is one, and refuse to overwrite; what the JSON holds.

    The JSON gets its name first: of several writers at once the one that wins writes the table too.
    """
    content = {**content, TABLE: _digest(text)} if table is not None else dict(content)
    try:
        with atomic_write(path, *([] if table is None else [table]), overwrite=False) as (beside, *others):
            beside.write_text(json.dumps(content, indent=1) + "\n")
            for file in others:
                file.write_text(text, encoding="utf-8", newline="")
    except FileExistsError as error:
        obstacle = "one" if path.exists() else f"the lock of a writer that is at work or was killed: {error}"
        raise RunError(f"Expected no result at {path}, which is never overwritten (got {obstacle})") from error
    return content


def table_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV, under all names that occur; nothing where a row has no such value.

    >>> table_text([{"epoch": 1}, {"epoch": 2, "loss": 0.5}]).split()
    ['epoch,loss', '1,', '2,0.5']
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def write_table(path: Path, text: str) -> None:
    """Write a table alone, over one that is there."""
    with atomic_write(path) as (beside,):
        beside.write_text(text, encoding="utf-8", newline="")


def find_table(table: Path, content: Mapping[str, Any], advice: str) -> Path:
    """The table that the content of a file of JSON names; refused, with advice, if it is not there or another one."""
    if TABLE not in content:
        return table
    path = written(table, content[TABLE])
    if path is None:
        there = "another one" if table.exists() else "none"
        raise RunError(f"Expected {table} to be the table that its result names by sha256 (got {there}); {advice}")
    return path


def mend_table(table: Path, content: Mapping[str, Any], text: Callable[[], str]) -> None:
    """Bring back a table that is torn or gone: from a temporary file of a killed writer, or else as `text` makes it."""
    if TABLE not in content:
        return
    path = written(table, content[TABLE])
    if path is None:
        made = text()
        if _digest(made) != content[TABLE]:
            raise RunError(f"Expected {table} to be the table that its result names by sha256 (got another, or none)")
        write_table(table, made)
    elif path != table:
        path.replace(table)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
