"""From the features that a net returns to a draw of group elements."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from probsym.errors import DtypeError, RangeError, ShapeError, SignatureError
from probsym.groups import E, Group, S
from probsym.groups.planar import PlanarGroup
from probsym.nets.features import Features
from probsym.ops import Order, soft_sort
from probsym.ops.ranks import ranks
from probsym.samplers.batch import Batch
from probsym.samplers.draw import Draw
from probsym.samplers.noise import Noise

CLOSE = {torch.float32: 1e-5, torch.float64: 1e-10}
"""Scores that differ by less, relative to the largest, are ties where a tie cannot be noise."""


def feature_kind(group: Group) -> str:
    """Which features name an element of the group."""
    if isinstance(group, S):
        return "scores"
    return "logits" if isinstance(group, PlanarGroup) else "vectors"


def by_axis(batch: Batch, found: object, draws: int) -> dict[str, Tensor]:
    """The features of every bound axis, (B, draws, ...) in at least float32, checked."""
    groups = batch.signature.groups
    if isinstance(found, Tensor):
        kinds = {feature_kind(group) for group in groups.values()}
        if len(groups) != 1:
            raise SignatureError(f"Expected the net to return Features with {sorted(kinds)} (got one tensor)")
        found = Features(**{kinds.pop(): found})
    if not isinstance(found, Features):
        raise SignatureError(f"Expected the net to return a tensor or Features (got {type(found).__name__})")
    return {key: _checked(batch, key, _pick(batch, found, key), draws) for key in groups}


def project(
    batch: Batch, features: Mapping[str, Tensor], noise: Noise, draws: int, *, tau: float, merge_ties: bool = False
) -> Draw:
    """The elements that features (B, K, ...), or (B, 1, ...) for all draws, name; noise decides where they do not.

    With `merge_ties`, scores that differ by rounding only count as equal.
    """
    elements: dict[str, Tensor] = {}
    carriers: dict[str, Order | Tensor] = {}
    expanded: dict[str, Tensor] = {}
    for key, group in batch.signature.groups.items():
        z = features[key]
        z = z.expand(-1, draws, *z.shape[2:])
        if merge_ties and isinstance(group, S | PlanarGroup):
            z = _merged(z, batch.mask_of(key))
        expanded[key] = z
        if isinstance(group, S):
            mask = batch.mask_of(key)
            carriers[key] = order = soft_sort(z, mask=mask, ties=noise.ties.get(key), tau=tau)
            elements[key] = order.index
        elif isinstance(group, PlanarGroup):
            ties = noise.ties.get(key)
            elements[key] = carriers[key] = group.project(z, noise=ties)
            if torch.is_grad_enabled() and z.requires_grad:
                carriers[key] = group.straight_through(z, noise=ties, tau=tau)
        else:
            elements[key] = carriers[key] = group.project(z, noise=noise.completion.get(key))
    return Draw(draws, elements, carriers, features=expanded)


def check_tau(tau: float) -> None:
    """Refuse a temperature that is not positive."""
    if not tau > 0:
        raise RangeError(f"Expected tau to be positive (got {tau})")


def _pick(batch: Batch, found: Features, key: str) -> Tensor:
    groups = batch.signature.groups
    kind = feature_kind(groups[key])
    value = getattr(found, kind)
    if isinstance(value, Mapping):
        value = value.get(key)
    elif value is not None and sum(feature_kind(group) == kind for group in groups.values()) > 1:
        raise SignatureError(f"Expected the net to return {kind} as {{axis: tensor}} (got one tensor for several axes)")
    if not isinstance(value, Tensor):
        raise SignatureError(f"Expected the net to return {kind} for {groups[key]!r} on axis {key!r} (got none)")
    return value


def _checked(batch: Batch, key: str, value: Tensor, draws: int) -> Tensor:
    group = batch.signature.groups[key]
    kind = feature_kind(group)
    if kind == "scores":
        shape: tuple[int, ...] = (batch.sizes[key],)
    elif isinstance(group, PlanarGroup):
        shape = (group.order,)
    else:
        shape = (group.axis_size() or 0,) * 2
    found = tuple(value.shape)
    if value.dim() == 1 + len(shape):  # from a net that was given nothing with draws
        value = value.unsqueeze(1)
    fits = value.dim() == 2 + len(shape) and value.shape[0] == len(batch) and value.shape[1] in (1, draws)
    if not fits or tuple(value.shape[2:]) != shape:
        wanted = (len(batch), draws, *shape)
        raise ShapeError(f"Expected {kind} of shape {wanted} from the net for axis {key!r} (got {found})")
    if not value.is_floating_point():
        raise DtypeError(f"Expected {kind} from the net to be floating (got {value.dtype})")
    value = value.to(torch.promote_types(value.dtype, batch.dtype))
    return torch.cat([value, torch.zeros_like(value[..., :1])], -1) if isinstance(group, E) else value


def _merged(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores with the same value for those that only rounding keeps apart; the gradient is that of the scores."""
    values = scores.detach() if mask is None else torch.where(mask, scores.detach(), -torch.inf)
    size = values.abs() if mask is None else torch.where(mask, values, 0).abs()
    classes = ranks(values, CLOSE[scores.dtype] * size.amax(-1, keepdim=True))
    merged = torch.full_like(values, -torch.inf).scatter_reduce_(-1, classes, values, "amax").gather(-1, classes)
    merged = merged if mask is None else torch.where(mask, merged, scores.detach())
    return merged + (scores - scores.detach())
