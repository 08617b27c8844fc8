"""Checkpoints that must be refused, each with a message that says what was expected and what came."""

import contextlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from torch import Tensor
from transformers import BertModel, ViTModel

from probsym.bases import PatchTransformer
from probsym.bases.checkpoints import read_pretrained
from probsym.errors import CheckpointError
from tests.checkpoint_cases import EPS, HEADS, LAYERS, WIDTH, bert, classic, config_of, roberta, state, timm, vit, write

Tensors = dict[str, Tensor]
VIT = "encoder.layer.1.intermediate.dense.weight"
POSITIONS, CLS = "embeddings.position_embeddings", "embeddings.cls_token"
BERT_POSITIONS, BERT_TYPES = "embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight"


@pytest.fixture(autouse=True)
def no_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt("unpickled")

    for owner, name in ((torch, "load"), (pickle, "load"), (pickle, "loads"), (pickle, "Unpickler")):
        monkeypatch.setattr(owner, name, refuse)


@pytest.fixture(scope="module")
def a_vit() -> ViTModel:
    return vit()


@pytest.fixture(scope="module")
def a_bert() -> BertModel:
    return bert()


def load(source: Any, **options: Any) -> PatchTransformer:
    return PatchTransformer.from_pretrained(source, "n n -> 2", **{"n": 9, "grid": 4, **options})


def label(value: Any) -> str:
    """What a test changes, in short."""
    if not isinstance(value, dict):
        return ""
    name, x = next(iter(value.items()))
    return f"{name[-40:]} {tuple(x.shape)} {x.dtype}" if isinstance(x, Tensor) else f"{name[-40:]} {x}"


def changed(tensors: Tensors, **changes: Tensor | None) -> Tensors:
    """With some tensors exchanged, added, or left out where None."""
    return {name: x for name, x in (tensors | changes).items() if x is not None}


# ----------------------------------------------------------------------------------------------- files and folders


@pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 0.5, 0.999])
def test_a_truncated_file(tmp_path: Path, a_vit: ViTModel, share: float) -> None:
    path = write(tmp_path, classic(a_vit), config_of(a_vit)) / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    for source in (tmp_path, path):
        with pytest.raises(CheckpointError, match=r"model.safetensors to be a whole safetensors file \(got: "):
            load(source)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.ckpt"])
def test_pickled_files_directly_or_alone_in_a_folder(tmp_path: Path, name: str) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / name)
    with pytest.raises(CheckpointError, match=rf"pickled ones can run code \(got {name}\)"):
        load(tmp_path / name)
    with pytest.raises(CheckpointError, match=rf"model.safetensors in .* pickled files can run code \(got {name}\)"):
        load(tmp_path)


def test_a_pickle_renamed(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="to be a whole safetensors file"):
        load(tmp_path)


@pytest.mark.parametrize("source", ["/no/such/folder", "absent/folder/model.safetensors", "absent.bin"])
def test_a_path_that_does_not_exist(source: str) -> None:
    with pytest.raises(CheckpointError, match=r"a file, a folder or a hub id \(got '.*', which does not exist\)"):
        load(source)


def test_a_sharded_index_that_leads_outside(tmp_path: Path, a_vit: ViTModel) -> None:
    write(tmp_path, classic(a_vit), config_of(a_vit))
    (tmp_path / "in").mkdir()
    index = {"weight_map": dict.fromkeys(classic(a_vit), "../model.safetensors")}
    (tmp_path / "in" / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match=r"to name files beside it \(got \['../model.safetensors'\]\)"):
        load(tmp_path / "in", heads=HEADS)


def test_a_hub_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> str:
        raise OSError("no network")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)
    with pytest.raises(
        CheckpointError, match=r"find (model.safetensors|config.json) of 'a/b' on the hub \(got: no network\)"
    ):
        load("a/b")


# -------------------------------------------------------------------------------------------------------- tensors


