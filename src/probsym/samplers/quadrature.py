"""Group averaging by a weighted rule instead of independent draws."""

from __future__ import annotations

import math
from collections.abc import Hashable

import torch
from torch import Tensor

from probsym.errors import GroupError, RangeError
from probsym.groups import Group
from probsym.ops.transforms import traced
from probsym.samplers.base import Sampler
from probsym.samplers.batch import Batch
from probsym.samplers.draw import Draw
from probsym.samplers.noise import Noise, expanded, haar_elements, no_noise
from probsym.signature import Signature


class Quadrature(Sampler):
    """A quadrature rule: elements q_k with weights, all multiplied by one uniform h for each input, h q_k.

    It works for O, SO, E and SE in up to three dimensions, finite groups whose elements are numbered, and their
    products. The average over the group is exact if `rho_out(q) f(rho_in(q)^-1 x)` is a polynomial in the entries of q
    of at most the given degree, which is the degree of f in x, plus one for every output axis that rotates. For any
    other f the average is unbiased and equivariant in distribution, since h is uniform, and the smoother f, the smaller
    its error. In the plane the rule has degree + 1 rotations; in space it has that many for each point of a Lebedev
    rule (`groups.rotation_rule`). Reflections double the number. The standard error is NaN, since one rule does not
    show its own error.

    Args:
        degree: the degree up to which the rule is exact.
        random: rotate the rule by h. If False the model is deterministic, and equivariant only up to that degree.
        limit: the largest number of elements.

    >>> from probsym import Symmetrized, groups
    >>> model = Symmetrized(lambda x: x[:, 0] ** 2, "n d -> d", {"d": groups.SO(3)}, Quadrature(3))
    >>> model.estimate(torch.randn(4, 5, 3)).samples
    24
    """

    lists_elements = True

    def __init__(self, degree: int, random: bool = True, limit: int = 50_000) -> None:
        super().__init__()
        if not isinstance(degree, int) or isinstance(degree, bool) or degree < 0:
            raise RangeError(f"Expected degree to be a whole number, 0 or more (got {degree!r})")
        if limit < 1:
            raise RangeError(f"Expected limit to be 1 or more (got {limit})")
        self.degree, self.random, self.limit = degree, random, limit
        self.draws_elements = random
        self._rules: dict[Group, tuple[Tensor, Tensor]] = {}  # not by name: groups may print alike

    def extra_repr(self) -> str:
        return f"degree={self.degree}, random={self.random}"

    def check(self, signature: Signature) -> None:
        count = math.prod(len(self._rule(group, torch.device("cpu"))[1]) for group in signature.groups.values())
        if count > self.limit:
            raise GroupError(f"Expected at most {self.limit} elements in a rule of degree {self.degree} (got {count})")

    def read(self, signature: Signature) -> tuple[int, ...]:
        return ()

    def noise(self, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0) -> Noise:
        return haar_elements(batch, 1, generator) if self.random else no_noise()

    def forward(self, batch: Batch, noise: Noise) -> Draw:
        rules = {key: self._rule(group, batch.device) for key, group in batch.signature.groups.items()}
        total = math.prod([len(weights) for _, weights in rules.values()])
        elements, weights, repeats = {}, torch.ones(1, total, dtype=batch.dtype, device=batch.device), 1
        for key, (listed, share) in rules.items():  # the product: the first axis slowest
            group, repeats = batch.groups[key], repeats * len(share)
            place = torch.arange(total, device=batch.device) // (total // repeats) % len(share)
            q = listed[place].unsqueeze(0)
            q = (q.to(batch.dtype) if q.is_floating_point() else q).expand(batch.count, *q.shape[1:])
            elements[key] = group.compose(expanded(noise.elements[key], q), q) if self.random else q
            weights = weights * share.to(batch.dtype)[place]
        carriers = {key: batch.groups[key].carrier(g) for key, g in elements.items()}
        return Draw(total, elements, carriers, weights.expand(batch.count, -1)).estimated(batch)

    def _rule(self, group: Group, device: torch.device) -> tuple[Tensor, Tensor]:
        """Elements and weights on a device, where they stay for the next call: a CUDA graph cannot move them there."""
        kept = isinstance(group, Hashable)
        listed, share = (self._rules.get(group) if kept else None) or group.linear.quadrature(self.degree)
        rule = listed.to(device), share.to(device)
        if kept and not traced():
            self._rules[group] = rule
        return rule
