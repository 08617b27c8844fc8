"""One batch of inputs, made ready: checked, padding zeroed, points about their centroid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from probsym.errors import DeviceError, DtypeError, ShapeError
from probsym.groups import Group
from probsym.ops import Order, descending
from probsym.ops.edge_list import Input
from probsym.ops.precision import at_least_float32
from probsym.signature import Signature, Term


@dataclass(frozen=True, eq=False)
class Batch:
    """What samplers and the base are given, made by `Batch.outline(...).ready()`.

    An input of pairs is a tensor or an `EdgeList`, as the caller has given it.

    Once it is ready, `inputs` (B, ...) have zeros for padding, and their `:point` axes are relative to `centroids`,
    (B, d) for every key bound to E or SE: the mean over the real points of the first `:point` input, zero where there
    is none. `ids` (B,) number the examples, for noise that is fixed for each. `mask_names` says whether masks were
    given by name, as the base is to get them; None if none were.
    """

    signature: Signature
    inputs: tuple[Any, ...]
    masks: Mapping[str, Tensor]
    sizes: Mapping[str, int]
    centroids: Mapping[str, Tensor]
    ids: Tensor | None = None
    default: torch.dtype = torch.float32
    mask_names: bool | None = None

    @staticmethod
    def outline(
        signature: Signature,
        inputs: Sequence[Input],
        mask: Tensor | Mapping[str, Tensor] | None = None,
        ids: Tensor | None = None,
        default: torch.dtype = torch.float32,
    ) -> Batch:
        """The inputs checked against the signature and no more: enough to draw noise for, whatever their values are.

        `default` is the dtype of noise and elements where no input is floating.
        """
        masks = signature.masks(mask)
        sizes = signature.check_inputs(inputs, masks)
        if inputs[0].device.type == "meta":  # and so are all others
            raise DeviceError("Expected inputs with numbers in them (got tensors on the meta device)")
        _check_ids(ids, inputs[0])
        named = None if mask is None else isinstance(mask, Mapping)
        return Batch(signature, tuple(inputs), masks, sizes, {}, ids, default, named)

    def ready(self) -> Batch:
        """The same with zeros for padding, and points about their centroid."""
        signature, masks = self.signature, self.masks
        ready = [without_padding(x, term, masks) for x, term in zip(self.inputs, signature.inputs, strict=True)]
        centroids = {}
        for key, group in signature.groups.items():
            if "point" in group.kinds:
                centroids[key] = _centroid(key, signature, ready, masks)
                back = -centroids[key]
                for i, (x, term) in enumerate(zip(ready, signature.inputs, strict=True)):
                    if isinstance(x, Tensor):  # edges have no points
                        ready[i] = translate(x, term, key, back, masks)
        return replace(self, inputs=tuple(ready), centroids=centroids)

    @property
    def count(self) -> int:
        """How many items it has. Where a batch of any size is traced, `len` would be that of the example."""
        return self.inputs[0].shape[0]

    def __len__(self) -> int:
        return self.count

    @property
    def groups(self) -> dict[str, Group]:
        """The groups by axis as samplers see them, about the centroid: without translations."""
        return {key: group.linear for key, group in self.signature.groups.items()}

    @property
    def device(self) -> torch.device:
        """Where the inputs are."""
        return self.inputs[0].device

    @property
    def dtype(self) -> torch.dtype:
        """That of group elements and noise: the inputs', but at least float32."""
        for x in self.inputs:
            if x.is_floating_point():
                return at_least_float32(x.dtype)
        return at_least_float32(self.default)

    def mask_of(self, name: str) -> Tensor | None:
        """The mask of an axis with room for draws, (B, 1, n), or None."""
        return self.masks[name].unsqueeze(1) if name in self.masks else None

    def packing(self, name: str, draws: int) -> Order:
        """For a masked axis that no group permutes: real items first, in the order they have."""
        mask = self.masks[name].unsqueeze(1)
        index = descending(torch.zeros(mask.shape, device=mask.device), mask)
        return Order(index.expand(-1, draws, -1), mask)


def _check_ids(ids: Tensor | None, first: Input) -> None:
    if ids is None:
        return
    if not isinstance(ids, Tensor):
        raise DtypeError(f"Expected index to be a tensor (got {type(ids).__name__})")
    if tuple(ids.shape) != (first.shape[0],) or ids.is_floating_point() or ids.dtype == torch.bool:
        raise ShapeError(
            f"Expected index to be integers of shape ({first.shape[0]},) (got {tuple(ids.shape)}, {ids.dtype})"
        )
    if ids.device != first.device:
        raise DeviceError(f"Expected index to be on {first.device} like input 0 (got {ids.device})")


def without_padding(x: Input, term: Term, masks: Mapping[str, Tensor]) -> Input:
    """`zero_padding` of a tensor; edges at padding stay in their list, with values of zero."""
    if isinstance(x, Tensor):
        return zero_padding(x, term, masks)
    return x.masked(masks[term.names[0]]) if term.names[0] in masks else x


def zero_padding(x: Tensor, term: Term, masks: Mapping[str, Tensor]) -> Tensor:
    """x (B, ...), or (B, K, ...) of several draws, with zeros wherever an axis of the term is masked."""
    real = real_entries(term.names, masks, x.dim())  # all axes in one pass over x, which may be large
    return x if real is None else torch.where(real, x, x.new_zeros(()))


def real_entries(names: Sequence[str], masks: Mapping[str, Tensor], dims: int) -> Tensor | None:
    """Where no axis of these names, the last of `dims`, is padding: booleans that broadcast; None if all is real."""
    real: Tensor | None = None
    for place, name in enumerate(names, start=-len(names)):
        if name in masks:
            shape = [masks[name].shape[0], *(1 for _ in range(dims - 1))]
            shape[place] = masks[name].shape[1]
            here = masks[name].view(shape)
            real = here if real is None else real & here
    return real


def translate(x: Tensor, term: Term, key: str, shift: Tensor, masks: Mapping[str, Tensor]) -> Tensor:
    """x (B, ...) with the shift (B, d) added to its points, where the axis `key` of the term has points."""
    for axis, place in term.places():
        if axis.key == key and axis.kind == "point":
            assert isinstance(place, int)
            shape = [x.shape[0], *(1 for _ in term.names)]
            shape[place] = shift.shape[-1]
            x = zero_padding((x + shift.view(shape)).to(x.dtype), term, masks)
    return x


def _centroid(key: str, signature: Signature, inputs: Sequence[Input], masks: Mapping[str, Tensor]) -> Tensor:
    for x, term in zip(inputs, signature.inputs, strict=True):
        for axis, place in term.places():
            if axis.key == key and axis.kind == "point":
                assert isinstance(place, int)
                assert isinstance(x, Tensor)
                others = [other for other in range(1, x.dim()) if other != x.dim() + place]
                total = x.to(at_least_float32(x.dtype))
                total = total.sum(others) if others else total  # summing over no axes would sum over all
                return total / _count(x, term, place, masks)
    first = inputs[0]
    return torch.zeros(first.shape[0], signature.groups[key].axis_size() or 0, device=first.device)


def _count(x: Tensor, term: Term, place: int, masks: Mapping[str, Tensor]) -> Tensor | int:
    """How many points of x are real, at least 1: (B, 1), or one number for all."""
    count: Tensor | int = 1
    for other, name in enumerate(term.names, start=1):
        if other != x.dim() + place:
            count = count * (masks[name].sum(1, keepdim=True) if name in masks else x.shape[other])
    return count.clamp(min=1) if isinstance(count, Tensor) else max(count, 1)
