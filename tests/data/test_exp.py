import hashlib
import importlib
import os
from pathlib import Path

import networkx
import numpy as np
import pytest
import torch

from probsym.data import Graphs, exp, exp_splits, files, wl_classes
from probsym.data.exp import padded
from probsym.data.graphsat import read_graphsat
from probsym.errors import DataError
from tests.data.pickles import Graph, dumped, small

MODULE = importlib.import_module("probsym.data.exp")  # the function of that name hides it
DATA = os.environ.get("PROBSYM_DATA", "")
real = pytest.mark.skipif(not (Path(DATA) / "exp_graphsat.npz").is_file(), reason="no EXP in PROBSYM_DATA")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    for name in ("own", "cache"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PROBSYM_DATA", str(tmp_path / "own"))
    monkeypatch.setenv("PROBSYM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "own", tmp_path / "cache"


@pytest.fixture
def pickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Two small graphs in the published form, taken for the real ones."""
    (tmp_path / "small.pkl").write_bytes(dumped(small()))
    arrays = read_graphsat(tmp_path / "small.pkl")
    monkeypatch.setattr(MODULE, "_CONTENTS", files.digest(arrays))
    files.save(tmp_path / "small.npz", arrays)
    monkeypatch.setattr(MODULE, "_SHA256", hashlib.sha256((tmp_path / "small.npz").read_bytes()).hexdigest())
    return dumped(small())


def assert_small(graphs: Graphs) -> None:
    assert graphs.features.tolist() == [[[1, 1], [0, 2], [1, 1]], [[0, 1], [1, 1], [0, 0]]]
    assert graphs.adjacency.tolist() == [[[0, 1, 0], [1, 0, 1], [0, 1, 0]], [[0, 1, 0], [1, 0, 0], [0, 0, 0]]]
    assert graphs.mask.tolist() == [[True] * 3, [True, True, False]]
    assert graphs.labels.tolist() == [1, 0]
    assert [tensor.dtype for tensor in graphs] == [torch.float32, torch.float32, torch.bool, torch.float32]


@pytest.mark.parametrize("place", [0, 1])
def test_the_archive_is_read_from_either_place(places: tuple[Path, Path], pickled: bytes, place: int) -> None:
    (places[0].parent / "small.npz").rename(places[place] / "exp_graphsat.npz")
    assert_small(exp())


@pytest.mark.parametrize("place", [0, 1])
def test_the_pickle_is_converted_once(places: tuple[Path, Path], pickled: bytes, place: int) -> None:
    source = places[place] / "GRAPHSAT.pkl"
    source.write_bytes(pickled)
    assert_small(exp())
    source.unlink()
    assert_small(exp())
    assert [file.name for file in places[1].iterdir()] == ["exp_converted.npz"]


def test_an_archive_with_another_checksum_is_refused(places: tuple[Path, Path], pickled: bytes) -> None:
    files.save(places[0] / "exp_graphsat.npz", {"x": np.zeros((3, 1))})
    (places[1] / "GRAPHSAT.pkl").write_bytes(pickled)
    with pytest.raises(DataError, match=r"Expected .*exp_graphsat.npz to have sha256"):
        exp()


def test_a_pickle_of_other_graphs_is_refused(places: tuple[Path, Path], pickled: bytes) -> None:
    (places[0] / "GRAPHSAT.pkl").write_bytes(dumped(small()[::-1]))
    with pytest.raises(DataError, match="Expected contents with sha256"):
        exp()
    assert list(places[1].iterdir()) == []


def test_a_broken_conversion_is_made_anew(places: tuple[Path, Path], pickled: bytes) -> None:
    (places[0] / "GRAPHSAT.pkl").write_bytes(pickled)
    (places[1] / "exp_converted.npz").write_bytes(b"half")
    assert_small(exp())
    (places[0] / "GRAPHSAT.pkl").unlink()
    assert_small(exp())


def test_without_any_file_the_error_says_where_to_get_it(places: tuple[Path, Path]) -> None:
    with pytest.raises(DataError, match=r"exp_graphsat.npz or GRAPHSAT.pkl in .*own or .*cache.*ralphabb/GNN-RNI"):
        exp(download=False)


def test_the_published_file_is_downloaded_and_only_what_it_holds_is_kept(
    places: tuple[Path, Path], pickled: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "elsewhere.pkl"
    source.write_bytes(pickled)
    monkeypatch.setattr(MODULE, "_URL", source.as_uri())
    assert_small(exp())
    assert [path.name for path in places[1].iterdir()] == ["exp_converted.npz"]
    source.unlink()
    assert_small(exp())


def test_a_download_of_other_graphs_is_refused(
    places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "elsewhere.pkl"
    source.write_bytes(dumped(small()[:1]))
    monkeypatch.setattr(MODULE, "_URL", source.as_uri())
    with pytest.raises(DataError, match="Expected contents with sha256"):
        exp()
    assert list(places[1].iterdir()) == []


def test_a_failed_download_says_so(places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "_URL", (tmp_path / "nowhere.pkl").as_uri())
    with pytest.raises(DataError, match=r"^Expected to download file:.*nowhere.pkl \(got: "):
        exp()


def test_sizes_are_those_of_the_largest_graph() -> None:
    pointers = {"node_ptr": np.array([0, 1, 5]), "edge_ptr": np.array([0, 0, 2])}
    edges = {"edge_index": np.array([[0, 3], [3, 0]])}
    graphs = padded({**pointers, **edges, "x": np.ones((5, 1)), "y": np.array([0, 1])})
    assert graphs.mask.sum(1).tolist() == [1, 4]
    assert graphs.adjacency.nonzero().tolist() == [[1, 0, 3], [1, 3, 0]]


def test_splits_are_disjoint_and_keep_pairs_together() -> None:
    splits = exp_splits()
    assert torch.equal(splits.validation, torch.arange(200))
    assert torch.equal(splits.test, torch.arange(200, 400))
    assert torch.equal(splits.train, torch.arange(400, 1200))


@pytest.fixture(scope="module")
def graphs() -> Graphs:
    return exp()


@real
def test_statistics_of_the_paper(graphs: Graphs) -> None:
    nodes = graphs.mask.sum(1)
    assert (len(nodes), int(nodes.min()), int(nodes.max())) == (1200, 32, 64)
    assert graphs.features.shape == (1200, 64, 2)
    # The paper cuts after two digits, and counts both directions of an edge.
    assert int(100 * nodes.double().mean()) == 4444
    assert int(100 * graphs.adjacency.double().sum() / 1200) == 11021


@real
def test_graphs_are_simple_padded_and_described(graphs: Graphs) -> None:
    assert torch.equal(graphs.adjacency, graphs.adjacency.mT)
    assert graphs.adjacency.diagonal(dim1=1, dim2=2).sum() == 0
    assert set(graphs.adjacency.unique().tolist()) == {0, 1}
    assert graphs.adjacency[~graphs.mask].sum() == graphs.features[~graphs.mask].sum() == 0
    assert torch.equal(graphs.features[..., 1], graphs.adjacency.sum(-1))
    assert set(graphs.features[..., 0].unique().tolist()) == {0, 1}
    assert torch.equal(graphs.labels, torch.tensor([1.0, 0.0]).repeat(600))


@real
def test_splits_cover_the_set_evenly(graphs: Graphs) -> None:
    splits = exp_splits()
    assert torch.equal(torch.cat(list(splits)).sort().values, torch.arange(len(graphs.labels)))
    assert [float(graphs.labels[part].mean()) for part in splits] == [0.5] * 3


@real
def test_pairs_and_only_pairs_are_equal_to_colour_refinement(graphs: Graphs) -> None:
    for features in (graphs.features, graphs.features[..., :1]):
        classes = wl_classes(graphs.adjacency, features, graphs.mask)
        assert torch.equal(classes[::2], classes[1::2])
        assert len(classes.unique()) == 600


def network(graphs: Graphs, index: int) -> "networkx.Graph[int]":
    nodes = int(graphs.mask[index].sum())
    graph = networkx.from_numpy_array(graphs.adjacency[index, :nodes, :nodes].numpy())
    networkx.set_node_attributes(graph, dict(enumerate(graphs.features[index, :, 0].tolist())), "own")
    return graph


@real
@pytest.mark.slow
def test_no_pair_is_isomorphic(graphs: Graphs) -> None:
    match = networkx.algorithms.isomorphism.numerical_node_match("own", 0.0)
    shuffled = torch.randperm(int(graphs.mask[0].sum()), generator=torch.Generator().manual_seed(0)).tolist()
    first = network(graphs, 0)
    assert networkx.is_isomorphic(
        first, networkx.relabel_nodes(first, dict(enumerate(shuffled))), node_match=match
    )  # so that a test that finds nothing means something
    for index in range(0, 1200, 2):
        assert not networkx.is_isomorphic(network(graphs, index), network(graphs, index + 1), node_match=match)


@real
def test_the_published_form_gives_the_same_set(graphs: Graphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = files.load(Path(DATA) / "exp_graphsat.npz")
    x, edges = (torch.from_numpy(arrays[name]) for name in ("x", "edge_index"))
    nodes, ends = arrays["node_ptr"], arrays["edge_ptr"]
    published = [
        Graph(x[nodes[i] : nodes[i + 1]].clone(), edges[:, ends[i] : ends[i + 1]].clone(), torch.tensor([int(label)]))
        for i, label in enumerate(arrays["y"])
    ]
    (tmp_path / "GRAPHSAT.pkl").write_bytes(dumped(published))
    monkeypatch.setenv("PROBSYM_CACHE", str(tmp_path))
    monkeypatch.delenv("PROBSYM_DATA")
    assert all(torch.equal(tensor, wanted) for tensor, wanted in zip(exp(), graphs, strict=True))
