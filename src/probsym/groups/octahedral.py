"""Octahedral: the rotations of a cube, or of a regular octahedron."""

from dataclasses import dataclass

from probsym.groups.polyhedral import Polyhedral
from probsym.groups.tetrahedral import THIRD_TURN

QUARTER_TURN = ((0, -1, 0), (1, 0, 0), (0, 0, 1))
"""About the z axis."""


@dataclass(frozen=True, repr=False)
class Octahedral(Polyhedral, generators=(QUARTER_TURN, THIRD_TURN)):
    """The 24 rotations of the cube whose faces lie across the axes: permutations of the axes with signs.

    >>> Octahedral().order
    24
    """
