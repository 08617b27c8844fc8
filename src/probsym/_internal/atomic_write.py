"""Atomic file writes."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from probsym.errors import ProbsymError, WriteError


@contextmanager
def atomic_write(*paths: Path, overwrite: bool = True) -> Iterator[tuple[Path, ...]]:
    """Temporary paths beside `paths` to write to. Their files get their names if all goes well, and go if not.

    A kill at any moment leaves the old file or the new one. Of several, all are on the disk before the first gets its
    name; a kill between two names leaves the later files whole under their temporary ones, where `written` finds them
    if the first file tells their digest. Without `overwrite` a first file that is there already stays, and
    `FileExistsError` is raised: of several processes that write at once, one wins, and nothing of the others remains.
    Whatever else the system refuses, such as more bytes on a full disk, is a `WriteError`.
    """
    own = f"{os.getpid()}-{threading.get_native_id()}"
    beside = tuple(path.with_name(f".{path.name}.{own}.partial") for path in paths)
    named = 0
    try:
        for path in paths:
            _make_folder(path.parent)
        yield beside
        for partial in beside:
            _sync(partial)
        for partial, path in zip(beside, paths, strict=True):
            if overwrite or named:
                partial.replace(path)
            else:
                _claim(partial, path)
            named += 1
    except (FileExistsError, ProbsymError):
        raise
    except OSError as error:
        raise WriteError(f"Expected to write {', '.join(map(str, paths))} (got: {error})") from error
    finally:
        for partial in beside[:named] if named else beside:  # those that still belong to a named one stay
            with suppress(OSError):  # the folder may be none
                partial.unlink()


def written(path: Path, sha256: str) -> Path | None:
    """The file with that digest: under its own name, or whole under the temporary one of a writer that was killed."""
    return next((file for file in (path, *partials(path)) if file.is_file() and digest(file) == sha256), None)


def partials(path: Path) -> list[Path]:
    """The temporary files of writers of `path` that are at work, or were killed."""
    entries = path.parent.iterdir() if path.parent.is_dir() else ()
    return sorted(
        entry
        for entry in entries
        if entry.name.startswith(f".{path.name}.") and entry.name.endswith(".partial") and entry.is_file()
    )


def digest(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(f"{folder} is a file") from error


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


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
