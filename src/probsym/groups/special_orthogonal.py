"""SO(d): rotations about the origin."""

from dataclasses import dataclass

import torch
from torch import Tensor

from probsym.groups.orthogonal import O, determinant_sign


@dataclass(frozen=True, repr=False)
class SO(O):
    """The rotations in d dimensions: the elements of O(d) with determinant +1.

    Features are projected as in O(d), and then the first column is multiplied by the determinant.

    >>> q = SO(2).project(torch.tensor([[0.0, 2.0], [1.0, 0.0]]))
    >>> q, bool(torch.linalg.det(q) > 0)
    (tensor([[-0.,  1.],
            [-1.,  0.]]), True)
    """

    reflects = False

    def project(self, features: Tensor, *, noise: Tensor | None = None) -> Tensor:
        """The orthonormalised columns of Z (*batch, d, d), the first one negated where the determinant is -1."""
        q = super().project(features, noise=noise)
        return torch.cat([q[..., :1] * determinant_sign(q), q[..., 1:]], dim=-1)

    def contains(self, g: Tensor) -> Tensor:
        return super().contains(g) & (determinant_sign(g)[..., 0, 0] > 0)
