"""Scores for a set without a graph: every item sees itself and the mean of all items."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from probsym._internal.remembers_arguments import RemembersArguments
from probsym.errors import DtypeError, ShapeError
from probsym.groups import Group
from probsym.nets.features import Features, check_alike, check_input, check_mask, misread
from probsym.ops.argument_checks import check_size
from probsym.signature import Term


class DeepSets(RemembersArguments, nn.Module):
    """Scores for S_n from a set: two layers `h_i -> relu(U h_i + V mean_j h_j + b)` and a linear head.

    `forward(*inputs, mask=None)`: `inputs` tensors (B, K, n, c_i) or (B, n, c_i), which are concatenated and have
    `in_channels` channels in total; mask booleans (B, n). Returns scores (B, K, n), zero on padding; (B, n) if no input
    has draws.

    >>> net = DeepSets(in_channels=3, inputs=2)
    >>> net(torch.rand(8, 10, 5, 2), torch.rand(8, 5, 1)).scores.shape
    torch.Size([8, 10, 5])
    """

    feature_fields = ("scores",)

    def __init__(self, in_channels: int, hidden: int = 64, *, inputs: int = 1) -> None:
        super().__init__()
        check_size(inputs, "inputs")
        check_size(in_channels, "in_channels", least=inputs)
        check_size(hidden, "hidden")
        self.perturbs = tuple(range(inputs))
        self.extra_noise = 0
        self.in_channels, self.inputs = in_channels, inputs
        self.own = nn.ModuleList([nn.Linear(in_channels, hidden), nn.Linear(hidden, hidden)])
        self.shared = nn.ModuleList([nn.Linear(in_channels, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)])
        self.head = nn.Linear(hidden, 1)

    def check_terms(self, terms: Sequence[Term], groups: Mapping[str, Group]) -> None:
        """Refuse anything but the expected number of feature inputs, 'n c'."""
        if len(terms) != self.inputs or any(len(term.names) != 2 for term in terms):
            raise misread(type(self).__name__, f"{self.inputs} inputs of features such as 'n c'", terms)

    def forward(self, *inputs: Tensor, mask: Tensor | None = None) -> Features:
        hidden = self._joined(inputs)
        check_mask(mask, hidden)
        real = None if mask is None else mask[:, None, :, None]
        if real is not None:
            hidden = torch.where(real, hidden, 0)
        for own, shared in zip(self.own, self.shared, strict=True):
            hidden = torch.relu(own(hidden) + shared(_mean(hidden, real)))
        scores = self.head(hidden).squeeze(-1)
        if mask is not None:
            scores = torch.where(mask.unsqueeze(1), scores, 0)
        return Features(scores=scores if any(x.dim() == 4 for x in inputs) else scores.squeeze(1))

    def _joined(self, inputs: tuple[Tensor, ...]) -> Tensor:
        if len(inputs) != self.inputs:
            raise ShapeError(f"Expected {self.inputs} inputs (got {len(inputs)})")
        for i, x in enumerate(inputs):
            if not isinstance(x, Tensor) or x.dim() == 0:
                raise DtypeError(f"Expected input {i} to be a tensor with axes (got {type(x).__name__})")
        tensors = [check_input(x, f"input {i}", x.shape[-1]) for i, x in enumerate(inputs)]
        for i, x in enumerate(tensors[1:], start=1):
            check_alike(x, tensors[0], f"input {i}")
        channels = sum(x.shape[-1] for x in tensors)
        if channels != self.in_channels:
            raise ShapeError(f"Expected {self.in_channels} channels in all inputs together (got {channels})")
        draws = max(x.shape[1] for x in tensors)
        return torch.cat([x.expand(-1, draws, -1, -1) for x in tensors], dim=-1)


def _mean(hidden: Tensor, real: Tensor | None) -> Tensor:
    if real is None:
        return hidden.mean(-2, keepdim=True)
    count = real.sum(-2, keepdim=True).clamp_min(1)
    return torch.where(real, hidden, 0).sum(-2, keepdim=True) / count
