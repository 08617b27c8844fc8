import doctest
import os
import subprocess
import sys
import warnings
from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

from probsym.errors import DeviceError, DtypeError, MaskError, RangeError, ShapeError
from probsym.pyg import Padded, from_padded, to_batch, to_padded

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch-geometric scripts a class on import, which torch deprecates
    pytest.importorskip("torch_geometric")
    from torch_geometric import EdgeIndex
    from torch_geometric.data import Batch, Data

FIELDS = ("nodes", "adjacency", "edges", "mask")
SIZES = [(1,), (3, 1, 6, 2), (4, 4, 4), (5, 1, 1, 9, 2, 7)]


def random_graph(n, seed, *, channels=3, edge_channels=2, parallel=False):
    """A directed graph with loops and isolated nodes; simple unless `parallel`, in a shuffled order of edges."""
    generator = torch.Generator().manual_seed(seed)
    edge_index = (torch.rand(n, n, generator=generator) < 0.3).nonzero().T
    if parallel:
        edge_index = torch.cat([edge_index, edge_index[:, ::2], edge_index[:, ::4]], dim=1)
    edge_index = edge_index[:, torch.randperm(edge_index.shape[1], generator=generator)]
    return Data(
        x=torch.randn(n, channels, dtype=torch.float64, generator=generator),
        edge_index=edge_index,
        edge_attr=torch.randn(edge_index.shape[1], edge_channels, dtype=torch.float64, generator=generator),
    )


def random_graphs(sizes, **options):
    return [random_graph(n, seed, **options) for seed, n in enumerate(sizes)]


def literal(graphs, n):
    """Every node and every edge written to its place in turn."""
    dtype = graphs[0].x.dtype
    nodes = torch.zeros(len(graphs), n, graphs[0].x.shape[-1], dtype=dtype)
    adjacency = torch.zeros(len(graphs), n, n, dtype=dtype)
    edges = torch.zeros(len(graphs), n, n, graphs[0].edge_attr.shape[-1], dtype=dtype)
    mask = torch.zeros(len(graphs), n, dtype=torch.bool)
    for b, graph in enumerate(graphs):
        for i in range(graph.num_nodes):
            nodes[b, i] = graph.x[i]
            mask[b, i] = True
        for k, (i, j) in enumerate(graph.edge_index.T.tolist()):
            adjacency[b, i, j] += 1
            edges[b, i, j] += graph.edge_attr[k]
    return Padded(nodes, adjacency, edges, mask)


def assert_same(actual, wanted, exact=True):
    for field in FIELDS:
        value, wanted_value = getattr(actual, field), getattr(wanted, field)
        assert (value is None) == (wanted_value is None), field
        if value is not None:
            assert_close(value, wanted_value, msg=lambda text, field=field: f"{field}: {text}", **exactly(exact))


def exactly(exact):
    return {"rtol": 0, "atol": 0} if exact else {}


def edge_table(data):
    return sorted(
        (i, j, *attributes)
        for (i, j), attributes in zip(data.edge_index.T.tolist(), data.edge_attr.tolist(), strict=True)
    )


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("spare", [None, 0, 4])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_agrees_with_a_loop_over_nodes_and_edges(sizes, spare, parallel):
    graphs = random_graphs(sizes, parallel=parallel)
    size = None if spare is None else max(sizes) + spare
    padded = to_padded(Batch.from_data_list(graphs), size=size)
    assert_same(padded, literal(graphs, size or max(sizes)), exact=not parallel)
    assert padded.adjacency.max() <= 1 or parallel


def test_an_edge_goes_from_row_to_column():
    data = Data(edge_index=torch.tensor([[0, 2, 1, 1, 1], [1, 0, 1, 2, 2]]), num_nodes=4)
    assert to_padded(data).adjacency.tolist() == [[[0, 1, 0, 0], [0, 1, 2, 0], [1, 0, 0, 0], [0, 0, 0, 0]]]


def test_parallel_edges_are_counted_and_their_features_summed():
    data = Data(torch.zeros(2, 1), torch.tensor([[0, 0, 0], [1, 1, 1]]), torch.tensor([1.0, 10.0, 100.0]))
    padded = to_padded(data)
    assert padded.adjacency.tolist() == [[[0, 3], [0, 0]]]
    assert padded.edges.tolist() == [[[[0], [111]], [[0], [0]]]]
    assert to_batch(padded).edge_attr.tolist() == [[111], [0], [0]]
    anywhere = to_padded(Data(data.x, data.edge_index, torch.tensor([False, True, True])))
    assert anywhere.edges.dtype == torch.bool
    assert anywhere.edges.sum() == 1


