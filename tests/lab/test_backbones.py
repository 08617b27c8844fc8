import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from probsym.bases import PatchTransformer
from probsym.errors import CheckpointError, DataError
from probsym.lab.backbones import BACKBONES, VITS
from tests.checkpoint_cases import timm, vit, write

pytest.importorskip("transformers")
DATA = Path(os.environ.get("PROBSYM_DATA", ""))
real = pytest.mark.skipif(
    not (DATA / "galileo_nano_encoder.safetensors").is_file(), reason="no encoder in PROBSYM_DATA"
)
ARRAYS = "n 3, n n -> n 2"


@real
def test_the_satellite_encoder_is_loaded_whole() -> None:
    pretrained = BACKBONES["galileo"].pretrained(ARRAYS, 20)
    new = BACKBONES["galileo"].new(ARRAYS, 20)
    assert pretrained.loaded is not None
    assert len(pretrained.loaded.loaded) == 66
    assert not any(name.startswith("encoder") for name in pretrained.loaded.new)
    assert [parameter.shape for parameter in pretrained.parameters()] == [
        parameter.shape for parameter in new.parameters()
    ]
    assert pretrained.encoder.settings == new.encoder.settings
    x, pairs = torch.rand(2, 20, 3), torch.ones(2, 20, 20)
    assert pretrained(x, pairs).isfinite().all()


@pytest.mark.skipif(not (DATA / "deit_tiny_patch16_224.safetensors").is_file(), reason="no encoder in PROBSYM_DATA")
def test_deit_is_the_tiny_vit_with_weights_from_imagenet() -> None:
    pretrained, new, tiny = (
        BACKBONES["deit-ti"].pretrained(ARRAYS, 20),
        BACKBONES["deit-ti"].new(ARRAYS, 20),
        BACKBONES["vit-ti"].new(ARRAYS, 20),
    )
    assert pretrained.encoder.settings == new.encoder.settings == tiny.encoder.settings
    assert pretrained.loaded is not None
    assert pretrained.loaded.new == tuple(name for name, _ in pretrained.named_parameters() if "tokenize" in name)


@pytest.mark.parametrize("name", ["galileo", "minilm", "deit"])
def test_weights_that_are_nowhere_are_asked_for_by_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBSYM_DATA", str(tmp_path))
    monkeypatch.setenv("PROBSYM_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DataError, match=rf"Expected .*{name}.* \(got "):
        BACKBONES["deit-ti" if name == "deit" else name].pretrained(ARRAYS, 20)


def test_weights_of_another_shape_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers  # noqa: PLC0415

    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    bert = transformers.BertModel(transformers.BertConfig(**shape, vocab_size=5), add_pooling_layer=False)
    bert.save_pretrained(tmp_path / "minilm")
    monkeypatch.setenv("PROBSYM_DATA", str(tmp_path))
    with pytest.raises(CheckpointError, match="Expected"):
        BACKBONES["minilm"].pretrained(ARRAYS, 20)


def test_but_for_the_weights_the_pretrained_encoder_is_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers  # noqa: PLC0415

    shape = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    config = transformers.BertConfig(**shape, vocab_size=5)
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.1, 0.1)
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(tmp_path / "minilm")
    monkeypatch.setenv("PROBSYM_DATA", str(tmp_path))
    pretrained, new = BACKBONES["minilm"].pretrained(ARRAYS, 20), BACKBONES["minilm"].new(ARRAYS, 20)
    assert pretrained.encoder.settings == new.encoder.settings
    x, pairs = torch.rand(2, 20, 3), torch.ones(2, 20, 20)
    torch.testing.assert_close(pretrained.train()(x, pairs), pretrained.eval()(x, pairs))


def test_vits_are_those_that_timm_has(tmp_path: Path) -> None:
    names = ("tiny", "small", "base")
    wanted = [f"timm/vit_{name}_patch16_224.augreg_in21k" for name in names]
    assert [BACKBONES[name].weights() for name in ("vit-ti", "vit-s", "vit-b")] == wanted
    shape = {"hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3, "intermediate_size": 768}
    write(tmp_path, timm(vit(**shape), fused=False), {"architecture": "vit_tiny_patch16_224"})
    backbone = replace(BACKBONES["vit-ti"], weights=lambda: tmp_path)
    pretrained, new = backbone.pretrained(ARRAYS, 20), backbone.new(ARRAYS, 20)
    assert pretrained.loaded is not None
    assert not any(name.startswith("encoder") for name in pretrained.loaded.new)
    assert pretrained.encoder.settings == new.encoder.settings
    assert new.encoder.settings.eps == 1e-6


def test_sizes_are_those_of_their_names() -> None:
    counts = {
        name: sum(parameter.numel() for parameter in BACKBONES[name].new(ARRAYS, 20).encoder.parameters())
        for name in (*VITS[:2], "minilm", "galileo")
    }
    assert {name: round(count / 1e6, 1) for name, count in counts.items()} == {
        "vit-ti": 5.3,
        "vit-s": 21.3,
        "minilm": 10.6,
        "galileo": 0.8,
    }
    assert isinstance(BACKBONES["vit-ti"].new(ARRAYS, 20), PatchTransformer)
