from itertools import pairwise

import pytest
import torch
from torch.testing import assert_close

from probsym.bases import MLP
from probsym.errors import DtypeError, RangeError, ShapeError

FUNCTIONS = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
}
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def normal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def literal(model, inputs, activation, output_activation):
    """One batch item and one layer at a time, from the weights alone."""
    linears = [layer for layer in model.layers if isinstance(layer, torch.nn.Linear)]
    rows = []
    for item in zip(*inputs, strict=True):
        h = torch.tensor([number for x in item for number in x.flatten().tolist()], dtype=linears[0].weight.dtype)
        for i, linear in enumerate(linears):
            h = linear.weight @ h + linear.bias
            name = activation if i < len(linears) - 1 else output_activation
            h = FUNCTIONS[name](h) if name else h
        rows.append(h.reshape(model.shape))
    return torch.stack(rows)


@both_dtypes
@pytest.mark.parametrize("activation", FUNCTIONS)
@pytest.mark.parametrize("output_activation", [None, "tanh"])
@pytest.mark.parametrize(
    ("widths", "shape", "wanted"),
    [
        ([19, 6], None, (4, 6)),
        ([19, 7, 6], (3, 2), (4, 3, 2)),
        ([19, 5, 8, 7, 1], (), (4,)),
        ([19, 5, 1], None, (4, 1)),
        ([19, 9, 9], (3, 3, 1), (4, 3, 3, 1)),
    ],
)
def test_agrees_with_a_loop_over_layers(widths, shape, wanted, activation, output_activation, dtype):
    model = MLP(widths, activation, shape=shape, output_activation=output_activation).to(dtype)
    inputs = normal(4, 3, 3, dtype=dtype) > 0, normal(4, 3, 2, dtype=dtype, seed=1), torch.arange(16).view(4, 2, 2)
    output = model(*inputs)
    assert output.shape == wanted
    assert output.dtype == dtype
    assert_close(output, literal(model, inputs, activation, output_activation))


def test_inputs_enter_in_order():
    model = MLP([5, 3]).double()
    x, y = normal(2, 3), normal(2, 2, seed=1)
    assert_close(model(x, y), model(torch.cat([x, y], -1)))
    assert not torch.isclose(model(x, y), model(torch.cat([y, x], -1))).any()


def test_one_number_a_batch_item_is_an_input():
    model = MLP([3, 2])
    time, x = torch.rand(4), torch.rand(4, 2)
    assert_close(model(time, x), model(torch.cat([time[:, None], x], -1)))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.uint8, torch.float16, torch.float64], ids=str)
def test_inputs_are_cast_to_the_parameters(dtype):
    model, adjacency = MLP([9, 4, 2]), (normal(5, 3, 3) > 0).to(dtype)
    assert torch.equal(model(adjacency), model(adjacency.float()))
    assert model.double()(adjacency).dtype == torch.float64


@pytest.mark.parametrize("shape", [None, (2, 3)])
def test_an_empty_batch_stays_empty(shape):
    assert MLP([4, 6], shape=shape)(torch.ones(0, 2, 2)).shape == (0, *(shape or (6,)))


def test_dropout_is_between_layers_and_off_in_evaluation():
    model = MLP([6, 500, 500, 4], dropout=0.9)
    plain = MLP([6, 500, 500, 4])
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    for parameter, weight in zip(plain.parameters(), weights, strict=True):
        parameter.data.copy_(weight)
    x = torch.rand(3, 6)
    assert not torch.isclose(model(x), model(x)).all()
    assert torch.equal(model.eval()(x), plain(x))
    one_layer = MLP([6, 4], dropout=0.9)
    assert torch.equal(one_layer(x), one_layer(x))


def test_gradients_reach_inputs_and_every_parameter():
    model = MLP([7, 5, 4, 3], "tanh").double()
    inputs = normal(2, 3).requires_grad_(), normal(2, 2, 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(model, inputs)
    model(*inputs).square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in model.parameters())


def test_autocast_reaches_the_layers():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert MLP([4, 3, 2])(torch.rand(5, 4)).dtype == torch.bfloat16


