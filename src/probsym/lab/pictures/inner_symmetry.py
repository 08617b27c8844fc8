"""Graphs with symmetries of their own, their nodes coloured by orbit and by embedding (paper, Figures 9 to 11)."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import networkx as nx
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probsym.lab.analyses import questions_for
from probsym.lab.analyses.analysis import Row
from probsym.lab.analyses.inner_symmetry import GRAPHS, by_graph
from probsym.lab.colours import COLOURS

METHODS = {"ps": "probabilistic symmetrization", "canonical": "canonicalization"}


def inner_symmetry(device: torch.device, seed: int = 0, samples: int | None = None) -> Figure:
    """A row a graph: the orbits of its automorphisms, the embeddings by PS, and those by canonicalization.

    The embeddings are those of the analysis, of its first untrained network; both panels share their colours. Below
    stands the spread inside orbits, mean over networks.
    """
    rows = by_graph(device, questions_for("inner_symmetry", seed=seed, samples=samples), lambda *_: None)
    figure = Figure(figsize=(10.5, 3.7 * len(GRAPHS)))
    figure.subplots_adjust(hspace=0.35)
    places = figure.subplots(len(GRAPHS), 1 + len(METHODS), squeeze=False)
    for line, (name, graph_rows) in zip(places, groupby(rows, lambda row: row["graph"]), strict=True):
        by_method = {method: list(nodes) for method, nodes in groupby(graph_rows, lambda row: row["method"])}
        first = next(iter(by_method.values()))
        values = [row["embedding"] for nodes in by_method.values() for row in nodes]
        draw(line[0], name, [COLOURS[row["orbit"]] for row in first])
        line[0].set_title(f"orbits of ${name.replace('x', chr(92) + 'times')}$", fontsize=10)
        for place, (method, title) in zip(line[1:], METHODS.items(), strict=True):
            draw(place, name, [row["embedding"] for row in by_method[method]], (min(values), max(values)))
            place.set_title(title, fontsize=10)
            place.text(
                0.5, -0.03, told(by_method[method][0]), fontsize=8, ha="center", va="top", transform=place.transAxes
            )
    return figure


def draw(place: Axes, name: str, colours: list[float] | list[str], limits: tuple[float, float] | None = None) -> None:
    """One graph with its nodes in these colours, or in those of numbers between the limits."""
    graph = nx.Graph(list(GRAPHS[name]))
    where = nx.kamada_kawai_layout(graph)
    x, y = zip(*(where[node] for node in range(len(where))), strict=True)
    for start, end in GRAPHS[name]:
        place.plot([x[start], x[end]], [y[start], y[end]], color="#999999", linewidth=1.2, zorder=1)
    scale: dict[str, Any] = {} if limits is None else {"vmin": limits[0], "vmax": limits[1], "cmap": "viridis"}
    place.scatter(x, y, s=260, c=colours, edgecolors="#222222", zorder=2, **scale)
    place.set_aspect("equal")
    place.margins(0.15)
    place.set_axis_off()


def told(row: Row) -> str:
    """What the spread is, with its standard error over networks, and what the draws alone would make it."""
    error = "" if row["spread_stderr"] is None else f" ± {row['spread_stderr']:.1g} ({row['networks']} networks)"
    alone = "" if row["from_draws"] is None else f"\n{row['draws']:,} draws alone would make it {row['from_draws']:.2g}"
    return f"spread inside orbits {row['spread']:.2g}{error}{alone}"
