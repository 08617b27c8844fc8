"""Ranks of numbers with rounding errors: close numbers count as equal."""

import torch
from torch import Tensor

from probsym.ops.transforms import needs_gradient

CLOSE = {torch.float32: 1e-5, torch.float64: 1e-10}
"""Scores that differ by less, relative to the largest, are ties where a tie cannot be noise."""


def ranks(values: Tensor, tolerance: Tensor | float = 0.0) -> Tensor:
    """Ranks 0, 1, ... of values (*batch, n), largest first; neighbours within the tolerance share one.

    >>> ranks(torch.tensor([1.0, 3.0, 2.9999, 2.0]), 0.01)
    tensor([2, 0, 0, 1])
    """
    ordered, index = values.sort(-1, descending=True)
    apart = ordered[..., :-1] - ordered[..., 1:] > tolerance
    first = torch.zeros_like(index[..., :1], dtype=torch.bool)
    return index.scatter(-1, index, torch.cat([first, apart], -1).long().cumsum(-1))


def lexicographic_ranks(keys: Tensor, tolerance: Tensor | float = 0.0, mask: Tensor | None = None) -> Tensor:
    """Ranks (*batch, n) of the rows of keys (*batch, n, m), first column first; padding, if masked, ranks anyhow.

    >>> lexicographic_ranks(torch.tensor([[1.0, 0.0], [2.0, 5.0], [2.0, 7.0], [1.0, 0.0]]))
    tensor([2, 1, 0, 2])
    """
    n = keys.shape[-2]
    rank = torch.zeros(keys.shape[:-1], dtype=torch.long, device=keys.device)
    if mask is not None:  # out of the way, so that padding joins no two runs
        keys = torch.where(mask.unsqueeze(-1), keys, torch.inf)
    for column in keys.unbind(-1):
        rank = ranks(-(rank * n + ranks(column, tolerance)))
    return rank


def merged_ties(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Scores with the same value for those that only rounding keeps apart; the gradient is that of the scores.

    Rounding is measured by the largest finite score, since small ones may be differences of large numbers.

    >>> merged_ties(torch.tensor([1.0, 3.0, 3.0 - 1e-6])).tolist()
    [1.0, 3.0, 3.0]
    """
    values = scores.detach() if mask is None else torch.where(mask, scores.detach(), -torch.inf)
    size = torch.where(values.isfinite(), values, 0).abs()
    classes = ranks(values, CLOSE[scores.dtype] * size.amax(-1, keepdim=True))
    merged = torch.full_like(values, -torch.inf).scatter_reduce_(-1, classes, values, "amax").gather(-1, classes)
    merged = merged if mask is None else torch.where(mask, merged, scores.detach())
    if not needs_gradient(scores):
        return merged
    return torch.where(scores.isfinite(), merged + (scores - scores.detach()), merged)
