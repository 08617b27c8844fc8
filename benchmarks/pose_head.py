"""An energy for poses: a small head on a classifier's frozen features that learns which turn of an image is upright."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor, nn

WIDTHS, DECAYS, DROPOUTS = (0, 32), (0.1, 1.0), (0.0, 0.5)
"""Hidden units (none for a linear head), weight decays and shares of features left out, of which one each is chosen."""
STEPS, EVERY, ROWS = 400, 10, 64


@dataclass(frozen=True)
class Choice:
    """What a head was trained with, and how it did on images that were held out: loss, and share put upright."""

    hidden: int
    decay: float
    dropout: float
    steps: int
    loss: float
    upright: float


class PoseHead(nn.Module):
    """From features (..., width) to one energy each, (...): low for an image that stands upright."""

    def __init__(self, mean: Tensor, deviation: Tensor, hidden: int, dropout: float) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)
        inner = [nn.Linear(len(mean), hidden), nn.GELU(), nn.Dropout(dropout)] if hidden else []
        self.layers = nn.Sequential(nn.Dropout(dropout), *inner, nn.Linear(hidden or len(mean), 1))

    def forward(self, features: Tensor) -> Tensor:
        scaled = (features - self.get_buffer("mean")) / self.get_buffer("deviation")
        energies: Tensor = self.layers(scaled).squeeze(-1)
        return energies


def trained_head(features: Tensor, seed: int = 0) -> tuple[PoseHead, Choice]:
    """A head from features (turns, count, width) of images, the first turn upright.

    The loss is -log p(upright) for p = softmax(-energies) over the turns. Every fifth image is held out to choose by;
    then the head is trained on all.
    """
    held = torch.arange(features.shape[1]) % 5 == 0
    tried = []
    for hidden, decay, dropout in product(WIDTHS, DECAYS, DROPOUTS):
        _, losses = _train(features[:, ~held], hidden, decay, dropout, STEPS, seed, features[:, held])
        tried += [Choice(hidden, decay, dropout, steps, *measured) for steps, *measured in losses]
    best = min(tried, key=lambda choice: choice.loss)
    head, _ = _train(features, best.hidden, best.decay, best.dropout, best.steps, seed)
    return head, best


def _train(
    features: Tensor, hidden: int, decay: float, dropout: float, steps: int, seed: int, held: Tensor | None = None
) -> tuple[PoseHead, Sequence[tuple[int, float, float]]]:
    """A head after so many steps; every few steps its loss and share put upright on what was held out."""
    torch.manual_seed(seed)
    flat = features.flatten(0, 1)
    head = PoseHead(flat.mean(0), flat.std(0).clamp(min=1e-4), hidden, dropout)
    optimiser = torch.optim.AdamW(head.parameters(), lr=1e-3, weight_decay=decay)
    losses = []
    for step in range(1, steps + 1):
        rows = torch.randint(features.shape[1], (ROWS,))
        loss = _loss(head.train()(features[:, rows]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if held is not None and step % EVERY == 0:
            with torch.no_grad():
                energies = head.eval()(held)
            losses.append((step, float(_loss(energies)), float((energies.argmin(0) == 0).float().mean())))
    return head.eval().requires_grad_(False), losses


def _loss(energies: Tensor) -> Tensor:
    return -torch.log_softmax(-energies, 0)[0].mean()
