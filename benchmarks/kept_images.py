"""Models on images that have passed already: a base that looks up what a classifier said of an image so moved.

An image is its number and a small grid, on which a group acts as on the image itself; the last channel of the grid
holds marks that show how it was moved. So `Symmetrized` runs as on the images, and no image passes twice.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from probsym import Symmetrized, groups, samplers

SIGNATURE = "i, c (h w) -> k"
BATCH = 50


def marked(grids: Tensor) -> Tensor:
    """Grids (count, channels, side, side) with marks as one channel more: the number of each place."""
    side = grids.shape[-1]
    marks = torch.arange(side * side, dtype=grids.dtype).view(1, 1, side, side)
    return torch.cat([grids, marks.expand(len(grids), -1, -1, -1)], 1)


class Kept(nn.Module):
    """Looks up values (elements, count, ...), which belong to images moved by each element of D(4).

    `forward(numbers, grids)`: numbers (rows, 1) of images, and their marked grids.
    """

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.register_buffer("values", values)

    def forward(self, numbers: Tensor, grids: Tensor) -> Tensor:
        group, side = groups.D(4), grids.shape[-1]
        every = group.elements()
        marks = marked(torch.empty(1, 0, side, side)).expand(len(every), -1, -1, -1)
        corners = _corners(group.act(every, marks, (-2, -1), "grid"))
        nearest = torch.cdist(_corners(grids[:, -1:]), corners).argmin(1)
        return self.get_buffer("values")[nearest, numbers.squeeze(1).long()]


def model_of(base: Kept, sampler: samplers.Sampler, group: groups.Group, samples: int = 1) -> Symmetrized:
    """A model that looks up what its base says."""
    return Symmetrized(base, SIGNATURE, {"h w": group}, sampler, 1 if sampler.lists_elements else samples).eval()


def answers(
    base: Kept, sampler: samplers.Sampler | None, group: groups.Group, grids: Tensor, samples: int = 1
) -> Tensor:
    """What a model says of every image in every orientation that the group has, (orientations, count, classes).

    Without a sampler it is the bare classifier. Grids are (count, channels, side, side), marked; they stand as images
    do in orientation 0.
    """
    call = base if sampler is None else model_of(base, sampler, group, samples)
    numbers, by_element = torch.arange(len(grids), dtype=grids.dtype).unsqueeze(1), []
    with torch.random.fork_rng([]), torch.no_grad():
        torch.manual_seed(0)
        for element in group.elements().tolist():
            parts = []
            for rows in torch.arange(len(grids)).split(BATCH):
                moved = group.act(torch.full((len(rows),), element), grids[rows], (-2, -1), "grid")
                parts.append(call(numbers[rows], moved))
            by_element.append(torch.cat(parts))
    return torch.stack(by_element)


def _corners(marks: Tensor) -> Tensor:
    """Three corners of marks (rows, 1, side, side), which show any element of D(4)."""
    return torch.stack([marks[:, 0, 0, 0], marks[:, 0, 0, -1], marks[:, 0, -1, 0]], 1)
