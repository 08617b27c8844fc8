"""Encoders from checkpoints compute what the models they come from compute, and the report says what was found."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import gelu, interpolate, layer_norm
from torch.testing import assert_close
from transformers import ViTModel

from probsym.bases import LoadReport, PatchTransformer
from probsym.bases.encoders import EncoderSettings
from probsym.errors import CheckpointError
from tests.checkpoint_cases import (
    EPS,
    GRID,
    HEADS,
    INNER,
    LAYERS,
    WIDTH,
    bert,
    classic,
    config_of,
    in_memory,
    randomised,
    roberta,
    state,
    timm,
    vit,
    write,
)

LAYOUTS: dict[str, Callable[[ViTModel], dict[str, Tensor]]] = {
    "classic": classic,
    "classic with prefix": lambda model: classic(model, "vit."),
    "transformers 5": in_memory,
    "transformers 5 with prefix": lambda model: in_memory(model, "vit."),
    "timm, fused": timm,
    "timm, apart": lambda model: timm(model, fused=False),
}
NEW = ("tokenize.bias", "tokenize.weights.0", "detokenize.weight", "detokenize.bias")
PATCHES = ("embeddings.patch_embeddings.projection.bias", "embeddings.patch_embeddings.projection.weight")
LINEAR = ("weight", "bias")


@pytest.fixture(scope="module")
def original() -> ViTModel:
    return vit()


def load(source: str | Path, arrays: str = "n n 3 -> 24", n: int = 64, **options: Any) -> PatchTransformer:
    return PatchTransformer.from_pretrained(source, arrays, n=n, **{"grid": GRID, **options}).eval()


def pixels(batch: int = 2) -> Tensor:
    return torch.randn(batch, 3, 64, 64, generator=torch.Generator().manual_seed(5))


@torch.no_grad()
def tokens_of(model: PatchTransformer, patches: Tensor) -> Tensor:
    """The last tokens, from embedded patches without positions."""
    first = (model.cls + model.positions[0]).expand(len(patches), 1, -1)
    return model.encoder(torch.cat([first, patches + model.positions[1:]], 1))


def random_tokens(length: int, seed: int = 3) -> Tensor:
    return torch.randn(2, length, WIDTH, generator=torch.Generator().manual_seed(seed))


# ------------------------------------------------------------------------------------------------------------ ViT


@pytest.mark.parametrize("with_config", [True, False], ids=["config", "no config"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_tokens(tmp_path: Path, original: ViTModel, layout: str, with_config: bool) -> None:
    write(tmp_path, LAYOUTS[layout](original), config_of(original) if with_config else None)
    model = load(tmp_path, **({} if with_config else {"heads": HEADS, "layer_norm_eps": EPS}))
    with torch.no_grad():
        wanted = original(pixels()).last_hidden_state
        tokens = tokens_of(model, original.embeddings.patch_embeddings(pixels()))
    assert wanted.std() > 0.1
    assert_close(tokens, wanted, atol=1e-5, rtol=1e-5)


def test_what_transformers_itself_saves_loads(tmp_path: Path, original: ViTModel) -> None:
    original.save_pretrained(tmp_path)
    with torch.no_grad():
        wanted = original(pixels()).last_hidden_state
        tokens = tokens_of(load(tmp_path), original.embeddings.patch_embeddings(pixels()))
    assert_close(tokens, wanted, atol=1e-5, rtol=1e-5)


def test_a_whole_model_is_the_original_once_it_has_its_projection(tmp_path: Path, original: ViTModel) -> None:
    """An image is an array of order 2 with 3 channels, and its patches are those of the ViT."""
    model = load(write(tmp_path, classic(original), config_of(original)))
    projection = original.embeddings.patch_embeddings.projection
    with torch.no_grad():
        model.tokenize.weights[0].copy_(projection.weight.permute(2, 3, 1, 0).flatten(0, 2))
        model.tokenize.bias.copy_(projection.bias)
        model.detokenize.weight.copy_(torch.eye(WIDTH))
        wanted = original(pixels()).last_hidden_state[:, 0]
        output = model(pixels().permute(0, 2, 3, 1))
    assert_close(output, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layout", [classic, in_memory])
def test_a_vit_without_biases_of_its_queries(tmp_path: Path, layout: Callable[..., dict[str, Tensor]]) -> None:
    plain = vit(qkv_bias=False)
    tensors = layout(plain)
    assert not any("q_proj.bias" in name or "query.bias" in name for name in tensors)
    model = load(write(tmp_path, tensors), heads=HEADS, layer_norm_eps=EPS)
    assert not model.encoder.settings.qkv_bias
    with torch.no_grad():
        tokens = tokens_of(model, plain.embeddings.patch_embeddings(pixels()))
        assert_close(tokens, plain(pixels()).last_hidden_state, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_weights_of_any_precision_are_read_into_ours(tmp_path: Path, original: ViTModel, dtype: torch.dtype) -> None:
    tensors = {name: x.to(dtype) for name, x in classic(original).items()}
    model = load(write(tmp_path, tensors, config_of(original)))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    weight = model.state_dict()["encoder.layers.1.mlp.fc1.weight"]
    assert torch.equal(weight, tensors["encoder.layer.1.intermediate.dense.weight"].float())
    assert torch.equal(model.positions.detach(), tensors["embeddings.position_embeddings"][0].float())


@pytest.mark.parametrize(
    ("layout", "eps"), [("classic", 1e-12), ("transformers 5", 1e-12), ("timm, fused", 1e-6), ("timm, apart", 1e-6)]
)
def test_the_eps_of_a_layout_is_its_librarys(tmp_path: Path, original: ViTModel, layout: str, eps: float) -> None:
    write(tmp_path, LAYOUTS[layout](original))
    assert load(tmp_path, heads=HEADS).encoder.norm.eps == eps
    assert load(tmp_path, heads=HEADS, layer_norm_eps=0.5).encoder.layers[0].layernorm_before.eps == 0.5


def test_the_configuration_says_what_weights_do_not_show(tmp_path: Path, original: ViTModel) -> None:
    told = config_of(original, hidden_act="relu", hidden_dropout_prob=0.25, attention_probs_dropout_prob=0.125)
    write(tmp_path, classic(original), told)
    settings = load(tmp_path).encoder.settings
    assert (settings.heads, settings.eps, settings.activation) == (HEADS, EPS, "relu")
    assert (settings.dropout, settings.attention_dropout) == (0.25, 0.125)
    settings = load(tmp_path, dropout=0.5, heads=HEADS, layer_norm_eps=1e-3).encoder.settings
    assert (settings.heads, settings.eps, settings.dropout, settings.attention_dropout) == (HEADS, 1e-3, 0.5, 0.5)


def test_known_shapes_give_the_heads(tmp_path: Path) -> None:
    shape = {"hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3, "intermediate_size": 768}
    write(tmp_path, timm(vit(**shape)))
    assert load(tmp_path).encoder.settings.heads == 3
    assert load(tmp_path, heads=2).encoder.settings.heads == 2  # a shape is a guess, which the caller may know better
    write(tmp_path, timm(vit(**{**shape, "num_hidden_layers": 11})))
    with pytest.raises(CheckpointError, match="Expected heads="):
        load(tmp_path)


def split_qkv(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with q, k and v apart, as `block` reads them."""
    tensors = dict(weights)
    for name in [name for name in weights if ".qkv." in name]:
        for letter, part in zip("qkv", tensors.pop(name).chunk(3), strict=True):
            tensors[name.replace(".qkv.", f".{letter}.")] = part
    return tensors


