"""Which pairs of graphs a model separates at random initialisation: the paper's count, and an honest one.

The paper takes 10 draws and calls a pair separated if for one of 100 initialisations the outputs differ by more than
1e-3. But the average over 10 draws is itself random, so a graph would be "separated" from a relabelled copy of itself.
That control is counted here beside it; and a calibrated test, Hotelling's over many draws with Bonferroni's correction,
which the control does not deceive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from probsym._internal.progress import Show
from probsym.lab.examples import Examples
from probsym.lab.hotelling import compare, joined, moments
from probsym.lab.recipe import Settings
from probsym.lab.seeds import derived, seeded
from probsym.symmetrized import Symmetrized

NUMBERS = 20_000_000
"""How many the largest input of one call has at most, over graphs and draws; on a GPU ten times as many."""
ROWS = 512
"""Graphs that are compared with all others at a time."""


@dataclass(frozen=True)
class SeparationRecipe:
    """One row of a separation task.

    Args:
        load: makes the graphs.
        pairs: which to compare, (pairs, 2); None for all pairs there are.
        calibrated_pairs: which to compare by the calibrated test.
        build: makes the model, with d outputs a graph.
    """

    name: str
    load: Callable[[], Examples]
    pairs: Callable[[Examples], Tensor | None]
    calibrated_pairs: Callable[[Examples], dict[str, Tensor]]
    build: Callable[[Settings], nn.Module]
    settings: Settings
    models: int = 100
    threshold: float = 1e-3
    calibrated_draws: int = 500
    calibrated_models: int = 3
    level: float = 0.05

    def protocol(self) -> dict[str, float]:
        """How pairs are compared, in numbers."""
        names = ("models", "threshold", "calibrated_draws", "calibrated_models", "level")
        return {name: getattr(self, name) for name in names}


def separate(recipe: SeparationRecipe, seed: int, device: torch.device, show: Show | None = None) -> dict[str, float]:
    """Count the pairs that are not separated, by both protocols, and the controls that are."""
    examples = recipe.load().to(device)
    relabelled = relabel(examples, seed)
    pairs = recipe.pairs(examples)
    # of all pairs only those still together are kept, since nearly all fall apart at once
    together = None if pairs is None else pairs.to(device)
    total = examples.size * (examples.size - 1) // 2 if pairs is None else len(pairs)
    calibrated = recipe.calibrated_pairs(examples)
    control = torch.zeros(examples.size, dtype=torch.bool, device=device)
    least = {name: torch.ones(len(compared), dtype=torch.float64) for name, compared in calibrated.items()}
    least_control = torch.ones(examples.size, dtype=torch.float64)
    for place, model in enumerate(models(recipe, seed, device)):
        generator = torch.Generator(device).manual_seed(derived(seed, "draws", place))
        draws = getattr(model, "eval_samples", 1)
        originals, copies = (
            torch.cat([values.mean(1) for values in outputs(model, graphs, draws, generator)])
            for graphs in (examples, relabelled)
        )
        together = close_pairs(originals, together, recipe.threshold)
        control |= (originals - copies).abs().sum(-1) > recipe.threshold
        if place < recipe.calibrated_models:
            # in float64: where scores nearly tie, rounding alone can order a copy differently, as the test would see
            precise = model.double()
            known, copied = (
                joined(
                    [
                        moments(values)
                        for values in outputs(precise, graphs.double(), recipe.calibrated_draws, generator)
                    ]
                )
                for graphs in (examples, relabelled)
            )
            for name, compared in calibrated.items():
                first, second = compared.to(device).T
                least[name] = torch.minimum(least[name], compare(known.take(first), known.take(second)))
            least_control = torch.minimum(least_control, compare(known, copied))
        if show is not None:
            show(place + 1, recipe.models, "random models")
    metrics: dict[str, float] = {
        "pairs": total,
        "not_separated": total if together is None else len(together),
        "control_separated": int(control.sum()),
        "controls": examples.size,
    }
    metrics["calibrated_pairs"] = sum(len(p_values) for p_values in least.values())
    bound = recipe.level / (metrics["calibrated_pairs"] * recipe.calibrated_models)
    kept = {name: int((p_values >= bound).sum()) for name, p_values in least.items()}
    metrics["not_separated_calibrated"] = sum(kept.values())
    if len(kept) > 1:
        metrics |= {f"not_separated_calibrated_{name}": count for name, count in kept.items()}
    bound = recipe.level / (examples.size * recipe.calibrated_models)
    metrics["control_separated_calibrated"] = int((least_control < bound).sum())
    return metrics


def models(recipe: SeparationRecipe, seed: int, device: torch.device) -> Iterator[nn.Module]:
    """The model at one random initialisation after the other, in evaluation mode."""
    for place in range(recipe.models):
        # made where they are used: drawing millions of weights elsewhere would take longer than using them
        with seeded(device, derived(seed, "initialisation", place)), torch.device(device):
            model = recipe.build(recipe.settings)
        yield model.to(device).eval()


@torch.no_grad()
def outputs(model: nn.Module, examples: Examples, draws: int, generator: torch.Generator) -> Iterator[Tensor]:
    """The outputs of every draw, (graphs, draws, d), some graphs at a time; models without draws have one."""
    numbers = draws * max(x[0].numel() for x in examples.inputs)
    step = max(1, (NUMBERS if generator.device.type == "cpu" else 10 * NUMBERS) // numbers)
    for start in range(0, examples.size, step):
        part = examples.take(slice(start, start + step))
        if not isinstance(model, Symmetrized):
            yield model(*part.inputs, mask=part.mask).unsqueeze(1)
            continue
        estimate = model.estimate(*part.inputs, **part.keywords, samples=draws, generator=generator, keep_values=True)
        yield estimate.values


def relabel(examples: Examples, seed: int) -> Examples:
    """The same graphs with their real nodes in another order, and other numbers: the control."""
    features, adjacency, *ranks = examples.inputs
    mask = features.new_ones(features.shape[:2], dtype=torch.bool) if examples.mask is None else examples.mask
    generator = torch.Generator().manual_seed(derived(seed, "relabelling"))
    keys = torch.rand(mask.shape, generator=generator).to(mask.device)
    order = torch.where(mask, keys, 2 + torch.arange(mask.shape[1], device=mask.device)).argsort(1)
    rows = torch.arange(len(order), device=order.device).unsqueeze(1)
    moved = (
        features[rows, order],
        adjacency[rows.unsqueeze(2), order.unsqueeze(2), order.unsqueeze(1)],
        *(rank[rows, order] for rank in ranks),
    )
    return Examples(
        moved, mask[rows, order] if examples.mask is not None else None, examples.targets, examples.ids + examples.size
    )


def close_pairs(outputs: Tensor, pairs: Tensor | None, threshold: float) -> Tensor:
    """Those of the pairs, or of all there are if None, whose outputs, of (graphs, d), are no further apart than that.

    The distance is the sum of absolute differences.
    """
    if pairs is not None:
        first, second = pairs.T
        return pairs[(outputs[first] - outputs[second]).abs().sum(-1) <= threshold]
    close = []
    for start in range(0, len(outputs), ROWS):
        near = (torch.cdist(outputs[start : start + ROWS].double(), outputs.double(), p=1) <= threshold).nonzero()
        near[:, 0] += start
        close.append(near[near[:, 0] < near[:, 1]])
    return torch.cat(close)
