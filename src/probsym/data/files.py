"""Where data files are found, fetched and kept: the folder PROBSYM_DATA, then the cache, then the network.

The cache is the folder PROBSYM_CACHE, by default ~/.cache/probsym. Whatever is read is checked against a sha256 that
the library knows, and whatever is written gets its name only when it is whole.
"""

from __future__ import annotations

import hashlib
import os
import urllib.request
import warnings
from collections.abc import Callable, Collection, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsym._internal.atomic_write import atomic_write
from probsym._internal.atomic_write import digest as file_digest
from probsym.errors import DataError

Arrays = dict[str, NDArray[Any]]
_DIGEST = "sha256"


def cache() -> Path:
    """The folder for what is downloaded, converted or generated; it need not exist yet."""
    return _folder("PROBSYM_CACHE", os.environ.get("PROBSYM_CACHE") or "~/.cache/probsym")


def _folder(variable: str, text: str) -> Path:
    """The folder that a variable names, which need not exist, refused if nothing can be looked for in it."""
    try:
        folder = Path(text).expanduser()
        (folder / "file").is_file()
    except (OSError, RuntimeError, ValueError) as error:
        raise DataError(f"Expected {variable} to be a folder that can be read (got {text[:200]!r}: {error})") from error
    return folder


def folders() -> list[Path]:
    """Where files are looked for, in this order."""
    own = os.environ.get("PROBSYM_DATA")
    return [*([_folder("PROBSYM_DATA", own)] if own else []), cache()]


def look(name: str) -> Path | None:
    """The first file of that name, unchecked; None if there is none."""
    return next((folder / name for folder in folders() if (folder / name).is_file()), None)


def find(name: str, sha256: str, advice: str = "") -> Path:
    """The file of that name with that checksum.

    `advice` ends the message when there is no such file. A file with another checksum is refused, not passed over.

    >>> find("nowhere.npz", sha256="00")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    probsym.errors.DataError: Expected nowhere.npz in ... (got no such file); ...
    """
    path = look(name)
    if path is None:
        raise missing(name, advice)
    if (checksum := file_digest(path)) != sha256:
        raise DataError(f"Expected {path} to have sha256 {sha256} (got {checksum}); remove it or replace it")
    return path


def missing(names: str, advice: str = "") -> DataError:
    """The error for a file that is in none of the folders."""
    places = " or ".join(str(folder) for folder in folders())
    unset = "" if os.environ.get("PROBSYM_DATA") else " (PROBSYM_DATA is not set)"
    advice = advice or "put it there, or set PROBSYM_DATA to the folder that holds it"
    return DataError(f"Expected {names} in {places}{unset} (got no such file); {advice}")


def digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """The sha256 of names, types, shapes and numbers: the same on every machine, however the file was packed.

    >>> digest({"a": np.arange(3)}) == digest({"a": np.arange(3, dtype=">i8")}) != digest({"b": np.arange(3)})
    True
    """
    whole = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], dtype=arrays[name].dtype.newbyteorder("<"))
        whole.update(f"{name} {array.dtype.str} {arrays[name].shape};".encode())
        whole.update(array.tobytes())
    return whole.hexdigest()


def save(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an npz archive beside its place and rename it when it is whole."""
    with atomic_write(path) as (beside,), beside.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def load(path: Path) -> Arrays:
    """All arrays of an npz archive; nothing in it is unpickled."""
    try:
        if path.exists() and not path.is_file():  # a pipe would keep us waiting
            raise OSError("something else than a file")
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # whatever the parser of a broken file raises
        raise DataError(f"Expected {path} to be a whole npz archive (got: {error})") from error


def cached(name: str, sha256: str, make: Callable[[], Arrays]) -> Arrays:
    """The arrays with that `digest`: from the cache if they are there and sound, else made anew and kept there."""
    arrays = _in_cache(name)
    if digest(arrays) != sha256:
        arrays = make()
        if digest(arrays) != sha256:
            raise DataError(f"Expected contents with sha256 {sha256} for {name} (got {digest(arrays)})")
        _keep(name, arrays)
    return arrays


def kept(name: str, make: Callable[[], Arrays], needs: Collection[str]) -> Arrays:
    """Arrays from the cache, where they were kept with their own `digest`; made anew if they are not there or broken.

    So they are if any of those is missing that `needs` names.

    For what no digest can be known of beforehand, since it is computed in floating point.
    """
    arrays = _in_cache(name)
    own = arrays.pop(_DIGEST, None)
    if digest(arrays) != str(own) or not set(needs) <= set(arrays):
        arrays = {key: np.ascontiguousarray(array) for key, array in make().items()}
        _keep(name, {**arrays, _DIGEST: np.array(digest(arrays))})
    return arrays


def _in_cache(name: str) -> Arrays:
    """What is kept under that name; nothing if there is none yet, or a broken one: either way it is made anew."""
    try:
        return load(cache() / name)
    except DataError:
        return {}


def _keep(name: str, arrays: Arrays) -> None:
    try:
        save(cache() / name, arrays)
    except OSError as error:
        warnings.warn(f"Expected to keep {cache() / name} for the next time (got: {error})", stacklevel=4)


def fetch(url: str) -> bytes:
    """What is at an address. Nothing is known of it yet: the caller checks what it holds."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            content: bytes = answer.read()
    except (OSError, HTTPException, ValueError) as error:
        raise DataError(f"Expected to download {url} (got: {error})") from error
    return content
