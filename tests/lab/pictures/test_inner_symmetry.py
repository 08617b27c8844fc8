"""Graphs with coloured nodes: the colours are those of orbits and of embeddings."""

import numpy as np
import pytest
import torch

from probsym.lab.analyses import questions_for
from probsym.lab.analyses.inner_symmetry import GRAPHS, by_graph
from probsym.lab.pictures.inner_symmetry import inner_symmetry, told


def test_nodes_have_the_colours_of_their_orbits_and_embeddings() -> None:
    cpu = torch.device("cpu")
    figure = inner_symmetry(cpu, seed=1, samples=50)
    rows = by_graph(cpu, questions_for("inner_symmetry", seed=1, samples=50), lambda *_: None)
    assert len(figure.axes) == 3 * len(GRAPHS)
    for i, (name, edges) in enumerate(GRAPHS.items()):
        orbits, *methods = figure.axes[3 * i : 3 * i + 3]
        here = [row for row in rows if row["graph"] == name]
        colours = [tuple(colour) for colour in orbits.collections[0].get_facecolors()]
        numbers = [row["orbit"] for row in here if row["method"] == "ps"]
        assert len(set(zip(colours, numbers, strict=True))) == len(set(colours)) == len(set(numbers))
        limits = set()
        for place, method in zip(methods, ("ps", "canonical"), strict=True):
            own = [row for row in here if row["method"] == method]
            drawn = place.collections[0]
            assert np.allclose(drawn.get_array(), [row["embedding"] for row in own])
            limits.add(drawn.get_clim())
            assert place.texts[0].get_text() == told(own[0])
            assert len(place.lines) == len(edges)
        (limit,) = limits
        assert limit == pytest.approx((min(row["embedding"] for row in here), max(row["embedding"] for row in here)))


def test_the_spread_is_told_with_what_draws_would_make_it() -> None:
    row = {"spread": 0.0123, "spread_stderr": 0.0012, "from_draws": 0.011, "draws": 5000, "networks": 20}
    spread = "spread inside orbits 0.012 ± 0.001 (20 networks)"
    assert told(row) == f"{spread}\n5,000 draws alone would make it 0.011"
    assert told({**row, "from_draws": None}) == spread
    assert told({**row, "from_draws": None, "spread_stderr": None}) == "spread inside orbits 0.012"
