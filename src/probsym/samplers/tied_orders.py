"""All orders of items whose ranks may tie, for items that can stand in few enough."""

import math

import torch
from torch import Tensor

from probsym.ops.numbered_orders import numbered_orders
from probsym.ops.transforms import eagerly


@eagerly
def list_orders(
    drawn: Tensor, classes: Tensor, mask: Tensor | None, limit: int
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Every order that sorts the classes, for each batch item; the orders drawn where there are more than `limit`.

    The fewest and the most orders of an item are all that is looked at: a host waits for a GPU once.

    Args:
        drawn: (B, K, n) orders that sort the classes, padding last.
        classes: (B, n) ranks of the items at their places.
        mask: (B, n) real items, or None.
        limit: the largest number of orders to list.

    Returns:
        orders (B, K', n); weights (B, K'), zero for repetitions that fill the batch up, None if there are none; and
        which items have all their orders listed, (B,).
    """
    batch, draws, n = drawn.shape
    if batch == 0:
        return drawn, None, torch.ones(0, dtype=torch.bool, device=drawn.device)
    first, position = drawn[:, 0], torch.arange(n, device=drawn.device)
    ranks = classes.gather(-1, first)
    if mask is not None:  # padding gets ranks of its own, above all others
        ranks = torch.where(position < mask.sum(-1, keepdim=True), ranks, n + position)
    start = torch.searchsorted(ranks, ranks)
    left = torch.searchsorted(ranks, ranks, right=True) - position  # items of the same rank from here on
    every = left.double().prod(-1)
    exact = every <= limit
    counts = torch.where(exact, every, draws).long()
    least, most = torch.stack(counts.aminmax()).tolist()
    number = torch.arange(most, device=drawn.device)
    number = torch.where(number < counts.unsqueeze(1), number, 0).unsqueeze(-1)
    few = torch.where(exact.unsqueeze(1), left, 1).unsqueeze(1)
    behind = few.flip(-1).cumprod(-1).flip(-1) // few
    longest = next(m for m in range(1, n + 1) if m == n or math.factorial(m + 1) > limit)
    listed = numbered_orders(number, start.unsqueeze(1), few, behind, longest)
    orders = torch.where(
        exact.view(-1, 1, 1),
        first.unsqueeze(1).expand(listed.shape).gather(-1, listed),
        drawn.gather(1, number.clamp(max=draws - 1).expand(-1, -1, n)),
    )
    weights = (torch.arange(most, device=drawn.device) < counts.unsqueeze(1)) / counts.unsqueeze(1).double()
    return orders, None if least == most else weights, exact
