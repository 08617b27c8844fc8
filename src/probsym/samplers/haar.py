"""Group averaging: p(g|x) is uniform."""

import torch

from probsym.samplers.base import Sampler
from probsym.samplers.batch import Batch
from probsym.samplers.draw import Draw
from probsym.samplers.noise import Noise, haar_elements
from probsym.signature import Signature


class Haar(Sampler):
    """Elements uniform on the group, whatever the input is.

    E and SE have no uniform distribution: for them the rotation about the centroid is uniform. S permutes the real
    items only.

    >>> from probsym import Symmetrized, groups
    >>> model = Symmetrized(lambda x: x[:, 0], "n d -> d", {"d": groups.SO(3)}, Haar(), samples=8)
    >>> model.estimate(torch.randn(4, 5, 3)).elements["d"].shape
    torch.Size([4, 8, 3, 3])
    """

    draws_elements = True

    def read(self, signature: Signature) -> tuple[int, ...]:
        return ()

    def noise(self, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0) -> Noise:
        return haar_elements(batch, draws, generator)

    def forward(self, batch: Batch, noise: Noise) -> Draw:
        return from_elements(batch, noise)


def from_elements(batch: Batch, noise: Noise) -> Draw:
    """A draw of the elements in the noise."""
    groups = batch.groups
    carriers = {key: groups[key].carrier(g, mask=batch.mask_of(key)) for key, g in noise.elements.items()}
    return Draw(noise.draws() or 1, noise.elements, carriers)
