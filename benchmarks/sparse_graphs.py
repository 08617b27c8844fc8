"""Graphs as lists of edges: 20,000 nodes, 100,000 edges, 8 draws in evaluation, under every sampler.

The base is GIN-ID, the net of the sampler GIN, both with the widths of the paper. Memory is what an evaluation holds at
most, beside what was there before, and the peak of the whole process, libraries included, which may not be above one
gigabyte. On graphs of 1,000 nodes and 5,000 edges the same models are timed on edges and on the dense array.

Run: python benchmarks/sparse_graphs.py [--out FILE]. The last line is JSON. On a CPU, under Linux.
"""

import argparse
import resource
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import added_memory, finish, side_by_side
from probsym import Symmetrized, bases, groups, nets, samplers
from probsym.lab.provenance import provenance

NODES, EDGES, DRAWS, CHANNELS = 20_000, 100_000, 8, 8
SMALL = 1_000
LIMIT = 1_000_000_000
SAMPLERS: dict[str, Callable[[], samplers.Sampler]] = {
    "haar": samplers.Haar,
    "frame": lambda: samplers.Frame("colours", exact=False),
    "canonical": lambda: samplers.Canonical(nets.GIN(CHANNELS)),
    "learned": lambda: samplers.Learned(nets.GIN(CHANNELS)),
    "from_haar": lambda: samplers.FromHaar(nets.GIN(CHANNELS)),
}


def graph(nodes: int, edges: int) -> tuple[Tensor, bases.EdgeList]:
    """One graph with random features and links, in both directions."""
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randint(nodes, (2, edges // 2), generator=generator)
    ends = torch.cat([pairs, pairs.flip(0)], 1)
    index = torch.cat([torch.zeros(1, ends.shape[1], dtype=torch.long), ends])
    return torch.rand(1, nodes, CHANNELS, generator=generator), bases.EdgeList(index, torch.ones(len(ends.T)), 1, nodes)


def made(sampler: str, nodes: int) -> Symmetrized:
    """The model of one sampler, in evaluation."""
    torch.manual_seed(0)
    base = bases.GINID(f"n {CHANNELS}, n n -> 2", n=nodes)
    return Symmetrized(base, "n c, n n -> k", {"n": groups.S()}, SAMPLERS[sampler](), samples=DRAWS).eval()


def main() -> None:
    """Measure every sampler, print what each holds, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = torch.device("cpu")
    added, seconds, peak = {}, {}, 0
    with torch.no_grad():
        features, edges = graph(NODES, EDGES)
        for name in SAMPLERS:
            run = partial(made(name, NODES), features, edges)
            added[name] = added_memory(run, device)
            seconds[name] = side_by_side({name: run}, repeats=arguments.repeats, device=device)[name]
            # measuring what is added starts the peak again, so that it is asked for after each
            peak = max(peak, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
            print(f"{name:10} {added[name] / 1e6:4.0f} MB added   {seconds[name]:.2f} s")
        print(f"whole process {peak / 1e6:.0f} MB, of {LIMIT / 1e6:.0f}")
        ratios = {}
        features, edges = graph(SMALL, 5 * SMALL)
        dense = edges.dense()
        for name in SAMPLERS:
            model = made(name, SMALL)
            runs = {"edges": partial(model, features, edges), "dense": partial(model, features, dense)}
            both = side_by_side(runs, repeats=arguments.repeats, device=device)
            ratios[name] = round(both["dense"] / both["edges"], 2)
            print(f"{name:10} {ratios[name]:.2f} x as fast as the dense array, {SMALL} nodes")
    result = {
        "benchmark": "sparse_graphs",
        "nodes": NODES,
        "edges": EDGES,
        "draws": DRAWS,
        "added_bytes": added,
        "process_bytes": peak,
        "seconds": seconds,
        "small_nodes": SMALL,
        "times_as_fast_as_dense": ratios,
    }
    finish({**result, **provenance(device)}, arguments.out)
    if peak > LIMIT:
        raise SystemExit(f"Expected a peak of at most {LIMIT} bytes (got {peak})")


if __name__ == "__main__":
    main()
