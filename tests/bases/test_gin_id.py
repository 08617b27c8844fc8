from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from probsym import Symmetrized, groups, testing
from probsym.bases import GINID, EdgeList
from probsym.errors import DtypeError, MaskError, RangeError, ShapeError, SignatureError
from probsym.nets import GIN
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

ARRAYS = ["n 2, n n -> 3", "n n 3, n, n 2 -> n 2", "n n -> n", "n, n n ->"]


def build(arrays: str, dtype: torch.dtype = torch.float64, **options: Any) -> GINID:
    torch.manual_seed(0)
    model = GINID(arrays, **{"n": 6, "width": 5, "layers": 2, **options}).to(dtype)
    for module in model.modules():
        if hasattr(module, "running_mean"):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    scrambled(model)
    return model


def features_of(model: GINID, inputs: Sequence[Tensor], b: int, nodes: list[int]) -> Tensor:
    parts = [x[b, nodes].reshape(len(nodes), -1) for x in inputs if x.dim() < 3 or x.shape[1] != x.shape[2]]
    dtype = inputs[0].dtype
    if model.identifiers:
        one_hot = torch.zeros(len(nodes), model.n, dtype=dtype)
        for row, node in enumerate(nodes):
            one_hot[row, node] = 1
        parts.append(one_hot)
    return torch.cat(parts, -1) if parts else torch.ones(len(nodes), 1, dtype=dtype)


def literal(model: GINID, inputs: Sequence[Tensor], mask: Tensor) -> Tensor:
    """Each graph by itself without its padding; all together only for the statistics of the norms."""
    (links,) = [x for x in inputs if x.dim() > 2 and x.shape[1] == x.shape[2]]
    nodes = [real.nonzero().flatten().tolist() for real in mask]
    hidden = [features_of(model, inputs, b, own) for b, own in enumerate(nodes)]
    for layer in model.layers:
        mixed = []
        for b, own in enumerate(nodes):
            rows = []
            for i, node in enumerate(own):
                total = (1 + layer.epsilon) * hidden[b][i]
                for j, other in enumerate(own):
                    link = links[b, node, other]
                    total = total + (link if link.dim() == 0 else link.abs().sum()) * hidden[b][j]
                rows.append(layer.mlp(total))
            mixed.append(torch.stack(rows))
        norm, every = layer.norm, torch.cat(mixed)
        mean, var = (
            (every.mean(0), every.var(0, correction=0)) if model.training else (norm.running_mean, norm.running_var)
        )
        hidden = [
            layer.function(norm.weight * (features - mean) / (var + norm.eps).sqrt() + norm.bias) for features in mixed
        ]
    output, outputs = model.arrays.output, []
    for b, own in enumerate(nodes):
        if output.order == 0:
            outputs.append(model.head(hidden[b].mean(0)))
        else:
            y = torch.zeros(mask.shape[1], output.width, dtype=hidden[b].dtype)
            outputs.append(y.index_put((torch.tensor(own),), model.head(hidden[b])))
    stacked = torch.stack(outputs)
    return stacked if output.channels else stacked.squeeze(-1)


@both_dtypes
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("identifiers", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("arrays", ARRAYS)
def test_agrees_with_each_graph_by_itself(
    arrays: str, masked: bool, identifiers: bool, training: bool, dtype: torch.dtype
) -> None:
    model, inputs = build(arrays, dtype, identifiers=identifiers).train(training), make_inputs(arrays, 3, 5, dtype)
    mask = make_mask(3, 5) if masked else torch.ones(3, 5, dtype=torch.bool)
    wanted = literal(model, inputs, mask)
    output = at_real(model, model(*inputs, mask=mask if masked else None), mask)
    assert output.shape == wanted.shape == model.arrays.output.shape(3, 5)
    tolerance = {"rtol": 1e-3, "atol": 1e-4} if dtype == torch.float32 else TOLERANCE[dtype]
    assert_close(output, wanted, **tolerance)
    leaves = [*inputs, *model.parameters()]
    loose = {"rtol": 2e-2, "atol": 2e-3} if dtype == torch.float32 else TOLERANCE[dtype]
    assert_close(gradients(output, leaves), gradients(wanted, leaves), **loose)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("arrays", ARRAYS)
def test_without_identifiers_follows_permutations(arrays: str, training: bool) -> None:
    model, inputs, mask = build(arrays, identifiers=False), make_inputs(arrays, 3, 5), make_mask(3, 5)
    p = torch.tensor([3, 1, 4, 0, 2])
    moved = [x[:, p][:, :, p] if x.dim() > 2 and x.shape[1] == x.shape[2] else x[:, p] for x in inputs]
    wanted = model.train(training)(*inputs, mask=mask)
    output = model(*moved, mask=mask[:, p])
    assert_close(output, wanted[:, p] if model.arrays.output.order else wanted, rtol=0, atol=1e-10)


def test_with_identifiers_does_not() -> None:
    model, (x, links) = build(ARRAYS[0]).eval(), make_inputs(ARRAYS[0], 3, 5)
    p = torch.tensor([3, 1, 4, 0, 2])
    assert not torch.isclose(model(x[:, p], links[:, p][:, :, p]), model(x, links)).any()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("identifiers", [True, False])
@pytest.mark.parametrize("arrays", ARRAYS)
def test_padding_has_no_say(arrays: str, identifiers: bool, training: bool) -> None:
    model, mask = build(arrays, identifiers=identifiers).train(training), make_mask(3, 5)
    results = []
    for junk in (0.0, torch.nan):
        inputs = fill_padding(arrays, make_inputs(arrays, 3, 5), mask, junk)
        y = at_real(model, model(*inputs, mask=mask), mask)
        results.append([y, *gradients(y, [*inputs, *model.parameters()])])
    assert_close(results[0], results[1], rtol=0, atol=0)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("arrays", ARRAYS)
def test_masked_is_cropped(arrays: str, training: bool) -> None:
    inputs = make_inputs(arrays, 2, 5)
    cropped = [x[:, :3, :3] if x.dim() > 2 and x.shape[1] == x.shape[2] else x[:, :3] for x in inputs]
    model = build(arrays).train(training)
    output = model(*inputs, mask=(torch.arange(5) < 3).expand(2, 5))
    assert_close(output[:, :3] if model.arrays.output.order else output, model(*cropped))


def test_an_item_without_nodes_is_finite() -> None:
    model, inputs = build(ARRAYS[0]), make_inputs(ARRAYS[0], 2, 3)
    y = model(*inputs, mask=torch.tensor([[False] * 3, [True] * 3]))
    assert y.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients(y, [*inputs, *model.parameters()]))


