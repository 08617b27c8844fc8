"""EXP-classify: which graph of a pair that 1-WL cannot tell apart is satisfiable (paper, Tables 1 and 7)."""

from functools import partial

from torch import nn

from probsym import bases
from probsym.data import exp, exp_splits
from probsym.lab.examples import Splits
from probsym.lab.methods import GRAPH_METHODS, needs_ranks, symmetrized_graphs
from probsym.lab.recipe import Recipe, Settings
from probsym.lab.recipes.graphs import Classification, as_examples, graph_network

NODES = 64
SETTINGS = Settings(
    epochs=2000,
    batch_size=100,
    learning_rate=1e-3,
    warmup_epochs=200,
    clip=0.1,
    samples=10,
    eval_samples=10,
    test_repeats=5,
)


class ExpClassify(Classification):
    """The real EXP graphs, 800 to learn from, 200 to choose by, 200 to test."""

    name = "exp-classify"

    def __init__(self, ranks: bool = False) -> None:
        self.ranks = ranks

    def load(self) -> Splits:
        examples, splits = as_examples(exp(), ranks=self.ranks), exp_splits()
        return Splits(*(examples.take(indices) for indices in (splits.train, splits.validation, splits.test)))


def _model(settings: Settings, kind: str, method: str | None) -> nn.Module:
    """An MLP or a graph network, by itself if no method is named."""
    if kind == "mlp":
        base: nn.Module = bases.MLP([NODES * NODES + 2 * NODES, 2048, 4096, 2048, 10, 1], shape=())
    else:
        base = graph_network(kind, NODES, None, "relu")
    return base if method is None else symmetrized_graphs(base, method, settings, "")


RECIPES = [
    Recipe(
        f"exp-classify/{kind}-{method}" if method else f"exp-classify/{kind}",
        partial(ExpClassify, ranks=needs_ranks(method)),
        partial(_model, kind=kind, method=method),
        SETTINGS,
    )
    for kind, methods in (("mlp", GRAPH_METHODS), ("gin-id", GRAPH_METHODS), ("gin", (None,)), ("gcn", (None,)))
    for method in methods
]
