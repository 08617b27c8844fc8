from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from probsym.bases import EdgeList
from probsym.errors import DeviceError, DtypeError, ProbsymError, RangeError, ShapeError
from probsym.ops.edge_list import numbers
from tests.bases.cases import both_dtypes, normal


def sparse(batch: int, n: int, *channels: int, dtype: torch.dtype = torch.float64) -> Tensor:
    x = normal(batch, n, n, *channels, dtype=dtype)
    return torch.where(normal(batch, n, n, seed=1).view(batch, n, n, *[1] * len(channels)) > 0.5, x, 0)


def literal(edges: EdgeList) -> Tensor:
    """One edge after another."""
    x = torch.zeros(edges.shape, dtype=edges.values.dtype)
    for (item, row, column), value in zip(edges.index.T.tolist(), edges.values, strict=True):
        x[item, row, column] = x[item, row, column] + value
    return x


@both_dtypes
@pytest.mark.parametrize("channels", [(), (1,), (3,)], ids=str)
def test_round_trip(channels: tuple[int, ...], dtype: torch.dtype) -> None:
    x = sparse(3, 5, *channels, dtype=dtype)
    edges = EdgeList.from_dense(x)
    assert edges.index.shape[1] == int((x != 0).flatten(3).any(-1).sum() if channels else (x != 0).sum())
    assert edges.shape == x.shape
    assert edges.device == x.device
    assert torch.equal(edges.dense(), x)


def test_keeps_entries_of_which_any_channel_counts() -> None:
    x = torch.zeros(1, 2, 2, 3)
    x[0, 1, 0, 2] = 4
    edges = EdgeList.from_dense(x)
    assert edges.index.tolist() == [[0], [1], [0]]
    assert edges.values.tolist() == [[0, 0, 4]]


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64], ids=str)
def test_dense_adds_up_what_occurs_twice(index_dtype: torch.dtype) -> None:
    index = torch.tensor([[1, 0, 1, 0], [2, 0, 2, 1], [0, 1, 0, 1]], dtype=index_dtype)
    edges = EdgeList(index, normal(4, 2), batch=2, n=3)
    assert_close(edges.dense(), literal(edges))
    assert_close(edges.dense()[1, 2, 0], edges.values[0] + edges.values[2])


@pytest.mark.parametrize("channels", [(), (2,)], ids=str)
def test_no_edges(channels: tuple[int, ...]) -> None:
    edges = EdgeList(torch.zeros(3, 0, dtype=torch.int64), torch.zeros(0, *channels), batch=2, n=4)
    assert edges.shape == (2, 4, 4, *channels)
    assert torch.equal(edges.dense(), torch.zeros(2, 4, 4, *channels))
    assert edges.permuted(torch.arange(4).expand(2, 4)).index.shape == (3, 0)


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("channels", [(), (2,)], ids=str)
def test_permuted_agrees_with_indexing(channels: tuple[int, ...], index_dtype: torch.dtype) -> None:
    x = sparse(3, 6, *channels)
    p = torch.stack([torch.randperm(6, generator=torch.Generator().manual_seed(i)) for i in range(3)])
    edges = EdgeList.from_dense(x)
    permuted = EdgeList(edges.index.to(index_dtype), edges.values, 3, 6).permuted(p).dense()
    for b in range(3):
        for j in range(6):
            for k in range(6):
                assert torch.equal(permuted[b, j, k], x[b, p[b, j], p[b, k]])


def test_permuted_takes_indices_of_either_width() -> None:
    edges, p = EdgeList.from_dense(sparse(1, 4)), torch.tensor([[2, 0, 3, 1]])
    assert torch.equal(edges.permuted(p.int()).dense(), edges.permuted(p).dense())


def test_gradients_reach_the_values() -> None:
    edges = EdgeList.from_dense(sparse(2, 4, 2))
    values = edges.values.clone().requires_grad_()
    p = torch.tensor([[2, 0, 3, 1], [0, 1, 3, 2]])
    weights = normal(2, 4, 4, 2, seed=5)
    moved = EdgeList(edges.index, values, 2, 4).permuted(p)
    (gradient,) = torch.autograd.grad((moved.dense() * weights).sum(), values)
    assert_close(gradient, weights[tuple(moved.index)])


def test_moves_to_dtypes_and_devices() -> None:
    edges = EdgeList.from_dense(sparse(1, 3))
    assert edges.to(torch.float32).values.dtype == torch.float32
    assert edges.to(torch.float32).index.dtype == torch.int64
    assert edges.to("meta").device.type == edges.to("meta").index.device.type == "meta"
    assert edges.to(torch.device("cpu")).shape == edges.shape


