"""Tetrahedral: the rotations of a regular tetrahedron."""

from dataclasses import dataclass

from probsym.groups.polyhedral import Polyhedral

HALF_TURN = ((-1, 0, 0), (0, -1, 0), (0, 0, 1))
"""About the z axis."""
THIRD_TURN = ((0, 0, 1), (1, 0, 0), (0, 1, 0))
"""About the diagonal (1, 1, 1): x goes to y, y to z."""


@dataclass(frozen=True, repr=False)
class Tetrahedral(Polyhedral, generators=(HALF_TURN, THIRD_TURN)):
    """The 12 rotations of the tetrahedron with a corner at (1, 1, 1) and edges across the axes.

    >>> group = Tetrahedral()
    >>> group.order, sorted(group.matrix(group.elements()).diagonal(dim1=1, dim2=2).sum(1).tolist())[2:4]
    (12, [-1.0, 0.0])
    """
