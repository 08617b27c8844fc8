"""PATTERN: which nodes belong to a hidden pattern, by an encoder that reads graphs like images (paper, Table 3)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from probsym.data import PackedGraphs, pattern
from probsym.data.files import Arrays, digest, kept
from probsym.data.pattern_file import published_folder
from probsym.lab.backbones import BACKBONES, VITS
from probsym.lab.examples import NO_TARGET, PackedExamples, Splits
from probsym.lab.methods import needs_ranks, symmetrized_graphs
from probsym.lab.metrics import class_averaged_accuracy
from probsym.lab.progress import shown
from probsym.lab.recipe import Recipe, Settings, Task
from probsym.ops.precision import at_least_float32
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
    also_test_samples=(1, 10),
    dropout=0.1,
    validate_every=5,  # ten draws in float32 take as long as an epoch of steps
)
METHODS = ("ga", "fa", "canonical", "ps")
CHUNK = 10
"""Draws in one call of the encoder."""


class Pattern(Task):
    """Nodes of two classes by two logits; accuracies are averages over the classes, in percent."""

    name = "pattern"
    selects = {"loss": False}  # noqa: RUF012

    def __init__(self, ranks: bool = False) -> None:
        self.ranks = ranks

    def graphs(self) -> dict[str, PackedGraphs]:
        """The graphs by part: the published ones where they are among the data, else those that are generated."""
        published = published_folder()
        self.source = "generated" if published is None else "published"
        return pattern(published=published)

    def load(self) -> Splits:
        ranks = ranks_of if self.ranks else lambda *_: None
        parts = (PackedExamples(graphs, ranks=ranks(graphs, name)) for name, graphs in self.graphs().items())
        return Splits.numbered(*parts)

    def loss(self, output: Tensor, targets: Tensor) -> Tensor:
        weights = class_weights(targets).to(at_least_float32(output.dtype))
        return cross_entropy(output.flatten(0, 1), targets.flatten(), weights, ignore_index=NO_TARGET)

    def losses(self, output: Tensor, targets: Tensor) -> Tensor:
        weights = class_weights(targets).to(output.dtype)
        each = cross_entropy(output.mT, targets, weights, ignore_index=NO_TARGET, reduction="none")
        share = torch.where(targets == NO_TARGET, 0, weights[targets.clamp_min(0)])
        return each.sum(1) / share.sum(1)

    def metrics(self, output: Tensor, targets: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        known = targets != NO_TARGET
        return {
            "loss": self.loss(output, targets),
            "accuracy": 100 * class_averaged_accuracy(output, targets, known),
            "accuracy_whole": 100 * class_averaged_accuracy(output, targets, known, batch=None),
        }


def class_weights(targets: Tensor) -> Tensor:
    """The share of the other class, (2,): a class counts the more, the rarer it is. Ones if there is but one class."""
    counts = torch.stack([(targets == label).sum() for label in (0, 1)]).float()
    shares = counts / counts.sum()
    return torch.where((shares == 1).any(), torch.ones_like(shares), 1 - shares)


def ranks_of(graphs: PackedGraphs, name: str) -> Tensor:
    """The ranks of nodes in the spectral frame, (graphs, n), highest first as a frame sorts; kept in the cache.

    They are kept under a digest of the edges, so that other graphs never get them.
    """

    def ranked() -> Arrays:
        parts = torch.arange(len(graphs)).split(100)
        padded = []
        with shown(Console(stderr=True), f"spectral frames, {name}") as show:
            for i, part in enumerate(parts):
                batch = graphs.batch(part)
                ranks = spectral_ranks(batch.edges.dense(), batch.mask)
                padded.append(torch.where(batch.mask, ranks, 0).to(torch.int16))
                show(i + 1, len(parts), "of 100 graphs each")
        return {"ranks": torch.cat(padded).numpy()}

    own = digest({"edges": graphs.edges.values.numpy(), "starts": graphs.edges.starts.numpy()})[:16]
    return -torch.from_numpy(kept(f"pattern_ranks_{own}.npz", ranked, needs=["ranks"])["ranks"]).float()


def _vit(settings: Settings, backbone: str, pretrained: bool, method: str) -> nn.Module:
    make = BACKBONES[backbone].pretrained if pretrained else BACKBONES[backbone].new
    base = make(
        f"n {FEATURES}, n n -> n 2", NODES, diagonal_inputs=True, diagonal_output=True,
        token_std=settings.token_std, padding=settings.padding,
    )  # fmt: skip
    return symmetrized_graphs(base, method, settings, "n k", channels=FEATURES, chunk=CHUNK)


def _settings(method: str) -> Settings:
    if method == "ga":  # with one draw it does not learn
        return replace(SETTINGS, samples=10, eval_samples=10)
    return replace(SETTINGS, eval_samples=10) if method == "ps" else SETTINGS


RECIPES = [
    Recipe(
        f"pattern/{backbone}-{'pretrained' if pretrained else 'scratch'}-{method}",
        partial(Pattern, ranks=needs_ranks(method)),
        partial(_vit, backbone=backbone, pretrained=pretrained, method=method),
        _settings(method),
    )
    for backbone in BACKBONES
    for pretrained in (False, True)
    for method in METHODS
    if backbone in VITS or method == "ps"
]
