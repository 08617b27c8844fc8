"""Weights from a file given to a model, once it is known that they fit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from probsym.errors import CheckpointError


def bare(name: str) -> str:
    """The name of a tensor without what compilation puts before it."""
    return name.replace("_orig_mod.", "")


def check_sizes(make: Callable[[], Mapping[str, Any]], tensors: Mapping[str, Tensor], source: str) -> None:
    """Refuse parts, by name, that are not of the size of the weights, before any memory is taken for them."""
    with torch.device("meta"), _limited(10 * len(tensors) + 1000, source):
        parts = make()
    for part, made in parts.items():
        if isinstance(made, nn.Module):
            own = {bare(f"{part}.{name}"): x for name, x in made.state_dict().items()}
            _compare(own, {name: x for name, x in tensors.items() if name.startswith(f"{part}.")}, source)


@torch.no_grad()
def fill(model: nn.Module, tensors: Mapping[str, Tensor], source: str, uniform: Sequence[str]) -> None:
    """Give the model its weights, in the precision they were kept in, which is one in each of the `uniform` parts."""
    own = {bare(name): x for name, x in model.state_dict(keep_vars=True).items()}
    _compare(own, tensors, source)
    for name, x in own.items():
        _check_numbers(name, tensors[name], source, infinite=not isinstance(x, nn.Parameter))
    for part in uniform:
        precisions = {
            str(tensors[name].dtype) for name, x in own.items() if name.startswith(f"{part}.") and _trained(x)
        }
        if len(precisions) > 1:
            raise CheckpointError(
                f"Expected weights of one precision in the {part} of {source} (got {', '.join(sorted(precisions))})"
            )
    for name, x in own.items():
        x.data = tensors[name].to(x.device, copy=True)


def _trained(x: Tensor) -> bool:
    return isinstance(x, nn.Parameter) and x.is_floating_point()


def _compare(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], source: str) -> None:
    missing, unknown = sorted(set(own) - set(tensors)), sorted(set(tensors) - set(own))
    if missing or unknown:
        difference = f"{len(missing)} missing, {len(unknown)} unknown, such as {(missing + unknown)[0]}"
        raise CheckpointError(f"Expected the weights of the model that {source} describes (got {difference})")
    for name, x in own.items():
        if x.shape != tensors[name].shape:
            raise CheckpointError(
                f"Expected {name} of {source} to be {tuple(x.shape)} (got {tuple(tensors[name].shape)})"
            )
        if x.is_floating_point() != tensors[name].is_floating_point():
            raise CheckpointError(f"Expected {name} of {source} to be {x.dtype} (got {tensors[name].dtype})")


def _check_numbers(name: str, x: Tensor, source: str, *, infinite: bool) -> None:
    """Refuse NaN; and infinity, which buffers may hold, as masks of attention do."""
    if not x.is_floating_point():
        return
    wide = x if x.dtype.itemsize > 1 else x.float()
    bad = wide.isnan() if infinite else ~wide.isfinite()
    if bool(bad.any()):
        raise CheckpointError(f"Expected {name} of {source} to be finite (got {int(bad.sum())} numbers that are not)")


@contextmanager
def _limited(most: int, source: str) -> Iterator[None]:
    """Stop whoever makes more modules and parameters than that: a file can ask for any number of layers."""
    own, left = threading.get_ident(), most

    def count(*_: Any) -> None:
        nonlocal left
        left -= threading.get_ident() == own
        if left < 0:
            raise CheckpointError(f"Expected settings as large as the weights of {source} (got many more layers)")

    handles = [
        hooks.register_module_parameter_registration_hook(count),
        hooks.register_module_module_registration_hook(count),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
