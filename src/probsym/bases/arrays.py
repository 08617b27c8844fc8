"""What a base model reads and returns: arrays over n items, written like a signature with sizes for its channels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from probsym.errors import DeviceError, DtypeError, MaskError, ShapeError, SignatureError
from probsym.ops.edge_list import EdgeList, Input

Mask = Tensor | Mapping[str, Tensor]
"""Of the items, or of several axes by name."""
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Array:
    """One number or `channels` numbers for every tuple of `order` items: "n n 2" is order 2 with 2 channels."""

    order: int
    channels: int | None
    name: str = "n"

    @property
    def width(self) -> int:
        """How many numbers each tuple of items has."""
        return 1 if self.channels is None else self.channels

    def shape(self, batch: int, n: int) -> tuple[int, ...]:
        return (batch, *[n] * self.order, *([] if self.channels is None else [self.channels]))

    def __str__(self) -> str:
        return " ".join([self.name] * self.order + ([] if self.channels is None else [str(self.channels)]))


@dataclass(frozen=True)
class Arrays:
    """The inputs and the output of a base model.

    Each array is one term: the name of the items, repeated as often as the array's order, then the number of channels,
    which is left out if there is no channel axis. A leading batch axis is implied.

    >>> arrays = Arrays.parse("n 3, n 3, n n 2 -> n 3")  # positions, velocities, pair features -> displacements
    >>> print(arrays, arrays.order)
    n 3, n 3, n n 2 -> n 3 2
    """

    inputs: tuple[Array, ...]
    output: Array

    @staticmethod
    def parse(text: str) -> Arrays:
        """Parse the notation."""
        if not isinstance(text, str) or text.count("->") != 1:
            raise SignatureError(f"Expected arrays as text with one '->', like 'n 3, n n 2 -> n 3' (got {text!r})")
        left, right = text.split("->")
        inputs = tuple(_parse(part, f"input {i}", text) for i, part in enumerate(left.split(",")))
        output = _parse(right, "output", text)
        names = {array.name for array in (*inputs, output) if array.order}
        if len(names) > 1:
            raise SignatureError(f"Expected one name for the items in {text!r} (got {', '.join(sorted(names))})")
        for i, array in enumerate(inputs):
            if array.order == 0 and array.channels is None:
                raise SignatureError(f"Expected input {i} of {text!r} to name an axis (got an empty term)")
        return Arrays(inputs, output)

    def __str__(self) -> str:
        return f"{', '.join(str(array) for array in self.inputs)} -> {self.output}".rstrip()

    @property
    def order(self) -> int:
        """The highest order of all inputs and the output."""
        return max(array.order for array in (*self.inputs, self.output))

    def width(self, order: int) -> int:
        """The total number of channels of the inputs of one order."""
        return sum(array.width for array in self.inputs if array.order == order)

    def allow(self, owner: str, *, inputs: Sequence[int] | None = None, output: Sequence[int] | None = None) -> None:
        """Refuse orders that the base called `owner` cannot handle, and inputs that leave the number of items open."""
        for i, array in enumerate(self.inputs):
            if inputs is not None and array.order not in inputs:
                raise SignatureError(f"Expected {owner} to read order {_any(inputs)} in input {i} (got '{array}')")
        if output is not None and self.output.order not in output:
            raise SignatureError(f"Expected {owner} to return order {_any(output)} (got '{self.output}')")
        if not any(array.order for array in self.inputs):
            raise SignatureError(f"Expected {owner} to read an array over items, like 'n 3' (got '{self}')")

    def check(self, inputs: Sequence[Input], most: int | None = None, *, edges: bool = False) -> tuple[int, int]:
        """Refuse inputs that do not fit, or have more than `most` items; return the batch size and n.

        With `edges`, arrays of order 2 may be given as an `EdgeList`. n = 0 is refused, since a mean over
        no items is undefined, except in an empty batch.
        """
        if len(inputs) != len(self.inputs):
            raise ShapeError(f"Expected {len(self.inputs)} inputs, '{self}' (got {len(inputs)})")
        labels = [f"input {i} ('{array}')" for i, array in enumerate(self.inputs)]
        for array, x, label in zip(self.inputs, inputs, labels, strict=True):
            _check_kind(x, label, edges and array.order == 2)
        batch = inputs[0].shape[0] if inputs[0].shape else 0
        n = next((x.shape[1] for array, x in zip(self.inputs, inputs, strict=True) if array.order and x.shape[1:]), 0)
        for array, x, label in zip(self.inputs, inputs, labels, strict=True):
            wanted = array.shape(batch, n)
            if tuple(x.shape) != wanted:
                raise ShapeError(f"Expected {label} to have shape {wanted} (got {tuple(x.shape)})")
            if x.device != inputs[0].device:
                raise DeviceError(f"Expected {label} to be on {inputs[0].device} like input 0 (got {x.device})")
        if most is not None and n > most:
            raise ShapeError(f"Expected at most {most} items (got {n})")
        if n == 0 and batch and any(array.order for array in self.inputs):
            raise ShapeError("Expected at least one item (got 0)")
        return batch, n

    def nodes_and_pairs(self, inputs: Sequence[Input], dtype: torch.dtype) -> tuple[list[Tensor], Input]:
        """Of inputs that fit, those of order 1, with a channel axis, and the one of order 2."""
        given = list(zip(self.inputs, inputs, strict=True))
        (pairs,) = [x for array, x in given if array.order == 2]
        nodes = [channels_last(array, x, dtype) for array, x in given if array.order == 1 and isinstance(x, Tensor)]
        return nodes, pairs.to(dtype)


def items_mask(mask: Mask | None, batch: int, n: int, device: torch.device) -> Tensor | None:
    """The mask of the items, checked: of several by name the first that is (batch, n)."""
    if isinstance(mask, Mapping):
        fitting = [
            candidate
            for candidate in mask.values()
            if isinstance(candidate, Tensor) and tuple(candidate.shape) == (batch, n)
        ]
        if mask and not fitting:
            shapes = {
                name: tuple(candidate.shape) if isinstance(candidate, Tensor) else type(candidate)
                for name, candidate in mask.items()
            }
            raise MaskError(f"Expected a mask {(batch, n)} among those given (got {shapes})")
        mask = fitting[0] if fitting else None
    check_mask(mask, batch, n, device)
    return mask


def check_mask(mask: Tensor | None, batch: int, n: int, device: torch.device | None = None) -> None:
    """Refuse a mask that is not boolean (batch, n), or not on the device, where one is named."""
    if mask is None:
        return
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or tuple(mask.shape) != (batch, n):
        description = f"{tuple(mask.shape)}, {mask.dtype}" if isinstance(mask, Tensor) else type(mask).__name__
        raise MaskError(f"Expected mask to be boolean {(batch, n)} (got {description})")
    if device is not None and mask.device != device:
        raise MaskError(f"Expected mask to be on {device} like input 0 (got {mask.device})")


def channels_last(array: Array, x: Tensor, dtype: torch.dtype) -> Tensor:
    """The input with a channel axis in any case, in the dtype of the parameters."""
    return (x.unsqueeze(-1) if array.channels is None else x).to(dtype)


def _check_kind(x: Any, label: str, edges: bool) -> None:
    """Refuse what is no dense tensor of real numbers, nor edges where they are allowed."""
    values = x.values if edges and isinstance(x, EdgeList) else x
    if not isinstance(values, Tensor) or values.is_complex():
        kind = values.dtype if isinstance(values, Tensor) else type(values).__name__
        raise DtypeError(f"Expected {label} to be a tensor of real numbers (got {kind})")
    if values.layout != torch.strided:
        raise DtypeError(f"Expected {label} to be a dense tensor (got {values.layout})")


def _parse(text: str, where: str, whole: str) -> Array:
    tokens = text.split()
    channels = int(tokens.pop()) if tokens and tokens[-1].isdecimal() else None
    if channels == 0:
        raise SignatureError(f"Expected {where} of {whole!r} to have 1 channel or more (got 0)")
    for token in tokens:
        if not _NAME.fullmatch(token) or token != tokens[0]:
            raise SignatureError(
                f"Expected {where} of {whole!r} to be one name, repeated or not, and a number (got {text.strip()!r})"
            )
    return Array(len(tokens), channels, tokens[0] if tokens else "n")


def _any(orders: Sequence[int]) -> str:
    return " or ".join(str(order) for order in orders)
