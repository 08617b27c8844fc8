"""What the tasks on graphs share: examples from padded graphs, and the base models of the paper."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from probsym import bases
from probsym.data import Graphs
from probsym.lab.examples import Examples
from probsym.lab.recipe import Task
from probsym.samplers import spectral_ranks


def as_examples(graphs: Graphs, *, ranks: bool = False) -> Examples:
    """Graphs as examples, with the ranks of their nodes in the spectral frame if asked: they take a while."""
    inputs: tuple[Tensor, ...] = (graphs.features, graphs.adjacency.to(graphs.features.dtype))
    if ranks:
        scores = -spectral_ranks(graphs.adjacency, graphs.mask).to(graphs.features.dtype)
        inputs = (*inputs, torch.where(graphs.mask, scores, 0))
    return Examples(inputs, graphs.mask, graphs.labels, torch.arange(len(graphs.labels)))


class Classification(Task):
    """Graphs of two classes by one logit: cross-entropy, and accuracy in percent."""

    selects = {"loss": False, "accuracy": True}  # noqa: RUF012

    def loss(self, output: Tensor, targets: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(output, targets)

    def losses(self, output: Tensor, targets: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(output, targets, reduction="none")

    def metrics(self, output: Tensor, targets: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        right = (output > 0) == (targets > 0.5)
        return {"loss": self.loss(output, targets), "accuracy": 100 * right.double().mean()}


def graph_network(kind: str, n: int, output: int | None, activation: str, *, final: str | None = None) -> nn.Module:
    """ "gin-id", "gin" or "gcn", or with "-sum" pooled by a sum, on graphs of up to n nodes, with `output` numbers."""
    arrays = f"n 2, n n -> {'' if output is None else output}"
    pooling = "sum" if kind.endswith("-sum") else "mean"
    kind = kind.removesuffix("-sum")
    if kind == "gcn":
        return bases.GCN(arrays, activation=activation, output_activation=final, pooling=pooling)
    own = kind == "gin-id"
    return bases.GINID(arrays, n, activation=activation, output_activation=final, identifiers=own, pooling=pooling)
