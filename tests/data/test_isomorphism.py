from itertools import combinations

import networkx
import numpy as np
import pytest

from probsym.data import certificates
from probsym.data.isomorphism import graphs_of
from probsym.errors import RangeError, ShapeError


def every_graph(n: int) -> np.ndarray:
    """All graphs on n labelled nodes."""
    above, below = np.triu_indices(n, 1)
    bits = (np.arange(2 ** len(above))[:, None] >> np.arange(len(above))) & 1
    graphs = np.zeros((len(bits), n, n), dtype=np.uint8)
    graphs[:, above, below] = graphs[:, below, above] = bits
    return graphs


def shuffled(graphs: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    order = generator.permuted(np.tile(np.arange(graphs.shape[1]), (len(graphs), 1)), axis=1)
    rows = np.take_along_axis(graphs, order[:, :, None], 1)
    return np.take_along_axis(rows, order[:, None, :], 2)


@pytest.mark.parametrize("n", range(1, 5))
def test_certificates_agree_with_networkx_on_all_pairs(n: int) -> None:
    graphs = every_graph(n)
    numbers = certificates(graphs)
    networks = [networkx.from_numpy_array(graph) for graph in graphs]
    for left, right in combinations(range(len(graphs)), 2):
        assert (numbers[left] == numbers[right]) == networkx.is_isomorphic(networks[left], networks[right])


@pytest.mark.parametrize(("n", "classes"), [(5, 34), (6, 156)])
def test_certificates_agree_with_networkx_on_all_graphs(n: int, classes: int) -> None:
    """Every labelled graph is isomorphic to the first of its certificate, and no two of those firsts are."""
    graphs = every_graph(n)
    numbers, first, which = np.unique(certificates(graphs), return_index=True, return_inverse=True)
    assert len(numbers) == classes
    networks = [networkx.from_numpy_array(graphs[index]) for index in first]
    for left, right in combinations(networks, 2):
        assert not networkx.faster_could_be_isomorphic(left, right) or not networkx.is_isomorphic(left, right)
    sampled = range(len(graphs)) if n < 6 else range(0, len(graphs), 7)
    for index in sampled:
        assert networkx.is_isomorphic(networkx.from_numpy_array(graphs[index]), networks[which[index]])


@pytest.mark.parametrize("n", range(1, 9))
def test_certificates_are_invariant_and_spell_the_graph(n: int) -> None:
    generator = np.random.default_rng(n)
    upper = np.triu(generator.random((300, n, n)) < generator.random((300, 1, 1)), 1)
    graphs = (upper | upper.swapaxes(1, 2)).astype(np.uint8)
    numbers = certificates(graphs)
    assert numbers.shape == (300,)
    assert (certificates(shuffled(graphs, generator)) == numbers).all()
    assert (certificates(graphs_of(numbers)) == numbers).all()
    for graph, spelled in zip(graphs[:40], graphs_of(numbers), strict=False):
        assert networkx.is_isomorphic(networkx.from_numpy_array(graph), networkx.from_numpy_array(spelled))


def test_regular_graphs_which_refinement_cannot_order() -> None:
    """The cube, and the other cubic graphs on 8 nodes: six, of which five are connected."""
    generator = np.random.default_rng(0)
    cubic = [networkx.random_regular_graph(3, 8, seed=seed) for seed in range(300)]
    graphs = np.stack(
        [networkx.to_numpy_array(network, dtype=np.uint8) for network in [networkx.cubical_graph(), *cubic]]
    )
    numbers = certificates(graphs)
    assert (certificates(shuffled(graphs, generator)) == numbers).all()
    assert len(np.unique(numbers)) == 6


def test_certificates_of_different_sizes_differ() -> None:
    numbers = [int(certificates(np.zeros((1, n, n)))[0]) for n in range(1, 9)]
    assert len(set(numbers)) == 8


def test_certificates_take_any_type_and_no_graphs() -> None:
    triangle = 1 - np.eye(3)
    assert len({int(certificates(triangle[None].astype(kind))[0]) for kind in (bool, np.uint8, np.float32)}) == 1
    assert certificates(np.zeros((0, 4, 4))).shape == (0,)


@pytest.mark.parametrize(
    ("adjacency", "error", "text"),
    [
        (np.zeros((3, 3)), ShapeError, r"\(count, n, n\)"),
        (np.zeros((1, 3, 4)), ShapeError, r"\(count, n, n\)"),
        (np.zeros((1, 9, 9)), RangeError, "1 to 8 nodes"),
        (np.eye(3)[None], RangeError, "without loops"),
        (2 - 2 * np.eye(3)[None], RangeError, "0 or 1"),
        (np.triu(np.ones((1, 3, 3)), 1), RangeError, "symmetric"),
    ],
)
def test_other_graphs_are_refused(adjacency: np.ndarray, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        certificates(adjacency)


def test_certificates_of_several_sizes_spell_no_one_array() -> None:
    mixed = np.concatenate([certificates(np.zeros((1, n, n))) for n in (2, 3)])
    for numbers in (mixed, mixed[:0], np.zeros(1, dtype=np.int64)):
        with pytest.raises(RangeError, match="of one size"):
            graphs_of(numbers)