def test_data_is_a_batch_of_one():
    graph = random_graph(5, 0)
    assert_same(to_padded(graph), to_padded(Batch.from_data_list([graph])))


@pytest.mark.parametrize("keep", ["batch", "ptr"])
def test_sizes_come_from_either_attribute(keep):
    batch = Batch.from_data_list(random_graphs((3, 1, 4)))
    names = ("x", "edge_index", "edge_attr", keep)
    assert_same(to_padded(SimpleNamespace(**{name: batch[name] for name in names})), to_padded(batch))


def test_nodes_that_no_edge_mentions():
    graphs = [
        Data(edge_index=torch.tensor([[0], [1]]), num_nodes=5),
        Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=2),
    ]
    padded = to_padded(Batch.from_data_list(graphs))
    assert padded.nodes is None
    assert padded.edges is None
    assert padded.mask.sum(-1).tolist() == [5, 2]
    assert padded.adjacency.nonzero().tolist() == [[0, 0, 1]]


@pytest.mark.parametrize("where", [0, 1, 2])
def test_graphs_without_nodes(where):
    graphs = random_graphs((3, 2))
    graphs.insert(where, Data(graphs[0].x[:0], graphs[0].edge_index[:, :0], graphs[0].edge_attr[:0]))
    batch = Batch.from_data_list(graphs)
    assert_same(to_padded(batch), literal(graphs, 3))
    del batch.ptr
    assert_same(to_padded(batch), literal(graphs, 3))
    assert_same(to_padded(to_batch(to_padded(batch))), literal(graphs, 3))


def test_nothing_but_empty_graphs():
    empty = SimpleNamespace(x=torch.ones(0, 3), edge_index=torch.zeros(2, 0, dtype=torch.long))
    assert to_padded(empty).nodes.shape == (1, 0, 3)
    assert to_padded(empty, size=4).adjacency.shape == (1, 4, 4)
    assert to_padded(SimpleNamespace(**vars(empty), ptr=torch.tensor([0]))).mask.shape == (0, 0)


def test_features_without_channels():
    padded = to_padded(Data(torch.ones(3, 0), torch.tensor([[0], [1]]), torch.ones(1, 0)))
    assert padded.nodes.shape == (1, 3, 0)
    assert padded.edges.shape == (1, 3, 3, 0)
    assert to_batch(padded).x.shape == (3, 0)


def test_one_dimensional_features_become_a_channel_and_more_axes_stay():
    edge_index = torch.tensor([[0, 1], [1, 2]])
    padded = to_padded(Data(torch.arange(3), edge_index, torch.arange(2)))
    assert padded.nodes.tolist() == [[[0], [1], [2]]]
    assert padded.edges.shape == (1, 3, 3, 1)
    assert to_padded(Data(torch.ones(3, 4, 2), edge_index, torch.ones(2, 5, 1))).edges.shape == (1, 3, 3, 5, 1)


@pytest.mark.parametrize(
    ("x", "edge_attr", "dtype", "wanted"),
    [
        ("int64", "float64", None, ("int64", "float64", "float64")),
        ("float32", "float64", None, ("float32", "float32", "float64")),
        ("int8", "bool", None, ("int8", "float32", "bool")),
        ("bfloat16", "int64", None, ("bfloat16", "bfloat16", "int64")),
        ("int64", "bool", torch.float64, ("float64", "float64", "float64")),
        ("float64", "float64", torch.int64, ("int64", "int64", "int64")),
    ],
)
def test_dtypes(x, edge_attr, dtype, wanted):
    data = Data(
        torch.ones(3, 2, dtype=getattr(torch, x)),
        torch.tensor([[0, 1], [1, 2]]),
        torch.ones(2, 1, dtype=getattr(torch, edge_attr)),
    )
    padded = to_padded(data, dtype=dtype)
    assert [getattr(padded, field).dtype for field in FIELDS[:3]] == [getattr(torch, name) for name in wanted]
    assert padded.nodes.sum() == 6


def test_counts_are_exact_in_low_precision():
    data = Data(torch.zeros(2, 1, dtype=torch.bfloat16), torch.tensor([[0], [1]]).expand(2, 512))
    assert to_padded(data).adjacency[0, 0, 1] == 512


def test_other_kinds_of_index():
    data, wanted = random_graph(6, 1), to_padded(random_graph(6, 1))
    data.edge_index = data.edge_index.int()
    assert_same(to_padded(data), wanted)
    data.edge_index = EdgeIndex(data.edge_index.long())
    assert_same(to_padded(data), wanted)
    assert type(to_padded(data).adjacency) is torch.Tensor


