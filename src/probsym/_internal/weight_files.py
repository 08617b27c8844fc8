"""Weights in safetensors files, on disk or on the hub. Pickled files are never opened."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from probsym._internal.json_file import read_object
from probsym.errors import CheckpointError, DependencyError

_PICKLED = {".bin", ".pt", ".pth", ".ckpt", ".pkl"}
_WHOLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file, or of the parts that an index of them names."""
    try:
        from safetensors.torch import load_file  # noqa: PLC0415
    except ImportError as error:
        raise DependencyError("Expected the safetensors library (got none); it comes with probsym[hub]") from error
    if path.suffix in _PICKLED:
        raise CheckpointError(f"Expected a safetensors file, since pickled ones can run code (got {path.name})")
    if path.name.endswith(".index.json"):
        return _read_parts(path)
    try:
        return load_file(path)
    except Exception as error:  # whatever the parser of a broken file raises
        raise CheckpointError(f"Expected {path} to be a whole safetensors file (got: {error})") from error


def _read_parts(index: Path) -> dict[str, Tensor]:
    places = _places(index)
    tensors: dict[str, Tensor] = {}
    for part in sorted(set(places.values())):
        tensors |= read_tensors(index.parent / part)
    absent = sorted(set(places) - set(tensors))
    if absent:
        raise CheckpointError(f"Expected the tensors that {index.name} names (got no {', '.join(absent[:3])})")
    return tensors


def _places(index: Path) -> dict[str, str]:
    """By the name of a tensor, the file beside the index that it is in."""
    places = read_object(index, CheckpointError).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise CheckpointError(f"Expected {index.name} to have a weight_map (got {str(places)[:50]})")
    if not all(isinstance(name, str) and _beside(name) for name in places.values()):
        names = sorted({str(name) for name in places.values()})
        raise CheckpointError(f"Expected {index.name} to name files beside it (got {names[:3]})")
    return places


def _beside(name: str) -> bool:
    """Whether it names a file of weights in the same folder, and in no other."""
    return Path(name).name == name and name.endswith(".safetensors")


def locate(source: str | Path, **options: Any) -> tuple[Path, dict[str, Any]]:
    """The file of weights and the configuration beside it, from a file, a folder, or else the hub with `options`."""
    path = check_source(source, "a file, a folder")
    if path.is_file():
        return path, read_object(path.parent / "config.json", CheckpointError)
    if path.is_dir():
        return _in_folder(path), read_object(path / "config.json", CheckpointError)
    config = read_object(download(str(source), "config.json", **options), CheckpointError)
    return _on_hub(str(source), **options), config


def _in_folder(folder: Path) -> Path:
    for name in (_WHOLE, _INDEX):
        if (folder / name).is_file():
            return folder / name
    single = sorted(folder.glob("*.safetensors"))
    if len(single) == 1:
        return single[0]
    there = ", ".join(sorted(entry.name for entry in folder.iterdir())) or "nothing"
    raise CheckpointError(f"Expected {_WHOLE} in {folder}, since pickled files can run code (got {there})")


def _on_hub(repo: str, **options: Any) -> Path:
    """The one file of weights, or else the index of several, all of them downloaded."""
    try:
        return download(repo, _WHOLE, **options)
    except CheckpointError:
        index = None
        with suppress(CheckpointError):
            index = download(repo, _INDEX, **options)
        if index is None:  # the first complaint is the one that tells
            raise
    for part in sorted(set(_places(index).values())):
        download(repo, part, **options)
    return index


def check_source(source: str | Path, what: str) -> Path:
    """The source as a path, refused if it is neither there nor can be on the hub."""
    if not isinstance(source, str | Path):
        raise CheckpointError(f"Expected {what} or a hub id (got {source!r})")
    path, text = Path(source), str(source)
    named_as_file = path.suffix in _PICKLED | {".safetensors"}
    on_hub = len(text) <= 200 and _HUB_ID.fullmatch(text) and not named_as_file
    if not on_hub and not _exists(path):
        raise CheckpointError(f"Expected {what} or a hub id (got {text[:200]!r}, which does not exist)")
    return path


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long, or with a character that no path has
        return False


def download(repo: str, name: str, **options: Any) -> Path:
    """One file of a repository on the hub."""
    try:
        from huggingface_hub import hf_hub_download  # noqa: PLC0415
    except ImportError as error:
        raise DependencyError("Expected the huggingface_hub library (got none); it comes with probsym[hub]") from error
    try:
        return Path(hf_hub_download(repo, name, **options))
    except Exception as error:  # the hub's own errors, and those of the network
        raise CheckpointError(f"Expected to find {name} of {repo!r} on the hub (got: {error})") from error
