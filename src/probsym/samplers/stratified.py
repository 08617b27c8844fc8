"""Elements of finite groups drawn without replacement."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from probsym.errors import GroupError
from probsym.groups import S
from probsym.groups.planar import PlanarGroup
from probsym.samplers.base import Sampler
from probsym.samplers.batch import Batch
from probsym.samplers.noise import Noise

MOST_ITEMS = 7
"""Real items whose permutations are stratified: 5040 of them."""


def stratified(
    sampler: Sampler, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0
) -> Noise:
    """Noise whose K draws have each of the N elements of S, C or D floor(K / N) or ceil(K / N) times, in random order.

    So has each finite factor of a product, and if K is the product of their orders, each combination comes once.
    Rotations, ties and completions stay independent. The draws of a moved input are distributed as those of the input,
    moved.
    """
    noise = sampler.noise(batch, draws, generator, start=start)
    groups, elements = batch.signature.groups, dict(noise.elements)
    turn = S().haar((len(batch),), size=draws, device=batch.device, generator=generator)
    period = torch.ones_like(turn[:, :1])
    for key in elements:
        group = groups[key]
        if not isinstance(group, S | PlanarGroup):
            continue
        order, most = _orders(batch, key)
        # steps through the elements, one further after each time that all pairs with those before would come again
        step = (turn + turn % (period * order) // torch.lcm(period, order)) % order
        period = period * order
        listed = torch.arange(most, device=batch.device) < order
        ranks = S().haar((len(batch),), mask=listed, generator=generator).gather(-1, step)
        elements[key] = _permutations(batch, key, ranks) if isinstance(group, S) else ranks
    return noise._replace(elements=elements)


def _orders(batch: Batch, key: str) -> tuple[Tensor, int]:
    """How many elements the group on an axis has for each batch item, (B, 1), and the most that it can have."""
    group = batch.signature.groups[key]
    if isinstance(group, PlanarGroup):
        return torch.full((len(batch), 1), group.order, device=batch.device), group.order
    size = batch.sizes[key]
    real = torch.full((len(batch),), size, device=batch.device)
    real = batch.masks[key].sum(-1) if key in batch.masks else real
    if bool((real > MOST_ITEMS).any()):
        raise GroupError(
            f"Expected at most {MOST_ITEMS} items on axis {key!r} for coupling 'stratified' (got {int(real.max())})"
        )
    orders = [math.factorial(items) for items in range(MOST_ITEMS + 1)]
    return torch.tensor(orders, device=batch.device)[real].unsqueeze(-1), orders[min(size, MOST_ITEMS)]


def _permutations(batch: Batch, key: str, ranks: Tensor) -> Tensor:
    """The permutations of the real items, (B, K, n), that ranks (B, K) number; padding last in its own order.

    The digits of a rank in the factorial number system say with which item before it each one changes places. With m
    real items all digits from the m-th on are zero, so that nothing behind them moves.
    """
    size = batch.sizes[key]
    order = torch.arange(size, device=ranks.device).expand(*ranks.shape, -1).clone()
    for item in range(1, min(size, MOST_ITEMS)):
        digit = ranks // math.factorial(item) % (item + 1)
        other, own = (item - digit).unsqueeze(-1), order[..., item, None].clone()
        order[..., item, None] = order.gather(-1, other)
        order.scatter_(-1, other, own)
    return S().compose(batch.packing(key, ranks.shape[1]).index, order) if key in batch.masks else order
