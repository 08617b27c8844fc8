"""Probabilistic symmetrization: make any model invariant or equivariant to a group.

phi(x) = E_{g ~ p(g|x)} [ rho_out(g) . f( rho_in(g)^-1 . x ) ]
"""

from probsym import errors, groups, ops, testing
from probsym.signature import Signature

__all__ = ["Signature", "errors", "groups", "ops", "testing"]
__version__ = "0.1.0"
