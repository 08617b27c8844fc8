from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from probsym import Symmetrized, groups, testing
from probsym.bases import EdgeList, SequenceTransformer, sequence_transformer
from probsym.errors import DtypeError, MaskError, RangeError, ShapeError, SignatureError
from probsym.nets import VNDGCNN
from probsym.samplers import Learned
from tests.bases.cases import (
    TOLERANCE,
    at_real,
    both_dtypes,
    count,
    fill_padding,
    gradients,
    make_inputs,
    make_mask,
    normal,
    scrambled,
)

ARRAYS = [
    ("n 3 -> 4", 4),
    ("n, 3 -> n", 70),
    ("n 3, n 3, n n 2 -> n 3", 4),
    ("n 2, n n ->", 9),
    ("n n, n -> n n 2", 3),
    ("2, n 2, n n 3, n n n -> n 2", 3),
    ("n n n 2, n n -> n n", 5),
    ("n -> n n", 3),
]


def build(arrays: str, n: int, dtype: torch.dtype = torch.float64, **options: Any) -> SequenceTransformer:
    torch.manual_seed(0)
    model = SequenceTransformer(arrays, n, **{"width": 8, "layers": 2, "heads": 2, **options}).to(dtype)
    scrambled(model)
    return model


def reference(model: SequenceTransformer, activation: str = "gelu") -> nn.TransformerEncoder:
    """torch's own layers with the same weights."""
    width, inner = model.embed.out_features, model.layers[0].mlp[0].out_features
    layer = nn.TransformerEncoderLayer(
        width, model.layers[0].heads, inner, 0.0, activation, batch_first=True, norm_first=True
    )
    encoder = nn.TransformerEncoder(layer, len(model.layers), nn.LayerNorm(width), enable_nested_tensor=False)
    encoder.to(model.embed.weight.dtype)
    encoder.norm.load_state_dict(model.norm.state_dict())
    for theirs, ours in zip(encoder.layers, model.layers, strict=True):
        theirs.self_attn.in_proj_weight.data.copy_(ours.attend.weight)
        theirs.self_attn.in_proj_bias.data.copy_(ours.attend.bias)
        theirs.self_attn.out_proj.load_state_dict(ours.out.state_dict())
        theirs.linear1.load_state_dict(ours.mlp[0].state_dict())
        theirs.linear2.load_state_dict(ours.mlp[2].state_dict())
        theirs.norm1.load_state_dict(ours.norm_1.state_dict())
        theirs.norm2.load_state_dict(ours.norm_2.state_dict())
    return encoder


def entry(x: Tensor, order: int, place: tuple[int, ...]) -> Tensor:
    """What the token at a place of the joined array sees of one batch item of an input."""
    own, rest = place[:order], place[order:]
    if order and any(index != own[-1] for index in rest):
        return torch.zeros_like(x[own]).reshape(-1)
    return x[own].reshape(-1)


def literal(
    model: SequenceTransformer, inputs: list[Tensor], mask: Tensor | None, encoder: nn.TransformerEncoder
) -> Tensor:
    terms, output = list(zip(model.arrays.inputs, inputs, strict=True)), model.arrays.output
    batch, n = inputs[0].shape[0], next(x.shape[1] for array, x in terms if array.order)
    places = list(product(range(n), repeat=model.order))
    rows = []
    for b in range(batch):
        seen = [torch.cat([entry(x[b], array.order, place) for array, x in terms]) for place in places]
        rows.append(model.embed(torch.stack(seen)) + torch.stack([model.positions[place] for place in places]))
    padded = None
    if mask is not None:
        padded = torch.tensor([[not all(row[i] for i in place) for place in places] for row in mask.tolist()])
    tokens = encoder(torch.stack(rows), src_key_padding_mask=padded)
    outputs = []
    for b in range(batch):
        if output.order == 0:
            real = [i for i in range(len(places)) if padded is None or not padded[b, i]]
            outputs.append(model.head(tokens[b, real].mean(0)))
        else:
            wanted = product(range(n), repeat=output.order)
            read = [places.index((*place, *[place[-1]] * (model.order - output.order))) for place in wanted]
            outputs.append(model.head(tokens[b, read]).unflatten(0, [n] * output.order))
    stacked = torch.stack(outputs)
    return stacked if output.channels else stacked.squeeze(-1)


