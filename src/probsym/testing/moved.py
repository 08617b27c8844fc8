"""A batch and what a group element makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from probsym._internal.frozen import frozen
from probsym.ops.edge_list import Input
from probsym.ops.precision import at_least_float32
from probsym.samplers.batch import without_padding, zero_padding
from probsym.signature import Signature
from probsym.symmetrized import Mask


@dataclass(frozen=True, eq=False)
class Moved:
    """Inputs and mask moved by one element g for each batch item; E and SE translate too."""

    signature: Signature
    g: Mapping[str, Tensor]
    inputs: tuple[Input, ...]
    mask: Mask | None

    @staticmethod
    def at_random(
        signature: Signature, inputs: Sequence[Input], mask: Mask | None, generator: torch.Generator | None
    ) -> Moved:
        """Draw g, anywhere in the group, and move the inputs and their mask."""
        sizes = signature.check_inputs(inputs, mask)
        first = next((x for x in inputs if x.is_floating_point()), inputs[0])
        dtype = at_least_float32(first.dtype) if first.is_floating_point() else torch.float32
        g, batch, device = {}, (first.shape[0],), first.device
        for key, group in signature.groups.items():
            g[key] = group.random(batch, size=sizes.get(key), dtype=dtype, device=device, generator=generator)
        return Moved.by(signature, g, inputs, mask)

    @staticmethod
    def by(signature: Signature, g: Mapping[str, Tensor], inputs: Sequence[Input], mask: Mask | None) -> Moved:
        """The inputs and their mask moved by g, elements (B, ...) by axis."""
        masks = signature.masks(mask)
        clean = [without_padding(x, term, masks) for x, term in zip(inputs, signature.inputs, strict=True)]
        moved = {name: signature.groups[name].act(g[name], real) if name in g else real for name, real in masks.items()}
        if isinstance(mask, Tensor):
            (where,) = moved.values()
            return Moved(signature, g, signature.act(g, clean), where)
        return Moved(signature, g, signature.act(g, clean), moved if mask is not None else None)

    def only(self, key: str, inputs: Sequence[Input], mask: Mask | None) -> Moved:
        """The inputs moved by the element of one axis alone."""
        g = {name: element if name == key else self._still(name, element) for name, element in self.g.items()}
        return Moved.by(self.signature, g, inputs, mask)

    def _still(self, key: str, g: Tensor) -> Tensor:
        group = self.signature.groups[key]
        return group.identity(g.shape[:1], size=g.shape[-1], dtype=g.dtype, device=g.device)

    def outputs(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Values (B, K, ...) of the original inputs, moved by g; padding zero."""
        draws = values[0].shape[1]
        each = {key: element.repeat_interleave(draws, 0) for key, element in self.g.items()}
        masks = {name: real.repeat_interleave(draws, 0) for name, real in self.signature.masks(self.mask).items()}
        moved = self.signature.act_on_outputs(each, [y.flatten(0, 1) for y in values])
        terms = self.signature.outputs
        return [
            zero_padding(y, term, masks).view(value.shape) for y, term, value in zip(moved, terms, values, strict=True)
        ]


@contextmanager
def evaluating(model: Callable[..., Any]) -> Iterator[None]:
    """A module in evaluation, its parameters without gradient; everything goes back to what it was.

    Gradients as such stay on, since a model may differentiate inside, as for forces. Without those of parameters,
    samplers make no relaxations, and nothing is kept of what a module computes.
    """
    module = model if isinstance(model, nn.Module) else nn.Module()
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with frozen(module):
            yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def as_list(outputs: Any) -> list[Tensor]:
    """One output or several, as a list, without the graph behind them, which would keep memory from call to call."""
    return [y.detach() for y in ([outputs] if isinstance(outputs, Tensor) else outputs)]
