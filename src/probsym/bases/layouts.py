"""How published encoders name their tensors, and how ours does."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """Where a published layout keeps what.

    `layer` matches the beginning of names inside layer i; `layers` are those names without it, `globals` all others,
    each with the common word for what it is. `eps` is what its norms add where no configuration says.
    """

    name: str
    family: str
    layer: str
    layers: Mapping[str, str]
    globals: Mapping[str, str]
    eps: float


LAYOUTS = (
    Layout(
        "transformers ViT",
        "vit",
        r"encoder\.layer\.(\d+)\.",
        {
            "attention.attention.query": "q",
            "attention.attention.key": "k",
            "attention.attention.value": "v",
            "attention.output.dense": "out",
            "intermediate.dense": "up",
            "output.dense": "down",
            "layernorm_before": "norm_1",
            "layernorm_after": "norm_2",
        },
        {"embeddings.cls_token": "cls", "embeddings.position_embeddings": "positions", "layernorm": "norm"},
        1e-12,
    ),
    Layout(
        "transformers 5 ViT",
        "vit",
        r"layers\.(\d+)\.",
        {
            "attention.q_proj": "q",
            "attention.k_proj": "k",
            "attention.v_proj": "v",
            "attention.o_proj": "out",
            "mlp.fc1": "up",
            "mlp.fc2": "down",
            "layernorm_before": "norm_1",
            "layernorm_after": "norm_2",
        },
        {"embeddings.cls_token": "cls", "embeddings.position_embeddings": "positions", "layernorm": "norm"},
        1e-12,
    ),
    Layout(
        "timm ViT",
        "vit",
        r"blocks\.(\d+)\.",
        {
            "attn.q": "q",
            "attn.k": "k",
            "attn.v": "v",
            "attn.qkv": "qkv",
            "attn.proj": "out",
            "mlp.fc1": "up",
            "mlp.fc2": "down",
            "norm1": "norm_1",
            "norm2": "norm_2",
        },
        {"cls_token": "cls", "pos_embed": "positions", "norm": "norm"},
        1e-6,
    ),
    Layout(
        "transformers BERT",
        "bert",
        r"encoder\.layer\.(\d+)\.",
        {
            "attention.self.query": "q",
            "attention.self.key": "k",
            "attention.self.value": "v",
            "attention.output.dense": "out",
            "attention.output.LayerNorm": "norm_1",
            "intermediate.dense": "up",
            "output.dense": "down",
            "output.LayerNorm": "norm_2",
        },
        {
            "embeddings.position_embeddings.weight": "positions",
            "embeddings.token_type_embeddings.weight": "types",
            "embeddings.LayerNorm": "embedding_norm",
        },
        1e-12,
    ),
)
OURS = {
    layout.family: {word: name for name, word in layout.layers.items()}
    for layout in LAYOUTS
    if layout.name in ("transformers 5 ViT", "transformers BERT")
}
"""What the layers of the `transformers` library call each thing, by family."""
