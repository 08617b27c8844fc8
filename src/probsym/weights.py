"""Weights in safetensors files, on disk or on the hub. Pickled files are never opened."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from torch import Tensor

from probsym.errors import CheckpointError, DependencyError

_PICKLED = {".bin", ".pt", ".pth", ".ckpt", ".pkl"}


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file, or of the parts that an index of them names."""
    try:
        from safetensors.torch import load_file  # noqa: PLC0415
    except ImportError as error:
        raise DependencyError("Expected the safetensors library (got none); it comes with probsym[lab]") from error
    if path.suffix in _PICKLED:
        raise CheckpointError(f"Expected a safetensors file, since pickled ones can run code (got {path.name})")
    try:
        if path.name.endswith(".index.json"):
            parts = sorted(set(read_json(path).get("weight_map", {}).values()))
            if any(Path(part).name != part for part in parts):
                raise CheckpointError(f"Expected {path.name} to name files beside it (got {parts})")
            return {name: x for part in parts for name, x in read_tensors(path.parent / part).items()}
        return load_file(path)
    except CheckpointError:
        raise
    except Exception as error:  # whatever the parser of a broken file raises
        raise CheckpointError(f"Expected {path} to be a whole safetensors file (got: {error})") from error


def locate(
    source: str | Path,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    token: str | None = None,
    local_files_only: bool = False,
) -> tuple[Path, dict[str, Any]]:
    """The file of weights and the configuration beside it, from a file, a folder, or else the hub."""
    path = Path(source)
    if path.is_file():
        return path, read_json(path.parent / "config.json")
    if path.is_dir():
        for name in ("model.safetensors", "model.safetensors.index.json"):
            if (path / name).is_file():
                return path / name, read_json(path / "config.json")
        single = sorted(path.glob("*.safetensors"))
        if len(single) == 1:
            return single[0], read_json(path / "config.json")
        there = ", ".join(sorted(one.name for one in path.iterdir())) or "nothing"
        raise CheckpointError(f"Expected model.safetensors in {path}, since pickled files can run code (got {there})")
    if path.suffix in _PICKLED | {".safetensors"} or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", str(source)):
        raise CheckpointError(f"Expected a file, a folder or a hub id (got {str(source)!r}, which does not exist)")
    options = {
        "revision": revision,
        "cache_dir": cache_dir,
        "token": token,
        "local_files_only": local_files_only,
    }
    return download(str(source), "model.safetensors", **options), read_json(
        download(str(source), "config.json", **options)
    )


def download(repo: str, name: str, **options: Any) -> Path:
    """One file of a repository on the hub."""
    try:
        from huggingface_hub import hf_hub_download  # noqa: PLC0415
    except ImportError as error:
        raise DependencyError("Expected the huggingface_hub library (got none); it comes with probsym[lab]") from error
    try:
        return Path(hf_hub_download(repo, name, **options))
    except Exception as error:  # the hub's own errors, and those of the network
        raise CheckpointError(f"Expected to find {name} of {repo!r} on the hub (got: {error})") from error


def read_json(path: Path) -> dict[str, Any]:
    """An object from a JSON file; an empty one if there is no such file."""
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise CheckpointError(f"Expected {path} to be JSON (got: {error})") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"Expected {path} to hold an object (got {type(found).__name__})")
    return found
