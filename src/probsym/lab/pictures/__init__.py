"""Pictures of trained runs, one file each. A new one is one new file and one line in `PICTURES`.

`SKETCHES` are those that need no run.
"""

from probsym.lab.pictures.inner_symmetry import inner_symmetry
from probsym.lab.pictures.permutations import permutations
from probsym.lab.pictures.picture import Picture, Sketch
from probsym.lab.pictures.rotations import rotations
from probsym.lab.pictures.systems import systems

PICTURES: dict[str, Picture] = {"permutations": permutations, "rotations": rotations, "systems": systems}
SKETCHES: dict[str, Sketch] = {"inner_symmetry": inner_symmetry}

__all__ = ["PICTURES", "SKETCHES", "Picture", "Sketch"]