def test_positions_start_as_standard_normal_numbers_or_as_asked() -> None:
    for options, deviation in (({}, 1.0), ({"position_std": 0.02}, 0.02), ({"position_std": 0}, 0.0)):
        positions = SequenceTransformer("n n 2 -> n", n=20, **options).positions
        assert positions.shape == (20, 20, 64)
        assert float(positions.detach().std()) == pytest.approx(deviation, rel=0.02)
    for wrong in (-1.0, float("inf"), float("nan")):
        with pytest.raises(RangeError, match="position_std"):
            SequenceTransformer("n 3 -> n", n=4, position_std=wrong)


@both_dtypes
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(("arrays", "n"), ARRAYS)
def test_agrees_with_the_encoder_of_torch(arrays: str, n: int, masked: bool, dtype: torch.dtype) -> None:
    model, inputs = build(arrays, n, dtype), make_inputs(arrays, 2, n, dtype)
    mask, encoder = make_mask(2, n) if masked else None, reference(model)
    output = at_real(model, model(*inputs, mask=mask), mask)
    wanted = at_real(model, literal(model, inputs, mask, encoder), mask)
    assert output.shape == wanted.shape == model.arrays.output.shape(2, n)
    assert output.dtype == dtype
    assert_close(output, wanted, **TOLERANCE[dtype])
    shared = [*inputs, model.positions, *model.embed.parameters(), *model.head.parameters()]
    got = gradients(output, [*shared, *(layer.attend.weight for layer in model.layers), model.norm.weight])
    want = gradients(
        wanted, [*shared, *(layer.self_attn.in_proj_weight for layer in encoder.layers), encoder.norm.weight]
    )
    tolerance = {"rtol": 1e-3, "atol": 1e-3} if dtype == torch.float32 else TOLERANCE[dtype]
    assert_close(got, want, **tolerance)


@pytest.mark.parametrize("feed_forward", [None, 5])
def test_agrees_in_evaluation_with_other_sizes(feed_forward: int | None) -> None:
    arrays = "n 2, n n -> n"
    model = build(arrays, 5, feed_forward=feed_forward, activation="relu", heads=4, layers=3)
    inputs = make_inputs(arrays, 2, 3)
    output = model.eval()(*inputs)
    assert_close(output, literal(model, inputs, None, reference(model, "relu")))
    assert model.layers[0].mlp[0].out_features == (feed_forward or 8)


def test_an_array_of_order_0_beside_items() -> None:
    arrays = "3, n n -> n"
    model, (x, pairs) = build(arrays, 4), make_inputs(arrays, 2, 4)
    everywhere = build("n n 3, n n -> n", 4)
    everywhere.load_state_dict(model.state_dict())
    assert_close(model(x, pairs), everywhere(x.view(2, 1, 1, 3).expand(2, 4, 4, 3), pairs))


