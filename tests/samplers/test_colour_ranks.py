"""Colours against literal colour refinement, with tuples in place of hashes."""

import pytest
import torch
from torch import Tensor

from probsym import Symmetrized, groups, samplers
from probsym.bases import EdgeList
from probsym.errors import TracingError
from probsym.samplers.colour_ranks import colour_ranks

ROOMS = [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (5, 6)]
"""A square with a tail, a pair and two nodes alone: 0 and 2 tie, 5 and 6, and 7 and 8."""


def graph(pairs: list[tuple[int, int]], n: int) -> Tensor:
    a = torch.zeros(1, n, n)
    for i, j in pairs:
        a[0, i, j] = a[0, j, i] = 1
    return a


def literal(a: Tensor, features: Tensor) -> list[int]:
    """A number for each node of one graph, equal where refinement does not tell nodes apart."""
    n = len(a)
    colours = [tuple(row) for row in features.tolist()]
    for _ in range(n):
        seen = [
            (
                colours[i],
                sorted((colours[j], a[i, j].tolist()) for j in range(n) if a[i, j].any()),
                sorted((colours[j], a[j, i].tolist()) for j in range(n) if a[j, i].any()),
            )
            for i in range(n)
        ]
        known = sorted({repr(neighbourhood) for neighbourhood in seen})
        colours = [(known.index(repr(neighbourhood)),) for neighbourhood in seen]
    return [colour[0] for colour in colours]


def classes(ranks: Tensor) -> list[frozenset[int]]:
    return sorted({frozenset((ranks == rank).nonzero().flatten().tolist()) for rank in ranks}, key=sorted)


def test_ties_are_those_of_colour_refinement() -> None:
    a = graph(ROOMS, 9)
    ranks = colour_ranks(torch.zeros(1, 9, 0), [EdgeList.from_dense(a)])[0]
    wanted = classes(torch.tensor(literal(a[0], torch.zeros(9, 0))))
    assert classes(ranks) == wanted
    assert {frozenset({0, 2}), frozenset({5, 6}), frozenset({7, 8})} <= set(wanted)
    assert ranks[3] == 0  # most edges
    assert ranks.argmax() in (7, 8)


@pytest.mark.parametrize("channels", [(), (2,)], ids=["plain", "channels"])
@pytest.mark.parametrize("directed", [True, False])
def test_ties_in_many_graphs_with_features_directions_and_values(directed: bool, channels: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(int(directed) + 2 * len(channels))
    there = torch.rand(60, 6, 6, generator=generator) < (0.12 if directed else 0.1)
    values = torch.randint(1, 3, (60, 6, 6, *channels), generator=generator).double()
    a = torch.where(there.view(60, 6, 6, *(1 for _ in channels)), values, 0)
    a = a if directed else a + a.transpose(1, 2)
    features = torch.randint(0, 2, (60, 6, 1), generator=generator).double()
    ranks = colour_ranks(features, [EdgeList.from_dense(a)])
    tied = 0
    for adjacency, x, rank in zip(a, features, ranks, strict=True):
        assert classes(rank) == classes(torch.tensor(literal(adjacency, x)))
        tied += len(classes(rank)) < 6
        order = rank.argsort()
        assert bool((x[order, 0].diff() <= 0).all())  # features come first, larger ones in front
    assert 5 < tied < 60


def test_ranks_follow_nodes_and_depend_on_nothing_else_in_the_batch() -> None:
    both = torch.cat([graph(ROOMS, 9), graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)], 9)])
    mask = torch.tensor([[True] * 9, [True] * 8 + [False]])
    edges, none = EdgeList.from_dense(both), torch.zeros(2, 9, 0)
    ranks = colour_ranks(none, [edges], mask)
    p = torch.stack([torch.randperm(9, generator=torch.Generator().manual_seed(i)) for i in range(2)])
    moved = colour_ranks(none, [edges.permuted(p)], mask.gather(1, p))
    assert torch.equal(moved, ranks.gather(1, p))
    alone = colour_ranks(torch.zeros(1, 8, 0), [EdgeList.from_dense(both[1:, :8, :8])])[0]
    assert torch.equal(alone.argsort(stable=True), ranks[1, :8].argsort(stable=True))
    assert classes(alone) == classes(ranks[1, :8])


def test_rounds_that_another_graph_needs_change_no_order() -> None:
    """A path of 30 nodes takes many rounds; small trees are done in two or three."""
    generator = torch.Generator().manual_seed(0)
    graphs = [graph([(i, int(torch.randint(i, (), generator=generator))) for i in range(1, 8)], 30) for _ in range(20)]
    graphs.append(graph([(i, i + 1) for i in range(29)], 30))
    none, batch = torch.zeros(21, 30, 0), EdgeList.from_dense(torch.cat(graphs))
    together = colour_ranks(none, [batch])
    for tree, rank in zip(graphs, together, strict=True):
        assert torch.equal(colour_ranks(none[:1], [EdgeList.from_dense(tree)])[0], rank)


def test_several_graphs_on_one_set_of_nodes_are_told_apart() -> None:
    first, second = graph([(0, 1)], 4), graph([(2, 3)], 4)
    none = torch.zeros(1, 4, 0)
    ranks = colour_ranks(none, [EdgeList.from_dense(first), EdgeList.from_dense(second)])[0]
    assert classes(ranks) == [frozenset({0, 1}), frozenset({2, 3})]


def test_an_edge_of_value_zero_is_none() -> None:
    index = torch.tensor([[0, 0], [0, 1], [1, 0]])
    ranks = colour_ranks(torch.zeros(1, 3, 0), [EdgeList(index, torch.zeros(2), 1, 3)])
    assert ranks.tolist() == [[0, 0, 0]]


def test_the_frame_lists_all_orders_of_nodes_that_tie() -> None:
    a = graph(ROOMS[:5], 5)
    model = Symmetrized(lambda a: a[:, 0], "n n -> n", {"n": groups.S()}, samplers.Frame("colours"))
    estimate = model.estimate(a)
    assert estimate.samples == 2
    first, second = estimate.elements["n"][0]
    assert torch.equal(torch.tensor([2, 1, 0, 3, 4])[first], second)
    assert bool((estimate.stderr == 0).all())
    odd = Symmetrized(lambda a: a[:, 0, 0], "n e n -> n", {"n": groups.S()}, samplers.Frame("colours"))
    assert torch.equal(odd.estimate(a.unsqueeze(2)).mean, estimate.mean)


def test_colours_cannot_be_traced() -> None:
    model = Symmetrized(lambda a: a[:, 0], "n n -> n", {"n": groups.S()}, samplers.Frame("colours", exact=False))
    with pytest.raises(TracingError, match=r"^Expected a frame of kind 'sort'"):
        torch.vmap(lambda a: model(a.unsqueeze(0), seed=0))(graph(ROOMS, 9))
