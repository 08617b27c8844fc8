"""Rules against uniform draws: variance and error of the average over rotations, by number of calls of the base.

For a network with random weights on five points under SO(3), and for a GNN on five charged particles under E(3),
trained here for a while, or any model of particles that was saved (`--model FOLDER`). Each rule is compared with as
many uniform draws, independent and stratified. What is exact comes from a rule of high degree.

Run: python benchmarks/quadrature.py [--epochs N] [--model FOLDER] [--picture FILE] [--out FILE]. The last line is JSON.
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
from probsym.data import Particles
from probsym.data.nbody import FRAMES, published_start, simulate
from probsym.lab.provenance import provenance
from probsym.lab.recipes.nbody import ARRAYS, as_examples

DEGREES, EXACT = (1, 2, 3, 4, 5, 6, 7), 16
TRAINED, TESTED, REPEATS = 1000, 32, 8
COLOURS = {"uniform draws": "tab:gray", "stratified draws": "tab:blue", "quadrature": "tab:red"}


def particles() -> tuple[Particles, Particles]:
    """The first of the published systems, to train with and to test with."""
    start = published_start(TRAINED + TESTED)
    frames = simulate(start)
    (position, velocity), (target, _) = (frames[frame] for frame in FRAMES)
    arrays = (position, velocity, start.charges[:, None], target)
    whole = [torch.from_numpy(one.transpose(0, 2, 1).copy()) for one in arrays]
    return Particles(*(one[:TRAINED] for one in whole)), Particles(*(one[TRAINED:] for one in whole))


def trained(systems: Particles, epochs: int) -> Symmetrized:
    """A GNN under E(3) that predicts where particles go, with two uniform draws in training."""
    torch.manual_seed(0)
    base = bases.GNN(ARRAYS, width=60, layers=4)
    model = Symmetrized(base, "n d:point, n d, n m e -> n d:point", {"d": groups.E(3)}, samples=2)
    examples, optimiser = as_examples(systems), torch.optim.Adam(model.parameters(), lr=1e-3)
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


@torch.no_grad()
def compared(model: Symmetrized, inputs: tuple[Tensor, ...], targets: Tensor | None) -> list[dict[str, Any]]:
    """For each degree and way to average: variance over repeats, squared error to the exact average, and loss."""

    def under(sampler: samplers.Sampler, **options: Any) -> Symmetrized:
        return Symmetrized(
            model.base, str(model.signature), model.signature.groups, sampler, chunk=20, **options
        ).eval()

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
            found = torch.stack([way(*inputs) for _ in range(REPEATS)])
            row: dict[str, Any] = {"way": name, "degree": degree, "calls": calls}
            row |= {"variance": found.var(0).mean().item(), "squared_error": (found - exact).square().mean().item()}
            if targets is not None:
                row["loss"] = (found - targets).square().mean().item()
            rows.append(row)
            print(row, flush=True)
    if targets is not None:
        rows.append({"way": "exact", "degree": EXACT, "loss": (exact - targets).square().mean().item()})
    return rows


def plot(result: dict[str, Any], path: Path) -> None:
    """Variance by calls of the base, one panel a model."""
    import matplotlib.pyplot as plt  # noqa: PLC0415
    from matplotlib.ticker import NullFormatter  # noqa: PLC0415

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
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
    parser.add_argument("--model", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    base = bases.MLP([15, 64, 64, 15], activation="tanh", shape=(5, 3)).double()
    random = Symmetrized(base, "n d -> n d", {"d": groups.SO(3)})
    result = {"random network": compared(random, (torch.randn(TESTED, 5, 3, dtype=torch.float64),), None)}
    train, test = particles()
    model = (
        trained(train, arguments.epochs) if arguments.model is None else Symmetrized.from_pretrained(arguments.model)
    )
    examples = as_examples(test)
    result["particles"] = compared(model, examples.inputs, examples.targets)
    if arguments.picture is not None:
        plot(result, arguments.picture)
    settings = {"repeats": REPEATS, "inputs": TESTED, "epochs": arguments.epochs if arguments.model is None else None}
    finish({"benchmark": "quadrature", **settings, **result, **provenance(torch.device("cpu"))}, arguments.out)


if __name__ == "__main__":
    main()
