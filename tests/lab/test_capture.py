from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from probsym.lab.recipe import Recipe
from probsym.lab.recipes.demo import RECIPES, DecoratedCycles
from probsym.lab.run import Options, make_fabric
from probsym.lab.training import Training, make_engine

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def curve(
    recipe: Recipe, folder: Path, seeds: tuple[int, ...], dropout: float = 0.0, **mode: bool
) -> list[list[float]]:
    recipe = replace(recipe, task=partial(DecoratedCycles, 400))
    settings = replace(recipe.settings, epochs=3, dropout=dropout)
    engine = make_engine(recipe, settings, make_fabric(Options("cuda")), **mode)
    losses = []
    for seed in seeds:
        training = Training(engine, recipe, seed, folder / f"{mode}" / str(seed))
        training.run()
        losses.append([row[name] for row in training.progress.curve for name in ("train_total", "valid_loss")])
    return losses


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_captured_steps_are_the_plain_ones(recipe: Recipe, tmp_path: Path) -> None:
    plain, captured = (curve(recipe, tmp_path, (0, 1), capture=capture) for capture in (False, True))
    for wanted, actual in zip(plain, captured, strict=True):
        assert wanted == pytest.approx(actual, rel=1e-4)


def test_captured_steps_drop_what_the_plain_ones_drop(tmp_path: Path) -> None:
    recipe = next(recipe for recipe in RECIPES if recipe.name.endswith("-ps"))
    folders = (tmp_path / name for name in ("plain", "captured", "without"))
    plain, captured, without = (
        curve(recipe, folder, (0,), dropout=dropout, capture=capture)
        for folder, dropout, capture in zip(folders, (0.5, 0.5, 0.0), (False, True, True), strict=True)
    )
    assert plain[0] == pytest.approx(captured[0], rel=1e-4)
    assert plain[0] != pytest.approx(without[0], rel=1e-3)


@pytest.mark.filterwarnings("ignore")  # torch's own, while compiling
def test_compiled_steps_are_near_the_plain_ones(tmp_path: Path) -> None:
    (plain,) = curve(RECIPES[0], tmp_path, (0,))
    (compiled,) = curve(RECIPES[0], tmp_path, (0,), compile=True, capture=True)
    assert plain[:2] == pytest.approx(compiled[:2], rel=1e-2)


def test_a_captured_run_resumes(tmp_path: Path) -> None:
    recipe = replace(RECIPES[0], task=partial(DecoratedCycles, 400))
    engine = make_engine(recipe, replace(recipe.settings, epochs=4), make_fabric(Options("cuda")), capture=True)
    whole = Training(engine, recipe, 0, tmp_path / "whole")
    whole.run()

    def stop(done: int, total: int, row: dict[str, float]) -> None:
        if done == 2:
            raise RuntimeError

    parts = Training(engine, recipe, 0, tmp_path / "parts", every=0)
    with pytest.raises(RuntimeError):
        parts.run(stop)
    parts = Training(engine, recipe, 0, tmp_path / "parts", every=0)
    assert parts.resume()
    parts.run()
    losses = [[row["train_total"] for row in training.progress.curve] for training in (whole, parts)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
