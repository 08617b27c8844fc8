"""Which ways of attending are allowed where; that the rate is right on a GPU is in test_cuda.py."""

from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.backends import cuda
from torch.nn.attention import SDPBackend, sdpa_kernel

from probsym.bases import SequenceTransformer, dropout, sequence_transformer
from probsym.bases.dropout import without_cudnn
from probsym.bases.encoders import Encoder, EncoderSettings

ENCODER = {"family": "bert", "width": 8, "layers": 2, "heads": 2, "feed_forward": 16}
ALL = {SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION}
OTHERS = ALL - {SDPBackend.CUDNN_ATTENTION}
ON_GPU: Any = SimpleNamespace(is_cuda=True)
ON_CPU: Any = SimpleNamespace(is_cuda=False)


def allowed() -> set[SDPBackend]:
    states = {
        SDPBackend.FLASH_ATTENTION: cuda.flash_sdp_enabled(),
        SDPBackend.EFFICIENT_ATTENTION: cuda.mem_efficient_sdp_enabled(),
        SDPBackend.MATH: cuda.math_sdp_enabled(),
        SDPBackend.CUDNN_ATTENTION: cuda.cudnn_sdp_enabled(),
    }
    return {one for one, state in states.items() if state}


@pytest.mark.parametrize(("x", "rate", "wanted"), [(ON_GPU, 0.1, OTHERS), (ON_GPU, 0.0, ALL), (ON_CPU, 0.1, ALL)])
def test_cudnn_is_ruled_out_where_it_would_drop(x: Any, rate: float, wanted: set[SDPBackend]) -> None:
    with without_cudnn(x, rate):
        assert allowed() == wanted
    assert allowed() == ALL


@pytest.mark.parametrize("own", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION])
def test_what_the_caller_ruled_out_stays_so(own: SDPBackend) -> None:
    with sdpa_kernel(own):
        with without_cudnn(ON_GPU, 0.1):
            assert allowed() == {SDPBackend.MATH if own == SDPBackend.CUDNN_ATTENTION else own}
        assert allowed() == {own}


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def there(x: Tensor, rate: float) -> AbstractContextManager[None]:
        return sdpa_kernel(dropout._others()) if rate > 0 else nullcontext()

    for place in ("encoders", "sequence_transformer"):
        monkeypatch.setattr(f"probsym.bases.{place}.without_cudnn", there)


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("checkpointing", [False, True])
def test_layers_of_encoders_drop_without_cudnn(checkpointing: bool) -> None:
    encoder = Encoder(EncoderSettings.of({**ENCODER, "attention_dropout": 0.25}), checkpointing)
    seen: list[set[SDPBackend]] = []
    for layer in encoder.layers:
        layer.attention.register_forward_hook(lambda *_: seen.append(allowed()))
    tokens = torch.randn(2, 5, 8, requires_grad=True)
    encoder(tokens).sum().backward()
    assert seen == (4 if checkpointing else 2) * [OTHERS]  # computed again in the same way as before
    encoder.layers[0].eval()
    encoder(tokens)
    assert seen[-2:] == [ALL, OTHERS]
    encoder.eval()(tokens)
    assert seen[-2:] == [ALL, ALL]


@pytest.mark.usefixtures("as_on_a_gpu")
def test_sequences_of_many_tokens_drop_without_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, set[SDPBackend]]] = []

    def noted(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, rate: float) -> Tensor:
        seen.append((rate, allowed()))
        return v

    monkeypatch.setattr(sequence_transformer, "scaled_dot_product_attention", noted)
    model = SequenceTransformer("n 3 -> 2", n=100, width=8, layers=1, heads=2, dropout=0.25)
    x = torch.randn(2, 100, 3)
    model(x)
    model.eval()(x)
    assert seen == [(0.25, OTHERS), (0.0, ALL)]


@pytest.mark.usefixtures("as_on_a_gpu")
def test_it_can_be_compiled() -> None:
    model = SequenceTransformer("n 3 -> 2", n=100, width=8, layers=1, heads=2, dropout=0.25)
    x = torch.randn(2, 100, 3)
    found = []
    for call in (model, torch.compile(model, fullgraph=True, backend="eager")):
        torch.manual_seed(0)
        found.append(call(x))
    torch.testing.assert_close(*found)
