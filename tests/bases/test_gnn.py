from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from probsym import Symmetrized, groups, testing
from probsym.bases import GNN, EdgeList
from probsym.errors import DtypeError, MaskError, RangeError, ShapeError, SignatureError
from probsym.nets import VNDGCNN
from probsym.samplers import Frame, Learned, Sampler
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
)

ARRAYS = ["n 3, n 3, n n 2 -> n 3", "2, n, n n, n n 3 -> n", "n 3 -> 4", "n 2, 4, n n ->"]


def build(arrays: str, dtype: torch.dtype = torch.float64, **options: Any) -> GNN:
    torch.manual_seed(0)
    return GNN(arrays, **{"width": 6, "layers": 2, **options}).to(dtype)


def literal(model: GNN, inputs: Sequence[Tensor], mask: Tensor) -> Tensor:
    """One graph, one pair of its real nodes at a time; zero for padding."""
    terms = list(zip(model.arrays.inputs, inputs, strict=True))
    width, output = model.embed.out_features, model.arrays.output
    rows = []
    for b, real in enumerate(mask):
        nodes = real.nonzero().flatten().tolist()
        h, e = {}, {}
        for i in nodes:
            own = [(x[b, i] if array.order else x[b]).reshape(-1) for array, x in terms if array.order < 2]
            h[i] = model.embed(torch.cat(own) if own else torch.ones(1, dtype=inputs[0].dtype))
            for j in nodes:
                e[i, j] = [x[b, i, j].reshape(-1) for array, x in terms if array.order == 2]
        for layer in model.layers:
            new = {}
            for i in nodes:
                total = torch.zeros(width, dtype=h[i].dtype)
                for j in nodes:
                    if j != i:
                        total = total + layer.message(layer.function(layer.pair(torch.cat([h[i], h[j], *e[i, j]]))))
                new[i] = h[i] + layer.update(torch.cat([h[i], total]))
            h = new
        if output.order == 0:
            y = model.head(torch.stack([h[i] for i in nodes]).mean(0))
        else:
            empty = torch.zeros(output.width, dtype=inputs[0].dtype)
            y = torch.stack([model.head(h[i]) if i in h else empty for i in range(mask.shape[1])])
        rows.append(y if output.channels else y.squeeze(-1))
    return torch.stack(rows)


@both_dtypes
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("arrays", ARRAYS)
def test_agrees_with_a_loop_over_pairs(arrays: str, masked: bool, dtype: torch.dtype) -> None:
    model, inputs = build(arrays, dtype), make_inputs(arrays, 3, 4, dtype)
    mask = make_mask(3, 4) if masked else torch.ones(3, 4, dtype=torch.bool)
    output = at_real(model, model(*inputs, mask=mask if masked else None), mask)
    wanted = literal(model, inputs, mask)
    assert output.shape == wanted.shape == model.arrays.output.shape(3, 4)
    assert output.dtype == dtype
    assert_close(output, wanted, **TOLERANCE[dtype])
    leaves = [*inputs, *model.parameters()]
    assert_close(gradients(output, leaves), gradients(wanted, leaves), **TOLERANCE[dtype])


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("layers", [0, 1])
def test_other_layers_and_activations(layers: int, activation: str) -> None:
    model, inputs = build("n 2, n n -> n", layers=layers, activation=activation), make_inputs("n 2, n n -> n", 2, 3)
    mask = torch.ones(2, 3, dtype=torch.bool)
    assert_close(model(*inputs), literal(model, inputs, mask))
    assert type(model.head[1]).__name__.lower() == activation


def test_a_node_alone_gets_no_messages() -> None:
    model, inputs = build("n 2, n n -> n"), make_inputs("n 2, n n -> n", 2, 1)
    assert_close(model(*inputs), literal(model, inputs, torch.ones(2, 1, dtype=torch.bool)))


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("arrays", ARRAYS)
def test_follows_permutations(arrays: str, masked: bool) -> None:
    model, inputs, p = build(arrays), make_inputs(arrays, 3, 5), torch.tensor([3, 1, 4, 0, 2])
    mask = make_mask(3, 5) if masked else None
    moved = []
    for array, x in zip(model.arrays.inputs, inputs, strict=True):
        y = x
        for axis in range(1, 1 + array.order):
            y = y.index_select(axis, p)
        moved.append(y)
    wanted = model(*inputs, mask=mask)
    output = model(*moved, mask=None if mask is None else mask[:, p])
    assert_close(output, wanted[:, p] if model.arrays.output.order else wanted, rtol=0, atol=1e-12)


