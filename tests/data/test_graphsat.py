import io
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from probsym.data.graphsat import read_graphsat
from probsym.errors import DataError
from tests.data.pickles import Call, Graph, dumped, small

SMALL = {
    "node_ptr": [0, 3, 5],
    "edge_ptr": [0, 4, 6],
    "x": [[1], [0], [1], [0], [1]],
    "edge_index": [[0, 1, 1, 2, 0, 1], [1, 0, 2, 1, 1, 0]],
    "y": [1, 0],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "GRAPHSAT.pkl"


def test_graphs_of_the_old_form_are_read(path: Path) -> None:
    path.write_bytes(dumped(small()))
    arrays = read_graphsat(path)
    assert {name: array.tolist() for name, array in arrays.items()} == SMALL
    assert {array.dtype.name for array in arrays.values()} == {"int64"}


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_graphs_of_torch_geometric_2_are_read(path: Path, protocol: int) -> None:
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data  # noqa: PLC0415

    graphs = [Data(x=graph.x, edge_index=graph.edge_index, y=graph.y) for graph in small()]
    path.write_bytes(pickle.dumps(graphs, protocol=protocol))
    assert {name: array.tolist() for name, array in read_graphsat(path).items()} == SMALL


def test_views_are_read_as_views(path: Path) -> None:
    graph = small()[0]
    graph.edge_index = torch.tensor([[9, 9], [1, 2], [2, 1], [0, 1], [1, 0]]).T[:, 1:]
    path.write_bytes(dumped([graph]))
    assert read_graphsat(path)["edge_index"].tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


def hostile(where: Path) -> dict[str, Any]:
    """What must not be opened; several would make a folder there."""
    make = Call(os.mkdir, str(where))
    graph = small()[0]
    graph.x = make
    inside = Call(torch.storage._load_from_bytes, pickle.dumps(make))
    saved = Call(torch.storage._load_from_bytes, _torch_saved(make))
    return {
        "a call": make,
        "a call among graphs": [*small(), make],
        "a call for a tensor": [graph],
        "evaluated text": Call(eval, f"__import__('os').mkdir({str(where)!r})"),
        "attributes of attributes": Call(getattr, Graph(1, 2, 3), "__class__"),
        "torch.load": Call(torch.load, str(where)),
        "a module": torch.nn.Linear(1, 1),
        "a pickle for the bytes of a tensor": [inside],
        "a saved call for the bytes of a tensor": [saved],
        "a storage of another kind": [torch.zeros(1).untyped_storage()],
    }


def _torch_saved(what: object) -> bytes:
    file = io.BytesIO()
    torch.save(what, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


@pytest.mark.parametrize("name", hostile(Path("nowhere")))
def test_hostile_pickles_are_refused_and_not_run(path: Path, name: str) -> None:
    target = path.parent / "made"
    path.write_bytes(dumped(hostile(target)[name]))
    with pytest.raises(DataError, match="Expected"):
        read_graphsat(path)
    assert not target.exists()


def test_the_refusal_names_what_was_asked_for(path: Path) -> None:
    path.write_bytes(dumped(Call(os.mkdir, "nowhere")))
    with pytest.raises(DataError, match=r"nothing but graphs and tensors \(got (posix|nt).mkdir\); not opened"):
        read_graphsat(path)


def test_names_inside_known_names_are_refused(path: Path) -> None:
    path.write_bytes(b"\x80\x04\x8c\x19torch_geometric.data.data\x8c\x0dData.__init__\x93.")
    with pytest.raises(DataError, match=r"got torch_geometric.data.data.Data.__init__\)"):
        read_graphsat(path)


def test_what_a_file_does_to_its_stand_ins_ends_with_the_file(path: Path) -> None:
    known = b"ctorch_geometric.data.data\nData\n"
    path.write_bytes(b"\x80\x03" + known + b"N}X\x08\x00\x00\x00__init__K\x01s\x86b.")  # sets Data.__init__ = 1
    with pytest.raises(DataError, match="Expected a pickled list"):
        read_graphsat(path)
    path.write_bytes(dumped(small()))
    assert read_graphsat(path)["y"].tolist() == [1, 0]


def tensors(**changed: Any) -> list[Graph]:
    graph = small()[0]
    vars(graph).update(changed)
    return [graph]


@pytest.mark.parametrize(
    ("graphs", "text"),
    [
        ({}, "list of graphs"),
        ([], "list of graphs"),
        ([1, 2], "list of graphs"),
        (tensors(x=torch.ones(3, 2)), r"Expected x \(n, 1\)"),
        (tensors(x=None), r"Expected x \(n, 1\)"),
        (tensors(edge_index=torch.zeros(3, 2)), r"edge_index \(2, e\)"),
        (tensors(y=torch.tensor([1, 0])), "one y"),
        (tensors(edge_index=torch.tensor([[0], [3]])), r"edges among 3 nodes \(got 0 to 3\)"),
        (tensors(edge_index=torch.tensor([[-1], [1]])), r"edges among 3 nodes \(got -1 to 1\)"),
    ],
)
def test_other_contents_are_refused(path: Path, graphs: Any, text: str) -> None:
    path.write_bytes(dumped(graphs))
    with pytest.raises(DataError, match=text):
        read_graphsat(path)


def test_a_tensor_that_leaves_its_storage_is_refused(path: Path) -> None:
    storage = small()[0].x.__reduce_ex__(2)[1][0]
    path.write_bytes(dumped(tensors(x=Call(torch._utils._rebuild_tensor_v2, storage, 1, (3, 1), (1, 1), False, {}))))
    with pytest.raises(DataError, match="out of bounds"):
        read_graphsat(path)


@pytest.mark.parametrize("cut", [0, 1, 50, -1])
def test_broken_files_are_refused(path: Path, cut: int) -> None:
    path.write_bytes(dumped(small())[:cut])
    with pytest.raises(DataError, match="Expected a pickled list of graphs"):
        read_graphsat(path)


def test_a_graph_without_labels_is_refused(path: Path) -> None:
    graph = small()[0]
    del graph.y
    path.write_bytes(dumped([graph]))
    with pytest.raises(DataError, match="got: 'y'"):
        read_graphsat(path)


def test_a_tensor_that_makes_much_of_little_is_refused(path: Path) -> None:
    graph = Graph(
        torch.zeros(1, 1, dtype=torch.long).expand(10**6, 1), torch.zeros(2, 0, dtype=torch.long), torch.tensor(0)
    )
    path.write_bytes(dumped([graph]))
    with pytest.raises(DataError, match=r"Expected a tensor of at most 1 numbers \(got \[1000000, 1\]\)"):
        read_graphsat(path)
