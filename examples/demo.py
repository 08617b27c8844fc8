"""One MLP under three symmetrizations, on graphs that no message passing tells apart: `make demo`.

The same MLP over adjacency matrices is made permutation-invariant in three ways: averaged over a learned distribution
of permutations (`Learned`), over all of them (`Haar`), and evaluated at one learned permutation (`Canonical`). Ends
with a table and writes an HTML report.
"""

import argparse
import html
import math
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch.nn.functional import binary_cross_entropy_with_logits

from probsym import Symmetrized, bases, groups, nets, samplers, testing
from probsym.data import Graphs, decorated_cycles

METHODS: dict[str, tuple[Callable[[], samplers.Sampler], int]] = {
    "Learned": (lambda: samplers.Learned(nets.GIN(in_channels=2), noise=1.0, tau=0.01), 10),
    "Haar": (samplers.Haar, 10),
    "Canonical": (lambda: samplers.Canonical(nets.GIN(in_channels=2)), 1),
}
COLOURS = {"Learned": "#1a7f5a", "Haar": "#b8611b", "Canonical": "#4a5fc1"}


class Outcome(NamedTuple):
    """What came of one method."""

    accuracy: list[float]
    seconds: float
    error: float
    unclear: str
    draws: int


def build(method: str, size: int) -> Symmetrized:
    """The MLP, symmetrized."""
    sampler, draws = METHODS[method]
    base = bases.MLP([size * size + 2 * size, 512, 512, 1], shape=())
    return Symmetrized(base, "n c, n n -> ", {"n": groups.S()}, sampler(), samples=draws)


def accuracy(model: Symmetrized, graphs: Graphs) -> float:
    """The share of graphs on the right side, in percent."""
    model.eval()
    with torch.no_grad():
        logits = model(graphs.features, graphs.adjacency, mask=graphs.mask)
    assert isinstance(logits, torch.Tensor)
    return 100 * float(((logits > 0) == (graphs.labels > 0)).float().mean())


def train(method: str, graphs: Graphs, test: Graphs, epochs: int, advance: Callable[[str], None]) -> Outcome:
    """Train with Adam on cross-entropy plus the entropy regulariser; the accuracy on the test set epoch by epoch.

    The rate falls to a fiftieth along the way. The last epoch counts, whatever the test set says of the others.
    """
    torch.manual_seed(0)
    model = build(method, graphs.mask.shape[1])
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.02, total_iters=epochs)
    start, curve = time.perf_counter(), [accuracy(model, test)]
    for _ in range(epochs):
        model.train()
        for index in torch.randperm(len(graphs.labels)).split(100):
            batch = graphs.take(index)
            estimate = model.estimate(batch.features, batch.adjacency, mask=batch.mask)
            assert isinstance(estimate.mean, torch.Tensor)
            loss = binary_cross_entropy_with_logits(estimate.mean, batch.labels)
            for regulariser in estimate.losses.values():
                loss = loss + 0.1 * regulariser
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimiser.step()
        schedule.step()
        curve.append(accuracy(model, test))
        advance(f"{method:9} {curve[-1]:5.1f} %")
    seconds = time.perf_counter() - start
    few = test.take(torch.arange(min(50, len(test.labels))))
    found = testing.assert_equivariant(model, few.features, few.adjacency, mask=few.mask, tolerance=math.inf)
    return Outcome(curve, seconds, found.error, f"{found.unclear} of {found.draws}", model.samples)


def chart(outcomes: dict[str, Outcome]) -> str:
    """The learning curves as SVG."""
    width, height, left, bottom = 640, 300, 48, 36
    epochs = max(len(outcome.accuracy) for outcome in outcomes.values()) - 1

    def place(epoch: int, percent: float) -> str:
        x = left + epoch / max(epochs, 1) * (width - left - 110)
        y = height - bottom - (percent - 40) / 60 * (height - bottom - 16)
        return f"{x:.1f},{y:.1f}"

    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="Test accuracy by epoch">']
    for percent in (50, 75, 100):
        x, y = place(0, percent).split(",")
        parts.append(f'<line x1="{x}" x2="{width - 110}" y1="{y}" y2="{y}" class="grid"/>')
        parts.append(f'<text x="{left - 8}" y="{float(y) + 4:.1f}" text-anchor="end">{percent}</text>')
    for method, outcome in outcomes.items():
        line = " ".join(place(epoch, percent) for epoch, percent in enumerate(outcome.accuracy))
        colour = COLOURS[method]
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        x, y = place(len(outcome.accuracy) - 1, outcome.accuracy[-1]).split(",")
        parts.append(f'<text x="{float(x) + 8:.1f}" y="{float(y) + 4:.1f}" fill="{colour}">{method}</text>')
    parts.append(f'<text x="{left}" y="{height - 8}">epoch 0 to {epochs}; test accuracy in percent</text></svg>')
    return "".join(parts)