def test_compiles_without_a_break_and_survives_a_round_trip():
    model, inputs = MLP([6, 4, 4], shape=(2, 2)), (torch.ones(3, 2, 2, dtype=torch.bool), torch.rand(3, 2))
    wanted = model(*inputs)
    assert_close(torch.compile(model, backend="eager", fullgraph=True)(*inputs), wanted)
    other = MLP([6, 4, 4], shape=(2, 2))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(*inputs), wanted)


def test_parameter_count():
    """The paper's model for EXP: 64 x 64 links and 64 x 2 features, 25.4 million in all."""
    widths = [4224, 2048, 4096, 2048, 10, 1]
    with torch.device("meta"):
        model = MLP(widths)
    total = sum(first * second + second for first, second in pairwise(widths))
    assert sum(parameter.numel() for parameter in model.parameters()) == total == 25_456_661


@pytest.mark.parametrize(
    ("widths", "options", "error", "message"),
    [
        ([], {}, RangeError, r"widths to hold 2 or more, from input to output \(got \[\]\)"),
        ([5], {}, RangeError, r"widths to hold 2 or more, from input to output \(got \[5\]\)"),
        ([5, 0, 3], {}, RangeError, r"widths to be 1 or more each \(got \[5, 0, 3\]\)"),
        ([5, -2], {}, RangeError, r"widths to be 1 or more each \(got \[5, -2\]\)"),
        ([5, 2.0], {}, DtypeError, r"widths to be a sequence of integers \(got \[5, 2.0\]\)"),
        (5, {}, DtypeError, r"widths to be a sequence of integers \(got 5\)"),
        (
            [5, 2],
            {"activation": "swish"},
            RangeError,
            r"activation to be one of relu, tanh, gelu, silu \(got 'swish'\)",
        ),
        ([5, 2], {"output_activation": ""}, RangeError, r"output_activation to be one of relu, .*\(got ''\)"),
        ([5, 2], {"shape": (3, 2)}, ShapeError, r"shape to hold 2 numbers like the last width \(got 6: \(3, 2\)\)"),
        ([5, 2], {"shape": ()}, ShapeError, r"shape to hold 2 numbers like the last width \(got 1: \(\)\)"),
        ([5, 2], {"shape": (-1, -2)}, RangeError, r"shape to be 1 or more each \(got \[-1, -2\]\)"),
        ([5, 2], {"shape": 2}, DtypeError, r"shape to be a sequence of integers \(got 2\)"),
        ([5, 2], {"dropout": 1.0}, RangeError, r"dropout to be in \[0, 1\) \(got 1.0\)"),
        ([5, 2], {"dropout": -0.1}, RangeError, r"dropout to be in \[0, 1\) \(got -0.1\)"),
    ],
)
def test_refuses_to_be_built(widths, options, error, message):
    with pytest.raises(error, match=r"^Expected " + message):
        MLP(widths, **options)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ((), ShapeError, r"at least one input \(got none\)"),
        (
            (torch.ones(2, 64, 64), torch.ones(2, 64)),
            ShapeError,
            r"inputs of 4224 numbers in all \(got 4160: 64 x 64, 64\)",
        ),
        ((torch.ones(2), torch.ones(2, 3, 0)), ShapeError, r"inputs of 4224 numbers in all \(got 1: 1, 3 x 0\)"),
        ((torch.ones(2, 64, 64), torch.ones(3, 128)), ShapeError, r"input 1 to have batch size 2 .*\(got 3\)"),
        ((torch.ones(2, 64, 64), torch.tensor(1.0)), ShapeError, r"input 1 to have a batch axis \(got shape \(\)\)"),
        ((torch.ones(2, 4224).cfloat(),), DtypeError, r"input 0 to be a tensor of real .*\(got torch.complex64\)"),
        ((torch.ones(2, 4096), [1.0]), DtypeError, r"input 1 to be a tensor of real numbers \(got list\)"),
    ],
)
def test_refuses_inputs(inputs, error, message):
    with pytest.raises(error, match=r"^Expected " + message):
        MLP([64 * 64 + 64 * 2, 4])(*inputs)
