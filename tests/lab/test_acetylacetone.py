"""Energies and forces in one loss, on molecules made here: two kinds of atoms on springs."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from probsym import Symmetrized, groups
from probsym.data import Molecules
from probsym.errors import RunError
from probsym.lab.analyses import ANALYSES, Questions
from probsym.lab.recipe import Recipe, Settings
from probsym.lab.recipes import acetylacetone as module
from probsym.lab.recipes.acetylacetone import CALLS, RECIPES, TESTS, Acetylacetone, AtomTransformer, Augmented
from probsym.lab.run import Options, make_fabric
from probsym.lab.training import Training, make_engine

DATA = Path(os.environ.get("PROBSYM_DATA", ""), "acetylacetone.npz")
ISOLATED = {1: -13.0, 6: -1000.0, 8: -2000.0}
SMALL = {"epochs": 3, "batch_size": 5, "samples": 2, "eval_samples": 2, "validate_every": 1, "warmup_epochs": 0.0}


def springs(count: int, seed: int, forces: bool = True) -> Molecules:
    """A carbon between hydrogens, each spring of length 1 eV and angstrom."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.tensor([6, 1, 1, 8]).expand(count, 4)
    x = torch.randn(count, 4, 3, generator=generator, dtype=torch.float64).requires_grad_()
    energy = ((x[:, 1:] - x[:, :1]).norm(dim=-1) - 1).square().sum(1) + 0.1 * (x[:, 1] - x[:, 3]).square().sum(-1)
    (gradient,) = torch.autograd.grad(energy.sum(), x)
    total = energy.detach() - 3026.0
    return Molecules(numbers, x.detach(), total, -gradient if forces else torch.full_like(gradient, torch.nan))


def made() -> tuple[dict[str, Molecules], dict[int, float]]:
    sets = {"train_300k": springs(70, 0), "test_300k": springs(12, 1), "test_600k": springs(12, 2)}
    return {**sets, "test_dihedral": springs(5, 3, False), "test_h_transfer": springs(4, 4, False)}, ISOLATED


@pytest.fixture(autouse=True)
def _made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "acetylacetone", made)
    monkeypatch.setattr(module, "AtomTransformer", partial(AtomTransformer, width=16, layers=1, heads=2))


def recipe_of(method: str) -> Recipe:
    return next(recipe for recipe in RECIPES if recipe.name.endswith(f"-{method}"))


def engine_of(method: str, **changes: Any) -> Any:
    recipe = recipe_of(method)
    return make_engine(recipe, replace(recipe.settings, **{**SMALL, **changes}), make_fabric(Options("cpu")), seed=0)


def test_there_is_a_recipe_for_every_method() -> None:
    assert [recipe.name for recipe in RECIPES] == [f"acetylacetone/transformer-{method}" for method in CALLS]


@pytest.mark.parametrize("method", CALLS)
def test_methods_are_trained_with_equally_many_calls_of_the_base(method: str) -> None:
    recipe, seen = recipe_of(method), []
    model = recipe.build(recipe.settings).train()
    model.base.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    model(torch.zeros(5, 4, 3), torch.randn(5, 4, 3))
    assert seen == [5 * CALLS[method]]
    assert recipe.settings.epochs * CALLS[method] == pytest.approx(8 * recipe_of("ga").settings.epochs, rel=1e-2)
    assert recipe.settings.batch_size * CALLS[method] == pytest.approx(200, rel=0.25)  # and about as many steps


def test_sets_are_apart_and_energies_without_those_of_the_atoms() -> None:
    task = Acetylacetone()
    splits = task.load()
    assert [part.size for part in splits] == [20, 50, 33]
    assert torch.cat([part.ids for part in splits]).tolist() == list(range(103))
    assert splits.train.targets[:, 0].mean().abs() < 1e-5
    numbers, _, energy, forces = made()[0]["train_300k"]
    few = splits.train.take(slice(0, 3))
    wanted = energy[:3] - sum(task.references[int(number)] for number in numbers[0])
    torch.testing.assert_close(few.targets[:, 0].double(), wanted, rtol=0, atol=1e-5)
    torch.testing.assert_close(few.targets[:, 1:-1], forces[:3].flatten(1).float())
    assert few.inputs[0][0].argmax(-1).tolist() == [1, 0, 0, 2]
    assert few.inputs[1].mean(1).abs().max() < 1e-6
    parts = task.test_parts()
    assert {name: int(part.sum()) for name, part in parts.items()} == {
        "300k": 12,
        "600k": 12,
        "dihedral": 5,
        "h_transfer": 4,
    }


