from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv1d, conv2d, conv_transpose1d, conv_transpose2d, pad
from torch.testing import assert_close

from probsym.bases import Arrays, EdgeList
from probsym.bases.arrays import Array
from probsym.bases.patches import Detokenize, Tokenize
from probsym.errors import RangeError, SignatureError
from tests.bases.cases import TOLERANCE, both_dtypes, gradients, make_inputs, normal, scrambled

GRID, WIDTH = 3, 5
SIZES = [(7, 7), (7, 4), (9, 9), (2, 2), (20, 20), (20, 13)]


def tokenizer(arrays: str, n: int, dtype: torch.dtype, diagonal: bool = False) -> Tokenize:
    torch.manual_seed(0)
    module = Tokenize(Arrays.parse(arrays), n, GRID, WIDTH, diagonal).to(dtype)
    scrambled(module)
    return module


def detokenizer(output: str, n: int, dtype: torch.dtype, diagonal: bool = False) -> Detokenize:
    torch.manual_seed(0)
    module = Detokenize(Arrays.parse(f"n -> {output}").output, n, GRID, WIDTH, diagonal).to(dtype)
    scrambled(module)
    return module


def convolved(array: Array, x: Tensor, weight: Tensor, side: int, piece: int, diagonal: bool) -> Tensor:
    """A convolution whose kernel and stride are the patch, on the array with zeros around."""
    x = x.unsqueeze(-1) if array.channels is None else x
    n, channels = x.shape[1], x.shape[-1]
    if array.order == 1 and not diagonal:
        kernel = weight.view(piece, channels, WIDTH).permute(2, 1, 0)
        return conv1d(pad(x.mT, (0, GRID**2 * piece - n)), kernel, stride=piece).mT
    kernel = normal(side, side, channels, WIDTH, dtype=x.dtype, seed=3)
    if array.order == 1:
        square = torch.zeros(len(x), n, n, channels, dtype=x.dtype)
        for i in range(n):
            square[:, i, i] = x[:, i]
        for i in range(side):
            kernel[i, i] = weight.view(side, channels, WIDTH)[i]
        x = square
    else:
        kernel = weight.view(side, side, channels, WIDTH)
    image = pad(x.permute(0, 3, 1, 2), (0, GRID * side - n, 0, GRID * side - n))
    return conv2d(image, kernel.permute(3, 2, 0, 1), stride=side).flatten(2).mT


@both_dtypes
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize(("most", "n"), SIZES)
@pytest.mark.parametrize("arrays", ["n 3 -> 1", "n 2, n n, n, n n 3 -> 1"])
def test_tokens_are_a_convolution(arrays: str, most: int, n: int, diagonal: bool, dtype: torch.dtype) -> None:
    module, inputs = tokenizer(arrays, most, dtype, diagonal), make_inputs(arrays, 2, n, dtype)
    tokens = module(*inputs)
    parts = [
        convolved(array, x, weight, module.side, module.piece, diagonal)
        for array, x, weight in zip(module.arrays.inputs, inputs, module.weights, strict=True)
    ]
    wanted = sum(parts[1:], parts[0]) + module.bias
    assert tokens.shape == (2, GRID**2, WIDTH)
    assert tokens.dtype == dtype
    assert_close(tokens, wanted, **TOLERANCE[dtype])
    leaves = [*inputs, *module.parameters()]
    assert_close(gradients(tokens, leaves), gradients(wanted, leaves), **TOLERANCE[dtype])


@pytest.mark.parametrize(("n", "side", "piece"), [(188, 14, 1), (444, 32, 3), (53, 4, 1), (196, 14, 1), (197, 15, 2)])
def test_sizes_of_the_paper(n: int, side: int, piece: int) -> None:
    arrays = Arrays.parse("n 3, n n 2 -> n n 4")
    with torch.device("meta"):
        plain, diagonal = (Tokenize(arrays, n, 14, 8, with_diagonal) for with_diagonal in (False, True))
        outputs = [
            Detokenize(Arrays.parse(f"n -> {output}").output, n, 14, 8, False) for output in ("4", "n 4", "n n 4")
        ]
        on_diagonal = Detokenize(Arrays.parse("n -> n 4").output, n, 14, 8, True)
    assert (plain.side, plain.piece) == (side, piece)
    assert [tuple(weight.shape) for weight in plain.weights] == [(piece * 3, 8), (side**2 * 2, 8)]
    assert [tuple(weight.shape) for weight in diagonal.weights] == [(side * 3, 8), (side**2 * 2, 8)]
    assert [tuple(module.weight.shape) for module in outputs] == [(8, 4), (8, piece * 4), (8, side**2 * 4)]
    assert tuple(on_diagonal.weight.shape) == (8, side * 4)
    assert plain.bias.shape == (8,)
    assert on_diagonal.bias.shape == (4,)


