"""Arrays of pairs as links between items, dense or as a list of edges: what message passing needs of either."""

from dataclasses import replace

import torch
from torch import Tensor

from probsym.ops.edge_list import EdgeList, Input, numbers


def weights(pairs: Input, dtype: torch.dtype, *, absolute: bool = True) -> Input:
    """One number for every pair: (batch, n, n) as it is, the absolute values of (batch, n, n, c) summed over c.

    Several edges at one place count separately. Without `absolute`, signed values are summed.
    """
    pairs = pairs.to(dtype)
    if len(pairs.shape) == 3:
        return pairs
    values = numbers(pairs)
    summed = (values.abs() if absolute else values).sum(-1)
    return replace(pairs, values=summed) if isinstance(pairs, EdgeList) else summed


def among_real(links: Input, mask: Tensor | None) -> Input:
    """The links (batch, n, n) with zeros where the mask (batch, n) says that an end is padding."""
    if mask is None:
        return links
    if isinstance(links, EdgeList):
        return links.masked(mask)
    return torch.where(mask.unsqueeze(2) & mask.unsqueeze(1), links, 0)


def with_loops(links: Input) -> Input:
    """Links plus the identity: a loop of weight 1 from every item to itself."""
    if not isinstance(links, EdgeList):
        return links + torch.eye(links.shape[-1], dtype=links.dtype, device=links.device)
    item = torch.arange(links.batch, device=links.device).repeat_interleave(links.n)
    place = torch.arange(links.n, device=links.device).repeat(links.batch)
    index = torch.cat([links.index.long(), torch.stack([item, place, place])], 1)
    return replace(links, index=index, values=torch.cat([links.values, links.values.new_ones(len(item))]))


def degrees(links: Input) -> Tensor:
    """The sums of the rows of links (batch, n, n), (batch, n, 1)."""
    if isinstance(links, EdgeList):
        return links.matmul(links.values.new_ones(links.batch, links.n, 1))
    return links.sum(-1, keepdim=True)


def gathered(links: Input, hidden: Tensor) -> Tensor:
    """`A h` for links A (batch, n, n) and h (batch, n, c): what every item gets from those that it is linked to."""
    return links.matmul(hidden) if isinstance(links, EdgeList) else torch.bmm(links, hidden)
