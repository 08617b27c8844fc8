"""Inspect callables: what they take, and whether they hide modules."""

import functools
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from torch import nn


def takes_mask(function: Callable[..., Any], *, given: bool = True, name: str = "mask") -> bool:
    """Whether a module or function is to be called with `mask=`: it has such a parameter, or takes any by keyword.

    `name` is what it calls its mask.

    Where no mask was given, only one that has the parameter is told so.

    Modules that were compiled, or wrapped for parallel training, are asked for what they wrap.

    >>> takes_mask(lambda x, mask=None: x), takes_mask(lambda x: x)
    (True, False)
    """
    parameters = _parameters(_unwrapped(function))
    return name in parameters or (
        given and any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    )


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of what a module or function takes, wrapped or not.

    >>> parameter_names(nn.Linear(2, 2))
    ('input',)
    """
    return tuple(_parameters(_unwrapped(function)))


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a module or function can be called with so many inputs, and with its mask if it takes one.

    >>> takes(lambda x, mask=None: x, 1), takes(lambda x, mask=None: x, 2)
    (True, False)
    """
    options = {"mask": None} if takes_mask(function) else {}
    try:
        inspect.signature(getattr(function, "forward", function)).bind(*(None for _ in range(count)), **options)
    except TypeError:
        return False
    except ValueError:  # some builtins have no signature
        return True
    return True


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    for inner in ("_orig_mod", "module"):
        wrapped = getattr(function, inner, None)
        if isinstance(wrapped, nn.Module) and _passes_on(function):
            return _unwrapped(wrapped)
    return function


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(getattr(function, "forward", function)).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return {}


def _passes_on(function: Callable[..., Any]) -> bool:
    """Whether it takes whatever it is given, as wrappers do."""
    kinds = {parameter.kind for parameter in _parameters(function).values()}
    return {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} <= kinds or not kinds


def hidden_modules(function: Callable[..., Any]) -> list[str]:
    """The modules with trainable parameters that a plain function reaches though no module holds them, by class.

    Those that it closes over, that are bound to it by `functools.partial`, or whose method it is.

    >>> layer = nn.Linear(2, 2)
    >>> hidden_modules(layer.forward), hidden_modules(layer), hidden_modules(len)
    (['Linear'], [], [])
    """
    if isinstance(function, nn.Module):
        return []
    reached: list[Any] = []
    if isinstance(function, functools.partial):
        reached = [function.func, *function.args, *function.keywords.values()]
    reached.append(getattr(function, "__self__", None))
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # an empty cell
            reached.append(cell.cell_contents)
    modules = [module for module in reached if isinstance(module, nn.Module)]
    return [type(module).__name__ for module in modules if any(p.requires_grad for p in module.parameters())]