@pytest.mark.parametrize(
    ("arrays", "diagonal", "readers"),
    [
        ("n 50, n n, n n 7 -> 10", False, [3 * 50, 32**2 * 8, 32**2 * 8]),  # the paper's molecules: .047 and .006
        ("n 3, n n -> n 2", True, [14**2 * 4, 14**2 * 4]),  # its PATTERN: one convolution over four channels
    ],
)
def test_maps_start_as_convolutions_do_or_as_asked(arrays: str, diagonal: bool, readers: list[int]) -> None:
    n = 188 if diagonal else 444
    module = Tokenize(Arrays.parse(arrays), n, 14, 256, diagonal)
    for weight, many in zip(module.weights, readers, strict=True):
        assert float(weight.detach().abs().max()) <= many**-0.5
        assert float(weight.detach().std()) == pytest.approx((3 * many) ** -0.5, rel=0.05)
    assert 0 < float(module.bias.detach().abs().max()) <= min(readers) ** -0.5
    normal = Tokenize(Arrays.parse(arrays), n, 14, 256, diagonal, std=0.02)
    assert all(float(weight.detach().std()) == pytest.approx(0.02, rel=0.05) for weight in normal.weights)
    assert not normal.bias.any()
    with pytest.raises(RangeError, match="token_std"):
        Tokenize(Arrays.parse(arrays), n, 14, 8, diagonal, std=-1.0)


