"""Seeds for initialisation, order and draws, kept apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from probsym.lab.engine import Engine
from probsym.lab.examples import Stored
from probsym.lab.recipe import Recipe, Settings
from probsym.lab.seeds import derived
from probsym.lab.training import initial_weights
from tests.lab.cases import (
    DROPOUT,
    PS,
    SETTINGS,
    Plain,
    Tiny,
    assert_same,
    build,
    engine_of,
    metrics_of,
    run_quietly,
    training_of,
    without_time,
)


class Fewer(Tiny):
    sizes = (20, 20, 30)


class AlwaysDropout(Plain):
    """No draws, but dropout from the global generator, in evaluation too."""

    def forward(self, features: Tensor, adjacency: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(nn.functional.dropout(features), adjacency)


def build_always_dropout(settings: Settings) -> nn.Module:
    return AlwaysDropout()


ALWAYS_DROPOUT = Recipe("tiny/always-dropout", Tiny, build_always_dropout, SETTINGS)
both_generators = pytest.mark.parametrize("recipe", [PS, ALWAYS_DROPOUT], ids=lambda recipe: recipe.name)


def test_purposes_counts_and_seeds_have_different_seeds() -> None:
    seeds = {derived(s, p, c) for s in range(20) for p in ("order", "draws", "initialisation") for c in range(20)}
    assert len(seeds) == 20 * 3 * 20
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert derived(0, "order") == derived(0, "order", 0)
    assert derived(1, "draws", 11) != derived(11, "draws", 1)


def test_the_same_seed_gives_the_same_run(tmp_path: Path) -> None:
    first, second = (training_of(tmp_path / name) for name in "ab")
    torch.rand(5)  # nothing that others draw matters
    metrics, again = first.run(), second.run()
    assert metrics_of({"metrics": metrics}) == metrics_of({"metrics": again})
    assert without_time(first.progress.curve) == without_time(second.progress.curve)
    assert_same(first.engine.state(), second.engine.state())


def test_another_seed_changes_weights_order_and_draws() -> None:
    engine = engine_of()
    assert not torch.equal(engine.order(0, 0), engine.order(1, 0))
    assert not torch.equal(engine.order(0, 0), engine.order(0, 1))
    first, second = (initial_weights(PS, SETTINGS, seed)["base.layers.0.weight"] for seed in (0, 1))
    assert not torch.equal(first, second)
    losses = [engine.evaluate(engine.data.valid, seed, "validation")["loss"] for seed in (0, 1, 0)]
    assert losses[0] == losses[2] != losses[1]


def test_the_order_of_batches_does_not_depend_on_the_draws() -> None:
    few, many = engine_of(), engine_of(samples=7, eval_samples=9, noise=0.3)
    index = few.order(0, 0)[0]
    few.train_step(index, 0, 0)
    assert torch.equal(few.order(0, 1), many.order(0, 1))
    assert sorted(few.order(0, 1).flatten().tolist()) == list(range(40))


def test_initial_weights_do_not_depend_on_the_data_or_the_draws() -> None:
    less = Recipe("tiny/less", Fewer, build, SETTINGS)
    assert_same(initial_weights(PS, SETTINGS, 3), initial_weights(less, SETTINGS, 3))
    assert_same(initial_weights(PS, SETTINGS, 3), initial_weights(PS, replace(SETTINGS, samples=5, epochs=1), 3))


def test_draws_of_a_step_do_not_depend_on_the_steps_before() -> None:
    def loss(engine: Engine, before: int) -> torch.Tensor:
        for _ in range(before):
            engine.evaluate(engine.data.valid, 0, "validation")
        return engine.train_step(engine.order(0, 0)[0], 0, 5).clone()

    first, second = engine_of(), engine_of()
    second.model.load_state_dict(first.model.state_dict())
    assert torch.equal(loss(first, 0), loss(second, 2))


@both_generators
def test_every_seed_and_step_has_random_numbers_of_its_own(recipe: Recipe) -> None:
    engine = engine_of(recipe)
    weights = {name: tensor.clone() for name, tensor in engine.model.state_dict().items()}
    index, losses = engine.order(0, 0)[0], []
    for seed, step in ((0, 0), (0, 1), (1, 0), (0, 0)):
        engine.start(weights)
        losses.append(engine.train_step(index, seed, step)[1].item())
    assert losses[0] == losses[-1]
    assert len(set(losses)) == 3


@both_generators
def test_every_seed_purpose_and_count_is_evaluated_with_random_numbers_of_its_own(recipe: Recipe) -> None:
    engine = engine_of(recipe)
    calls = ((0, "validation", 0), (1, "validation", 0), (0, "test", 0), (0, "validation", 1), (0, "validation", 0))
    losses = [engine.evaluate(engine.data.valid, *call)["loss"] for call in calls]
    assert losses[0] == losses[-1]
    assert len(set(losses)) == 4


def test_a_run_evaluates_every_epoch_and_every_repeated_test_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, list[int]] = {}
    evaluate = Engine.evaluate

    def noted(
        self: Engine, part: Stored, seed: int, purpose: str, count: int = 0, *, samples: int | None = None
    ) -> dict[str, float]:
        asked.setdefault(purpose, []).append(count)
        return evaluate(self, part, seed, purpose, count, samples=samples)

    monkeypatch.setattr(Engine, "evaluate", noted)
    training_of(tmp_path, test_repeats=2).run()
    assert asked == {"validation": [0, 1, 2], "test": [0, 1] * 3}


def test_the_callers_random_numbers_are_untouched(tmp_path: Path) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    training = training_of(tmp_path)
    initial_weights(PS, SETTINGS, 3)
    assert torch.equal(torch.get_rng_state(), before)
    training.run()
    assert torch.equal(torch.get_rng_state(), before)


def test_several_seeds_in_one_process_are_as_separate_runs(tmp_path: Path) -> None:
    together = run_quietly(PS, tmp_path / "together", (0, 1))
    apart = [run_quietly(PS, tmp_path / "apart", (seed,))[0] for seed in (1, 0)][::-1]
    assert [metrics_of(result) for result in together] == [metrics_of(result) for result in apart]
    for seed in (0, 1):
        states = [
            torch.load(tmp_path / name / PS.name / f"seed-{seed}" / "checkpoint.pt") for name in ("together", "apart")
        ]
        assert_same(*({part: state[part] for part in ("model", "optimiser", "best", "curve")} for state in states))


def test_dropout_follows_the_seed_too(tmp_path: Path) -> None:
    first, second = training_of(tmp_path / "a", DROPOUT), training_of(tmp_path / "b", DROPOUT)
    first.run()
    torch.rand(5)
    second.run()
    assert without_time(first.progress.curve) == without_time(second.progress.curve)


@pytest.mark.parametrize("recipe", [PS, DROPOUT], ids=lambda recipe: recipe.name)
def test_what_comes_before_in_the_process_does_not_matter(tmp_path: Path, recipe: Recipe) -> None:
    (alone,) = run_quietly(recipe, tmp_path / "alone", (1,))
    _, second = run_quietly(recipe, tmp_path / "second", (0, 1))
    assert metrics_of(alone) == metrics_of(second)
