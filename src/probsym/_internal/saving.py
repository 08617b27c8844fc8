"""Symmetrized models written down and made again: `config.json` and `model.safetensors`, in a folder or on the hub."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from probsym._internal.atomic_write import atomic_write, digest, written
from probsym._internal.descriptions import build, describe, described, known_parts, uncompiled
from probsym._internal.json_file import read_object
from probsym._internal.loaded_weights import bare, check_sizes, fill
from probsym._internal.weight_files import check_source, download, read_tensors
from probsym.errors import CheckpointError, DependencyError

if TYPE_CHECKING:
    from probsym.symmetrized import Symmetrized

CONFIG, WEIGHTS = "config.json", "model.safetensors"
DIGEST = "weights_sha256"
"""The settings name the weights that belong to them; those of older files do not."""


class Saved:
    """A mixin: a model that can be saved, loaded and shared, by the conventions of the Hugging Face hub."""

    def save_pretrained(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write `config.json` and `model.safetensors` into a folder; parts of one's own are only named.

        No file is ever half written, and none is replaced before all are ready. Whether a parameter is frozen is not
        kept: `requires_grad` of a loaded model is as its constructors set it.
        """
        model, folder = cast("Symmetrized", self), Path(folder)
        if folder.exists() and not folder.is_dir():
            raise CheckpointError(f"Expected a folder (got the file {folder})")
        there = [name for name in (CONFIG, WEIGHTS) if (folder / name).exists()]
        if there and not overwrite:
            raise CheckpointError(
                f"Expected a folder without a model, or overwrite=True (got {', '.join(there)} there)"
            )
        settings = describe(model)
        tensors = {bare(name): _own_copy(x, name) for name, x in model.state_dict().items()}
        try:
            with atomic_write(folder / CONFIG, folder / WEIGHTS, overwrite=overwrite) as (config, weights):
                _save_tensors(tensors, weights)
                config.write_text(json.dumps({**settings, DIGEST: digest(weights)}, indent=2) + "\n")
        except FileExistsError as error:  # since a moment ago
            raise CheckpointError(f"Expected a folder without a model, or overwrite=True (got {error})") from error

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
        folder = check_source(source, "a folder")
        if folder.is_file():
            raise CheckpointError(f"Expected a folder or a hub id (got the file {folder})")
        if folder.is_dir():
            config = read_object(_in_folder(folder, CONFIG), CheckpointError)
            weights = _weights_in(folder, config)
        else:
            options = {"revision": revision, "cache_dir": cache_dir, "token": token}
            options |= {"force_download": force_download, "local_files_only": local_files_only}
            config_path, weights = (download(str(source), name, **options) for name in (CONFIG, WEIGHTS))
            config = read_object(config_path, CheckpointError)
        tensors = read_tensors(weights)
        _check_digest(weights, config.get(DIGEST))

        def described_parts() -> dict[str, Any]:
            """What is made from the description alone; parts that the caller gives are left as they are."""
            return {name: part for name, part in build(config, parts).items() if name not in parts}

        check_sizes(described_parts, tensors, str(source))
        model: Any = cls(**build(config, parts))
        known = [
            name for name in ("base", "sampler") if type(uncompiled(getattr(model, name))) in known_parts().values()
        ]
        fill(model, tensors, str(source), uniform=known)
        return model.to(map_location).eval()

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
        """Write the model to a repository on the hub, with a card; returns the address of the commit."""
        try:
            from huggingface_hub import HfApi  # noqa: PLC0415
        except ImportError as error:
            raise DependencyError(
                "Expected the huggingface_hub library (got none); it comes with probsym[hub]"
            ) from error
        options: dict[str, Any] = {"commit_message": commit_message, "create_pr": create_pr}
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            try:
                api = HfApi(token=token)
                repo = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
                (Path(folder) / "README.md").write_text(_card(cast("Symmetrized", self), repo))
                return str(api.upload_folder(repo_id=repo, folder_path=folder, revision=branch, **options))
            except Exception as error:  # the hub's own errors, and those of the network
                raise CheckpointError(f"Expected to write to {repo_id!r} on the hub (got: {error})") from error


def describe_module(module: nn.Module) -> dict[str, Any]:
    """What is known of any module: all of a symmetrized model, of others the parts of the library in them."""
    from probsym.symmetrized import Symmetrized  # noqa: PLC0415, which stands on what is described here

    return describe(module) if isinstance(module, Symmetrized) else cast("dict[str, Any]", described(module))


def _weights_in(folder: Path, config: Mapping[str, Any]) -> Path:
    """The file of weights that the settings name; it may still have the temporary name of a writer that was killed."""
    wanted = config.get(DIGEST)
    weights = written(folder / WEIGHTS, wanted) if isinstance(wanted, str) else None
    return weights or _in_folder(folder, WEIGHTS)


def _check_digest(weights: Path, wanted: Any) -> None:
    if wanted is not None and digest(weights) != wanted:
        raise CheckpointError(
            f"Expected the weights that {CONFIG} names, with sha256 {wanted} (got other ones in {weights}); "
            f"without {DIGEST} in {CONFIG} any are taken"
        )


def _in_folder(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        there = ", ".join(sorted(entry.name for entry in folder.iterdir())) or "nothing"
        raise CheckpointError(f"Expected {name} in {folder} (got {there})")
    return folder / name


def _own_copy(x: object, name: str) -> Tensor:
    """A tensor that shares no memory with others: those that do are refused by the format."""
    if not isinstance(x, Tensor):
        raise CheckpointError(f"Expected the state of a model to be tensors (got a {type(x).__name__} for {name!r})")
    if is_lazy(x):
        raise CheckpointError(f"Expected a model that was called before it is saved (got no shape for {name!r} yet)")
    return x.detach().cpu().clone().contiguous()


def _save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        from safetensors import SafetensorError  # noqa: PLC0415
        from safetensors.torch import save_file  # noqa: PLC0415
    except ImportError as error:
        raise DependencyError("Expected the safetensors library (got none); it comes with probsym[hub]") from error
    try:
        save_file(tensors, path, metadata={"format": "pt"})
    except SafetensorError as error:  # what the system said is in its words
        raise OSError(str(error)) from error


def _card(model: Symmetrized, repo: str) -> str:
    groups = ", ".join(f"`{key}`: {group!r}" for key, group in model.signature.groups.items())
    base = type(uncompiled(model.base)).__name__
    return (
        "---\nlibrary_name: probsym\ntags:\n- probsym\n- equivariance\n---\n\n"
        f"A {base}, symmetrized as `{model.signature}` with {groups}.\n\n"
        f'```python\nfrom probsym import Symmetrized\n\nmodel = Symmetrized.from_pretrained("{repo}")\n```\n'
    )
