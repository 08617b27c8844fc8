"""Elements drawn without replacement: of finite groups, and of finite subgroups that rotations are spread by."""

from __future__ import annotations

import torch
from torch import Tensor

from probsym.ops import descending
from probsym.ops.random_numbers import random_numbers
from probsym.samplers.base import Sampler
from probsym.samplers.batch import Batch
from probsym.samplers.noise import Noise


def stratified(
    sampler: Sampler, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0
) -> Noise:
    """Noise whose first K draws have each of the N elements of S, C or D floor(K / N) or ceil(K / N) times, for any K.

    So has each finite factor of a product, and if K is the product of their orders, each combination comes once. In up
    to three dimensions rotations are uniform ones, one for every N draws, times the N signed permutations of the axes
    (those of a cube: 48, or 24 without reflections): a polynomial of degree up to three in their entries averages
    exactly over each N. Other rotations, ties and completions stay independent. The draws of a moved input are
    distributed as those of the input, moved.

    So it is for any group that `stratifies`: uniform elements times each element of a finite subgroup.
    """
    noise = sampler.noise(batch, draws, generator, start=start)
    groups, elements = batch.groups, dict(noise.elements)
    turn = torch.arange(draws, device=batch.device).expand(batch.count, -1)  # so the first draws are stratified too
    period = torch.ones_like(turn[:, :1])
    for key, uniform in noise.elements.items():
        group = groups[key]
        if not group.stratifies:
            continue
        size = batch.sizes.get(key)
        order, most = group.stratum_orders(batch.count, size, batch.masks.get(key), batch.device)
        # steps through the elements, one further after each time that all pairs with those before would come again
        step = (turn + turn % (period * order) // torch.lcm(period, order)) % order
        period = period * order
        ranks = _shuffled(order, most, generator).gather(-1, step)
        # all elements of a finite group come after one that stays, so that each combination with others comes once
        block = torch.zeros_like(turn) if group.finite else turn // order
        chosen = uniform.gather(1, block.view(*block.shape, *(1 for _ in uniform.shape[2:])).expand_as(uniform))
        elements[key] = group.compose(chosen, group.stratum(ranks, size, uniform.dtype))
    return noise._replace(elements=elements)


def _shuffled(order: Tensor, most: int, generator: torch.Generator | None) -> Tensor:
    """The numbers below each order (B, 1) in random order, (B, most); behind them those that are not below."""
    numbers = torch.arange(most, device=order.device).expand(order.shape[0], -1)
    keys, ties = (
        random_numbers((order.shape[0], 1, most), normal=False, device=order.device, generator=generator).squeeze(1)
        for _ in range(2)
    )
    return descending(keys, numbers < order, ties)
