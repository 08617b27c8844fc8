"""How much a prediction changes when the input is rotated, translated or permuted."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from probsym._internal.progress import Show
from probsym.errors import RunError
from probsym.lab.analyses.analysis import Questions, Row, in_parts, test_set
from probsym.lab.engine import Engine
from probsym.lab.examples import Examples
from probsym.lab.seeds import derived
from probsym.samplers.batch import zero_padding
from probsym.signature import Signature
from probsym.symmetrized import Mask, Symmetrized
from probsym.testing.moved import Moved


def by_move(engine: Engine, questions: Questions, show: Show) -> list[Row]:
    """One row for each kind of move that the task is symmetric under: every example moved by an element of its own.

    If the task does not say what that is, the model's own groups are taken.

    `moved_noise` and `largest` compare the prediction for the moved input with the moved prediction when the noise is
    moved along, root mean square and at most: what is left is rounding, or a lack of symmetry. `fresh` does so with
    draws of their own, as a user sees it: it falls with the number of draws. `change` is what the move does to the
    prediction itself, and `scale` the root mean square of the prediction, to compare with: where the prediction should
    not change at all, only the scale tells what is small. All in float64, and over entries that are no padding.
    """
    symmetry = engine.task.symmetry
    if symmetry is None and isinstance(engine.model, Symmetrized):
        symmetry = engine.model.signature
    if symmetry is None:
        raise RunError(f"Expected a task that says what it is symmetric under (got {engine.task.name!r})")
    part, count, _ = test_set(engine, questions)
    kinds = list(moves(symmetry))
    model = copy.deepcopy(engine.model).double().eval()
    samples = questions.samples if engine.draws else 1
    rows = []
    for place, kind in enumerate(kinds):
        generator = torch.Generator(engine.device).manual_seed(derived(questions.seed, f"moves {kind}"))
        batches = [
            differences(model, symmetry, few.double(), kind, samples if engine.draws else None, generator)
            for few in in_parts(part, count, samples)
        ]
        along, fresh, change, here = (torch.cat(column) for column in zip(*batches, strict=True))
        rows.append(
            {
                "move": kind,
                "examples": count,
                "draws": samples,
                "moved_noise": float(along.square().mean().sqrt()),
                "largest": float(along.abs().max()),
                "fresh": float(fresh.square().mean().sqrt()),
                "change": float(change.square().mean().sqrt()),
                "scale": float(here.square().mean().sqrt()),
            }
        )
        show(place + 1, len(kinds), kind)
    return rows


def moves(symmetry: Signature) -> Iterator[str]:
    """The kinds of moves: one for each group, translations apart from rotations, and all at once."""
    for key, group in symmetry.groups.items():
        translates = "point" in group.kinds
        yield from (f"{key}: rotated", f"{key}: translated") if translates else (f"{key}: moved",)
    yield "all"


def element(symmetry: Signature, part: Examples, kind: str, generator: torch.Generator) -> dict[str, Tensor]:
    """An element of each group for every example: uniform where the kind says so, else the one that moves nothing."""
    sizes, g = symmetry.check_inputs(part.inputs, part.mask), {}
    batch, dtype, device = (part.size,), part.inputs[0].dtype, part.inputs[0].device
    for key, group in symmetry.groups.items():
        size = sizes.get(key)
        still = group.identity(batch, size=size, dtype=dtype, device=device)
        drawn = group.random(batch, size=size, dtype=dtype, device=device, generator=generator)
        shift = group.translation(drawn)
        if shift is not None:
            turned = drawn if kind in ("all", f"{key}: rotated") else still
            shift = shift if kind in ("all", f"{key}: translated") else torch.zeros_like(shift)
            g[key] = group.with_translation(group.linear_part(turned), shift)
        else:
            g[key] = drawn if kind in ("all", f"{key}: moved") else still
    return g


@torch.no_grad()
def differences(
    model: nn.Module, symmetry: Signature, part: Examples, kind: str, samples: int | None, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of some examples: with the noise moved along, with fresh noise, what the move does, and the prediction itself.

    Each as one row of numbers, those of padding left out.
    """
    g = element(symmetry, part, kind, generator)
    moved = Moved.by(symmetry, g, part.inputs, part.mask)
    if not isinstance(model, Symmetrized):
        here, along = model(*part.inputs, mask=part.mask), model(*moved.inputs, mask=moved.mask)
        fresh = along
    else:
        noise = model.noise(*part.inputs, **part.keywords, samples=samples, generator=generator)
        other = model.noise(*moved.inputs, mask=moved.mask, index=part.ids, samples=samples, generator=generator)
        here = model(*part.inputs, **part.keywords, noise=noise)
        # by the symmetry of the task: also along axes that the base takes care of rather than the sampler
        follows = model.sampler.move(symmetry, g, noise)
        along, fresh = (
            model(*moved.inputs, mask=moved.mask, index=part.ids, noise=chosen) for chosen in (follows, other)
        )
    wanted = moved.outputs([here.unsqueeze(1)])[0].squeeze(1)
    before, after = (real_entries(symmetry, here, mask) for mask in (part.mask, moved.mask))
    change = wanted - torch.where(before, here, 0)
    return (along - wanted)[after], (fresh - wanted)[after], change[after], here[before]


def real_entries(symmetry: Signature, output: Tensor, mask: Mask | None) -> Tensor:
    """Which entries of an output are no padding, as booleans."""
    ones = torch.ones_like(output)
    return zero_padding(ones, symmetry.outputs[0], symmetry.masks(mask)) > 0
