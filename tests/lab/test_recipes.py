"""Every recipe builds its model and runs it on real graphs; what should be invariant is."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from probsym import testing
from probsym.data import Graphs, decorated_cycles, exp, graph8c
from probsym.lab.examples import Examples
from probsym.lab.methods import GRAPH_METHODS
from probsym.lab.recipe import Recipe
from probsym.lab.recipes import RECIPES, exp_classify, separation
from probsym.lab.recipes.demo import NODES
from probsym.lab.recipes.graphs import as_examples, graph_network
from probsym.lab.separation import SeparationRecipe, separate
from probsym.symmetrized import Symmetrized
from tests.lab.cases import METHODS, SETTINGS, Ranked, Tiny

DATA = Path(os.environ.get("PROBSYM_DATA", ""))
real = pytest.mark.skipif(not (DATA / "exp_graphsat.npz").is_file(), reason="no EXP in PROBSYM_DATA")
FEW = torch.arange(4)
SMALL = ("exp", "exp-classify", "graph8c", "demo")
IMAGES = ("pattern", "peptides-func", "peptides-struct", "pcqm-contact")


@cache
def examples_of(task: str, ranks: bool = False) -> Examples:
    if task == "demo":
        return as_examples(decorated_cycles(4, NODES, torch.Generator().manual_seed(0)))
    return as_examples((graph8c() if task == "graph8c" else exp()).take(FEW), ranks=ranks)


@real
@pytest.mark.parametrize("name", [name for name in RECIPES if name.split("/")[0] in SMALL])
def test_every_recipe_runs_on_four_real_graphs(name: str) -> None:
    recipe, (task, _, row) = RECIPES[name], name.partition("/")
    model = recipe.build(replace(recipe.settings, samples=2, eval_samples=2)).eval()
    few = examples_of(task, ranks=row.endswith("fa"))
    options = {"index": few.ids} if row.endswith("fixed-noise") else {}
    with torch.no_grad():
        output = model(*few.inputs, mask=few.mask, **options)
    assert output.shape == ((4,) if isinstance(recipe, Recipe) else (4, 10))
    assert output.isfinite().all()
    if task in ("exp", "graph8c"):
        assert output.abs().max() <= 1
    if row.removesuffix("-sum") in ("gin", "gcn"):
        assert not isinstance(model, Symmetrized)
    elif row.endswith("canonical"):
        assert (model.samples, model.eval_samples) == (1, 1)
    else:
        assert (model.samples, model.eval_samples) == (2, 2)


@real
@pytest.mark.parametrize("name", [name for name in RECIPES if name.endswith(("/gin", "/gcn")) and "exp" in name])
def test_message_passing_alone_does_not_tell_pairs_of_exp_apart(name: str) -> None:
    model, few = RECIPES[name].build(RECIPES[name].settings).eval(), examples_of("exp")
    with torch.no_grad():
        output = model(*few.inputs, mask=few.mask)
    torch.testing.assert_close(output[0], output[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["ga", "fa", "canonical", "ps"])
@pytest.mark.parametrize("seed", range(2))
def test_methods_are_equivariant(method: str, seed: int) -> None:
    model = METHODS[method].build(replace(SETTINGS, eval_samples=10)).double()
    part = METHODS[method].task().load().train.take(slice(0, 10))
    inputs = tuple(x.double() for x in part.inputs)
    generator = torch.Generator().manual_seed(seed)
    equivariance = testing.assert_equivariant(model, *inputs, mask=part.mask, generator=generator)
    assert equivariance.unclear < equivariance.draws


def test_fixed_noise_is_not_equivariant() -> None:
    model = METHODS["ps-fixed-noise"].build(replace(SETTINGS, eval_samples=10)).double()
    part = Tiny().load().train.take(slice(0, 10))
    with pytest.raises(AssertionError, match="fixed noise"):
        testing.assert_equivariant(model, *(x.double() for x in part.inputs), mask=part.mask, index=part.ids)


def test_the_frame_is_the_spectral_one_and_sees_no_eigenvectors() -> None:
    model = METHODS["fa"].build(replace(SETTINGS, eval_samples=20)).eval()
    part = Ranked().load().train.take(slice(0, 6))
    orders = model.estimate(*part.inputs, mask=part.mask, generator=torch.Generator().manual_seed(0)).elements["n"]
    sorted_ranks = part.inputs[2].unsqueeze(1).expand(-1, 20, -1).gather(2, orders)
    for ranks, mask in zip(sorted_ranks, part.mask, strict=True):
        real = ranks[:, : int(mask.sum())]
        assert (real[:, 1:] <= real[:, :-1]).all()


def test_names_are_a_task_and_a_row_and_all_different() -> None:
    for name, recipe in RECIPES.items():
        assert recipe.name == name
        task, _, row = name.partition("/")
        assert task in (*SMALL, *IMAGES, "nbody", "acetylacetone")
        if task in IMAGES:
            assert re.fullmatch(r"(vit-(ti|s|b)|deit-ti|galileo|minilm)-(scratch|pretrained)-(ga|fa|canonical|ps)", row)
        if task not in SMALL:
            continue
        assert (
            row.removesuffix("-sum") in ("gin", "gcn")
            or row.removeprefix("mlp-").removeprefix("gin-id-") in GRAPH_METHODS
        )
    assert len(RECIPES) == 63 + (4 * 2 * 4 + 2 * 2) + 3 * 4 * 2 + 6


def test_examples_are_numbered_and_padded_with_zeros() -> None:
    graphs = decorated_cycles(6, 24, torch.Generator().manual_seed(0))
    examples = as_examples(graphs, ranks=True).numbered(100)
    assert examples.ids.tolist() == list(range(100, 106))
    assert not any(x[~graphs.mask].any() for x in examples.inputs)
    assert examples.inputs[2].dtype == torch.float32
    assert len(as_examples(graphs).inputs) == 2


@real
@pytest.mark.parametrize("name", [name for name in RECIPES if name.split("/")[0] in ("exp", "exp-classify", "graph8c")])
def test_only_frames_wait_for_ranks(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    asked = list[bool]()

    def small(graphs: Graphs, *, ranks: bool = False) -> Examples:
        asked.append(ranks)
        return as_examples(graphs)

    for place in (exp_classify, separation):
        monkeypatch.setattr(place, "as_examples", small)
    recipe = RECIPES[name]
    _ = recipe.task().load() if isinstance(recipe, Recipe) else recipe.load()
    assert asked == [name.endswith("fa")]


@real
@pytest.mark.parametrize("name", [name for name in RECIPES if name.split("/")[0] in ("exp", "graph8c")])
def test_every_separation_runs_on_its_own_data(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for load in (exp, graph8c):
        few = load().take(FEW)
        monkeypatch.setattr(separation, load.__name__, lambda few=few: few)
    recipe = RECIPES[name]
    assert isinstance(recipe, SeparationRecipe)
    small = replace(recipe, models=1, calibrated_models=1, calibrated_draws=20)
    counts = separate(small, 0, torch.device("cpu"))
    assert all(0 <= value <= separation.RANDOM_PAIRS for value in counts.values())


@real
@pytest.mark.slow
def test_exp_is_split_as_the_paper_does() -> None:
    splits = RECIPES["exp-classify/mlp-ps"].task().load()
    assert [part.size for part in splits] == [800, 200, 200]
    assert len(torch.cat([part.ids for part in splits]).unique()) == 1200
    assert all(part.targets.mean() == 0.5 for part in splits)


def test_settings_of_exp_classify_are_the_papers() -> None:
    settings = RECIPES["exp-classify/mlp-ps"].settings
    assert (settings.epochs, settings.batch_size, settings.learning_rate, settings.samples) == (2000, 100, 1e-3, 10)
    assert (settings.tau, settings.entropy, settings.noise, settings.clip) == (0.01, 0.1, 1.0, 0.1)


@pytest.mark.parametrize("kind", ["gin-id", "gin", "gcn"])
def test_networks_give_one_number_or_many(kind: str) -> None:
    few = examples_of("demo")
    for output, shape in ((None, (4,)), (3, (4, 3))):
        network = graph_network(kind, NODES, output, "relu").eval()
        assert network(few.inputs[0], few.inputs[1], mask=few.mask).shape == shape
