"""The randomness of a sampler as a value: drawn once, moved along with the input, given again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from probsym.groups import Group
from probsym.ops.seeded import Seeded
from probsym.samplers.batch import Batch, real_entries
from probsym.signature import Signature, Term


class Noise(NamedTuple):
    """All random numbers behind K draws for a batch; every tensor is (B, K, ...).

    With it a sampler is a function: `phi(g x; g noise) = g phi(x; noise)`, which is how equivariance is tested.
    """

    inputs: tuple[Tensor, ...]
    """Added to the inputs that a net wants perturbed."""
    ties: dict[str, Tensor]
    """Decide between equal scores or logits, by axis."""
    completion: dict[str, Tensor]
    """Gaussian features that complete rotations whose own do not span, by axis."""
    elements: dict[str, Tensor]
    """Group elements, by axis."""

    def breaks(self, key: str) -> Tensor | None:
        """What decides on an axis where features name several elements."""
        return self.ties.get(key, self.completion.get(key))

    def tensors(self) -> Iterator[Tensor]:
        """Every tensor in it."""
        yield from self.inputs
        for named in self[1:]:
            yield from named.values()

    def named(self) -> dict[str, Tensor]:
        """The same as one dictionary, with names such as "inputs.0" and "ties.n"."""
        tensors = {f"inputs.{i}": tensor for i, tensor in enumerate(self.inputs)}
        for field, named in zip(self._fields[1:], self[1:], strict=True):
            tensors |= {f"{field}.{key}": tensor for key, tensor in named.items()}
        return tensors

    @staticmethod
    def from_named(tensors: Mapping[str, Tensor]) -> Noise:
        """What `named` gives, as noise again."""
        fields: dict[str, dict[str, Tensor]] = {field: {} for field in Noise._fields}
        for name, tensor in tensors.items():
            field, _, key = name.partition(".")
            fields[field][key] = tensor
        inputs = tuple(fields.pop("inputs").values())
        return Noise(inputs, **fields)

    def draws(self) -> int | None:
        """How many draws it is for; None if there is nothing random."""
        return next((tensor.shape[1] for tensor in self.tensors()), None)

    def chunk(self, start: int, stop: int) -> Noise:
        """That of the draws from `start` to `stop`."""
        return self.map(lambda tensor: tensor[:, start:stop])

    def rows(self, start: int, stop: int) -> Noise:
        """That of the batch items from `start` to `stop`."""
        return self.map(lambda tensor: tensor[start:stop])

    def map(self, function: Callable[[Tensor], Tensor]) -> Noise:
        """The same with a function of every tensor in its place."""
        named = ({key: function(tensor) for key, tensor in each.items()} for each in self[1:])
        return Noise(tuple(function(tensor) for tensor in self.inputs), *named)


class Law(NamedTuple):
    """That of independent numbers: normal with deviation `scale`, or else uniform on [0, scale)."""

    normal: bool
    scale: float


def below(u: Tensor, scale: float) -> Tensor:
    """Numbers in [0, scale], those that rounding brought to the scale brought back below it."""
    top = u.new_full((), scale)
    return torch.minimum(u, torch.nextafter(top, torch.zeros_like(top)))


def no_noise() -> Noise:
    """Nothing random."""
    return Noise((), {}, {}, {})


def along(generator: Any, batch: Batch, names: Sequence[str]) -> Any:
    """The source of numbers (B, K, ...) on axes of these names; one that is seeded does not count padding."""
    if not isinstance(generator, Seeded):
        return generator
    return generator.along(real_entries(names, batch.masks, 1 + len(names)))


def item_names(key: str, group: Group) -> tuple[str, ...]:
    """The axes of a group's features and elements that may have padding."""
    return (key,) if group.takes_mask else ()


def tie_breaks(batch: Batch, draws: int, generator: torch.Generator | None) -> Noise:
    """What `project` may need where features name several elements: ties and completions."""
    ties: dict[str, Tensor] = {}
    completion: dict[str, Tensor] = {}
    for key, group in batch.groups.items():
        features = group.features(
            (batch.count, draws),
            size=batch.sizes.get(key),
            dtype=batch.dtype,
            device=batch.device,
            generator=along(generator, batch, item_names(key, group)),
        )
        (ties if group.compares_features else completion)[key] = features
    return Noise((), ties, completion, {})


def haar_elements(batch: Batch, draws: int, generator: torch.Generator | None) -> Noise:
    """Uniform elements of every bound group, about the centroid for E and SE; real items first for S."""
    elements, shape = {}, (batch.count, draws)
    for key, group in batch.groups.items():
        mask = batch.mask_of(key)
        masked = {} if mask is None else {"mask": mask.expand(*shape, -1)}
        source = along(generator, batch, item_names(key, group))
        elements[key] = group.haar(
            shape, size=batch.sizes.get(key), dtype=batch.dtype, device=batch.device, generator=source, **masked
        )
    return Noise((), {}, {}, elements)


def move(signature: Signature, g: Mapping[str, Tensor], noise: Noise, terms: tuple[Term, ...] = ()) -> Noise:
    """The noise that belongs to the input moved by g (B, ...), by axis; `terms` are those of the input noise."""
    groups = {key: group.linear for key, group in signature.groups.items()}
    each = {key: signature.groups[key].linear_part(element).unsqueeze(1) for key, element in g.items()}
    moved = list(noise.inputs)
    for i, term in enumerate(terms):
        for axis, place in term.places():
            if axis.key in each:
                kind = "plain" if axis.kind == "point" else axis.kind  # noise is about the origin
                g_each = expanded(each[axis.key], moved[i])
                moved[i] = groups[axis.key].act(g_each, moved[i], place, kind)

    def follow(named: Mapping[str, Tensor], elements: bool) -> dict[str, Tensor]:
        followed = {}
        for key, tensor in named.items():
            g_each = expanded(each[key], tensor)
            g_each = g_each.to(tensor.dtype) if g_each.is_floating_point() else g_each
            group = groups[key]
            followed[key] = group.compose(g_each, tensor) if elements else group.move(g_each, tensor)
        return followed

    return Noise(tuple(moved), follow(noise.ties, False), follow(noise.completion, False), follow(noise.elements, True))


def expanded(g: Tensor, x: Tensor) -> Tensor:
    """Elements (B, 1, ...) for each of the draws of x (B, K, ...)."""
    return g.expand(-1, x.shape[1], *g.shape[2:])
