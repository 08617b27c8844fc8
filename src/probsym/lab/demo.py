"""One MLP under three symmetrizations, on graphs that no message passing tells apart: a table and an HTML report."""

from __future__ import annotations

import html
import math
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from probsym import testing
from probsym.errors import RunError
from probsym.lab.progress import shown, spoken
from probsym.lab.recipe import Recipe
from probsym.lab.recipes.demo import RECIPES, DecoratedCycles
from probsym.lab.run import Options, make_fabric
from probsym.lab.training import Training, make_engine
from probsym.symmetrized import Symmetrized

TITLES = {"demo/mlp-ps": "Learned", "demo/mlp-ga": "Haar", "demo/mlp-canonical": "Canonical"}
COLOURS = {"Learned": "#1a7f5a", "Haar": "#b8611b", "Canonical": "#4a5fc1"}


class Outcome(NamedTuple):
    """What came of one method."""

    accuracy: float
    curve: list[float]
    seconds: float
    error: float
    unclear: str
    draws: int


def demonstrate(epochs: int, out: Path | None, console: Console, train: int = 2000) -> dict[str, Outcome]:
    """Train the three, print a table, write the report."""
    folder = out or Path("runs") / f"demo-{datetime.now():%Y%m%d-%H%M%S}"
    page = folder / "report.html"
    if page.exists():
        raise RunError(f"Expected no report in {folder} (got one)")
    console.print(f"One cycle or two? {train} graphs to learn from, 400 for the test.")
    outcomes = {TITLES[recipe.name]: _outcome(recipe, epochs, folder, console, train) for recipe in RECIPES}
    table = Table("sampler", "test accuracy", "draws", "equivariance error", "left out", "seconds")
    for title, one in outcomes.items():
        cells = (f"{one.accuracy:.1f} %", str(one.draws), f"{one.error:.1e}", one.unclear, f"{one.seconds:.0f}")
        table.add_row(title, *cells)
    console.print(table)
    folder.mkdir(parents=True, exist_ok=True)
    with page.open("x") as file:
        file.write(report(outcomes, train))
    console.print(f"Report: {page}", soft_wrap=True)
    return outcomes


def _outcome(recipe: Recipe, epochs: int, folder: Path, console: Console, train: int) -> Outcome:
    settings = recipe.settings.changed([f"epochs={epochs}"])
    engine = make_engine(recipe, settings, make_fabric(Options("cpu")), task=DecoratedCycles(train))
    training = Training(engine, recipe, 0, folder / recipe.name, every=math.inf)
    title = TITLES[recipe.name]
    with shown(console, f"{title:9}") as show:
        metrics: dict[str, Any] = training.run(lambda done, total, row: show(done, total, spoken(row)))
    model = engine.model
    assert isinstance(model, Symmetrized)
    few = engine.data.test.take(slice(0, 50))
    found = testing.assert_equivariant(model.eval(), *few.inputs, mask=few.mask, tolerance=math.inf)
    curve = [row["valid_accuracy"] for row in training.progress.curve]
    unclear = f"{found.unclear} of {found.draws}"
    return Outcome(metrics["test_accuracy"], curve, metrics["train_seconds"], found.error, unclear, model.samples)


def chart(outcomes: dict[str, Outcome]) -> str:
    """The learning curves as SVG."""
    width, height, left, bottom = 640, 300, 48, 36
    epochs = max(len(outcome.curve) for outcome in outcomes.values())
    least = min(40.0, *(min(outcome.curve) for outcome in outcomes.values()))

    def place(epoch: int, percent: float) -> tuple[float, float]:
        x = left + epoch / max(epochs, 1) * (width - left - 110)
        return x, height - bottom - (percent - least) / (100 - least) * (height - bottom - 16)

    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="Validation accuracy by epoch">']
    for percent in (50, 75, 100):
        x, y = place(0, percent)
        parts.append(f'<line x1="{x:.1f}" x2="{width - 110}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{percent}</text>')
    for title, outcome in outcomes.items():
        points = [place(epoch, percent) for epoch, percent in enumerate(outcome.curve, start=1)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        colour, (x, y) = COLOURS[title], points[-1]
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" fill="{colour}">{title}</text>')
    parts.append(f'<text x="{left}" y="{height - 8}">epoch 1 to {epochs}; validation accuracy in percent</text></svg>')
    return "".join(parts)


def report(outcomes: dict[str, Outcome], train: int) -> str:
    """One self-contained HTML page."""
    rows = "".join(
        f"<tr><td>{html.escape(title)}</td><td>{outcome.accuracy:.1f}</td><td>{outcome.draws}</td>"
        f"<td>{outcome.error:.1e}</td><td>{outcome.unclear}</td><td>{outcome.seconds:.0f}</td></tr>"
        for title, outcome in outcomes.items()
    )
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>probsym demo</title><style>
:root {{ color-scheme: light dark }} body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto;
padding: 0 1rem }} table {{ border-collapse: collapse }} td, th {{ padding: .3rem .8rem; text-align: right }}
td:first-child, th:first-child {{ text-align: left }} tr {{ border-bottom: 1px solid #8886 }}
svg {{ width: 100% }} svg text {{ font: 13px system-ui, sans-serif; fill: currentColor }} .grid {{ stroke: #8886 }}
</style></head><body><h1>One MLP, three symmetrizations</h1>
<p>One cycle or two? {train} decorated cycles to learn from, 400 to be tested on, in pairs that no message passing tells
apart. The base is the same MLP each time; what differs is the distribution of permutations.</p>
{chart(outcomes)}
<table><thead><tr><th>sampler</th><th>test accuracy, %</th><th>draws</th><th>equivariance error</th><th>left out</th>
<th>seconds</th></tr></thead><tbody>{rows}</tbody></table>
<p>The test accuracy is that of the weights with the lowest validation loss. The equivariance error is the largest
relative difference between the outputs for a graph and for a relabelled copy, draw by draw, with the noise relabelled
along. Draws in which two scores are so close that rounding may swap them are left out.</p></body></html>"""
