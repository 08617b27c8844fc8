"""Install the wheel of a folder into an environment of its own, look at what it holds, and use it.

Run by `make package`: python tests/packaging/try_wheel.py dist
"""

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
USE = """
import torch
from importlib.metadata import metadata
import probsym
from probsym import Symmetrized, groups, testing

assert metadata("probsym")["Version"] == probsym.__version__
model = Symmetrized(torch.nn.Flatten(), "n c -> k", {"n": groups.S()}, samples=4)
assert model(torch.rand(2, 3, 1)).shape == (2, 3)
testing.assert_equivariant(model, torch.rand(2, 3, 1))
"""


def main(folder: Path) -> None:
    """Fail on whatever is not as it should be."""
    (wheel,) = folder.glob("*.whl")
    strange = [name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith(("probsym/", "probsym-"))]
    assert strange == [], f"Expected a wheel of the library alone (got {strange[:5]})"
    with tempfile.TemporaryDirectory() as place:
        venv.create(place, with_pip=True)
        programs = Path(place) / "bin"
        install = ["-m", "pip", "install", "--quiet", "--no-compile", "--constraint", ROOT / "constraints.txt"]
        subprocess.run([programs / "python", *install, wheel.resolve()], check=True, cwd=place)
        subprocess.run([programs / "python", "-c", USE], check=True, cwd=place)
        subprocess.run([programs / "probsym", "--version"], check=True, cwd=place)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
