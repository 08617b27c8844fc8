"""Draws that fill the space of their random numbers evenly: randomised quasi-Monte Carlo."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from probsym.errors import RangeError, TracingError
from probsym.ops.random_numbers import normal_numbers, random_numbers
from probsym.ops.seeded import Seeded
from probsym.ops.transforms import exporting
from probsym.samplers.base import Sampler
from probsym.samplers.batch import Batch, real_entries
from probsym.samplers.noise import Law, Noise, below, item_names

STANDARD = Law(normal=True, scale=1.0)
UNIT = Law(normal=False, scale=1.0)


def quasi(
    sampler: Sampler, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0
) -> Noise:
    """Noise that is a Sobol sequence over the draws, shifted at random modulo 1 for each batch item.

    All random numbers of a draw are the coordinates of one point, those that always matter first. The best numbers of
    draws are powers of two. Padding takes no coordinates. Each draw alone has its law, but the draws of a moved input
    together need not be distributed as those of the input, moved.
    """
    like = sampler.noise(batch, 1, generator, start=start)
    laws, groups = sampler.noise_laws(batch.signature), batch.groups
    shapes = [tuple(x.shape[2:]) for x in like.inputs]
    shapes += [groups[key].uniform_shape(batch.sizes.get(key)) for key in like.elements]
    shapes += [tuple(z.shape[2:]) for z in (*like.ties.values(), *like.completion.values())]
    items = {key: item_names(key, group) for key, group in groups.items()}
    names = [term.names for term in sampler.noise_terms(batch.signature)]
    names += [items[key] for key in (*like.elements, *like.ties, *like.completion)]
    points = iter(_points(batch, draws, shapes, names, generator))
    return Noise(  # in the order of the shapes
        inputs=tuple(_spread(next(points), law, x.dtype) for x, law in zip(like.inputs, laws, strict=True)),
        elements={key: _element(batch, key, next(points), generator) for key in like.elements},
        ties={key: _spread(next(points), UNIT, u.dtype) for key, u in like.ties.items()},
        completion={key: _spread(next(points), STANDARD, z.dtype) for key, z in like.completion.items()},
    )


def _points(
    batch: Batch,
    draws: int,
    shapes: Sequence[tuple[int, ...]],
    names: Sequence[tuple[str, ...]],
    generator: Any,
) -> list[Tensor]:
    """Uniform numbers in [0, 1), (B, K, *shape) for each shape and the names of its axes, in float64."""
    counts = [torch.Size(shape).numel() for shape in shapes]
    total = sum(counts)
    if total == 0:
        return []
    if total > SobolEngine.MAXDIM:
        raise RangeError(
            f"Expected at most {SobolEngine.MAXDIM} random numbers per draw for coupling 'quasi' (got {total})"
        )
    if exporting():
        raise TracingError(
            "Expected noise as an input to export coupling 'quasi' (got draws inside: Sobol sequences cannot be traced)"
        )
    grid = SobolEngine(total).draw(draws, dtype=torch.float64).to(batch.device)
    real = _real(batch, shapes, names)
    if real is not None:  # the coordinates of an item are those of what is real, in order
        grid = grid.T[(real.cumsum(1) - 1).clamp(min=0)].mT
        generator = generator.along(real) if isinstance(generator, Seeded) else generator
    shift = random_numbers(
        (batch.count, 1, total), normal=False, dtype=torch.float64, device=batch.device, generator=generator
    )
    parts = ((grid + shift) % 1).split(counts, -1)
    return [part.reshape(batch.count, draws, *shape) for part, shape in zip(parts, shapes, strict=True)]


def _real(batch: Batch, shapes: Sequence[tuple[int, ...]], names: Sequence[tuple[str, ...]]) -> Tensor | None:
    """Which of all numbers of a draw are for no padding, (B, total); None if all are."""
    masks = [real_entries(each, batch.masks, 1 + len(each)) for each in names]
    if all(real is None for real in masks):
        return None
    whole = torch.ones((), dtype=torch.bool, device=batch.device)
    return torch.cat(
        [
            (whole if real is None else real).expand(batch.count, *shape).reshape(batch.count, math.prod(shape))
            for real, shape in zip(masks, shapes, strict=True)
        ],
        1,
    )


def _spread(u: Tensor, law: Law, dtype: torch.dtype) -> Tensor:
    """Uniform numbers in [0, 1) as numbers of another law."""
    if not law.normal:
        return below((law.scale * u).to(dtype), law.scale)
    return (law.scale * normal_numbers(u)).to(dtype)


def _element(batch: Batch, key: str, u: Tensor, generator: torch.Generator | None) -> Tensor:
    """The uniform elements that uniform numbers name."""
    group, spare = batch.groups[key], None
    if not group.compares_features:  # completes what hardly spans, as `haar` does
        spare = group.features(
            u.shape[:2], size=batch.sizes.get(key), dtype=batch.dtype, device=u.device, generator=generator
        )
    return group.from_uniform(u, batch.dtype, noise=spare, mask=batch.mask_of(key))