@pytest.mark.parametrize("parallel", [False, True])
def test_gradients_reach_nodes_and_edges(parallel):
    batch = Batch.from_data_list(random_graphs((3, 1, 4), parallel=parallel))

    def features(x, edge_attr):
        padded = to_padded(SimpleNamespace(x=x, edge_attr=edge_attr, edge_index=batch.edge_index, ptr=batch.ptr))
        return padded.nodes, padded.edges

    inputs = batch.x.requires_grad_(), batch.edge_attr.requires_grad_()
    assert torch.autograd.gradcheck(features, inputs)
    nodes, edges = features(*inputs)
    x_grad, edge_grad = torch.autograd.grad(nodes.sum() + edges.sum(), inputs)
    assert (x_grad == 1).all()
    assert (edge_grad == 1).all()


def test_gradients_go_back_through_to_batch():
    padded = literal(random_graphs((3, 1, 4), parallel=True), 4)
    inputs = padded.nodes.requires_grad_(), padded.edges.requires_grad_()

    def features(nodes, edges):
        # gradcheck also moves features where there is no edge, which to_batch would refuse
        edges = edges * (padded.adjacency > 0).unsqueeze(-1)
        batch = to_batch(Padded(nodes, padded.adjacency, edges, padded.mask))
        return batch.x, batch.edge_attr

    assert torch.autograd.gradcheck(features, inputs)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_from_padded_is_in_the_order_of_the_batch(sizes):
    batch = Batch.from_data_list(random_graphs(sizes))
    padded = to_padded(batch, size=12)
    assert torch.equal(from_padded(padded.nodes, padded.mask), batch.x)
    assert torch.equal(from_padded(padded.nodes[..., 0], padded.mask), batch.x[:, 0])


def test_from_padded_with_holes():
    mask = torch.tensor([[False, True, True], [True, False, True], [False, False, False]])
    values = torch.arange(18.0).view(3, 3, 2).requires_grad_()
    rows = from_padded(values, mask)
    assert rows.tolist() == [[2, 3], [4, 5], [6, 7], [10, 11]]
    rows.sum().backward()
    assert torch.equal(values.grad, mask.unsqueeze(-1).expand(3, 3, 2).float())


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_simple_graphs_come_back_with_nodes_edges_and_attributes(sizes):
    graphs = random_graphs(sizes)
    batch = Batch.from_data_list(graphs)
    back = to_batch(to_padded(batch, size=11))
    assert torch.equal(back.x, batch.x)
    assert torch.equal(back.batch, batch.batch)
    assert torch.equal(back.ptr, batch.ptr)
    assert edge_table(back) == edge_table(batch)
    assert set(back.keys()) == set(batch.keys())
    for returned, graph in zip(back.to_data_list(), graphs, strict=True):
        assert torch.equal(returned.x, graph.x)
        assert edge_table(returned) == edge_table(graph)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("without", [(), ("nodes",), ("edges",), ("nodes", "edges")], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_padded_graphs_come_back_exactly(sizes, without, parallel):
    full = literal(random_graphs(sizes, parallel=parallel), 11)
    padded = Padded(**{field: None if field in without else getattr(full, field) for field in FIELDS})
    assert_same(to_padded(to_batch(padded), size=11, dtype=torch.float64), padded)


def test_holes_close_up_and_what_they_hide_is_dropped():
    graphs = random_graphs((4, 2, 5), parallel=True)
    packed = literal(graphs, 5)
    places = [[6, 0, 3, 2], [1, 5], [0, 1, 2, 4, 5]]
    nodes, adjacency = torch.full((3, 7, 3), torch.nan).double(), torch.full((3, 7, 7), 0.5).double()
    edges, mask = torch.full((3, 7, 7, 2), torch.nan).double(), torch.zeros(3, 7, dtype=torch.bool)
    for b, spots in enumerate(places):
        spots.sort()
        size, grid = len(spots), torch.meshgrid(torch.tensor(spots), torch.tensor(spots), indexing="ij")
        nodes[b, spots] = packed.nodes[b, :size]
        adjacency[b][grid] = packed.adjacency[b, :size, :size]
        edges[b][grid] = packed.edges[b, :size, :size]
        mask[b, spots] = True
    assert_same(to_padded(to_batch(Padded(nodes, adjacency, edges, mask))), packed)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.uint8, torch.float16], ids=str)