def test_errors_are_by_set_and_in_milli_units() -> None:
    task = Acetylacetone()
    targets = task.load().test.targets
    output = targets[:, :-1].nan_to_num(0.0)
    output[:12, 0] += 0.002
    output[12:24, 1:] += 0.003
    output[24:29, 0] -= 0.004
    metrics = task.metrics(output, targets)
    wanted = dict.fromkeys(("energy_600k", "energy_h_transfer", "forces_300k"), 0.0)
    wanted |= {"energy_300k": 2.0, "forces_600k": 3.0, "energy_dihedral": 4.0}
    assert {name: pytest.approx(float(value), abs=1e-2) for name, value in metrics.items() if name != "loss"} == wanted
    each = task.losses(output, targets)
    assert float(each[0]) == pytest.approx(0.002**2 / 4, rel=1e-2)
    assert float(each[12]) == pytest.approx(0.003**2, rel=1e-2)
    assert float(task.loss(output, targets)) == pytest.approx(float(each.mean()))


@pytest.mark.parametrize("method", CALLS)
def test_training_sees_energies_and_forces(method: str, tmp_path: Path) -> None:
    engine = engine_of(method)
    training = Training(engine, recipe_of(method), 0, tmp_path)
    metrics = training.run()
    first, *_, last = (row["train_loss"] for row in training.progress.curve)
    assert last < first
    names = [f"{kind}_{name}" for kind, name in (("energy", "300k"), ("forces", "600k"), ("energy", "dihedral"))]
    assert all(metrics[f"test_{name}"] > 0 for name in names)
    assert "test_forces_dihedral" not in metrics


@pytest.mark.parametrize("method", CALLS)
def test_the_gradient_of_the_loss_is_that_of_energies_and_forces(method: str) -> None:
    """Against a difference in one weight: the second derivative is there, and is right."""
    engine = engine_of(method, averaging=0.0)
    engine.model.double().train()
    batch = engine.data.train.take(torch.arange(4))
    batch = batch.double()._replace(targets=batch.targets.double())
    noise = engine._noise(batch)
    base = engine.model.base
    weight = base.embed[0].weight

    def loss() -> Tensor:
        torch.manual_seed(0)
        inputs = engine._inputs(batch)
        drawn = {"noise": noise} if isinstance(engine.model, Symmetrized) else {}
        energy = engine.model(*inputs, **drawn)
        return engine.task.loss(engine._with_forces(energy, inputs), batch.targets)

    gradient = torch.autograd.grad(loss(), weight)[0][0, 4]
    values = []
    for step in (1e-5, -1e-5):
        with torch.no_grad():
            weight[0, 4] += step
        values.append(loss().detach())
        with torch.no_grad():
            weight[0, 4] -= step
    assert float(gradient) == pytest.approx(float(values[0] - values[1]) / 2e-5, rel=1e-5)


def test_evaluation_has_the_forces_of_the_energy() -> None:
    engine = engine_of("quadrature")
    engine.model.eval()
    part = engine.data.test
    output = engine._evaluation(part, torch.arange(3), None)(torch.arange(3))
    assert output.shape == (3, 13)
    assert not output.requires_grad
    assert output[:, 1:].unflatten(1, (4, 3)).sum(1).abs().max() < 1e-5  # nothing pushes the molecule as a whole


def test_symmetrized_models_are_invariant_and_the_augmented_one_is_not() -> None:
    rows = {}
    for method in ("ga", "augmented"):
        rows[method] = ANALYSES["equivariance"](engine_of(method), Questions(examples=5, samples=3), lambda *_: None)
    assert rows["ga"][-1]["largest"] < 1e-10
    turned, shifted = rows["augmented"][:2]
    assert turned["largest"] > 1e-4
    assert shifted["largest"] < 1e-10


