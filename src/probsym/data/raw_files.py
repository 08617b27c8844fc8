"""Raw files of torch-geometric's datasets: found where it keeps them, fetched by it, and read without running code.

torch-geometric reads its files with `torch.load(weights_only=True)`, and what that refuses it reads once more in a way
that runs whatever the file asks for. So we use its addresses and its folders, and never its readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

import torch

from probsym.data.files import cache, folders, missing
from probsym.errors import DataError, DependencyError


def raw_files(dataset: str, name: str, files: Sequence[str], *, download: bool) -> list[Path]:
    """The files NAME/raw/FILE of a dataset, from PROBSYM_DATA or the cache; or else downloaded into the cache.

    Args:
        dataset: the class in `torch_geometric.datasets`, which is imported only to download.
        name: of the folder.

    >>> raw_files("LRGBDataset", "no-such", ["train.pt"], download=False)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    probsym.errors.DataError: Expected no-such/raw/train.pt in ... (got no such file); torch_geometric.datasets...
    """
    paths = found_in(folders(), name, files)
    if paths is None and download:
        _download(dataset, name)
        paths = found_in([cache()], name, files)
    if paths is None:
        wanted = ", ".join(f"{name}/raw/{file}" for file in files)
        raise missing(wanted, f"torch_geometric.datasets.{dataset}(that folder, {name!r}) downloads them")
    return paths


def found_in(places: Sequence[Path], name: str, files: Sequence[str]) -> list[Path] | None:
    """The files in the first place that has all of them."""
    for place in places:
        paths = [place / name / "raw" / file for file in files]
        if all(path.is_file() for path in paths):
            return paths
    return None


def load_raw(path: Path) -> list[Any]:
    """A list of tensors in lists, tuples or dicts, written by `torch.save`; anything else in the file is refused."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever the parser of a broken or hostile file raises
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise DataError(f"Expected {path} to hold nothing but tensors (got: {reason})") from error
    if not isinstance(content, list | tuple):
        raise DataError(f"Expected a list of graphs in {path} (got {type(content).__name__})")
    return list(content)


def _download(dataset: str, name: str) -> None:
    try:
        from torch_geometric import datasets  # noqa: PLC0415  (the lab extra brings it)
    except ImportError as error:
        raise DependencyError(
            f"Expected the torch-geometric library to download {name} (got none); it comes with probsym[graphs]"
        ) from error

    class Download(getattr(datasets, dataset)):  # type: ignore[misc]
        """Fetches the raw files and leaves it at that."""

        def process(self) -> None:
            pass

        def load(self, *_: Any) -> None:
            pass

    try:
        Download(str(cache()), name)
    except (OSError, HTTPException, ValueError) as error:
        raise DataError(f"Expected to download {name} (got: {error})") from error
