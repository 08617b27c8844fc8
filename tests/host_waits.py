"""What would wait for a GPU, found on a CPU: a step without it can be captured as a CUDA graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

WAITING = {
    "_linalg_eigh": "a solver that reads back whether it converged",
    "_linalg_svd": "a solver that reads back whether it converged",
    "_local_scalar_dense": "a number read by the host",
    "_unique2": "a shape that depends on values",
    "bincount": "a shape that depends on values",
    "equal": "a number read by the host",
    "lift_fresh": "a tensor made from the host's numbers",
    "masked_select": "a shape that depends on values",
    "nonzero": "a shape that depends on values",
    "unique_dim": "a shape that depends on values",
}
COPIES = {"__array__", "cpu", "numpy", "tolist"}


class HostWaitError(AssertionError):
    """Something makes the host wait."""


class _Operations(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in WAITING:
            raise HostWaitError(f"Expected nothing to wait for a GPU (got {func}: {WAITING[name]})")
        if name in ("index", "index_put", "index_put_") and any(_masks(index) for index in args[1]):
            raise HostWaitError(f"Expected nothing to wait for a GPU (got {func} with a mask)")
        if func is torch.ops.aten.repeat_interleave.Tensor:
            raise HostWaitError(f"Expected nothing to wait for a GPU (got {func})")
        return func(*args, **(kwargs or {}))


class _Copies(TorchFunctionMode):
    """On a CPU these are no operations, since nothing is copied."""

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in COPIES:
            raise HostWaitError(f"Expected nothing to wait for a GPU (got {func.__name__})")
        return func(*args, **(kwargs or {}))


def _masks(index: Tensor | None) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)


@contextmanager
def no_host_waits() -> Iterator[None]:
    """Within it, forward and backward, `HostWaitError` is raised by whatever would make the host wait for a GPU."""
    with _Copies(), _Operations():
        yield
