"""The groups, one file each. A new group is one new file and one line in `GROUPS`."""

from probsym.groups.base import Group
from probsym.groups.cyclic import C
from probsym.groups.dihedral import D
from probsym.groups.euclidean import E
from probsym.groups.finite import Finite
from probsym.groups.orthogonal import O
from probsym.groups.polyhedral import Icosahedral, Octahedral, Tetrahedral
from probsym.groups.shift import Shift
from probsym.groups.signs import Signs
from probsym.groups.special_euclidean import SE
from probsym.groups.special_orthogonal import SO
from probsym.groups.symmetric import S

GROUPS: dict[str, type[Group]] = {
    "S": S,
    "O": O,
    "SO": SO,
    "E": E,
    "SE": SE,
    "C": C,
    "D": D,
    "Signs": Signs,
    "Shift": Shift,
    "Tetrahedral": Tetrahedral,
    "Octahedral": Octahedral,
    "Icosahedral": Icosahedral,
}

__all__ = [
    "GROUPS",
    "SE",
    "SO",
    "C",
    "D",
    "E",
    "Finite",
    "Group",
    "Icosahedral",
    "O",
    "Octahedral",
    "S",
    "Shift",
    "Signs",
    "Tetrahedral",
]