def test_depends_on_every_pair_but_not_on_the_diagonal() -> None:
    model, (x, pairs) = build("n 2, n n 2 -> n"), make_inputs("n 2, n n 2 -> n", 1, 4)
    (gradient,) = torch.autograd.grad(model(x, pairs).sum(), pairs)
    assert ((gradient.abs().sum(-1) > 0) == ~torch.eye(4, dtype=torch.bool)).all()


@pytest.mark.parametrize("arrays", ARRAYS)
def test_padding_has_no_say(arrays: str) -> None:
    model, mask = build(arrays), make_mask(3, 5)
    results = []
    for junk in (0.0, 1e3):
        inputs = fill_padding(arrays, make_inputs(arrays, 3, 5), mask, junk)
        y = at_real(model, model(*inputs, mask=mask), mask)
        results.append([y, *gradients(y, [*inputs, *model.parameters()])])
    assert_close(results[0], results[1], rtol=0, atol=0)


@pytest.mark.parametrize("arrays", ARRAYS)
def test_masked_is_cropped(arrays: str) -> None:
    model, inputs = build(arrays), make_inputs(arrays, 2, 5)
    cropped = [
        x[(slice(None), *[slice(3)] * array.order)]
        for array, x in zip(build(arrays).arrays.inputs, inputs, strict=True)
    ]
    output = model(*inputs, mask=(torch.arange(5) < 3).expand(2, 5))
    assert_close(output[:, :3] if model.arrays.output.order else output, model(*cropped))


def test_an_item_without_nodes_is_finite() -> None:
    model, (x,) = build("n 3 -> 4"), make_inputs("n 3 -> 4", 2, 3)
    y = model(x, mask=torch.tensor([[False] * 3, [True] * 3]))
    assert_close(y[0], model.head(torch.zeros(6, dtype=torch.float64)))
    assert all(gradient.isfinite().all() for gradient in gradients(y, [x, *model.parameters()]))


def test_refuses_no_items() -> None:
    with pytest.raises(ShapeError, match=r"^Expected at least one item \(got 0\)"):
        build("n 3 -> 4")(normal(2, 0, 3))


def test_masks_by_name() -> None:
    model, inputs, mask = build(ARRAYS[0]), make_inputs(ARRAYS[0], 3, 5), make_mask(3, 5)
    named = {"m": torch.ones(3, 4, dtype=torch.bool), "n": mask}
    assert torch.equal(model(*inputs, mask=named), model(*inputs, mask=mask))


def test_arrays_of_pairs_alone_are_enough() -> None:
    model, inputs = build("n n 2 -> n 3"), make_inputs("n n 2 -> n 3", 2, 4)
    assert_close(model(*inputs), literal(model, inputs, torch.ones(2, 4, dtype=torch.bool)))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float16, torch.float32], ids=str)
def test_inputs_are_cast_to_the_parameters(dtype: torch.dtype) -> None:
    model, x, pairs = build("n 2, n n -> n"), normal(2, 4, 2), normal(2, 4, 4, seed=1) > 0
    assert_close(model(x, pairs.to(dtype)), model(x, pairs.double()))


def test_parameter_count() -> None:
    """embed, 4 layers of (h, h, e) -> h -> h and (h, h) -> h -> h, and the head."""
    width = 60
    layer = (2 * width + 2) * width + width + 2 * (width**2 + width) + 2 * width**2 + width
    total = 6 * width + width + 4 * layer + width**2 + width + 3 * width + 3
    assert count(GNN("n 3, n 3, n n 2 -> n 3")) == total == 92_103


SAMPLERS = {
    "Learned": lambda: Learned(VNDGCNN(2, hidden=24, neighbours=3, scores=False), reads=(0, 1)),
    "Frame": lambda: Frame(reads=(0, 1)),
}


def particles(dtype: torch.dtype) -> list[Tensor]:
    return [normal(3, 5, 3, dtype=dtype), normal(3, 5, 3, dtype=dtype, seed=1), normal(3, 5, 5, 2, dtype=dtype, seed=2)]


def symmetrized(base: Any, sampler: Sampler, dtype: torch.dtype, output: str = "n d") -> Symmetrized:
    signature = f"n d:point, n d, n m e -> {output}"
    return Symmetrized(base, signature, {"d": groups.E(3)}, sampler, 1 if sampler.lists_elements else 4).to(dtype)


