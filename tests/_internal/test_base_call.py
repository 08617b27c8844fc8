"""Bases that return more than tensors, and want more than inputs."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from probsym import Symmetrized, groups, samplers, testing
from probsym._internal.base_call import as_outputs
from probsym.errors import SignatureError

S = {"n": groups.S()}


@dataclass
class Found:
    logits: Tensor
    hidden: Tensor | None = None


def forms(y: Tensor) -> dict[str, Any]:
    return {
        "tensor": y,
        "list": [y],
        "dict": {"logits": y},
        "ordered": OrderedDict(logits=y),
        "dataclass": Found(y),
    }


@pytest.mark.parametrize("form", forms(torch.zeros(1)))
def test_every_form_of_one_output(form: str) -> None:
    model = Symmetrized(lambda x: forms(x[:, 0])[form], "n c -> c", S, samples=50)
    x = torch.randn(2, 4, 3)
    generator = torch.Generator().manual_seed(0)
    wanted = Symmetrized(lambda x: x[:, 0], "n c -> c", S, samples=50)(x, generator=torch.Generator().manual_seed(0))
    assert torch.equal(model(x, generator=generator), wanted)


def test_outputs_are_chosen_by_name() -> None:
    def base(x: Tensor) -> dict[str, Any]:
        return {"loss": None, "each": x, "first": x[:, 0], "layers": (x, x)}

    model = Symmetrized(base, "n c -> c, n c", S, output_keys=("first", "each"))
    first, each = model(torch.randn(2, 4, 3))
    assert (first.shape, each.shape) == ((2, 3), (2, 4, 3))
    named = Symmetrized(lambda x: Found(x[:, 0], x), "n c -> c", S, output_keys=["logits"])
    assert named(torch.randn(2, 4, 3)).shape == (2, 3)


def test_outputs_are_chosen_by_place() -> None:
    """A recurrent net also returns its state, a tuple of its own."""
    torch.manual_seed(0)
    lstm, x = nn.LSTM(3, 5, batch_first=True), torch.randn(2, 4, 3)
    model = Symmetrized(lstm, "n c -> n k", S, samples=2, output_keys=(0,))
    noise = model.noise(x)
    wanted = Symmetrized(nn.Sequential(lstm, First()), "n c -> n k", S, samples=2)(x, noise=noise)
    assert torch.equal(model(x, noise=noise), wanted)
    first, second = Symmetrized(lambda x: [x[:, 0], x, None], "n c -> n c, c", S, output_keys=[1, 0])(x)
    assert (first.shape, second.shape) == ((2, 4, 3), (2, 3))


class First(nn.Module):
    def forward(self, both: tuple[Tensor, Any]) -> Tensor:
        return both[0]


def test_a_model_of_the_transformers_library() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    bert = transformers.BertModel(transformers.BertConfig(**shape, vocab_size=5), add_pooling_layer=False)

    class Tokens(nn.Module):
        """The library's models take embeddings by keyword only."""

        def __init__(self) -> None:
            super().__init__()
            self.bert = bert

        def forward(self, x: Tensor, attention_mask: Tensor | None = None, **options: Any) -> Any:
            seen = None if attention_mask is None else attention_mask.long()
            return self.bert(inputs_embeds=x, attention_mask=seen, **options)

    model = Symmetrized(
        Tokens(), "n c -> n c", S, samples=2, output_keys=("last_hidden_state",), mask_argument="attention_mask"
    )
    mask = torch.tensor([[True, True, False], [True, True, True]])
    output = model(torch.randn(2, 3, 8), mask=mask, extra={"output_hidden_states": True})
    assert output.shape == (2, 3, 8)
    assert not output[0, 2].any()


def test_extra_inputs_are_repeated_for_the_draws_or_pass_as_they_are() -> None:
    seen = []

    def base(x: Tensor, *, time: Tensor, table: Tensor, name: str) -> Tensor:
        seen.append((time, table, name))
        return x[:, 0] + time.unsqueeze(1)

    model = Symmetrized(base, "n c -> c", S, samples=6, chunk=4)
    x, time, table = torch.zeros(3, 4, 2), torch.arange(3.0), torch.rand(7, 2)
    extra = {"time": time, "table": table, "name": "a"}
    assert torch.equal(model(x, extra=extra), time.unsqueeze(1).expand(3, 2))
    assert [call[0].tolist() for call in seen] == [sorted([0.0, 1.0, 2.0] * 4), sorted([0.0, 1.0, 2.0] * 2)]
    assert all(call[1] is table and call[2] == "a" for call in seen)
    assert torch.equal(model.estimate(x, extra=extra).mean, model.estimator()(x, extra=extra).mean)


