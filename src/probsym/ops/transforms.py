"""What compilers, exporters and the transforms of torch.func do to tensors, and how kernels find out."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

P = ParamSpec("P")
R = TypeVar("R")


def traced() -> bool:
    """Whether tensors may have no readable values, because code is compiled, exported or transformed."""
    return torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None or transformed()


def transformed() -> bool:
    """Whether a transform of torch.func is active, such as grad or vmap."""
    return torch._C._are_functorch_transforms_active()


def exporting() -> bool:
    """Whether a model is being exported; `torch.compiler.is_exporting` is true of all compiled code before 2.13."""
    return torch.compiler._is_exporting_flag


def hidden(x: Tensor) -> bool:
    """Whether nobody can look at the numbers in x, which stand for those of other calls: of a vmap, or an export."""
    if exporting():
        return True
    while not torch.compiler.is_compiling() and torch._C._functorch.is_functorch_wrapped_tensor(x):
        if torch._C._functorch.is_batchedtensor(x):
            return True
        x = torch._C._functorch.get_unwrapped(x)
    return False


def eagerly(function: Callable[P, R]) -> Callable[P, R]:
    """A function that looks at numbers. Compiled code splits around it; an export goes through it."""
    plain: Callable[P, R] = _disable_dynamo(function)  # `torch.compiler.disable`, which would load the compiler at once

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        splits = torch.compiler.is_dynamo_compiling() and not exporting()
        return (plain if splits else function)(*args, **options)

    return call


def needs_gradient(*tensors: Tensor) -> bool:
    """Whether one of the tensors needs a gradient, through any active transform.

    >>> needs_gradient(torch.ones(2)), needs_gradient(torch.ones(2), torch.ones(2, requires_grad=True))
    (False, True)
    >>> needed = []
    >>> look = torch.vmap(lambda row: needed.append(needs_gradient(row)) or row)
    >>> _ = torch.func.grad(lambda x: look(x).sum())(torch.ones(2))
    >>> needed
    [True]
    """
    if not torch.is_grad_enabled():
        return False
    if any(x.requires_grad for x in tensors):
        return True
    return not torch.compiler.is_compiling() and transformed() and any(_tracked(x) for x in tensors)


def _tracked(x: Tensor) -> bool:
    """Whether a transform further out than the innermost follows the tensor."""
    while torch._C._functorch.is_functorch_wrapped_tensor(x):
        x = torch._C._functorch.get_unwrapped(x)
        if x.requires_grad:
            return True
    return False


def fold_rows(size: int, in_dims: tuple[int | None, ...], given: tuple[Any, ...]) -> list[Any]:
    """Tensors (rows, ...) of `size` calls as tensors of one call, (size * rows, ...): for a vmap over row-wise kernels.

    `in_dims` says which axis of each counts the calls; one without is the same in all.
    """
    return [
        value if not isinstance(value, Tensor) else calls_first(size, value, axis).flatten(0, 1)
        for value, axis in zip(given, in_dims, strict=True)
    ]


def calls_first(size: int, x: Tensor, axis: int | None) -> Tensor:
    """A tensor with the axis that counts the calls in front; the same in all calls if it has none."""
    return x.expand(size, *x.shape) if axis is None else x.movedim(axis, 0)
