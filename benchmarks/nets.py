"""A step of the nets that feed a sampler, forward and backward: ours against inputs repeated for every draw.

Sizes are those of the experiments: GIN on graphs of 64 nodes (batch 100, 10 draws) and VNDGCNN on 5 points in space
(batch 100, 20 draws). The naive GIN repeats the adjacency with its virtual node for every draw; the naive VNDGCNN
gathers neighbours and maps each edge. Both have our weights and are compared with ours before anything is timed.
Prints a table and ends with JSON.

Run: python benchmarks/nets.py [--device DEVICE] [--compile] [--repeats N] [--out FILE]
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import captured, finish, side_by_side
from probsym.lab.provenance import provenance
from probsym.nets import GIN, VNDGCNN
from tests.nets import naive

Call = Callable[..., tuple[Tensor, ...]]


def graphs(device: torch.device) -> tuple[nn.Module, Call, Call, tuple[Tensor, ...]]:
    """GIN, our way of calling it and the naive one, and the inputs."""
    batch, draws, n = 100, 10, 64
    upper = (torch.rand(batch, n, n, device=device) < 0.1).float().triu(1)
    net = GIN(in_channels=2).to(device)

    def ours(x: Tensor, adjacency: Tensor) -> tuple[Tensor, ...]:
        return (tensor(net(x, adjacency).scores),)

    def repeated(x: Tensor, adjacency: Tensor) -> tuple[Tensor, ...]:
        (scores,) = naive.gin(net, [x.flatten(0, 1)], [adjacency.repeat_interleave(draws, 0)])
        return (scores.view(batch, draws, n),)

    return net, ours, repeated, (torch.rand(batch, draws, n, 2, device=device), upper + upper.mT)


def points(device: torch.device) -> tuple[nn.Module, Call, Call, tuple[Tensor, ...]]:
    """VNDGCNN, our way of calling it and the naive one, and the inputs."""
    batch, draws, n = 100, 20, 5
    net = VNDGCNN(in_channels=2).to(device)

    def ours(position: Tensor, velocity: Tensor) -> tuple[Tensor, ...]:
        features = net(position, velocity)
        return tensor(features.scores), tensor(features.vectors)

    def gathered(position: Tensor, velocity: Tensor) -> tuple[Tensor, ...]:
        (scores,), (vectors,) = naive.vn_dgcnn(net, [torch.stack([position, velocity], -1).flatten(0, 1)])
        return scores.view(batch, draws, n), vectors.view(batch, draws, 3, 3)

    return net, ours, gathered, tuple(torch.randn(2, batch, draws, n, 3, device=device))


def tensor(feature: object) -> Tensor:
    """The one feature of a net that was asked for one."""
    assert isinstance(feature, Tensor)
    return feature


def gap(net: nn.Module, ours: Call, other: Call, inputs: tuple[Tensor, ...]) -> float:
    """The largest difference of the two in float64, relative to the largest number."""
    exact = tuple(x.double() for x in inputs)
    with torch.no_grad():
        net.double()
        gaps = [(a - b).abs().max() / b.abs().max() for a, b in zip(ours(*exact), other(*exact), strict=True)]
        net.float()
    return float(torch.stack(gaps).max())


def step(net: nn.Module, call: Call, inputs: tuple[Tensor, ...]) -> Callable[[], object]:
    """Forward and backward; gradients are replaced, not added."""

    def run() -> object:
        net.zero_grad(set_to_none=True)
        outputs = call(*inputs)
        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
        return outputs

    return run


def main() -> None:
    """Check and time both nets, print the table, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--compile", action="store_true", help="ours by torch.compile too, on a GPU")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    seconds: dict[str, dict[str, float]] = {}
    ratios: dict[str, float] = {}
    for name, setting in (("gin", graphs), ("vn_dgcnn", points)):
        torch.manual_seed(0)
        net, ours, other, inputs = setting(device)
        off = gap(net, ours, other, inputs)
        if off > 1e-8:
            raise SystemExit(f"Expected {name} and its naive form to agree (got a difference of {off:.1e})")
        runs = {"ours": step(net, ours, inputs), "naive": step(net, other, inputs)}
        if device.type == "cuda":
            if arguments.compile:
                runs |= {"compiled": step(net, torch.compile(ours), inputs)}
            runs |= {f"{which}_graph": captured(run) for which, run in runs.items()}
        spans = side_by_side(runs, repeats=arguments.repeats, device=device)
        seconds[name] = spans
        for mode in ("", "_graph") if device.type == "cuda" else ("",):
            for which in ("ours", "compiled"):
                if which + mode in spans:
                    ratios[f"{name}_{which}{mode}"] = spans["naive" + mode] / spans[which + mode]
        print(f"{name:9}" + "".join(f"   {which} {1e3 * span:8.3f} ms" for which, span in spans.items()))
        print(
            "".join(f"   {which} {ratio:.2f} times faster" for which, ratio in ratios.items() if which.startswith(name))
        )
    result = {"benchmark": "nets", "seconds": seconds, "ratios": ratios, **provenance(device)}
    finish(result, arguments.out)


if __name__ == "__main__":
    main()
