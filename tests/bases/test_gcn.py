from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from probsym import Symmetrized, groups, testing
from probsym.bases import GCN, EdgeList
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

ARRAYS = ["n 2, n n -> 3", "n n 1, n, n 2 -> n 2", "n n, n -> n", "n 3, n n ->"]


def build(arrays: str, dtype: torch.dtype = torch.float64, **options: Any) -> GCN:
    torch.manual_seed(0)
    model = GCN(arrays, **{"width": 5, "layers": 2, **options}).to(dtype)
    scrambled(model)
    return model


def graphs(arrays: str, batch: int, n: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Normal features, and links of 0 or more, some of them 0; not symmetric."""
    inputs = make_inputs(arrays, batch, n, dtype)
    return [x.detach().relu().requires_grad_() if is_links(x) else x for x in inputs]


def is_links(x: Tensor) -> bool:
    return x.dim() > 2 and x.shape[1] == x.shape[2]


def literal(model: GCN, inputs: Sequence[Tensor], mask: Tensor) -> Tensor:
    """One graph without its padding, one node and one neighbour at a time."""
    (links,) = [x for x in inputs if is_links(x)]
    features = [x for x in inputs if not is_links(x)]
    output, rows = model.arrays.output, []
    for b, real in enumerate(mask):
        nodes = real.nonzero().flatten().tolist()
        looped = {(i, j): links[b, i, j].sum() + float(i == j) for i in nodes for j in nodes}
        degree = {i: torch.stack([looped[i, j] for j in nodes]).sum() for i in nodes}
        h = {i: torch.cat([x[b, i].reshape(-1) for x in features]) for i in nodes}
        for layer in model.layers:
            mapped = {j: layer.weight @ h[j] + layer.bias for j in nodes}
            h = {
                i: model.function(
                    torch.stack([looped[i, j] / (degree[i] * degree[j]).sqrt() * mapped[j] for j in nodes]).sum(0)
                )
                for i in nodes
            }
        if output.order == 0:
            y = model.head(torch.stack([h[i] for i in nodes]).mean(0))
        else:
            empty = torch.zeros(output.width, dtype=links.dtype)
            y = torch.stack([model.head(h[i]) if i in h else empty for i in range(mask.shape[1])])
        rows.append(y if output.channels else y.squeeze(-1))
    return torch.stack(rows)


@both_dtypes
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("arrays", ARRAYS)
def test_agrees_with_a_loop_over_neighbours(arrays: str, masked: bool, dtype: torch.dtype) -> None:
    model, inputs = build(arrays, dtype), graphs(arrays, 3, 5, dtype)
    mask = make_mask(3, 5) if masked else torch.ones(3, 5, dtype=torch.bool)
    wanted = literal(model, inputs, mask)
    output = at_real(model, model(*inputs, mask=mask if masked else None), mask)
    assert output.shape == wanted.shape == model.arrays.output.shape(3, 5)
    assert output.dtype == dtype
    assert_close(output, wanted, **TOLERANCE[dtype])
    leaves = [*inputs, *model.parameters()]
    loose = {"rtol": 1e-3, "atol": 1e-4} if dtype == torch.float32 else TOLERANCE[dtype]
    assert_close(gradients(output, leaves), gradients(wanted, leaves), **loose)
    edges = [EdgeList.from_dense(x) if is_links(x) else x for x in inputs]
    listed = at_real(model, model(*edges, mask=mask if masked else None), mask)
    assert_close(listed, wanted, **TOLERANCE[dtype])
    leaves = [*(x for x in inputs if not is_links(x)), *model.parameters()]
    again = at_real(model, model(*inputs, mask=mask if masked else None), mask)
    assert_close(gradients(listed, leaves), gradients(again, leaves), **loose)


@pytest.mark.parametrize("activation", ["tanh", "gelu"])
@pytest.mark.parametrize("layers", [1, 3])
def test_other_layers_and_activations(layers: int, activation: str) -> None:
    model, inputs = build(ARRAYS[0], layers=layers, activation=activation), graphs(ARRAYS[0], 2, 4)
    assert_close(model(*inputs), literal(model, inputs, torch.ones(2, 4, dtype=torch.bool)))
    assert type(model.function).__name__.lower() == type(model.head[1]).__name__.lower() == activation


@pytest.mark.parametrize(("name", "function"), [("tanh", torch.tanh), ("relu", torch.relu)])
def test_output_activation(name: str, function: Any) -> None:
    inputs = graphs(ARRAYS[0], 3, 5)
    assert_close(build(ARRAYS[0], output_activation=name)(*inputs), function(build(ARRAYS[0])(*inputs)))


def test_a_node_alone_is_a_plain_network() -> None:
    model, x = build("n 2, n n -> n 3"), normal(2, 4, 2)
    hidden = x
    for layer in model.layers:
        hidden = model.function(layer(hidden))
    assert_close(model(x, torch.zeros(2, 4, 4)), model.head(hidden))


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("arrays", ARRAYS)
def test_follows_permutations(arrays: str, masked: bool) -> None:
    model, inputs, p = build(arrays), graphs(arrays, 3, 5), torch.tensor([3, 1, 4, 0, 2])
    mask = make_mask(3, 5) if masked else None
    moved = [x[:, p][:, :, p] if is_links(x) else x[:, p] for x in inputs]
    wanted = model(*inputs, mask=mask)
    output = model(*moved, mask=None if mask is None else mask[:, p])
    assert_close(output, wanted[:, p] if model.arrays.output.order else wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("arrays", ARRAYS)
@pytest.mark.parametrize("garbage", [1e3, -1e3, torch.nan])
def test_padding_has_no_say(arrays: str, garbage: float) -> None:
    model, mask, results = build(arrays), make_mask(3, 5), []
    for junk in (0.0, garbage):
        inputs = fill_padding(arrays, graphs(arrays, 3, 5), mask, junk)
        y = at_real(model, model(*inputs, mask=mask), mask)
        results.append([y, *gradients(y, [*inputs, *model.parameters()])])
    assert_close(results[0], results[1], rtol=0, atol=0)


@pytest.mark.parametrize("arrays", ARRAYS)
def test_masked_is_cropped(arrays: str) -> None:
    model, inputs = build(arrays), graphs(arrays, 2, 5)
    cropped = [x[:, :3, :3] if is_links(x) else x[:, :3] for x in inputs]
    output = model(*inputs, mask=(torch.arange(5) < 3).expand(2, 5))
    assert_close(output[:, :3] if model.arrays.output.order else output, model(*cropped))


def test_an_item_without_nodes_is_finite() -> None:
    model, inputs = build(ARRAYS[0]), graphs(ARRAYS[0], 2, 3)
    y = model(*inputs, mask=torch.tensor([[False] * 3, [True] * 3]))
    assert_close(y[0], model.head(torch.zeros(5, dtype=torch.float64)))
    assert all(gradient.isfinite().all() for gradient in gradients(y, [*inputs, *model.parameters()]))


def test_masks_by_name() -> None:
    model, inputs, mask = build(ARRAYS[0]), graphs(ARRAYS[0], 3, 5), make_mask(3, 5)
    named = {"m": torch.ones(3, 4, dtype=torch.bool), "n": mask}
    assert torch.equal(model(*inputs, mask=named), model(*inputs, mask=mask))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32], ids=str)
def test_inputs_are_cast_to_the_parameters(dtype: torch.dtype) -> None:
    model, x, links = build(ARRAYS[0]), normal(2, 4, 2), normal(2, 4, 4, seed=1) > 0
    assert_close(model(x, links.to(dtype)), model(x, links.double()))


def test_parameter_count() -> None:
    """Three layers and the head."""
    square = 64 * 64 + 64
    assert count(GCN("n 2, n n -> 10")) == 2 * 64 + 64 + 2 * square + square + 64 * 10 + 10


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
    model, inputs, mask = build(ARRAYS[0], torch.float32), graphs(ARRAYS[0], 3, 5, torch.float32), make_mask(3, 5)
    wanted = model(*inputs, mask=mask)
    with torch.autocast("cpu", torch.bfloat16):
        output = model(*inputs, mask=mask)
    assert_close(output.float(), wanted, rtol=0.05, atol=0.05)
    gradients(output, model.parameters())
    model.to(torch.bfloat16)
    output = model(*inputs, mask=mask)
    assert output.dtype == torch.bfloat16
    assert_close(output.float(), wanted, rtol=0.05, atol=0.05)
    gradients(output, model.parameters())


def test_compiles_without_a_break() -> None:
    model, inputs, mask = build(ARRAYS[0]), graphs(ARRAYS[0], 3, 5), make_mask(3, 5)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert_close(compiled(*inputs, mask=mask), model(*inputs, mask=mask))


def test_an_empty_batch_stays_empty() -> None:
    assert build(ARRAYS[0])(*make_inputs(ARRAYS[0], 0, 4)).shape == (0, 3)


@pytest.mark.parametrize(
    ("arrays", "options", "error", "message"),
    [
        ("n n", {}, SignatureError, r"arrays as text with one '->'"),
        ("n 3 -> 2", {}, SignatureError, r"GCN to read node features and one array 'n n' \(got 'n 3 -> 2'\)"),
        ("n n -> 2", {}, SignatureError, r"GCN to read node features and one array 'n n' \(got 'n n -> 2'\)"),
        ("n, n n, n n -> 2", {}, SignatureError, r"GCN to read node features and one array 'n n'"),
        ("n, n n 2 -> 2", {}, SignatureError, r"GCN to read node features and one array 'n n'"),
        ("3, n n -> 2", {}, SignatureError, r"GCN to read order 1 or 2 in input 0 \(got '3'\)"),
        ("n, n n -> n n", {}, SignatureError, r"GCN to return order 0 or 1 \(got 'n n'\)"),
        ("n, n n -> n", {"width": 0}, RangeError, r"width to be 1 or more \(got 0\)"),
        ("n, n n -> n", {"width": 2.0}, RangeError, r"width to be 1 or more \(got 2.0\)"),
        ("n, n n -> n", {"layers": 0}, RangeError, r"layers to be 1 or more \(got 0\)"),
        ("n, n n -> n", {"activation": "no"}, RangeError, r"activation to be one of .*\(got 'no'\)"),
        ("n, n n -> n", {"activation": []}, RangeError, r"activation to be one of .*\(got \[\]\)"),
        ("n, n n -> n", {"output_activation": "no"}, RangeError, r"output_activation to be one of .*\(got 'no'\)"),
    ],
)
def test_refuses_to_be_built(arrays: str, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=r"^Expected " + message):
        GCN(arrays, **options)


FEATURES, LINKS = torch.ones(2, 4, 2), torch.ones(2, 4, 4)


@pytest.mark.parametrize(
    ("inputs", "mask", "error", "message"),
    [
        ((LINKS,), None, ShapeError, r"2 inputs, 'n 2, n n -> 3' \(got 1\)"),
        ((FEATURES, torch.ones(2, 4, 5)), None, ShapeError, r"input 1 \('n n'\) to have shape \(2, 4, 4\)"),
        ((FEATURES, LINKS.to(torch.complex64)), None, DtypeError, r"input 1 \('n n'\) .* real numbers"),
        ((FEATURES, LINKS.to_sparse()), None, DtypeError, r"input 1 \('n n'\) to be a dense tensor"),
        ((EdgeList.from_dense(LINKS), LINKS), None, DtypeError, r"input 0 \('n 2'\) .* \(got EdgeList\)"),
        ((torch.ones(2, 0, 2), torch.ones(2, 0, 0)), None, ShapeError, r"at least one item \(got 0\)"),
        ((FEATURES, LINKS), torch.ones(2, 4), MaskError, r"mask to be boolean \(2, 4\)"),
        ((FEATURES, LINKS), torch.ones(2, 3).bool(), MaskError, r"mask to be boolean \(2, 4\)"),
        ((FEATURES, LINKS), {"n": torch.ones(2, 3).bool()}, MaskError, r"a mask \(2, 4\) among those given"),
        ((FEATURES, LINKS), torch.ones(2, 4, device="meta").bool(), MaskError, r"mask to be on cpu"),
    ],
)
def test_refuses_inputs(inputs: tuple[Any, ...], mask: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=r"^Expected " + message):
        build(ARRAYS[0])(*inputs, mask=mask)
