"""Tokens from edge lists against tokens from dense arrays: time and memory at n = 444.

Graphs of 444 nodes with 8 channels an edge (the sizes of the peptides), projected onto 14 x 14 tokens of width 768. The
dense form is timed from a dense array that is there already, and from the same edge list, which it must first spread
out. Densities are shares of all pairs.

Run: python benchmarks/patch_projection.py [--device cuda] [--batch 8] [--out FILE]. The last line is JSON.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import added_memory, finish, side_by_side
from probsym.bases.arrays import Arrays
from probsym.bases.patches import Tokenize
from probsym.lab.provenance import provenance
from probsym.ops.edge_list import EdgeList

NODES, CHANNELS, GRID, WIDTH = 444, 8, 14, 768
FORMS = ("edges", "dense", "dense_from_edges")


def make(density: float, batch: int, device: torch.device) -> tuple[Tokenize, EdgeList]:
    """The projection, and random graphs."""
    generator = torch.Generator(device).manual_seed(0)
    torch.manual_seed(0)
    tokenize = Tokenize(Arrays.parse(f"n n {CHANNELS} -> 1"), NODES, GRID, WIDTH, diagonal=False).to(device)
    count = round(density * batch * NODES**2)
    places = torch.randint(batch * NODES**2, (count,), generator=generator, device=device).unique()
    index = torch.stack([places // NODES**2, places // NODES % NODES, places % NODES])
    values = torch.randn(len(places), CHANNELS, generator=generator, device=device)
    return tokenize, EdgeList(index, values, batch, NODES)


def step(form: str, tokenize: Tokenize, edges: EdgeList, dense: Tensor | None, training: bool) -> Callable[[], object]:
    """One call, and in training the gradient of the weights."""

    def tokens() -> Tensor:
        if form == "edges":
            return tokenize(edges)
        return tokenize(edges.dense() if dense is None else dense)

    def run() -> None:
        if training:
            tokens().square().mean().backward()
        else:
            with torch.no_grad():
                tokens()

    return run


def compare(density: float, batch: int, device: torch.device, repeats: int) -> dict[str, dict[str, float]]:
    """Median seconds of each form, in evaluation and training."""
    tokenize, edges = make(density, batch, device)
    dense = edges.dense()
    with torch.no_grad():
        difference = (tokenize(edges) - tokenize(dense)).abs().max() / tokenize(dense).abs().max()
    if float(difference) > 1e-5:
        raise SystemExit(f"the two forms differ by {float(difference)}")
    by_phase = {}
    for phase in ("eval", "train"):
        runs = {
            form: step(form, tokenize, edges, dense if form == "dense" else None, phase == "train") for form in FORMS
        }
        by_phase[phase] = side_by_side(runs, repeats=repeats, device=device)
    return by_phase


def memory_of(form: str, density: float, batch: int, device: torch.device) -> int:
    """Bytes that a training step adds at most to weights, their gradients and the edge list."""
    tokenize, edges = make(density, batch, device)
    for parameter in tokenize.parameters():
        parameter.grad = torch.zeros_like(parameter)
    small = make(1e-5, 1, device)
    for warm in FORMS:
        step(warm, *small, None, True)()
    return added_memory(step(form, tokenize, edges, None, True), device)


def main() -> None:
    """Time both forms, measure their memory, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--densities", type=float, nargs="+", default=[0.02, 0.005])
    parser.add_argument("--memory", choices=FORMS, help="only measure the memory of one form")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device, batch = arguments.device, arguments.batch
    if arguments.memory:
        print(memory_of(arguments.memory, arguments.densities[0], batch, device))
        return
    result: dict[str, object] = {"benchmark": "patch_projection", "nodes": NODES, "channels": CHANNELS, "batch": batch}
    for density in arguments.densities:
        seconds = compare(density, batch, device, arguments.repeats)
        memory = {}
        for form in ("edges", "dense_from_edges"):
            words = [__file__, "--memory", form, "--batch", str(batch), "--device", str(device)]
            words += ["--densities", str(density)]
            process = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
            memory[form] = int(process.stdout)
        result[f"density_{density}"] = {"seconds": seconds, "added_bytes": memory}
        for phase, times in seconds.items():
            shown = "".join(f"   {form} {1e3 * span:.1f} ms" for form, span in times.items())
            print(f"density {density:.3f} {phase:5}{shown}")
        print(
            f"density {density:.3f} memory"
            + "".join(f"   {form} {size / 2**20:.0f} MiB" for form, size in memory.items())
        )
    finish({**result, **provenance(device)}, arguments.out)


if __name__ == "__main__":
    main()
