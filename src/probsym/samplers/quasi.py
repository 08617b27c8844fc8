"""Draws that fill the space of their random numbers evenly: randomised quasi-Monte Carlo."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from probsym.errors import GroupError, RangeError
from probsym.groups import E, Group, O, S
from probsym.groups.planar import PlanarGroup
from probsym.samplers.base import Sampler
from probsym.samplers.batch import Batch
from probsym.samplers.noise import Law, Noise, below

STANDARD = Law(normal=True, scale=1.0)
UNIT = Law(normal=False, scale=1.0)


def quasi(
    sampler: Sampler, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0
) -> Noise:
    """Noise that is a Sobol sequence over the draws, shifted at random modulo 1 for each batch item.

    All random numbers of a draw are the coordinates of one point, those that always matter first. The best numbers of
    draws are powers of two. Each draw alone has its law, but the draws of a moved input together need not be
    distributed as those of the input, moved.
    """
    like = sampler.noise(batch, 1, generator, start=start)
    laws, groups = sampler.noise_laws(batch.signature), batch.signature.groups
    shapes = [tuple(x.shape[2:]) for x in like.inputs]
    shapes += [_numbers(groups[key], g) for key, g in like.elements.items()]
    shapes += [tuple(u.shape[2:]) for u in like.ties.values()]
    shapes += [_numbers(groups[key], z) for key, z in like.completion.items()]
    points = iter(_points(batch, draws, shapes, generator))
    return Noise(  # in the order of the shapes
        inputs=tuple(_spread(next(points), law, x.dtype) for x, law in zip(like.inputs, laws, strict=True)),
        elements={key: _element(batch, key, next(points), generator) for key in like.elements},
        ties={key: _spread(next(points), UNIT, u.dtype) for key, u in like.ties.items()},
        completion={key: _features(groups[key], next(points), z.dtype) for key, z in like.completion.items()},
    )


def _points(
    batch: Batch, draws: int, shapes: Sequence[tuple[int, ...]], generator: torch.Generator | None
) -> list[Tensor]:
    """Uniform numbers in [0, 1), (B, K, *shape) for each shape, in float64."""
    counts = [torch.Size(shape).numel() for shape in shapes]
    total = sum(counts)
    if total == 0:
        return []
    if total > SobolEngine.MAXDIM:
        raise RangeError(
            f"Expected at most {SobolEngine.MAXDIM} random numbers a draw for coupling 'quasi' (got {total})"
        )
    grid = SobolEngine(total).draw(draws, dtype=torch.float64).to(batch.device)
    shift = torch.rand(len(batch), 1, total, dtype=torch.float64, device=batch.device, generator=generator)
    parts = ((grid + shift) % 1).split(counts, -1)
    return [part.reshape(len(batch), draws, *shape) for part, shape in zip(parts, shapes, strict=True)]


def _spread(u: Tensor, law: Law, dtype: torch.dtype) -> Tensor:
    """Uniform numbers in [0, 1) as numbers of another law."""
    if not law.normal:
        return below((law.scale * u).to(dtype), law.scale)
    return (law.scale * torch.special.ndtri(u.clamp(2.0**-54, 1 - 2.0**-53))).to(dtype)


def _numbers(group: Group, like: Tensor) -> tuple[int, ...]:
    """The shape of the numbers that make one element, or the features of one."""
    if isinstance(group, S):
        return (like.shape[-1],)
    if isinstance(group, PlanarGroup):
        return ()
    if not isinstance(group, O | E):
        raise GroupError(f"Expected one of the groups of probsym for coupling 'quasi' (got {group!r})")
    return (group.d, group.d)


def _features(group: Group, u: Tensor, dtype: torch.dtype) -> Tensor:
    z = _spread(u, STANDARD, dtype)
    return torch.cat([z, torch.zeros_like(z[..., :1])], -1) if isinstance(group, E) else z


def _element(batch: Batch, key: str, u: Tensor, generator: torch.Generator | None) -> Tensor:
    """The uniform elements that uniform numbers name."""
    group = batch.signature.groups[key]
    if isinstance(group, S):
        return group.project(u, mask=batch.mask_of(key))
    if isinstance(group, PlanarGroup):
        return (u * group.order).long().clamp(max=group.order - 1)
    z = _features(group, u, batch.dtype)
    # completes what hardly spans, as `haar` does
    spare = group.features(z.shape[:2], dtype=z.dtype, device=z.device, generator=generator)
    return group.project(z, noise=spare)
