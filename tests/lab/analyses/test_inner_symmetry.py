"""Graphs with inner symmetries: their groups, counted, and the spread inside orbits."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from probsym.lab.analyses import inner_symmetry
from probsym.lab.analyses.analysis import Questions
from probsym.lab.analyses.inner_symmetry import (
    GRAPHS,
    adjacency_of,
    automorphisms,
    by_graph,
    inside,
    orbits_of,
    values_of,
)
from tests.lab.analyses.test_analyses import quiet


def by_hand(edges: tuple[tuple[int, int], ...]) -> set[tuple[int, ...]]:
    """The permutations of nodes that keep the set of edges."""
    wanted = {frozenset(edge) for edge in edges}
    n = 1 + max(itertools.chain(*edges))
    return {
        order
        for order in itertools.permutations(range(n))
        if {frozenset(order[node] for node in edge) for edge in wanted} == wanted
    }


def orders_of_elements(group: set[tuple[int, ...]]) -> dict[int, int]:
    """How many elements there are of each order."""
    counts: dict[int, int] = {}
    for element in group:
        power, count = element, 1
        while power != tuple(range(len(element))):
            power, count = tuple(element[place] for place in power), count + 1
        counts[count] = counts.get(count, 0) + 1
    return counts


@pytest.mark.parametrize("name", GRAPHS)
def test_automorphisms_are_those_found_by_hand(name: str) -> None:
    group = automorphisms(adjacency_of(GRAPHS[name]))
    assert {tuple(element) for element in group.tolist()} == by_hand(GRAPHS[name])
    assert len(group) == len(by_hand(GRAPHS[name]))


def test_the_groups_are_those_of_the_paper() -> None:
    groups = {name: by_hand(edges) for name, edges in GRAPHS.items()}
    assert len(groups["S_6"]) == math.factorial(6)  # all orders of the six leaves, which are a symmetric group
    assert all(element[0] == 0 for element in groups["S_6"])
    leaves = {(element[1:4], element[5:]) for element in groups["S_3 x S_2"]}
    assert leaves == set(itertools.product(itertools.permutations((1, 2, 3)), itertools.permutations((5, 6))))
    assert len(groups["S_3 x S_2"]) == 12
    assert all((element[0], element[4]) == (0, 4) for element in groups["S_3 x S_2"])
    assert orders_of_elements(groups["D_4"]) == {1: 1, 2: 5, 4: 2}  # of the five groups of eight, only D_4's


def test_orbits() -> None:
    orbits = {name: orbits_of(adjacency_of(edges)).tolist() for name, edges in GRAPHS.items()}
    assert orbits == {"S_6": [0, 1, 1, 1, 1, 1, 1], "S_3 x S_2": [0, 1, 1, 1, 2, 3, 3], "D_4": [0, 0, 0, 0]}


def test_deviations_inside_orbits() -> None:
    orbits = torch.tensor([0, 1, 1])
    values = torch.tensor([[5.0, 1.0, 3.0], [7.0, 2.0, 8.0]])
    spread, error = inside(values, orbits)
    # means 1.5 and 5.5 about 3.5; draws deviate by 1 and 3 from the mean of their orbit
    assert spread.item() == pytest.approx(math.sqrt((4 + 4) / 3))
    assert error.item() == pytest.approx(math.sqrt((2 + 2) / 3 / 2))
    alike = torch.tensor([[5.0, 1.0, 1.0], [7.0, 2.0, 2.0]])
    assert inside(alike, orbits)[0].item() == 0


def test_ps_embeds_automorphic_nodes_alike_and_canonicalization_does_not() -> None:
    by_draws = {}
    for draws in (100, 2500):
        rows = by_graph(torch.device("cpu"), Questions(samples=draws, repeats=4), quiet)
        assert len(rows) == 2 * (7 + 7 + 4)
        by_draws[draws] = {(row["graph"], row["method"]): row for row in rows}
    for name in GRAPHS:
        few, many, canonical = by_draws[100][name, "ps"], by_draws[2500][name, "ps"], by_draws[2500][name, "canonical"]
        assert many["spread"] == pytest.approx(few["spread"] / 5, rel=0.5)
        for row in (few, many):
            assert row["spread"] == pytest.approx(row["from_draws"], rel=0.5)
        assert canonical["spread"] > 20 * many["spread"]
        assert (canonical["draws"], canonical["from_draws"], canonical["networks"]) == (1, None, 4)


def test_spreads_are_shares_of_the_deviation_in_a_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, scales = list[list[float]](), {}
    usual = inner_symmetry.values_of
    for factor in (1.0, 100.0):
        scales[factor] = list[tuple[float, float]]()

        def larger(*arguments: Any, factor: float = factor) -> tuple[Tensor, Tensor]:
            ps, canonical = (factor * values for values in usual(*arguments))
            over_nodes = sum(float((draw - draw.mean()).square().mean()) for draw in ps) / len(ps)
            scales[factor].append((math.sqrt(over_nodes), float(canonical[0].std(correction=0))))
            return ps, canonical

        monkeypatch.setattr(inner_symmetry, "values_of", larger)
        rows = by_graph(torch.device("cpu"), Questions(samples=30, repeats=3), quiet)
        seen.append([row[name] for row in rows for name in ("spread", "spread_stderr")])
    assert seen[0] == pytest.approx(seen[1], rel=1e-5)
    # all nodes of a cycle are in one orbit: under canonicalization, the deviation inside it is that over all nodes
    shares = torch.tensor([own / scale for scale, own in scales[1.0][-3:]], dtype=torch.float64)
    row = rows[-1]
    assert (row["graph"], row["method"]) == ("D_4", "canonical")
    assert row["spread"] == pytest.approx(float(shares.mean()))
    assert row["spread_stderr"] == pytest.approx(float(shares.std()) / math.sqrt(3))


def test_one_network_has_no_standard_error() -> None:
    rows = by_graph(torch.device("cpu"), Questions(samples=10, repeats=1), quiet)
    assert {row["spread_stderr"] for row in rows} == {None}


def test_embeddings_are_those_of_the_first_network() -> None:
    questions = Questions(samples=50, repeats=1)
    single = by_graph(torch.device("cpu"), questions, quiet)
    more = by_graph(torch.device("cpu"), Questions(samples=50, repeats=2), quiet)
    assert [row["embedding"] for row in single] == [row["embedding"] for row in more]
    assert [row["spread"] for row in single] != [row["spread"] for row in more]
    nodes = [row for row in single if row["graph"] == "S_6" and row["method"] == "ps"]
    assert [row["node"] for row in nodes] == list(range(7))
    apart = torch.tensor([row["embedding"] for row in nodes[1:]])
    assert apart.std() > 0


def test_canonicalization_is_one_draw_of_the_same_network() -> None:
    adjacency: Tensor = adjacency_of(GRAPHS["D_4"])
    before = torch.get_rng_state()
    ps, canonical = values_of(adjacency, 3000, seed=4)
    assert torch.equal(torch.get_rng_state(), before)
    assert (ps.shape, canonical.shape) == ((3000, 4), (1, 4))
    # on a cycle, where all orders are alike, it is one of the embeddings that draws have
    assert (ps - canonical).abs().amax(1).min() < 1e-6


def test_ps_draws_more_than_automorphisms() -> None:
    ps, _ = values_of(adjacency_of(GRAPHS["S_3 x S_2"]), 500, seed=0)
    assert len(ps.round(decimals=6).unique(dim=0)) > 12
