"""A step of the nets that feed a sampler, forward and backward: ours against inputs repeated for every draw.

Sizes are those of the experiments: GIN on graphs of 64 nodes (batch 100, 10 draws) and VNDGCNN on 5 points in space
(batch 100, 20 draws). The naive GIN repeats the adjacency with its virtual node for every draw; the naive VNDGCNN
gathers neighbours and maps each edge. Both have our weights and are compared with ours before anything is timed.
Prints a table and ends with JSON.

Run: python benchmarks/nets.py [--device DEVICE] [--repeats N] [--out FILE]
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import captured, finish, provenance, side_by_side
from probsym.nets import GIN, VNDGCNN
from tests.nets import naive

Call = Callable[[], tuple[Tensor, ...]]


def graphs(device: torch.device) -> tuple[nn.Module, Call, Call]:
    """GIN and its two ways of calling."""
    batch, draws, n = 100, 10, 64
    net = GIN(in_channels=2).to(device)
    x = torch.rand(batch, draws, n, 2, device=device)
    upper = (torch.rand(batch, n, n, device=device) < 0.1).float().triu(1)
    adjacency = upper + upper.mT

    def ours() -> tuple[Tensor, ...]:
        scores = net(x, adjacency).scores
        return (scores,)

    def repeated() -> tuple[Tensor, ...]:
        (scores,) = naive.gin(net, [x.flatten(0, 1)], [adjacency.repeat_interleave(draws, 0)])
        return (scores.view(batch, draws, n),)

    return net, ours, repeated


def points(device: torch.device) -> tuple[nn.Module, Call, Call]:
    """VNDGCNN and its two ways of calling."""
    batch, draws, n = 100, 20, 5
    net = VNDGCNN(in_channels=2).to(device)
    position, velocity = torch.randn(2, batch, draws, n, 3, device=device)

    def ours() -> tuple[Tensor, ...]:
        features = net(position, velocity)
        return features.scores, features.vectors

    def gathered() -> tuple[Tensor, ...]:
        (scores,), (vectors,) = naive.vn_dgcnn(net, [torch.stack([position, velocity], -1).flatten(0, 1)])
        return scores.view(batch, draws, n), vectors.view(batch, draws, 3, 3)

    return net, ours, gathered


def check(net: nn.Module, ours: Call, other: Call) -> float:
    """The largest difference of the two, relative to the largest number, in float64 and on a CPU's or GPU's rounding."""
    net.double()
    gaps = [(a - b).abs().max() / b.abs().max() for a, b in zip(ours(), other(), strict=True)]
    net.float()
    return float(torch.stack(gaps).max())
