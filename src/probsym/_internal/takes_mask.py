"""How to call what users give us."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn


def takes_mask(function: Callable[..., Any], *, given: bool = True) -> bool:
    """Whether a module or function is to be called with `mask=`: it has such a parameter, or takes any by keyword.

    Where no mask was given, only one that has the parameter is told so.

    Modules that were compiled, or wrapped for parallel training, are asked for what they wrap.

    >>> takes_mask(lambda x, mask=None: x), takes_mask(lambda x: x)
    (True, False)
    """
    for inner in ("_orig_mod", "module"):
        wrapped = getattr(function, inner, None)
        if isinstance(wrapped, nn.Module) and _passes_on(function):
            return takes_mask(wrapped, given=given)
    parameters = _parameters(function)
    return "mask" in parameters or (
        given and any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    )


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(getattr(function, "forward", function)).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return {}


def _passes_on(function: Callable[..., Any]) -> bool:
    """Whether it takes whatever it is given, as wrappers do."""
    kinds = {one.kind for one in _parameters(function).values()}
    return {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} <= kinds or not kinds
