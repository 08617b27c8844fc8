"""What temperature, noise, the weight of the entropy, and the number of draws do to a learned sampler.

A small MLP under S_n learns to tell one cycle from two, with one setting changed at a time, from several seeds.
Reported are loss and accuracy on unseen graphs with 20 draws, averaged over the last evaluations of each run.

Run: python benchmarks/sampler_settings.py [--steps 150] [--seeds 2] [--out FILE]. The last line is JSON.
"""

import argparse
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import finish
from probsym import Symmetrized, bases, groups, nets, samplers
from probsym.data import decorated_cycles
from probsym.lab.provenance import provenance

NODES, BATCH, UNSEEN = 20, 64, 400
USUAL: dict[str, float] = {"tau": 0.01, "noise": 1.0, "entropy": 0.1, "samples": 4}
CHANGES: dict[str, tuple[float, ...]] = {
    "tau": (0.001, 0.1, 1.0),
    "noise": (0.1, 3.0),
    "entropy": (0.0, 1.0),
    "samples": (1, 2),
}


def settings() -> list[dict[str, float]]:
    """The usual ones, and those with one changed."""
    return [USUAL, *({**USUAL, name: value} for name, values in CHANGES.items() for value in values)]


def trained(steps: int, seed: int, *, tau: float, noise: float, entropy: float, samples: float) -> dict[str, float]:
    """Loss and accuracy on unseen graphs, means over the last three of ten evaluations."""
    torch.manual_seed(seed)
    model = Symmetrized(
        bases.MLP([NODES * NODES + 2 * NODES, 128, 128, 1], shape=()),
        "n c, n n -> ",
        {"n": groups.S()},
        samplers.Learned(nets.GIN(in_channels=2), noise=noise, tau=tau),
        samples=int(samples),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    unseen = decorated_cycles(UNSEEN, NODES, torch.Generator().manual_seed(1))
    tested = []
    for step in range(1, steps + 1):
        graphs = decorated_cycles(BATCH, NODES)
        estimate = model.train().estimate(graphs.features, graphs.adjacency, mask=graphs.mask)
        loss = binary_cross_entropy_with_logits(estimate.mean, graphs.labels)
        optimizer.zero_grad()
        (loss + entropy * estimate.losses["entropy"]).backward()
        optimizer.step()
        if step % (steps // 10) == 0:
            with torch.no_grad():
                out = model.eval()(unseen.features, unseen.adjacency, mask=unseen.mask, samples=20)
            right = ((out > 0) == (unseen.labels > 0.5)).float().mean()
            tested.append((float(binary_cross_entropy_with_logits(out, unseen.labels)), 100 * float(right)))
    losses, accuracies = zip(*tested[-3:], strict=True)
    return {"loss": fmean(losses), "accuracy": fmean(accuracies)}


def main() -> None:
    """Every setting from every seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for changed in settings():
        for seed in range(given.seeds):
            rows.append({**changed, "seed": seed, **trained(given.steps, seed, **changed)})
            print(rows[-1], flush=True)
    result = {"benchmark": "sampler_settings", "nodes": NODES, "steps": given.steps, "rows": rows}
    finish({**result, **provenance(torch.device("cpu"))}, given.out)


if __name__ == "__main__":
    main()
