"""Inspect callables: what they take, and whether they hide modules."""

import dis
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import CodeType, FunctionType, MethodType
from typing import Any

from torch import nn

from probsym.errors import SignatureError

PADDING = "key_padding_mask"
"""How names of masks end that are True at padding: those of torch's attention."""


def check_callable(value: object, what: str) -> None:
    """Refuse what is no module or function; a class is none, since calling it makes an object.

    >>> check_callable(nn.ReLU(), "base")
    """
    if not callable(value) or isinstance(value, type):
        raise SignatureError(f"Expected {what} to be a module or function (got {class_in_words(value)})")


def class_in_words(value: object) -> str:
    """The class of a value, for messages; of a class, how to make an object of it.

    >>> class_in_words(nn.ReLU()), class_in_words(nn.ReLU)
    ('ReLU', 'the class ReLU: write ReLU(...)')
    """
    if isinstance(value, type):
        return f"the class {value.__name__}: write {value.__name__}(...)"
    return type(value).__name__


def takes_mask(function: Callable[..., Any], *, given: bool = True, name: str | None = None) -> bool:
    """Whether a module or function is to be called with a mask: it has such a parameter, or takes any by keyword.

    `name` is what it calls its mask: `mask` if None. But in torch's attention, which has a `key_padding_mask` too, a
    `mask` says which item may attend to which, so it is none of these.

    Where no mask was given, only one that has the parameter is told so.

    Modules that were compiled, or wrapped for parallel training, are asked for what they wrap.

    >>> takes_mask(lambda x, mask=None: x), takes_mask(lambda x: x)
    (True, False)
    """
    parameters = _parameters(_unwrapped(function))
    if name is None and any(other.endswith(PADDING) for other in parameters):
        return False
    return (name or "mask") in parameters or (
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


def hidden_modules(function: Callable[..., Any], held: Iterable[nn.Parameter] = ()) -> list[str]:
    """The modules and parameters to train that a plain function reaches though no module holds them, by class.

    It reaches what it closes over, names as a global variable, has as a default or by `functools.partial`, alone or in
    a container, and the module whose method it is. What is frozen is not hidden, nor are the parameters `held`.

    >>> layer = nn.Linear(2, 2)
    >>> hidden_modules(layer.forward), hidden_modules(layer), hidden_modules(len)
    (['Linear'], [], [])
    >>> hidden_modules(lambda x: layer(x)), hidden_modules(lambda x: layer(x), held=layer.parameters())
    (['Linear'], [])
    """
    known = {id(parameter) for parameter in held}
    reached = {id(part): part for value in _reached(function) for part in _parts(value)}
    return [
        type(part).__name__
        for part in reached.values()
        if any(parameter.requires_grad and id(parameter) not in known for parameter in _parameters_of(part))
    ]


def is_plain_function(value: object) -> bool:
    """Whether it is a function, a method or a partial one, so that no module holds what it reaches."""
    return isinstance(value, FunctionType | MethodType | functools.partial)


def _reached(function: object) -> Iterator[Any]:
    if isinstance(function, functools.partial):
        yield from (function.func, *function.args, *function.keywords.values())
        yield from _reached(function.func)
    elif isinstance(function, MethodType):
        yield function.__self__
        yield from _reached(function.__func__)
    elif isinstance(function, FunctionType):
        yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # an empty cell
                yield cell.cell_contents
        variables = function.__globals__
        yield from (variables[name] for name in _global_names(function.__code__) if name in variables)


def _global_names(code: CodeType) -> Iterator[str]:
    # not `co_names`, where attributes are too
    yield from (step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)


def _parts(value: object) -> Iterable[object]:
    """What is in a container; anything else by itself."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else (value,)


def _parameters_of(part: object) -> Iterable[nn.Parameter]:
    if isinstance(part, nn.Parameter):
        return (part,)
    return part.parameters() if isinstance(part, nn.Module) else ()