@pytest.mark.parametrize("output", ["n d", "n d:point"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_symmetrized_follows_motions(sampler: str, output: str) -> None:
    model = symmetrized(build(ARRAYS[0]), SAMPLERS[sampler](), torch.float64, output)
    testing.assert_equivariant(model, *particles(torch.float64))


class TakesMasks(torch.nn.Module):
    def __init__(self, base: GNN) -> None:
        super().__init__()
        self.base = base

    def forward(self, *inputs: Tensor, mask: dict[str, Tensor]) -> Tensor:
        return self.base(*inputs, mask=mask["n"])


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_symmetrized_follows_motions_of_masked_points(sampler: str) -> None:
    model, mask = symmetrized(TakesMasks(build(ARRAYS[0])), SAMPLERS[sampler](), torch.float64), make_mask(3, 5)
    testing.assert_equivariant(model, *particles(torch.float64), mask={"n": mask, "m": mask})


def test_symmetrized_takes_masks_of_its_own_items() -> None:
    model, mask = symmetrized(build(ARRAYS[0]), Frame(reads=(0, 1)), torch.float64), make_mask(3, 5)
    testing.assert_equivariant(model, *particles(torch.float64), mask={"n": mask, "m": mask})


def test_symmetrized_without_pairs_takes_a_mask() -> None:
    model = Symmetrized(build("n 3, n 3 -> n 3"), "n d:point, n d -> n d", {"d": groups.E(3)}, Frame())
    testing.assert_equivariant(model, *particles(torch.float64)[:2], mask=make_mask(3, 5))


def test_bfloat16() -> None:
    inputs, mask = [x.float() for x in particles(torch.float32)], make_mask(3, 5)
    model = build(ARRAYS[0], torch.float32)
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
    model, inputs, mask = build(ARRAYS[0]), particles(torch.float64), make_mask(3, 5)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert_close(compiled(*inputs, mask=mask), model(*inputs, mask=mask))


def test_an_empty_batch_stays_empty() -> None:
    assert build(ARRAYS[0])(*make_inputs(ARRAYS[0], 0, 4)).shape == (0, 4, 3)
    assert build(ARRAYS[2])(*make_inputs(ARRAYS[2], 0, 4)).shape == (0, 4)


@pytest.mark.parametrize(
    ("arrays", "options", "error", "message"),
    [
        ("n 3", {}, SignatureError, r"arrays as text with one '->'"),
        ("n n n -> n", {}, SignatureError, r"GNN to read order 0 or 1 or 2 in input 0 \(got 'n n n'\)"),
        ("n 3 -> n n", {}, SignatureError, r"GNN to return order 0 or 1 \(got 'n n'\)"),
        ("n 3 -> n", {"width": 0}, RangeError, r"width to be 1 or more \(got 0\)"),
        ("n 3 -> n", {"width": 2.0}, RangeError, r"width to be 1 or more \(got 2.0\)"),
        ("n 3 -> n", {"layers": -1}, RangeError, r"layers to be 0 or more \(got -1\)"),
        ("n 3 -> n", {"activation": "swish"}, RangeError, r"activation to be one of .*\(got 'swish'\)"),
    ],
)
def test_refuses_to_be_built(arrays: str, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=r"^Expected " + message):
        GNN(arrays, **options)


@pytest.mark.parametrize("arrays", ["3 -> 2", "3 -> n 2"])
def test_refuses_arrays_that_do_not_tell_the_items(arrays: str) -> None:
    with pytest.raises(SignatureError, match=r"^Expected "):
        GNN(arrays)


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
        ((torch.ones(2, 4, 3), torch.ones(2, 4, 4)), torch.ones(2, 3).bool(), MaskError, r"mask to be boolean"),
    ],
)
def test_refuses_inputs(inputs: tuple[Any, ...], mask: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=r"^Expected " + message):
        build("n 3, n n -> n")(*inputs, mask=mask)


def test_refuses_a_mask_on_another_device() -> None:
    with pytest.raises(MaskError, match=r"^Expected mask to be "):
        build("n 3 -> n")(normal(2, 4, 3), mask=torch.ones(2, 4, dtype=torch.bool, device="meta"))


@pytest.mark.parametrize(("arrays", "shape"), [("n n -> 2", (2, 4, 4)), ("n n 3 -> 2", (2, 4, 4, 3))])
def test_refuses_an_edge_list(arrays: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(DtypeError, match=r"^Expected input 0 "):
        build(arrays)(EdgeList.from_dense(torch.ones(shape)))


def test_dropout_is_on_what_a_layer_adds() -> None:
    inputs, plain, model = make_inputs(ARRAYS[0], 3, 4), build(ARRAYS[0]), build(ARRAYS[0], dropout=1 - 1e-12)
    assert_close(model.eval()(*inputs), plain(*inputs))
    dropped = model.train()(*inputs)
    model.layers = torch.nn.ModuleList()
    assert_close(dropped, model(*inputs))
    with pytest.raises(RangeError, match="Expected dropout"):
        build(ARRAYS[0], dropout=1.0)
