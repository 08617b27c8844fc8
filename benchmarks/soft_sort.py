"""Soft sort against the dense relaxation: time of training and evaluation, and peak memory on a large set.

Every size sorts the n x n tensor of graphs with n nodes (batch 16, 10 draws; with --padded n/2 to n nodes, padded to n)
and adds the entropy regulariser. Three forms compete in one run: ours; `dense`, Sinkhorn on logarithms, the usual way
to write it, with any padding masked after every normalisation; and `lean`, Sinkhorn on plain numbers that masks once,
with as few passes as the dense form can have. In evaluation the dense forms run as in training, less the gradient,
while ours sorts and gathers, without Sinkhorn and entropy; `onehot`, the hard permutation as a matrix product without
Sinkhorn, is the fair rival there.

Run: python benchmarks/soft_sort.py [--device cuda] [--out FILE]. The last line is JSON. On a GPU every form is replayed
as a CUDA graph.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import added_memory, captured, finish, side_by_side
from probsym.lab.provenance import provenance
from probsym.ops import soft_sort

BATCH, DRAWS, TAU, ITERATIONS = 16, 10, 0.01, 20
SIZES = (64, 188, 444)


def dense(scores: Tensor, pairs: Tensor, mask: Tensor, *, padded: bool, logarithmic: bool) -> tuple[Tensor, Tensor]:
    """The straight-through sort of pairs and the relaxed matrix, all n x n."""
    scores = scores / torch.where(mask, scores, 0).norm(dim=-1, keepdim=True)
    ordered, index = torch.where(mask, scores, -torch.inf).sort(-1, descending=True)
    front = torch.isfinite(ordered)
    together = mask.unsqueeze(-1) & front.unsqueeze(-2)
    ordered = torch.where(front, ordered, 0)
    soft = (scores.unsqueeze(-1) - ordered.unsqueeze(-2)).abs() / -TAU
    if logarithmic:
        soft = torch.where(together, soft, -torch.inf)
        for _ in range(ITERATIONS):
            for axis in (-1, -2):
                soft = soft - soft.logsumexp(axis, keepdim=True)
                soft = torch.where(together, soft, -torch.inf) if padded else soft
        soft = soft.exp()
    else:
        soft = soft.exp() * together
        beside, behind = (~mask).unsqueeze(-1).float(), (~front).unsqueeze(-2).float()
        for _ in range(ITERATIONS):
            soft = soft / (soft.sum(-1, keepdim=True) + beside)
            soft = soft / (soft.sum(-2, keepdim=True) + behind)
    hard = torch.zeros_like(soft).scatter_(-2, index.unsqueeze(-2), 1.0) * together
    matrix = (hard - soft).detach() + soft
    return matrix.mT @ pairs @ matrix, soft


def dense_entropy(soft: Tensor, mask: Tensor) -> Tensor:
    """Row plus column entropy, mean over real items and draws."""
    terms = -soft * soft.clamp(min=1e-20).log()
    return ((terms.sum(-1) + terms.sum(-2)).sum(-1) / mask.sum(-1)).mean()


def onehot(scores: Tensor, pairs: Tensor, mask: Tensor) -> Tensor:
    """The hard sort as two matrix products."""
    index = torch.where(mask, scores, -torch.inf).argsort(-1, descending=True)
    matrix = torch.nn.functional.one_hot(index, scores.shape[-1]).to(pairs.dtype) * mask.unsqueeze(-2)
    return matrix @ pairs @ matrix.mT


def compare(n: int, device: torch.device, repeats: int, padded: bool = False) -> dict[str, dict[str, float]]:
    """Median seconds of every form, in training and in evaluation."""
    generator = torch.Generator(device).manual_seed(n)
    scores = torch.randn(BATCH, DRAWS, n, generator=generator, device=device)
    pairs = (torch.rand(BATCH, 1, n, n, generator=generator, device=device) < 0.1).float()
    nodes = torch.linspace(n // 2 if padded else n, n, BATCH, device=device).round()
    mask = (torch.arange(n, device=device) < nodes.unsqueeze(1)).unsqueeze(1)
    pairs = pairs * mask.unsqueeze(-1) * mask.unsqueeze(-2)
    weight = torch.randn(BATCH, DRAWS, n, n, generator=generator, device=device)

    def train(run: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Callable[[], object]:
        def step() -> None:
            leaf = scores.clone().requires_grad_()
            moved, entropy = run(leaf)
            ((moved * weight).mean() + 0.1 * entropy).backward()

        return step

    def ours(leaf: Tensor) -> tuple[Tensor, Tensor]:
        order = soft_sort(leaf, mask=mask if padded else None, tau=TAU, iterations=ITERATIONS)
        return order.sort(pairs, (-2, -1)), order.entropy().mean()

    def literal(logarithmic: bool) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        def run(leaf: Tensor) -> tuple[Tensor, Tensor]:
            moved, soft = dense(leaf, pairs, mask, padded=padded, logarithmic=logarithmic)
            return moved, dense_entropy(soft, mask)

        return run

    _check_agreement(ours, literal, lambda leaf: onehot(leaf, pairs, mask), scores)
    training = {"ours": train(ours), "dense": train(literal(True)), "lean": train(literal(False))}
    evaluation: dict[str, Callable[[], object]] = {
        "ours": lambda: soft_sort(scores, mask=mask if padded else None).sort(pairs, (-2, -1)),
        "dense": lambda: literal(True)(scores),
        "lean": lambda: literal(False)(scores),
        "onehot": lambda: onehot(scores, pairs, mask),
    }
    seconds = {}
    for phase, runs in (("train", training), ("eval", evaluation)):
        with torch.set_grad_enabled(phase == "train"):
            ready = {name: captured(run) if device.type == "cuda" else run for name, run in runs.items()}
            seconds[phase] = side_by_side(ready, repeats=repeats if phase == "train" else 3 * repeats, device=device)
    return seconds


def _check_agreement(
    ours: Callable[[Tensor], tuple[Tensor, Tensor]],
    literal: Callable[[bool], Callable[[Tensor], tuple[Tensor, Tensor]]],
    hard: Callable[[Tensor], Tensor],
    scores: Tensor,
) -> None:
    """Stop if the rivals do not compute the same."""
    with torch.no_grad():
        moved, entropy = ours(scores)
        if not torch.equal(moved, hard(scores)):
            raise SystemExit("the one-hot form sorts otherwise")
        for logarithmic in (True, False):
            other, other_entropy = literal(logarithmic)(scores)
            if not torch.allclose(moved, other, atol=1e-5) or not torch.allclose(entropy, other_entropy, rtol=1e-4):
                raise SystemExit("the dense form computes something else")


def large_set() -> None:
    """One training step on a set of 4096 points, batch 4, 8 draws; prints the growth of the peak in bytes."""
    scores = torch.randn(4, 8, 4096, requires_grad=True)
    points = torch.randn(4, 1, 4096, 3)

    def step() -> None:
        order = soft_sort(scores)
        (order.sort(points, -2).square().cumsum(-2).mean() + 0.1 * order.entropy().mean()).backward()

    print(added_memory(step, scores.device))


def peak_memory() -> int:
    """Bytes that a training step on the large set adds, measured in a process of its own."""
    process = subprocess.run([sys.executable, __file__, "--large-set"], capture_output=True, text=True, check=True)
    return int(process.stdout)


def main() -> None:
    """Time every size, print the ratios, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--padded", action="store_true", help="graphs of n/2 to n nodes, padded to n and masked")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--large-set", action="store_true", help="only run the step whose memory is measured")
    arguments = parser.parse_args()
    if arguments.large_set:
        large_set()
        return
    result: dict[str, object] = {"benchmark": "soft_sort", "batch": BATCH, "draws": DRAWS, "seconds": {}}
    seconds = {n: compare(n, arguments.device, arguments.repeats, arguments.padded) for n in arguments.sizes}
    result["seconds"] = seconds
    for phase, rivals in (("train", ("dense", "lean")), ("eval", ("dense", "lean", "onehot"))):
        for rival in rivals:
            name = f"{phase}_ratio" if rival == "dense" else f"{phase}_ratio_{rival}"
            ratios = {n: round(times[phase][rival] / times[phase]["ours"], 2) for n, times in seconds.items()}
            result[name] = ratios
            print(f"{name:18}" + "".join(f"   n = {n}: {ratio:8.1f} x" for n, ratio in ratios.items()))
    if arguments.device.type == "cpu":
        peak = result["large_set_bytes"] = peak_memory()
        print(f"peak memory of a training step, n = 4096, batch 4, 8 draws: {peak / 2**20:.0f} MiB")
    finish({**result, **provenance(arguments.device)}, arguments.out)


if __name__ == "__main__":
    main()
