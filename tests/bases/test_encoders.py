import sys
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import BertConfig, BertModel, GPT2Config, ViTConfig, ViTModel

from probsym.bases import EncoderSettings
from probsym.bases.encoders import Encoder
from probsym.errors import DependencyError, ProbsymError, RangeError
from tests.bases.cases import TINY, TOLERANCE, both_dtypes, count, gradients, normal, scrambled

FAMILIES = ("vit", "bert")
SHAPE: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}


def build(family: str, dtype: torch.dtype = torch.float64, checkpointing: bool = False, **options: Any) -> Encoder:
    torch.manual_seed(0)
    encoder = Encoder(EncoderSettings.of({**TINY, "family": family, **options}), checkpointing).to(dtype)
    scrambled(encoder)
    return encoder


@both_dtypes
@pytest.mark.parametrize(
    "options", [{}, {"layer_norm_eps": 0.1}, {"hidden_act": "relu"}, {"hidden_act": "gelu_new"}, {"qkv_bias": False}]
)
def test_agrees_with_a_vit(options: dict[str, Any], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = ViTModel(ViTConfig(**SHAPE, **options, image_size=8, patch_size=4), add_pooling_layer=False).to(dtype)
    scrambled(model.eval())
    encoder = Encoder(EncoderSettings.of(model.config)).to(dtype).eval()
    encoder.layers.load_state_dict(model.layers.state_dict())
    encoder.norm.load_state_dict(model.layernorm.state_dict())
    pixels = normal(2, 3, 8, 8, dtype=dtype)
    tokens = model.embeddings(pixels).detach().requires_grad_()
    assert_close(encoder(tokens), model(pixels).last_hidden_state, **TOLERANCE[dtype])
    hidden = tokens
    for layer in model.layers:
        hidden = layer(hidden)
    (got,), (want,) = gradients(encoder(tokens), [tokens]), gradients(model.layernorm(hidden), [tokens])
    assert_close(got, want, **TOLERANCE[dtype])


@both_dtypes
@pytest.mark.parametrize("options", [{}, {"layer_norm_eps": 0.1}, {"hidden_act": "relu"}])
def test_agrees_with_a_bert(options: dict[str, Any], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    config = BertConfig(**SHAPE, **options, vocab_size=7, max_position_embeddings=9)
    model = BertModel(config, add_pooling_layer=False).to(dtype).eval()
    scrambled(model)
    encoder = Encoder(EncoderSettings.of(config)).to(dtype).eval()
    encoder.layers.load_state_dict(model.encoder.layer.state_dict())
    encoder.embedding_norm.load_state_dict(model.embeddings.LayerNorm.state_dict())
    words = normal(2, 5, 32, dtype=dtype).requires_grad_()
    places = model.embeddings.position_embeddings.weight[:5] + model.embeddings.token_type_embeddings.weight[0]
    output, wanted = encoder(words + places), model(inputs_embeds=words).last_hidden_state
    assert_close(output, wanted, **TOLERANCE[dtype])
    assert_close(gradients(output, [words]), gradients(wanted, [words]), **TOLERANCE[dtype])


@pytest.mark.parametrize("family", FAMILIES)
def test_has_no_mask_and_no_positions(family: str) -> None:
    encoder, tokens, p = build(family), normal(2, 5, 32), torch.tensor([3, 1, 4, 0, 2])
    assert_close(encoder(tokens[:, p]), encoder(tokens)[:, p])


@both_dtypes
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("family", FAMILIES)
def test_checkpointing_changes_nothing(family: str, dropout: float, dtype: torch.dtype) -> None:
    results = []
    for checkpointing in (False, True):
        encoder = build(family, dtype, checkpointing, dropout=dropout, attention_dropout=dropout)
        tokens = normal(2, 5, 32, dtype=dtype).requires_grad_()
        torch.manual_seed(3)
        y = encoder(tokens)
        results.append([y, *gradients(y, [tokens, *encoder.parameters()])])
    assert_close(results[1], results[0], rtol=0, atol=0)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("training", [True, False])
def test_checkpointing_computes_layers_again_in_training_only(training: bool, family: str) -> None:
    encoder, calls = build(family, checkpointing=True).train(training), []
    encoder.layers[0].register_forward_pre_hook(lambda *_: calls.append(1))
    gradients(encoder(normal(2, 5, 32)), encoder.parameters())
    assert len(calls) == (2 if training else 1)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"attention_dropout": 0.5}], ids=str)
def test_dropout_only_in_training(options: dict[str, float], family: str) -> None:
    encoder, plain, tokens = build(family, **options), build(family), normal(2, 5, 32)
    assert not torch.isclose(encoder(tokens), encoder(tokens)).all()
    assert torch.equal(encoder.eval()(tokens), plain(tokens))


@pytest.mark.parametrize("family", FAMILIES)
def test_dropout_reaches_the_tokens_themselves(family: str) -> None:
    seen: list[Tensor] = []
    encoder = build(family, dropout=0.5)
    encoder.layers[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    encoder(normal(20, 5, 32))
    assert 0.4 < (seen[0] == 0).double().mean() < 0.6


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_bfloat16(family: str, checkpointing: bool) -> None:
    encoder, tokens = build(family, torch.float32, checkpointing), normal(2, 5, 32, dtype=torch.float32)
    wanted = encoder(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        output = encoder(tokens)
    assert_close(output.float(), wanted, rtol=0.05, atol=0.08)
    assert all(gradient.isfinite().all() for gradient in gradients(output, encoder.parameters()))
    encoder.to(torch.bfloat16)
    output = encoder(tokens.to(torch.bfloat16))
    assert output.dtype == torch.bfloat16
    assert_close(output.float(), wanted, rtol=0.05, atol=0.08)
    assert all(gradient.isfinite().all() for gradient in gradients(output, encoder.parameters()))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("vit-ti", (192, 12, 3, 768)), ("vit-s", (384, 12, 6, 1536)), ("vit-b", (768, 12, 12, 3072))],
)
def test_known_shapes(name: str, wanted: tuple[int, ...]) -> None:
    settings = EncoderSettings.of(name)
    assert (settings.family, settings.width, settings.layers, settings.heads, settings.feed_forward) == ("vit", *wanted)
    width, layers, _, inner = wanted
    with torch.device("meta"):
        encoder = Encoder(settings)
    layer = 4 * (width**2 + width) + 2 * width * inner + inner + width + 4 * width
    assert count(encoder) == layers * layer + 2 * width