def test_is_compared_as_an_object() -> None:
    x = sparse(1, 3)
    edges = EdgeList.from_dense(x)
    assert edges == edges  # noqa: PLR0124
    assert edges != EdgeList.from_dense(x)
    assert len({edges, EdgeList.from_dense(x)}) == 2


INDEX, VALUES = torch.zeros(3, 4, dtype=torch.int64), torch.ones(4)


@pytest.mark.parametrize(
    ("index", "values", "error", "message"),
    [
        (INDEX.float(), VALUES, DtypeError, r"index to be integers \(got torch.float32\)"),
        (INDEX.bool(), VALUES, DtypeError, r"index to be integers \(got torch.bool\)"),
        (INDEX[:2], VALUES, ShapeError, r"index to be \(3, edges\): item, row, column \(got \(2, 4\)\)"),
        (INDEX[0], VALUES, ShapeError, r"index to be \(3, edges\): item, row, column \(got \(4,\)\)"),
        (INDEX, VALUES[:3], ShapeError, r"values to be \(4,\) or \(4, c\) \(got \(3,\)\)"),
        (INDEX, VALUES[0], ShapeError, r"values to be \(4,\) or \(4, c\) \(got \(\)\)"),
        (INDEX, VALUES.view(4, 1, 1), ShapeError, r"values to be \(4,\) or \(4, c\) \(got \(4, 1, 1\)\)"),
    ],
)
def test_refuses_to_be_built(index: Tensor, values: Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=r"^Expected " + message):
        EdgeList(index, values, batch=2, n=5)


@pytest.mark.parametrize(
    "arguments",
    [
        ([[0], [0], [0]], torch.ones(1), 2, 5),
        (INDEX, [1.0] * 4, 2, 5),
        (INDEX, VALUES, -1, 5),
        (INDEX, VALUES, 2, -5),
        (INDEX, VALUES, 2.0, 5),
        (INDEX, VALUES, 2, 5.5),
        (INDEX, VALUES, None, 5),
    ],
    ids=["index", "values", "negative batch", "negative n", "batch", "n", "no batch"],
)
def test_refuses_what_is_no_tensor_or_no_size(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ProbsymError, match=r"^Expected "):
        EdgeList(*arguments)


def test_refuses_two_devices() -> None:
    with pytest.raises(DeviceError, match=r"^Expected "):
        EdgeList(INDEX.to("meta"), VALUES, batch=2, n=5)


@pytest.mark.parametrize("place", [(0, 0, 5), (0, 7, 0), (2, 0, 0), (0, -1, 0), (0, 0, -3), (-1, 0, 0)], ids=str)
def test_refuses_places_outside(place: tuple[int, int, int]) -> None:
    with pytest.raises(RangeError, match=r"^Expected places in an array of \(2, 5, 5\) \(got items "):
        EdgeList(torch.tensor(place).view(3, 1), torch.ones(1), batch=2, n=5)


def test_takes_the_last_places() -> None:
    index = torch.tensor([[0, 1], [0, 4], [0, 4]])
    assert EdgeList(index, torch.ones(2), batch=2, n=5).dense().sum() == 2


def test_compiles_without_a_break() -> None:
    edges, p = EdgeList.from_dense(sparse(2, 4)), torch.tensor([[2, 0, 3, 1], [0, 1, 3, 2]])

    def moved(index: Tensor, values: Tensor, p: Tensor) -> Tensor:
        return EdgeList(index, values, 2, 4).permuted(p).dense()

    given = edges.index, edges.values, p
    assert_close(torch.compile(moved, backend="aot_eager", fullgraph=True)(*given), moved(*given))


def test_many_are_renamed_at_once() -> None:
    edges, p = EdgeList.from_dense(sparse(2, 4)), torch.stack([torch.randperm(4) for _ in range(6)]).view(3, 2, 4)
    moved = torch.vmap(lambda each: edges.permuted(each).dense())(p)
    assert torch.equal(moved, torch.stack([edges.permuted(each).dense() for each in p]))


@pytest.mark.parametrize("shape", [(4,), (4, 3), (2, 3, 4), (2, 3, 4, 1), (1, 3, 3, 2, 2)], ids=str)
def test_refuses_dense_arrays(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"^Expected x to be \(batch, n, n\) or \(batch, n, n, c\) \(got \("):
        EdgeList.from_dense(torch.ones(shape))


def test_refuses_permutations_of_the_wrong_shape() -> None:
    edges = EdgeList.from_dense(sparse(2, 4))
    with pytest.raises(ShapeError, match=r"^Expected p to be \(2, 4\) \(got \(4,\)\)"):
        edges.permuted(torch.arange(4))
    with pytest.raises(ShapeError, match=r"^Expected p to be \(2, 4\) \(got \(2, 5\)\)"):
        edges.permuted(torch.arange(5).expand(2, 5))