@pytest.mark.parametrize("i", [0, LAYERS - 1])
@pytest.mark.parametrize(
    "part",
    [
        "attention.attention.query.weight",
        "attention.attention.key.bias",
        "attention.output.dense.weight",
        "intermediate.dense.bias",
        "output.dense.weight",
        "layernorm_before.weight",
        "layernorm_after.bias",
    ],
)
@pytest.mark.parametrize("fault", ["missing", "shape", "transposed", "dtype", "NaN", "infinity"])
def test_any_tensor_of_any_layer(tmp_path: Path, a_vit: ViTModel, i: int, part: str, fault: str) -> None:
    name = f"encoder.layer.{i}.{part}"
    x = classic(a_vit)[name]
    wrong = {
        "missing": lambda: None,
        "shape": lambda: torch.cat([x, x[:1]]),
        "transposed": lambda: x.T.contiguous() if x.dim() == 2 and x.shape[0] != x.shape[1] else x[None],
        "dtype": lambda: x.to(torch.int32),
        "NaN": lambda: torch.where(torch.arange(x.numel()).view(x.shape) == 3, torch.nan, x),
        "infinity": lambda: torch.where(torch.arange(x.numel()).view(x.shape) == 3, -torch.inf, x),
    }[fault]()
    write(tmp_path, changed(classic(a_vit), **{name: wrong}), config_of(a_vit))
    with pytest.raises(CheckpointError, match=r"^Expected .* \(got .*\)$") as caught:
        load(tmp_path)
    if fault in ("NaN", "infinity"):
        assert "finite weights" in str(caught.value)
    elif i or not part.startswith(("layernorm_before", "intermediate")):  # those of layer 0 say what the width is
        assert f"of layer {i} in {tmp_path}" in str(caught.value) or "qkv_bias" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {VIT: torch.ones(40, 25)},
            r"up.weight of layer 1 in .* floating \(40, 24\) \(got \(40, 25\), torch.float32\)",
        ),
        ({VIT: torch.ones(40, 24).int()}, r"floating \(40, 24\) \(got \(40, 24\), torch.int32\)"),
        ({VIT: None}, r"Expected up.weight of layer 1 in .* \(got none\)"),
        ({VIT: torch.ones(())}, r"floating \(40, 24\) \(got \(\), torch.float32\)"),
        ({"encoder.layer.1.ls1.gamma": torch.ones(WIDTH)}, r"those of a .* \(got encoder.layer.1.ls1.gamma, 1 such\)"),
        ({"encoder.layer.0.layernorm_before.weight": torch.ones(())}, "^Expected"),
        ({"encoder.layer.0.layernorm_before.weight": torch.ones(0)}, "^Expected"),
        ({"encoder.layer.0.intermediate.dense.weight": torch.ones(())}, "^Expected"),
        ({"layernorm.weight": torch.ones(25)}, r"norm.weight in .* to be floating \(24,\) \(got \(25,\)"),
        (
            {"layernorm.bias": torch.full((WIDTH,), torch.nan)},
            r"finite weights in .* \(got NaN or infinity in norm.bias",
        ),
        ({CLS: torch.ones(1, 1, 25)}, r"cls of .* to have 24 numbers \(got \(1, 1, 25\)\)"),
        ({CLS: torch.full((1, 1, WIDTH), torch.inf)}, r"finite weights in .* \(got NaN or infinity in cls\)"),
        ({CLS: torch.ones(1, 1, WIDTH).long()}, "^Expected"),
        ({CLS: torch.ones(1, 1, WIDTH, dtype=torch.complex64)}, "^Expected"),
        ({POSITIONS: torch.ones(1, 17, 25)}, r"positions of width 24 in .* \(got \(1, 17, 25\)\)"),
        (
            {POSITIONS: torch.full((1, 17, WIDTH), torch.nan)},
            r"finite weights in .* \(got NaN or infinity in positions",
        ),
        ({POSITIONS: torch.ones(1, 18, WIDTH)}, r"positions of a square of patches in .* \(got 18\)"),
        ({POSITIONS: torch.ones(1, 17, WIDTH).long()}, "^Expected"),
        ({POSITIONS: torch.ones(())}, "^Expected"),
        ({POSITIONS: torch.ones(1, 0, WIDTH)}, "^Expected"),
        ({f"encoder.layer.{'9' * 5000}.output.dense.bias": torch.ones(WIDTH)}, "^Expected"),
        ({"encoder.layer.99999.output.dense.bias": torch.ones(WIDTH)}, r"layer 3 in .* \(got none\)"),
        ({VIT: torch.ones(40, 24).to(torch.float8_e4m3fn)}, None),
    ],
    ids=label,
)
def test_tensors_of_a_vit(tmp_path: Path, a_vit: ViTModel, changes: dict[str, Any], message: str | None) -> None:
    write(tmp_path, changed(classic(a_vit), **changes))
    if message is None:  # either is fine, but no other error
        with contextlib.suppress(CheckpointError):
            load(tmp_path, heads=HEADS, layer_norm_eps=EPS)
        return
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path, heads=HEADS, layer_norm_eps=EPS)


