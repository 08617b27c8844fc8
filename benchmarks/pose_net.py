"""A small image net that names a pose, for samplers with a net: trained alone, by the prior, on upright images."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d

from probsym import Symmetrized, groups, nets, samplers

SIDE, WIDTHS, EPOCHS, ROWS = 56, (16, 32, 64), 6, 64
NOISE = 0.2
"""Of the learned distribution: colours run from 0 to 1."""


def thumbnails(images: Tensor) -> Tensor:
    """Images (count, channels, side, side) made small, (count, channels, 56, 56), which commutes with quarter turns."""
    return adaptive_avg_pool2d(images, SIDE)


class PoseNet(nn.Module):
    """From images (rows, 3 or more, side, side) to one number each; channels after the third are not read."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, width in zip((3, *WIDTHS), WIDTHS, strict=False):
            layers += [nn.Conv2d(before, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.3))
        self.score = nn.Linear(WIDTHS[-1] * (SIDE // 2 ** len(WIDTHS)) ** 2, 1)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.score(self.layers(thumbnails(images[:, :3]) - 0.5))
        return scores


def trained_net(images: Tensor, noise: float, seed: int = 0) -> tuple[PoseNet, float]:
    """A net that puts thumbnails (count, 3, 56, 56) upright, all of them so; and the mean loss of the last epoch."""
    torch.manual_seed(seed)
    net = PoseNet()
    model = Symmetrized(_nothing, "c (h w) -> ", {"h w": groups.C(4)}, pose_sampler(net, groups.C(4), noise, None))
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.05)
    steps = EPOCHS * (len(images) // ROWS)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    mean = 0.0
    for _ in range(EPOCHS):
        losses = []
        for rows in torch.randperm(len(images)).split(ROWS)[: len(images) // ROWS]:
            loss = model.train().estimate(images[rows]).losses["prior"]
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            losses.append(float(loss.detach()))
        mean = sum(losses) / len(losses)
    net.eval().requires_grad_(False)
    return net, mean


def pose_sampler(
    net: PoseNet, group: groups.Group, noise: float, reads: tuple[int, ...] | None
) -> samplers.Canonical | samplers.Learned:
    """The sampler in which the net names elements: `Canonical` without noise, else `Learned`."""
    lifted = nets.Lifted(net, group, axis=(-2, -1), kind="grid", rank=3)
    if noise:
        return samplers.Learned(lifted, noise=noise, tau=1.0, reads=reads, prior=True)
    return samplers.Canonical(lifted, tau=1.0, reads=reads, prior=True)


def _nothing(images: Tensor) -> Tensor:
    """A base whose output is not looked at, while the prior alone is trained."""
    return images[:, 0, 0, 0]
