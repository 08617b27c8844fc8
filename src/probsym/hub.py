"""Symmetrized models written down and made again: `config.json` and `model.safetensors`, in a folder or on the hub."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from probsym.errors import CheckpointError, DependencyError
from probsym.groups import GROUPS, Group
from probsym.nets import NETS
from probsym.part import Part
from probsym.samplers import SAMPLERS
from probsym.weights import download, read_json, read_tensors

if TYPE_CHECKING:
    from probsym.symmetrized import Symmetrized

CONFIG, WEIGHTS = "config.json", "model.safetensors"
FORMAT = 1


class Saved:
    """A mixin: a model that can be saved, loaded and shared, by the conventions of the Hugging Face hub."""

    def save_pretrained(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write `config.json` and `model.safetensors` into a folder; parts of one's own are only named."""
        save(cast("Symmetrized", self), folder, overwrite=overwrite)

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        map_location: str | torch.device = "cpu",
        revision: str | None = None,
        cache_dir: str | Path | None = None,
        token: str | bool | None = None,
        force_download: bool = False,
        local_files_only: bool = False,
        **parts: Any,
    ) -> Any:
        """The model in a folder, or in a repository on the hub, in evaluation mode.

        `parts` are arguments of the constructor that take the place of those which were saved, such as `samples=100`,
        or `base=...` for a base of one's own, which must be given.
        """
        options = {"revision": revision, "cache_dir": cache_dir, "token": token}
        options |= {"force_download": force_download, "local_files_only": local_files_only}
        return load(cls, source, map_location=map_location, parts=parts, **options)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        commit_message: str = "Push model using probsym.",
        private: bool | None = None,
        token: str | bool | None = None,
        branch: str | None = None,
        create_pr: bool | None = None,
    ) -> str:
        """Write the model to a repository on the hub; returns the address of the commit."""
        options = {"private": private, "token": token, "branch": branch, "create_pr": create_pr}
        return push(cast("Symmetrized", self), repo_id, commit_message=commit_message, **options)


def describe(model: Symmetrized) -> dict[str, Any]:
    """All that makes such a model again, but for its weights, as JSON can hold it.

    Parts of the library are described by their arguments. Others, such as a base of your own, are only named.
    """
    return {
        "library_name": "probsym",
        "format": FORMAT,
        "signature": str(model.signature),
        "groups": {key: _written(group) for key, group in model.signature.groups.items()},
        "base": _written(model.base),
        "sampler": _written(model.sampler),
        "samples": model.samples,
        "eval_samples": model.eval_samples,
        "chunk": model.chunk,
    }


def build(config: Mapping[str, Any], parts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The arguments of `Symmetrized` from a description; `parts` take the place of what is described."""
    if config.get("library_name") != "probsym" or config.get("format") != FORMAT:
        found = {key: config.get(key) for key in ("library_name", "format")}
        raise CheckpointError(f"Expected the configuration of a probsym model, format {FORMAT} (got {found})")
    known = ("signature", "groups", "base", "sampler", "samples", "eval_samples", "chunk")
    wrong = sorted(set(parts or {}) - set(known)) or [name for name in known if name not in config]
    if wrong:
        raise CheckpointError(f"Expected the parts {', '.join(known)} (got {wrong[0]!r} wrong)")
    chosen = {name: config[name] for name in known} | dict(parts or {})
    return {name: _read(value, name) for name, value in chosen.items()}


def save(model: Symmetrized, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write a model into a folder, whole or not at all."""
    folder = Path(folder)
    there = [name for name in (CONFIG, WEIGHTS) if (folder / name).exists()]
    if there and not overwrite:
        raise CheckpointError(f"Expected a folder without a model, or overwrite=True (got {', '.join(there)} there)")
    text = json.dumps(describe(model), indent=2) + "\n"
    # clones: tensors that share memory are refused by the format
    tensors = {_bare(name): x.detach().cpu().clone().contiguous() for name, x in model.state_dict().items()}
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / WEIGHTS, lambda path: _save_tensors(tensors, path))
    _replace(folder / CONFIG, lambda path: path.write_text(text))