@both_dtypes
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(("arrays", "n"), ARRAYS)
def test_both_ways_to_attend_agree(
    arrays: str, n: int, masked: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, inputs, mask = build(arrays, n, dtype), make_inputs(arrays, 2, n, dtype), make_mask(2, n)
    results = []
    for few in (0, 10**6):
        monkeypatch.setattr(sequence_transformer, "FEW", few)
        y = at_real(model, model(*inputs, mask=mask if masked else None), mask)
        results.append([y, *gradients(y, [*inputs, *model.parameters()])])
    tolerance = {"rtol": 1e-3, "atol": 1e-3} if dtype == torch.float32 else TOLERANCE[dtype]
    assert_close(results[0], results[1], **tolerance)


@pytest.mark.parametrize(("n", "fused"), [(8, False), (9, True)])
def test_many_tokens_attend_by_the_fused_call(n: int, fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, real = [], sequence_transformer.scaled_dot_product_attention

    def watched(*args: Any) -> Tensor:
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(sequence_transformer, "scaled_dot_product_attention", watched)
    build("n n -> n", 9)(normal(1, n, n))
    assert len(calls) == (2 if fused else 0)


@pytest.mark.parametrize(("arrays", "n"), ARRAYS)
def test_padding_has_no_say(arrays: str, n: int) -> None:
    model, mask = build(arrays, n), make_mask(2, n)
    results = []
    for junk in (0.0, 1e3):
        inputs = fill_padding(arrays, make_inputs(arrays, 2, n), mask, junk)
        y = at_real(model, model(*inputs, mask=mask), mask)
        results.append([y, *gradients(y, [*inputs, *model.parameters()])])
    assert_close(results[0], results[1], rtol=0, atol=1e-11)


@pytest.mark.parametrize(("arrays", "n"), ARRAYS)
def test_masked_is_cropped(arrays: str, n: int) -> None:
    model, inputs = build(arrays, n), make_inputs(arrays, 2, n)
    terms = zip(model.arrays.inputs, inputs, strict=True)
    cropped = [x[(slice(None), *[slice(n - 1)] * array.order)] for array, x in terms]
    output = model(*inputs, mask=(torch.arange(n) < n - 1).expand(2, n))
    assert_close(output[(slice(None), *[slice(n - 1)] * model.arrays.output.order)], model(*cropped))


@pytest.mark.parametrize("arrays", ["n 3 -> 4", "n 3 -> n 4"])
@pytest.mark.parametrize("n", [4, 70])
def test_an_item_without_entries_is_finite(n: int, arrays: str) -> None:
    model, (x,) = build(arrays, n), make_inputs(arrays, 2, n)
    y = model(x, mask=torch.tensor([[False], [True]]).expand(2, n))
    assert y.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients(y, [x, *model.parameters()]))


@pytest.mark.parametrize("few", [0, 10**6])
def test_an_item_without_entries_attends_to_nothing(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_transformer, "FEW", few)
    layer, tokens = build("n 8 -> n 8", 4).layers[0], normal(2, 4, 8)
    attended = layer._attended(tokens, torch.tensor([[False] * 4, [True] * 4]))
    assert_close(attended[0], torch.zeros(4, 8, dtype=torch.float64))
    assert (attended[1] != 0).all()


def test_masks_by_name() -> None:
    (arrays, n), mask = ARRAYS[2], make_mask(2, 4)
    model, inputs = build(arrays, n), make_inputs(arrays, 2, n)
    named = {"m": torch.ones(2, 3, dtype=torch.bool), "n": mask}
    assert torch.equal(model(*inputs, mask=named), model(*inputs, mask=mask))


def test_places_are_told_apart() -> None:
    model, (x,) = build("n 3 -> 4", 5), make_inputs("n 3 -> 4", 2, 5)
    assert not torch.isclose(model(x), model(x.flip(1))).any()


def test_dropout_only_in_training() -> None:
    arrays, n = ARRAYS[2]
    model, plain, inputs = build(arrays, n, dropout=0.5), build(arrays, n), make_inputs(arrays, 2, n)
    assert not torch.isclose(model(*inputs), model(*inputs)).any()
    assert torch.equal(model.eval()(*inputs), plain(*inputs))


@pytest.mark.parametrize("few", [0, 10**6])
def test_dropout_is_on_attention_and_on_both_halves(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_transformer, "FEW", few)
    model = build("n 8 -> n 8", 40, dropout=0.25, layers=1)
    layer, tokens = model.layers[0], normal(30, 40, 8)
    nn.init.zeros_(layer.mlp[2].weight)
    nn.init.ones_(layer.mlp[2].bias)
    nn.init.zeros_(layer.out.weight)
    nn.init.constant_(layer.out.bias, 10.0)
    added = layer(tokens, None) - tokens
    values, counts = added.round(decimals=3).unique(return_counts=True)
    assert_close(values, torch.tensor([0, 1 / 0.75, 10 / 0.75, 11 / 0.75]).round(decimals=3).double())
    assert_close(counts / added.numel(), torch.tensor([1, 3, 3, 9]) / 16, rtol=0, atol=0.03)
    nn.init.eye_(layer.out.weight)
    nn.init.zeros_(layer.out.bias)
    layer.attend.weight.data.zero_()
    layer.attend.bias.data.zero_()[16:].fill_(1.0)
    attended = layer._attended(tokens, None)
    assert_close(attended.mean(), torch.ones((), dtype=torch.float64), rtol=0, atol=0.05)
    assert attended.std() > 0.03
    assert_close(layer.eval()._attended(tokens, None), torch.ones_like(attended))


def test_parameter_count() -> None:
    layer = 4 * 64 + 64 * 192 + 192 + 3 * (64 * 64 + 64)
    total = 8 * 64 + 64 + 25 * 64 + 8 * layer + 2 * 64 + 64 * 64 + 64 + 64 * 3 + 3
    assert count(SequenceTransformer("n 3, n 3, n n 2 -> n 3", n=5)) == total == 208_387


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("output", ["n d", "n d:point", "k", "n n"])
def test_symmetrized_follows_motions_and_permutations(output: str, masked: bool) -> None:
    returned = {"n d": "n 3", "n d:point": "n 3", "k": "4", "n n": "n n"}[output]
    model = Symmetrized(
        build(f"n 3, n 3, n n 2 -> {returned}", 6),
        f"n d:point, n d, n n e -> {output}",
        {"n": groups.S(), "d": groups.E(3)},
        Learned(VNDGCNN(2, hidden=24, neighbours=3), reads=(0, 1)),
        samples=4,
    ).double()
    inputs = make_inputs("n 3, n 3, n n 2 -> n", 3, 5)
    testing.assert_equivariant(model, *inputs, mask=make_mask(3, 5) if masked else None)


def test_coordinates_under_autocast() -> None:
    """What bfloat16 cannot tell apart, the ends of the model can: they are in full precision, its layers are not."""
    torch.manual_seed(0)
    model = SequenceTransformer("n 3 -> n 3", n=4, width=16, layers=2)
    x = torch.full((1, 4, 3), 5.0)
    assert (x + 1e-3).bfloat16().equal(x.bfloat16())
    inside: list[torch.dtype] = []
    model.layers[0].attend.register_forward_hook(lambda *given: inside.append(given[-1].dtype))  # type: ignore[union-attr]
    with torch.autocast("cpu", torch.bfloat16):
        output, moved = model(x), model(x + 1e-3)
    assert output.dtype == torch.float32
    assert not output.equal(moved)
    assert inside == [torch.bfloat16] * 2


@pytest.mark.parametrize(("arrays", "n"), [ARRAYS[2], ARRAYS[3]])
def test_bfloat16(arrays: str, n: int) -> None:
    model, inputs = build(arrays, n, torch.float32), make_inputs(arrays, 2, n, torch.float32)
    mask = make_mask(2, n)
    wanted = at_real(model, model(*inputs, mask=mask), mask)
    with torch.autocast("cpu", torch.bfloat16):
        output = at_real(model, model(*inputs, mask=mask), mask)
    assert_close(output.float(), wanted, rtol=0.05, atol=0.05)
    gradients(output, model.parameters())
    model.to(torch.bfloat16)
    output = at_real(model, model(*inputs, mask=mask), mask)
    assert output.dtype == torch.bfloat16
    assert_close(output.float(), wanted, rtol=0.05, atol=0.05)
    gradients(output, model.parameters())


def test_compiles_without_a_break() -> None:
    (arrays, n), mask = ARRAYS[2], make_mask(2, 4)
    model, inputs = build(arrays, n), make_inputs(arrays, 2, n)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert_close(compiled(*inputs, mask=mask), model(*inputs, mask=mask))


@pytest.mark.parametrize(("arrays", "n"), ARRAYS)
def test_an_empty_batch_stays_empty(arrays: str, n: int) -> None:
    model = build(arrays, n)
    assert model(*make_inputs(arrays, 0, n)).shape == model.arrays.output.shape(0, n)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32], ids=str)
