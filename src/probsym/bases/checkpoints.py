"""Weights of pretrained encoders, read from safetensors in the layouts that they are published in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from probsym._internal.weight_files import locate, read_tensors
from probsym.bases.encoders import SHAPES, EncoderSettings
from probsym.bases.layouts import LAYOUTS, OURS, Layout
from probsym.errors import CheckpointError, RangeError

_PREFIXES = ("module.", "model.", "vit.", "bert.", "roberta.")
_LINEAR = ("weight", "bias")


@dataclass(frozen=True)
class Pretrained:
    """An encoder from a file: its shape, its layers under the names of `Encoder`, and what stands beside them.

    `cls` is (width,), `positions` (count, width), the first for the global token if `global_position`.
    """

    source: str
    layout: str
    settings: EncoderSettings
    layers: Mapping[str, Tensor]
    cls: Tensor | None
    positions: Tensor | None
    global_position: bool
    left_over: tuple[str, ...]


def read_pretrained(
    source: str | Path, *, heads: int | None = None, layer_norm_eps: float | None = None, **options: Any
) -> Pretrained:
    """An encoder from a file, a folder or, with `options`, the hub; see `PatchTransformer.from_pretrained`."""
    weights, config = locate(source, **options)
    where, given = str(source), read_tensors(weights)
    names = _plain_names(given, where)
    layout, tensors, left_over = _sorted_out({plain: given[name] for plain, name in names.items()}, where)
    if "model_type" not in config and any("roberta." in name for name in given):
        raise CheckpointError(
            f"Expected a config.json in {where}, since a RoBERTa's says where positions begin (got none)"
        )
    settings = _settings(layout, tensors, config, heads, layer_norm_eps, where)
    layers, cls = _layers(settings, tensors, where), _cls(tensors, settings.width, where)
    positions, global_position = _positions(tensors, settings, config, where)
    if positions is None and "positions" in tensors:
        left_over += [name for name, ours in layout.globals.items() if ours == "positions"]
    _check_finite({**layers, "cls": cls, "positions": positions}, where)
    unused = tuple(sorted(names[plain] for plain in left_over))
    return Pretrained(where, layout.name, settings, layers, cls, positions, global_position, unused)


def _plain_names(given: Mapping[str, Tensor], source: str) -> dict[str, str]:
    """The names in the file by their plain form."""
    names: dict[str, str] = {}
    for name in given:
        if (other := names.setdefault(_plain(name), name)) != name:
            raise CheckpointError(f"Expected each tensor of {source} once (got both {other} and {name})")
    return names


def _plain(name: str) -> str:
    """Without the name of the model around it, and with the norms' old names made new."""
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return re.sub(r"(LayerNorm)\.(gamma|beta)$", lambda m: f"{m[1]}.{'weight' if m[2] == 'gamma' else 'bias'}", name)


def _sorted_out(tensors: Mapping[str, Tensor], source: str) -> tuple[Layout, dict[str, Tensor], list[str]]:
    """The layout, the tensors under our names ("3.q.weight", "norm.bias", "cls"), and the names that have no use."""
    for layout in LAYOUTS:
        names = {f"{theirs}.{kind}": f"{ours}.{kind}" for theirs, ours in layout.layers.items() for kind in _LINEAR}
        fixed = {f"{theirs}.{kind}": f"{ours}.{kind}" for theirs, ours in layout.globals.items() for kind in _LINEAR}
        fixed |= layout.globals
        inside = {name: at for name in tensors if (at := re.match(layout.layer, name))}
        if not any(names.get(name[at.end() :], "").startswith("q") for name, at in inside.items()):
            continue
        strange = sorted(name for name, at in inside.items() if name[at.end() :] not in names)
        if strange:
            raise CheckpointError(
                f"Expected layers of {source} to be those of a {layout.name} (got {strange[0]}, {len(strange)} such)"
            )
        _check_numbers([at[1] for at in inside.values()], source)
        renamed = {f"{int(at[1])}.{names[name[at.end() :]]}": tensors[name] for name, at in inside.items()}
        renamed |= {ours: tensors[name] for name, ours in fixed.items() if name in tensors}
        left_over = [name for name in tensors if name not in inside and name not in fixed]
        _check_left_over(left_over, source)
        return layout, renamed, left_over
    known = ", ".join(layout.name for layout in LAYOUTS)
    some = ", ".join(sorted(tensors)[:3]) or "no tensors"
    raise CheckpointError(f"Expected {source} to be laid out as one of: {known} (got {some}, ...)")