@pytest.mark.parametrize("gone", [0, 1])
def test_a_whole_layer_that_is_missing(tmp_path: Path, a_vit: ViTModel, gone: int) -> None:
    write(tmp_path, {name: x for name, x in classic(a_vit).items() if f"layer.{gone}." not in name})
    with pytest.raises(CheckpointError, match=rf"{'first layer' if gone == 0 else 'layer 1'} .*\(got no"):
        load(tmp_path, heads=HEADS)


def test_a_last_layer_that_is_missing_contradicts_the_configuration(tmp_path: Path, a_vit: ViTModel) -> None:
    write(tmp_path, {name: x for name, x in classic(a_vit).items() if "layer.2." not in name}, config_of(a_vit))
    with pytest.raises(CheckpointError, match=r"layers 3 in .* as its config.json says \(got 2\)"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["ls1.gamma", "ls2.gamma", "attn.q_norm.weight", "attn.relative_position_bias_table"])
def test_timm_layers_with_more_in_them(tmp_path: Path, a_vit: ViTModel, name: str) -> None:
    write(tmp_path, changed(timm(a_vit), **{f"blocks.{i}.{name}": torch.ones(WIDTH) for i in range(LAYERS)}))
    with pytest.raises(CheckpointError, match=rf"those of a timm ViT \(got blocks.0.{name}, 3 such\)"):
        load(tmp_path, heads=HEADS)


@pytest.mark.parametrize("kind", ["weight", "bias"])
def test_a_norm_before_the_layers(tmp_path: Path, a_vit: ViTModel, kind: str) -> None:
    write(tmp_path, changed(timm(a_vit), **{f"norm_pre.{kind}": torch.ones(WIDTH)}))
    with pytest.raises(CheckpointError, match=rf"no norm before the first layer of .* \(got norm_pre.{kind}\)"):
        load(tmp_path, heads=HEADS)


def test_a_layer_under_two_numbers_that_are_one(tmp_path: Path, a_vit: ViTModel) -> None:
    write(tmp_path, changed(timm(a_vit), **{"blocks.01.norm1.bias": torch.ones(WIDTH)}))
    with pytest.raises(CheckpointError, match=r"layers of .* to be counted 0, 1, 2, ... \(got 01\)"):
        load(tmp_path, heads=HEADS)


@pytest.mark.parametrize("rows", [2 * WIDTH, 3 * WIDTH + 3])
def test_fused_queries_of_another_size(tmp_path: Path, a_vit: ViTModel, rows: int) -> None:
    write(tmp_path, changed(timm(a_vit), **{"blocks.2.attn.qkv.weight": torch.ones(rows, WIDTH)}))
    with pytest.raises(CheckpointError, match=rf"layer 2 of .* to have 72 rows in qkv \(got {rows}\)"):
        load(tmp_path, heads=HEADS)


@pytest.mark.parametrize("shape", [(), (3 * WIDTH,), (3 * WIDTH, WIDTH, 1), (0, WIDTH)], ids=str)
def test_fused_queries_of_another_rank(tmp_path: Path, a_vit: ViTModel, shape: tuple[int, ...]) -> None:
    write(tmp_path, changed(timm(a_vit), **{"blocks.1.attn.qkv.weight": torch.ones(shape)}))
    with pytest.raises(CheckpointError, match=r"layer 1 .* \(got "):
        load(tmp_path, heads=HEADS)


def test_queries_both_fused_and_apart(tmp_path: Path, a_vit: ViTModel) -> None:
    write(tmp_path, changed(timm(a_vit), **{"blocks.1.attn.q.weight": torch.ones(WIDTH, WIDTH)}))
    with pytest.raises(CheckpointError, match="layer 1"):
        load(tmp_path, heads=HEADS)


def test_one_bias_of_three(tmp_path: Path, a_vit: ViTModel) -> None:
    write(tmp_path, changed(timm(a_vit, fused=False), **{f"blocks.{i}.attn.k.bias": None for i in range(LAYERS)}))
    with pytest.raises(CheckpointError, match=r"Expected k.bias of layer 0 in .* \(got none\)"):
        load(tmp_path, heads=HEADS)


