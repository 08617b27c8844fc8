"""How to call what users give us."""

import inspect
from collections.abc import Callable
from typing import Any


def takes_mask(function: Callable[..., Any]) -> bool:
    """Whether a module or function has a parameter `mask`.

    >>> takes_mask(lambda x, mask=None: x), takes_mask(lambda x: x)
    (True, False)
    """
    try:
        parameters = inspect.signature(getattr(function, "forward", function)).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    return "mask" in parameters