def _check_numbers(numbers: Sequence[str], source: str) -> None:
    """Refuse numbers of layers that two spellings would make one, or that are too long to be read as numbers."""
    wrong = [number for number in numbers if not re.fullmatch(r"0|[1-9]\d{0,8}", number)]
    if wrong:
        raise CheckpointError(f"Expected layers of {source} to be counted 0, 1, 2, ... (got {wrong[0][:20]})")


def _check_left_over(names: Sequence[str], source: str) -> None:
    """Refuse what cannot be left out without computing something else."""
    before = sorted(name for name in names if name.startswith("norm_pre"))
    if before:
        raise CheckpointError(f"Expected no norm before the first layer of {source}, as CLIP has one (got {before[0]})")


def _settings(
    layout: Layout,
    tensors: Mapping[str, Tensor],
    config: Mapping[str, Any],
    heads: int | None,
    eps: float | None,
    source: str,
) -> EncoderSettings:
    """The shape that the tensors have; what they do not show comes from the configuration, or from the caller."""
    shown = _shown(layout, tensors, source)
    if heads is not None:
        shown["heads"] = heads
    try:
        told = EncoderSettings.from_config(config).described() if "model_type" in config else {}
        for name, value in shown.items():
            if name in told and told[name] != value:
                raise CheckpointError(f"Expected {name} {told[name]} in {source} as its config.json says (got {value})")
        fields = {"eps": layout.eps, "heads": _known_heads(shown), **told, **shown}
        if fields["heads"] is None:
            raise CheckpointError(f"Expected heads=, which the weights of {source} do not show (got none)")
        return EncoderSettings(**(fields if eps is None else {**fields, "eps": eps}))
    except RangeError as error:
        raise CheckpointError(f"{error}, in {source}") from error


def _shown(layout: Layout, tensors: Mapping[str, Tensor], source: str) -> dict[str, Any]:
    """What the tensors show of the shape of their encoder."""
    for name in ("0.norm_1.weight", "0.up.weight"):
        if name not in tensors or tensors[name].dim() == 0:
            raise CheckpointError(f"Expected a first layer with norms and an MLP in {source} (got no {name})")
    return {
        "family": layout.family,
        "width": tensors["0.norm_1.weight"].shape[0],
        "layers": 1 + max(int(name.split(".")[0]) for name in tensors if name[0].isdigit()),
        "feed_forward": tensors["0.up.weight"].shape[0],
        "qkv_bias": "0.q.bias" in tensors or "0.qkv.bias" in tensors,
    }


def _known_heads(shown: Mapping[str, Any]) -> int | None:
    """The heads of the ViT of that shape, DeiT among them; None where no known one has it."""
    fields = ("family", "width", "layers", "feed_forward")
    return next(
        (
            settings.heads
            for settings in SHAPES.values()
            if all(getattr(settings, name) == shown[name] for name in fields)
        ),
        None,
    )


def _layers(settings: EncoderSettings, tensors: Mapping[str, Tensor], source: str) -> dict[str, Tensor]:
    """The tensors of `Encoder`, each of the shape it must have."""
    width, inner = settings.width, settings.feed_forward
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("q", "k", "v", "out"), (width, width))
    shapes |= {"up": (inner, width), "down": (width, inner), "norm_1": (width,), "norm_2": (width,)}
    layers = {}
    for i in range(settings.layers):
        here = {name.split(".", 1)[1]: x for name, x in tensors.items() if name.startswith(f"{i}.")}
        here = _apart(here, width, f"layer {i} of {source}")
        for name, shape in shapes.items():
            for kind in _LINEAR:
                if kind == "bias" and name in "qkv" and not settings.qkv_bias:
                    continue
                wanted = shape if kind == "weight" else shape[:1]
                layers[f"layers.{i}.{OURS[settings.family][name]}.{kind}"] = _fitting(
                    here.pop(f"{name}.{kind}", None), wanted, f"{name}.{kind} of layer {i} in {source}"
                )
        if here:
            raise CheckpointError(f"Expected no {sorted(here)[0]} in layer {i} of {source} (got one)")
    for name in ("norm", "embedding_norm"):
        for kind in _LINEAR:
            if f"{name}.{kind}" in tensors:
                layers[f"{name}.{kind}"] = _fitting(tensors[f"{name}.{kind}"], (width,), f"{name}.{kind} in {source}")
    return layers


