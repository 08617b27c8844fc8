"""Weights are compared before memory is taken for them; models as a whole are in test_saving.py."""

import pytest
import torch
from torch import nn

from probsym._internal.loaded_weights import bare, check_sizes, fill
from probsym.errors import CheckpointError

TENSORS = {"base.weight": torch.ones(3, 2), "base.bias": torch.ones(3)}


def test_parts_are_made_without_memory_and_compared() -> None:
    made = []

    def make(width: int) -> dict[str, nn.Module]:
        made.append(nn.Linear(2, width))
        return {"base": made[-1], "samples": 3}

    check_sizes(lambda: make(3), TENSORS, "here")
    assert made[-1].weight.is_meta
    with pytest.raises(
        CheckpointError, match=r"Expected base.weight of here to be \(1000000000000, 2\) \(got \(3, 2\)\)"
    ):
        check_sizes(lambda: make(10**12), TENSORS, "here")
    with pytest.raises(CheckpointError, match=r"1 missing, 0 unknown, such as base.bias"):
        check_sizes(lambda: make(3), {"base.weight": torch.ones(3, 2)}, "here")


def test_who_makes_layers_without_end_is_stopped() -> None:
    made = []

    def endless() -> dict[str, nn.Module]:
        while True:
            made.append(nn.Linear(1, 1))

    with pytest.raises(CheckpointError, match="Expected settings as large as the weights of here"):
        check_sizes(endless, TENSORS, "here")
    assert len(made) < 1000
    assert nn.Sequential(nn.Linear(1, 1))[0].weight.device.type == "cpu"  # and nobody else is, nor later


def test_nothing_is_filled_in_unless_all_fits() -> None:
    model = nn.ModuleDict({"base": nn.Linear(2, 3)})
    before = model["base"].weight.detach().clone()
    for name, bad in (("base.bias", torch.tensor([0.0, torch.nan, 0.0])), ("base.bias", torch.ones(3).bfloat16())):
        with pytest.raises(CheckpointError, match=r"^Expected"):
            fill(model, {**TENSORS, name: bad}, "here", uniform=("base",))
        assert torch.equal(model["base"].weight, before)
    fill(model, TENSORS, "here", uniform=("base",))
    assert bool((model["base"].weight == 1).all())
    assert bare("base._orig_mod.weight") == "base.weight"
