"""Rules against uniform draws: variance and error of the average over rotations, by number of calls of the base.

For a network with random weights on five points under SO(3), for a GNN on five charged particles under E(3), trained
here for a while, and for the base of a finished run of particles, `--run FOLDER`, under E(3) alone, since no rule
permutes. Each rule is compared with as many uniform draws, independent and stratified. What is exact comes from a rule
of high degree.

Run: python benchmarks/quadrature.py [--epochs N] [--run FOLDER] [--picture FILE] [--out FILE]. The last line is JSON.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import finish
from probsym import Symmetrized, bases, groups, samplers
from probsym.data import Particles, nbody
from probsym.lab.examples import Examples
from probsym.lab.provenance import provenance
from probsym.lab.recipes import RECIPES
from probsym.lab.recipes.nbody import ARRAYS, as_examples
from probsym.lab.run import Options, load_run, read_run

DEGREES, EXACT = (1, 2, 3, 4, 5, 6, 7), 16
TRAINED, TESTED, REPEATS = 1000, 32, 8
PARTICLES = ("n d:point, n d, n m e -> n d:point", {"d": groups.E(3)})
COLOURS = {"uniform draws": "tab:gray", "stratified draws": "tab:blue", "quadrature": "tab:red"}


def first(systems: Particles, count: int) -> Examples:
    """The first systems as examples."""
    return as_examples(Particles(*(tensor[:count] for tensor in systems)))


def trained(examples: Examples, epochs: int) -> Symmetrized:
    """A GNN under E(3) that predicts where particles go, with two uniform draws in training."""
    torch.manual_seed(0)
    model = Symmetrized(bases.GNN(ARRAYS, width=60, layers=4), *PARTICLES, samples=2)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for index in torch.randperm(examples.size).split(100):
            optimiser.zero_grad()
            output = model(*(x[index] for x in examples.inputs))
            loss = (output - examples.targets[index]).square().mean()
            loss.backward()
            optimiser.step()
        if epoch % 20 == 0:
            print(f"epoch {epoch}: {loss.item():.4f}", flush=True)
    return model


def from_run(folder: Path) -> tuple[Symmetrized, dict[str, Any]]:
    """The base of a finished run of particles under E(3), and which run it is."""
    result = read_run(folder)
    model = load_run(folder, RECIPES[result["row"]], Options("cpu")).model
    assert isinstance(model, Symmetrized)
    named = {name: result[name] for name in ("row", "seed", "epochs", "commit")}
    return Symmetrized(model.base, *PARTICLES, residual=model.residual), named


@torch.no_grad()
def compared(model: Symmetrized, inputs: tuple[Tensor, ...], targets: Tensor | None) -> list[dict[str, Any]]:
    """For each degree and way to average: variance over repeats, squared error to the exact average, and loss."""

    def under(sampler: samplers.Sampler, **options: Any) -> Symmetrized:
        bound = str(model.signature), model.signature.groups
        return Symmetrized(model.base, *bound, sampler, chunk=20, residual=model.residual, **options).eval()

    exact, rows = under(samplers.Quadrature(EXACT))(*inputs), []
    for degree in DEGREES:
        rule = under(samplers.Quadrature(degree))
        calls = rule.estimate(*(x[:1] for x in inputs)).samples
        ways = {
            "uniform draws": under(samplers.Haar(), samples=calls),
            "stratified draws": under(samplers.Haar(), samples=calls, eval_coupling="stratified"),
            "quadrature": rule,
        }
        for name, way in ways.items():
            averages = torch.stack([way(*inputs) for _ in range(REPEATS)])
            row: dict[str, Any] = {"way": name, "degree": degree, "calls": calls}
            row |= {
                "variance": averages.var(0).mean().item(),
                "squared_error": (averages - exact).square().mean().item(),
            }
            if targets is not None:
                row["loss"] = (averages - targets).square().mean().item()
            rows.append(row)
            print(row, flush=True)
    if targets is not None:
        rows.append({"way": "exact", "degree": EXACT, "loss": (exact - targets).square().mean().item()})
    return rows


def plot(result: dict[str, Any], path: Path) -> None:
    """Variance by calls of the base, one panel a model."""
    import matplotlib.pyplot as plt  # noqa: PLC0415
    from matplotlib.ticker import NullFormatter  # noqa: PLC0415

    figure, panels = plt.subplots(1, len(result), figsize=(4.5 * len(result), 3.4), layout="constrained")
    for panel, (title, rows) in zip(panels, result.items(), strict=True):
        for name, colour in COLOURS.items():
            own = [row for row in rows if row["way"] == name]
            panel.loglog(
                [row["calls"] for row in own], [row["variance"] for row in own], "o-", color=colour, label=name
            )
        panel.set(title=title, xlabel="calls of the base", ylabel="variance of the average")
        panel.set_xticks([20, 50, 100, 200, 400], ["20", "50", "100", "200", "400"])
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Compare, draw, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    base = bases.MLP([15, 64, 64, 15], activation="tanh", shape=(5, 3)).double()
    random = Symmetrized(base, "n d -> n d", {"d": groups.SO(3)})
    result = {"random network": compared(random, (torch.randn(TESTED, 5, 3, dtype=torch.float64),), None)}
    systems = nbody()
    test = first(systems["test"], TESTED)
    models, run = {"GNN": trained(first(systems["train"], TRAINED), arguments.epochs)}, None
    if arguments.run is not None:
        model, run = from_run(arguments.run)
        models[run["row"]] = model
    result |= {name: compared(model, test.inputs, test.targets) for name, model in models.items()}
    if arguments.picture is not None:
        plot(result, arguments.picture)
    settings = {"repeats": REPEATS, "inputs": TESTED, "epochs": arguments.epochs, "run": run}
    finish({"benchmark": "quadrature", **settings, **result, **provenance(torch.device("cpu"))}, arguments.out)


if __name__ == "__main__":
    main()
