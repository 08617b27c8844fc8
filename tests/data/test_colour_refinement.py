from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import Tensor

from probsym.data import all_graphs, wl_classes, wl_colours
from probsym.data.colour_refinement import node_colours
from probsym.errors import ShapeError


def told_apart(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> bool:
    """1-WL by the letter: names for colours, refined until nothing changes, in both graphs side by side."""
    adjacency, features = torch.block_diag(first[0], second[0]), torch.cat([first[1], second[1]])
    colours = [str(row.tolist()) for row in features]
    while True:
        around = [sorted(colours[j] for j in row.nonzero().flatten().tolist()) for row in adjacency]
        pairs = [(own, *others) for own, others in zip(colours, around, strict=True)]
        names = {pair: str(number) for number, pair in enumerate(sorted(set(pairs)))}
        if len(names) == len(set(colours)):
            return Counter(colours[: len(first[0])]) != Counter(colours[len(first[0]) :])
        colours = [names[pair] for pair in pairs]


def padded(graphs: list[tuple[Tensor, Tensor]], size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Graphs with rubbish on padding."""
    adjacency = torch.ones(len(graphs), size, size)
    features = torch.randn(len(graphs), size, graphs[0][1].shape[1], generator=torch.Generator().manual_seed(0))
    mask = torch.zeros(len(graphs), size, dtype=torch.bool)
    for index, (edges, own) in enumerate(graphs):
        n = len(edges)
        adjacency[index, :n, :n], features[index, :n], mask[index, :n] = edges, own, True
    return adjacency, features, mask


def random_graph(n: int, generator: torch.Generator, colours: int = 1) -> tuple[Tensor, Tensor]:
    upper = (torch.rand(n, n, generator=generator) < 0.4).float().triu(1)
    return upper + upper.T, torch.randint(0, colours, (n, 1), generator=generator).float()


@pytest.mark.parametrize("colours", [1, 2])
def test_classes_agree_with_refinement_by_the_letter(colours: int) -> None:
    generator = torch.Generator().manual_seed(1)
    graphs = [random_graph(n, generator, colours) for n in (2, 3, 4, 4, 5, 6) for _ in range(12)]
    classes = wl_classes(*padded(graphs, 7))
    apart = [told_apart(first, second) for first, second in combinations(graphs, 2)]
    assert [bool(first != second) for first, second in combinations(classes, 2)] == apart
    assert 20 < len(apart) - sum(apart) < len(apart) / 2


def test_all_graphs_on_six_nodes() -> None:
    graphs = torch.from_numpy(all_graphs(6)).float()
    ones = torch.ones(len(graphs), 6, 1)
    classes = wl_classes(graphs, ones, torch.ones(len(graphs), 6, dtype=torch.bool))
    degrees = graphs.sum(-1).sort().values
    alike = [pair for pair in combinations(range(len(graphs)), 2) if torch.equal(*degrees[list(pair)])]
    for i, j in alike:
        assert bool(classes[i] != classes[j]) == told_apart((graphs[i], ones[i]), (graphs[j], ones[j]))
    regular = (degrees == degrees[:, :1]).all(1)
    assert int(regular.sum()) == 8
    assert len(classes[regular].unique()) == 6  # there are two of degree 2, and two of degree 3


def test_a_difference_far_away_reaches_every_node_of_a_long_path() -> None:
    """Paths need as many rounds as they are long: the colour of one end depends on the feature of the other."""
    n = 40
    path = torch.eye(n).roll(1, 0)
    path[0, -1] = 0
    features = torch.zeros(2, n, 1)
    features[1, -1] = 1
    colours = node_colours(np.stack([(path + path.T).numpy()] * 2), features.numpy(), np.ones((2, n), dtype=bool))
    assert colours[0, 0] != colours[1, 0]
    assert colours[0, 0] == colours[0, -1]
    assert len(set(colours[0].tolist())) == n // 2


def test_colours_do_not_depend_on_order_padding_company_or_the_sign_of_zero() -> None:
    generator = torch.Generator().manual_seed(2)
    graphs = [random_graph(n, generator, 3) for n in (5, 8, 8, 3)]
    colours = wl_colours(*padded(graphs, 8))
    moved = []
    for adjacency, features in graphs:
        order = torch.randperm(len(adjacency), generator=generator)
        moved.append((adjacency[order][:, order], features[order]))
    assert torch.equal(wl_colours(*padded(moved, 8)), colours)
    alone = wl_colours(*padded(moved[:1], 11))
    assert torch.equal(alone[0, :5], colours[0, :5])
    assert (alone[0, 5:] == torch.iinfo(torch.int64).max).all()
    negative = [(adjacency, torch.where(features == 0, -0.0, features)) for adjacency, features in graphs]
    assert torch.equal(wl_colours(*padded(negative, 8)), colours)
    assert colours.dtype == torch.int64
    assert bool((colours.diff() >= 0).all())


def test_every_channel_counts() -> None:
    adjacency, mask = torch.zeros(3, 1, 1), torch.ones(3, 1, dtype=torch.bool)
    features = torch.tensor([[[0.0, 1.0]], [[1.0, 0.0]], [[1.0, 1.0]]])
    assert len(wl_classes(adjacency, features, mask).unique()) == 3


@pytest.mark.parametrize(
    ("adjacency", "features", "mask", "text"),
    [
        ((2, 3, 3), (2, 3, 1), (6,), "mask"),
        ((2, 3, 4), (2, 3, 1), (2, 3), "adjacency"),
        ((2, 3, 3), (2, 3), (2, 3), "features"),
        ((2, 3, 3), (2, 4, 1), (2, 3), "features"),
    ],
)
def test_bad_shapes(adjacency: tuple[int, ...], features: tuple[int, ...], mask: tuple[int, ...], text: str) -> None:
    with pytest.raises(ShapeError, match=f"Expected {text} to be"):
        wl_colours(torch.zeros(adjacency), torch.zeros(features), torch.ones(mask, dtype=torch.bool))
