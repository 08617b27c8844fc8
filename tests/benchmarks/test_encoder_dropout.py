"""That the comparison drops where it says, and only there."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from benchmarks.encoder_dropout import patch_transformer_in, trained, with_dropout
from probsym.bases import PatchTransformer
from probsym.lab.methods import symmetrized_graphs
from probsym.lab.recipe import Recipe, Settings
from probsym.lab.training import initial_weights
from tests.lab.cases import CPU, NODES, PS, SETTINGS, Tiny

ENCODER = {"family": "bert", "width": 8, "layers": 1, "heads": 2, "feed_forward": 16}


class Patches(nn.Module):
    """One number for a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = PatchTransformer("n 2, n n -> 1", NODES, ENCODER, grid=3)

    def forward(self, features: Tensor, adjacency: Tensor) -> Tensor:
        output: Tensor = self.patches(features, adjacency)
        return output.squeeze(-1)


def build(settings: Settings) -> nn.Module:
    return symmetrized_graphs(Patches(), "ps", settings, "")


RECIPE = Recipe("tiny/patches-ps", Tiny, build, replace(SETTINGS, epochs=2, dropout=0.5))


@pytest.mark.parametrize(("tokens", "attention"), [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5)])
def test_dropout_is_where_it_was_asked_for(tokens: float, attention: float) -> None:
    recipe = with_dropout(RECIPE, tokens, attention)
    plain, other = (initial_weights(variant, variant.settings, 0) for variant in (RECIPE, recipe))
    assert all(torch.equal(plain[name], other[name]) for name in plain)
    assert plain.keys() == other.keys()
    encoder = patch_transformer_in(recipe.build(recipe.settings)).encoder
    rates = {name: module.p for name, module in encoder.named_modules() if isinstance(module, nn.Dropout)}
    assert rates.pop("layers.0.attention.self.dropout") == attention
    assert list(rates.values()) == 3 * [tokens]


def test_only_the_encoder_drops_in_evaluation() -> None:
    plain, dropping = (trained(with_dropout(RECIPE, tokens=rate), CPU) for rate in (0.0, 0.5))
    assert len(plain["train_loss"]) == len(plain["valid_loss"]) == 2
    assert plain["valid_loss_dropping"] == plain["valid_loss"][-1]
    assert plain["train_loss"] != dropping["train_loss"]
    assert dropping["valid_loss_dropping"] != pytest.approx(dropping["valid_loss"][-1], abs=1e-4)


def test_a_model_without_an_encoder_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"one PatchTransformer \(got 0\)"):
        patch_transformer_in(PS.build(PS.settings))
