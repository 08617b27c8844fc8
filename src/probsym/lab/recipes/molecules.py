"""Molecules of the long-range graph benchmark, by an encoder that reads them like images (paper, Table 4)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, l1_loss

from probsym.data import PackedGraphs, pcqm_contact, peptides_func, peptides_struct
from probsym.lab.backbones import BACKBONES, VITS
from probsym.lab.contacts import contact_metrics
from probsym.lab.examples import NO_TARGET, PackedExamples, Splits
from probsym.lab.methods import symmetrized_graphs
from probsym.lab.metrics import average_precision, mean_absolute_error
from probsym.lab.recipe import Recipe, Settings, Task

PEPTIDES = Settings(
    epochs=596,  # of 84 steps: 50,000
    batch_size=128,
    learning_rate=1e-5,
    weight_decay=0.1,
    decoupled=True,
    warmup_epochs=59.5,
    decay=True,
    samples=1,
    eval_samples=10,
    test_samples=100,
    dropout=0.1,
    padding="reflect",
)
STRUCT = replace(PEPTIDES, padding="circular")
PCQM = replace(
    PEPTIDES,
    epochs=14,  # of 3,722 steps: the first whole number beyond 50,000
    warmup_epochs=1.34,
    learning_rate=5e-5,
    weight_decay=0.01,
    samples=10,
    test_samples=10,
    dropout=0.0,
    padding="zeros",
)
CHUNK = 1
"""Draws in one call of the encoder."""


class Molecules(Task):
    """What the tasks share: graphs by part."""

    @abstractmethod
    def graphs(self) -> dict[str, PackedGraphs]:
        """The molecules by part."""

    def load(self) -> Splits:
        return Splits.numbered(*map(PackedExamples, self.graphs().values()))

    def loss(self, output: Tensor, targets: Tensor) -> Tensor:
        return self.losses(output, targets).mean()


class PeptidesFunc(Molecules):
    """Which of ten functions a peptide has."""

    name = "peptides-func"
    selects = {"ap": True}  # noqa: RUF012

    def graphs(self) -> dict[str, PackedGraphs]:
        return peptides_func()

    def losses(self, output: Tensor, targets: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(output, targets, reduction="none").mean(-1)

    def metrics(self, output: Tensor, targets: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        return {"loss": self.loss(output, targets), "ap": average_precision(output, targets)}


class PeptidesStruct(Molecules):
    """Eleven properties of a peptide's shape."""

    name = "peptides-struct"
    selects = {"mae": False}  # noqa: RUF012

    def graphs(self) -> dict[str, PackedGraphs]:
        return peptides_struct()

    def losses(self, output: Tensor, targets: Tensor) -> Tensor:
        return l1_loss(output, targets, reduction="none").mean(-1)

    def metrics(self, output: Tensor, targets: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        return {"loss": self.loss(output, targets), "mae": mean_absolute_error(output, targets)}


class PCQMContact(Molecules):
    """Which atoms are near each other in space though not in the graph."""

    name = "pcqm-contact"
    selects = {"loss": False}  # noqa: RUF012

    def graphs(self) -> dict[str, PackedGraphs]:
        return pcqm_contact()

    def loss(self, output: Tensor, targets: Tensor) -> Tensor:
        """Over the pairs that are labelled, whichever molecule they are of; zero if none is."""
        total, count = self._summed(output, targets)
        return total.sum() / count.sum().clamp_min(1)

    def losses(self, output: Tensor, targets: Tensor) -> Tensor:
        total, count = self._summed(output, targets)
        return total / count.clamp_min(1)

    def metrics(self, output: Tensor, targets: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        assert mask is not None
        return {"loss": self.loss(output, targets), **contact_metrics(output, targets == 1, mask)}

    @staticmethod
    def _summed(output: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        known = targets != NO_TARGET
        labels = torch.where(known, targets, 0).to(output.dtype)
        each = binary_cross_entropy_with_logits(output, labels, reduction="none")
        return torch.where(known, each, 0).sum((1, 2)), known.sum((1, 2))


def _vit(
    settings: Settings,
    backbone: str,
    pretrained: bool,
    sizes: tuple[int, int, int],
    output: str,
    patch_dropout: float | tuple[float, float] = 0.0,
) -> nn.Module:
    n, atoms, bonds = sizes
    make = BACKBONES[backbone].pretrained if pretrained else BACKBONES[backbone].new
    term = "k" if output.isdigit() else output
    base = make(
        f"n {atoms}, n n, n n {bonds} -> {output}", n, patch_dropout=patch_dropout,
        eval_patch_dropout=settings.eval_patch_dropout, token_std=settings.token_std, padding=settings.padding,
    )  # fmt: skip
    return symmetrized_graphs(base, "ps", settings, term, channels=atoms, edges=True, chunk=CHUNK)


def _recipes(task: Callable[[], Task], name: str, settings: Settings, **arrays: Any) -> list[Recipe]:
    return [
        Recipe(
            f"{name}/{backbone}-{'pretrained' if pretrained else 'scratch'}-ps",
            task,
            partial(_vit, backbone=backbone, pretrained=pretrained, **arrays),
            settings,
        )
        for backbone in VITS
        for pretrained in (False, True)
    ]


RECIPES = [
    *_recipes(PeptidesFunc, "peptides-func", PEPTIDES, sizes=(444, 50, 7), output="10", patch_dropout=0.5),
    *_recipes(PeptidesStruct, "peptides-struct", STRUCT, sizes=(444, 50, 7), output="11", patch_dropout=(0.0, 0.5)),
    *_recipes(PCQMContact, "pcqm-contact", PCQM, sizes=(53, 68, 6), output="n n"),
]