DEIT = Path(os.environ.get("PROBSYM_DATA", "")) / "deit_tiny_patch16_224.safetensors"


@pytest.mark.skipif(not DEIT.is_file(), reason="no DeiT in PROBSYM_DATA")
def test_deit_is_loaded_whole_without_heads() -> None:
    model = PatchTransformer.from_pretrained(DEIT, "n 3, n n -> n 2", n=188, encoder="vit-ti")
    assert model.loaded is not None
    assert model.encoder.settings == EncoderSettings.of("vit-ti")
    assert not any(name.startswith(("encoder", "cls", "positions")) for name in model.loaded.new)
    assert model.loaded.resized == ()
    assert set(model.loaded.left_over) == {
        "head.bias",
        "head.weight",
        "patch_embed.proj.bias",
        "patch_embed.proj.weight",
    }
    weights = split_qkv(load_file(DEIT))
    x = torch.randn(2, 197, 192)
    wanted = x
    for i in range(12):
        wanted = block(weights, i, wanted, heads=3, eps=1e-6)
    wanted = layer_norm(wanted, (192,), weights["norm.weight"], weights["norm.bias"], 1e-6)
    with torch.no_grad():
        assert_close(model.eval().encoder(x), wanted, rtol=1e-3, atol=1e-3)


def test_a_checkpoint_is_trained_on(tmp_path: Path, original: ViTModel) -> None:
    model = load(write(tmp_path, classic(original), config_of(original)), "n n -> 2", n=9).train()
    model(torch.ones(2, 9, 9)).square().sum().backward()
    assert all(parameter.requires_grad and parameter.grad is not None for parameter in model.parameters())


