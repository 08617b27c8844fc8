"""Elements drawn without replacement: of finite groups, and of finite subgroups that rotations are spread by."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from probsym.errors import GroupError
from probsym.groups import SO, E, Group, O, S
from probsym.groups.planar import PlanarGroup
from probsym.samplers.base import Sampler
from probsym.samplers.batch import Batch
from probsym.samplers.noise import Noise

MOST_ITEMS = 7
"""Real items whose permutations are stratified: 5040 of them."""
MOST_DIMENSIONS = 3
"""Of rotations that are stratified."""


def stratified(
    sampler: Sampler, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0
) -> Noise:
    """Noise whose first K draws have each of the N elements of S, C or D floor(K / N) or ceil(K / N) times, for any K.

    So has each finite factor of a product, and if K is the product of their orders, each combination comes once. In up
    to three dimensions rotations are uniform ones, one for every N draws, times the N signed permutations of the axes
    (those of a cube: 48, or 24 without reflections): a polynomial of degree up to three in their entries averages
    exactly over each N. Other rotations, ties and completions stay independent. The draws of a moved input are
    distributed as those of the input, moved.
    """
    noise = sampler.noise(batch, draws, generator, start=start)
    groups, elements = batch.signature.groups, dict(noise.elements)
    turn = torch.arange(draws, device=batch.device).expand(len(batch), -1)  # so the first draws are stratified too
    period = torch.ones_like(turn[:, :1])
    for key, uniform in noise.elements.items():
        group = groups[key]
        if not is_stratified(group):
            continue
        order, most = _orders(batch, key)
        # steps through the elements, one further after each time that all pairs with those before would come again
        step = (turn + turn % (period * order) // torch.lcm(period, order)) % order
        period = period * order
        listed = torch.arange(most, device=batch.device) < order
        ranks = S().haar((len(batch),), mask=listed, generator=generator).gather(-1, step)
        if isinstance(group, S):
            elements[key] = _permutations(batch, key, ranks)
        elif isinstance(group, PlanarGroup):
            elements[key] = ranks
        else:
            elements[key] = _rotations(group, uniform, turn // order, ranks)
    return noise._replace(elements=elements)


def is_stratified(group: Group) -> bool:
    """Whether there is something to draw without replacement."""
    return isinstance(group, S | PlanarGroup) or (isinstance(group, O | E) and group.d <= MOST_DIMENSIONS)


def signed_permutations(group: O | E) -> Tensor:
    """The elements of the group that permute the axes and change signs, as matrices (N, d, d) in float64.

    >>> len(signed_permutations(O(3))), len(signed_permutations(SO(3))), len(signed_permutations(O(2)))
    (48, 24, 8)
    """
    rows = torch.eye(group.d, dtype=torch.float64)
    orders = [rows[list(order)] for order in itertools.permutations(range(group.d))]
    signs = [torch.tensor(one, dtype=torch.float64) for one in itertools.product((1.0, -1.0), repeat=group.d)]
    found = torch.stack([order * sign for order in orders for sign in signs])
    proper = isinstance(group.rotation if isinstance(group, E) else group, SO)
    return found[torch.linalg.det(found) > 0] if proper else found


def _rotations(group: Group, uniform: Tensor, block: Tensor, ranks: Tensor) -> Tensor:
    """Of uniform elements (B, K, d, ...) those numbered by blocks (B, K), times signed permutations by their ranks."""
    assert isinstance(group, O | E)
    listed = signed_permutations(group).to(uniform)
    at = block.view(*block.shape, 1, 1).expand_as(uniform)
    chosen = uniform.gather(1, at)
    turned = chosen[..., : group.d] @ listed[ranks]
    return torch.cat([turned, chosen[..., group.d :]], -1)


def _orders(batch: Batch, key: str) -> tuple[Tensor, int]:
    """How many elements the group on an axis has for each batch item, (B, 1), and the most that it can have."""
    group = batch.signature.groups[key]
    if not isinstance(group, S):
        many = group.order if isinstance(group, PlanarGroup) else len(signed_permutations(group))  # type: ignore[arg-type]
        return torch.full((len(batch), 1), many, device=batch.device), many
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
