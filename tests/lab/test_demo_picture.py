"""The picture of the demonstration: its pair of graphs looks alike to message passing, its bars count every graph."""

import torch
from matplotlib.figure import Figure

from probsym.data import decorated_cycles
from probsym.lab.demo_picture import draw_chances, draw_graph, largest_pair


def test_the_pair_with_most_nodes() -> None:
    mask = torch.arange(6) < torch.tensor([[3], [3], [6], [6], [4], [4]])
    assert largest_pair(mask) == (2, 3)


def test_both_graphs_of_a_pair_have_the_same_colours() -> None:
    pair = decorated_cycles(2, 16, torch.Generator().manual_seed(0))
    colours = []
    for features, adjacency, mask in zip(pair.features, pair.adjacency, pair.mask, strict=True):
        place, size = Figure().subplots(), int(mask.sum())
        draw_graph(place, features[:size], adjacency[:size, :size])
        assert len(place.lines) == int(adjacency.sum()) // 2
        (nodes,) = place.collections
        assert len(nodes.get_offsets()) == size
        colours.append(sorted(map(tuple, nodes.get_facecolors())))
    assert colours[0] == colours[1]
    assert len(set(colours[0])) > 1


def test_bars_count_every_graph_and_the_title_says_how_many_are_right() -> None:
    place = Figure().subplots()
    draw_chances(place, "Haar", torch.tensor([0.9, 0.8, 0.6, 0.1]), torch.tensor([1.0, 1.0, 0.0, 0.0]))
    assert sum(bar.get_height() for bar in place.patches) == 4
    assert place.get_title() == "Haar: 75 % right"
