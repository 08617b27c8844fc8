"""One MLP under three symmetrizations, on graphs that no message passing tells apart: a table, a picture, a report."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from probsym import testing
from probsym.lab.analyses.analysis import write_analysis
from probsym.lab.demo_picture import demo_picture
from probsym.lab.engine import Engine
from probsym.lab.pictures.picture import check_place, save
from probsym.lab.recipe import Recipe
from probsym.lab.recipes.demo import RECIPES, DecoratedCycles
from probsym.lab.report import check_places, load_results, write_report
from probsym.lab.results import read_curve
from probsym.lab.run import Options, load_run, run
from probsym.symmetrized import Symmetrized

TITLES = {"demo/mlp-ps": "Learned", "demo/mlp-ga": "Haar", "demo/mlp-canonical": "Canonical"}
PAGE_TITLE = "One MLP, three symmetrizations"
EXAMPLES = 50
NEXT = (
    "Next:",
    "  your own model        docs/start/your-model.md, examples/own_module.py",
    "  another sampler       docs/guide/samplers.md",
    "  the paper's numbers   probsym list, probsym table 1",
)


class Outcome(NamedTuple):
    """What came of one method."""

    accuracy: float
    curve: list[float]
    seconds: float
    error: float
    unclear: str
    draws: int
    engine: Engine


def demonstrate(epochs: int, out: Path | None, console: Console, train: int = 2000) -> dict[str, Outcome]:
    """Train the three, print a table, draw a picture, write the report; runs and results are kept beside them."""
    folder = out or Path("runs") / f"demo-{datetime.now():%Y%m%d-%H%M%S}"
    (page, _), picture = check_places(folder / "report.html"), folder / "picture.png"  # before anything is trained
    check_place(picture)
    console.print(f"One cycle or two? {train} graphs to learn from, 400 for the test.")
    recipes = [replace(recipe, task=partial(DecoratedCycles, train)) for recipe in RECIPES]
    outcomes = {TITLES[recipe.name]: _outcome(recipe, epochs, folder, console) for recipe in recipes}
    table = Table("sampler", "test accuracy", "draws", "equivariance error", "left out", "seconds")
    for title, outcome in outcomes.items():
        cells = (
            f"{outcome.accuracy:.1f} %",
            str(outcome.draws),
            f"{outcome.error:.1e}",
            outcome.unclear,
            f"{outcome.seconds:.0f}",
        )
        table.add_row(title, *cells)
    console.print(table)
    engines = {title: outcome.engine for title, outcome in outcomes.items()}
    save(demo_picture(engines, {title: outcome.curve for title, outcome in outcomes.items()}), picture)
    write_report(load_results(folder / "results"), page, title=PAGE_TITLE, lead=lead(train))
    console.print(
        f"Picture: {picture}", f"Report: {page}", *NEXT, sep="\n", soft_wrap=True, highlight=False, markup=False
    )
    return outcomes


def lead(train: int) -> tuple[str, ...]:
    """What the page is about."""
    return (
        f"One cycle or two? {train} decorated cycles to learn from, 400 to be tested on, in pairs that no message "
        "passing tells apart. The base is the same MLP each time; what differs is the distribution of permutations.",
        "mlp-ps draws them from a learned distribution (Learned), mlp-ga uniformly (Haar), and mlp-canonical takes a "
        "single one from the same net without noise (Canonical). The test accuracy is that of the weights with the "
        "lowest validation loss.",
    )


def _outcome(recipe: Recipe, epochs: int, folder: Path, console: Console) -> Outcome:
    options, results = Options("cpu", checkpoint_every=math.inf), folder / "results"
    (result,) = run(
        recipe, [0], folder, changes=[f"epochs={epochs}"], options=options, results=results, console=console
    )
    place = folder / recipe.name / "seed-0"
    engine = load_run(place, recipe, options)
    model = engine.model
    assert isinstance(model, Symmetrized)
    few = engine.data.test.take(slice(0, EXAMPLES))
    equivariance = testing.assert_equivariant(model, *few.inputs, mask=few.mask, tolerance=math.inf)
    checked = {
        "examples": EXAMPLES,
        "draws": equivariance.draws,
        "error": equivariance.error,
        "left_out": equivariance.unclear,
    }
    write_analysis(results, "check", result, [checked], {"examples": EXAMPLES, "samples": model.samples}, engine.device)
    return Outcome(
        result["metrics"]["test_accuracy"],
        [row["valid_accuracy"] for row in read_curve(place / "curve.csv", result)],
        result["metrics"]["train_seconds"],
        equivariance.error,
        f"{equivariance.unclear} of {equivariance.draws}",
        model.samples,
        engine,
    )