@both_dtypes
@pytest.mark.parametrize("padding", ["reflect", "circular"])
@pytest.mark.parametrize(("arrays", "diagonal"), [("n 3 -> 1", False), ("n 3 -> 1", True), ("n n 2 -> 1", False)])
@pytest.mark.parametrize(("most", "n"), [(7, 7), (7, 4), (9, 9), (10, 10), (10, 6)])
def test_patches_are_filled_from_both_sides(
    arrays: str, diagonal: bool, most: int, n: int, padding: str, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    module = Tokenize(Arrays.parse(arrays), most, GRID, WIDTH, diagonal, padding=padding).to(dtype)
    (x,) = make_inputs(arrays, 2, n, dtype)
    x = pad(x, (0, 0, *(0, most - n) * module.arrays.inputs[0].order))
    square = diagonal or x.dim() == 4
    length = GRID * module.side if square else GRID**2 * module.piece
    room = [(length - most) // 2, length - most - (length - most) // 2]
    if x.dim() == 4:  # torch's own padding, of the last axes
        wanted = pad(x.permute(0, 3, 1, 2), room * 2, mode=padding).permute(0, 2, 3, 1)
    else:
        wanted = pad(x.mT, room, mode=padding).mT
    whole = Tokenize(Arrays.parse(arrays), length, GRID, WIDTH, diagonal).to(dtype)
    whole.load_state_dict(module.state_dict())
    tokens = module(*make_inputs(arrays, 2, n, dtype))
    assert_close(tokens, whole(wanted), **TOLERANCE[dtype])
    assert_close(
        gradients(tokens, [*module.parameters()]), gradients(whole(wanted), [*whole.parameters()]), **TOLERANCE[dtype]
    )


def test_paddings_that_cannot_be_are_refused() -> None:
    with pytest.raises(RangeError, match=r"Expected padding to be one of zeros, reflect, circular \(got 'mirror'\)"):
        Tokenize(Arrays.parse("n 3 -> 1"), 7, GRID, WIDTH, False, padding="mirror")
    with pytest.raises(RangeError, match="by reflection"):
        Tokenize(Arrays.parse("n 3 -> 1"), 2, GRID, WIDTH, False, padding="reflect")
    module = Tokenize(Arrays.parse("n n -> 1"), 7, GRID, WIDTH, False, padding="circular")
    edges = EdgeList(torch.zeros(3, 0, dtype=torch.long), torch.zeros(0), 2, 7)
    with pytest.raises(SignatureError, match="Expected a dense array"):
        module(edges)


@pytest.mark.parametrize("arrays", ["n 3 -> 1", "n n 2 -> 1"])
def test_fewer_items_are_padded_with_zeros(arrays: str) -> None:
    module, (x,) = tokenizer(arrays, 9, torch.float64), make_inputs(arrays, 2, 5)
    room = (0, 0, 0, 4) if x.dim() == 3 else (0, 0, 0, 4, 0, 4)
    assert_close(module(x), module(pad(x, room)))


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("arrays", ["n 3 -> 1", "n n 3 -> 1"])
def test_inputs_of_any_strides(arrays: str, diagonal: bool) -> None:
    module = tokenizer(arrays, 18, torch.float64, diagonal)
    x = normal(2, 3, 18).mT if arrays.startswith("n 3") else normal(2, 3, 18, 18).permute(0, 3, 2, 1)
    assert_close(module(x), module(x.contiguous()))


@both_dtypes
@pytest.mark.parametrize(("most", "n"), SIZES)
@pytest.mark.parametrize("output", ["n n", "n n 2"])
def test_pairs_are_a_transposed_convolution(output: str, most: int, n: int, dtype: torch.dtype) -> None:
    module, tokens = detokenizer(output, most, dtype), normal(2, 1 + GRID**2, WIDTH, dtype=dtype).requires_grad_()
    channels, side = module.output.width, module.side
    grid = tokens[:, 1:].mT.unflatten(2, (GRID, GRID))
    kernel = module.weight.view(WIDTH, side, side, channels).permute(0, 3, 1, 2)
    wanted = conv_transpose2d(grid, kernel, module.bias, stride=side)[:, :, :n, :n].permute(0, 2, 3, 1)
    check(module(tokens, n), wanted, module, tokens, n)


@both_dtypes
@pytest.mark.parametrize(("most", "n"), SIZES)
@pytest.mark.parametrize("output", ["n", "n 2"])
def test_items_are_a_transposed_convolution(output: str, most: int, n: int, dtype: torch.dtype) -> None:
    module, tokens = detokenizer(output, most, dtype), normal(2, 1 + GRID**2, WIDTH, dtype=dtype).requires_grad_()
    kernel = module.weight.view(WIDTH, module.piece, module.output.width).mT
    wanted = conv_transpose1d(tokens[:, 1:].mT, kernel, module.bias, stride=module.piece)[:, :, :n].mT
    check(module(tokens, n), wanted, module, tokens, n)


@both_dtypes
@pytest.mark.parametrize(("most", "n"), SIZES)
@pytest.mark.parametrize("output", ["n", "n 2"])
def test_items_are_the_diagonal_of_one(output: str, most: int, n: int, dtype: torch.dtype) -> None:
    module = detokenizer(output, most, dtype, diagonal=True)
    tokens = normal(2, 1 + GRID**2, WIDTH, dtype=dtype).requires_grad_()
    channels, side = module.output.width, module.side
    kernel = normal(WIDTH, channels, side, side, dtype=dtype, seed=3)
    for i in range(side):
        kernel[:, :, i, i] = module.weight.view(WIDTH, side, channels)[:, i]
    grid = tokens[:, 1:].mT.unflatten(2, (GRID, GRID))
    square = conv_transpose2d(grid, kernel, module.bias, stride=side)
    wanted = torch.stack([square[:, :, i, i] for i in range(n)], dim=1)
    check(module(tokens, n), wanted, module, tokens, n)


@both_dtypes
@pytest.mark.parametrize("output", ["", "4"])
def test_one_output_is_a_map_of_the_global_token(output: str, dtype: torch.dtype) -> None:
    module, tokens = detokenizer(output, 7, dtype), normal(2, 1 + GRID**2, WIDTH, dtype=dtype).requires_grad_()
    wanted = torch.stack([module.weight.T @ row[0] + module.bias for row in tokens])
    check(module(tokens, 7), wanted, module, tokens, 7)


def check(output: Tensor, wanted: Tensor, module: Detokenize, tokens: Tensor, n: int) -> None:
    wanted = wanted if module.output.channels else wanted.squeeze(-1)
    assert output.shape == module.output.shape(2, n)
    assert_close(output, wanted, **TOLERANCE[output.dtype])
    leaves = [tokens, *module.parameters()]
    assert_close(gradients(output, leaves), gradients(wanted, leaves), **TOLERANCE[output.dtype])


def graph(batch: int, n: int, edges: int, dtype: torch.dtype, *channels: int, index: Any = torch.int64) -> EdgeList:
    """Edges in no order, some of them in the same place, and the second batch item without any."""
    generator = torch.Generator().manual_seed(4)
    place = torch.randint(n, (3, edges), generator=generator)
    place[0] = torch.randint(batch, (edges,), generator=generator)
    place[0][place[0] == 1] = 0
    place[:, -3:] = place[:, :3]
    return EdgeList(place.to(index), normal(edges, *channels, dtype=dtype, seed=2).requires_grad_(), batch, n)


@pytest.mark.parametrize(
    ("index", "dtype"), [(torch.int32, torch.float64), (torch.int64, torch.float32), (torch.int64, torch.float64)]
)
@pytest.mark.parametrize("channels", [(), (3,)], ids=str)
@pytest.mark.parametrize(("most", "n"), SIZES)
def test_edges_are_the_array(most: int, n: int, channels: tuple[int, ...], index: Any, dtype: torch.dtype) -> None:
    arrays = " ".join(["n n", *map(str, channels), "-> 1"])
    module, edges = tokenizer(arrays, most, dtype), graph(3, n, 30, dtype, *channels, index=index)
    tokens, wanted = module(edges), module(edges.dense())
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-10}[dtype]
    assert tokens.dtype == dtype
    assert_close(tokens, wanted, rtol=0, atol=tolerance)
    leaves = [edges.values, *module.parameters()]
    assert_close(gradients(tokens, leaves), gradients(wanted, leaves), rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("channels", [(), (2,)], ids=str)
def test_no_edges_at_all(channels: tuple[int, ...]) -> None:
    module = tokenizer(" ".join(["n n", *map(str, channels), "-> 1"]), 7, torch.float64)
    edges = graph(2, 5, 0, torch.float64, *channels)
    tokens = module(edges)
    assert_close(tokens, module.bias.expand(2, 9, WIDTH))
    assert gradients(tokens, module.weights)[0].count_nonzero() == 0


def test_an_edge_that_occurs_twice_counts_twice() -> None:
    module = tokenizer("n n -> 1", 7, torch.float64)
    place, value = torch.tensor([[0], [4], [6]]), normal(1)
    once, twice = (module(EdgeList(place.repeat(1, k), value.repeat(k), 1, 7)) - module.bias for k in (1, 2))
    assert_close(twice, 2 * once)
    assert (once != 0).any(-1).nonzero().tolist() == [[0, 5]]


def test_edges_beside_other_inputs() -> None:
    module, edges = tokenizer("n 3, n n, n n 2 -> 1", 7, torch.float64), graph(2, 6, 20, torch.float64)
    features, x = graph(2, 6, 25, torch.float64, 2), normal(2, 6, 3)
    assert_close(module(x, edges, features), module(x, edges.dense(), features.dense()))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32], ids=str)