def test_a_bias_that_only_a_later_layer_has(tmp_path: Path) -> None:
    tensors = classic(vit(qkv_bias=False))
    write(tmp_path, changed(tensors, **{"encoder.layer.2.attention.attention.query.bias": torch.ones(WIDTH)}))
    with pytest.raises(CheckpointError, match=r"Expected no q.bias in layer 2 of .* \(got one\)"):
        load(tmp_path, heads=HEADS)


def test_the_same_name_with_and_without_a_prefix(tmp_path: Path, a_vit: ViTModel) -> None:
    """Two tensors for one place: which of them would it be?"""
    write(tmp_path, changed(classic(a_vit), **{"vit.layernorm.weight": torch.ones(WIDTH)}))
    with pytest.raises(CheckpointError, match=r"layernorm.weight"):
        load(tmp_path, heads=HEADS)


@pytest.mark.parametrize("tensors", [{}, {"weight": torch.ones(3)}, {"layers.0.attention.weight": torch.ones(3)}])
def test_a_layout_that_is_not_known(tmp_path: Path, tensors: Tensors) -> None:
    write(tmp_path, tensors)
    with pytest.raises(CheckpointError, match=r"laid out as one of: transformers ViT, .* BERT \(got "):
        load(tmp_path, heads=HEADS)


# ------------------------------------------------------------------------------------------------------------ BERT


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({BERT_POSITIONS: torch.ones(16, WIDTH)}, r"Expected 17 positions in .* for a grid of 4 \(got 16\)"),
        ({BERT_POSITIONS: torch.ones(30, 25)}, r"positions of width 24 in .* \(got \(30, 25\)\)"),
        ({BERT_POSITIONS: torch.ones(30, WIDTH).long()}, "^Expected"),
        ({BERT_TYPES: torch.ones(2, 25)}, "^Expected"),
        ({BERT_TYPES: torch.ones(2, 1)}, "^Expected"),
        ({BERT_TYPES: torch.ones(0, WIDTH)}, "^Expected"),
        ({BERT_TYPES: torch.ones(())}, "^Expected"),
        ({BERT_TYPES: torch.full((2, WIDTH), torch.nan)}, "finite weights"),
        ({"embeddings.LayerNorm.weight": torch.ones(25)}, r"embedding_norm.weight in .* \(24,\) \(got \(25,\)"),
        ({"encoder.layer.2.output.LayerNorm.bias": None}, r"norm_2.bias of layer 2 in .* \(got none\)"),
        ({"encoder.layer.0.attention.self.query.bias": None}, "qkv_bias"),
        ({"encoder.layer.0.crossattention.self.query.weight": torch.ones(3)}, r"those of a transformers BERT \(got "),
    ],
    ids=label,
)
def test_tensors_of_a_bert(tmp_path: Path, a_bert: BertModel, changes: dict[str, Any], message: str) -> None:
    write(tmp_path, changed(state(a_bert), **changes))
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path, heads=HEADS)


def test_a_bert_with_too_few_positions_after_the_padding(tmp_path: Path) -> None:
    model = roberta(max_position_embeddings=18)
    write(tmp_path, state(model), config_of(model))
    with pytest.raises(CheckpointError, match=r"Expected 17 positions in .* \(got 16\)"):
        load(tmp_path)
    assert load(tmp_path, grid=3).positions.shape == (10, WIDTH)


def test_a_roberta_is_known_by_its_prefix_where_no_configuration_says(tmp_path: Path) -> None:
    """Positions from the wrong place on would be a silent error; a refusal is as good."""
    model = roberta()
    write(tmp_path, {f"roberta.{name}": x for name, x in state(model).items()})
    try:
        positions = load(tmp_path, heads=HEADS).positions.detach()
    except CheckpointError:
        return
    wanted = model.embeddings.position_embeddings.weight[2:19] + model.embeddings.token_type_embeddings.weight
    torch.testing.assert_close(positions, wanted.detach())


