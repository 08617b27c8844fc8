"""Every public name of the library, as the reference is to have it."""

import importlib
import inspect
import pkgutil
from types import ModuleType

import probsym

PRIVATE = ("probsym.lab", "probsym.cli", "probsym.__main__")


def public_modules() -> list[ModuleType]:
    """Those with a list of public names, and the two that are single files."""
    modules = [
        importlib.import_module(f"probsym.{info.name}")
        for info in pkgutil.iter_modules(probsym.__path__)
        if not info.name.startswith("_") and f"probsym.{info.name}" not in PRIVATE
    ]
    return [
        module
        for module in modules
        if hasattr(module, "__all__") or module.__name__ in ("probsym.errors", "probsym.pyg")
    ]


def public_names() -> list[str]:
    """Such as "probsym.samplers.Learned"; a module without a list has what it defines."""
    names = [f"probsym.{name}" for name in probsym.__all__ if not inspect.ismodule(getattr(probsym, name))]
    for module in public_modules():
        listed = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        ]
        names += [f"{module.__name__}.{name}" for name in listed]
    return names
