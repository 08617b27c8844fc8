"""Settings changed by hand, and complaints with suggestions."""

from __future__ import annotations

from pathlib import Path

import pytest

from probsym.errors import ProbsymError, RecipeError
from probsym.lab.known_names import closest, matching
from probsym.lab.recipe import Settings, changes
from probsym.lab.recipe_names import RECIPE_NAMES
from probsym.lab.recipes import RECIPES
from tests.lab.cases import PS, run_quietly

KEYS = ("epochs", "batch_size", "learning_rate", "decoupled", "warmup_epochs", "clip", "samples")


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("epochs=7", 7),
        ("batch_size=1", 1),
        ("learning_rate=3e-4", 3e-4),
        ("weight_decay=0", 0.0),
        ("clip=0.5", 0.5),
        ("clip=none", None),
        ("clip=None", None),
        ("decay=true", True),
        ("decay=False", False),
        ("decoupled=TRUE", True),
        ("warmup_epochs=2", 2.0),
        ("test_repeats=3", 3),
        ("also_test_samples=20,200", (20, 200)),
        ("also_test_samples=", ()),
    ],
)
def test_values_are_converted_to_their_type(pair: str, value: object) -> None:
    changed = Settings(clip=0.1).changed([pair])
    actual = getattr(changed, pair.partition("=")[0])
    assert actual == value
    assert type(actual) is type(value)


@pytest.mark.parametrize(
    "pair",
    [
        "epochs=1.5",
        "epochs=many",
        "epochs=",
        "epochs=none",
        "decay=1",
        "decay=none",
        "clip=x",
        "noise=1,5",
        "also_test_samples=1,b",
    ],
)
def test_values_that_do_not_fit_are_refused(pair: str) -> None:
    name, _, value = pair.partition("=")
    with pytest.raises(RecipeError, match=f"Expected {name} to be .*{value!r}"):
        Settings().changed([pair])


@pytest.mark.parametrize("pair", ["batch_size=0", "batch_size=-5", "epochs=-1", "samples=0", "eval_samples=0"])
def test_numbers_that_make_no_run_are_refused(tmp_path: Path, pair: str) -> None:
    with pytest.raises(ProbsymError):
        run_quietly(PS, tmp_path, changes=[pair])


@pytest.mark.parametrize(
    "pair", ["test_repeats=-1", "learning_rate=-1", "learning_rate=nan", "clip=-1", "weight_decay=-1", "dropout=1.5"]
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, pair: str) -> None:
    with pytest.raises(ProbsymError):
        run_quietly(PS, tmp_path, changes=["epochs=1", pair])


@pytest.mark.parametrize("name", ["input_noise", "huber"])
def test_what_a_task_has_not_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RecipeError, match=rf"Expected {name} to be 0 for .*0\.1"):
        run_quietly(PS, tmp_path, changes=["epochs=1", f"{name}=0.1"])


@pytest.mark.parametrize(
    ("pair", "near"), [("epoch=3", "epochs"), ("lerning_rate=1", "learning_rate"), ("sample=1", "samples")]
)
def test_unknown_keys_come_with_suggestions(pair: str, near: str) -> None:
    with pytest.raises(RecipeError, match=rf"did you mean .*{near}") as caught:
        Settings().changed([pair])
    for key in KEYS:
        assert key in str(caught.value)


@pytest.mark.parametrize("pair", ["epochs", "", "=3", "epochs:3", " epochs=3"])
def test_pairs_that_are_none_are_refused(pair: str) -> None:
    with pytest.raises(RecipeError, match="key=value"):
        Settings().changed([pair])


def test_the_last_change_counts_and_the_settings_stay() -> None:
    settings = Settings()
    assert settings.changed(["epochs=3", "samples=2", "epochs=4"]) == Settings(epochs=4, samples=2)
    assert settings == Settings()
    assert settings.changed([]) == settings


def test_differences_are_the_changed_fields_with_their_values() -> None:
    changed = Settings(clip=0.1).changed(["clip=none", "epochs=3", "samples=1"])
    assert changed.differences(Settings(clip=0.1)) == {"clip": None, "epochs": 3}
    assert changed.differences(changed) == {}


def test_known_names_are_found_and_others_come_with_the_nearest() -> None:
    assert closest("exp-classify/mlp-ps", RECIPES, "recipe").name == "exp-classify/mlp-ps"
    with pytest.raises(RecipeError, match=r"Unknown recipe 'exp-clasify/mlp-ps'; did you mean exp-classify/mlp-ps"):
        closest("exp-clasify/mlp-ps", RECIPES, "recipe")
    with pytest.raises(RecipeError) as caught:
        closest("####", RECIPES, "recipe")
    assert "did you mean" not in str(caught.value)


def test_names_with_stars_stand_for_all_that_fit() -> None:
    names = [recipe.name for recipe in matching(["demo/*", "demo/mlp-ps", "exp/gin"], RECIPES, "recipe")]
    assert names == ["demo/mlp-ps", "demo/mlp-ga", "demo/mlp-canonical", "exp/gin"]
    for name in ("nothing/*", "demo/mlp-p"):
        with pytest.raises(RecipeError):
            matching([name], RECIPES, "recipe")


def test_names_are_those_of_the_recipes():
    assert tuple(RECIPES) == RECIPE_NAMES


def test_few_names_are_all_listed() -> None:
    with pytest.raises(RecipeError, match=r"^Unknown table 'x'; there are 1, 2$"):
        closest("x", {"1": None, "2": None}, "table")
    with pytest.raises(RecipeError, match=r"^Unknown table 'x'$"):
        closest("x", {str(i): None for i in range(100)}, "table")


def test_a_key_without_a_value_is_not_taken_for_a_typing_error() -> None:
    with pytest.raises(RecipeError, match=r"\(got 'samples'\)$"):
        changes(["samples"])