# --------------------------------------------------------------------------------------------------- configuration


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 48}, r"width 48 in .* as its config.json says \(got 24\)"),
        ({"num_hidden_layers": 4}, r"layers 4 in .* \(got 3\)"),
        ({"intermediate_size": 41}, r"feed_forward 41 in .* \(got 40\)"),
        ({"qkv_bias": False}, r"qkv_bias False in .* \(got True\)"),
        ({"model_type": "bert"}, r"family bert in .* \(got vit\)"),
        ({"model_type": "llama"}, r"model_type to be one of vit, bert, .* \(got 'llama'\), in "),
        ({"num_attention_heads": 5}, r"heads that divide the width \(got .*'heads': 5"),
        ({"num_attention_heads": 0}, r"^Expected"),
        ({"num_attention_heads": -4}, r"^Expected"),
        ({"num_attention_heads": "4"}, r"^Expected"),
        ({"num_attention_heads": 4.0}, r"^Expected"),
        ({"num_attention_heads": None}, r"^Expected"),
        ({"hidden_size": "24"}, r"^Expected"),
        ({"hidden_size": [24]}, r"^Expected"),
        ({"position_embedding_type": "rotary"}, r"Expected absolute positions \(got 'rotary'\), in "),
        ({"hidden_dropout_prob": 1.5}, r"dropout in \[0, 1\)"),
        ({"hidden_dropout_prob": "0.1"}, r"^Expected"),
        ({"attention_probs_dropout_prob": None}, r"^Expected"),
        ({"layer_norm_eps": "small"}, r"^Expected"),
        ({"layer_norm_eps": -1.0}, r"^Expected"),
        ({"layer_norm_eps": float("nan")}, r"^Expected"),
        ({"layer_norm_eps": None}, r"^Expected"),
        ({"hidden_act": "no_such"}, r"^Expected"),
        ({"hidden_act": {"a": 1}}, r"^Expected"),
        ({"model_type": ["vit"]}, r"^Expected"),
        ({"model_type": None}, r"^Expected"),
        ({"qkv_bias": "yes"}, r"^Expected"),
    ],
    ids=label,
)
def test_configurations_that_contradict_or_make_no_sense(
    tmp_path: Path, a_vit: ViTModel, changes: dict[str, Any], message: str
) -> None:
    write(tmp_path, classic(a_vit), config_of(a_vit, **changes))
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path)


@pytest.mark.parametrize("gone", ["hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers"])
def test_a_configuration_without_a_size(tmp_path: Path, a_vit: ViTModel, gone: str) -> None:
    config = config_of(a_vit)
    del config[gone]
    write(tmp_path, classic(a_vit), config)
    with pytest.raises(CheckpointError, match=f"Expected a configuration with '{gone}'"):
        load(tmp_path)


@pytest.mark.parametrize("pad", [None, "1", 1.5, -9, [1], 10**30], ids=str)
def test_paddings_that_make_no_sense(tmp_path: Path, pad: Any) -> None:
    model = roberta()
    write(tmp_path, state(model), config_of(model, pad_token_id=pad))
    with pytest.raises(CheckpointError, match=r"^Expected"):
        load(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "{'a': 1}"])
def test_a_broken_configuration(tmp_path: Path, a_vit: ViTModel, text: str) -> None:
    write(tmp_path, classic(a_vit), text)
    with pytest.raises(CheckpointError, match=r"config.json to (be JSON|hold an object) \(got"):
        load(tmp_path, heads=HEADS)


def test_heads_that_nobody_knows(tmp_path: Path, a_vit: ViTModel) -> None:
    write(tmp_path, classic(a_vit))
    with pytest.raises(CheckpointError, match=r"Expected heads=, which the weights of .* do not show \(got none\)"):
        load(tmp_path)
    write(tmp_path, timm(a_vit), {"architecture": "swin_base_patch4"})
    with pytest.raises(CheckpointError, match="Expected heads="):
        load(tmp_path)


def test_heads_that_contradict_the_configuration(tmp_path: Path, a_vit: ViTModel) -> None:
    write(tmp_path, classic(a_vit), config_of(a_vit))
    assert load(tmp_path, heads=HEADS).encoder.settings.heads == HEADS
    with pytest.raises(CheckpointError, match=r"Expected heads 4 in .* as its config.json says \(got 2\)"):
        load(tmp_path, heads=2)


