"""Draws in pairs, each the mirror image of the other: what is odd in the noise cancels."""

from __future__ import annotations

import torch
from torch import Tensor

from probsym.errors import GroupError
from probsym.groups import SO, E, Group, O, S
from probsym.groups.planar import PlanarGroup
from probsym.samplers.base import Sampler
from probsym.samplers.batch import Batch
from probsym.samplers.noise import Noise, below


def antithetic(
    sampler: Sampler, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0
) -> Noise:
    """Noise in which draws 2i and 2i + 1 are mirror images; of an odd number the last stands alone.

    Uniform noise u on [0, eta) is mirrored to eta - u, normal noise z to -z, and an element g to `opposite(g)`. Mirrors
    commute with the group, so pairs move along with the input.
    """
    own = sampler.noise(batch, (draws + 1) // 2, generator, start=start)
    laws, groups = sampler.noise_laws(batch.signature), batch.signature.groups

    def pairs(one: Tensor, other: Tensor) -> Tensor:
        return torch.stack([one, other], 2).flatten(1, 2)[:, :draws]

    return Noise(
        tuple(
            pairs(x, -x if law.normal else below(law.scale - x, law.scale))
            for x, law in zip(own.inputs, laws, strict=True)
        ),
        {key: pairs(u, below(1 - u, 1.0)) for key, u in own.ties.items()},
        {key: pairs(z, -z) for key, z in own.completion.items()},
        {key: pairs(g, opposite(groups[key], g, batch.mask_of(key))) for key, g in own.elements.items()},
    )


def opposite(group: Group, g: Tensor, mask: Tensor | None = None) -> Tensor:
    """The product g s with one fixed s, so uniform if g is, and `opposite(h g) = h opposite(g)`.

    s is the reversal of the real items for S, with a mask that broadcasts to g; -I for O and E, and for SO and SE in
    even dimensions, in odd ones the half turn diag(-1, ..., -1, 1); for C(m) and D(m) the turn nearest to a half one,
    which is a half turn for even m and m // 2 steps for odd m, and for D(1), which has no turn, the flip.

    >>> opposite(S(), torch.tensor([2, 0, 1, 3]), torch.tensor([True, True, True, False]))
    tensor([1, 0, 2, 3])
    """
    if isinstance(group, S):
        places = torch.arange(g.shape[-1], device=g.device)
        real = g.shape[-1] if mask is None else mask.sum(-1, keepdim=True)
        return g.gather(-1, torch.where(places < real, real - 1 - places, places).expand(g.shape))
    if isinstance(group, PlanarGroup):
        return group.compose(g, torch.full_like(g, group.m // 2 or group.order - 1))
    if not isinstance(group, O | E):
        raise GroupError(f"Expected one of the groups of probsym for coupling 'antithetic' (got {group!r})")
    rotation = group.rotation if isinstance(group, E) else group
    signs = -g.new_ones(g.shape[-1])
    if isinstance(rotation, SO) and group.d % 2:
        signs[group.d - 1] = 1
    signs[group.d :] = 1  # the translation of E
    return g * signs
