from typing import Any

import pytest
import torch

from probsym.bases import Arrays, EdgeList
from probsym.bases.arrays import Array, channels_last, check_mask, items_mask
from probsym.errors import DeviceError, DtypeError, MaskError, ShapeError, SignatureError


@pytest.mark.parametrize(
    ("text", "inputs", "output", "order"),
    [
        ("n 3, n 3, n n 2 -> n 3", [(1, 3), (1, 3), (2, 2)], (1, 3), 2),
        ("n,n n->", [(1, None), (2, None)], (0, None), 2),
        ("3, n n n 10 -> 12", [(0, 3), (3, 10)], (0, 12), 3),
        ("  node   -> node  node 1 ", [(1, None)], (2, 1), 2),
        ("n 007 -> n", [(1, 7)], (1, None), 1),
    ],
)
def test_reads_the_notation(
    text: str, inputs: list[tuple[int, int | None]], output: tuple[int, int | None], order: int
) -> None:
    arrays = Arrays.parse(text)
    assert [(array.order, array.channels) for array in arrays.inputs] == inputs
    assert (arrays.output.order, arrays.output.channels) == output
    assert arrays.order == order
    assert Arrays.parse(str(arrays)) == arrays


@pytest.mark.parametrize(
    ("text", "written"), [("n  3,n n ->  n 2", "n 3, n n -> n 2"), ("n ->", "n ->"), ("a, a a 2 -> 3", "a, a a 2 -> 3")]
)
def test_writes_the_notation(text: str, written: str) -> None:
    assert str(Arrays.parse(text)) == written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n 3", r"arrays as text with one '->', like 'n 3, n n 2 -> n 3' \(got 'n 3'\)"),
        ("n -> n -> n", r"arrays as text with one '->', .* \(got 'n -> n -> n'\)"),
        (None, r"arrays as text with one '->', .* \(got None\)"),
        (5, r"arrays as text with one '->', .* \(got 5\)"),
        ("n m -> n", r"input 0 of 'n m -> n' to be one name, repeated or not, and a number \(got 'n m'\)"),
        ("n, 3 n -> n", r"input 1 of .* to be one name, repeated or not, and a number \(got '3 n'\)"),
        ("n 2 3 -> n", r"input 0 of .* and a number \(got 'n 2 3'\)"),
        ("n -3 -> n", r"input 0 of .* and a number \(got 'n -3'\)"),
        ("n 2.5 -> n", r"input 0 of .* and a number \(got 'n 2.5'\)"),
        ("n -> n 3, n", r"output of .* and a number \(got 'n 3, n'\)"),
        ("n d:point -> n", r"input 0 of .* and a number \(got 'n d:point'\)"),
        ("n 0 -> n", r"input 0 of 'n 0 -> n' to have 1 channel or more \(got 0\)"),
        ("n -> n 0", r"output of 'n -> n 0' to have 1 channel or more \(got 0\)"),
        ("n 3, m 2 -> n", r"one name for the items in 'n 3, m 2 -> n' \(got m, n\)"),
        ("n 3 -> m", r"one name for the items in 'n 3 -> m' \(got m, n\)"),
        (" -> n", r"input 0 of ' -> n' to name an axis \(got an empty term\)"),
        ("n, -> n", r"input 1 of 'n, -> n' to name an axis \(got an empty term\)"),
    ],
)
def test_refuses_notation(text: Any, message: str) -> None:
    with pytest.raises(SignatureError, match=r"^Expected " + message):
        Arrays.parse(text)


def test_widths_and_shapes() -> None:
    arrays = Arrays.parse("n 3, n, n n, n n 4, 6 -> n")
    assert [arrays.width(order) for order in range(4)] == [6, 4, 5, 0]
    assert [array.shape(2, 7) for array in arrays.inputs] == [(2, 7, 3), (2, 7), (2, 7, 7), (2, 7, 7, 4), (2, 6)]
    assert [str(array) for array in arrays.inputs] == ["n 3", "n", "n n", "n n 4", "6"]


def test_allows_orders() -> None:
    arrays = Arrays.parse("n 3, n n -> n")
    arrays.allow("Base", inputs=(1, 2), output=(1,))
    with pytest.raises(SignatureError, match=r"^Expected Base to read order 0 or 1 in input 1 \(got 'n n'\)"):
        arrays.allow("Base", inputs=(0, 1), output=(1,))
    with pytest.raises(SignatureError, match=r"^Expected Base to return order 0 or 2 \(got 'n'\)"):
        arrays.allow("Base", inputs=(1, 2), output=(0, 2))


