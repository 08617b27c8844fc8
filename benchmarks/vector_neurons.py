"""A training step with `Learned(VNDGCNN)` as a multiple of one with `Haar`: 32 points, batch 64, 8 draws.

The base is the set network of examples/point_cloud.py. Under SE(3) the net names rotations; under S_n x SE(3) it has a
second convolution and names orders too.

Run: python benchmarks/vector_neurons.py [--device DEVICE] [--points 32] [--batch 64] [--draws 8] [--repeats 15]
[--compile] [--out FILE]. The last line is JSON.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import finish, side_by_side
from examples.point_cloud import PointNet
from probsym import Symmetrized, groups, nets, samplers
from probsym.lab.provenance import provenance

GROUPS: dict[str, dict[str, groups.Group]] = {
    "SE(3)": {"d": groups.SE(3)},
    "S_n x SE(3)": {"n": groups.S(), "d": groups.SE(3)},
}


def steps(
    bound: dict[str, groups.Group], x: torch.Tensor, draws: int, compiled: bool
) -> dict[str, Callable[[], object]]:
    """A training step under either sampler, forward and backward, and also compiled if asked for."""
    torch.manual_seed(0)
    base = PointNet()
    learned = samplers.Learned(nets.VNDGCNN(in_channels=1, scores="n" in bound))

    def step(sampler: samplers.Sampler, compiled: bool = False) -> Callable[[], object]:
        model = Symmetrized(base, "n d:point -> d:point", bound, sampler, samples=draws).to(x.device)
        call = torch.compile(model) if compiled else model

        def run() -> None:
            model.zero_grad(set_to_none=True)
            call(x).square().mean().backward()

        return run

    runs = {"haar": step(samplers.Haar()), "learned": step(learned)}
    if compiled:
        runs |= {"haar_compiled": step(samplers.Haar(), True), "learned_compiled": step(learned, True)}
    return runs


def main() -> None:
    """Time the steps, print their ratios, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--points", type=int, default=32)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--compile", action="store_true", help="both by torch.compile too")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    x = torch.randn(arguments.batch, arguments.points, 3, device=arguments.device)
    seconds, ratios = {}, {}
    for name, bound in GROUPS.items():
        runs = steps(bound, x, arguments.draws, arguments.compile)
        spans = seconds[name] = side_by_side(runs, repeats=arguments.repeats, device=arguments.device)
        ratios[name] = spans["learned"] / spans["haar"]
        if arguments.compile:
            ratios[f"{name} compiled"] = spans["learned_compiled"] / spans["haar_compiled"]
        shown = "".join(f"   {which} {1e3 * span:.1f} ms" for which, span in spans.items())
        print(f"{name:12}{shown}   ratio {ratios[name]:.1f}")
    sizes = {key: getattr(arguments, key) for key in ("points", "batch", "draws")}
    result = {"benchmark": "vector_neurons", **sizes, "seconds": seconds, "ratios": ratios}
    finish({**result, **provenance(arguments.device)}, arguments.out)


if __name__ == "__main__":
    main()