def report(outcomes: dict[str, Outcome], graphs: Graphs, test: Graphs) -> str:
    """One self-contained HTML page."""
    rows = "".join(
        f"<tr><td>{html.escape(method)}</td><td>{outcome.accuracy[-1]:.1f}</td><td>{outcome.draws}</td>"
        f"<td>{outcome.error:.1e}</td><td>{outcome.unclear}</td><td>{outcome.seconds:.0f}</td></tr>"
        for method, outcome in outcomes.items()
    )
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>probsym demo</title><style>
:root {{ color-scheme: light dark }} body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto;
padding: 0 1rem }} table {{ border-collapse: collapse }} td, th {{ padding: .3rem .8rem; text-align: right }}
td:first-child, th:first-child {{ text-align: left }} tr {{ border-bottom: 1px solid #8886 }}
svg {{ width: 100% }} svg text {{ font: 13px system-ui, sans-serif; fill: currentColor }} .grid {{ stroke: #8886 }}
</style></head><body><h1>One MLP, three symmetrizations</h1>
<p>One cycle or two? {len(graphs.labels)} decorated cycles to learn from, {len(test.labels)} to be tested on, in
pairs that no message passing tells apart. The base is the same MLP each time; what differs is the distribution of
permutations.</p>
{chart(outcomes)}
<table><thead><tr><th>sampler</th><th>test accuracy, %</th><th>draws</th><th>equivariance error</th><th>left out</th>
<th>seconds</th></tr></thead><tbody>{rows}</tbody></table>
<p>The equivariance error is the largest relative difference between the outputs for a graph and for a relabelled copy,
draw by draw, with the noise relabelled along. Draws in which two scores are so close that rounding may swap them are
left out.</p></body></html>"""


def main() -> None:
    """Train the three, print a table, write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--graphs", type=int, default=2000, help="to learn from")
    parser.add_argument("--size", type=int, default=24, help="most nodes of a graph")
    parser.add_argument("--out", type=Path, default=None, help="folder of the report; runs/demo-DATE if not given")
    arguments = parser.parse_args()
    page = (arguments.out or Path("runs") / f"demo-{datetime.now():%Y%m%d-%H%M%S}") / "report.html"
    if page.exists():
        parser.error(f"{page} exists")
    generator = torch.Generator().manual_seed(0)
    graphs = decorated_cycles(arguments.graphs, arguments.size, generator)
    test = decorated_cycles(400, arguments.size, generator)
    console, outcomes = Console(), dict[str, Outcome]()
    console.print(f"One cycle or two? {arguments.graphs} graphs to learn from, {len(test.labels)} for the test.")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        for method in METHODS:
            task = progress.add_task(f"{method:9}", total=arguments.epochs)

            def advance(text: str, task: object = task) -> None:
                progress.update(task, advance=1, description=text)  # type: ignore[arg-type]

            outcomes[method] = train(method, graphs, test, arguments.epochs, advance)
    table = Table("sampler", "test accuracy", "draws", "equivariance error", "left out", "seconds")
    for method, outcome in outcomes.items():
        table.add_row(
            method,
            f"{outcome.accuracy[-1]:.1f} %",
            str(outcome.draws),
            f"{outcome.error:.1e}",
            outcome.unclear,
            f"{outcome.seconds:.0f}",
        )
    console.print(table)
    page.parent.mkdir(parents=True, exist_ok=True)
    with page.open("x") as file:
        file.write(report(outcomes, graphs, test))
    console.print(f"Report: {page}")


if __name__ == "__main__":
    main()
