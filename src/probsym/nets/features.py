"""What a net sees and returns: the features that name group elements, and the checks that all nets share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from probsym.errors import DeviceError, DtypeError, MaskError, ShapeError, SignatureError
from probsym.signature import Term

FIELDS = ("scores", "vectors", "logits")


@dataclass(frozen=True, eq=False)
class Features:
    """What a net returns: features that `project` turns into group elements, one for each of K draws.

    scores (B, K, n) define a permutation, and vectors (B, K, d, d) a rotation: the columns are d vectors that rotate
    with the input. logits (B, K, order) choose an element of a finite group. `own` holds further fields, by name, for
    groups that define their own. If several axes are bound, a field may be a mapping from axis name to tensor. A net
    that is called without draws leaves out the axis K.

    >>> Features(scores=torch.zeros(2, 10, 5)).vectors is None
    True
    """

    scores: Tensor | Mapping[str, Tensor] | None = None
    vectors: Tensor | Mapping[str, Tensor] | None = None
    logits: Tensor | Mapping[str, Tensor] | None = None
    own: Mapping[str, Tensor | Mapping[str, Tensor]] = field(default_factory=dict)

    @staticmethod
    def join(values: Mapping[str, Any]) -> Features:
        """The features with these fields, by name; fields that are not given are None."""
        own = {name: value for name, value in values.items() if name not in FIELDS and value is not None}
        return replace(Features(own=own), **{name: value for name, value in values.items() if name in FIELDS})

    def get(self, name: str) -> Tensor | Mapping[str, Tensor] | None:
        """A field by name; None if it is not there."""
        return getattr(self, name) if name in FIELDS else self.own.get(name)


def misread(net: str, wanted: str, terms: Sequence[Term]) -> SignatureError:
    """The error for a net that is given inputs it cannot read."""
    listing = ", ".join(f"'{term}'" for term in terms) or "none"
    return SignatureError(
        f"Expected {net} to read {wanted} (got {listing}; reads= of the sampler says which inputs, in this order)"
    )


def check_input(x: Tensor, what: str, last: int) -> Tensor:
    """x as (B, K, n, last), after checking that it is that or (B, n, last), floating, and has an item."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise DtypeError(f"Expected {what} to be a floating tensor (got {_kind(x)})")
    if x.dim() not in (3, 4) or x.shape[-1] != last or x.shape[-2] < 1:
        raise ShapeError(
            f"Expected {what} to be (batch, draws, n, {last}) or (batch, n, {last}) with n at least 1 "
            f"(got {tuple(x.shape)})"
        )
    return x if x.dim() == 4 else x.unsqueeze(1)


def check_alike(x: Tensor, first: Tensor, what: str) -> None:
    """Refuse an input (B, K, n, ...) that does not go with the first, up to a draw axis of size 1."""
    own, wanted = (x.shape[0], x.shape[2]), (first.shape[0], first.shape[2])
    if own != wanted or (x.shape[1] != first.shape[1] and 1 not in (x.shape[1], first.shape[1])):
        raise ShapeError(
            f"Expected {what} to fit {tuple(first.shape[:3])} (batch, draws, n) like input 0 (got {tuple(x.shape[:3])})"
        )
    if x.dtype != first.dtype:
        raise DtypeError(f"Expected {what} to be {first.dtype} like input 0 (got {x.dtype})")
    if x.device != first.device:
        raise DeviceError(f"Expected {what} to be on {first.device} like input 0 (got {x.device})")


def check_mask(mask: Tensor | None, x: Tensor) -> None:
    """Refuse a mask that is not boolean (B, n), for x (B, K, n, ...)."""
    if mask is None:
        return
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise MaskError(f"Expected mask to be boolean (got {_kind(mask)})")
    if tuple(mask.shape) != (x.shape[0], x.shape[2]):
        raise MaskError(f"Expected mask to have shape {(x.shape[0], x.shape[2])} (got {tuple(mask.shape)})")
    if mask.device != x.device:
        raise MaskError(f"Expected mask to be on {x.device} like input 0 (got {mask.device})")


def _kind(x: object) -> str:
    return str(x.dtype) if isinstance(x, Tensor) else type(x).__name__
