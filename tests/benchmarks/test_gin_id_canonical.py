"""Each change of the study does what it says, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from benchmarks.gin_id_canonical import CHANGES, ROW, built
from benchmarks.recipe_runs import trainable
from probsym.data import decorated_cycles
from probsym.lab.recipes.graphs import as_examples
from probsym.nets import MaskedBatchNorm

GRAPHS = as_examples(decorated_cycles(6, 16, torch.Generator().manual_seed(0)))
PADDED = GRAPHS._replace(
    inputs=(nn.functional.pad(GRAPHS.inputs[0], (0, 0, 0, 8)), nn.functional.pad(GRAPHS.inputs[1], (0, 8, 0, 8))),
    mask=nn.functional.pad(GRAPHS.mask, (0, 8)) if GRAPHS.mask is not None else None,
)


def model_of(change: str) -> nn.Module:
    torch.manual_seed(0)
    return built(replace(trainable(ROW).settings, samples=1), change)


def output(model: nn.Module, seed: int, examples: object = GRAPHS) -> Tensor:
    assert isinstance(examples, type(GRAPHS))
    found: Tensor = model(*examples.inputs, mask=examples.mask, generator=torch.Generator().manual_seed(seed))
    return found


def test_models_begin_alike() -> None:
    wanted = model_of("none").state_dict()
    for change in CHANGES:
        found = model_of(change).state_dict()
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_ties_by_place_are_not_drawn() -> None:
    for change, drawn in (("none", True), ("place", False)):
        model = model_of(change).eval()
        assert torch.equal(output(model, 0), output(model, 1)) != drawn


@pytest.mark.parametrize("change", CHANGES)
def test_padding_enters_norms_if_it_is_to(change: str) -> None:
    """More padding changes the statistics of every norm, or of none."""
    statistics = []
    for examples in (GRAPHS, PADDED):
        model = model_of(change).train()
        output(model, 0, examples)
        statistics.append([one.running_mean.clone() for one in model.modules() if isinstance(one, MaskedBatchNorm)])
    same = [torch.allclose(one, other, atol=1e-6) for one, other in zip(*statistics, strict=True)]
    assert len(same) == 6 + 3
    assert same[:6] == [change != "padding"] * 6  # the sampler's; what the base sees depends on the draw