def test_inputs_are_cast_to_the_parameters(dtype: torch.dtype) -> None:
    model, pairs = build("n n -> n", 4), normal(2, 4, 4) > 0
    assert_close(model(pairs.to(dtype)), model(pairs.double()))


@pytest.mark.parametrize(
    ("arrays", "options", "error", "message"),
    [
        ("n n", {}, SignatureError, r"arrays as text with one '->'"),
        ("n 3 -> n", {"n": 0}, RangeError, r"n to be 1 or more \(got 0\)"),
        ("n 3 -> n", {"n": 2.5}, RangeError, r"n to be 1 or more \(got 2.5\)"),
        ("n 3 -> n", {"width": 0}, RangeError, r"width to be 1 or more \(got 0\)"),
        ("n 3 -> n", {"layers": -1}, RangeError, r"layers to be 0 or more \(got -1\)"),
        ("n 3 -> n", {"heads": 0}, RangeError, r"heads to be 1 or more \(got 0\)"),
        ("n 3 -> n", {"heads": 3}, RangeError, r"heads to divide the width 64 \(got 3\)"),
        ("n 3 -> n", {"feed_forward": 0}, RangeError, r"feed_forward to be 1 or more \(got 0\)"),
        ("n 3 -> n", {"activation": "no"}, RangeError, r"activation to be one of .*\(got 'no'\)"),
        ("n 3 -> n", {"dropout": 1.0}, RangeError, r"dropout to be in \[0, 1\) \(got 1.0\)"),
        ("n 3 -> n", {"dropout": -0.1}, RangeError, r"dropout to be in \[0, 1\) \(got -0.1\)"),
        ("n 3 -> n", {"dropout": float("nan")}, RangeError, r"dropout to be in \[0, 1\) \(got nan\)"),
        ("n 3 -> n", {"dropout": "0.1"}, RangeError, r"dropout to be in \[0, 1\) \(got 0.1\)"),
        ("n 3 -> n", {"dropout": None}, RangeError, r"dropout to be in \[0, 1\) \(got None\)"),
    ],
)
def test_refuses_to_be_built(arrays: str, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=r"^Expected " + message):
        SequenceTransformer(arrays, **{"n": 5, **options})


