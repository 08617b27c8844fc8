"""The picture that the demonstration ends with: a pair of graphs, how three models learned, and what each says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import networkx as nx
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from probsym.data.colour_refinement import node_colours
from probsym.lab.colours import COLOURS
from probsym.lab.engine import Engine

KINDS = ("two cycles", "one cycle")


def demo_picture(engines: Mapping[str, Engine], curves: Mapping[str, Sequence[float]]) -> Figure:
    """Trained models by name, and their accuracy on validation over the epochs."""
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    top, bottom = figure.subfigures(2, 1, squeeze=False, hspace=0.06)[:, 0]
    pair = top.subplots(1, 3, width_ratios=(1, 1, 1.25))
    test = next(iter(engines.values())).data.test.take(slice(None))
    assert test.mask is not None
    for place, which in zip(pair, largest_pair(test.mask), strict=False):
        size = int(test.mask[which].sum())
        draw_graph(place, test.inputs[0][which, :size], test.inputs[1][which, :size, :size])
        place.set_title(KINDS[int(test.targets[which])])
    top.suptitle("Nodes of one colour look alike to message passing, so it cannot tell these two graphs apart")
    for colour, (name, curve) in zip(COLOURS, curves.items(), strict=False):
        pair[2].plot(range(1, len(curve) + 1), curve, color=colour, label=name)
    pair[2].set(xlabel="epoch", ylabel="validation accuracy, %", ylim=(40, 102))
    pair[2].legend(loc="center right", frameon=False)
    bottom.suptitle(
        f"What the same MLP says of {test.size} unseen graphs, by how it is symmetrized (draws of their own)"
    )
    for place, (name, engine) in zip(bottom.subplots(1, len(engines), sharey=True), engines.items(), strict=True):
        draw_chances(place, name, chances(engine), test.targets)
    return figure


def largest_pair(mask: Tensor) -> tuple[int, int]:
    """The places of a pair of graphs with the most nodes; the graphs of a pair follow each other."""
    first = 2 * int(mask[::2].sum(1).argmax())
    return first, first + 1


def chances(engine: Engine) -> Tensor:
    """That each test graph is one cycle, as the model has it."""
    test = engine.data.test.take(slice(None))
    generator = torch.Generator(engine.device).manual_seed(0)
    with torch.no_grad():
        logits: Tensor = engine.model.eval()(*test.inputs, mask=test.mask, generator=generator)
    return logits.sigmoid()


def draw_chances(place: Axes, name: str, chance: Tensor, targets: Tensor) -> None:
    """How often each chance is given to graphs of either kind."""
    bins = [i / 20 for i in range(21)]
    for kind, colour in ((1, COLOURS[2]), (0, COLOURS[0])):
        place.hist(chance[targets == kind].tolist(), bins, color=colour, alpha=0.65, label=KINDS[kind])
    right = ((chance > 0.5) == (targets > 0.5)).double().mean()
    place.set(title=f"{name}: {100 * right:.0f} % right", xlabel="chance given to one cycle", xlim=(0, 1))
    place.legend(loc="upper center", frameon=False, fontsize=8)


def draw_graph(place: Axes, features: Tensor, adjacency: Tensor) -> None:
    """A graph, its parts side by side, its nodes coloured as colour refinement leaves them."""
    everything = torch.ones(1, len(features), dtype=torch.bool)
    colouring = node_colours(adjacency[None].numpy(), features[None].numpy(), everything.numpy())[0].tolist()
    numbers = {colour: i for i, colour in enumerate(sorted(set(colouring)))}
    graph, shift = nx.from_numpy_array(adjacency.numpy()), 0.0
    where: dict[int, tuple[float, float]] = {}
    for part in nx.connected_components(graph):
        inside = nx.kamada_kawai_layout(graph.subgraph(part))
        where |= {node: (x + shift, y) for node, (x, y) in inside.items()}
        shift += 2.4
    for start, end in graph.edges:
        place.plot(*zip(where[start], where[end], strict=True), color="#999999", linewidth=1.2, zorder=1)
    colours = [COLOURS[numbers[colour] % len(COLOURS)] for colour in colouring]
    x, y = zip(*(where[node] for node in graph), strict=True)
    place.scatter(x, y, c=colours, s=70, zorder=2)
    place.set_aspect("equal", "datalim")
    place.margins(0.12)
    place.set_axis_off()
