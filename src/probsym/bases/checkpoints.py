"""Weights of pretrained encoders, read from safetensors in the layouts that they are published in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from probsym.bases.encoders import EncoderSettings
from probsym.bases.layouts import LAYOUTS, OURS, Layout
from probsym.errors import CheckpointError, RangeError
from probsym.weights import locate, read_tensors

_PREFIXES = ("vit.", "bert.", "roberta.", "model.", "module.")
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
    source: str | Path,
    *,
    heads: int | None = None,
    layer_norm_eps: float | None = None,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    token: str | None = None,
    local_files_only: bool = False,
) -> Pretrained:
    """An encoder from a file, a folder or a hub id; see `PatchTransformer.from_pretrained`."""
    weights, config = locate(source, revision, cache_dir, token, local_files_only)
    tensors = {_plain(name): x for name, x in read_tensors(weights).items()}
    layout, found, left_over = _sorted_out(tensors, str(source))
    settings = _settings(layout, found, config, heads, layer_norm_eps, str(source))
    layers = _layers(settings, found, str(source))
    positions, global_position = _positions(found, settings, config, str(source))
    if positions is None and "positions" in found:
        left_over += [name for name, ours in layout.globals.items() if ours == "positions"]
    for name, x in {**layers, "cls": found.get("cls"), "positions": positions}.items():
        if x is not None and not bool(torch.isfinite(x).all()):
            raise CheckpointError(f"Expected finite weights in {source} (got NaN or infinity in {name})")
    cls = found.get("cls")
    if cls is not None and cls.numel() != settings.width:
        raise CheckpointError(f"Expected cls of {source} to have {settings.width} numbers (got {tuple(cls.shape)})")
    return Pretrained(
        str(source),
        layout.name,
        settings,
        layers,
        None if cls is None else cls.reshape(-1),
        positions,
        global_position,
        tuple(sorted(left_over)),
    )


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
        found = {f"{int(at[1])}.{names[name[at.end() :]]}": tensors[name] for name, at in inside.items()}
        found |= {ours: tensors[name] for name, ours in fixed.items() if name in tensors}
        return layout, found, [name for name in tensors if name not in inside and name not in fixed]
    known = ", ".join(layout.name for layout in LAYOUTS)
    some = ", ".join(sorted(tensors)[:3]) or "no tensors"
    raise CheckpointError(f"Expected {source} to be laid out as one of: {known} (got {some}, ...)")


def _settings(
    layout: Layout,
    found: Mapping[str, Tensor],
    config: Mapping[str, Any],
    heads: int | None,
    eps: float | None,
    source: str,
) -> EncoderSettings:
    """The shape that the tensors have; what they do not show comes from the configuration, or from the caller."""
    try:
        width, inner = found["0.norm_1.weight"].shape[0], found["0.up.weight"].shape[0]
    except KeyError as error:
        raise CheckpointError(f"Expected a first layer with norms and an MLP in {source} (got no {error})") from error
    layers = 1 + max(int(name.split(".")[0]) for name in found if name[0].isdigit())
    told: dict[str, Any] = {}
    try:
        if "model_type" in config:
            told = EncoderSettings.from_config(config).described()
        given = {
            "family": layout.family,
            "width": width,
            "layers": layers,
            "feed_forward": inner,
            "qkv_bias": "0.q.bias" in found or "0.qkv.bias" in found,
        }
        wrong = {name: (told[name], size) for name, size in given.items() if name in told and told[name] != size}
        if wrong:
            name, (said, size) = next(iter(wrong.items()))
            raise CheckpointError(f"Expected {name} {said} in {source} as its config.json says (got {size})")
        heads = heads or told.get("heads") or _named_heads(str(config.get("architecture", "")))
        if heads is None:
            raise CheckpointError(f"Expected heads=, which the weights of {source} do not show (got none)")
        return EncoderSettings(**{"activation": "gelu", "eps": layout.eps, **told, **given, "heads": heads}).resized(
            **({} if eps is None else {"eps": eps})
        )
    except RangeError as error:
        raise CheckpointError(f"{error}, in {source}") from error


def _named_heads(architecture: str) -> int | None:
    """The heads of the architectures that timm names."""
    found = re.match(r"(?:vit|deit3?)_(tiny|small|base|large)_patch", architecture)
    return {"tiny": 3, "small": 6, "base": 12, "large": 16}[found[1]] if found else None


def _layers(settings: EncoderSettings, found: Mapping[str, Tensor], source: str) -> dict[str, Tensor]:
    """The tensors of `Encoder`, each of the shape it must have."""
    width, inner = settings.width, settings.feed_forward
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("q", "k", "v", "out"), (width, width))
    shapes |= {"up": (inner, width), "down": (width, inner), "norm_1": (width,), "norm_2": (width,)}
    layers = {}
    for i in range(settings.layers):
        here = {name.split(".", 1)[1]: x for name, x in found.items() if name.startswith(f"{i}.")}
        for kind in _LINEAR:
            if f"qkv.{kind}" in here:
                fused = here.pop(f"qkv.{kind}")
                if fused.shape[0] != 3 * width:
                    raise CheckpointError(
                        f"Expected layer {i} of {source} to have {3 * width} rows in qkv (got {fused.shape[0]})"
                    )
                here |= {f"{part}.{kind}": x for part, x in zip("qkv", fused.chunk(3), strict=True)}
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
            if f"{name}.{kind}" in found:
                layers[f"{name}.{kind}"] = _fitting(found[f"{name}.{kind}"], (width,), f"{name}.{kind} in {source}")
    return layers


def _fitting(x: Tensor | None, shape: tuple[int, ...], what: str) -> Tensor:
    if x is None:
        raise CheckpointError(f"Expected {what} (got none)")
    if tuple(x.shape) != shape or not x.is_floating_point():
        raise CheckpointError(f"Expected {what} to be floating {shape} (got {tuple(x.shape)}, {x.dtype})")
    return x


def _positions(
    found: Mapping[str, Tensor], settings: EncoderSettings, config: Mapping[str, Any], source: str
) -> tuple[Tensor | None, bool]:
    """The positions, (count, width), and whether the first is the global token's."""
    positions = found.get("positions")
    if positions is None or (settings.family == "vit" and positions.dim() == 2):
        return None, False  # tables (rows, width) under that name are of other kinds of positions
    if positions.shape[-1] != settings.width:
        raise CheckpointError(
            f"Expected positions of width {settings.width} in {source} (got {tuple(positions.shape)})"
        )
    positions = positions.reshape(-1, settings.width)
    if settings.family == "vit":
        return positions, round(len(positions) ** 0.5) ** 2 != len(positions)
    # RoBERTa counts from the number after the padding's
    first = 0 if config.get("model_type", "bert") == "bert" else config.get("pad_token_id", 1) + 1
    positions = positions[first:]
    types = found.get("types")
    return (positions if types is None else positions + types[:1]), True
