"""Whether tensors and masks fit the terms of a signature. Every complaint names the term and the axis at fault."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from probsym.errors import (
    DeviceError,
    DtypeError,
    GroupError,
    MaskError,
    NonFiniteError,
    RangeError,
    ShapeError,
    SignatureError,
)
from probsym.groups import Group
from probsym.ops.argument_checks import readable
from probsym.ops.edge_list import EdgeList, Input, numbers
from probsym.ops.precision import at_least_float32

if TYPE_CHECKING:
    from probsym.signature import Term


def check_tensors(
    tensors: Sequence[Input], terms: Sequence[Term], side: str, groups: Mapping[str, Group], known: Mapping[str, int]
) -> dict[str, int]:
    """Refuse tensors whose number, rank, sizes, dtypes or devices do not fit; return all sizes by axis name.

    `side` is "input" or "output"; `known` are sizes that names have already. An input of pairs may be an `EdgeList`.
    """
    check_count(tensors, terms, side)
    sizes = dict(known)
    floating: tuple[str, Input] | None = None
    for i, (term, x) in enumerate(zip(terms, tensors, strict=True)):
        label = f"{side} {i} ({str(term)!r})"
        if isinstance(x, EdgeList) and side == "input":
            _check_pairs(label, term, groups)
        elif not isinstance(x, Tensor):
            raise DtypeError(f"Expected {label} to be a tensor (got {type(x).__name__})")
        _check_kind(label, numbers(x))
        if len(x.shape) != 1 + len(term.names):
            raise ShapeError(
                f"Expected {label} to have {1 + len(term.names)} axes, batch first (got shape {tuple(x.shape)})"
            )
        if i > 0:
            _check_alike(label, x, f"{side} 0", tensors[0])
        if x.is_floating_point() and side == "input":  # outputs may differ, as they do under autocast
            floating = floating or (f"{side} {i}", x)
            if x.dtype != floating[1].dtype:
                raise DtypeError(f"Expected {label} to be {floating[1].dtype} like {floating[0]} (got {x.dtype})")
        for name, size in zip(term.names, x.shape[1:], strict=True):
            if name in known and known[name] != size:
                raise ShapeError(f"Expected {label} to have size {known[name]} on axis {name!r} (got {size})")
            if sizes.setdefault(name, size) != size:
                raise ShapeError(
                    f"Expected {label} to have equal sizes on axis {name!r} (got {sizes[name]} and {size})"
                )
        if numbers(x).is_complex():
            raise DtypeError(
                f"Expected {label} to be real (got {x.dtype}); torch.view_as_real makes a channel axis of the parts"
            )
        _check_groups(label, term, x, groups)
    return sizes


def _check_pairs(label: str, term: Term, groups: Mapping[str, Group]) -> None:
    """Refuse edges for a term that has more than pairs of items that a group renames, and channels that stay."""
    first, *rest = term.axes
    if not rest or rest[0] != first or len(term.names) > 3 or first.key in term.names[2:]:
        raise DtypeError(f"Expected {label} to be a tensor: a list of edges is for pairs such as 'n n' (got EdgeList)")
    if not groups[first.key].renames:
        raise GroupError(
            f"Expected {label} to be a tensor, since {groups[first.key]!r} on {first.key!r} has not the verb "
            f"`renaming`, by which edges are moved (got EdgeList)"
        )
    for axis in rest[1:]:
        if axis.key in groups:
            raise GroupError(
                f"Expected {label} to be a tensor, since {groups[axis.key]!r} acts on '{axis}', the values of a list "
                f"of edges (got EdgeList)"
            )


def _check_kind(label: str, x: Tensor) -> None:
    """Refuse tensors without numbers at their places, and those too short to compute with."""
    if x.layout != torch.strided:
        raise DtypeError(f"Expected {label} to be dense (got {x.layout})")
    if x.is_floating_point() and x.dtype.itemsize < 2:
        raise DtypeError(f"Expected {label} to be of 16 bits or more (got {x.dtype})")


def check_count(tensors: Sequence[Input], terms: Sequence[Term], side: str) -> None:
    """Refuse more or fewer tensors than there are terms."""
    if len(tensors) != len(terms):
        wanted = ", ".join(repr(str(term)) for term in terms)
        raise ShapeError(f"Expected {len(terms)} {side}s: {wanted} (got {len(tensors)})")


def _check_alike(label: str, x: Input, first_label: str, first: Input) -> None:
    if x.shape[0] != first.shape[0]:
        raise ShapeError(f"Expected {label} to have batch size {first.shape[0]} like {first_label} (got {x.shape[0]})")
    if x.device != first.device:
        raise DeviceError(f"Expected {label} to be on {first.device} like {first_label} (got {x.device})")


def _check_groups(label: str, term: Term, x: Input, groups: Mapping[str, Group]) -> None:
    for axis, place in term.places():
        if axis.key not in groups:
            continue
        group = groups[axis.key]
        sizes = [x.shape[dimension] for dimension in ([place] if isinstance(place, int) else place)]
        wanted = group.axis_size(axis.kind)
        if wanted is not None and sizes[0] != wanted:
            raise ShapeError(
                f"Expected {label} to have size {wanted} on axis {axis.key!r} for {group!r} (got {sizes[0]})"
            )
        if 0 in sizes:
            raise ShapeError(f"Expected {label} to have at least one entry on axis {axis.key!r} (got 0)")
        if group.needs_square and len(set(sizes)) > 1:
            shape = " x ".join(str(size) for size in sizes)
            raise ShapeError(f"Expected {label} to be square on axes {axis.key!r} for {group!r} (got {shape})")
        kind = "plain" if axis.kind == "point" else axis.kind
        if "uniform" not in group.linear.noise_laws(kind) and not x.is_floating_point():  # it mixes entries
            raise DtypeError(f"Expected {label} to be floating, since {group!r} rotates {axis.key!r} (got {x.dtype})")


def check_masks(
    masks: Mapping[str, Tensor], groups: Mapping[str, Group], sizes: Mapping[str, int], first: Input
) -> None:
    """Refuse masks for axes that have none, or of the wrong dtype, shape or device; `first` is the first input."""
    for name, mask in masks.items():
        if name not in sizes:
            raise MaskError(f"Expected a mask for one of the axes {list(sizes)} (got {name!r})")
        for key, group in groups.items():
            if name in key.split() and not group.takes_mask:
                raise MaskError(f"Expected no mask on axis {name!r}, which {group!r} transforms (got one)")
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
            kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
            raise MaskError(f"Expected mask {name!r} to be boolean (got {kind})")
        wanted = (first.shape[0], sizes[name])
        if tuple(mask.shape) != wanted:
            raise MaskError(f"Expected mask {name!r} to have shape {wanted} (got {tuple(mask.shape)})")
        if mask.device != first.device:
            raise MaskError(f"Expected mask {name!r} to be on {first.device} like input 0 (got {mask.device})")


def check_masked_channels(tensors: Sequence[Input], terms: Sequence[Term], masks: Mapping[str, Tensor]) -> None:
    """Refuse a mask on the channels of a list of edges, which are not put in order."""
    for i, (term, x) in enumerate(zip(terms, tensors, strict=True)):
        if isinstance(x, EdgeList) and any(name in masks for name in term.names[2:]):
            raise MaskError(
                f"Expected no mask on axis {term.names[2]!r} of input {i} ({str(term)!r}), the channels of a list of "
                f"edges (got one)"
            )


def check_finite(tensors: Sequence[Input], terms: Sequence[Term], masks: Mapping[str, Tensor]) -> None:
    """Refuse NaN and infinity outside the padding, and masks that leave a batch item empty."""
    for name, mask in masks.items():
        empty = ~mask.any(-1)
        if empty.any():
            item = int(empty.nonzero()[0])
            raise MaskError(f"Expected a real entry in every batch item of mask {name!r} (got none in item {item})")
    for i, (term, x) in enumerate(zip(terms, tensors, strict=True)):
        if isinstance(x, EdgeList):
            _check_finite_edges(x, f"input {i} ({str(term)!r})", masks.get(term.names[0]))
            continue
        bad = ~torch.isfinite(x)
        for place, name in enumerate(term.names, start=1):
            if name in masks:
                shape = [x.shape[0], *(1 for _ in term.names)]
                shape[place] = x.shape[place]
                bad = bad & masks[name].view(shape)
        if bad.any():
            where = tuple(bad.nonzero()[0].tolist())
            raise NonFiniteError(f"Expected input {i} ({str(term)!r}) to be finite (got {x[where].item()} at {where})")


def _check_finite_edges(edges: EdgeList, label: str, mask: Tensor | None) -> None:
    values = (edges if mask is None else edges.masked(mask)).values
    bad = ~torch.isfinite(values)
    if bad.any():
        where = tuple(bad.nonzero()[0].tolist())
        place = (*edges.index[:, where[0]].tolist(), *where[1:])
        raise NonFiniteError(f"Expected {label} to be finite (got {values[where].item()} at {place})")


def seeds_or_generator(
    seed: object, first: Input, generator: torch.Generator | None, noise: object
) -> Tensor | torch.Generator | None:
    """The source of the draws: a seed for every batch item, int64 (B,), if one was given for all or for each."""
    if seed is None:
        return generator
    if generator is not None or noise is not None:
        raise RangeError(f"Expected no {'noise' if generator is None else 'generator'} beside seed (got both)")
    if not isinstance(seed, Tensor):
        if not hasattr(seed, "__index__") or isinstance(seed, bool):
            raise DtypeError(f"Expected seed to be an integer or an int64 tensor (got {type(seed).__name__})")
        if not -(2**63) <= operator.index(seed) < 2**63:
            raise RangeError(f"Expected seed to be in the range of int64 (got {seed})")
        return torch.full((first.shape[0],), operator.index(seed), device=first.device)
    if seed.dtype != torch.int64:
        raise DtypeError(f"Expected seed to be int64 (got {seed.dtype})")
    if tuple(seed.shape) != (first.shape[0],):
        raise ShapeError(
            f"Expected seed to have shape ({first.shape[0]},), one for each item (got {tuple(seed.shape)})"
        )
    if seed.device != first.device:
        raise DeviceError(f"Expected seed to be on {first.device} like input 0 (got {seed.device})")
    return seed


def check_read(
    reads: Sequence[int],
    given: Sequence[Input],
    ready: Sequence[Input],
    terms: Sequence[Term],
    masks: Mapping[str, Tensor],
) -> None:
    """Refuse NaN and infinity in what a sampler reads, which would name elements at random, or the same for all.

    `ready` are the inputs with zeros for padding. One sum tells, since it is finite only if all are.
    """
    for i in reads:
        x = numbers(ready[i]).detach()
        if x.is_floating_point() and readable(x):
            total = x.sum(dtype=at_least_float32(x.dtype))
            if not math.isfinite(total.item()):
                check_finite(given, terms, masks)


def check_residual(residual: int | None, inputs: Sequence[Term], outputs: Sequence[Term]) -> int | None:
    """The number of an input that has the term of the only output, or None."""
    if residual is None:
        return None
    if not isinstance(residual, int) or isinstance(residual, bool) or not 0 <= residual < len(inputs):
        raise SignatureError(f"Expected residual to be the number of an input, below {len(inputs)} (got {residual!r})")
    if tuple(outputs) != (inputs[residual],):
        terms = ", ".join(f"'{term}'" for term in outputs)
        raise SignatureError(
            f"Expected the output to be '{inputs[residual]}', as input {residual} that is added (got {terms})"
        )
    return residual


def check_residual_input(residual: int | None, inputs: Sequence[Input]) -> None:
    """Refuse edges for an input that is added to the output, a tensor."""
    if residual is not None and any(isinstance(x, EdgeList) for x in inputs[residual : residual + 1]):
        raise DtypeError(f"Expected input {residual}, which is the residual, to be a tensor (got EdgeList)")
