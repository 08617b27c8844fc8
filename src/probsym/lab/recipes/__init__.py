"""Every row that can be run, one file a task. A new experiment is one new file and one line in `RECIPES`."""

from probsym.lab.recipe import Recipe
from probsym.lab.recipes import acetylacetone, demo, exp_classify, molecules, nbody, pattern, separation
from probsym.lab.separation import SeparationRecipe

_ALL: list[Recipe | SeparationRecipe] = [
    *exp_classify.RECIPES,
    *separation.RECIPES,
    *nbody.RECIPES,
    *pattern.RECIPES,
    *molecules.RECIPES,
    *acetylacetone.RECIPES,
    *demo.RECIPES,
]
RECIPES = {recipe.name: recipe for recipe in _ALL}

__all__ = ["RECIPES"]
