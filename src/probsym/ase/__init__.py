"""Calculators for ASE: one that makes any other calculator invariant, and one from a symmetrized energy model.

Needs ase (`pip install probsym[atoms]`), which nothing else imports.
"""

from probsym.errors import DependencyError

try:
    import ase  # noqa: F401
except ImportError as error:
    raise DependencyError("Expected ase 3.23 or later for probsym.ase (pip install probsym[atoms])") from error

from probsym.ase.base import MissingPropertyError
from probsym.ase.model import ModelCalculator
from probsym.ase.symmetrized import SymmetrizedCalculator

__all__ = ["MissingPropertyError", "ModelCalculator", "SymmetrizedCalculator"]
