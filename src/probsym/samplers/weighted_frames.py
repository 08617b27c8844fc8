"""Frames whose elements come and go with a weight, so that a continuous model stays continuous."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import torch
from torch import Tensor

from probsym.errors import GroupError
from probsym.ops import descending, gram_schmidt
from probsym.ops.ranks import lexicographic_ranks


def weighted_axes(points: Tensor, noise: Tensor, close: Tensor, *, reflects: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Axes that single points, or in space pairs of points, point along.

    In the plane the first axis goes through a point p_i, with weight |p_i|^2. In space the second lies in the plane of
    another point p_j besides, with weight proportional to the squared area of both, among all p_j for the same p_i. So
    a direction that is about to be lost has no weight left. With reflections the last axis comes with both signs.

    Args:
        points: (B, m, d) in float64; zeros are no points.
        noise: (B, 1, d, d), normal, for the axes of points that do not span.
        close: (B, 1), what counts as zero, relative to the points' size.
        reflects: whether determinants may be -1.

    Returns:
        axes (B, K, d, d) as columns, weights (B, K) that sum to one, and for which batch items points span them, (B,).
    """
    _, m, d = points.shape
    first, second = zip(*([*permutations(range(m), 2)] or [(0, 0)]), strict=True) if d == 3 else (range(m), ())
    squared = points.square().sum(-1)
    total = squared.sum(1, keepdim=True)
    spans = total.squeeze(1) > 0
    weights = torch.where(total > 0, squared, 1) / torch.where(total > 0, total, m)
    legs = points[:, list(first)].unsqueeze(-1)
    if d == 3:
        other = points[:, list(second)]
        area = torch.linalg.cross(legs.squeeze(-1), other).square().sum(-1).unflatten(1, (m, -1))
        mine = area.sum(-1, keepdim=True)
        planar = mine > (close.square() * squared * total).unsqueeze(-1)
        spans = spans & planar.flatten(1).any(1)
        share = torch.where(planar, area, 1) / torch.where(planar, mine, area.shape[-1])
        weights = (weights.unsqueeze(-1) * share).flatten(1)
        legs = torch.cat([legs, other.unsqueeze(-1)], -1)
    axes = gram_schmidt(legs, noise[..., : d - 1].expand(-1, legs.shape[1], -1, -1).to(legs.dtype))
    last = torch.linalg.cross(*axes.unbind(-1)) if d == 3 else axes.squeeze(-1).flip(-1) * axes.new_tensor([-1.0, 1.0])
    axes = torch.cat([axes, last.unsqueeze(-1)], -1)
    if reflects:
        axes = torch.cat([axes, torch.cat([axes[..., :-1], -axes[..., -1:]], -1)], 1)
        weights = torch.cat([weights, weights], 1) / 2
    return axes, weights, spans


def weighted_orders(keys: Tensor, ties: Tensor, mask: Tensor | None, limit: int) -> tuple[Tensor, Tensor, Tensor]:
    """The orders of items along fixed directions, each weighted by the smallest gap between different items there.

    Two items of c channels come in the same place along c - 1 of the directions at most, so that with one direction
    more than all pairs together can spoil, some have a weight. Where different items become equal the weights may jump,
    as those of any finite number of directions must.

    Args:
        keys: (B, n, c) in float64.
        ties: (B, 1, n), which decide between equal items.
        mask: (B, n) real items, or None.
        limit: the largest number of directions.

    Returns:
        orders (B, K, n), weights (B, K) that sum to one, and for which batch items no two are equal, (B,).
    """
    batch, n, channels = keys.shape
    real = torch.full((batch, 1), n, device=keys.device) if mask is None else mask.sum(1, keepdim=True)
    count = (channels - 1) * n * (n - 1) // 2 + 1
    if count > limit:
        raise GroupError(f"Expected at most {limit} directions for {n} items of {channels} channels (got {count})")
    drawn = (_opaque_directions if torch.compiler.is_dynamo_compiling() else _directions)(keys.detach(), count)
    places = (keys @ torch.nn.functional.normalize(drawn, dim=1).T).mT
    classes = lexicographic_ranks(keys.detach(), 0.0, mask).unsqueeze(1).expand(places.shape)
    every = None if mask is None else mask.unsqueeze(1).expand(places.shape)
    orders = descending(places.detach(), every, ties.expand(places.shape))
    ordered, which = places.gather(-1, orders), classes.gather(-1, orders)
    same = which[..., 1:] == which[..., :-1]
    behind = torch.arange(1, n, device=keys.device) >= real.unsqueeze(-1)
    gaps = torch.where(same | behind, torch.inf, ordered[..., :-1] - ordered[..., 1:])
    least = gaps.amin(-1) if n > 1 else gaps.new_full(gaps.shape[:2], torch.inf)
    least = torch.where(least.isinf(), 1, least)
    enough = (channels - 1) * real * (real - 1) // 2 + 1  # whatever the padding is
    least = torch.where(torch.arange(count, device=keys.device) < enough, least, 0)
    total = least.sum(1, keepdim=True)
    weights = torch.where(total > 0, least, 1) / torch.where(total > 0, total, count)
    return orders, weights, ~(same & ~behind).flatten(1).any(1)


def _directions(keys: Tensor, count: int) -> Tensor:
    """The same normal numbers always, (count, channels): numpy keeps them, row after row, however many there are."""
    return torch.from_numpy(np.random.RandomState(0).standard_normal((count, keys.shape[-1]))).to(keys.device)


@torch.library.custom_op("probsym::directions", mutates_args=())
def _opaque_directions(keys: Tensor, count: int) -> Tensor:
    """For compilers, which cannot look inside numpy."""
    return _directions(keys, count)


@_opaque_directions.register_fake
def _(keys: Tensor, count: int) -> Tensor:
    return keys.new_empty(count, keys.shape[-1])
