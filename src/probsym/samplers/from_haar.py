"""An equivariant distribution from any net: look from a uniformly drawn side, choose, turn back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from probsym._internal.callables import check_callable
from probsym.errors import SignatureError
from probsym.nets.features import Features
from probsym.ops.argument_checks import check_tau
from probsym.samplers import noise as noises
from probsym.samplers.base import Sampler, as_reads, check_net
from probsym.samplers.batch import Batch
from probsym.samplers.draw import Draw
from probsym.samplers.haar import from_elements
from probsym.samplers.noise import Noise
from probsym.samplers.projection import by_axis, entropy, named_features, project
from probsym.signature import Signature


class FromHaar(Sampler):
    """g = h project(net(h^-1 x)), with one h for all bound axes, uniform on the group.

    Since g0 h is as likely as h, the distribution of g is equivariant for any net: the net need not be equivariant.

    Args:
        net: any module or function. It receives the moved inputs as (rows, ...), real items first, and a `mask`
            (rows, n) if it takes one: {axis: mask} if several axes can have one. It returns `scores` (rows, n),
            `vectors` (rows, d, d) or `logits` (rows, order) as `Features`, or as a plain tensor if one axis is bound.
        reads: indices of the inputs that the net reads, in this order; all if None.
        tau: temperature of the relaxed permutation, or of the softmax.
        input_gradient: as for `Learned`.

    >>> from probsym import Symmetrized, groups
    >>> sampler = FromHaar(torch.nn.Flatten())  # any net: here the scores are the numbers themselves
    >>> model = Symmetrized(lambda x: x[:, 0, 0], "n c -> ", {"n": groups.S()}, sampler)
    >>> model(torch.tensor([[[3.0], [1.0], [2.0]]]))
    tensor([3.])
    """

    breaks_ties = True
    draws_elements = True

    def __init__(
        self,
        net: Callable[..., Any],
        reads: Sequence[int] | None = None,
        tau: float = 0.01,
        input_gradient: bool = False,
    ) -> None:
        super().__init__()
        check_tau(tau)
        check_callable(net, "net")
        self.net, self.tau, self.input_gradient = net, float(tau), input_gradient
        self.reads = as_reads(reads)

    def extra_repr(self) -> str:
        return f"reads={self.reads}, tau={self.tau}"

    def check(self, signature: Signature) -> None:
        count = len(signature.inputs)
        if self.reads is not None and any(not 0 <= number < count for number in self.reads):
            raise SignatureError(f"Expected reads to be numbers below {count} (got {self.reads})")
        check_net(self.net, signature, range(count) if self.reads is None else self.reads)

    def read(self, signature: Signature) -> tuple[int, ...]:
        return super().read(signature) if self.reads is None else self.reads

    def noise(self, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0) -> Noise:
        breaks = noises.tie_breaks(batch, draws, generator)
        return breaks._replace(elements=noises.haar_elements(batch, draws, generator).elements)

    def forward(self, batch: Batch, noise: Noise) -> Draw:
        side = from_elements(batch, noise)
        inputs, options = side.rows(batch, self.net, self.reads)
        named = named_features(batch, self.net, inputs, self.input_gradient, **options)
        features = by_axis(batch, _unfolded(named, batch.count, side.count), side.count)
        groups = batch.groups
        there = {key: groups[key].move(side.elements[key], z) for key, z in features.items()}
        return project(batch, there, noise, side.count, tau=self.tau)

    def losses(self, batch: Batch, draw: Draw) -> dict[str, Tensor]:
        return {"entropy": entropy(batch, draw, self.tau)}


def _unfolded(output: Any, items: int, draws: int) -> Any:
    """(rows, ...) as (B, K, ...), in whatever the net returned."""

    def unfold(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.unflatten(0, (items, draws)) if value.dim() and value.shape[0] == items * draws else value
        return {key: unfold(part) for key, part in value.items()} if isinstance(value, Mapping) else value

    if isinstance(output, Features):
        return Features(unfold(output.scores), unfold(output.vectors), unfold(output.logits), unfold(output.own))
    return unfold(output)
