"""What a base returns, in whatever form, as a tuple of tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from probsym.errors import SignatureError


def as_outputs(found: Any, keys: Sequence[str] | None, count: int) -> tuple[Tensor, ...]:
    """The outputs of a base that returned a tensor, a sequence, a mapping such as a ModelOutput, or a dataclass.

    Those called by `keys`, or all there are, in their order, of which there must then be `count`.

    >>> import torch
    >>> as_outputs({"loss": torch.zeros(()), "logits": torch.ones(2)}, ["logits"], 1)
    (tensor([1., 1.]),)
    """
    if isinstance(found, Tensor):
        named = None
    elif isinstance(found, Mapping):
        named = {str(name): value for name, value in found.items() if value is not None}
    elif dataclasses.is_dataclass(found) and not isinstance(found, type):
        values = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
        named = {name: value for name, value in values.items() if value is not None}
    else:
        named = None
    if keys is not None:
        missing = [key for key in keys if named is None or key not in named]
        if missing:
            there = "no names" if named is None else ", ".join(named) or "none"
            raise SignatureError(f"Expected the base to return {missing[0]!r}, which output_keys names (got {there})")
        assert named is not None
        return tuple(named[key] for key in keys)
    if named is not None:
        if len(named) != count:
            raise SignatureError(
                f"Expected the base to return {count} outputs, or output_keys= to choose them (got {', '.join(named)})"
            )
        return tuple(named.values())
    return tuple(found) if isinstance(found, tuple | list) else (found,)