def test_values_are_cast_to_the_weights(dtype: torch.dtype) -> None:
    module, edges = tokenizer("n n -> 1", 7, torch.float64), graph(2, 6, 20, torch.float64)
    whole = EdgeList(edges.index, edges.values > 0, 2, 6)
    assert_close(module(whole.to(dtype)), module(whole.to(torch.float64)))


def test_edges_under_autocast_keep_their_precision() -> None:
    module, edges = tokenizer("n n -> 1", 7, torch.float32), graph(2, 6, 20, torch.float32)
    wanted = module(edges)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(module(edges), wanted)


@pytest.mark.parametrize("output", ["3", "", "n n", "n n 3"])
def test_refuses_a_diagonal_for_other_orders(output: str) -> None:
    with pytest.raises(SignatureError, match=r"^Expected an output of order 1 to be read from a diagonal \(got '"):
        Detokenize(Arrays.parse(f"n -> {output}").output, 7, GRID, WIDTH, True)


def test_says_its_sizes() -> None:
    assert "'n n -> 1', n=7, grid=3, side=3" in repr(tokenizer("n n -> 1", 7, torch.float32))
    assert "'n n', n=7, grid=3, side=3" in repr(detokenizer("n n", 7, torch.float32))


@pytest.mark.parametrize(("dtype", "wanted"), [(torch.float32, torch.bfloat16), (torch.float64, torch.float64)])
def test_pairs_under_autocast_are_products_in_its_precision(dtype: torch.dtype, wanted: torch.dtype) -> None:
    """With float64, which autocast leaves alone, nothing changes."""
    torch.manual_seed(0)
    arrays = Arrays.parse("n n 2 -> n")
    tokenize = Tokenize(arrays, 5, 3, 8, diagonal=False).to(dtype)
    x = torch.randn(2, 5, 5, 2, dtype=dtype)
    with torch.autocast("cpu", torch.bfloat16):
        tokens = tokenize(x)
    with torch.no_grad():
        tokenize.weights[0].copy_(tokenize.weights[0].to(wanted))
        exact = tokenize(x.to(wanted).to(dtype))
    tolerance = 1e-2 if wanted == torch.bfloat16 else 1e-12
    assert_close(tokens.to(dtype), exact, rtol=tolerance, atol=tolerance / 10)
