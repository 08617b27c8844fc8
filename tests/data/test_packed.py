import pytest
import torch
from torch import Tensor

from probsym.data import GraphBatch, PackedGraphs, Rows
from probsym.errors import DtypeError, RangeError, ShapeError
from tests.data.packing import literally, packed, several

KINDS = ("graph", "node", "pair")
DTYPES = (torch.float32, torch.float64)


def assert_batch(batch: GraphBatch, wanted: dict[str, Tensor]) -> None:
    actual = {**batch._asdict(), "edges": batch.edges.dense()}
    for name, tensor in wanted.items():
        assert actual[name].dtype == tensor.dtype, name
        assert torch.equal(actual[name], tensor), name


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("targets", KINDS)
@pytest.mark.parametrize("index", [[0, 1, 2, 3], [3, 1], [2, 2, 0], [1], []], ids=str)
def test_a_batch_is_what_a_loop_over_numbers_makes(index: list[int], targets: str, dtype: torch.dtype) -> None:
    graphs = several()
    batch = packed(graphs, targets).batch(torch.tensor(index, dtype=torch.int64), dtype)
    assert_batch(batch, literally([graphs[i] for i in index], targets, 5, dtype))


@pytest.mark.parametrize("targets", KINDS)
def test_some_of_the_graphs_keep_the_shapes_of_all(targets: str) -> None:
    graphs = several()
    whole = packed(graphs, targets)
    for index in (torch.tensor([2, 0]), torch.tensor([1]), slice(1, 3), slice(None, None, 2), slice(2, 3), slice(0, 0)):
        kept = [graphs[i] for i in (range(4)[index] if isinstance(index, slice) else index.tolist())]
        some = whole.take(index)
        assert len(some) == len(kept)
        batch = some.batch(torch.arange(len(kept)))
        assert_batch(batch, literally(kept, targets, 5, torch.float32))
        assert batch.edges.index.shape == (3, 7 * len(kept))
        assert some.nodes.sizes.tolist() == [len(graph.nodes) for graph in kept]
        assert some.edges.sizes.tolist() == [len(graph.edges) for graph in kept]


def test_padding_edges_stand_in_a_corner_and_weigh_nothing() -> None:
    batch = packed(several(), "graph").batch(torch.tensor([1, 3]))
    assert batch.edges.shape == (2, 5, 5, 5)
    assert batch.edges.index[:, :7].tolist() == [[0] * 7] * 3
    assert batch.edges.index[:, 7:].tolist() == [[1] * 7, [0, 1, 2, 3, 2, 0, 0], [1, 2, 3, 4, 3, 0, 0]]
    assert batch.edges.values[:7].eq(0).all()
    assert batch.edges.values[:, 0].tolist() == [0] * 7 + [1] * 5 + [0] * 2


def test_numbers_stay_numbers_and_edges_without_features_are_ones() -> None:
    numbers = torch.tensor([[0.5], [-1.0], [2.0]])
    graphs = PackedGraphs(Rows.join([numbers[:2], numbers[2:]]), Rows.join([torch.tensor([[1, 0]]), torch.zeros(0, 2)]),
                          torch.tensor([1, 0], dtype=torch.uint8))  # fmt: skip
    batch = graphs.batch(torch.tensor([1, 0]))
    assert batch.features.tolist() == [[[2.0], [0.0]], [[0.5], [-1.0]]]
    assert batch.edges.dense().tolist() == [[[0, 0], [0, 0]], [[0, 0], [1, 0]]]
    assert batch.targets.tolist() == [0, 1]
    assert batch.targets.dtype == torch.int64


def test_shapes_are_the_same_whichever_graphs_are_taken() -> None:
    whole = packed(several(), "pair")
    shapes = set()
    for index in ([0, 1], [2, 2], [3, 0]):
        batch = whole.batch(torch.tensor(index))
        shapes.add((batch.features.shape, batch.edges.index.shape, batch.edges.shape, batch.targets.shape))
    assert len(shapes) == 1


@pytest.mark.parametrize("targets", KINDS)
def test_no_number_is_looked_at_to_make_a_batch(targets: str) -> None:
    """Tensors without numbers have shapes all the same: nothing waits for a device, and a CUDA graph can hold it."""
    here = packed(several(), targets)
    batch = here.to("meta").batch(torch.zeros(2, dtype=torch.int64, device="meta"))
    wanted = here.batch(torch.zeros(2, dtype=torch.int64))
    assert batch.edges.dense().shape == wanted.edges.dense().shape
    assert batch.edges.index.shape == wanted.edges.index.shape
    for name in ("features", "mask", "targets", "known"):
        actual, expected = getattr(batch, name), getattr(wanted, name)
        assert (actual.shape, actual.dtype, actual.device.type) == (expected.shape, expected.dtype, "meta")


def test_a_batch_can_be_compiled_as_one_graph() -> None:
    whole, index = packed(several(), "pair"), torch.tensor([3, 1])

    def call(index: Tensor) -> Tensor:
        batch = whole.batch(index)
        return torch.cat([batch.features.flatten(), batch.edges.dense().flatten(), batch.targets.flatten().float()])

    compiled = torch.compile(call, fullgraph=True, backend="eager")
    assert torch.equal(compiled(index), call(index))


def test_what_does_not_fit_is_refused() -> None:
    whole = packed(several(), "graph")
    with pytest.raises(RangeError, match=r"index from 0 to 3 \(got 1 to 4\)"):
        whole.batch(torch.tensor([1, 4]))
    with pytest.raises(RangeError, match="got -1"):
        whole.batch(torch.tensor([-1]))
    with pytest.raises(DtypeError, match="int64"):
        whole.batch(torch.tensor([True]))
    nodes, two = Rows.join([torch.zeros(2, 1), torch.zeros(1, 1)]), torch.zeros(2)
    with pytest.raises(RangeError, match="edges between nodes of their graph"):
        PackedGraphs(nodes, Rows.join([torch.zeros(0, 2), torch.tensor([[0, 1]])]), two)
    edges = Rows.join([torch.tensor([[0, 1]]), torch.zeros(0, 2)])
    with pytest.raises(RangeError, match=r"kinds of nodes below \(2,\) \(got \[0.0\] to \[2.0\]\)"):
        PackedGraphs(nodes.like(torch.tensor([[0.0], [2.0], [1.0]])), edges, two, node_kinds=(2,))
    with pytest.raises(ShapeError, match=r"kinds of nodes to be \(count, 2\)"):
        PackedGraphs(nodes, edges, two, node_kinds=(2, 2))
    with pytest.raises(ShapeError, match="targets of 2 graphs"):
        PackedGraphs(nodes, edges, torch.zeros(3))
    with pytest.raises(ShapeError, match="3 targets"):
        PackedGraphs(nodes, edges, edges.like(torch.zeros(1)))
    with pytest.raises(ShapeError, match="1 edge features"):
        PackedGraphs(nodes, edges, two, Rows.join([torch.zeros(2, 1), torch.zeros(0, 1)]))
    with pytest.raises(ShapeError, match="other lengths"):
        PackedGraphs(nodes, edges, Rows.join([torch.zeros(1), torch.zeros(2)]))
    with pytest.raises(ShapeError, match="targets of pairs to be rows"):
        PackedGraphs(nodes, edges, two, pairs=edges)
    with pytest.raises(RangeError, match="at most 1 rows"):
        Rows.join([torch.zeros(2)], most=1)
    with pytest.raises(RangeError, match="rise from 0 to 2"):
        Rows(torch.zeros(2), torch.tensor([0, 1]), 2)