@pytest.mark.parametrize("row", [[0, 1, 1, 3], [0, 1, 2, 4], [-1, 1, 2, 3]], ids=str)
def test_refuses_rows_that_are_no_permutations(row: list[int]) -> None:
    with pytest.raises(RangeError, match=r"^Expected p to be the numbers 0 to 3 in every row"):
        EdgeList.from_dense(sparse(2, 4)).permuted(torch.tensor([[0, 1, 2, 3], row]))


def test_refuses_permutations_on_another_device() -> None:
    with pytest.raises(DeviceError, match=r"^Expected p to be on cpu like the edges \(got meta\)"):
        EdgeList.from_dense(sparse(2, 4)).permuted(torch.zeros(2, 4, dtype=torch.int64, device="meta"))


@pytest.mark.parametrize("p", [normal(2, 4), [[0, 1, 2, 3]] * 2], ids=["floating", "list"])
def test_refuses_permutations_that_are_no_integers(p: Any) -> None:
    with pytest.raises(ProbsymError, match=r"^Expected p to be "):
        EdgeList.from_dense(sparse(2, 4)).permuted(p)


def test_renamed_is_permuted_back() -> None:
    edges, p = EdgeList.from_dense(sparse(2, 4)), torch.tensor([[2, 0, 3, 1], [0, 1, 3, 2]])
    assert torch.equal(edges.permuted(p).renamed(p).dense(), edges.dense())
    assert torch.equal(edges.renamed(p).dense()[0, 2, 0], edges.dense()[0, 0, 1])
    with pytest.raises(RangeError, match="0 to 3"):
        edges.renamed(torch.zeros_like(p))


@pytest.mark.parametrize("channels", [(), (2,)], ids=str)
def test_repeated_is_repeat_interleave(channels: tuple[int, ...]) -> None:
    x = sparse(3, 4, *channels)
    assert torch.equal(EdgeList.from_dense(x).repeated(2).dense(), x.repeat_interleave(2, 0))


@pytest.mark.parametrize("channels", [(), (2,)], ids=str)
def test_masked_has_zeros_at_padding_and_as_many_edges(channels: tuple[int, ...]) -> None:
    x, mask = sparse(2, 4, *channels), torch.tensor([[True, False, True, True], [True] * 4])
    edges = EdgeList.from_dense(x)
    real = (mask.unsqueeze(1) & mask.unsqueeze(2)).view(2, 4, 4, *[1] * len(channels))
    assert torch.equal(edges.masked(mask).dense(), torch.where(real, x, 0))
    assert edges.masked(mask).index.shape == edges.index.shape
    nan = EdgeList(edges.index, torch.full_like(edges.values, torch.nan), 2, 4)
    assert bool(nan.masked(torch.zeros_like(mask)).values.eq(0).all())


@pytest.mark.parametrize("block", [1, 7, 1 << 22])
def test_matmul_is_that_of_the_array_in_blocks_or_not(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probsym.ops.edge_list.BLOCK", block)
    a, x = sparse(2, 5), normal(2, 5, 3)
    edges = EdgeList.from_dense(a)
    assert_close(edges.matmul(x), a @ x)
    twice = EdgeList(edges.index.repeat(1, 2).int(), edges.values.repeat(2), 2, 5)
    assert_close(twice.matmul(x), 2 * a @ x)
    leaves = [a.clone().requires_grad_(), x.clone().requires_grad_()]
    listed = EdgeList.from_dense(leaves[0]).matmul(leaves[1])
    weights = normal(2, 5, 3, seed=3)
    got, want = (torch.autograd.grad((y * weights).sum(), leaves) for y in (listed, leaves[0] @ leaves[1]))
    assert_close(got[0][a != 0], want[0][a != 0])
    assert_close(got[1], want[1])
    empty = EdgeList(torch.zeros(3, 0, dtype=torch.int64), torch.zeros(0), 2, 5)
    assert torch.equal(empty.matmul(x), torch.zeros_like(x))


def test_matmul_refuses_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match="without channels"):
        EdgeList.from_dense(sparse(2, 5, 3)).matmul(normal(2, 5, 3))
    with pytest.raises(ShapeError, match=r"\(2, 5\), then channels \(got \(2, 4, 3\)\)"):
        EdgeList.from_dense(sparse(2, 5)).matmul(normal(2, 4, 3))


def test_tells_of_its_values_what_a_tensor_tells() -> None:
    edges = EdgeList(INDEX, torch.ones(INDEX.shape[1]).requires_grad_(), batch=2, n=5)
    assert (edges.dtype, edges.is_floating_point(), edges.detach().values.requires_grad) == (torch.float32, True, False)
    assert not edges.to(torch.int64).is_floating_point()
    x = torch.zeros(2)
    assert numbers(edges) is edges.values
    assert numbers(x) is x
