"""Images turned by random angles, averaged over C(8), whose turns sample between pixels: rows from kept passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.image_classifiers import MEAN
from benchmarks.image_passes import EIGHT, turned_by_any_angle
from benchmarks.shares import accuracies
from probsym import Symmetrized, samplers

UPRIGHT = EIGHT.order
"""The place of upright images in the disc among what was kept; before it are the eight turns of a turned image."""


def any_angle_rows(
    probabilities: Tensor, energies: dict[str, Tensor], taus: Mapping[str, Sequence[float]], labels: Tensor
) -> dict[str, dict[str, Any]]:
    """Every row from probabilities (9, count, classes) and energies (9, count) by name."""
    average = answer(probabilities, torch.zeros(probabilities.shape[:2]), 1.0)
    answers = {"upright, in the disc": probabilities[UPRIGHT], "bare": probabilities[0], "average": average}
    for name, energy in energies.items():
        answers |= {f"energy: {name}, tau {tau:g}": answer(probabilities, energy, tau) for tau in taus[name]}
    return {name: accuracies(each.unsqueeze(0), average.unsqueeze(0), labels) for name, each in answers.items()}


def answer(probabilities: Tensor, energies: Tensor, tau: float) -> Tensor:
    """The average over the eight turns that `Energy` makes, (count, classes)."""
    turns = energies[:UPRIGHT]
    least = nn.functional.one_hot(turns.argmin(0), UPRIGHT).T.to(turns.dtype)
    weights = torch.softmax(-turns / tau, 0) if tau else least
    return (weights.unsqueeze(-1) * probabilities[:UPRIGHT]).sum(0)


def any_angle_errors(
    base: nn.Module, energy: nn.Module, images: Tensor, expected: dict[float | None, Tensor]
) -> dict[str, dict[str, float]]:
    """A few images through whole models: how far the answer for an image turned by an eighth is from that for itself.

    `expected` are the answers from kept passes by tau, or None for the equal average; how far they are off is told too.
    """
    moved = turned_by_any_angle(images, 0, 0) - torch.tensor(MEAN).view(3, 1, 1)
    eighth = EIGHT.act(torch.ones(len(images), dtype=torch.long), moved, (-2, -1), "grid")
    errors = {}
    for tau, kept in expected.items():
        sampler = samplers.Enumerate() if tau is None else samplers.Energy(Coloured(energy), tau)
        model = Symmetrized(Coloured(base), "c (h w) -> k", {"h w": EIGHT}, sampler).eval()
        with torch.no_grad():
            here, there = model(moved), model(eighth)
        name = "average" if tau is None else f"energy: head, tau {tau:g}"
        errors[name] = {"equivariance_error": _apart(here, there), "from_looked_up": _apart(here, kept)}
    return errors


class Coloured(nn.Module):
    """A function of images in [0, 1] as one of images around the mean colour, which is then outside the disc."""

    def __init__(self, function: nn.Module) -> None:
        super().__init__()
        self.function = function

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.function(images + torch.tensor(MEAN).view(3, 1, 1))
        return logits


def _apart(first: Tensor, second: Tensor) -> float:
    return float((first - second).abs().max())