def test_masks_by_name() -> None:
    model, inputs, mask = build(ARRAYS[0]).eval(), make_inputs(ARRAYS[0], 3, 5), make_mask(3, 5)
    named = {"m": torch.ones(3, 4, dtype=torch.bool), "n": mask}
    assert torch.equal(model(*inputs, mask=named), model(*inputs, mask=mask))


@pytest.mark.parametrize("channels", [1, 2])
def test_channels_of_pairs_are_summed_as_absolute_values(channels: int) -> None:
    model, pairs = build(f"n n {channels} -> 3").eval(), normal(2, 5, 5, channels)
    assert_close(model(pairs), model(pairs.abs()))
    plain = build("n n -> 3").eval()
    assert_close(model(pairs), plain(pairs.abs().sum(-1)))


def test_more_nodes_than_n_only_without_identifiers() -> None:
    x, links = torch.rand(2, 7, 2), torch.rand(2, 7, 7)
    assert build(ARRAYS[0], torch.float32, identifiers=False)(x, links).shape == (2, 3)
    with pytest.raises(ShapeError, match=r"^Expected at most 6 items \(got 7\)"):
        build(ARRAYS[0], torch.float32)(x, links)


@pytest.mark.parametrize(("name", "function"), [("tanh", torch.tanh), ("relu", torch.relu)])
def test_output_activation(name: str, function: Any) -> None:
    inputs = make_inputs(ARRAYS[0], 3, 5)
    assert_close(build(ARRAYS[0], output_activation=name)(*inputs), function(build(ARRAYS[0])(*inputs)))


def test_activation_is_everywhere() -> None:
    model, inputs = build(ARRAYS[0], activation="tanh"), make_inputs(ARRAYS[0], 2, 4)
    assert_close(model(*inputs), literal(model, inputs, torch.ones(2, 4, dtype=torch.bool)))
    assert sum(isinstance(module, torch.nn.Tanh) for module in model.modules()) == 5


def test_parameter_count() -> None:
    """Three layers with an epsilon, two linear maps and a norm, and the head."""
    first = 1 + (2 + 64) * 64 + 64 + 64 * 64 + 64 + 128
    other = 1 + 2 * (64 * 64 + 64) + 128
    assert count(GINID("n 2, n n -> 10", n=64)) == first + 2 * other + 64 * 64 + 64 + 64 * 10 + 10


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("output", ["k", "n k"])
def test_symmetrized_follows_permutations(output: str, masked: bool) -> None:
    base = build(f"n 2, n n -> {output.replace('k', '3')}")
    sampler = Learned(GIN(2, hidden=8, layers=2))
    model = Symmetrized(base, f"n c, n n -> {output}", {"n": groups.S()}, sampler, samples=4).double()
    x, links = normal(3, 5, 2), normal(3, 5, 5, seed=1)
    links = ((links + links.mT) > 0).double()
    testing.assert_equivariant(model, x, links, mask=make_mask(3, 5) if masked else None)


