"""The last layers of a graph network: an output for every item, or for all of them together."""

import torch
from torch import Tensor, nn

from probsym.bases.activations import known_activation
from probsym.bases.arrays import Array
from probsym.errors import RangeError

POOLINGS = ("mean", "sum")


def make_head(width: int, output: Array, activation: str, output_activation: str | None = None) -> nn.Sequential:
    """Linear, activation, Linear, and an activation of the output if asked for."""
    function = known_activation(activation)
    last = [] if output_activation is None else [known_activation(output_activation, "output_activation")()]
    return nn.Sequential(nn.Linear(width, width), function(), nn.Linear(width, output.width), *last)


def read_out(head: nn.Module, hidden: Tensor, mask: Tensor | None, output: Array, pooling: str = "mean") -> Tensor:
    """The output of items (batch, n, width), which are pooled before for one of order 0."""
    values = head(hidden if output.order else pooled(hidden, mask, pooling))
    return values.squeeze(-1) if output.channels is None else values


def pooled(hidden: Tensor, mask: Tensor | None, how: str = "mean") -> Tensor:
    """The mean or sum of (batch, n, width) over n, of the real items only."""
    if mask is not None:
        hidden = torch.where(mask.unsqueeze(-1), hidden, 0)
    if how == "sum":
        return hidden.sum(1)
    return hidden.mean(1) if mask is None else hidden.sum(1) / mask.sum(1, keepdim=True).clamp_min(1)


def known_pooling(name: str) -> str:
    """The name of a pooling, refused if there is no such."""
    if name not in POOLINGS:
        raise RangeError(f"Expected pooling to be one of {', '.join(POOLINGS)} (got {name!r})")
    return name
