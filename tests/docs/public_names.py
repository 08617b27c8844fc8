"""Every public name of the library, as the reference is to have it."""

import importlib
import inspect
import pkgutil
from types import ModuleType

import probsym

PRIVATE = ("probsym.lab", "probsym.cli", "probsym.__main__")


def public_modules() -> list[ModuleType]:
    """Those with a list of public names, and the two that are single files."""
    found = [
        importlib.import_module(f"probsym.{one.name}")
        for one in pkgutil.iter_modules(probsym.__path__)
        if not one.name.startswith("_") and f"probsym.{one.name}" not in PRIVATE
    ]
    return [one for one in found if hasattr(one, "__all__") or one.__name__ in ("probsym.errors", "probsym.pyg")]


def public_names() -> list[str]:
    """Such as "probsym.samplers.Learned"; a module without a list has what it defines."""
    names = [f"probsym.{name}" for name in probsym.__all__ if not inspect.ismodule(getattr(probsym, name))]
    for module in public_modules():
        listed = getattr(module, "__all__", None) or [
            name
            for name, one in vars(module).items()
            if not name.startswith("_") and getattr(one, "__module__", None) == module.__name__
        ]
        names += [f"{module.__name__}.{name}" for name in listed]
    return names
