"""Icosahedral: the rotations of a regular icosahedron, or dodecahedron."""

from dataclasses import dataclass

from probsym.groups.polyhedral import GOLDEN, Polyhedral
from probsym.groups.tetrahedral import HALF_TURN, THIRD_TURN

LONG, SHORT = GOLDEN / 2, (GOLDEN - 1) / 2
FIFTH_TURN = ((0.5, -LONG, SHORT), (LONG, SHORT, -0.5), (SHORT, 0.5, LONG))
"""About the corner (1, 0, golden ratio)."""


@dataclass(frozen=True, repr=False)
class Icosahedral(Polyhedral, generators=(HALF_TURN, THIRD_TURN, FIFTH_TURN)):
    """The 60 rotations of the icosahedron with corners at (1, 0, golden ratio) and so on, and edges across the axes.

    >>> Icosahedral().order
    60
    """
