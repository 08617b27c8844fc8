"""Tiny encoders of the `transformers` library, and their weights written in every layout that is read."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel, ViTConfig, ViTModel

WIDTH, LAYERS, HEADS, INNER, GRID, EPS = 24, 3, 4, 40, 4, 1e-2
"""The eps is large, so that another one shows."""

_CLASSIC = {
    "attention.q_proj": "attention.attention.query",
    "attention.k_proj": "attention.attention.key",
    "attention.v_proj": "attention.attention.value",
    "attention.o_proj": "attention.output.dense",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
}
_TIMM = {
    "attention.q_proj": "attn.q",
    "attention.k_proj": "attn.k",
    "attention.v_proj": "attn.v",
    "attention.o_proj": "attn.proj",
    "layernorm_before": "norm1",
    "layernorm_after": "norm2",
}
_TIMM_GLOBALS = {
    "embeddings.cls_token": "cls_token",
    "embeddings.position_embeddings": "pos_embed",
    "embeddings.patch_embeddings.projection": "patch_embed.proj",
    "layernorm": "norm",
    "pooler.dense": "head",
}


def randomised(model: nn.Module, seed: int = 0) -> Any:
    """Every parameter random, biases and norms too, so that none can be left out or exchanged unseen."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator) + float("norm" in name.lower()))
    return model.eval()


def vit(seed: int = 0, **options: Any) -> ViTModel:
    shape = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    shape |= {"intermediate_size": INNER, "image_size": 64, "patch_size": 16, "layer_norm_eps": EPS}
    return randomised(ViTModel(ViTConfig(**{**shape, **options})), seed)


def bert(seed: int = 0, **options: Any) -> BertModel:
    return randomised(BertModel(BertConfig(**{**_text_shape(), **options})), seed)


def roberta(seed: int = 0, **options: Any) -> RobertaModel:
    return randomised(RobertaModel(RobertaConfig(**{**_text_shape(), "type_vocab_size": 1, **options})), seed)


def _text_shape() -> dict[str, Any]:
    shape = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    return shape | {"intermediate_size": INNER, "vocab_size": 7, "max_position_embeddings": 30, "layer_norm_eps": EPS}


def state(model: nn.Module) -> dict[str, Tensor]:
    return {name: x.detach().clone() for name, x in model.state_dict().items()}


def classic(model: ViTModel, prefix: str = "") -> dict[str, Tensor]:
    """As google/vit-base-patch16-224-in21k has it on the hub."""
    tensors = {}
    for name, x in state(model).items():
        for ours, theirs in _CLASSIC.items():
            name = name.replace(ours, theirs)  # noqa: PLW2901
        tensors[prefix + (f"encoder.layer.{name.removeprefix('layers.')}" if name.startswith("layers.") else name)] = x
    return tensors


def in_memory(model: ViTModel, prefix: str = "") -> dict[str, Tensor]:
    """As transformers 5 has it itself."""
    return {prefix + name: x for name, x in state(model).items()}


def timm(model: ViTModel, fused: bool = True) -> dict[str, Tensor]:
    tensors = {}
    for name, x in state(model).items():
        new = name
        if name.startswith("layers."):
            for ours, theirs in _TIMM.items():
                new = new.replace(ours, theirs)
            new = f"blocks.{new.removeprefix('layers.')}"
        else:
            for ours, theirs in _TIMM_GLOBALS.items():
                new = theirs + new.removeprefix(ours) if new.startswith(ours) else new
        tensors[new] = x
    for i in range(LAYERS if fused else 0):
        for kind in ("weight", "bias"):
            tensors[f"blocks.{i}.attn.qkv.{kind}"] = torch.cat(
                [tensors.pop(f"blocks.{i}.attn.{q}.{kind}") for q in "qkv"]
            )
    return tensors


def write(folder: Path, tensors: dict[str, Tensor], config: Any = None, name: str = "model.safetensors") -> Path:
    """A checkpoint in a folder, with the configuration beside it if there is one."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({key: x.clone().contiguous() for key, x in tensors.items()}, folder / name, metadata={"format": "pt"})
    if config is not None:
        (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return folder


def config_of(model: Any, **changes: Any) -> dict[str, Any]:
    return {**model.config.to_dict(), "model_type": model.config.model_type, **changes}
