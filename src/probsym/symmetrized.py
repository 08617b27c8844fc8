"""The average itself: draw, transform, call the base, transform back, average."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from probsym._internal.base_outputs import as_outputs
from probsym._internal.callables import takes_mask
from probsym._internal.checks import check_keys, check_read, check_residual, check_size, seeds_or_generator
from probsym._internal.doubts import doubts
from probsym._internal.recomputed import can_recompute, recomputed
from probsym._internal.saving import Saved
from probsym.errors import RangeError, SignatureError
from probsym.estimate import Average, Estimate, Estimator, Late, joint_weights, one_or_all
from probsym.groups import Group
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
ENOUGH = 30
"""Draws before a standard error is trusted, or pairs of antithetic ones."""


class Symmetrized(Saved, nn.Module):
    """Any model f, made invariant or equivariant to a group by averaging:

        phi(x) = E_{g ~ p(g|x)} [ rho_out(g) . f( rho_in(g)^-1 . x ) ]

    The K draws fold into the batch: f sees tensors (B * K, ...), real items first, padding last and zero, and the
    `mask` as it then is if it takes one.

    Args:
        base: f, any module or function of as many tensors as the signature has inputs.
        signature: which axis of which tensor transforms, for example "n c, n n -> k"; see `probsym.Signature`.
        groups: the group that each axis is bound to; several make the product group.
        sampler: p(g|x), one of `probsym.samplers`; uniform if None.
        samples: draws in training. A sampler that lists elements by itself does not need it; several then warn.
        eval_samples: draws in evaluation; as in training if None.
        chunk: draws in one call of the base, to bound memory. Nothing inside the base is kept for the gradient of
            several chunks: the base is called once more for each on the way back, with the same random numbers. Under
            a compiler or in a CUDA graph everything is kept. The result is the same, unless the base itself looks at
            the whole batch.
        eval_coupling: how the draws of one input depend on each other in evaluation, where a call does not say; see
            `estimate`. Training draws independently, and a sampler that lists elements has nothing to couple.
        residual: the number of an input that is added to the output after the average, for a base that predicts a
            change: phi(x) = x_i + E[...]. The output's term must be that of the input. What the base returns is
            averaged as a vector, without the centroid, which comes with the input. Adding the input inside the base
            gives the same output but another gradient: it then goes through two sorts, whose straight-through
            gradients do not cancel.
        output_keys: the names of the outputs, for a base that returns a mapping such as a ModelOutput, or a dataclass,
            with more than the signature has; all of them in their order if None.
        mask_argument: what the base calls its mask, such as "attention_mask".

    The base must not write to its inputs, which may be the caller's.

    NaN and infinity in inputs that the sampler reads are refused where a look costs next to nothing: on the CPU, not in
    compiled or traced code. `model.check_finite = False` leaves that out. On a GPU nothing looks, since the host would
    wait for it in every step; `model.signature.check_inputs(inputs, mask, finite=True)` does when it is called.

    >>> from probsym import groups
    >>> model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()}, samples=100)
    >>> model(torch.randn(8, 5, 3)).shape
    torch.Size([8, 3])
    """

    check_finite: bool = True
    """Whether inputs that the sampler reads are looked through for NaN and infinity, on the CPU."""

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
        output_keys: Sequence[str] | None = None,
        mask_argument: str = "mask",
    ) -> None:
        super().__init__()
        if not callable(base):
            raise SignatureError(f"Expected base to be a module or function (got {type(base).__name__})")
        if sampler is not None and not isinstance(sampler, Sampler):
            raise SignatureError(f"Expected sampler to be one of probsym.samplers (got {type(sampler).__name__})")
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
        self._base_takes_mask = takes_mask(base, name=mask_argument)
        self._base_takes_none = takes_mask(base, given=False, name=mask_argument)
        if mask_argument != "mask" and not self._base_takes_mask:
            raise SignatureError(
                f"Expected a base that takes {mask_argument!r}, its mask_argument (got one that does not)"
            )
        for doubt in doubts(base, self.signature, self.sampler, self.samples, self.eval_samples):
            warnings.warn(doubt, stacklevel=2)

    def extra_repr(self) -> str:
        groups = ", ".join(f"{key!r}: {group!r}" for key, group in self.signature.groups.items())
        coupling = "" if self.eval_coupling is None else f", eval_coupling={self.eval_coupling!r}"
        residual = "" if self.residual is None else f", residual={self.residual}"
        samples = f"samples={self.samples}, eval_samples={self.eval_samples}"
        return f"'{self.signature}', {{{groups}}}, {samples}{coupling}{residual}"

    def forward(
        self,
        *inputs: Tensor,
        mask: Mask | None = None,
        samples: int | None = None,
        generator: torch.Generator | None = None,
        noise: Noise | None = None,
        index: Tensor | None = None,
        coupling: str | None = None,
        extra: Mapping[str, Any] | None = None,
        seed: int | Tensor | None = None,
    ) -> Any:
        """The average over the draws, (B, ...): a tensor, or a tuple where the signature has several outputs.

        Arguments are those of `estimate`.
        """
        outline, sampler = self._outline(inputs, mask, index), self._sampler(samples)
        batch = self._ready(outline)
        source = seeds_or_generator(seed, inputs[0], generator, noise)
        numbers = self._noise(sampler, batch, samples, source, noise, self._coupling(sampler, coupling))
        average = Average(statistics=False)
        for draw, again in self._draws(sampler, batch, numbers, self.chunk):
            average.add(self._values(batch, draw, extra, again), draw)
        return Placement(outline, batch, self.residual).mean(average)

    def estimate(
        self,
        *inputs: Tensor,
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
            inputs: one tensor for each input of the signature, batch first.
            mask: booleans (B, n), True where real, or {axis: booleans} for several axes.
            samples: draws; the model's own number if None. A frame that would be listed is drawn from if it is given.
            chunk: draws in one call of the base.
            tol: go on drawing until no standard error is above this, but not before 30 draws, or pairs of them: fewer
                do not tell. Each round draws `samples`, or half as many as there are. Samplers that list elements list
                them once.
            max_samples: stop at so many draws in any case.
            generator: source of the draws.
            noise: the random numbers themselves, from `noise(...)`, in place of `samples` and `generator`.
            index: the number of each example, (B,), for samplers with fixed noise.
            keep_values: also return the output of every draw.
            coupling: how the draws of one input depend on each other: "independent", "antithetic", "quasi" or
                "stratified", of which `probsym.samplers.couplings` says more; the model's own in evaluation if None.
                With `noise`, how that was drawn, which the standard error must know.
            extra: more for the base, by keyword. The group does not act on it. Tensors of batch size B are repeated for
                the draws, everything else passes as it is.
            seed: in place of a generator, one integer for each item, int64 (B,), or one for all: the draws of an item
                are then a function of its seed, its real entries in their order, and nothing else. So the same item
                with the same seed gives the same numbers up to rounding, alone, at any place in any batch, whatever the
                padding. With one integer, equal items give equal numbers. More draws begin with those of fewer. Other
                randomness, such as dropout, and norms over the batch in training are not covered; and with `tol`, how
                many draws are made depends on all items of the batch.
        """
        if tol is not None and (not isinstance(tol, int | float) or not tol > 0 or noise is not None):
            raise RangeError(f"Expected tol to be positive, and no noise with it (got {tol})")
        check_size(max_samples, "max_samples")
        outline, sampler = self._outline(inputs, mask, index), self._sampler(samples)
        batch = self._ready(outline)
        source = seeds_or_generator(seed, inputs[0], generator, noise)
        coupling = self._coupling(sampler, coupling)
        block = BLOCKS[coupling]
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
                values = self._values(batch, draw, extra, again)
                average.add(values, draw)
                chunks.append(draw)
                if keep_values:
                    kept.append(values)
            if tol is None or sampler.lists_elements or _settled(average, tol, max_samples):
                break
            wanted = self._round(samples, average.count, max_samples, block or 1)
            numbers = self._noise(sampler, batch, wanted, source, noise, coupling, start=average.count)
            draws = self._draws(sampler, batch, numbers, chunk)
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

    @torch.no_grad()
    def suggest_samples(self, *inputs: Tensor, stderr: float, samples: int = 100, **options: Any) -> int:
        """How many independent draws bring every standard error for these inputs down to `stderr`.

        It is told by the largest variance in an `estimate` from `samples` draws, to which the options go (`mask`,
        `chunk`, `seed`, ...). Samplers that list elements need one where the average is the expectation. Call it in
        evaluation mode: in training, norms over the batch would remember the inputs.

        >>> from probsym import groups
        >>> model = Symmetrized(lambda x: x[:, 0], "n -> ", {"n": groups.S()})
        >>> model.suggest_samples(torch.tensor([[-1.0, 1.0]]), stderr=0.1, samples=10_000, seed=0)  # a variance of 1
        100
        """
        check_size(samples, "samples", least=2)
        wanted = None if self.sampler.lists_elements else samples
        return self.estimate(*inputs, samples=wanted, coupling=INDEPENDENT, **options).samples_for(stderr)

    def estimator(self) -> Estimator:
        """The model as a module whose call is `estimate`, to be compiled or wrapped for parallel training."""
        return Estimator(self)

    def noise(
        self,
        *inputs: Tensor,
        mask: Mask | None = None,
        samples: int | None = None,
        generator: torch.Generator | None = None,
        index: Tensor | None = None,
        coupling: str | None = None,
        seed: int | Tensor | None = None,
    ) -> Noise:
        """The random numbers behind the draws for these inputs, to be given back as `noise=`; see `estimate`."""
        if samples is not None and self.sampler.lists_elements:
            raise RangeError(f"Expected no samples for the noise of a sampler that lists elements (got {samples})")
        name = self._coupling(self.sampler, coupling)
        outline = self._outline(inputs, mask, index)
        source = seeds_or_generator(seed, inputs[0], generator, None)
        return self._noise(self.sampler, outline, samples, source, None, name)

    def move_noise(self, g: Mapping[str, Tensor], noise: Noise) -> Noise:
        """The noise that belongs to the inputs moved by g, so that `phi(g x; g noise) = g phi(x; noise)`."""
        return self.sampler.move(self.signature, g, noise)

    def _outline(self, inputs: Sequence[Tensor], mask: Mask | None, index: Tensor | None) -> Batch:
        own = next((one.dtype for one in self.parameters() if one.is_floating_point()), torch.get_default_dtype())
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
        coupling: str = INDEPENDENT,
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
            generator = Seeded(source, start // (BLOCKS[coupling] or 1))
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
            found: Draw = sampler(batch, noise)
        return found

    def _losses(self, sampler: Sampler, batch: Batch, chunks: Sequence[Draw]) -> dict[str, Tensor]:
        """Those of all draws together."""
        total = sum(chunk.count for chunk in chunks)
        found: dict[str, Tensor] = {}
        with full_precision(batch.device):
            for chunk in chunks:
                for name, value in sampler.losses(batch, chunk).items():
                    share = value * (chunk.count / total)
                    found[name] = found[name] + share if name in found else share
        return found

    def _values(self, batch: Batch, draw: Draw, extra: Mapping[str, Any] | None, again: bool) -> tuple[Tensor, ...]:
        """`rho_out(g) f(rho_in(g)^-1 x)` for every draw, (B, K, ...); if `again`, computed again for the gradient."""
        if again and can_recompute(batch.device):
            return recomputed(lambda: self._outputs(batch, draw, extra), self.base, batch.inputs)
        return self._outputs(batch, draw, extra)

    def _outputs(self, batch: Batch, draw: Draw, extra: Mapping[str, Any] | None) -> tuple[Tensor, ...]:
        rows = batch.count * draw.count
        folded = [x.reshape(rows, *x.shape[2:]) for x in draw.undo(batch)]
        options = {
            name: one.repeat_interleave(draw.count, 0)
            if isinstance(one, Tensor) and one.dim() and one.shape[0] == batch.count
            else one
            for name, one in (extra or {}).items()
        }
        if self._base_takes_none if batch.mask_names is None else self._base_takes_mask:
            if self.mask_argument in options:
                raise SignatureError(
                    f"Expected mask= rather than extra[{self.mask_argument!r}] (got both, or the latter)"
                )
            masks = {name: one.reshape(rows, one.shape[-1]) for name, one in draw.masks(batch).items()}
            options[self.mask_argument] = masks if batch.mask_names else next(iter(masks.values()), None)
        outputs = as_outputs(self.base(*folded, **options), self.output_keys, len(self.signature.outputs))
        self.signature.check_outputs(outputs, batch.sizes, batch=rows)
        return draw.apply(batch, [y.unflatten(0, (batch.count, draw.count)) for y in outputs])

    def _elements(self, batch: Batch, chunks: Sequence[Draw]) -> dict[str, Tensor]:
        found = {}
        for key, group in self.signature.groups.items():
            g = torch.cat([chunk.elements[key] for chunk in chunks], 1)
            found[key] = group.with_translation(g, batch.centroids[key].unsqueeze(1)) if key in batch.centroids else g
        return found


def _settled(average: Average, tol: float, max_samples: int) -> bool:
    if average.count >= max_samples:
        return True
    return average.count >= ENOUGH * (average.block or 1) and all(
        bool((error <= tol).all()) for error in average.stderr()
    )
