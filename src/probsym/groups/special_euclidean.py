"""SE(d): rotations and translations."""

from dataclasses import dataclass
from typing import ClassVar

from probsym.groups.euclidean import E
from probsym.groups.orthogonal import O
from probsym.groups.special_orthogonal import SO


@dataclass(frozen=True, repr=False)
class SE(E):
    """The rigid motions in d dimensions: the elements [Q | t] of E(d) with det Q = +1.

    >>> import torch
    >>> SE(3).haar((2,), centroid=torch.zeros(2, 3)).shape
    torch.Size([2, 3, 4])
    """

    rotations: ClassVar[type[O]] = SO
