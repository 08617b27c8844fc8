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
        return Splits(*(examples.take(one) for one in (splits.train, splits.validation, splits.test)))


def _mlp(settings: Settings, method: str) -> nn.Module:
    base = bases.MLP([NODES * NODES + 2 * NODES, 2048, 4096, 2048, 10, 1], shape=())
    return symmetrized_graphs(base, method, settings, "")


def _gin_id(settings: Settings, method: str) -> nn.Module:
    base = graph_network("gin-id", NODES, None, "relu")
    return symmetrized_graphs(base, method, settings, "")


def _alone(settings: Settings, kind: str) -> nn.Module:
    return graph_network(kind, NODES, None, "relu")


RECIPES = [
    *(
        Recipe(
            f"exp-classify/{base}-{method}",
            partial(ExpClassify, ranks=needs_ranks(method)),
            partial(build, method=method),
            SETTINGS,
        )
        for base, build in (("mlp", _mlp), ("gin-id", _gin_id))
        for method in GRAPH_METHODS
    ),
    *(Recipe(f"exp-classify/{kind}", ExpClassify, partial(_alone, kind=kind), SETTINGS) for kind in ("gin", "gcn")),
]
