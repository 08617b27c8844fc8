"""Parts that remember how they were made, so that a model can be written down and made again."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn


class RemembersArguments:
    """A mixin for modules: `arguments` are those that its constructor was called with, defaults included.

    An argument that is itself a module, or a number, is looked up as the attribute of the same name, so that a part
    which is exchanged later is the one that counts.

    >>> class Scale(RemembersArguments, nn.Module):
    ...     def __init__(self, factor: float = 2.0) -> None:
    ...         super().__init__()
    >>> Scale(factor=3.0).arguments
    {'factor': 3.0}
    """

    _arguments: Mapping[str, Any]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _, *shown = inspect.signature(cls.__init__).parameters.values()  # the first is self
        cls.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]  # that of __new__ says nothing

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        part = super().__new__(cls)
        object.__setattr__(part, "_arguments", _bound(cls, args, kwargs))
        return part

    @property
    def arguments(self) -> dict[str, Any]:
        """By name, whatever makes another such part."""
        return {name: self._argument(name, value) for name, value in self._arguments.items()}

    def _argument(self, name: str, value: Any) -> Any:
        now = getattr(self, name, None)
        if value is nn.Module:
            return now
        # numbers too may have changed, such as a temperature in training; None stays what it stands for
        changed = value is not None and isinstance(now, bool | int | float)
        return now if changed else copy.copy(value)


def _bound(cls: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    constructor = cls.__init__
    if constructor is nn.Module.__init__:  # which takes anything, and needs nothing
        return {}
    try:
        bound = inspect.signature(constructor).bind(None, *args, **kwargs)
    except TypeError:
        # copies are made without arguments and get theirs afterwards; of others the constructor complains
        return {}
    bound.apply_defaults()
    _, *given = bound.arguments.items()  # the first is self
    return {name: nn.Module if isinstance(value, nn.Module) else copy.copy(value) for name, value in given}