def test_adjacency_of_any_real_dtype_becomes_edges(dtype):
    adjacency = torch.tensor([[[0, 1], [1, 1]]]).to(dtype)
    batch = to_batch(Padded(None, adjacency, None, torch.ones(1, 2, dtype=torch.bool)))
    assert batch.edge_index.tolist() == [[0, 1, 1], [1, 0, 1]]
    assert batch.num_nodes == 2


def test_the_module_and_reading_do_without_torch_geometric():
    code = """
import sys, types
sys.modules["torch_geometric"] = None
import torch
from probsym.pyg import Padded, from_padded, to_batch, to_padded
padded = to_padded(types.SimpleNamespace(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]])))
assert from_padded(padded.nodes, padded.mask).shape == (2, 1)
try:
    to_batch(padded)
except ImportError:
    raise SystemExit(7)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 7


def test_the_example_of_to_batch():
    """Skipped where the module is collected, since torch-geometric is optional."""
    (example,) = doctest.DocTestFinder().find(to_batch, globs={"torch": torch, "Padded": Padded, "to_batch": to_batch})
    for line in example.examples:
        line.options.clear()
    assert doctest.DocTestRunner().run(example) == (0, len(example.examples))


def batch_with(**changes):
    fields = {
        "x": torch.ones(4, 2),
        "edge_index": torch.tensor([[0, 2], [1, 3]]),
        "edge_attr": torch.ones(2, 1),
        "batch": torch.tensor([0, 0, 1, 1]),
    }
    return SimpleNamespace(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"edge_index": None}, DtypeError, r"batch.edge_index to be a tensor of integers \(got NoneType\)"),
        ({"edge_index": torch.ones(2, 2)}, DtypeError, r"batch.edge_index .* integers \(got torch.float32\)"),
        ({"edge_index": torch.ones(3, 2).long()}, ShapeError, r"batch.edge_index to be \(2, edges\) \(got \(3, 2\)\)"),
        ({"edge_index": torch.tensor([[0, 2], [1, 4]])}, RangeError, r"batch.edge_index below 4, .*\(got 4\)"),
        ({"edge_index": torch.tensor([[0, -1], [1, 1]])}, RangeError, r"batch.edge_index below 4, .*\(got -1\)"),
        (
            {"edge_index": torch.tensor([[0, 1], [1, 2]])},
            RangeError,
            r"every edge to stay inside a graph \(got 1 -> 2, from graph 0 to graph 1\)",
        ),
        ({"x": torch.ones(5, 2)}, ShapeError, r"batch.x to have 4 rows, one for each node \(got shape \(5, 2\)\)"),
        ({"x": [1, 2, 3, 4]}, DtypeError, r"batch.x to be a tensor or None \(got list\)"),
        ({"x": torch.tensor(1.0)}, ShapeError, r"batch.x to have rows \(got shape \(\)\)"),
        ({"x": torch.ones(4, 2, device="meta")}, DeviceError, r"batch.x to be on cpu like .*\(got meta\)"),
        ({"edge_attr": torch.ones(3)}, ShapeError, r"batch.edge_attr to have 2 rows, one for each edge .*\(3, 1\)\)"),
        ({"batch": torch.tensor([0, 1, 0, 1])}, RangeError, r"batch.batch to rise from 0, graph after graph"),
        ({"batch": torch.tensor([-1, -1, 0, 0])}, RangeError, r"batch.batch to rise from 0"),
        ({"batch": torch.ones(4)}, DtypeError, r"batch.batch to be a vector .*\(got torch.float32 \(4,\)\)"),
        ({"batch": torch.zeros(4, device="meta").long()}, DeviceError, r"batch.batch to be on cpu .*\(got meta\)"),
        ({"ptr": torch.tensor([0, 3, 4])}, ShapeError, r"the same graphs \(got sizes \[2, 2\] and \[3, 1\]\)"),
        ({"ptr": torch.tensor([0, 5, 4])}, RangeError, r"batch.ptr to rise from 0 \(got \[0, 5, 4\]\)"),
        ({"ptr": torch.tensor([1, 4])}, RangeError, r"batch.ptr to rise from 0 \(got \[1, 4\]\)"),
        ({"x": None, "batch": None}, ShapeError, r"number of nodes by ptr, batch, num_nodes or x \(got none of them\)"),
    ],
)
def test_to_padded_refuses_batches(changes, error, message):
    assert to_padded(batch_with()).mask.all()
    with pytest.raises(error, match="^Expected .*" + message):
        to_padded(batch_with(**changes))


def test_to_padded_refuses_a_number_of_nodes_that_x_contradicts():
    data = Data(torch.ones(0), torch.zeros(2, 0, dtype=torch.long), num_nodes=3)
    with pytest.raises(ShapeError, match=r"Expected batch.x to have 3 rows, one for each node \(got shape \(0, 1\)\)"):
        to_padded(data)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"size": 1}, ShapeError, r"graphs of at most size=1 nodes \(got 2 in graph 0\)"),
        ({"size": -1}, ShapeError, r"graphs of at most size=-1 nodes \(got 2 in graph 0\)"),
        ({"size": 4.0}, DtypeError, r"size to be an integer or None \(got 4.0\)"),
        ({"dtype": "float32"}, DtypeError, r"dtype to be a torch.dtype \(got 'float32'\)"),
    ],
)
def test_to_padded_refuses_options(options, error, message):
    with pytest.raises(error, match="^Expected " + message):
        to_padded(batch_with(), **options)


def padded_with(**changes):
    fields = {
        "nodes": torch.ones(2, 3, 1),
        "adjacency": torch.ones(2, 3, 3),
        "edges": torch.ones(2, 3, 3, 2),
        "mask": torch.ones(2, 3, dtype=torch.bool),
    }
    return Padded(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"mask": torch.ones(2, 3)}, MaskError, r"mask to be boolean \(got torch.float32\)"),
        ({"mask": None}, MaskError, r"mask to be boolean \(got NoneType\)"),
        ({"mask": torch.ones(3).bool()}, MaskError, r"mask to be \(batch, nodes\) \(got \(3,\)\)"),
        ({"nodes": torch.ones(2, 4, 1)}, ShapeError, r"nodes to be \(2, 3, channels\) like the mask \(got \(2, 4, 1\)"),
        ({"nodes": torch.ones(2, 3)}, ShapeError, r"nodes to be \(2, 3, channels\) like the mask \(got \(2, 3\)\)"),
        ({"adjacency": torch.ones(2, 3, 4)}, ShapeError, r"adjacency to be \(2, 3, 3\) .*\(got \(2, 3, 4\)\)"),
        ({"adjacency": torch.ones(2, 3, 3, 1)}, ShapeError, r"adjacency to be \(2, 3, 3\) .*\(got \(2, 3, 3, 1\)\)"),
        ({"adjacency": None}, DtypeError, r"adjacency to be a tensor \(got NoneType\)"),
        ({"edges": torch.ones(2, 3, 3)}, ShapeError, r"edges to be \(2, 3, 3, channels\) .*\(got \(2, 3, 3\)\)"),
        ({"nodes": torch.ones(2, 3, 1, device="meta")}, DeviceError, r"nodes to be on cpu .*\(got meta\)"),
    ],
)
def test_padded_refuses(changes, error, message):
    with pytest.raises(error, match="^Expected " + message):
        padded_with(**changes)


def test_to_batch_refuses_what_a_batch_cannot_hold():
    adjacency = torch.ones(2, 3, 3)
    for value in (0.5, -1.0, torch.nan, torch.inf):
        adjacency[1, 0, 2] = value
        with pytest.raises(RangeError, match=rf"Expected adjacency to count edges \(got {value} at \(1, 0, 2\)\)"):
            to_batch(padded_with(adjacency=adjacency))
    adjacency[1, 0, 2] = 0
    with pytest.raises(RangeError, match=r"Expected edges to be zero .* \(got features at \(1, 0, 2\)\)"):
        to_batch(padded_with(adjacency=adjacency))
    none = Padded(None, torch.ones(0, 3, 3), None, torch.ones(0, 3, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"Expected at least one graph in a batch \(got 0\)"):
        to_batch(none)


@pytest.mark.parametrize(
    ("values", "mask", "error", "message"),
    [
        (torch.ones(2, 3), torch.ones(2, 3), MaskError, r"mask to be boolean \(got torch.float32\)"),
        (torch.ones(2, 3), torch.ones(2).bool(), MaskError, r"mask to be \(batch, nodes\) \(got \(2,\)\)"),
        (torch.ones(2, 4, 3), torch.ones(2, 3).bool(), ShapeError, r"values to begin with \(2, 3\) .*\(2, 4, 3\)\)"),
        (torch.ones(2), torch.ones(2, 3).bool(), ShapeError, r"values to begin with \(2, 3\) .*\(got \(2,\)\)"),
        (torch.ones(2, 3, device="meta"), torch.ones(2, 3).bool(), DeviceError, r"values to be on cpu .*\(got meta\)"),
    ],
)
def test_from_padded_refuses(values, mask, error, message):
    with pytest.raises(error, match="^Expected " + message):
        from_padded(values, mask)
