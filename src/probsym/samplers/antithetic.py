"""Draws in pairs, each the mirror image of the other: what is odd in the noise cancels."""

from __future__ import annotations

import torch
from torch import Tensor

from probsym.samplers.base import Sampler
from probsym.samplers.batch import Batch
from probsym.samplers.noise import Noise, below


def antithetic(
    sampler: Sampler, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0
) -> Noise:
    """Noise in which draws 2i and 2i + 1 are mirror images; of an odd number the last stands alone.

    Uniform noise u on [0, eta) is mirrored to eta - u, normal noise z to -z, and an element g to the group's
    `opposite(g)`. Mirrors commute with the group, so pairs move along with the input.
    """
    own = sampler.noise(batch, (draws + 1) // 2, generator, start=start)
    laws, groups = sampler.noise_laws(batch.signature), batch.groups

    def pairs(drawn: Tensor, mirrored: Tensor) -> Tensor:
        return torch.stack([drawn, mirrored], 2).flatten(1, 2)[:, :draws]

    return Noise(
        tuple(
            pairs(x, -x if law.normal else below(law.scale - x, law.scale))
            for x, law in zip(own.inputs, laws, strict=True)
        ),
        {key: pairs(u, below(1 - u, 1.0)) for key, u in own.ties.items()},
        {key: pairs(z, -z) for key, z in own.completion.items()},
        {key: pairs(g, groups[key].opposite(g, batch.mask_of(key))) for key, g in own.elements.items()},
    )
