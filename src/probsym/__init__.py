"""Probabilistic symmetrization: make any model invariant or equivariant to a group.

phi(x) = E_{g ~ p(g|x)} [ rho_out(g) . f( rho_in(g)^-1 . x ) ]
"""

from probsym import bases, errors, export, groups, nets, ops, samplers, testing
from probsym.degrees import quadrature_degree
from probsym.estimate import Estimate
from probsym.signature import Signature
from probsym.symmetrized import Symmetrized

__all__ = [
    "Estimate",
    "Signature",
    "Symmetrized",
    "bases",
    "errors",
    "export",
    "groups",
    "nets",
    "ops",
    "quadrature_degree",
    "samplers",
    "testing",
]
__version__ = "0.2.0"
