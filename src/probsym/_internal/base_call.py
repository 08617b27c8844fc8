"""The call of a base: with masks and further arguments, and whatever form its outputs have."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from probsym._internal.callables import PADDING, parameter_names, takes_mask
from probsym._internal.recomputed import can_recompute, recomputed
from probsym.errors import SignatureError
from probsym.ops.edge_list import EdgeList
from probsym.ops.transforms import traced
from probsym.signature import Term

if TYPE_CHECKING:
    from probsym.samplers.batch import Batch
    from probsym.samplers.draw import Draw


Key = str | int
"""What an output is called in what a base returns: its name in a mapping, its place in a tuple."""


@dataclasses.dataclass(frozen=True)
class BaseCall:
    """How to call a base.

    Args:
        output_keys: as for `as_outputs`.
        mask_argument: what the base calls its mask.
        takes_mask: whether it takes one.
        takes_none: whether it is also told so where there is no mask.
        other_mask: an argument that seems to be for a mask, if it takes none by that name.
    """

    output_keys: tuple[Key, ...] | None
    mask_argument: str
    takes_mask: bool
    takes_none: bool
    other_mask: str | None

    @staticmethod
    def of(base: Callable[..., Any], output_keys: tuple[Key, ...] | None, mask_argument: str | None) -> BaseCall:
        """As its parameters say; refused if it does not take the mask that it is said to take."""
        takes, none = (takes_mask(base, given=given, name=mask_argument) for given in (True, False))
        names = parameter_names(base)
        if mask_argument not in (None, "mask") and not takes:
            raise SignatureError(
                f"Expected a base that takes {mask_argument!r}, its mask_argument (got one that does not)"
            )
        others = sorted((name for name in names if "mask" in name), key=lambda name: not name.endswith(PADDING))
        other = None if takes else next(iter(others), None)
        return BaseCall(output_keys, mask_argument or "mask", takes, none, other)

    def values(
        self, base: Callable[..., Any], batch: Batch, draw: Draw, extra: Mapping[str, Any] | None, again: bool
    ) -> tuple[Tensor, ...]:
        """`rho_out(g) f(rho_in(g)^-1 x)` for every draw, (B, K, ...); if `again`, computed again for the gradient.

        `extra` are further arguments of the base by keyword: tensors of batch size B are repeated for the draws.
        """
        if again and can_recompute(batch.device):
            return recomputed(lambda: self._values(base, batch, draw, extra), base, batch.inputs)
        return self._values(base, batch, draw, extra)

    def _values(
        self, base: Callable[..., Any], batch: Batch, draw: Draw, extra: Mapping[str, Any] | None
    ) -> tuple[Tensor, ...]:
        rows, signature = batch.count * draw.count, batch.signature
        folded = [x.reshape(rows, *x.shape[2:]) if isinstance(x, Tensor) else x for x in draw.undo(batch)]
        returned = base(*folded, **self._options(batch, draw, extra or {}))
        outputs = as_outputs(returned, self.output_keys, len(signature.outputs))
        signature.check_outputs(outputs, batch.sizes, batch=rows)
        return draw.apply(batch, [y.unflatten(0, (batch.count, draw.count)) for y in outputs])

    def _options(self, batch: Batch, draw: Draw, extra: Mapping[str, Any]) -> dict[str, Any]:
        options = {
            name: value.repeat_interleave(draw.count, 0)
            if isinstance(value, Tensor) and value.dim() and value.shape[0] == batch.count
            else value
            for name, value in extra.items()
        }
        if self.other_mask is not None and batch.mask_names is not None and not traced():
            warnings.warn(
                f"Expected mask_argument={self.other_mask!r} for a base that takes its mask by that name (got "
                f"{self.mask_argument!r}, so it is called without a mask)",
                stacklevel=2,
            )
        if self.takes_none if batch.mask_names is None else self.takes_mask:
            name = self.mask_argument
            if name in options:
                raise SignatureError(f"Expected mask= rather than extra[{name!r}] (got both, or the latter)")
            masks = {key: mask.flatten(0, 1) for key, mask in draw.masks(batch).items()}
            options |= self.masked(masks if batch.mask_names else next(iter(masks.values()), None))
        return options

    def masked(self, mask: Tensor | Mapping[str, Tensor] | None) -> dict[str, Any]:
        """The mask by the name that the base has for it, and True where that has it."""
        if self.mask_argument.endswith(PADDING) and mask is not None:
            mask = ~mask if isinstance(mask, Tensor) else {key: ~each for key, each in mask.items()}
        return {self.mask_argument: mask}


def as_outputs(returned: Any, keys: Sequence[Key] | None, count: int) -> tuple[Tensor, ...]:
    """The outputs of a base that returned a tensor, a sequence, a mapping such as a ModelOutput, or a dataclass.

    Those called by `keys`, or all there are, in their order, of which there must then be `count`.

    >>> import torch
    >>> as_outputs({"loss": torch.zeros(()), "logits": torch.ones(2)}, ["logits"], 1)
    (tensor([1., 1.]),)
    >>> as_outputs((torch.ones(2), torch.zeros(3)), [0], 1)
    (tensor([1., 1.]),)
    """
    entries = _entries(returned)
    if keys is None and len(entries) != count:
        choice = ", or output_keys= to choose them" if len(entries) > count else ""
        raise SignatureError(f"Expected the base to return {count} outputs{choice} (got {_listed(entries)})")
    for key in keys or ():
        if key not in entries:
            raise SignatureError(
                f"Expected the base to return {key!r}, which output_keys names (got {_listed(entries)})"
            )
    return tuple(entries[key] for key in (entries if keys is None else keys))


def _listed(entries: Mapping[Any, Any]) -> str:
    """How many outputs there are, and what they are called."""
    return f"{len(entries)}: {', '.join(map(repr, entries))}" if entries else "none"


def _entries(returned: Any) -> Mapping[Any, Any]:
    """What a base returned by its names, or by its places; a tensor is alone, at place 0."""
    if isinstance(returned, tuple | list):
        return returned._asdict() if hasattr(returned, "_asdict") else dict(enumerate(returned))
    if isinstance(returned, Mapping):
        return {name: value for name, value in returned.items() if value is not None}
    if dataclasses.is_dataclass(returned) and not isinstance(returned, type | EdgeList):  # which is no output
        values = {field.name: getattr(returned, field.name) for field in dataclasses.fields(returned)}
        return {name: value for name, value in values.items() if value is not None}
    return {0: returned}


def check_keys(keys: Sequence[Key] | None, outputs: Sequence[Term]) -> tuple[Key, ...] | None:
    """One name or place for every output, or None."""
    if keys is None:
        return None
    if (
        isinstance(keys, str)
        or len(keys) != len(outputs)
        or any(isinstance(key, bool) or not isinstance(key, Key) for key in keys)
    ):
        raise SignatureError(f"Expected output_keys to name {len(outputs)} outputs (got {keys!r})")
    return tuple(keys)