def test_settings_come_from_configurations() -> None:
    vit = ViTConfig(**SHAPE, hidden_act="relu", layer_norm_eps=1e-6, qkv_bias=False, hidden_dropout_prob=0.2)
    assert EncoderSettings.of(vit) == EncoderSettings("vit", 32, 2, 4, 48, "relu", 1e-6, False, 0.2, 0.0)
    bert = BertConfig(**SHAPE, attention_probs_dropout_prob=0.3)
    assert EncoderSettings.of(bert) == EncoderSettings("bert", 32, 2, 4, 48, "gelu", 1e-12, True, 0.1, 0.3)
    config = {**SHAPE, "model_type": "xlm-roberta", "position_embedding_type": "absolute"}
    assert EncoderSettings.from_config(config).family == "bert"


def test_settings_make_a_round_trip() -> None:
    settings = EncoderSettings.of({**TINY, "eps": 1e-6, "dropout": 0.1})
    assert EncoderSettings.of(settings) is settings
    assert EncoderSettings.of(settings.described()) == settings
    assert settings.resized(layers=5) == EncoderSettings.of({**TINY, "eps": 1e-6, "dropout": 0.1, "layers": 5})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("vit-x", r"an encoder among vit-ti, vit-s, vit-b, vit-l \(got 'vit-x'\)"),
        ({"family": "vit"}, r"an encoder to be described by \['activation', .*\] \(got \['family'\]\)"),
        ({**TINY, "depth": 3}, r"an encoder to be described by .* \(got \['depth', "),
        (None, r"an encoder as a name, a mapping or a configuration \(got NoneType\)"),
        (768, r"an encoder as a name, a mapping or a configuration \(got int\)"),
        ({**TINY, "family": "gpt"}, r"family to be one of vit, bert \(got 'gpt'\)"),
        ({**TINY, "family": None}, r"family to be one of vit, bert \(got None\)"),
        ({**TINY, "heads": 5}, r"whole numbers of 1 or more, and heads that divide the width \(got .*'heads': 5"),
        ({**TINY, "heads": 0}, r"whole numbers of 1 or more, .*'heads': 0"),
        ({**TINY, "layers": 0}, r"whole numbers of 1 or more, .*'layers': 0"),
        ({**TINY, "width": 32.0}, r"whole numbers of 1 or more, .*'width': 32.0"),
        ({**TINY, "feed_forward": "64"}, r"whole numbers of 1 or more, .*'feed_forward': '64'"),
        ({**TINY, "family": "bert", "qkv_bias": False}, r"an encoder of the family bert to have biases"),
        ({**TINY, "dropout": 1.0}, r"dropout in \[0, 1\) \(got 1.0 and 0.0\)"),
        ({**TINY, "attention_dropout": -0.1}, r"dropout in \[0, 1\) \(got 0.0 and -0.1\)"),
        (GPT2Config(), r"model_type to be one of vit, bert, roberta, xlm-roberta \(got 'gpt2'\)"),
    ],
    ids=lambda value: None,
)
def test_refuses_settings(given: Any, message: str) -> None:
    with pytest.raises(RangeError, match=r"^Expected " + message):
        EncoderSettings.of(given)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, r"model_type to be one of vit, bert, roberta, xlm-roberta \(got None\)"),
        ({"model_type": "deit"}, r"model_type to be one of .* \(got 'deit'\)"),
        ({"model_type": "vit", "hidden_size": 3}, r"a configuration with 'num_hidden_layers' \(got \['hidden_size', "),
        (
            {**SHAPE, "model_type": "bert", "position_embedding_type": "relative_key"},
            r"absolute positions \(got 'relative_key'\)",
        ),
        ({**SHAPE, "model_type": "vit", "hidden_size": "32"}, r"whole numbers of 1 or more"),
    ],
)
def test_refuses_configurations(config: dict[str, Any], message: str) -> None:
    with pytest.raises(RangeError, match=r"^Expected " + message):
        EncoderSettings.from_config(config)


@pytest.mark.parametrize(
    "wrong",
    [
        {"activation": "swishy"},
        {"activation": None},
        {"eps": -1.0},
        {"eps": "small"},
        {"dropout": None},
        {"attention_dropout": "0.1"},
        {"qkv_bias": 3},
    ],
    ids=str,
)
def test_refuses_hostile_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(ProbsymError, match=r"^Expected "):
        Encoder(EncoderSettings.of({**TINY, **wrong}))


def test_takes_a_whole_number_for_eps() -> None:
    Encoder(EncoderSettings.of({**TINY, "eps": 1}))


def test_refuses_names_that_are_no_text() -> None:
    with pytest.raises(RangeError, match=r"^Expected an encoder to be described by "):
        EncoderSettings.of({**TINY, 3: 4})


def test_says_which_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(DependencyError, match=r"^Expected the transformers library, 5.17 or later, .* \(got none\)"):
        Encoder(EncoderSettings.of(TINY))
