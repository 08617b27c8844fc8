import importlib
import os
from pathlib import Path

import networkx
import numpy as np
import pytest
import torch

from probsym.data import Graphs, all_graphs, certificates, files, graph8c, wl_classes
from probsym.data.graph8c import connected
from probsym.errors import RangeError

MODULE = importlib.import_module("probsym.data.graph8c")  # the function of that name hides it
PUBLISHED = Path(os.environ.get("PROBSYM_DATA", "")) / "graph8c_adj.npz"


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROBSYM_CACHE", str(tmp_path))
    return tmp_path / "graph8c.npz"


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Graphs:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROBSYM_CACHE", str(tmp_path_factory.mktemp("cache")))
        return graph8c()


@pytest.mark.parametrize(
    ("n", "all_of_them", "connected_ones"),
    [(1, 1, 1), (2, 2, 1), (3, 4, 2), (4, 11, 6), (5, 34, 21), (6, 156, 112), (7, 1044, 853), (8, 12346, 11117)],
)
def test_numbers_of_graphs(n: int, all_of_them: int, connected_ones: int) -> None:
    graphs = all_graphs(n)
    assert graphs.shape == (all_of_them, n, n)
    assert int(connected(graphs).sum()) == connected_ones


def test_connected_agrees_with_networkx() -> None:
    graphs = all_graphs(6)
    assert connected(graphs).tolist() == [
        networkx.is_connected(networkx.from_numpy_array(adjacency)) for adjacency in graphs
    ]


def test_long_paths_are_connected() -> None:
    path = networkx.to_numpy_array(networkx.path_graph(8), dtype=np.uint8)
    cut = path.copy()
    cut[3, 4] = cut[4, 3] = 0
    assert connected(np.stack([path, cut])).tolist() == [True, False]


@pytest.mark.parametrize("n", [0, 9])
def test_other_sizes_are_refused(n: int) -> None:
    with pytest.raises(RangeError, match=rf"1 to 8 nodes \(got {n}\)"):
        all_graphs(n)


def test_statistics_of_the_paper(graphs: Graphs) -> None:
    assert graphs.adjacency.shape == (11117, 8, 8)
    assert graphs.features.shape == (11117, 8, 2)
    assert round(float(graphs.adjacency.double().sum()) / 11117, 2) == 28.82


def test_graphs_are_simple_described_and_distinct(graphs: Graphs) -> None:
    assert torch.equal(graphs.adjacency, graphs.adjacency.mT)
    assert graphs.adjacency.diagonal(dim1=1, dim2=2).sum() == 0
    assert set(graphs.adjacency.unique().tolist()) == {0, 1}
    assert bool((graphs.features[..., 0] == 1).all())
    assert torch.equal(graphs.features[..., 1], graphs.adjacency.sum(-1))
    assert bool(graphs.mask.all())
    assert graphs.labels.tolist() == [0.0] * 11117
    assert (np.diff(certificates(graphs.adjacency.numpy())) > 0).all()


def test_refinement_leaves_312_pairs(graphs: Graphs) -> None:
    sizes = torch.bincount(wl_classes(graphs.adjacency, graphs.features, graphs.mask))
    assert int((sizes * (sizes - 1) // 2).sum()) == 312


@pytest.mark.slow
def test_refinement_agrees_with_networkx(graphs: Graphs) -> None:
    graphs = graphs.take(torch.arange(0, 11117, 4))
    ones = torch.ones(len(graphs.labels), 8, 1)
    classes = wl_classes(graphs.adjacency, ones, graphs.mask).tolist()
    networks = [networkx.from_numpy_array(adjacency) for adjacency in graphs.adjacency.numpy()]
    for network in networks:
        networkx.set_node_attributes(network, "1", "own")
    hashes = [networkx.weisfeiler_lehman_graph_hash(network, node_attr="own", iterations=8) for network in networks]
    assert len(set(classes)) == len(set(hashes)) == len(set(zip(classes, hashes, strict=True)))


@pytest.mark.skipif(not PUBLISHED.is_file(), reason="no GRAPH8c in PROBSYM_DATA")
def test_the_set_is_the_published_one(graphs: Graphs) -> None:
    published = np.sort(certificates(files.load(PUBLISHED)["adj"]))
    assert np.array_equal(published, certificates(graphs.adjacency.numpy()))


class Counted:
    """In place of generating: counts how often."""

    def __init__(self, graphs: Graphs) -> None:
        self.calls, self.adjacency = 0, graphs.adjacency.numpy().astype(np.uint8)

    def __call__(self) -> files.Arrays:
        self.calls += 1
        return {"adjacency": self.adjacency.copy()}


def test_the_cache_is_used_and_a_broken_one_is_made_anew(
    kept: Path, graphs: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(graphs)
    monkeypatch.setattr(MODULE, "_generate", counted)
    for calls in (1, 1):
        assert torch.equal(graph8c().adjacency, graphs.adjacency)
        assert counted.calls == calls
    whole = bytearray(kept.read_bytes())
    whole[len(whole) // 2] ^= 1
    kept.write_bytes(whole)
    assert torch.equal(graph8c().adjacency, graphs.adjacency)
    assert counted.calls == 2
    changed = files.load(kept)
    changed["adjacency"][0, 0, 1] ^= 1
    files.save(kept, changed)
    assert torch.equal(graph8c().adjacency, graphs.adjacency)
    assert counted.calls == 3


def test_an_interrupted_generation_leaves_no_file(kept: Path, graphs: Graphs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "_generate", Counted(graphs))

    def interrupted(file, **arrays) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez_compressed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            graph8c()
    assert list(kept.parent.iterdir()) == []
    assert len(graph8c().labels) == 11117