def test_options_of_the_constructor_are_passed_on(tmp_path: Path, original: ViTModel) -> None:
    write(tmp_path, classic(original), config_of(original))
    model = load(tmp_path, "n 2, n n -> n", n=9, diagonal_inputs=True, diagonal_output=True, checkpointing=True)
    assert model.tokenize.diagonal
    assert model.detokenize.diagonal
    assert model.encoder.checkpointing
    assert load(tmp_path, "n n -> 2", n=9, patch_dropout=0.5).patch_dropout == (0.5, 0.5)
    assert load(tmp_path, encoder=original.config).encoder.settings.width == WIDTH


def test_a_file_loads_like_its_folder(tmp_path: Path, original: ViTModel) -> None:
    write(tmp_path, classic(original), config_of(original))
    from_folder, from_file = load(tmp_path), load(tmp_path / "model.safetensors")
    assert all(
        torch.equal(x, from_file.state_dict()[name])
        for name, x in from_folder.encoder.state_dict(prefix="encoder.").items()
    )


def test_sharded_checkpoints_load(tmp_path: Path, original: ViTModel) -> None:
    original.save_pretrained(tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    with torch.no_grad():
        tokens = tokens_of(load(tmp_path), original.embeddings.patch_embeddings(pixels()))
        assert_close(tokens, original(pixels()).last_hidden_state, atol=1e-5, rtol=1e-5)


def test_a_hub_id_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, original: ViTModel) -> None:
    write(tmp_path, classic(original), config_of(original))
    asked = []

    def fake(repo: str, name: str, **options: Any) -> str:
        asked.append((repo, name, options))
        return str(tmp_path / name)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fake)
    options = {"revision": "r", "cache_dir": str(tmp_path), "token": "t", "local_files_only": True}
    model = load("google/vit-base-patch16-224-in21k", **options)
    assert model.loaded is not None
    assert model.loaded.source == "google/vit-base-patch16-224-in21k"
    assert {name for _, name, _ in asked} == {"model.safetensors", "config.json"}
    assert all(given == options for _, _, given in asked)


# --------------------------------------------------------------------------------------------------------- Galileo


def galileo() -> Path:
    path = Path(os.environ.get("PROBSYM_DATA", "/nowhere")) / "galileo_nano_encoder.safetensors"
    if not path.is_file():
        pytest.skip("PROBSYM_DATA has no galileo_nano_encoder.safetensors")
    return path


