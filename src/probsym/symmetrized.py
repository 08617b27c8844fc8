"""The average itself: draw, transform, call the base, transform back, average."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from probsym._internal.base_call import BaseCall, check_keys
from probsym._internal.callables import check_callable, class_in_words
from probsym._internal.checks import (
    check_read,
    check_residual,
    check_residual_input,
    seeds_or_generator,
)
from probsym._internal.doubts import doubts
from probsym._internal.frozen import frozen
from probsym._internal.saving import Saved
from probsym.errors import RangeError, SignatureError
from probsym.estimate import Average, Estimate, Estimator, Late, joint_weights, one_or_all
from probsym.groups import Group
from probsym.ops.argument_checks import check_size
from probsym.ops.edge_list import Input
from probsym.ops.precision import full_precision
from probsym.ops.seeded import Seeded
from probsym.placement import Placement
from probsym.samplers.base import Sampler
from probsym.samplers.batch import Batch
from probsym.samplers.couplings import BLOCKS, COUPLINGS, INDEPENDENT, check_coupling, chosen_coupling
from probsym.samplers.draw import Draw
from probsym.samplers.haar import Haar
from probsym.samplers.noise import Noise
from probsym.signature import Signature

Mask = Tensor | Mapping[str, Tensor]
CALLING = ("base", "output_keys", "mask_argument")
"""What decides how the base is called; any of it can be changed later."""
ENOUGH = 30
"""Draws before a standard error is trusted, or pairs of antithetic ones."""


class Symmetrized(Saved, nn.Module):
    """Any model f, made invariant or equivariant to a group by averaging:

        phi(x) = E_{g ~ p(g|x)} [ rho_out(g) . f( rho_in(g)^-1 . x ) ]

    The K draws fold into the batch: f receives tensors (B * K, ...), with real items first and padding last, set to
    zero. If f takes a `mask`, it receives the mask in the same order.

    Args:
        base: f, any module or function of as many tensors as the signature has inputs.
        signature: which axis of which tensor transforms, for example "n c, n n -> k"; see `probsym.Signature`.
        groups: the group of each bound axis, by name; several make the product group.
        sampler: p(g|x), one of `probsym.samplers`; uniform if None.
        samples: draws in training. A sampler that lists elements by itself does not need it; several then warn.
        eval_samples: draws in evaluation; as in training if None.
        chunk: draws in one call of the base, to bound memory. With several chunks, activations inside the base are
            not kept for the gradient: the backward pass calls the base again for each chunk, with the same random
            numbers. In compiled code or in a CUDA graph everything is kept. The result does not change, unless the
            base itself depends on the whole batch, as batch norm does in training.
        eval_coupling: how the draws of one input depend on each other in evaluation, unless a call sets `coupling`;
            see `estimate`. Draws in training are independent. Samplers that list elements ignore it.
        residual: index i of an input that is added to the output after the average, for a base that predicts a
            change: phi(x) = x_i + E[...]. The output must have the same term as the input. The base's output is
            averaged as a vector, without the centroid, which comes with the input. Adding the input inside the base
            instead gives the same output but a different gradient: it then passes through two sorts, whose
            straight-through gradients do not cancel.
        output_keys: which entries are the outputs, for a base that returns several: their names in a mapping such as a
            ModelOutput, a dataclass or a named tuple, or their places in a tuple, as (0,) for a recurrent net that also
            returns its state. All entries in their order if None.
        mask_argument: the name of the base's mask argument, such as "attention_mask"; "mask" if None, unless the base
            is torch's attention, whose "mask" is not for padding. It gets True where items are real, unless its name
            ends in "key_padding_mask", as in torch's attention: then True is padding.

    The base must not modify its inputs in place: they may be the caller's own tensors.

    An input of pairs, such as "n n" or "n n e", may be an `EdgeList` instead of a tensor if its items are permuted by
    S; the signature stays the same. Draws rename its nodes, and no n x n array is made. The base gets one list for a
    batch of B * K graphs, in which edges at padding have the value zero. Masks, `seed`, `chunk`, `estimate` and
    gradients in the values work as with a tensor; the dtype must be that of the other floating inputs. Outputs and
    `residual` inputs are tensors. A net's scores need the gradient through all pairs, so a backward pass that reaches
    them raises `DerivativeError`; samplers without a trained net can be used in training.

    NaN and infinity in inputs that the sampler reads, in what its net returns and in weights of draws raise an error on
    the CPU, except in compiled or traced code. `model.check_finite = False` turns the check off. On a GPU there is no
    check: it would make the host wait in every step. Call
    `model.signature.check_inputs(inputs, mask, finite=True)` to check there.

    >>> from probsym import groups
    >>> model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()}, samples=100)
    >>> model(torch.randn(8, 5, 3)).shape
    torch.Size([8, 3])
    """

    check_finite: bool = True
    """Whether inputs that the sampler reads, what its net returns and weights are checked for NaN and infinity, on the
    CPU."""

    def __init__(
        self,
        base: Callable[..., Any],
        signature: str,
        groups: Mapping[str, Group],
        sampler: Sampler | None = None,
        samples: int = 1,
        eval_samples: int | None = None,
        chunk: int | None = None,
        eval_coupling: str | None = None,
        residual: int | None = None,
        output_keys: Sequence[str | int] | None = None,
        mask_argument: str | None = None,
    ) -> None:
        super().__init__()
        check_callable(base, "base")
        if sampler is not None and not isinstance(sampler, Sampler):
            raise SignatureError(f"Expected sampler to be one of probsym.samplers (got {class_in_words(sampler)})")
        self.signature = Signature.parse(signature, groups)
        self.sampler = Haar() if sampler is None else sampler
        self.sampler.check(self.signature)
        self.base = base
        self.samples = check_size(samples, "samples")
        self.eval_samples = None if eval_samples is None else check_size(eval_samples, "eval_samples")
        self.chunk = None if chunk is None else check_size(chunk, "chunk")
        self.eval_coupling = eval_coupling
        if eval_coupling is not None:
            check_coupling(eval_coupling, self.sampler, self.signature)
        self.residual = check_residual(residual, self.signature.inputs, self.signature.outputs)
        self.output_keys = check_keys(output_keys, self.signature.outputs)
        self.mask_argument = mask_argument
        self._call = BaseCall.of(base, self.output_keys, mask_argument)
        for doubt in doubts(base, self.signature, self.sampler, self.samples, self.eval_samples):
            warnings.warn(doubt, stacklevel=2)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in CALLING and "_call" in vars(self):
            value = check_keys(value, self.signature.outputs) if name == "output_keys" else value
            self._call = BaseCall.of(**{key: getattr(self, key) for key in CALLING} | {name: value})
        super().__setattr__(name, value)

    def extra_repr(self) -> str:
        groups = ", ".join(f"{key!r}: {group!r}" for key, group in self.signature.groups.items())
        coupling = "" if self.eval_coupling is None else f", eval_coupling={self.eval_coupling!r}"
        residual = "" if self.residual is None else f", residual={self.residual}"
        samples = f"samples={self.samples}, eval_samples={self.eval_samples}"
        return f"'{self.signature}', {{{groups}}}, {samples}{coupling}{residual}"

    def forward(
        self,
        *inputs: Input,
        mask: Mask | None = None,
        samples: int | None = None,
        generator: torch.Generator | None = None,
        noise: Noise | None = None,
        index: Tensor | None = None,
        coupling: str | None = None,
        extra: Mapping[str, Any] | None = None,
        seed: int | Tensor | None = None,
    ) -> Any:
        """The average over the draws, (B, ...): a tensor, or a tuple if the signature has several outputs.

        The arguments are as in `estimate`.
        """
        outline, sampler = self._outline(inputs, mask, index), self._sampler(samples)
        batch = self._ready(outline)
        source = seeds_or_generator(seed, inputs[0], generator, noise)
        numbers = self._noise(sampler, batch, samples, source, noise, self._coupling(sampler, coupling))
        average = Average(statistics=False)
        for draw, again in self._draws(sampler, batch, numbers, self.chunk):
            average.add(self._call.values(self.base, batch, draw, extra, again), draw)
        if self.check_finite:
            average.check()
        return Placement(outline, batch, self.residual).mean(average)

    def estimate(
        self,
        *inputs: Input,
        mask: Mask | None = None,
        samples: int | None = None,
        chunk: int | None = None,
        tol: float | None = None,
        max_samples: int = 10_000,
        generator: torch.Generator | None = None,
        noise: Noise | None = None,
        index: Tensor | None = None,
        keep_values: bool = False,
        coupling: str | None = None,
        extra: Mapping[str, Any] | None = None,
        seed: int | Tensor | None = None,
    ) -> Estimate:
        """The average with its standard error, the elements drawn, and the losses for training.

        Args:
            inputs: one tensor for each input of the signature, batch first; pairs may be an `EdgeList`.
            mask: booleans (B, n), True where real, or {axis: booleans} for several axes.
            samples: number of draws; the model's own if None. With a number, a frame is drawn from, not listed.
            chunk: draws in one call of the base.
            tol: keep drawing until every standard error is at most this. At least 30 draws (or 30 antithetic pairs)
                are made, since a standard error from fewer is unreliable. Each further round adds `samples` draws, or
                half as many as there are, whichever is more. Samplers that list elements list them once.
            max_samples: never make more draws than this for `tol`.
            generator: random generator for the draws.
            noise: the random numbers themselves, from `noise(...)`, instead of `samples` and `generator`.
            index: the id of each example, (B,), for samplers with fixed noise.
            keep_values: also return the output of every draw.
            coupling: how the draws of one input depend on each other: "independent", "antithetic", "quasi" or
                "stratified"; see `probsym.samplers.couplings`. If None, `eval_coupling` in evaluation and "independent"
                in training. With `noise`, say how it was drawn: the standard error depends on it.
            extra: further keyword arguments for the base, on which the group does not act. Tensors of batch size B are
                repeated for the draws; everything else is passed unchanged.
            seed: instead of a generator, one integer per item, int64 (B,), or one for all items. The draws of an item
                then depend only on its seed and on its real entries in their order. So the same item with the same seed
                gives the same output up to rounding, alone or anywhere in any batch, whatever the padding. With one
                integer, equal items give equal outputs. With more draws, the first ones stay the same. Dropout and
                other randomness do not follow the seed, nor do norms over the batch in training. With `tol`, the
                number of draws depends on all items of the batch.
        """
        if tol is not None and (not isinstance(tol, int | float) or not tol > 0 or noise is not None):
            raise RangeError(f"Expected tol to be positive, and no noise with it (got {tol})")
        check_size(max_samples, "max_samples")
        outline, sampler = self._outline(inputs, mask, index), self._sampler(samples)
        batch = self._ready(outline)
        source = seeds_or_generator(seed, inputs[0], generator, noise)
        coupling = self._coupling(sampler, coupling)
        block = BLOCKS.get(coupling)
        if tol is not None and block is None:
            raise RangeError(
                f"Expected draws with a standard error for tol (got coupling {coupling!r}, which has none)"
            )
        average = Average(statistics=True, block=block)
        chunks: list[Draw] = []
        kept: list[tuple[Tensor, ...]] = []
        chunk = self.chunk if chunk is None else check_size(chunk, "chunk")
        wanted = samples if tol is None else self._round(samples, 0, max_samples, block or 1)
        numbers = self._noise(sampler, batch, wanted, source, noise, coupling)
        draws = self._draws(sampler, batch, numbers, chunk)
        while True:
            for draw, again in draws:
                values = self._call.values(self.base, batch, draw, extra, again)
                average.add(values, draw)
                chunks.append(draw)
                if keep_values:
                    kept.append(values)
            if tol is None or sampler.lists_elements or _settled(average, tol, max_samples):
                break
            wanted = self._round(samples, average.count, max_samples, block or 1)
            numbers = self._noise(sampler, batch, wanted, source, noise, coupling, start=average.count)
            draws = self._draws(sampler, batch, numbers, chunk)
        if self.check_finite:
            average.check()
        losses, placement = partial(self._losses, sampler, batch, chunks), Placement(outline, batch, self.residual)
        return Estimate(
            mean=placement.mean(average),
            stderr=one_or_all(average.stderr()),
            samples=average.count,
            elements=self._elements(batch, chunks),
            weights=joint_weights(chunks),
            values=placement.values(kept) if keep_values else None,
            losses=losses() if self.training else Late(losses),
            chunks=tuple(chunks),
        )

    def suggest_samples(self, *inputs: Input, stderr: float, samples: int = 100, **options: Any) -> int:
        """How many independent draws bring every standard error for these inputs down to `stderr`.

        The answer comes from the largest variance in an `estimate` with `samples` draws; options such as `mask` and
        `seed` are passed to it. If the sampler lists elements and the average is exact, the answer is 1. Call it in
        evaluation mode: in training mode, batch norms would update their running statistics.

        >>> from probsym import groups
        >>> model = Symmetrized(lambda x: x[:, 0], "n -> ", {"n": groups.S()})
        >>> model.suggest_samples(torch.tensor([[-1.0, 1.0]]), stderr=0.1, samples=10_000, seed=0)  # a variance of 1
        100
        """
        check_size(samples, "samples", least=2)
        wanted = None if self.sampler.lists_elements else samples
        with frozen(self):  # and not no_grad: the base may differentiate inside, as for forces
            return self.estimate(*inputs, samples=wanted, coupling=INDEPENDENT, **options).samples_for(stderr)

    def estimator(self) -> Estimator:
        """The model as a module whose `forward` is `estimate`, to be compiled or wrapped for parallel training."""
        return Estimator(self)

    def noise(
        self,
        *inputs: Input,
        mask: Mask | None = None,
        samples: int | None = None,
        generator: torch.Generator | None = None,
        index: Tensor | None = None,
        coupling: str | None = None,
        seed: int | Tensor | None = None,
    ) -> Noise:
        """The random numbers for the draws of these inputs, to be passed as `noise=`; see `estimate`."""
        if samples is not None and self.sampler.lists_elements:
            raise RangeError(f"Expected no samples for the noise of a sampler that lists elements (got {samples})")
        name = self._coupling(self.sampler, coupling)
        outline = self._outline(inputs, mask, index)
        source = seeds_or_generator(seed, inputs[0], generator, None)
        return self._noise(self.sampler, outline, samples, source, None, name)

    def move_noise(self, g: Mapping[str, Tensor], noise: Noise) -> Noise:
        """The noise moved by g, so that `phi(g x; g noise) = g phi(x; noise)`."""
        return self.sampler.move(self.signature, g, noise)

    def _outline(self, inputs: Sequence[Input], mask: Mask | None, index: Tensor | None) -> Batch:
        check_residual_input(self.residual, inputs)
        own = next(
            (parameter.dtype for parameter in self.parameters() if parameter.is_floating_point()),
            torch.get_default_dtype(),
        )
        return Batch.outline(self.signature, inputs, mask, index, default=own)

    def _ready(self, outline: Batch) -> Batch:
        batch, terms = outline.ready(), self.signature.inputs
        if self.check_finite:
            check_read(self.sampler.read(self.signature), outline.inputs, batch.inputs, terms, batch.masks)
        return batch

    def _sampler(self, samples: int | None) -> Sampler:
        """The sampler, or where draws are asked of one that lists elements, what it draws with."""
        return self.sampler if samples is None or not self.sampler.lists_elements else self.sampler.drawing(samples)

    def _own_samples(self) -> int:
        return self.samples if self.training or self.eval_samples is None else self.eval_samples

    def _coupling(self, sampler: Sampler, coupling: str | None) -> str:
        """The name of the coupling for a call that asks for this one."""
        own = None if self.training else self.eval_coupling
        return chosen_coupling(coupling, own, sampler, self.signature)

    def _round(self, samples: int | None, count: int, most: int, block: int) -> int:
        """How many draws to add to `count` on the way to a tolerance, in whole blocks but for the last."""
        own = self._own_samples() if samples is None else check_size(samples, "samples")
        wanted = max(own, count // 2 if count else ENOUGH * block)
        return min(-(-wanted // block) * block, most - count)

    def _noise(
        self,
        sampler: Sampler,
        batch: Batch,
        samples: int | None,
        source: torch.Generator | Tensor | None,
        noise: Noise | None,
        coupling: str,
        start: int = 0,
    ) -> Noise:
        if noise is not None:
            if samples is not None or source is not None:
                raise RangeError("Expected neither samples nor generator beside explicit noise (got one)")
            sampler.check_noise(batch, noise)
            return noise
        draws = self._own_samples() if samples is None else check_size(samples, "samples")
        generator: Any = source
        if isinstance(source, Tensor):  # seeds, which stand in for a generator; coupled draws in a block share numbers
            generator = Seeded(source, start // BLOCKS.get(coupling, 1))
        with full_precision(batch.device):
            return COUPLINGS[coupling](sampler, batch, draws, generator, start=start)

    def _draws(self, sampler: Sampler, batch: Batch, noise: Noise, chunk: int | None) -> Iterable[tuple[Draw, bool]]:
        """The draws in chunks of that many, and whether there are several. Samplers do not follow autocast.

        In training the sampler sees all draws at once: statistics of its norms.
        """
        draws = noise.draws()
        if chunk is None or self.training or sampler.lists_elements or draws is None:
            whole = self._draw(sampler, batch, noise)  # here and not in a loop, which compilers cannot leave
            step = chunk or whole.count
            return [(whole.chunk(start, start + step), step < whole.count) for start in range(0, whole.count, step)]
        return (
            (self._draw(sampler, batch, noise.chunk(start, start + chunk)), chunk < draws)
            for start in range(0, draws, chunk)
        )

    def _draw(self, sampler: Sampler, batch: Batch, noise: Noise) -> Draw:
        with full_precision(batch.device):
            draw = sampler(batch, noise)
        if not isinstance(draw, Draw):
            raise SignatureError(f"Expected {type(sampler).__name__} to return a Draw (got {type(draw).__name__})")
        draw.check(batch, finite=self.check_finite)
        return draw

    def _losses(self, sampler: Sampler, batch: Batch, chunks: Sequence[Draw]) -> dict[str, Tensor]:
        """Those of all draws together."""
        total = sum(chunk.count for chunk in chunks)
        losses: dict[str, Tensor] = {}
        with full_precision(batch.device):
            for chunk in chunks:
                for name, value in sampler.losses(batch, chunk).items():
                    share = value * (chunk.count / total)
                    losses[name] = losses[name] + share if name in losses else share
        return losses

    def _elements(self, batch: Batch, chunks: Sequence[Draw]) -> dict[str, Tensor]:
        elements = {}
        for key, group in self.signature.groups.items():
            g = torch.cat([chunk.elements[key] for chunk in chunks], 1)
            elements[key] = (
                group.with_translation(g, batch.centroids[key].unsqueeze(1)) if key in batch.centroids else g
            )
        return elements


def _settled(average: Average, tol: float, max_samples: int) -> bool:
    if average.count >= max_samples:
        return True
    return average.count >= ENOUGH * (average.block or 1) and all(
        bool((error <= tol).all()) for error in average.stderr()
    )
