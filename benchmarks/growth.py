"""Time and memory of a training step by the number of items n: sets, points in space and graphs, under every sampler.

The base is a linear or bilinear form, so what grows is the symmetrization: one input, 4 draws. Each series ends before
a step would take too long. `Enumerate`, with n! elements, is left out; `Quadrature` has no rule for orders. On a CPU
each step has a process of its own, since memory that was freed can hide what is taken, and time is that of one core.

Run: python benchmarks/growth.py [--device cuda] [--out FILE]. The last line is JSON; `growth_chart.py` draws it.
"""

import argparse
import math
import multiprocessing
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import added_memory, finish
from probsym import Symmetrized, groups, nets, samplers
from probsym.lab.provenance import provenance
from probsym.nets import Features

DRAWS, CHANNELS, LONG = 4, 4, 60.0
SETS, GRAPHS = [8, 32, 128, 512, 2048, 8192], [8, 32, 128, 512, 2048]


class Form(nn.Module):
    """`sum_i w_i <x_i, v>`, and of graphs `w' A w` besides."""

    def __init__(self, n: int, channels: int) -> None:
        super().__init__()
        self.place, self.along = nn.Parameter(torch.randn(n) / n), nn.Parameter(torch.randn(channels))

    def forward(self, x: Tensor, adjacency: Tensor | None = None) -> Tensor:
        """One number for each of x (rows, n, channels), adjacency (rows, n, n)."""
        out = (x @ self.along) @ self.place
        return out if adjacency is None else out + (adjacency @ self.place) @ self.place


class Looks(nn.Module):
    """Any net, for `FromHaar`: scores of points, and vectors from their sum."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.score, self.vector = nn.Linear(channels, 1), nn.Linear(channels, 3)

    def forward(self, x: Tensor, adjacency: Tensor | None = None) -> Features:
        """Of x (rows, n, channels); the vectors are for points in space."""
        scores = self.score(x).squeeze(-1)
        return Features(scores=scores, vectors=x.mT @ self.vector(x) / x.shape[1] if x.shape[-1] == 3 else None)


def first_number(x: Tensor, *others: Tensor) -> Tensor:
    """An energy that depends on order and pose."""
    return x[:, 0, 0]


ORDER: dict[str, groups.Group] = {"n": groups.S()}
SPACE: dict[str, groups.Group] = {"n": groups.S(), "d": groups.SE(3)}
Makers = dict[str, Callable[[], samplers.Sampler]]
SETTINGS: dict[str, tuple[str, dict[str, groups.Group], int, list[int], Makers]] = {
    "sets": (
        "n c -> ",
        ORDER,
        CHANNELS,
        SETS,
        {
            "Haar": samplers.Haar,
            "Canonical": lambda: samplers.Canonical(nets.DeepSets(CHANNELS)),
            "Learned": lambda: samplers.Learned(nets.DeepSets(CHANNELS)),
            "FromHaar": lambda: samplers.FromHaar(Looks(CHANNELS)),
            "Energy": lambda: samplers.Energy(first_number, elements=DRAWS),
        },
    ),
    "points": (
        "n d:point -> ",
        SPACE,
        3,
        SETS,
        {
            "Haar": samplers.Haar,
            "Frame": samplers.Frame,
            "Canonical": lambda: samplers.Canonical(nets.VNDGCNN(1)),
            "Learned": lambda: samplers.Learned(nets.VNDGCNN(1)),
            "FromHaar": lambda: samplers.FromHaar(Looks(3)),
            "Energy": lambda: samplers.Energy(first_number, elements=DRAWS),
        },
    ),
    "graphs": (
        "n c, n n -> ",
        ORDER,
        CHANNELS,
        GRAPHS,
        {
            "Haar": samplers.Haar,
            "Frame": samplers.Frame,
            "Canonical": lambda: samplers.Canonical(nets.GIN(CHANNELS)),
            "Learned": lambda: samplers.Learned(nets.GIN(CHANNELS)),
            "FromHaar": lambda: samplers.FromHaar(Looks(CHANNELS)),
            "Energy": lambda: samplers.Energy(first_number, elements=DRAWS),
        },
    ),
}


def training_step(setting: str, sampler: str, n: int, device: torch.device) -> Callable[[], object]:
    """Forward and backward of a model for n items."""
    signature, bound, channels, _, makers = SETTINGS[setting]
    torch.manual_seed(0)
    inputs = [torch.randn(1, n, channels, device=device)]
    if setting == "graphs":
        upper = (torch.rand(1, n, n, device=device) < 4 / n).float().triu(1)
        inputs.append(upper + upper.mT)
    made = makers[sampler]()
    samples = 1 if made.lists_elements else DRAWS
    model = Symmetrized(Form(n, channels), signature, bound, made, samples).to(device)

    def run() -> None:
        model.zero_grad(set_to_none=True)
        model(*inputs).sum().backward()

    return run


def measured(setting: str, sampler: str, n: int, device: torch.device) -> dict[str, float]:
    """Bytes that a step adds, and the seconds of the fastest of a few."""
    training_step(setting, sampler, 8, device)()
    run = training_step(setting, sampler, n, device)
    memory, spans = added_memory(run, device), list[float]()
    cuda = device.type == "cuda"
    clock = time.perf_counter if cuda else time.process_time
    while not spans or (sum(spans) < (0.2 if cuda else 1.0) and len(spans) < 20):
        start = clock()
        run()
        if cuda:
            torch.cuda.synchronize()
        spans.append(clock() - start)
    return {"n": n, "seconds": min(spans), "bytes": memory}


def series(setting: str, sampler: str, device: torch.device) -> list[dict[str, float]]:
    """Sizes one after another, as long as the next step will not take long."""
    rows: list[dict[str, float]] = []
    for n in SETTINGS[setting][3]:
        if len(rows) > 1 and rows[-1]["seconds"] * max(4.0, rows[-1]["seconds"] / rows[-2]["seconds"]) > LONG:
            break
        if device.type == "cuda":
            rows.append(measured(setting, sampler, n, device))
            torch.cuda.empty_cache()
        else:
            with multiprocessing.get_context("fork").Pool(1) as pool:
                rows.append(pool.apply(measured, (setting, sampler, n, device)))
    return rows


def exponent(rows: list[dict[str, float]], what: str) -> float:
    """The slope of log `what` by log n over the larger half of the sizes."""
    points = [(math.log(row["n"]), math.log(max(row[what], 1e-9))) for row in rows[len(rows) // 2 :]]
    x, y = (sum(coordinates) / len(points) for coordinates in zip(*points, strict=True))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def main() -> None:
    """Measure all series, print their exponents, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    by_setting: dict[str, dict[str, Any]] = {}
    for setting, (*_, makers) in SETTINGS.items():
        for sampler in makers:
            rows = series(setting, sampler, arguments.device)
            slopes = {what: exponent(rows, what) for what in ("seconds", "bytes")}
            by_setting.setdefault(setting, {})[sampler] = {"rows": rows, "exponents": slopes}
            last = rows[-1]
            print(
                f"{setting:8}{sampler:11}n = {last['n']:<5} {last['seconds']:8.4f} s {last['bytes'] / 2**20:8.1f} MiB"
                f"   n^{slopes['seconds']:.2f} n^{slopes['bytes']:.2f}",
                flush=True,
            )
    result = {"benchmark": "growth", "batch": 1, "draws": DRAWS, "series": by_setting}
    finish({**result, **provenance(arguments.device)}, arguments.out)


if __name__ == "__main__":
    main()
