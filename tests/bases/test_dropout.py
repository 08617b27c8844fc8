"""Which ways of attending are allowed on a CPU; that the rate is right on a GPU is in test_cuda.py."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.backends import cuda

from probsym.bases import SequenceTransformer
from probsym.bases.dropout import exact_dropout
from probsym.bases.encoders import Encoder, EncoderSettings

ENCODER = {"family": "bert", "width": 8, "layers": 2, "heads": 2, "feed_forward": 16}


def allowed() -> tuple[bool, bool]:
    return cuda.cudnn_sdp_enabled(), cuda.math_sdp_enabled()


@pytest.mark.parametrize(("is_cuda", "rate", "cudnn"), [(True, 0.1, False), (True, 0.0, True), (False, 0.1, True)])
def test_cudnn_is_ruled_out_where_it_would_drop(is_cuda: bool, rate: float, cudnn: bool) -> None:
    x: Any = SimpleNamespace(is_cuda=is_cuda)
    before = allowed()
    with exact_dropout(x, rate):
        assert allowed() == (cudnn, True)
    assert allowed() == before


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The rates that are asked for, with what a GPU is given."""
    rates: list[float] = []

    def noted(x: torch.Tensor, rate: float) -> Any:
        rates.append(rate)
        return exact_dropout(SimpleNamespace(is_cuda=True), rate)  # type: ignore[arg-type]

    for place in ("encoders", "sequence_transformer"):
        monkeypatch.setattr(f"probsym.bases.{place}.exact_dropout", noted)
    return rates


@pytest.mark.parametrize("checkpointing", [False, True])
def test_encoders_ask_for_their_rate_in_training(checkpointing: bool, seen: list[float]) -> None:
    encoder = Encoder(EncoderSettings.of({**ENCODER, "attention_dropout": 0.25}), checkpointing)
    tokens = torch.randn(2, 5, 8, requires_grad=True)
    encoder(tokens).sum().backward()
    assert seen == (4 if checkpointing else 2) * [0.25]  # layers that are computed again are so in the same way
    encoder.eval()(tokens)
    assert seen[-2:] == [0.0, 0.0]


def test_sequences_of_many_tokens_ask_for_their_rate_in_training(seen: list[float]) -> None:
    model = SequenceTransformer("n 3 -> 2", n=100, width=8, layers=1, heads=2, dropout=0.25)
    x = torch.randn(2, 100, 3)
    model(x)
    model.eval()(x)
    assert seen == [0.25, 0.0]