def load(
    cls: type[Any],
    source: str | Path,
    *,
    map_location: str | torch.device = "cpu",
    parts: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """A model of the class, `Symmetrized`, from a folder, or from the hub with `options` for the download."""
    folder = Path(source)
    if folder.is_dir():
        config_path, weights = folder / CONFIG, folder / WEIGHTS
        for path in (config_path, weights):
            if not path.is_file():
                there = ", ".join(sorted(one.name for one in folder.iterdir())) or "nothing"
                raise CheckpointError(f"Expected {path.name} in {folder} (got {there})")
    else:
        config_path, weights = (download(str(source), name, **options) for name in (CONFIG, WEIGHTS))
    model = cls(**build(read_json(config_path), parts))
    _fill(model, read_tensors(weights), str(source))
    return model.to(map_location).eval()


def push(model: Symmetrized, repo_id: str, **options: Any) -> str:
    """Write a model to a repository on the hub, with a card; returns the address of the commit."""
    try:
        from huggingface_hub import HfApi  # noqa: PLC0415
    except ImportError as error:
        raise DependencyError("Expected the huggingface_hub library (got none); it comes with probsym[lab]") from error
    api = HfApi(token=options.pop("token", None))
    repo = api.create_repo(repo_id, private=options.pop("private", None), exist_ok=True).repo_id
    with tempfile.TemporaryDirectory() as folder:
        save(model, folder)
        (Path(folder) / "README.md").write_text(_card(model))
        branch = options.pop("branch", None)
        return str(api.upload_folder(repo_id=repo, folder_path=folder, revision=branch, **options))


def _written(value: Any) -> Any:
    if isinstance(value, nn.Module):
        value = getattr(value, "_orig_mod", value)
    if isinstance(value, Group) and type(value) is GROUPS.get(type(value).__name__):
        return {"group": type(value).__name__, **vars(value)}
    if isinstance(value, Part) and type(value) is _parts().get(type(value).__name__):
        return {"part": type(value).__name__, **{name: _written(one) for name, one in value.arguments.items()}}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_written(one) for one in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _written(one) for key, one in value.items()}
    return {"own": f"{type(value).__module__}.{type(value).__qualname__}"}


def _read(value: Any, name: str) -> Any:
    if isinstance(value, list):
        return tuple(_read(one, name) for one in value)
    if not isinstance(value, dict):
        return value
    if "own" in value:
        raise CheckpointError(
            f"Expected {name}= to be given, since {value['own']} is not of the library and cannot be made from a file "
            "(got none)"
        )
    arguments = {key: _read(one, key) for key, one in value.items() if key not in ("group", "part")}
    for kind, known in (("group", GROUPS), ("part", _parts())):
        if kind in value:
            if value[kind] not in known:
                raise CheckpointError(f"Expected a {kind} of probsym for {name} (got {value[kind]!r})")
            try:
                return known[value[kind]](**arguments)
            except TypeError as error:
                raise CheckpointError(f"Expected the arguments of {value[kind]} for {name} (got: {error})") from error
    return arguments


def _parts() -> dict[str, Any]:
    """Everything that a file may name. Bases come late: they stand on what is described here."""
    from probsym.bases import BASES  # noqa: PLC0415

    return {**NETS, **SAMPLERS, **BASES}


def _bare(name: str) -> str:
    """The name of a tensor without what compilation puts before it."""
    return name.replace("_orig_mod.", "")


@torch.no_grad()
def _fill(model: Symmetrized, tensors: Mapping[str, Tensor], source: str) -> None:
    """Give the model its weights, in the precision they were kept in."""
    own = {_bare(name): x for name, x in model.state_dict(keep_vars=True).items()}
    missing, unknown = sorted(set(own) - set(tensors)), sorted(set(tensors) - set(own))
    if missing or unknown:
        found = f"{len(missing)} missing, {len(unknown)} unknown, such as {(missing + unknown)[0]}"
        raise CheckpointError(f"Expected the weights of the model that {source} describes (got {found})")
    for name, x in own.items():
        if x.shape != tensors[name].shape:
            raise CheckpointError(
                f"Expected {name} of {source} to be {tuple(x.shape)} (got {tuple(tensors[name].shape)})"
            )
        x.data = tensors[name].to(x.device, copy=True)


def _save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        from safetensors.torch import save_file  # noqa: PLC0415
    except ImportError as error:
        raise DependencyError("Expected the safetensors library (got none); it comes with probsym[lab]") from error
    save_file(tensors, path, metadata={"format": "pt"})


def _replace(path: Path, write: Callable[[Path], Any]) -> None:
    """Write beside the place, then move there, so that no half-written file is ever at it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _card(model: Symmetrized) -> str:
    groups = ", ".join(f"`{key}`: {group!r}" for key, group in model.signature.groups.items())
    return (
        "---\nlibrary_name: probsym\ntags:\n- probsym\n- equivariance\n---\n\n"
        f"A {type(model.base).__name__}, symmetrized as `{model.signature}` with {groups}.\n\n"
        '```python\nfrom probsym import Symmetrized\n\nmodel = Symmetrized.from_pretrained("...")\n```\n'
    )
