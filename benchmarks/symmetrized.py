"""What `Symmetrized` adds to a bare call of the base, at one draw: forward, and forward with backward.

The base is the MLP over padded graphs of 64 nodes (batch 100), with the widths of the paper; the samplers are those of
the library.

Run: python benchmarks/symmetrized.py [--device cuda] [--out FILE]. The last line is JSON. On a GPU every run is also
replayed as a CUDA graph, which leaves out what launching costs.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import captured, finish, side_by_side
from probsym import Symmetrized, bases, groups, nets, samplers
from probsym.lab.provenance import provenance

BATCH, NODES = 100, 64
SAMPLERS: dict[str, Callable[[], samplers.Sampler]] = {
    "haar": samplers.Haar,
    "canonical": lambda: samplers.Canonical(nets.GIN(in_channels=2)),
    "learned": lambda: samplers.Learned(nets.GIN(in_channels=2)),
}


def compare(device: torch.device, repeats: int) -> dict[str, dict[str, float]]:
    """Median seconds of the bare base and of the model under each sampler."""
    generator = torch.Generator(device).manual_seed(0)
    nodes = torch.randint(NODES // 2, NODES + 1, (BATCH, 1), generator=generator, device=device)
    mask = torch.arange(NODES, device=device) < nodes
    features = torch.rand(BATCH, NODES, 2, generator=generator, device=device)
    adjacency = (torch.rand(BATCH, NODES, NODES, generator=generator, device=device) < 0.05).float()
    torch.manual_seed(0)
    base = bases.MLP([NODES * NODES + 2 * NODES, 2048, 4096, 2048, 10, 1], shape=()).to(device)
    models = {
        name: Symmetrized(base, "n c, n n -> ", {"n": groups.S()}, make()).to(device) for name, make in SAMPLERS.items()
    }

    def training(run: Callable[[], Tensor]) -> Callable[[], object]:
        def step() -> None:
            run().square().mean().backward()

        return step

    runs: dict[str, Callable[[], Tensor]] = {"bare": lambda: base(features, adjacency)}
    for name, model in models.items():
        runs[name] = partial(model, features, adjacency, mask=mask)
    seconds = {}
    for phase in ("eval", "train"):
        for model in models.values():
            model.train(phase == "train")
        ready = {name: training(run) if phase == "train" else run for name, run in runs.items()}
        with torch.set_grad_enabled(phase == "train"):
            seconds[phase] = side_by_side(ready, repeats=repeats, device=device)
            if device.type == "cuda":
                graphs = {name: captured(run) for name, run in ready.items()}
                seconds[f"{phase}_graph"] = side_by_side(graphs, repeats=repeats, device=device)
    return seconds


def main() -> None:
    """Time the models, print what they cost over the bare base, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    seconds = compare(arguments.device, arguments.repeats)
    result: dict[str, object] = {"benchmark": "symmetrized", "batch": BATCH, "nodes": NODES, "seconds": seconds}
    for phase, times in seconds.items():
        ratios = {name: round(span / times["bare"], 3) for name, span in times.items() if name != "bare"}
        result[f"{phase}_cost"] = ratios
        shown = "".join(f"   {name} {ratio:.2f} x" for name, ratio in ratios.items())
        print(f"{phase:11} bare {1e3 * times['bare']:.1f} ms{shown}")
    finish({**result, **provenance(arguments.device)}, arguments.out)


if __name__ == "__main__":
    main()
