"""`probsym` with the recipes of the tests, for processes that others start: `python -m tests.lab.program train ...`."""

from probsym.cli import main
from probsym.lab import recipes
from tests.lab.cases import RECIPES

if __name__ == "__main__":
    recipes.RECIPES.update(RECIPES)
    main()
