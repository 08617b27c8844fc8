"""A transformer encoder, pretrained or not, that reads and writes arrays by patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from probsym._internal.remembers_arguments import RemembersArguments
from probsym.bases.arrays import Arrays
from probsym.bases.checkpoints import Pretrained, read_pretrained
from probsym.bases.encoders import Encoder, EncoderSettings
from probsym.bases.patches import SCALE, Detokenize, Tokenize
from probsym.errors import CheckpointError, RangeError
from probsym.ops.argument_checks import check_size, is_rate
from probsym.ops.edge_list import EdgeList


@dataclass(frozen=True)
class LoadReport:
    """Which of the model's weights were loaded and which left new, and which of the checkpoint were not used.

    `resized` names loaded weights that were interpolated to another grid.
    """

    source: str
    layout: str
    loaded: tuple[str, ...]
    resized: tuple[str, ...]
    new: tuple[str, ...]
    left_over: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.source} ({self.layout}): {len(self.loaded)} tensors loaded"]
        for label, names in (("resized", self.resized), ("new", self.new), ("left over", self.left_over)):
            if names:
                lines.append(f"  {label}: {', '.join(names)}")
        return "\n".join(lines)


class PatchTransformer(RemembersArguments, nn.Module):
    """An encoder from the `transformers` library with new input and output layers.

    Arrays of order 1 and 2 over up to n items are cut into patches on a grid of tokens, like an image. An output of
    order 0 is a linear map of the global token; other outputs are assembled from one patch per token.

    `forward(*inputs)`: inputs as declared in `arrays`, zero on padding; those of order 2 may be an `EdgeList`. In the
    paper, `PatchTransformer("n 3, n n -> n 2", n=188, diagonal_inputs=True, diagonal_output=True)` is the model for
    PATTERN, and that for molecules is `PatchTransformer("n 64, n n, n n 7 -> 10", n=444, patch_dropout=0.5)`.

    Args:
        arrays: the inputs and the output, in the notation of `probsym.bases.Arrays`.
        n: the largest number of items.
        encoder: "vit-ti", "vit-s", "vit-b", "vit-l", the fields of `EncoderSettings`, or a configuration of
            `transformers` of a ViT or BERT.
        grid: tokens per side; if None, 14, as in a ViT with 16 x 16 patches on 224 x 224 images.
        diagonal_inputs: whether arrays of order 1 are placed on the diagonal of one of order 2.
        diagonal_output: whether an output of order 1 is read from the diagonal of one of order 2.
        patch_dropout: in training, the share of tokens to drop, chosen independently for every row; with a pair
            (low, high), the share is drawn too, once per call. Shapes must not change on a GPU and in compiled code, so
            with a pair, tokens there are masked from attention rather than dropped. Only for outputs of order 0.
        eval_patch_dropout: the same in evaluation. The prediction is then random even for a given draw of the sampler,
            and averaging over many draws also averages over sets of patches.
        token_std: initial standard deviation of the maps to tokens; None to initialise them like convolutions.
        padding: "zeros", "reflect" or "circular": how to fill the patches if n items do not.
        checkpointing: save memory in training by recomputing each layer in the backward pass.

    >>> tiny = {"family": "vit", "width": 32, "layers": 2, "heads": 4, "feed_forward": 64}
    >>> model = PatchTransformer("n 3, n n -> n 2", n=20, encoder=tiny, grid=4)
    >>> model(torch.rand(8, 20, 3), torch.ones(8, 20, 20)).shape
    torch.Size([8, 20, 2])
    """

    loaded: LoadReport | None = None
    """What `from_pretrained` found."""

    def __init__(
        self,
        arrays: str,
        n: int,
        encoder: str | Mapping[str, Any] | Any = "vit-b",
        grid: int | None = None,
        *,
        diagonal_inputs: bool = False,
        diagonal_output: bool = False,
        patch_dropout: float | Sequence[float] = 0.0,
        eval_patch_dropout: float | Sequence[float] = 0.0,
        token_std: float | None = None,
        padding: str = "zeros",
        checkpointing: bool = False,
    ) -> None:
        super().__init__()
        self.arrays, self.n = Arrays.parse(arrays), check_size(n, "n")
        self.arrays.allow("PatchTransformer", inputs=(1, 2), output=(0, 1, 2))
        settings = EncoderSettings.of(encoder)
        self.grid = 14 if grid is None else check_size(grid, "grid")
        self.patch_dropout, self.eval_patch_dropout = _rates(patch_dropout), _rates(eval_patch_dropout)
        if max(self.patch_dropout[1], self.eval_patch_dropout[1]) > 0 and self.arrays.output.order > 0:
            raise RangeError(
                f"Expected no patch_dropout with the output '{self.arrays.output}', which every token has a part in "
                f"(got {patch_dropout} and {eval_patch_dropout})"
            )
        self.tokenize = Tokenize(self.arrays, self.n, self.grid, settings.width, diagonal_inputs, token_std, padding)
        self.cls = nn.Parameter(SCALE * torch.randn(settings.width))
        self.positions = nn.Parameter(SCALE * torch.randn(1 + self.grid**2, settings.width))
        self.encoder = Encoder(settings, checkpointing)
        self.detokenize = Detokenize(self.arrays.output, self.n, self.grid, settings.width, diagonal_output)

    @property
    def arguments(self) -> dict[str, Any]:
        """As `RemembersArguments` has them, the encoder in plain values."""
        return {**super().arguments, "encoder": self.encoder.settings.described()}

    def forward(self, *inputs: Tensor | EdgeList) -> Tensor:
        batch, n = self.arrays.check(inputs, most=self.n, edges=True)
        tokens = self.tokenize(*inputs) + self.positions[1:]
        seen = None
        rates = self.patch_dropout if self.training else self.eval_patch_dropout
        if rates[1] > 0:
            tokens, seen = _thinned(tokens, *rates)
        first = (self.cls + self.positions[0]).to(tokens.dtype).expand(batch, 1, -1)
        return self.detokenize(self.encoder(torch.cat([first, tokens], dim=1), seen), n)

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        arrays: str,
        n: int,
        grid: int | None = None,
        *,
        encoder: str | Mapping[str, Any] | Any = None,
        heads: int | None = None,
        layer_norm_eps: float | None = None,
        dropout: float | None = None,
        revision: str | None = None,
        cache_dir: str | Path | None = None,
        token: str | None = None,
        local_files_only: bool = False,
        **options: Any,
    ) -> PatchTransformer:
        """A patch transformer whose encoder has pretrained weights; `model.loaded` says what was found.

        Only safetensors are read. A ViT in the layout of `transformers` or timm (q, k, v fused or separate) provides
        its global token and its positions, resized to another grid if needed. A BERT or RoBERTa provides its positions
        and the norm of its embeddings; tokens take the place of embedded words.

        Args:
            source: a file, a folder with `model.safetensors` (and `config.json`), or a hub id such as
                "google/vit-base-patch16-224-in21k".
            arrays, n, grid: as in the constructor.
            encoder: the expected shape; a checkpoint of another shape is refused. None accepts any shape.
            heads: number of attention heads, needed if there is no configuration and the shape is not that of a ViT or
                DeiT from tiny to large; refused if it contradicts the configuration.
            layer_norm_eps: what the norms add to the variance, if no configuration gives it, or to override it.
            dropout: rate inside the encoder, on hidden tokens and attention; as in the configuration if None.
            revision, cache_dir, token, local_files_only: options for the hub.
            options: all other options of the constructor.
        """
        hub: dict[str, Any] = {"revision": revision, "cache_dir": cache_dir, "token": token}
        hub["local_files_only"] = local_files_only
        pretrained = read_pretrained(source, heads=heads, layer_norm_eps=layer_norm_eps, **hub)
        settings = pretrained.settings
        if encoder is not None:
            _check_expected(settings, EncoderSettings.of(encoder), pretrained.source)
        if dropout is not None:
            settings = settings.resized(dropout=dropout, attention_dropout=dropout)
        model = cls(arrays, n, settings, grid, **options)
        model.loaded = model._load(pretrained)
        return model

    @torch.no_grad()
    def _load(self, pretrained: Pretrained) -> LoadReport:
        own = dict(self.named_parameters())
        loaded = {f"encoder.{name}": x for name, x in pretrained.layers.items()}
        resized: tuple[str, ...] = ()
        if pretrained.cls is not None:
            loaded["cls"] = pretrained.cls
        if pretrained.positions is not None:
            loaded["positions"] = self._fitted(pretrained)
            patches = len(pretrained.positions) - pretrained.global_position
            if pretrained.settings.family == "vit" and patches != self.grid**2:
                resized = ("positions",)
        for name, x in loaded.items():
            own[name].copy_(x)
        new = tuple(name for name in own if name not in loaded)
        return LoadReport(pretrained.source, pretrained.layout, tuple(loaded), resized, new, pretrained.left_over)

    def _fitted(self, pretrained: Pretrained) -> Tensor:
        """The positions of a checkpoint for this grid: those of images are resized, those of texts cut off."""
        assert pretrained.positions is not None
        positions, wanted = pretrained.positions.float(), 1 + self.grid**2
        if pretrained.settings.family == "bert":
            if len(positions) < wanted:
                raise CheckpointError(
                    f"Expected {wanted} positions in {pretrained.source} for a grid of {self.grid} "
                    f"(got {len(positions)})"
                )
            return positions[:wanted]
        first = positions[:1] if pretrained.global_position else torch.zeros_like(positions[:1])
        patches = positions[1:] if pretrained.global_position else positions
        side = round(len(patches) ** 0.5)
        if side**2 != len(patches):
            raise CheckpointError(
                f"Expected positions of a square of patches in {pretrained.source}, with one more or not "
                f"(got {len(positions)})"
            )
        if side != self.grid:
            image = patches.T.view(1, -1, side, side)
            image = interpolate(image, (self.grid, self.grid), mode="bicubic", align_corners=False, antialias=True)
            patches = image.flatten(2).squeeze(0).T
        return torch.cat([first, patches])


def keeps_shapes(x: Tensor) -> bool:
    """Whether shapes must not depend on what is drawn: on a GPU, where steps may be captured, and in compiled code."""
    return x.is_cuda or torch.compiler.is_compiling()


def _thinned(tokens: Tensor, low: float, high: float) -> tuple[Tensor, Tensor | None]:
    """A random choice of the tokens of each row without a share from low to high, equally many of each.

    Where their number is drawn and shapes are to stay the same, they are as many as there can be, and the second
    says to which of them and to the global token to attend.
    """
    length = tokens.shape[1]
    most, fewest = (max(1, round((1 - rate) * length)) for rate in (low, high))
    kept = torch.rand(tokens.shape[:2], device=tokens.device).topk(most, dim=1).indices
    tokens = tokens.gather(1, kept.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))
    if most == fewest:
        return tokens, None
    rate = low + (high - low) * torch.rand((), device=tokens.device)
    count = ((1 - rate) * length).round().clamp(fewest, most)
    if keeps_shapes(tokens):
        return tokens, torch.arange(1 + most, device=tokens.device) <= count
    return tokens[:, : int(count)], None


def _rates(given: float | Sequence[float]) -> tuple[float, float]:
    """The lowest and highest share of tokens to drop."""
    pair = tuple(given) if isinstance(given, Sequence) else (given, given)
    if len(pair) != 2 or not all(is_rate(rate) for rate in pair) or pair[0] > pair[1]:
        raise RangeError(f"Expected patch_dropout to be in [0, 1), or a pair (low, high) of such (got {given!r})")
    return float(pair[0]), float(pair[1])


def _check_expected(settings: EncoderSettings, expected: EncoderSettings, source: str) -> None:
    for name in ("family", "width", "layers", "heads", "feed_forward", "activation", "qkv_bias"):
        if getattr(settings, name) != getattr(expected, name):
            raise CheckpointError(
                f"Expected an encoder with {name} {getattr(expected, name)} (got {getattr(settings, name)} in {source})"
            )