@pytest.mark.parametrize("heads", [5, 48, -1, 0, 4.0, "4", True])
@pytest.mark.parametrize("with_config", [True, False])
def test_heads_that_do_not_divide_or_are_none(tmp_path: Path, a_vit: ViTModel, heads: Any, with_config: bool) -> None:
    write(tmp_path, classic(a_vit), config_of(a_vit) if with_config else None)
    with pytest.raises(CheckpointError, match=r"^Expected"):
        load(tmp_path, heads=heads)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 48}, r"an encoder with width 48 \(got 24 in "),
        ({"layers": 12}, r"layers 12 \(got 3 in "),
        ({"heads": 2}, r"heads 2 \(got 4 in "),
        ({"feed_forward": 96}, r"feed_forward 96 \(got 40 in "),
        ({"family": "bert"}, r"family bert \(got vit in "),
        ({"activation": "relu"}, r"activation relu \(got gelu in "),
        ({"qkv_bias": False}, r"qkv_bias False \(got True in "),
    ],
)
def test_another_shape_than_expected(tmp_path: Path, a_vit: ViTModel, change: dict[str, Any], message: str) -> None:
    write(tmp_path, classic(a_vit), config_of(a_vit))
    shape = {"family": "vit", "width": WIDTH, "layers": LAYERS, "heads": HEADS, "feed_forward": 40}
    assert load(tmp_path, encoder=shape).loaded is not None
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path, encoder={**shape, **change})
    with pytest.raises(CheckpointError, match=r"width 768 \(got 24"):
        load(tmp_path, encoder="vit-b")


# ------------------------------------------------------------------------------------------------ what is read


@pytest.mark.parametrize("prefix", ["module.", "model.", "module.vit."])
def test_prefixes_in_a_row(tmp_path: Path, a_vit: ViTModel, prefix: str) -> None:
    write(tmp_path, classic(a_vit, prefix), config_of(a_vit))
    encoder = read_pretrained(tmp_path)
    assert encoder.layout == "transformers ViT"
    assert len(encoder.layers) == 16 * LAYERS + 2


def test_what_is_read_is_described(tmp_path: Path, a_vit: ViTModel) -> None:
    encoder = read_pretrained(write(tmp_path, timm(a_vit)), heads=HEADS, layer_norm_eps=EPS)
    assert encoder.source == str(tmp_path)
    assert (encoder.settings.family, encoder.settings.width, encoder.settings.layers) == ("vit", WIDTH, LAYERS)
    assert encoder.cls is not None
    assert encoder.positions is not None
    assert (encoder.cls.shape, encoder.positions.shape, encoder.global_position) == ((WIDTH,), (17, WIDTH), True)
    assert torch.equal(
        encoder.layers["layers.1.attention.v_proj.weight"], state(a_vit)["layers.1.attention.v_proj.weight"]
    )


def test_refusals_leave_nothing_behind(tmp_path: Path, a_vit: ViTModel) -> None:
    folder = write(tmp_path, classic(a_vit))
    before = sorted(file.name for file in folder.iterdir())
    with pytest.raises(CheckpointError):
        load(folder)
    assert sorted(file.name for file in folder.iterdir()) == before


Mutation = Callable[[Tensors], Tensors]


@pytest.mark.parametrize(
    "mutation",
    [
        lambda tensors: {name: x[None] for name, x in tensors.items()},
        lambda tensors: {name: x.reshape(-1) for name, x in tensors.items()},
        lambda tensors: {name: x[:0] for name, x in tensors.items()},
        lambda tensors: {name: torch.zeros(()) for name, x in tensors.items()},
        lambda tensors: {name: x.bool() for name, x in tensors.items()},
        lambda tensors: {name: x.to(torch.complex64) for name, x in tensors.items()},
        lambda tensors: {name: x for name, x in tensors.items() if name.endswith("query.weight")},
        lambda tensors: {name: x for name, x in tensors.items() if "query" in name or "layernorm" in name},
        lambda tensors: {name.replace("layer.1", "layer.7"): x for name, x in tensors.items()},
        lambda tensors: {name.upper(): x for name, x in tensors.items()},
        lambda tensors: {f"x.{name}": x for name, x in tensors.items()},
    ],
    ids=range(11),
)
@pytest.mark.parametrize("kind", ["vit", "bert"])
def test_files_wrong_throughout(
    tmp_path: Path, a_vit: ViTModel, a_bert: BertModel, mutation: Mutation, kind: str
) -> None:
    tensors = classic(a_vit) if kind == "vit" else state(a_bert)
    write(tmp_path, mutation(tensors))
    with pytest.raises(CheckpointError, match=r"^Expected"):
        load(tmp_path, heads=HEADS)