def test_allows_any_order_but_no_inputs_without_items() -> None:
    Arrays.parse("n n n, 2 -> n n").allow("Base")
    with pytest.raises(SignatureError, match=r"^Expected Base to read an array over items, .* \(got '2 -> n'\)"):
        Arrays.parse("2 -> n").allow("Base")


def test_finds_batch_and_items() -> None:
    arrays = Arrays.parse("2, n 3, n n -> n")
    given = torch.rand(4, 2), torch.rand(4, 5, 3), torch.ones(4, 5, 5, dtype=torch.bool)
    assert arrays.check(given) == (4, 5)
    assert arrays.check(given, most=5) == (4, 5)
    assert arrays.check((*given[:2], EdgeList.from_dense(torch.rand(4, 5, 5))), edges=True) == (4, 5)
    assert arrays.check((torch.rand(0, 2), torch.rand(0, 5, 3), torch.rand(0, 5, 5))) == (0, 5)
    assert arrays.check((torch.rand(0, 2), torch.rand(0, 0, 3), torch.rand(0, 0, 0))) == (0, 0)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ((), ShapeError, r"2 inputs, 'n 3, n n -> n' \(got 0\)"),
        ((torch.ones(4, 5, 3),), ShapeError, r"2 inputs, 'n 3, n n -> n' \(got 1\)"),
        ((torch.ones(4, 5, 3), None), DtypeError, r"input 1 \('n n'\) to be a tensor of real numbers \(got NoneType\)"),
        (([1.0], torch.ones(4, 5, 5)), DtypeError, r"input 0 \('n 3'\) to be a tensor .*\(got list\)"),
        (
            (torch.ones(4, 5, 3), torch.ones(4, 5, 5).to(torch.complex64)),
            DtypeError,
            r"input 1 \('n n'\) to be a tensor of real numbers \(got torch.complex64\)",
        ),
        ((torch.tensor(1.0), torch.ones(4, 5, 5)), ShapeError, r"input 0 \('n 3'\) to have shape .*\(got \(\)\)"),
        (
            (torch.ones(4, 5, 3), torch.tensor(1.0)),
            ShapeError,
            r"input 1 \('n n'\) to have shape \(4, 5, 5\) \(got \(\)\)",
        ),
        (
            (torch.ones(4, 5, 2), torch.ones(4, 5, 5)),
            ShapeError,
            r"input 0 \('n 3'\) to have shape \(4, 5, 3\) \(got \(4, 5, 2\)\)",
        ),
        (
            (torch.ones(4, 5, 3), torch.ones(4, 5, 6)),
            ShapeError,
            r"input 1 \('n n'\) to have shape \(4, 5, 5\) \(got \(4, 5, 6\)\)",
        ),
        (
            (torch.ones(4, 5, 3), torch.ones(3, 5, 5)),
            ShapeError,
            r"input 1 \('n n'\) to have shape \(4, 5, 5\) \(got \(3, 5, 5\)\)",
        ),
        (
            (torch.ones(4, 5, 3), torch.ones(4, 5, 5, 1)),
            ShapeError,
            r"input 1 \('n n'\) to have shape \(4, 5, 5\) \(got \(4, 5, 5, 1\)\)",
        ),
        ((torch.ones(4, 7, 3), torch.ones(4, 7, 7)), ShapeError, r"at most 6 items \(got 7\)"),
        (
            (torch.ones(4, 5, 3), torch.ones(4, 5, 5, device="meta")),
            DeviceError,
            r"input 1 \('n n'\) to be on cpu like input 0 \(got meta\)",
        ),
    ],
)
def test_refuses_inputs(inputs: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=r"^Expected " + message):
        Arrays.parse("n 3, n n -> n").check(inputs, most=6)


def test_refuses_no_items() -> None:
    with pytest.raises(ShapeError, match=r"^Expected at least one item \(got 0\)"):
        Arrays.parse("n 3, n n -> n").check([torch.ones(2, 0, 3), torch.ones(2, 0, 0)])


