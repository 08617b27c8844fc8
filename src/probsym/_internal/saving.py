"""Symmetrized models written down and made again: `config.json` and `model.safetensors`, in a folder or on the hub."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from probsym._internal.atomic_write import atomic_write, digest, written
from probsym._internal.json_file import read_object
from probsym._internal.loaded_weights import bare, check_sizes, fill
from probsym._internal.remembers_arguments import RemembersArguments
from probsym._internal.weight_files import check_source, download, read_tensors
from probsym.errors import CheckpointError, DependencyError, ProbsymError
from probsym.groups import GROUPS, Group
from probsym.nets import NETS
from probsym.samplers import SAMPLERS

if TYPE_CHECKING:
    from probsym.symmetrized import Symmetrized

CONFIG, WEIGHTS = "config.json", "model.safetensors"
DIGEST = "weights_sha256"
"""The settings name the weights that belong to them; those of older files do not."""
FORMAT = 1


class Saved:
    """A mixin: a model that can be saved, loaded and shared, by the conventions of the Hugging Face hub."""

    def save_pretrained(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write `config.json` and `model.safetensors` into a folder; parts of one's own are only named.

        Whether a parameter is frozen is not kept: `requires_grad` of a loaded model is as its constructors set it.
        """
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
        return push(
            cast("Symmetrized", self),
            repo_id,
            token=token,
            private=private,
            branch=branch,
            commit_message=commit_message,
            create_pr=create_pr,
        )


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
        "eval_coupling": model.eval_coupling,
        "residual": model.residual,
        "output_keys": _written(model.output_keys),
        "mask_argument": model.mask_argument,
    }


def describe_module(module: nn.Module) -> dict[str, Any]:
    """What is known of any module: all of a symmetrized model, of others the parts of the library in them."""
    from probsym.symmetrized import Symmetrized  # noqa: PLC0415, which stands on what is described here

    found = describe(module) if isinstance(module, Symmetrized) else _written(module)
    return cast("dict[str, Any]", found)