def test_bfloat16() -> None:
    model, inputs, mask = build(ARRAYS[0], torch.float32), make_inputs(ARRAYS[0], 3, 5, torch.float32), make_mask(3, 5)
    wanted = model.eval()(*inputs, mask=mask)
    scale = wanted.abs().max().item()
    with torch.autocast("cpu", torch.bfloat16):
        output = model(*inputs, mask=mask)
    assert_close(output.float(), wanted, rtol=0, atol=0.03 * scale)
    gradients(output, model.parameters())
    model.to(torch.bfloat16)
    output = model(*inputs, mask=mask)
    assert output.dtype == torch.bfloat16
    assert_close(output.float(), wanted, rtol=0, atol=0.03 * scale)
    gradients(model.train()(*inputs, mask=mask), model.parameters())


@pytest.mark.parametrize("training", [True, False])
def test_compiles_without_a_break(training: bool) -> None:
    model, inputs, mask = build(ARRAYS[0]).train(training), make_inputs(ARRAYS[0], 3, 5), make_mask(3, 5)
    wanted = model(*inputs, mask=mask)
    assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(*inputs, mask=mask), wanted)


@pytest.mark.parametrize("training", [True, False])
def test_an_empty_batch_stays_empty(training: bool) -> None:
    assert build(ARRAYS[0]).train(training)(*make_inputs(ARRAYS[0], 0, 4)).shape == (0, 3)


@pytest.mark.parametrize(
    ("arrays", "options", "error", "message"),
    [
        ("n n", {}, SignatureError, r"arrays as text with one '->'"),
        ("n 3 -> 2", {}, SignatureError, r"GINID to read one array of order 2 \(got 'n 3 -> 2'\)"),
        ("n n, n n 2 -> 2", {}, SignatureError, r"GINID to read one array of order 2 \(got 'n n, n n 2 -> 2'\)"),
        ("3, n n -> 2", {}, SignatureError, r"GINID to read order 1 or 2 in input 0 \(got '3'\)"),
        ("n n -> n n", {}, SignatureError, r"GINID to return order 0 or 1 \(got 'n n'\)"),
        ("n n -> n", {"n": 0}, RangeError, r"n to be 1 or more \(got 0\)"),
        ("n n -> n", {"n": 5.0}, RangeError, r"n to be 1 or more \(got 5.0\)"),
        ("n n -> n", {"width": 0}, RangeError, r"width to be 1 or more \(got 0\)"),
        ("n n -> n", {"layers": 0}, RangeError, r"layers to be 1 or more \(got 0\)"),
        ("n n -> n", {"activation": "no"}, RangeError, r"activation to be one of .*\(got 'no'\)"),
        ("n n -> n", {"output_activation": "no"}, RangeError, r"output_activation to be one of .*\(got 'no'\)"),
    ],
)
def test_refuses_to_be_built(arrays: str, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=r"^Expected " + message):
        GINID(arrays, **{"n": 5, **options})


@pytest.mark.parametrize(
    ("inputs", "mask", "error", "message"),
    [
        ((torch.ones(2, 4, 4),), None, ShapeError, r"2 inputs, 'n 2, n n -> 3' \(got 1\)"),
        ((torch.ones(2, 4, 2), torch.ones(2, 4, 5)), None, ShapeError, r"input 1 \('n n'\) to have shape \(2, 4, 4\)"),
        (
            (torch.ones(2, 4, 2), torch.ones(2, 4, 4).to(torch.complex64)),
            None,
            DtypeError,
            r"input 1 \('n n'\) .* real numbers",
        ),
        ((torch.ones(2, 4, 2), torch.ones(2, 4, 4)), torch.ones(2, 4), MaskError, r"mask to be boolean \(2, 4\)"),
        ((torch.ones(2, 7, 2), torch.ones(2, 7, 7)), None, ShapeError, r"at most 6 items \(got 7\)"),
    ],
)
def test_refuses_inputs(inputs: tuple[Any, ...], mask: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=r"^Expected " + message):
        build(ARRAYS[0])(*inputs, mask=mask)


@both_dtypes
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("identifiers", [True, False])
@pytest.mark.parametrize("arrays", ARRAYS)
def test_edges_are_read_as_the_array_is(arrays: str, identifiers: bool, masked: bool, dtype: torch.dtype) -> None:
    model, inputs = build(arrays, dtype, identifiers=identifiers), make_inputs(arrays, 3, 5, dtype)
    mask = make_mask(3, 5) if masked else None
    links = [x.dim() > 2 and x.shape[1] == x.shape[2] for x in inputs]
    edges = [EdgeList.from_dense(x) if two else x for x, two in zip(inputs, links, strict=True)]
    wanted, output = model(*inputs, mask=mask), model(*edges, mask=mask)
    assert_close(output, wanted, **TOLERANCE[dtype])
    leaves = [*model.parameters(), *(x for x, two in zip(inputs, links, strict=True) if two)]
    loose = {"rtol": 1e-3, "atol": 1e-4} if dtype == torch.float32 else TOLERANCE[dtype]
    assert_close(gradients(output, leaves), gradients(wanted, leaves), **loose)
