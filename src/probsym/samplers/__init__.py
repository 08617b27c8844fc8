"""The distributions p(g|x), one file each. A new sampler is one new file and one line in `SAMPLERS`.

A sampler is a function of a prepared `Batch` and of `Noise`, which it draws itself; it returns a `Draw`. Noise can be
moved along with the input, `phi(g x; g noise) = g phi(x; noise)`, so equivariance can be tested to rounding.
"""

from probsym.samplers.base import Sampler
from probsym.samplers.batch import Batch
from probsym.samplers.canonical import Canonical
from probsym.samplers.colour_ranks import colour_ranks
from probsym.samplers.couplings import COUPLINGS
from probsym.samplers.draw import Draw
from probsym.samplers.energy import Energy
from probsym.samplers.enumerate import Enumerate
from probsym.samplers.frame import Frame
from probsym.samplers.from_haar import FromHaar
from probsym.samplers.haar import Haar
from probsym.samplers.learned import Learned
from probsym.samplers.noise import Noise
from probsym.samplers.quadrature import Quadrature
from probsym.samplers.spectral_ranks import spectral_ranks

SAMPLERS: dict[str, type[Sampler]] = {
    "Haar": Haar,
    "Enumerate": Enumerate,
    "Frame": Frame,
    "Canonical": Canonical,
    "Learned": Learned,
    "FromHaar": FromHaar,
    "Energy": Energy,
    "Quadrature": Quadrature,
}

__all__ = [
    "COUPLINGS",
    "SAMPLERS",
    "Batch",
    "Canonical",
    "Draw",
    "Energy",
    "Enumerate",
    "Frame",
    "FromHaar",
    "Haar",
    "Learned",
    "Noise",
    "Quadrature",
    "Sampler",
    "colour_ranks",
    "spectral_ranks",
]
