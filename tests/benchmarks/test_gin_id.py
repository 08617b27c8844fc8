"""Each change of the study does what it says, and nothing else."""

from __future__ import annotations

from argparse import ArgumentTypeError
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from benchmarks.gin_id import CHANGES, METHODS, CountingNorm, NoNorm, built, known_changes, matters, row_of
from benchmarks.recipe_runs import trainable
from probsym.data import decorated_cycles
from probsym.lab.recipes.graphs import as_examples
from probsym.nets import MaskedBatchNorm

GRAPHS = as_examples(decorated_cycles(6, 16, torch.Generator().manual_seed(0)))
PADDED = GRAPHS._replace(
    inputs=(nn.functional.pad(GRAPHS.inputs[0], (0, 0, 0, 8)), nn.functional.pad(GRAPHS.inputs[1], (0, 8, 0, 8))),
    mask=nn.functional.pad(GRAPHS.mask, (0, 8)) if GRAPHS.mask is not None else None,
)


def model_of(change: str, method: str = "canonical") -> nn.Module:
    torch.manual_seed(0)
    return built(replace(trainable(row_of(method)).settings, samples=1), method, known_changes(change))


def output(model: nn.Module, seed: int, examples: object = GRAPHS) -> Tensor:
    assert isinstance(examples, type(GRAPHS))
    values: Tensor = model(*examples.inputs, mask=examples.mask, generator=torch.Generator().manual_seed(seed))
    return values


@pytest.mark.parametrize("method", METHODS)
def test_models_begin_alike(method: str) -> None:
    wanted = model_of("none", method).state_dict()
    for change in CHANGES:
        state = model_of(change, method).state_dict()
        assert (state.keys() == wanted.keys()) == (change != "base")
        assert all(torch.equal(state[name], wanted[name]) for name in state if not name.endswith("epsilon"))


@pytest.mark.parametrize("method", METHODS)
def test_plain_base_is_one_map_a_layer_and_a_sum(method: str) -> None:
    base = model_of("base", method).base
    assert isinstance(base, nn.Module)
    x, adjacency = GRAPHS.inputs
    assert GRAPHS.mask is not None
    n = x.shape[1]
    hidden = torch.cat([x, torch.eye(n, 64).expand(len(x), -1, -1)], -1) * GRAPHS.mask.unsqueeze(-1)
    state = base.state_dict()
    for i in range(3):
        scale, weight, bias = (state[f"layers.{i}.{name}"] for name in ("epsilon", "mlp.0.weight", "mlp.0.bias"))
        assert 0 < scale < 1
        hidden = torch.relu((adjacency @ hidden + (1 + scale) * hidden) @ weight.mT + bias)
    wanted = base.get_submodule("head")((hidden * GRAPHS.mask.unsqueeze(-1)).sum(1)).squeeze(-1)
    torch.testing.assert_close(base(x, adjacency, mask=GRAPHS.mask), wanted)


def test_changes_join() -> None:
    model = model_of("place+base+padding").eval()
    assert torch.equal(output(model, 0), output(model, 1))
    assert any(isinstance(module, CountingNorm) for module in model.modules())
    assert any(isinstance(module, NoNorm) for module in model.modules())
    assert known_changes("base+place") == known_changes("place+base") == ("place", "base")
    for wrong in ("base+none", "base+base", "bass", ""):
        with pytest.raises(ArgumentTypeError, match="different ones of none, place, padding, base"):
            known_changes(wrong)


def test_changes_that_matter_change_the_output() -> None:
    """And those that do not are known."""
    for method in METHODS:
        plain = output(model_of("none", method).train(), 0, PADDED)
        for change in ("place", "padding", "base"):
            same = torch.equal(output(model_of(change, method).train(), 0, PADDED), plain)
            assert same != matters(method, known_changes(change))
    alone, joined = (output(model_of(name, "ga").train(), 0, PADDED) for name in ("base", "base+padding"))
    assert torch.equal(alone, joined)
    assert not matters("ga", known_changes("base+padding"))
    assert matters("canonical", known_changes("base+padding"))


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
        statistics.append([norm.running_mean.clone() for norm in model.modules() if isinstance(norm, MaskedBatchNorm)])
    same = [torch.allclose(mean, padded, atol=1e-6) for mean, padded in zip(*statistics, strict=True)]
    assert len(same) == 6 + (0 if change == "base" else 3)
    assert same[:6] == [change != "padding"] * 6  # the sampler's; what the base sees depends on the draw
