"""Training steps on charged particles at the paper's sizes: batch 100, 20 draws, five particles.

The transformer under S_n x E(3) and the GNN under E(3), with learned distributions, launched from Python, and on a GPU
also compiled, captured as a CUDA graph, both, and in a user's own loop with a compiled model, in mode "reduce-overhead"
or captured. Beside each its bare base with its optimiser on 2,000 rows, compiled and captured, and on a GPU also in a
loop in that mode.

Run: python benchmarks/nbody.py [--device cuda] [--precision tf32] [--only RECIPE] [--out FILE]. The last line is JSON.
"""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import finish
from benchmarks.training_steps import bare_steps, read_arguments, training_steps
from probsym import bases
from probsym.lab.provenance import provenance
from probsym.lab.recipes.nbody import ARRAYS, ITEMS
from probsym.lab.run import make_fabric

ROWS = 100 * 20


def main() -> None:
    """Time the steps, print them, end with JSON."""
    arguments, options = read_arguments(__doc__)
    device = make_fabric(options).device
    rows = tuple(torch.randn(ROWS, *shape, device=device) for shape in ((ITEMS, 3), (ITEMS, 3), (ITEMS, ITEMS, 2)))
    made: dict[str, torch.nn.Module] = {
        "nbody/transformer-ps": bases.SequenceTransformer(ARRAYS, n=ITEMS),
        "nbody/gnn-ps": bases.GNN(ARRAYS, width=60, layers=4),
    }
    result: dict[str, object] = {"benchmark": "nbody", "precision": arguments.precision}
    for name, base in made.items():
        if arguments.only not in (None, name):
            continue
        steps = training_steps(name, options, bare_steps(base.to(device), rows, options), arguments.repeats)
        result[name] = steps
        for mode, seconds in steps.items():
            print(f"{name}, {mode}: {1e3 * seconds:.2f} ms")
    finish({**result, **provenance(device)}, arguments.out)


if __name__ == "__main__":
    main()
