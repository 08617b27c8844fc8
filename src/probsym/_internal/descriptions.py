"""Models as JSON can hold them: parts of the library by name and arguments, all others only by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from probsym._internal.remembers_arguments import RemembersArguments
from probsym.errors import CheckpointError, ProbsymError
from probsym.groups import GROUPS, Group
from probsym.nets import NETS
from probsym.samplers import SAMPLERS

if TYPE_CHECKING:
    from probsym.symmetrized import Symmetrized

FORMAT = 1


def describe(model: Symmetrized) -> dict[str, Any]:
    """All that makes such a model again, but for its weights, as JSON can hold it.

    Parts of the library are described by their arguments. Others, such as a base of your own, are only named.
    """
    return {
        "library_name": "probsym",
        "format": FORMAT,
        "signature": str(model.signature),
        "groups": described(model.signature.groups),
        "base": described(model.base),
        "sampler": described(model.sampler),
        "samples": model.samples,
        "eval_samples": model.eval_samples,
        "chunk": model.chunk,
        "eval_coupling": model.eval_coupling,
        "residual": model.residual,
        "output_keys": described(model.output_keys),
        "mask_argument": model.mask_argument,
    }


def build(config: Mapping[str, Any], parts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The arguments of `Symmetrized` from a description; `parts` take the place of what is described."""
    if config.get("library_name") != "probsym" or config.get("format") != FORMAT:
        header = {key: config.get(key) for key in ("library_name", "format")}
        raise CheckpointError(f"Expected the configuration of a probsym model, format {FORMAT} (got {header})")
    later = {"eval_coupling": None, "residual": None, "output_keys": None, "mask_argument": None}
    known = ("signature", "groups", "base", "sampler", "samples", "eval_samples", "chunk", *later)
    config = {**later, **config}
    if unknown := sorted(set(parts or {}) - set(known)):
        raise CheckpointError(f"Expected arguments among {', '.join(known)} (got {unknown[0]!r})")
    if missing := [name for name in known if name not in config]:
        raise CheckpointError(f"Expected a configuration with {', '.join(known)} (got none for {missing[0]!r})")
    chosen = {name: config[name] for name in known} | dict(parts or {})
    try:
        return {name: _read(value, name, name) for name, value in chosen.items()}
    except RecursionError as error:
        raise CheckpointError("Expected a configuration of a few levels (got one without end)") from error


def described(value: Any) -> Any:
    """A value as JSON can hold it; `_read` takes it back."""
    value = uncompiled(value)
    kind = type(value)
    if isinstance(value, Group) and kind is GROUPS.get(kind.__name__):
        return {"group": kind.__name__, **vars(value)}
    if isinstance(value, RemembersArguments) and kind is known_parts().get(kind.__name__):
        return {"part": kind.__name__, **described(value.arguments)}
    if value is None or isinstance(value, bool | str | Real | Tensor):
        return _plain(value)
    if isinstance(value, Sequence):
        return [described(entry) for entry in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: described(entry) for key, entry in value.items()}
    return _own(value)


def completed(description: Any) -> Any:
    """A description in which parts also have the arguments that they got after it was written, at their defaults."""
    if isinstance(description, list):
        return [completed(entry) for entry in description]
    if not isinstance(description, dict):
        return description
    kind = known_parts().get(str(description.get("part")))
    parameters = signature(kind).parameters.values() if kind is not None else ()
    later = {item.name: described(item.default) for item in parameters if item.default is not item.empty}
    return {**later, **{key: completed(value) for key, value in description.items()}}


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
    inside = {name: described(child) for name, child in value.named_children()} if isinstance(value, nn.Module) else {}
    parts = {
        name: description for name, description in inside.items() if "part" in description or "parts" in description
    }
    return {**named, "parts": parts} if parts else named


def _read(value: Any, name: str, argument: str) -> Any:
    """What was written under a name, for an argument of `Symmetrized`."""
    if isinstance(value, list):
        return tuple(_read(entry, name, argument) for entry in value)
    if not isinstance(value, dict):
        return value
    if "own" in value:
        raise CheckpointError(
            f"Expected {argument}= to be given, since {value['own']} is not of the library and cannot be made from a "
            "file (got none)"
        )
    entries = {key: _read(entry, key, argument) for key, entry in value.items()}
    for word, known in (("part", known_parts()), ("group", GROUPS)):  # a part may have an argument called group
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


def uncompiled(value: Any) -> Any:
    """The module that `torch.compile` wrapped, or the value itself."""
    return getattr(value, "_orig_mod", value) if isinstance(value, nn.Module) else value


def known_parts() -> dict[str, Any]:
    """Everything that a file may name. Bases come late: they stand on what is described here."""
    from probsym.bases import BASES  # noqa: PLC0415

    return {**NETS, **SAMPLERS, **BASES}