def _apart(here: Mapping[str, Tensor], width: int, where: str) -> dict[str, Tensor]:
    """The tensors of one layer, q, k and v apart where one tensor holds all three."""
    apart = dict(here)
    for kind in _LINEAR:
        fused = apart.pop(f"qkv.{kind}", None)
        if fused is None:
            continue
        rows = fused.shape[0] if fused.dim() else 0
        if rows != 3 * width:
            raise CheckpointError(f"Expected {where} to have {3 * width} rows in qkv (got {rows})")
        if any(f"{part}.{kind}" in here for part in "qkv"):
            raise CheckpointError(f"Expected {where} to have q, k and v in one tensor, or apart (got both)")
        apart |= {f"{part}.{kind}": x for part, x in zip("qkv", fused.chunk(3), strict=True)}
    return apart


def _fitting(x: Tensor | None, shape: tuple[int, ...], what: str) -> Tensor:
    if x is None:
        raise CheckpointError(f"Expected {what} (got none)")
    if tuple(x.shape) != shape or not x.is_floating_point():
        raise CheckpointError(f"Expected {what} to be floating {shape} (got {tuple(x.shape)}, {x.dtype})")
    return x


def _cls(tensors: Mapping[str, Tensor], width: int, source: str) -> Tensor | None:
    """The global token, (width,)."""
    cls = tensors.get("cls")
    if cls is None:
        return None
    if cls.numel() != width or not cls.is_floating_point():
        raise CheckpointError(f"Expected cls of {source} to have {width} numbers (got {_shape_or_dtype(cls)})")
    return cls.reshape(width)


def _positions(
    tensors: Mapping[str, Tensor], settings: EncoderSettings, config: Mapping[str, Any], source: str
) -> tuple[Tensor | None, bool]:
    """The positions, (count, width), and whether the first is the global token's."""
    table = tensors.get("positions")
    if table is None or (settings.family == "vit" and table.dim() == 2):
        return None, False  # tables (rows, width) under that name are of other kinds of positions
    positions = _rows(table, settings.width, "positions", source)
    if settings.family == "vit":
        return positions, round(len(positions) ** 0.5) ** 2 != len(positions)
    positions = positions[_first_position(config, source) :]
    if "types" in tensors:
        positions = positions + _rows(tensors["types"], settings.width, "types", source)[:1]
    return positions, True


def _first_position(config: Mapping[str, Any], source: str) -> int:
    """Where positions begin: those of a RoBERTa after the number that stands for padding."""
    if config.get("model_type", "bert") == "bert":
        return 0
    padding = config.get("pad_token_id", 1)
    if type(padding) is not int or padding < 0:
        raise CheckpointError(f"Expected pad_token_id of {source} to be a whole number (got {padding!r})")
    return padding + 1


def _rows(x: Tensor, width: int, name: str, source: str) -> Tensor:
    """A table (rows, width) that has a row."""
    if not x.is_floating_point() or x.dim() == 0 or x.shape[-1] != width or x.numel() == 0:
        raise CheckpointError(f"Expected {name} of width {width} in {source} (got {_shape_or_dtype(x)})")
    return x.reshape(-1, width)


def _shape_or_dtype(x: Tensor) -> str:
    return str(tuple(x.shape) if x.is_floating_point() else x.dtype)


def _check_finite(tensors: Mapping[str, Tensor | None], source: str) -> None:
    for name, x in tensors.items():
        # in the precision that they will have here; some are kept in dtypes without such a test
        if x is not None and not bool(torch.isfinite(x.float()).all()):
            raise CheckpointError(f"Expected finite weights in {source} (got NaN or infinity in {name})")
