"""Atomic file writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(path: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """A temporary path beside `path` to write to. Its file becomes `path` if all goes well, and is removed if not.

    A kill at any moment leaves the old file or the new one. Of several in one `with`, none is replaced before all are
    written. Without `overwrite` a file that is there already stays, and `FileExistsError` is raised: of several
    processes that write at once, one wins.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        if overwrite:
            beside.replace(path)
        else:
            _claim(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _claim(beside: Path, path: Path) -> None:
    """Give the file its name unless that is taken."""
    try:
        os.link(beside, path)  # a rename would overwrite
    except FileExistsError:
        raise
    except OSError:  # a file system without links: whoever makes the lock may rename
        lock = path.with_name(f".{path.name}.lock")
        lock.open("x").close()
        try:
            if path.exists():
                raise FileExistsError(path) from None
            beside.rename(path)
        finally:
            lock.unlink()
