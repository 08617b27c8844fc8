"""PATTERN: which nodes belong to a hidden pattern, by an encoder that reads graphs like images (paper, Table 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from probsym.data import PackedGraphs, pattern
from probsym.data.files import kept
from probsym.lab.backbones import BACKBONES
from probsym.lab.examples import NO_TARGET, PackedExamples, Splits
from probsym.lab.methods import symmetrized_graphs
from probsym.lab.metrics import batched_class_accuracy, class_accuracy
from probsym.lab.progress import shown
from probsym.lab.recipe import Recipe, Settings, Task
from probsym.samplers import spectral_ranks

NODES, FEATURES = 188, 3
SETTINGS = Settings(
    epochs=321,  # of 78 steps: 25,000
    batch_size=128,
    learning_rate=1e-5,
    weight_decay=0.01,
    decoupled=True,
    warmup_epochs=64.1,
    decay=True,
    samples=1,
    eval_samples=1,
    test_samples=10,
    also_test_samples=(1,),
    dropout=0.1,
)
METHODS = ("ga", "fa", "canonical", "ps")


class Pattern(Task):
    """Nodes of two classes by two logits; accuracies are averages over the classes, in percent."""

    name = "pattern"
    selects = {"loss": False}  # noqa: RUF012

    def __init__(self, ranks: bool = False) -> None:
        self.ranks = ranks

    def graphs(self) -> dict[str, PackedGraphs]:
        """The graphs by part."""
        return pattern()

    def load(self) -> Splits:
        first, parts = 0, []
        for name, graphs in self.graphs().items():
            ranks = torch.from_numpy(kept(f"pattern_{name}_ranks.npz", partial(_ranked, graphs))["ranks"])
            parts.append(PackedExamples(graphs, first, -ranks.float() if self.ranks else None))
            first += len(graphs)
        return Splits(*parts)

    def loss(self, output: Tensor, targets: Tensor) -> Tensor:
        weights = class_weights(targets)
        return cross_entropy(output.flatten(0, 1), targets.flatten(), weights, ignore_index=NO_TARGET)

    def losses(self, output: Tensor, targets: Tensor) -> Tensor:
        weights = class_weights(targets).to(output.dtype)
        each = cross_entropy(output.mT, targets, weights, ignore_index=NO_TARGET, reduction="none")
        share = torch.where(targets == NO_TARGET, 0, weights[targets.clamp_min(0)])
        return each.sum(1) / share.sum(1)

    def metrics(self, output: Tensor, targets: Tensor) -> dict[str, Tensor]:
        classes = output.argmax(-1)
        return {
            "loss": self.loss(output, targets),
            "accuracy": batched_class_accuracy(classes, targets, 128),
            "accuracy_whole": class_accuracy(classes, targets),
        }


def class_weights(targets: Tensor) -> Tensor:
    """The share of the other class, (2,): a class counts the more, the rarer it is; all the same if there is but one."""
    counts = torch.stack([(targets == one).sum() for one in (0, 1)]).float()
    shares = counts / counts.sum()
    return torch.where((shares == 1).any(), torch.ones_like(shares), 1 - shares)
