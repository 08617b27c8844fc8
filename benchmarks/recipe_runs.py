"""What benchmarks share that are about recipes: finding one, and training it without a word."""

from pathlib import Path
from typing import Any

from rich.console import Console

from probsym.lab.known_names import closest
from probsym.lab.recipe import Recipe
from probsym.lab.recipes import RECIPES
from probsym.lab.run import Options, run


def trainable(name: str) -> Recipe:
    """The recipe of that name, which must be one that trains."""
    recipe = closest(name, RECIPES, "recipe")
    if not isinstance(recipe, Recipe):
        raise SystemExit(f"expected a recipe that trains (got {name})")
    return recipe


def run_quietly(
    recipe: Recipe, seeds: list[int], folder: Path, changes: list[str], options: Options
) -> list[dict[str, Any]]:
    """The results of every seed; runs that were interrupted go on."""
    return run(
        recipe, seeds, folder, changes=changes, options=options, resume=True,
        console=Console(stderr=True, quiet=True),
    )  # fmt: skip
