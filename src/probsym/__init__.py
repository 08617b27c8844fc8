"""Probabilistic symmetrization: make any model invariant or equivariant to a group.

phi(x) = E_{g ~ p(g|x)} [ rho_out(g) . f( rho_in(g)^-1 . x ) ]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
_MODULES = {
    "Estimate": "estimate",
    "Signature": "signature",
    "Symmetrized": "symmetrized",
    "quadrature_degree": "degrees",
}


def __getattr__(name: str) -> Any:
    """Imported when first asked for: torch takes seconds, and the command line's help does without."""
    if name in _MODULES:
        value = getattr(import_module(f"probsym.{_MODULES[name]}"), name)
    elif name in __all__ or name in _MODULES.values():
        value = import_module(f"probsym.{name}")
    else:
        raise AttributeError(f"module 'probsym' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