@pytest.mark.parametrize("arrays", ["3 -> 2", "3 -> n 2"])
def test_refuses_arrays_that_do_not_tell_the_items(arrays: str) -> None:
    with pytest.raises(SignatureError, match=r"^Expected "):
        SequenceTransformer(arrays, 5)


@pytest.mark.parametrize(
    ("inputs", "mask", "error", "message"),
    [
        ((torch.ones(2, 4, 3),), None, ShapeError, r"2 inputs, 'n 3, n n -> n' \(got 1\)"),
        ((torch.ones(2, 4, 3), torch.ones(2, 4, 3)), None, ShapeError, r"input 1 \('n n'\) to have shape \(2, 4, 4\)"),
        (
            (torch.ones(2, 4, 3), torch.ones(2, 4, 4).to(torch.complex64)),
            None,
            DtypeError,
            r"input 1 \('n n'\) .* real numbers",
        ),
        ((torch.ones(2, 4, 3), torch.ones(2, 4, 4)), torch.ones(2, 4), MaskError, r"mask to be boolean \(2, 4\)"),
        ((torch.ones(2, 6, 3), torch.ones(2, 6, 6)), None, ShapeError, r"at most 5 items \(got 6\)"),
    ],
)
def test_refuses_inputs(inputs: tuple[Any, ...], mask: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=r"^Expected " + message):
        build("n 3, n n -> n", 5)(*inputs, mask=mask)


@pytest.mark.parametrize(("arrays", "shape"), [("n n -> 2", (2, 4, 4)), ("n n 3 -> 2", (2, 4, 4, 3))])
def test_refuses_an_edge_list(arrays: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(DtypeError, match=r"^Expected input 0 "):
        build(arrays, 5)(EdgeList.from_dense(torch.ones(shape)))
