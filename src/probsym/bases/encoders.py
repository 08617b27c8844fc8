"""Transformer encoders of the `transformers` library, without what comes before and after their layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from probsym.errors import DependencyError, RangeError
from probsym.ops.argument_checks import is_number, is_rate


@dataclass(frozen=True)
class EncoderSettings:
    """The shape of an encoder.

    `family` is "vit" (pre-norm layers, and a norm after the last) or "bert" (post-norm layers, and a norm before the
    first).

    >>> EncoderSettings.of("vit-s").width
    384
    >>> EncoderSettings.of({"family": "bert", "width": 32, "layers": 2, "heads": 4, "feed_forward": 64}).eps
    1e-12
    """

    family: str
    width: int
    layers: int
    heads: int
    feed_forward: int
    activation: str = "gelu"
    eps: float = 1e-12
    qkv_bias: bool = True
    dropout: float = 0.0
    attention_dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise RangeError(f"Expected family to be one of {', '.join(FAMILIES)} (got {self.family!r})")
        sizes = {name: getattr(self, name) for name in ("width", "layers", "heads", "feed_forward")}
        if any(type(size) is not int or size < 1 for size in sizes.values()) or self.width % self.heads:
            raise RangeError(f"Expected whole numbers of 1 or more, and heads that divide the width (got {sizes})")
        if type(self.qkv_bias) is not bool:
            raise RangeError(f"Expected qkv_bias to be True or False (got {self.qkv_bias!r})")
        if not self.qkv_bias and self.family == "bert":
            raise RangeError("Expected an encoder of the family bert to have biases (got qkv_bias=False)")
        if self.activation not in ACTIVATIONS:
            raise RangeError(f"Expected activation to be one of {', '.join(ACTIVATIONS)} (got {self.activation!r})")
        if not is_number(self.eps) or not 0 <= self.eps < float("inf"):
            raise RangeError(f"Expected eps to be finite and 0 or more (got {self.eps!r})")
        if not is_rate(self.dropout) or not is_rate(self.attention_dropout):
            raise RangeError(f"Expected dropout in [0, 1) (got {self.dropout!r} and {self.attention_dropout!r})")

    @staticmethod
    def of(given: str | Mapping[str, Any] | Any) -> EncoderSettings:
        """From the name of a known shape, a mapping of the fields above, or a configuration of `transformers`."""
        if isinstance(given, EncoderSettings):
            return given
        if isinstance(given, str):
            if given not in SHAPES:
                raise RangeError(f"Expected an encoder among {', '.join(SHAPES)} (got {given!r})")
            return SHAPES[given]
        if isinstance(given, Mapping):
            known = {field.name for field in fields(EncoderSettings)}
            needed = known - {"activation", "eps", "qkv_bias", "dropout", "attention_dropout"}
            if not needed <= set(given) <= known:
                raise RangeError(f"Expected an encoder to be described by {sorted(known)} (got {_names(given)})")
            return EncoderSettings(**given)
        if hasattr(given, "model_type") and hasattr(given, "to_dict"):
            return EncoderSettings.from_config({**given.to_dict(), "model_type": given.model_type})
        raise RangeError(f"Expected an encoder as a name, a mapping or a configuration (got {type(given).__name__})")

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> EncoderSettings:
        """From the contents of the `config.json` of a `transformers` model."""
        kind = config.get("model_type")
        if not isinstance(kind, str) or kind not in MODEL_TYPES:
            raise RangeError(f"Expected model_type to be one of {', '.join(MODEL_TYPES)} (got {kind!r})")
        if config.get("position_embedding_type", "absolute") != "absolute":
            raise RangeError(f"Expected absolute positions (got {config['position_embedding_type']!r})")
        try:
            return EncoderSettings(
                family=MODEL_TYPES[kind],
                width=config["hidden_size"],
                layers=config["num_hidden_layers"],
                heads=config["num_attention_heads"],
                feed_forward=config["intermediate_size"],
                activation=config.get("hidden_act", "gelu"),
                eps=config.get("layer_norm_eps", 1e-12),
                qkv_bias=config.get("qkv_bias", True),
                dropout=config.get("hidden_dropout_prob", 0.0),
                attention_dropout=config.get("attention_probs_dropout_prob", 0.0),
            )
        except KeyError as error:
            raise RangeError(f"Expected a configuration with {error} (got {_names(config)})") from error

    def described(self) -> dict[str, Any]:
        """The settings as plain values, which `of` accepts."""
        return asdict(self)

    def resized(self, **sizes: Any) -> EncoderSettings:
        """The same settings with some fields replaced."""
        return replace(self, **sizes)


FAMILIES = ("vit", "bert")
ACTIVATIONS = (
    "gelu",
    "gelu_fast",
    "gelu_new",
    "gelu_python",
    "gelu_pytorch_tanh",
    "quick_gelu",
    "relu",
    "silu",
    "swish",
    "tanh",
)
"""Of those in `transformers`, the ones that encoders have; listed here, so that it need not be imported to check."""
MODEL_TYPES = {"vit": "vit", "bert": "bert", "roberta": "bert", "xlm-roberta": "bert"}
SHAPES = {
    "vit-ti": EncoderSettings("vit", 192, 12, 3, 768, eps=1e-6),
    "vit-s": EncoderSettings("vit", 384, 12, 6, 1536, eps=1e-6),
    "vit-b": EncoderSettings("vit", 768, 12, 12, 3072, eps=1e-6),
    "vit-l": EncoderSettings("vit", 1024, 24, 16, 4096, eps=1e-6),
}


class Encoder(nn.Module):
    """The layers of a ViT or BERT, from tokens (batch, length, width) to tokens; positions must be added beforehand.

    With `seen`, (length,) booleans, only tokens marked True are attended to; ignore the outputs of the others.

    Args:
        checkpointing: recompute each layer in the backward pass instead of storing its activations.
    """

    def __init__(self, settings: EncoderSettings, checkpointing: bool = False) -> None:
        super().__init__()
        self.settings, self.checkpointing = settings, checkpointing
        vit = settings.family == "vit"
        self.layers = _layers(settings)
        self.embedding_norm = None if vit else nn.LayerNorm(settings.width, eps=settings.eps)
        self.dropout = nn.Dropout(settings.dropout)
        self.norm = nn.LayerNorm(settings.width, eps=settings.eps) if vit else None

    def forward(self, tokens: Tensor, seen: Tensor | None = None) -> Tensor:
        if len(tokens) == 0:  # attention in the library does not take an empty batch
            return tokens
        if self.embedding_norm is not None:
            tokens = self.embedding_norm(tokens)
        tokens = self.dropout(tokens)
        mask = None if seen is None else seen.view(1, 1, 1, -1)  # (batch, heads, from, to)
        for layer in self.layers:
            if self.checkpointing and self.training:
                tokens = checkpoint(layer, tokens, mask, use_reentrant=False)
            else:
                tokens = layer(tokens, mask)
        return tokens if self.norm is None else self.norm(tokens)


def _names(given: Mapping[Any, Any]) -> list[str]:
    return sorted(str(name) for name in given)


def _layers(settings: EncoderSettings) -> nn.ModuleList:
    """The layers themselves, initialised as the library does."""
    try:
        from transformers import BertConfig, BertModel, ViTConfig, ViTModel  # noqa: PLC0415
    except ImportError as error:
        raise DependencyError(
            "Expected the transformers library, 5.17 or later, for a patch transformer (got none); "
            "it comes with probsym[encoders]"
        ) from error
    shape: dict[str, Any] = {
        "hidden_size": settings.width,
        "num_hidden_layers": settings.layers,
        "num_attention_heads": settings.heads,
        "intermediate_size": settings.feed_forward,
        "hidden_act": settings.activation,
        "layer_norm_eps": float(settings.eps),  # whole numbers are refused
        "hidden_dropout_prob": float(settings.dropout),
        "attention_probs_dropout_prob": float(settings.attention_dropout),
        "attn_implementation": "sdpa",
    }
    if settings.family == "vit":
        vit = ViTConfig(**shape, qkv_bias=settings.qkv_bias, image_size=1, patch_size=1)
        return ViTModel(vit, add_pooling_layer=False).layers
    bert = BertConfig(**shape, vocab_size=1, max_position_embeddings=1, pad_token_id=0)
    return BertModel(bert, add_pooling_layer=False).encoder.layer
