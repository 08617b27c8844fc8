"""What every sampler can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from probsym._internal.callables import takes
from probsym._internal.remembers_arguments import RemembersArguments
from probsym.errors import RangeError, ShapeError, SignatureError
from probsym.samplers import noise as noises
from probsym.samplers.batch import Batch
from probsym.samplers.draw import Draw
from probsym.samplers.noise import Law, Noise
from probsym.signature import Signature, Term


def as_reads(reads: Sequence[int] | None, name: str = "reads") -> tuple[int, ...] | None:
    """The numbers of the inputs to read, or of those that `name` stands for, checked that they are numbers."""
    if reads is None:
        return None
    if not isinstance(reads, Sequence) or not all(isinstance(number, int) for number in reads):
        raise SignatureError(f"Expected {name} to be a sequence of input numbers (got {reads!r})")
    return tuple(reads)


def check_net(net: Callable[..., Any], signature: Signature, reads: Sequence[int], extra: int = 0) -> None:
    """Refuse a net that cannot be called with the inputs it reads, and `extra` ones before them, or lacks features."""
    terms = [signature.inputs[number] for number in reads]
    if not takes(net, extra + len(terms)):
        listing = ", ".join(f"'{term}'" for term in terms)
        raise SignatureError(
            f"Expected {type(net).__name__} to take {extra + len(terms)} inputs, for {listing} (got a net that does "
            f"not; reads= of the sampler says which inputs, in this order)"
        )
    if hasattr(net, "check_terms"):
        net.check_terms(terms, signature.groups)
    if (fields := getattr(net, "feature_fields", None)) is not None:
        _check_fields(net, fields, signature)


def _check_fields(net: Callable[..., Any], fields: Sequence[str], signature: Signature) -> None:
    for key, group in signature.groups.items():
        field = group.linear.feature_field
        if field is not None and field not in fields:
            raise SignatureError(
                f"Expected {type(net).__name__} to return {field} for {group!r} on axis {key!r} "
                f"(got a net that returns {' and '.join(fields)})"
            )


class Sampler(RemembersArguments, nn.Module, ABC):
    """A distribution p(g|x) over the bound groups, as a function of the input and of noise.

    It obeys `sampler(g x, move(g, noise)) = g sampler(x, noise)` for every element g of the groups. Parameters are kept
    in at least float32, whatever the model around them is converted to.
    """

    lists_elements: bool = False
    """Whether it lists elements of itself, so that the number of draws is not the caller's choice."""

    breaks_ties = False
    """Whether its noise decides where features name several elements."""
    draws_elements = False
    """Whether its noise has group elements, uniform ones. A sampler of your own says so: noise is checked for it."""

    def read(self, signature: Signature) -> tuple[int, ...]:
        """The numbers of the inputs that the distribution depends on, which must be finite."""
        return tuple(range(len(signature.inputs)))

    def uses_samples(self, signature: Signature) -> bool:
        """Whether the model's number of draws makes a difference; if not, a model with several warns."""
        return not self.lists_elements

    def drawing(self, samples: int) -> Sampler:
        """What draws from the elements that this sampler lists."""
        raise RangeError(f"Expected no samples for {type(self).__name__}, which lists its elements (got {samples})")

    def check(self, signature: Signature) -> None:
        """Refuse a signature that this sampler has no distribution for."""

    @abstractmethod
    def noise(self, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0) -> Noise:
        """The random numbers behind the draws `start` to `start + draws`."""

    @abstractmethod
    def forward(self, batch: Batch, noise: Noise) -> Draw:
        """The elements that the noise selects for each input."""

    def losses(self, batch: Batch, draw: Draw) -> dict[str, Tensor]:
        """What training may add to its loss, each a mean over the draws and the batch; zero where there is nothing.

        "entropy" is that of the relaxed choices behind straight-through gradients, summed over the axes.
        """
        return {"entropy": torch.zeros((), dtype=batch.dtype, device=batch.device)}

    def check_noise(self, batch: Batch, noise: Noise) -> None:
        """Refuse noise that was not drawn by such a sampler for such a batch."""
        if not isinstance(noise, Noise):
            raise SignatureError(f"Expected noise that `noise(...)` returned (got {type(noise).__name__})")
        groups = set(batch.signature.groups)
        wanted = (
            len(self.noise_terms(batch.signature)),
            groups if self.breaks_ties else set(),
            groups if self.draws_elements else set(),
        )
        contents = len(noise.inputs), {*noise.ties, *noise.completion}, set(noise.elements)
        if contents != wanted:
            raise SignatureError(
                f"Expected noise for {wanted[0]} inputs, ties on {sorted(wanted[1])}, elements on {sorted(wanted[2])} "
                f"(got {contents[0]}, {sorted(contents[1])}, {sorted(contents[2])}; a sampler says which by "
                f"`noise_terms`, `breaks_ties` and `draws_elements`)"
            )
        for tensor in noise.tensors():
            if tensor.shape[0] != batch.count:
                raise ShapeError(f"Expected noise for a batch of {batch.count} (got {tensor.shape[0]})")

    def move(self, signature: Signature, g: Mapping[str, Tensor], noise: Noise) -> Noise:
        """The noise that belongs to the input moved by g, elements (B, ...) by axis."""
        return noises.move(signature, g, noise, self.noise_terms(signature))

    def noise_terms(self, signature: Signature) -> tuple[Term, ...]:
        """How the input noise transforms."""
        return ()

    def noise_laws(self, signature: Signature) -> tuple[Law, ...]:
        """The law of each input noise, for couplings; refused where it has none that they know."""
        if self.noise_terms(signature):
            raise SignatureError(
                f"Expected a sampler that tells the laws of its input noise to couple draws (got {type(self).__name__})"
            )
        return ()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Sampler:
        def not_below_float32(x: Tensor) -> Tensor:
            y = fn(x)
            if y.is_floating_point() and torch.finfo(y.dtype).bits < 32:
                return x.to(y.device, torch.float32)
            return y

        return super()._apply(not_below_float32, recurse)