@pytest.mark.parametrize("allowed", [False, True])
def test_refuses_an_edge_list_for_an_array_of_order_1(allowed: bool) -> None:
    edges = EdgeList.from_dense(torch.rand(2, 5, 5))
    with pytest.raises(DtypeError, match=r"^Expected input 0 \('n 5'\) to be a tensor .*\(got EdgeList\)"):
        Arrays.parse("n 5 -> n").check([edges], edges=allowed)


def test_refuses_an_edge_list_unless_it_is_allowed() -> None:
    edges = EdgeList.from_dense(torch.rand(2, 5, 5))
    with pytest.raises(DtypeError, match=r"^Expected input 0 \('n n'\) to be a tensor .*\(got EdgeList\)"):
        Arrays.parse("n n -> n").check([edges])


def test_refuses_an_edge_list_of_complex_numbers() -> None:
    edges = EdgeList.from_dense(torch.rand(2, 5, 5).to(torch.complex64))
    with pytest.raises(DtypeError, match=r"^Expected input 0 \('n n'\) .* real numbers \(got torch.complex64\)"):
        Arrays.parse("n n -> n").check([edges], edges=True)


def test_refuses_sparse_tensors() -> None:
    with pytest.raises(DtypeError, match=r"^Expected input 0 \('n n'\) to be "):
        Arrays.parse("n n -> n").check([torch.rand(2, 5, 5).to_sparse()])


@pytest.mark.parametrize(
    ("mask", "description"),
    [
        (torch.ones(2, 4, dtype=torch.bool), r"\(2, 4\), torch.bool"),
        (torch.ones(3, dtype=torch.bool), r"\(3,\), torch.bool"),
        (torch.tensor(True), r"\(\), torch.bool"),
        (torch.ones(2, 3), r"\(2, 3\), torch.float32"),
        (torch.ones(2, 3, dtype=torch.uint8), r"\(2, 3\), torch.uint8"),
        ([[True] * 3] * 2, "list"),
    ],
)
def test_refuses_masks(mask: Any, description: str) -> None:
    with pytest.raises(MaskError, match=rf"^Expected mask to be boolean \(2, 3\) \(got {description}\)"):
        check_mask(mask, 2, 3)


def test_takes_masks() -> None:
    check_mask(None, 2, 3)
    check_mask(torch.zeros(2, 3, dtype=torch.bool), 2, 3)
    check_mask(torch.zeros(0, 3, dtype=torch.bool), 0, 3)


def test_refuses_a_mask_on_another_device() -> None:
    mask = torch.zeros(2, 3, dtype=torch.bool, device="meta")
    check_mask(mask, 2, 3)
    with pytest.raises(MaskError, match=r"^Expected mask to be on cpu like input 0 \(got meta\)"):
        check_mask(mask, 2, 3, torch.device("cpu"))


def test_the_first_mask_that_fits_is_that_of_the_items() -> None:
    device = torch.device("cpu")
    long, own, other = (torch.zeros(2, n, dtype=torch.bool) for n in (4, 3, 3))
    assert items_mask({"m": long, "n": own, "k": other}, 2, 3, device) is own
    assert items_mask(own, 2, 3, device) is own
    assert items_mask(None, 2, 3, device) is None
    assert items_mask({}, 2, 3, device) is None


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ({"m": torch.ones(2, 4).bool()}, r"a mask \(2, 3\) among those given \(got \{'m': \(2, 4\)\}\)"),
        ({"m": [True]}, r"a mask \(2, 3\) among those given \(got \{'m': .*list"),
        ({"m": torch.ones(2, 3)}, r"mask to be boolean \(2, 3\) \(got \(2, 3\), torch.float32\)"),
        ({"m": torch.ones(2, 3, dtype=torch.bool, device="meta")}, r"mask to be on cpu"),
    ],
    ids=["shape", "list", "floating", "device"],
)
def test_refuses_masks_of_which_none_fits(masks: Any, message: str) -> None:
    with pytest.raises(MaskError, match=r"^Expected " + message):
        items_mask(masks, 2, 3, torch.device("cpu"))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float64], ids=str)
def test_channels_last(dtype: torch.dtype) -> None:
    x = torch.ones(2, 3, 3, dtype=dtype)
    without, with_channels = (channels_last(Array(order, c), x, torch.float32) for order, c in ((2, None), (1, 3)))
    assert without.shape == (2, 3, 3, 1)
    assert with_channels.shape == (2, 3, 3)
    assert without.dtype == with_channels.dtype == torch.float32