def test_the_analysis_of_parts_reads_energies_alone() -> None:
    rows = ANALYSES["parts"](engine_of("ga"), Questions(samples=2, repeats=1), lambda *_: None)
    assert [row["part"] for row in rows][:5] == ["all", *(name.removeprefix("test_") for name in TESTS)]


def test_energies_along_the_paths_can_be_asked() -> None:
    engine = engine_of("quadrature")
    rows = ANALYSES["predictions"](engine, Questions(), lambda *_: None)
    path = [row for row in rows if row["part"] == "h_transfer"]
    assert (len(rows), len(path)) == (33, 4)
    part = engine.data.test
    assert [row["target"] for row in path] == part.targets[29:, 0].tolist()
    with torch.no_grad():
        wanted = engine.model.eval()(*part.take(slice(29, 33)).inputs, samples=None)
    spread = float(torch.tensor([row["output"] for row in path]).sub(wanted).abs().max())
    assert spread < 0.1 * float(wanted.abs().max())  # the rule is turned anew


def test_augmentation_turns_in_training_only() -> None:
    torch.manual_seed(0)
    seen = list[Tensor]()

    class Base(nn.Module):
        def forward(self, types: Tensor, positions: Tensor) -> Tensor:
            seen.append(positions)
            return positions.sum((1, 2))

    model, x = Augmented(Base()), torch.randn(4, 5, 3, dtype=torch.float64)
    for training in (True, False):
        model.train(training)(torch.zeros(4, 5, 3), x)
    centred = x - x.mean(1, keepdim=True)
    torch.testing.assert_close(seen[1], centred)
    assert (seen[0] - centred).abs().max() > 0.1
    torch.testing.assert_close(seen[0] @ seen[0].mT, centred @ centred.mT)


def test_the_transformer_does_not_see_order_or_padding() -> None:
    torch.manual_seed(0)
    base = AtomTransformer(width=16, layers=2, heads=2).double()
    model = Symmetrized(base, "n c, n d:point -> ", {"d": groups.E(3)}, samples=2)
    types, x = torch.eye(3).double()[torch.tensor([[0, 1, 2, 0]])], torch.randn(1, 4, 3, dtype=torch.float64)
    wanted = model(types, x, seed=0)
    order = [2, 0, 3, 1]
    torch.testing.assert_close(model(types[:, order], x[:, order], seed=0), wanted)
    padded = [torch.cat([tensor, torch.full((1, 2, 3), 7.0).double()], 1) for tensor in (types, x)]
    mask = torch.tensor([[True] * 4 + [False] * 2])
    torch.testing.assert_close(model(*padded, mask={"n": mask}, seed=0), wanted)


def test_compiled_steps_are_refused() -> None:
    recipe = recipe_of("ga")
    with pytest.raises(RunError, match="Expected no compiled steps where forces are in the loss"):
        make_engine(recipe, Settings(), make_fabric(Options("cpu")), compile=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("method", CALLS)
def test_captured_steps_are_the_plain_ones(method: str, tmp_path: Path) -> None:
    recipe, curves = recipe_of(method), []
    for capture in (False, True):
        settings = replace(recipe.settings, **SMALL)
        engine = make_engine(recipe, settings, make_fabric(Options("cuda")), seed=0, capture=capture)
        training = Training(engine, recipe, 0, tmp_path / str(capture))
        training.run()
        curves.append([row[name] for row in training.progress.curve for name in ("train_total", "valid_loss")])
    assert curves[0] == pytest.approx(curves[1], rel=1e-3)


@pytest.mark.skipif(not DATA.is_file(), reason="no acetylacetone in PROBSYM_DATA")
def test_the_real_molecules_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    splits = Acetylacetone().load()
    assert [part.size for part in splits] == [450, 50, 1360]
    assert all(part.targets.shape[1] == 47 for part in splits)
    assert 0.1 < float(splits.train.targets[:, 0].std()) < 0.2
