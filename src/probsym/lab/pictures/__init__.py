"""Pictures of trained runs, one file each. A new one is one new file and one line in `PICTURES`."""

from probsym.lab.pictures.picture import Picture
from probsym.lab.pictures.rotations import rotations
from probsym.lab.pictures.systems import systems

PICTURES: dict[str, Picture] = {"rotations": rotations, "systems": systems}

__all__ = ["PICTURES", "Picture"]