def build(config: Mapping[str, Any], parts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The arguments of `Symmetrized` from a description; `parts` take the place of what is described."""
    if config.get("library_name") != "probsym" or config.get("format") != FORMAT:
        found = {key: config.get(key) for key in ("library_name", "format")}
        raise CheckpointError(f"Expected the configuration of a probsym model, format {FORMAT} (got {found})")
    later = {"eval_coupling": None, "residual": None, "output_keys": None, "mask_argument": "mask"}
    known = ("signature", "groups", "base", "sampler", "samples", "eval_samples", "chunk", *later)
    config = {**later, **config}
    wrong = sorted(set(parts or {}) - set(known)) or [name for name in known if name not in config]
    if wrong:
        raise CheckpointError(f"Expected the parts {', '.join(known)} (got {wrong[0]!r} wrong)")
    chosen = {name: config[name] for name in known} | dict(parts or {})
    try:
        return {name: _read(value, name, name) for name, value in chosen.items()}
    except RecursionError as error:
        raise CheckpointError("Expected a configuration of a few levels (got one without end)") from error


def save(model: Symmetrized, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write a model into a folder; no file is ever half written, and none is replaced before all are ready."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"Expected a folder (got the file {folder})")
    there = [name for name in (CONFIG, WEIGHTS) if (folder / name).exists()]
    if there and not overwrite:
        raise CheckpointError(f"Expected a folder without a model, or overwrite=True (got {', '.join(there)} there)")
    described = describe(model)
    # clones: tensors that share memory are refused by the format
    tensors = {bare(name): x.detach().cpu().clone().contiguous() for name, x in model.state_dict().items()}
    try:
        with atomic_write(folder / CONFIG, folder / WEIGHTS, overwrite=overwrite) as (config, weights):
            _save_tensors(tensors, weights)
            config.write_text(json.dumps({**described, DIGEST: digest(weights)}, indent=2) + "\n")
    except FileExistsError as error:  # since a moment ago
        raise CheckpointError(f"Expected a folder without a model, or overwrite=True (got {error})") from error


def load(
    cls: type[Any],
    source: str | Path,
    *,
    map_location: str | torch.device = "cpu",
    parts: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """A model of the class, `Symmetrized`, from a folder, or from the hub with `options` for the download."""
    folder = check_source(source, "a folder")
    if folder.is_file():
        raise CheckpointError(f"Expected a folder or a hub id (got the file {folder})")
    if folder.is_dir():
        config = read_object(_in_folder(folder, CONFIG), CheckpointError)
        weights = _weights_in(folder, config)
    else:
        config_path, weights = (download(str(source), name, **options) for name in (CONFIG, WEIGHTS))
        config = read_object(config_path, CheckpointError)
    tensors = read_tensors(weights)
    _check_digest(weights, config.get(DIGEST))
    check_sizes(lambda: _described(config, parts or {}), tensors, str(source))
    model = cls(**build(config, parts))
    known = [name for name in ("base", "sampler") if type(_uncompiled(getattr(model, name))) in _parts().values()]
    fill(model, tensors, str(source), uniform=tuple(known))
    return model.to(map_location).eval()


def _described(config: Mapping[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """What is made from the description alone; parts that the caller gives are left as they are."""
    return {name: one for name, one in build(config, parts).items() if name not in parts}


def _weights_in(folder: Path, config: Mapping[str, Any]) -> Path:
    """The file of weights that the settings name; it may still have the temporary name of a writer that was killed."""
    wanted = config.get(DIGEST)
    found = written(folder / WEIGHTS, wanted) if isinstance(wanted, str) else None
    return found or _in_folder(folder, WEIGHTS)


def _check_digest(weights: Path, wanted: Any) -> None:
    if wanted is not None and digest(weights) != wanted:
        raise CheckpointError(
            f"Expected the weights that {CONFIG} names, with sha256 {wanted} (got other ones in {weights}); "
            f"without {DIGEST} in {CONFIG} any are taken"
        )


def push(
    model: Symmetrized,
    repo_id: str,
    *,
    token: str | bool | None = None,
    private: bool | None = None,
    branch: str | None = None,
    **options: Any,
) -> str:
    """Write a model to a repository on the hub, with a card; returns the address of the commit."""
    try:
        from huggingface_hub import HfApi  # noqa: PLC0415
    except ImportError as error:
        raise DependencyError("Expected the huggingface_hub library (got none); it comes with probsym[hub]") from error
    with tempfile.TemporaryDirectory() as folder:
        save(model, folder)
        try:
            api = HfApi(token=token)
            repo = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
            (Path(folder) / "README.md").write_text(_card(model, repo))
            return str(api.upload_folder(repo_id=repo, folder_path=folder, revision=branch, **options))
        except Exception as error:  # the hub's own errors, and those of the network
            raise CheckpointError(f"Expected to write to {repo_id!r} on the hub (got: {error})") from error


def _in_folder(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        there = ", ".join(sorted(one.name for one in folder.iterdir())) or "nothing"
        raise CheckpointError(f"Expected {name} in {folder} (got {there})")
    return folder / name


def _written(value: Any) -> Any:
    """A value as JSON can hold it; `_read` takes it back."""
    value = _uncompiled(value)
    kind = type(value)
    if isinstance(value, Group) and kind is GROUPS.get(kind.__name__):
        return {"group": kind.__name__, **vars(value)}
    if isinstance(value, RemembersArguments) and kind is _parts().get(kind.__name__):
        return {"part": kind.__name__, **_written(value.arguments)}
    if value is None or isinstance(value, bool | str | Real | Tensor):
        return _plain(value)
    if isinstance(value, Sequence):
        return [_written(one) for one in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _written(one) for key, one in value.items()}
    return _own(value)


def _plain(value: Any) -> Any:
    """Text or one number, of numpy or torch too."""
    if isinstance(value, Tensor):
        return value.item() if value.dim() == 0 else _own(value)
    if isinstance(value, Real) and not isinstance(value, bool):
        return int(value) if isinstance(value, Integral) else float(value)
    return value


def _own(value: Any) -> dict[str, Any]:
    """What is not of the library, by name, with the parts of the library inside it."""
    named = {"own": f"{type(value).__module__}.{type(value).__qualname__}"}
    inside = {name: _written(one) for name, one in value.named_children()} if isinstance(value, nn.Module) else {}
    parts = {name: one for name, one in inside.items() if "part" in one or "parts" in one}
    return {**named, "parts": parts} if parts else named


def _read(value: Any, name: str, argument: str) -> Any:
    """What was written under a name, for an argument of `Symmetrized`."""
    if isinstance(value, list):
        return tuple(_read(one, name, argument) for one in value)
    if not isinstance(value, dict):
        return value
    if "own" in value:
        raise CheckpointError(
            f"Expected {argument}= to be given, since {value['own']} is not of the library and cannot be made from a "
            "file (got none)"
        )
    entries = {key: _read(one, key, argument) for key, one in value.items()}
    for word, known in (("part", _parts()), ("group", GROUPS)):  # a part may have an argument called group
        if word in entries:
            kind = entries.pop(word)
            if not isinstance(kind, str) or kind not in known:
                raise CheckpointError(f"Expected a {word} of probsym for {name} (got {kind!r})")
            return _made(known[kind], entries, name)
    return entries


def _made(kind: type[Any], arguments: Mapping[str, Any], name: str) -> Any:
    try:
        return kind(**arguments)
    except ProbsymError:
        raise
    except Exception as error:  # a file can hold any arguments, and constructors fail on them in any way
        raise CheckpointError(f"Expected the arguments of {kind.__name__} for {name} (got: {error})") from error


def _uncompiled(value: Any) -> Any:
    """The module that `torch.compile` wrapped, or the value itself."""
    return getattr(value, "_orig_mod", value) if isinstance(value, nn.Module) else value


def _parts() -> dict[str, Any]:
    """Everything that a file may name. Bases come late: they stand on what is described here."""
    from probsym.bases import BASES  # noqa: PLC0415

    return {**NETS, **SAMPLERS, **BASES}


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
    base = type(_uncompiled(model.base)).__name__
    return (
        "---\nlibrary_name: probsym\ntags:\n- probsym\n- equivariance\n---\n\n"
        f"A {base}, symmetrized as `{model.signature}` with {groups}.\n\n"
        f'```python\nfrom probsym import Symmetrized\n\nmodel = Symmetrized.from_pretrained("{repo}")\n```\n'
    )
