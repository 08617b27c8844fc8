"""A set of examples as tensors that live on the device, so that a batch is one indexing."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Examples(NamedTuple):
    """Padded inputs, their mask, targets, and the number of each example."""

    inputs: tuple[Tensor, ...]
    mask: Tensor | None
    targets: Tensor
    ids: Tensor

    def take(self, index: Tensor | slice) -> Examples:
        """Some of them."""
        mask = None if self.mask is None else self.mask[index]
        return Examples(tuple(x[index] for x in self.inputs), mask, self.targets[index], self.ids[index])

    def to(self, device: torch.device) -> Examples:
        """All of them on another device."""
        mask = None if self.mask is None else self.mask.to(device)
        return Examples(tuple(x.to(device) for x in self.inputs), mask, self.targets.to(device), self.ids.to(device))

    def double(self) -> Examples:
        """All of them with inputs in float64."""
        return self._replace(inputs=tuple(x.double() if x.is_floating_point() else x for x in self.inputs))

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.ids)


class Splits(NamedTuple):
    """What to learn from, what to choose by, and what to report."""

    train: Examples
    valid: Examples
    test: Examples

    def to(self, device: torch.device) -> Splits:
        """All three on another device."""
        return Splits(*(part.to(device) for part in self))
