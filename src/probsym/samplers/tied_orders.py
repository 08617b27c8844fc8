"""All orders of items whose ranks may tie, for items that can stand in few enough."""

import math
from itertools import chain, groupby, permutations, product

import torch
from torch import Tensor


def list_orders(
    drawn: Tensor, classes: Tensor, mask: Tensor | None, limit: int
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Every order that sorts the classes, for each batch item; the orders drawn where there are more than `limit`.

    Args:
        drawn: (B, K, n) orders that sort the classes, padding last.
        classes: (B, n) ranks of the items at their places.
        mask: (B, n) real items, or None.
        limit: the largest number of orders to list.

    Returns:
        orders (B, K', n); weights (B, K'), zero for repetitions that fill the batch up, None if there are none; and
        which items have all their orders listed, (B,).
    """
    found: list[Tensor] = []
    exact: list[bool] = []
    for b, ranks in enumerate(classes.tolist()):
        real = len(ranks) if mask is None else int(mask[b].sum())
        order = drawn[b, 0].tolist()
        runs = [tuple(run) for _, run in groupby(order[:real], key=ranks.__getitem__)]
        exact.append(math.prod(math.factorial(len(run)) for run in runs) <= limit)
        if not exact[-1]:
            found.append(drawn[b])
            continue
        listed = [[*chain(*choice), *order[real:]] for choice in product(*map(permutations, runs))]
        found.append(torch.tensor(listed, device=drawn.device))
    counts = torch.tensor([len(one) for one in found], device=drawn.device)
    most = max((len(one) for one in found), default=1)
    if not found:
        return drawn, None, torch.ones(0, dtype=torch.bool, device=drawn.device)
    orders = torch.stack([torch.cat([one, one[:1].expand(most - len(one), -1)]) for one in found])
    weights = (torch.arange(most, device=drawn.device) < counts.unsqueeze(1)) / counts.unsqueeze(1).double()
    return orders, None if bool((counts == most).all()) else weights, torch.tensor(exact, device=drawn.device)
