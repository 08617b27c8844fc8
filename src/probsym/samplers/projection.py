"""From the features that a net returns to a draw of group elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from probsym.errors import DtypeError, GroupError, ShapeError, SignatureError
from probsym.groups import Group
from probsym.groups.base import Carrier
from probsym.nets.features import Features
from probsym.ops.edge_list import Input, numbers
from probsym.ops.ranks import merged_ties
from probsym.ops.transforms import needs_gradient, traced
from probsym.samplers.batch import Batch
from probsym.samplers.draw import Draw
from probsym.samplers.noise import Noise


def feature_field(group: Group) -> str:
    """Which features name an element of the group; refused if none do."""
    if group.feature_field is None:
        raise GroupError(f"Expected a group that has a `feature_field` for a sampler with a net (got {group!r})")
    return group.feature_field


def named_features(
    batch: Batch, net: Callable[..., Any], inputs: Sequence[Input], input_gradient: bool, **options: Any
) -> Any:
    """What a net makes of its inputs, with the gradient that the inputs are to get.

    Orders and choices are locally constant, so scores and logits pass nothing to the inputs, unless `input_gradient`
    asks for the straight-through gradient; vectors pass all. Parameters get theirs in any case. Where a net gives both,
    and inputs require a gradient, it is called twice. `options` are given to the net by keyword.
    """
    call = partial(net, **options)
    if input_gradient or not needs_gradient(*map(numbers, inputs)):
        return call(*inputs)
    chosen = {group.chooses for group in batch.groups.values()}
    still = [x.detach() for x in inputs]
    if chosen == {True}:
        return call(*still)
    if True not in chosen:
        return call(*inputs)
    with _without_trace(net, batch.device):
        moving = call(*inputs)
    constant = call(*still)
    if not isinstance(moving, Features) or not isinstance(constant, Features):
        return moving  # which is refused: one tensor cannot name elements of several groups
    fields = {feature_field(group): group.chooses for group in batch.groups.values()}
    return Features.join({name: (constant if chooses else moving).get(name) for name, chooses in fields.items()})


@contextmanager
def _without_trace(net: Callable[..., Any], device: torch.device) -> Iterator[None]:
    """A call of a net in training that is to be made again: random numbers and statistics are then as before.

    Compiled code, which cannot be taken back, goes on as after two calls.
    """
    if not isinstance(net, nn.Module) or not net.training or traced():
        yield
        return
    before = [(buffer, buffer.clone()) for buffer in net.buffers()]
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield
    for buffer, value in before:
        buffer.data.copy_(value)  # past autograd, which would take it for a change of what the first call has read


def by_axis(batch: Batch, returned: object, draws: int) -> dict[str, Tensor]:
    """The features of every bound axis, (B, draws, ...) in at least float32, checked."""
    groups = batch.groups
    if isinstance(returned, Tensor):
        fields = sorted({feature_field(group) for group in groups.values()})
        if len(groups) != 1:
            raise SignatureError(f"Expected the net to return Features with {fields} (got one tensor)")
        returned = Features.join({fields[0]: returned})
    if not isinstance(returned, Features):
        raise SignatureError(f"Expected the net to return a tensor or Features (got {type(returned).__name__})")
    return {key: _checked(batch, key, _pick(batch, returned, key), draws) for key in groups}


def project(
    batch: Batch, features: Mapping[str, Tensor], noise: Noise, draws: int, *, tau: float, merge_ties: bool = False
) -> Draw:
    """The elements that features (B, K, ...), or (B, 1, ...) for all draws, name; noise decides where they do not.

    With `merge_ties`, scores that differ by rounding only count as equal.
    """
    elements: dict[str, Tensor] = {}
    carriers: dict[str, Carrier] = {}
    expanded: dict[str, Tensor] = {}
    for key, group in batch.groups.items():
        z, mask = features[key], batch.mask_of(key)
        z = z.expand(-1, draws, *z.shape[2:])
        if merge_ties and group.compares_features:
            z = merged_ties(z, mask)
        expanded[key] = z
        elements[key], carriers[key] = group.choose(z, noise=noise.breaks(key), tau=tau, mask=mask)
    return Draw(draws, elements, carriers, features=expanded)


def entropy(batch: Batch, draw: Draw, tau: float) -> Tensor:
    """That of the relaxed choices that a draw was projected by, mean over draws and batch, summed over the axes."""
    groups, total = batch.groups, torch.zeros((), dtype=batch.dtype, device=batch.device)
    for key, z in draw.features.items():
        axis_entropy = groups[key].entropy(z, draw.carriers[key], tau)
        total = total if axis_entropy is None else total + axis_entropy.mean()
    return total


def prior(batch: Batch, draw: Draw, tau: float) -> Tensor:
    """How far the elements of a draw are from the identity, mean over draws and batch, summed over the axes."""
    groups, total = batch.groups, torch.zeros((), dtype=batch.dtype, device=batch.device)
    for key, z in draw.features.items():
        total = total + groups[key].prior(z, draw.carriers[key], tau).mean()
    return total


def _pick(batch: Batch, features: Features, key: str) -> Tensor:
    groups = batch.groups
    field = feature_field(groups[key])
    value = features.get(field)
    if isinstance(value, Mapping):
        value = value.get(key)
    elif value is not None and sum(feature_field(group) == field for group in groups.values()) > 1:
        raise SignatureError(
            f"Expected the net to return {field} as {{axis: tensor}} (got one tensor for several axes)"
        )
    if not isinstance(value, Tensor):
        raise SignatureError(f"Expected the net to return {field} for {groups[key]!r} on axis {key!r} (got none)")
    return value


def _checked(batch: Batch, key: str, value: Tensor, draws: int) -> Tensor:
    group = batch.groups[key]
    field, shape = feature_field(group), group.feature_shape(batch.sizes.get(key))
    returned_shape = tuple(value.shape)
    if value.dim() == 1 + len(shape):  # from a net that was given nothing with draws
        value = value.unsqueeze(1)
    fits = value.dim() == 2 + len(shape) and value.shape[0] == batch.count and value.shape[1] in (1, draws)
    if not fits or tuple(value.shape[2:]) != shape:
        wanted = (batch.count, draws, *shape)
        raise ShapeError(f"Expected {field} of shape {wanted} from the net for axis {key!r} (got {returned_shape})")
    if not value.is_floating_point():
        raise DtypeError(f"Expected {field} from the net to be floating (got {value.dtype})")
    return value.to(torch.promote_types(value.dtype, batch.dtype))
