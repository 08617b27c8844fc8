"""The two forms of Sinkhorn scaling on a GPU: the fused kernel against the doubling scan, forward and backward.

Sizes are those of the experiments: graphs of 64 nodes (batch 100, 10 draws), 188 and 444 (batch 128, one draw). The
scan is timed as launched from Python and as a CUDA graph, where launching costs least. Prints a table, ends with JSON.

Run: python benchmarks/sinkhorn.py [--out FILE]
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import captured, finish, side_by_side
from probsym.lab.provenance import provenance
from probsym.ops import sinkhorn_doubling

SIZES = ((1000, 64), (128, 188), (128, 444))


def step(backend: ModuleType, rows: int, n: int) -> Callable[[], object]:
    """Forty half-steps and the way back."""
    points = torch.randn(rows, n, device="cuda", dtype=torch.float64).sort(1, descending=True).values
    rate = 100 / points.norm(dim=1)
    grads = torch.randn(2, rows, n, device="cuda", dtype=torch.float64)

    def run() -> object:
        saved = backend.scale(points, rate, None, 40, False)
        return backend.unscale(points, rate, None, *saved, *grads, False, 39)

    return run


def main() -> None:
    """Time every size, print the table, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        finish({"benchmark": "sinkhorn", "skipped": "the fused kernel needs a GPU"}, None)
        return
    from probsym.ops import sinkhorn_triton  # noqa: PLC0415

    device = torch.device("cuda")
    seconds = {}
    for rows, n in SIZES:
        doubling, fused = step(sinkhorn_doubling, rows, n), step(sinkhorn_triton, rows, n)
        runs = {"fused": fused, "doubling": doubling, "doubling_graph": captured(doubling)}
        seconds[f"{rows}x{n}"] = side_by_side(runs, repeats=5, device=device)
        line = "".join(f"   {name} {1e3 * span:7.3f} ms" for name, span in seconds[f"{rows}x{n}"].items())
        print(f"{rows:5} lines of {n}:{line}")
    finish({"benchmark": "sinkhorn", "seconds": seconds, **provenance(device)}, arguments.out)


if __name__ == "__main__":
    main()
