import importlib
import math
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import torch

from probsym.data import PackedGraphs, files, pattern
from probsym.data.pattern import Drawn, draw, draw_pattern, generate, unpacked
from probsym.errors import DataError

MODULE = importlib.import_module("probsym.data.pattern")  # the function of that name hides it


def assert_share(outcomes: Any, probability: float) -> None:
    """The share of ones is the probability, within five standard deviations."""
    outcomes = np.asarray(outcomes)
    assert abs(outcomes.mean() - probability) < 5 * math.sqrt(probability * (1 - probability) / outcomes.size)


@pytest.fixture(scope="module")
def drawn() -> list[list[Drawn]]:
    """Ten graphs around each of 30 patterns, each list headed by the pattern."""
    random = np.random.RandomState(0)
    hidden = [draw_pattern(random) for _ in range(30)]
    return [[planted, *(draw(random, planted) for _ in range(10))] for planted in hidden]


def test_links_have_the_densities_of_the_rule(drawn: list[list[Drawn]]) -> None:
    within, across, attached = [], [], []
    for _, *graphs in drawn:
        for adjacency, _, community in graphs:
            assert np.array_equal(adjacency, adjacency.T)
            assert not adjacency.diagonal().any()
            upper = np.triu(np.ones_like(adjacency), 1)
            same, hidden = community[:, None] == community, community == 5
            one_hidden, none_hidden = hidden[:, None] ^ hidden, ~(hidden[:, None] | hidden)
            within.append(adjacency[upper & same & none_hidden])
            across.append(adjacency[upper & ~same & none_hidden])
            attached.append(adjacency[upper & one_hidden])
    assert_share(np.concatenate(within), 0.5)
    assert_share(np.concatenate(across), 0.35)
    assert_share(np.concatenate(attached), 0.5)
    assert_share(
        np.concatenate([planted.adjacency[np.triu_indices(len(planted.features), 1)] for planted, *_ in drawn]), 0.5
    )


def test_graphs_share_their_pattern_with_its_features(drawn: list[list[Drawn]]) -> None:
    def labelled(adjacency: Any, features: Any) -> networkx.Graph:
        attributed = networkx.from_numpy_array(adjacency.astype(int))
        networkx.set_node_attributes(attributed, dict(enumerate(features.tolist())), "kind")
        return attributed

    for hidden, *graphs in drawn:
        pattern_itself = labelled(hidden.adjacency, hidden.features)
        for adjacency, features, community in graphs[:2]:
            at = community == 5
            induced = labelled(adjacency[at][:, at], features[at])
            matches = networkx.algorithms.isomorphism.categorical_node_match("kind", None)
            assert networkx.is_isomorphic(induced, pattern_itself, node_match=matches)


def test_communities_have_5_to_34_nodes_uniformly_and_features_are_one_of_three(drawn: list[list[Drawn]]) -> None:
    sizes = np.array([np.bincount(graph.community)[:5] for _, *graphs in drawn for graph in graphs]).ravel()
    counts = np.bincount(sizes, minlength=35)
    assert counts[:5].sum() == 0
    assert len(counts) == 35
    expected = len(sizes) / 30
    assert ((counts[5:] - expected) ** 2 / expected).sum() < 29 + 5 * math.sqrt(58)  # chi squared
    features = np.concatenate([graph.features[graph.community < 5] for _, *graphs in drawn for graph in graphs])
    for kind in range(3):
        assert_share(features == kind, 1 / 3)


def test_nodes_are_in_random_order(drawn: list[list[Drawn]]) -> None:
    places = np.concatenate(
        [np.flatnonzero(graph.community == 5) / len(graph.community) for _, *graphs in drawn for graph in graphs]
    )
    assert abs(places.mean() - 0.5) < 0.02
    neighbours = [graph.community[1:] == graph.community[:-1] for _, *graphs in drawn for graph in graphs]
    assert np.concatenate(neighbours).mean() < 0.25  # a sixth or so, and nearly one without the permutation


def test_what_is_too_large_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "MOST", 100)
    random = np.random.RandomState(1)
    hidden = draw_pattern(random)
    sizes = [len(draw(random, hidden).features) for _ in range(50)]
    assert max(sizes) <= 100
    assert max(sizes) > 90


def test_what_is_kept_is_what_was_drawn_part_after_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "EACH", {"train": 3, "valid": 1, "test": 2})
    told: list[tuple[int, int]] = []
    graphs = unpacked(generate(7, 2, lambda done, total, _: told.append((done, total))))
    assert told == [(6, 12), (12, 12)]
    random, wanted = np.random.RandomState(7), []
    for _ in range(2):
        hidden = draw_pattern(random)
        wanted.append([draw(random, hidden) for _ in range(6)])
    order = [(p, i) for part in ((0, 1, 2), (3,), (4, 5)) for p in range(2) for i in part]
    batch = graphs.batch(torch.arange(12))
    assert batch.features.shape == (12, 188, 3)
    for b, (p, i) in enumerate(order):
        adjacency, features, community = wanted[p][i]
        n = len(features)
        assert int(batch.mask[b].sum()) == n
        assert np.array_equal(batch.edges.dense()[b, :n, :n], adjacency)
        assert np.array_equal(batch.features[b, :n].argmax(-1), features)
        assert np.array_equal(batch.targets[b, :n], community == 5)