@pytest.mark.parametrize(
    ("output", "keys", "count", "message"),
    [
        ({"a": 1, "b": 2}, None, 1, r"1 outputs, or output_keys= to choose them \(got 2: 'a', 'b'\)"),
        ({"a": 1}, ("b",), 1, r"'b', which output_keys names \(got 1: 'a'\)"),
        (torch.zeros(1), ("b",), 1, r"'b', which output_keys names \(got 1: 0\)"),
        ((1, 2), (2,), 1, r"return 2, which output_keys names \(got 2: 0, 1\)"),
        ([1, 2], None, 1, r"1 outputs, or output_keys= to choose them \(got 2: 0, 1\)"),
        ({"a": 1}, None, 2, r"return 2 outputs \(got 1: 'a'\)"),
        ({}, ("b",), 1, r"'b', which output_keys names \(got none\)"),
    ],
)
def test_what_does_not_fit_is_refused(output: Any, keys: Any, count: int, message: str) -> None:
    with pytest.raises(SignatureError, match=message):
        as_outputs(output, keys, count)


@pytest.mark.parametrize("keys", ["ab", ("a",), ("a", "b", "c"), (1.0, 2), (True, 0)])
def test_keys_name_every_output(keys: Any) -> None:
    with pytest.raises(SignatureError, match="Expected output_keys to name 2 outputs"):
        Symmetrized(lambda x: (x, x), "n -> n, n", S, output_keys=keys)


def test_what_is_none_does_not_count_and_any_key_can_be_named() -> None:
    y = torch.zeros(2)
    assert as_outputs({"loss": None, "logits": y}, None, 1) == (y,)
    assert as_outputs({0: y, 1: None}, (0,), 1) == (y,)
    with pytest.raises(SignatureError, match=r"\(got 2: 0, 1\)"):
        as_outputs({0: y, 1: y}, None, 1)


def test_masks_that_would_not_arrive_are_refused() -> None:
    with pytest.raises(SignatureError, match="Expected a base that takes 'attn', its mask_argument"):
        Symmetrized(lambda x, mask=None: x, "n -> n", S, mask_argument="attn")
    model = Symmetrized(lambda x, mask=None: x, "n -> n", S)
    with pytest.raises(SignatureError, match=r"Expected mask= rather than extra\['mask'\]"):
        model(torch.randn(2, 3), extra={"mask": 5})


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


def test_entries_of_named_tuples_can_be_chosen() -> None:
    x, y = torch.zeros(1), torch.ones(1)
    assert as_outputs(Pair(x, y), None, 2) == (x, y)
    assert as_outputs(Pair(x, y), ("second",), 1) == (y,)
    with pytest.raises(SignatureError, match=r"'third', which output_keys names \(got 2: 'first', 'second'\)"):
        as_outputs(Pair(x, y), ("third",), 1)


