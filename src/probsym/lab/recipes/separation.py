"""GRAPH8c and EXP: which graphs are told apart at random initialisation (paper, Tables 1 and 7)."""

from functools import partial

import torch
from torch import Tensor, nn

from probsym import bases
from probsym.data import exp, graph8c, wl_classes
from probsym.lab.examples import Examples
from probsym.lab.methods import GRAPH_METHODS, needs_ranks, symmetrized_graphs
from probsym.lab.recipe import Settings
from probsym.lab.recipes.graphs import as_examples, graph_network
from probsym.lab.seeds import derived
from probsym.lab.separation import SeparationRecipe

SETTINGS = Settings(epochs=0, samples=10, eval_samples=10)
RANDOM_PAIRS = 10_000
NODES = {"exp": 64, "graph8c": 8}
WIDTHS = {"exp": [64 * 64 + 2 * 64, 2048, 4096, 2048, 10], "graph8c": [8 * 8 + 2 * 8, 64, 128, 10]}


def _load(task: str, ranks: bool) -> Examples:
    return as_examples(exp() if task == "exp" else graph8c(), ranks=ranks)


def _neighbours(examples: Examples) -> Tensor:
    """Graphs 2i and 2i + 1."""
    return torch.arange(examples.size).view(-1, 2)


def _exp_calibrated(examples: Examples) -> dict[str, Tensor]:
    return {"all": _neighbours(examples)}


def _graph8c_calibrated(examples: Examples) -> dict[str, Tensor]:
    """All pairs that 1-WL cannot tell apart, and the same random ones every time."""
    features, adjacency = (tensor.cpu() for tensor in examples.inputs[:2])
    mask = torch.ones(features.shape[:2], dtype=torch.bool) if examples.mask is None else examples.mask.cpu()
    classes = wl_classes(adjacency, features, mask)
    alike = [
        torch.combinations((classes == shared).nonzero().flatten())
        for shared in (classes.bincount() > 1).nonzero().flatten()
    ]
    generator = torch.Generator().manual_seed(derived(0, "pairs"))
    drawn = torch.randint(examples.size, (2 * RANDOM_PAIRS, 2), generator=generator)
    drawn = drawn[drawn[:, 0] != drawn[:, 1]][:RANDOM_PAIRS]
    return {"wl": torch.cat(alike) if alike else torch.zeros(0, 2, dtype=torch.long), "random": drawn}


def _model(settings: Settings, task: str, kind: str, method: str | None) -> nn.Module:
    """An MLP or a graph network, by itself if no method is named."""
    if kind == "mlp":
        base: nn.Module = bases.MLP(WIDTHS[task], activation="tanh", output_activation="tanh")
    else:
        base = graph_network(kind, NODES[task], 10, "tanh", final="tanh")
    return base if method is None else symmetrized_graphs(base, method, settings, "k")


BASES = {"mlp": GRAPH_METHODS, "gin-id": GRAPH_METHODS, **dict.fromkeys(("gin", "gcn", "gin-sum", "gcn-sum"), (None,))}
"""And by which methods each is symmetrized, or by none."""
RECIPES = [
    SeparationRecipe(
        f"{task}/{kind}-{method}" if method else f"{task}/{kind}",
        partial(_load, task, ranks=needs_ranks(method)),
        pairs,
        calibrated,
        partial(_model, task=task, kind=kind, method=method),
        SETTINGS,
    )
    for task, pairs, calibrated in (
        ("graph8c", lambda _: None, _graph8c_calibrated),
        ("exp", _neighbours, _exp_calibrated),
    )
    for kind, methods in BASES.items()
    for method in methods
]