def test_the_whole_set_is_the_same_on_every_machine() -> None:
    arrays = generate()
    assert files.digest(arrays) == MODULE._CONTENTS
    sizes, starts = arrays["sizes"], np.cumsum([0, *arrays["sizes"]])
    assert len(sizes) == 14_000
    assert 30 <= sizes.min() <= 44
    assert 180 < sizes.max() <= 188
    hidden = np.add.reduceat(arrays["y"], starts[:-1], dtype=np.int64)
    parts = (hidden[:10_000].reshape(100, 100), *hidden[10_000:].reshape(2, 100, 20))
    # order of patterns
    assert all(np.array_equal(part[:, 0], part[:, i]) for part in parts for i in range(part.shape[1]))
    assert all(np.array_equal(parts[0][:, 0], part[:, 0]) for part in parts[1:])  # the same in all parts
    assert 5 <= hidden.min() < hidden.max() <= 34
    assert abs(hidden.mean() - 19.5) < 5 * 8.66 / 10
    assert abs((sizes - hidden).mean() - 97.5) < 5 * 8.66 * math.sqrt(5 / 14_000)
    assert 0.13 < arrays["y"].mean() < 0.21
    links = 2 * np.unpackbits(arrays["bits"]).sum(dtype=np.int64) / 14_000
    # pairs in and across communities, inside the pattern and to it, with E s (s - 1) = 435.7 and E s = 19.5
    pairs = (hidden * (hidden - 1.0)).mean()
    expected = 0.5 * 5 * 435.67 + 0.35 * 20 * 380.25 + 0.5 * pairs + 2 * 0.5 * 97.5 * hidden.mean()
    assert links == pytest.approx(expected, rel=0.01)


def assert_same(actual: dict[str, PackedGraphs], wanted: dict[str, PackedGraphs]) -> None:
    assert list(actual) == list(wanted) == ["train", "valid", "test"]
    for name in actual:
        everything = torch.arange(len(wanted[name]))
        batch, reference = (graphs[name].batch(everything) for graphs in (actual, wanted))
        assert torch.equal(batch.features, reference.features)
        assert torch.equal(batch.edges.dense(), reference.edges.dense())
        assert torch.equal(batch.targets, reference.targets)


def test_the_set_is_made_once_kept_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBSYM_CACHE", str(tmp_path))
    monkeypatch.setattr(MODULE, "EACH", {"train": 3, "valid": 1, "test": 2})
    monkeypatch.setattr(MODULE, "PATTERNS", 2)
    with pytest.raises(DataError, match="Expected contents with sha256"):
        pattern()
    monkeypatch.setattr(MODULE, "_CONTENTS", files.digest(generate(MODULE.SEED, 2)))
    first = pattern()
    assert {name: len(graphs) for name, graphs in first.items()} == {"train": 6, "valid": 2, "test": 4}

    def refuse(*_: object) -> None:
        raise AssertionError("made again")

    with monkeypatch.context() as patch:
        patch.setattr(MODULE, "generate", refuse)
        assert_same(pattern(), first)
    (tmp_path / "pattern.npz").write_bytes(b"half")
    assert_same(pattern(), first)


def published(folder: Path, parts: object) -> Path:
    (folder / "PATTERN" / "raw").mkdir(parents=True)
    torch.save(parts, folder / "PATTERN" / "raw" / "PATTERN_v2.pt")
    return folder


def graph(n: int, edges: list[tuple[int, int]], seed: int) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    return {
        "x": torch.eye(3)[torch.randint(3, (n,), generator=random)],
        "edge_index": torch.tensor(edges, dtype=torch.int64).view(-1, 2).T,
        "y": torch.randint(2, (n,), generator=random),
    }


def test_the_published_file_is_read_as_it_is(tmp_path: Path) -> None:
    parts = [[graph(3, [(0, 1), (1, 0)], 0), graph(1, [], 1)], [graph(2, [(1, 0), (0, 1)], 2)], [graph(4, [], 3)]]
    packed = pattern(published=published(tmp_path, parts))
    assert [len(graphs) for graphs in packed.values()] == [2, 1, 1]
    for name, part in zip(packed, parts, strict=True):
        batch = packed[name].batch(torch.arange(len(part)))
        assert batch.features.shape == (len(part), 4, 3)
        for b, record in enumerate(part):
            n = len(record["x"])
            assert batch.mask[b].tolist() == [i < n for i in range(4)]
            assert torch.equal(batch.features[b, :n], record["x"])
            assert torch.equal(batch.targets[b, :n], record["y"])
            wanted = torch.zeros(4, 4)
            wanted[tuple(record["edge_index"])] = 1
            assert torch.equal(batch.edges.dense()[b], wanted)


def test_torch_geometric_writes_and_reads_the_same_file(tmp_path: Path) -> None:
    datasets = pytest.importorskip("torch_geometric.datasets")
    parts = [[graph(3, [(0, 1), (1, 0)], 0), graph(2, [], 1)]] * 3
    theirs = datasets.GNNBenchmarkDataset(str(published(tmp_path, parts)), "PATTERN", split="val")
    ours = pattern(published=tmp_path)["valid"]
    assert len(theirs) == len(ours) == 2
    assert torch.equal(ours.batch(torch.tensor([0])).features[0], theirs[0].x)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([[], []], "three lists"),
        ([[{"x": torch.eye(3)}], [], []], "x, edge_index and y"),
        ([[{**graph(3, [], 0), "y": torch.zeros(2)}], [], []], r"y \(n,\)"),
        ([[{**graph(3, [], 0), "x": torch.ones(3, 3)}], [], []], "one-hot"),
        ({"x": torch.eye(3)}, "a list of graphs"),
        ([[Path("anything but a tensor")], [], []], "nothing but tensors"),
    ],
)
def test_other_files_are_refused(parts: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        pattern(published=published(tmp_path, parts))


def test_a_folder_without_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"PATTERN/raw/PATTERN_v2.pt \(got no such file\)"):
        pattern(published=tmp_path)