def test_another_base_is_called_in_its_own_way() -> None:
    class Masked(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return x.sum(1) * mask.sum(1, keepdim=True)

    class Plain(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sum(1)

    x, mask = torch.ones(2, 3, 4), torch.tensor([[True, True, False], [True, True, True]])
    model = Symmetrized(Plain(), "n c -> c", S)
    assert model(x, mask=mask)[:, 0].tolist() == [2, 3]
    model.base = Masked()
    assert model(x, mask=mask)[:, 0].tolist() == [4, 9]
    model.base = Plain()
    assert model(x, mask=mask)[:, 0].tolist() == [2, 3]


def test_how_a_base_is_called_can_be_changed() -> None:
    class Both(nn.Module):
        def forward(self, x: Tensor, real: Tensor | None = None, attended: Tensor | None = None) -> tuple[Tensor, ...]:
            return tuple(
                torch.zeros(len(x), 4) if mask is None else mask.sum(1, True).expand(-1, 4) for mask in (real, attended)
            )

    x, mask = torch.ones(2, 3, 4), torch.tensor([[True, True, False], [True, True, True]])
    model = Symmetrized(Both(), "n c -> c", S, output_keys=(0,), mask_argument="real")
    assert model(x, mask=mask)[:, 0].tolist() == [2, 3]
    model.output_keys = [1]
    assert model(x, mask=mask)[:, 0].tolist() == [0, 0]
    model.mask_argument = "attended"
    assert model(x, mask=mask)[:, 0].tolist() == [2, 3]
    for name, value, message in (
        ("mask_argument", "seen", "takes 'seen'"),
        ("output_keys", (0, 1), "output_keys to name 1 outputs"),
        ("base", nn.Flatten(), "takes 'attended'"),
    ):
        with pytest.raises(SignatureError, match=message):
            setattr(model, name, value)
    assert (model.mask_argument, model.output_keys, type(model.base)) == ("attended", (1,), Both)


def test_a_mask_that_a_base_takes_by_another_name_is_not_dropped_in_silence() -> None:
    class Tokens(nn.Module):
        def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
            return x

    x, mask = torch.ones(2, 3, 4), torch.ones(2, 3, dtype=torch.bool)
    model = Symmetrized(Tokens(), "n c -> n c", S)
    model(x)
    with pytest.warns(UserWarning, match="Expected mask_argument='attention_mask'"):
        model(x, mask=mask)
    Symmetrized(Tokens(), "n c -> n c", S, mask_argument="attention_mask")(x, mask=mask)


@pytest.mark.parametrize("training", [True, False])
def test_masks_of_torchs_attention_are_true_at_padding(training: bool) -> None:
    """A padded set gives what it gives without padding: nothing attends to padding, and everything else is seen."""
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(4, 2, 8, dropout=0, batch_first=True), 2, enable_nested_tensor=False
    ).double()
    x, mask = torch.randn(3, 5, 4, dtype=torch.float64), torch.arange(5) < torch.tensor([[2], [5], [4]])
    model = Symmetrized(encoder, "n c -> n c", S, mask_argument="src_key_padding_mask").train(training)
    y = model(x, mask=mask, seed=1)
    alone = model(x[:1, :2], seed=1)
    torch.testing.assert_close(y[:1, :2], alone)
    assert not y[~mask].any()
    testing.assert_equivariant(model, x, mask=mask)
    testing.assert_equivariant(
        encoder, x, mask=mask, signature="n c -> n c", groups=S, mask_argument="src_key_padding_mask"
    )


def test_a_mask_beside_one_of_padding_is_ours_if_it_is_named() -> None:
    seen = []

    def base(x: Tensor, mask: Tensor | None = None, key_padding_mask: Tensor | None = None) -> Tensor:
        seen.append((mask, key_padding_mask))
        return x

    x, mask = torch.randn(2, 3, 1), torch.tensor([[True, True, False], [True, True, True]])
    Symmetrized(base, "n c -> n c", S, mask_argument="mask")(x, mask=mask)
    assert torch.equal(seen[-1][0], mask)
    assert seen[-1][1] is None
    testing.assert_equivariant(base, x, mask=mask, signature="n c -> n c", groups=S, mask_argument="mask")
    assert seen[-1][0] is not None


def test_functions_of_samplers_are_not_given_padding_as_attention() -> None:
    """A net that is an encoder of torch's must not take our mask for one of who attends to whom."""
    seen = []

    def energy(x: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None) -> Tensor:
        seen.append(mask)
        return x[:, 0, 0]

    model = Symmetrized(lambda x: x, "n c -> n c", S, samplers.Energy(energy))
    model(torch.randn(3, 3, 1), mask=torch.ones(3, 3, dtype=torch.bool))
    assert seen == [None]


def test_the_mask_of_a_torch_encoder_is_not_mistaken_for_padding() -> None:
    """With as many items as rows, a mask of padding would pass for one of who attends to whom."""
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1, enable_nested_tensor=False
    )
    x, mask = torch.randn(5, 5, 4), torch.ones(5, 5, dtype=torch.bool)
    with pytest.warns(UserWarning, match="Expected mask_argument='src_key_padding_mask'"):
        Symmetrized(encoder, "n c -> n c", S)(x, mask=mask)