def block(weights: dict[str, Tensor], i: int, x: Tensor, heads: int, eps: float) -> Tensor:
    """One pre-LN layer in plain operations."""

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ weights[f"blocks.{i}.{name}.weight"].T + weights[f"blocks.{i}.{name}.bias"]

    def norm(name: str, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()
        return scaled * weights[f"blocks.{i}.{name}.weight"] + weights[f"blocks.{i}.{name}.bias"]

    batch, length, width = x.shape
    h = norm("norm1", x)
    q, k, v = (linear(f"attn.{letter}", h).view(batch, length, heads, -1).transpose(1, 2) for letter in "qkv")
    shares = (q @ k.mT * (width // heads) ** -0.5).softmax(-1)
    x = x + linear("attn.proj", (shares @ v).transpose(1, 2).reshape(batch, length, width))
    return x + linear("mlp.fc2", gelu(linear("mlp.fc1", norm("norm2", x))))


@pytest.mark.parametrize("eps", [None, 1e-5])
def test_galileo_block_by_block(eps: float | None) -> None:
    path = galileo()
    weights = {name: x.double() for name, x in load_file(path).items()}
    model = PatchTransformer.from_pretrained(path, "n n -> 2", n=16, grid=4, heads=8, layer_norm_eps=eps)
    model = model.double().eval()
    seen: list[Tensor] = []
    for layer in model.encoder.layers:
        layer.register_forward_hook(lambda _, __, y: seen.append(y[0] if isinstance(y, tuple) else y))
    x = torch.randn(2, 17, 128, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        last = model.encoder(x)
    assert len(seen) == 4
    for i, output in enumerate(seen):
        x = block(weights, i, x, heads=8, eps=eps or 1e-6)
        assert_close(output, x, atol=1e-10, rtol=1e-10)
    assert_close(last, layer_norm(x, (128,), weights["norm.weight"], weights["norm.bias"], eps or 1e-6))


def test_galileo_report() -> None:
    model = PatchTransformer.from_pretrained(galileo(), "n n -> 2", n=16, grid=4, heads=8)
    report, names = model.loaded, set(load_file(galileo()))
    assert report is not None
    assert report.layout == "timm ViT"
    assert len(report.loaded) == 4 * 16 + 2
    assert report.resized == ()
    assert report.new == ("cls", "positions", *NEW)
    used = {name for name in names if name.startswith("blocks.") or name.startswith("norm.")}
    assert report.left_over == tuple(sorted(names - used))
    assert "pos_embed" in report.left_over


# ------------------------------------------------------------------------------------------------------------ BERT


@pytest.mark.parametrize("old_names", [False, True], ids=["weight", "gamma"])
@pytest.mark.parametrize("prefix", ["", "bert."])
def test_bert_gives_the_same_tokens(tmp_path: Path, prefix: str, old_names: bool) -> None:
    original = bert()
    tensors = {prefix + name: x for name, x in state(original).items()}
    if old_names:
        names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        for new, old in names.items():
            tensors = {name.replace(new, old): x for name, x in tensors.items()}
    model = load(write(tmp_path, tensors, config_of(original)))
    tokens = random_tokens(1 + GRID**2)
    with torch.no_grad():
        wanted = original(inputs_embeds=tokens).last_hidden_state
        assert_close(model.encoder(tokens + model.positions), wanted, atol=1e-5, rtol=1e-5)


def test_bert_as_transformers_saves_it_block_by_block(tmp_path: Path) -> None:
    original = bert()
    original.save_pretrained(tmp_path)
    model, tokens, seen = load(tmp_path), random_tokens(1 + GRID**2), []
    for layer in model.encoder.layers:
        layer.register_forward_hook(lambda _, __, y: seen.append(y[0] if isinstance(y, tuple) else y))
    with torch.no_grad():
        model.encoder(tokens + model.positions)
        wanted = original(inputs_embeds=tokens, output_hidden_states=True).hidden_states[1:]
    for output, hidden in zip(seen, wanted, strict=True):
        assert_close(output, hidden, atol=1e-5, rtol=1e-5)


def test_bert_without_a_configuration(tmp_path: Path) -> None:
    original = bert()
    model = load(write(tmp_path, state(original)), heads=HEADS, layer_norm_eps=EPS)
    tokens = random_tokens(1 + GRID**2)
    with torch.no_grad():
        wanted = original(inputs_embeds=tokens).last_hidden_state
        assert_close(model.encoder(tokens + model.positions), wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pad", [0, 1, 3])
@pytest.mark.parametrize("prefix", ["", "roberta."])
def test_roberta_counts_positions_from_after_its_padding(tmp_path: Path, prefix: str, pad: int) -> None:
    original = roberta(pad_token_id=pad)
    write(tmp_path, {prefix + name: x for name, x in state(original).items()}, config_of(original))
    model, tokens = load(tmp_path), random_tokens(1 + GRID**2)
    with torch.no_grad():
        wanted = original(inputs_embeds=tokens).last_hidden_state
        assert_close(model.encoder(tokens + model.positions), wanted, atol=1e-5, rtol=1e-5)


def test_bert_report(tmp_path: Path) -> None:
    original = bert()
    original.save_pretrained(tmp_path)
    report = load(tmp_path).loaded
    assert report is not None
    assert report.layout == "transformers BERT"
    inside = {f"encoder.{name}" for name in state(original.encoder)}
    ours = {name.replace("encoder.layer.", "encoder.layers.") for name in inside}
    assert set(report.loaded) == {*ours, *(f"encoder.embedding_norm.{kind}" for kind in LINEAR), "positions"}
    assert len(report.loaded) == len(set(report.loaded))
    assert report.resized == ()  # cut off, not resized
    assert report.new == ("cls", *NEW)
    assert report.left_over == ("embeddings.word_embeddings.weight", "pooler.dense.bias", "pooler.dense.weight")


# ---------------------------------------------------------------------------------------------- report, positions


def encoder_names() -> set[str]:
    inside = ["attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.o_proj", "mlp.fc1", "mlp.fc2"]
    inside += ["layernorm_before", "layernorm_after"]
    layers = {f"encoder.layers.{i}.{name}.{kind}" for i in range(LAYERS) for name in inside for kind in LINEAR}
    return layers | {"encoder.norm.weight", "encoder.norm.bias"}


@pytest.mark.parametrize(
    ("layout", "left_over"),
    [
        ("classic", (*PATCHES, "pooler.dense.bias", "pooler.dense.weight")),
        (
            "classic with prefix",
            tuple(f"vit.{name}" for name in (*PATCHES, "pooler.dense.bias", "pooler.dense.weight")),
        ),
        ("transformers 5", (*PATCHES, "pooler.dense.bias", "pooler.dense.weight")),
        ("timm, fused", ("head.bias", "head.weight", "patch_embed.proj.bias", "patch_embed.proj.weight")),
        ("timm, apart", ("head.bias", "head.weight", "patch_embed.proj.bias", "patch_embed.proj.weight")),
    ],
)
def test_the_report_names_everything(
    tmp_path: Path, original: ViTModel, layout: str, left_over: tuple[str, ...]
) -> None:
    model = load(write(tmp_path, LAYOUTS[layout](original), config_of(original)))
    report = model.loaded
    assert isinstance(report, LoadReport)
    assert report.source == str(tmp_path)
    assert set(report.loaded) == {*encoder_names(), "cls", "positions"}
    assert len(report.loaded) == len(set(report.loaded))
    assert report.resized == ()
    assert report.new == NEW
    assert {*report.loaded, *report.new} == {name for name, _ in model.named_parameters()}
    assert report.left_over == left_over


def test_the_report_prints(tmp_path: Path, original: ViTModel) -> None:
    text = str(load(write(tmp_path, classic(original), config_of(original)), grid=3).loaded)
    first, *others = text.splitlines()
    assert first == f"{tmp_path} (transformers ViT): {LAYERS * 16 + 4} tensors loaded"
    assert others[0] == "  resized: positions"
    assert others[1] == f"  new: {', '.join(NEW)}"
    assert others[2].startswith("  left over: embeddings.patch_embeddings.projection.bias, ")


def test_what_is_absent_beside_the_layers_is_new(tmp_path: Path, original: ViTModel) -> None:
    tensors = {name: x for name, x in classic(original).items() if name.startswith("encoder.")}
    model = load(write(tmp_path, tensors, config_of(original)))
    assert model.loaded is not None
    assert set(model.loaded.new) == {*NEW, "cls", "positions", "encoder.norm.weight", "encoder.norm.bias"}
    assert torch.equal(model.encoder.norm.weight.detach(), torch.ones(WIDTH))


@pytest.mark.parametrize("grid", [2, 3, 5, 7])
@pytest.mark.parametrize("with_global", [True, False])
def test_positions_are_resized_to_another_grid(
    tmp_path: Path, original: ViTModel, grid: int, with_global: bool
) -> None:
    tensors = classic(original)
    whole = tensors["embeddings.position_embeddings"]
    if not with_global:
        tensors["embeddings.position_embeddings"] = whole[:, 1:]
    model = load(write(tmp_path, tensors, config_of(original)), n=11, grid=grid)
    image = whole[0, 1:].view(GRID, GRID, WIDTH).permute(2, 0, 1)[None]
    wanted = interpolate(image, size=(grid, grid), mode="bicubic", align_corners=False, antialias=True)
    for row in range(grid):
        for column in range(grid):
            assert_close(model.positions[1 + row * grid + column].detach(), wanted[0, :, row, column])
    assert_close(model.positions[0].detach(), whole[0, 0] if with_global else torch.zeros(WIDTH))
    assert model.loaded is not None
    assert model.loaded.resized == ("positions",)
    assert "positions" in model.loaded.loaded


def test_positions_without_a_global_one_keep_their_place(tmp_path: Path, original: ViTModel) -> None:
    tensors = classic(original)
    tensors["embeddings.position_embeddings"] = tensors["embeddings.position_embeddings"][:, 1:]
    model = load(write(tmp_path, tensors, config_of(original)))
    assert torch.equal(model.positions[1:].detach(), tensors["embeddings.position_embeddings"][0])
    assert torch.equal(model.positions[0].detach(), torch.zeros(WIDTH))
    assert model.loaded is not None
    assert model.loaded.resized == ()


def test_a_norm_after_pooling_is_left_over(tmp_path: Path, original: ViTModel) -> None:
    write(tmp_path, {**timm(original), "fc_norm.weight": torch.ones(WIDTH), "fc_norm.bias": torch.ones(WIDTH)})
    report = load(tmp_path, heads=HEADS).loaded
    assert report is not None
    assert {"fc_norm.weight", "fc_norm.bias"} <= set(report.left_over)


def test_a_new_model_has_no_report() -> None:
    shape = {"family": "vit", "width": WIDTH, "layers": 1, "heads": HEADS, "feed_forward": INNER}
    assert PatchTransformer("n n -> 1", 4, shape, 2).loaded is None


def test_two_loads_do_not_share_their_weights(tmp_path: Path, original: ViTModel) -> None:
    write(tmp_path, classic(original), config_of(original))
    first, second = load(tmp_path), load(tmp_path)
    randomised(first, seed=9)
    assert not torch.equal(first.positions, second.positions)
    assert torch.equal(second.positions.detach(), classic(original)["embeddings.position_embeddings"][0])
