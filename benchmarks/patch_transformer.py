"""What probabilistic symmetrization adds to a training step of an encoder that reads graphs like images.

ViT-Base, batch 128, one draw, at the sizes of PATTERN (188 nodes, adjacency) and of Peptides-func (444 nodes, adjacency
and bonds): a whole step with the learned distribution, beside a step of the bare encoder that is given as many tokens
of the same width, both compiled and captured on a GPU. Graphs are random ones of about the same sizes and densities.
With 444 nodes also the steps of Peptides-func, which drops half of the tokens, and of Peptides-struct, which hides a
share of them that changes from step to step.

Run: python benchmarks/patch_transformer.py [--device cuda] [--precision bf16-mixed] [--encoder vit-b] [--nodes 188]
[--kernels] [--out FILE]. The last line is JSON; with --kernels it has what the symmetrized step spends its time on.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import captured, finish, kernel_times, side_by_side
from probsym import Symmetrized, bases, groups, nets, samplers
from probsym.lab.provenance import provenance
from probsym.lab.run import Options, make_fabric

SIZES = {188: (3, 0, 50.0), 444: (50, 7, 2.0)}
"""Most nodes: channels of nodes, kinds of bonds, and the degree of a node on average."""


def step_of(model: nn.Module, loss: Callable[[], Tensor], cuda: bool) -> Callable[[], object]:
    """A step with AdamW, compiled and captured where possible."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=cuda, capturable=cuda)
    loss_of = torch.compile(loss, fullgraph=True) if cuda else loss

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        loss_of().backward()
        optimiser.step()

    return captured(step) if cuda else step


def graphs(batch: int, n: int, degree: float, bonds: int, device: torch.device) -> tuple[Tensor, ...]:
    """Random graphs of three quarters of n nodes on average, with a mask."""
    generator = torch.Generator(device).manual_seed(0)
    sizes = torch.randint(n // 2, n + 1, (batch, 1), generator=generator, device=device)
    mask = torch.arange(n, device=device) < sizes
    chance = torch.rand(batch, n, n, generator=generator, device=device).triu(1)
    upper = (chance > 1 - degree / (0.75 * n)) & mask.unsqueeze(1) & mask.unsqueeze(2)
    adjacency = (upper | upper.mT).float()
    kinds = torch.randint(bonds, (batch, n, n), generator=generator, device=device) if bonds else None
    if kinds is None:
        return mask, adjacency
    return mask, adjacency, nn.functional.one_hot(kinds, bonds) * adjacency.unsqueeze(-1)


def make_base(n: int, encoder: str, patch_dropout: float | tuple[float, float] = 0.0) -> bases.PatchTransformer:
    """The base of PATTERN or of the peptides."""
    channels, bonds, _ = SIZES[n]
    arrays = f"n {channels}, n n{f', n n {bonds}' if bonds else ''} -> {'n 2' if n == 188 else '10'}"
    diagonal = n == 188
    return bases.PatchTransformer(
        arrays, n, encoder, diagonal_inputs=diagonal, diagonal_output=diagonal, patch_dropout=patch_dropout
    )


def symmetrize(base: bases.PatchTransformer) -> Symmetrized:
    """The base under a learned distribution of orders."""
    channels, bonds, _ = SIZES[base.n]
    signature = f"n c, n n{', n n e' if bonds else ''} -> {'n k' if base.n == 188 else 'k'}"
    return Symmetrized(base, signature, {"n": groups.S()}, samplers.Learned(nets.GIN(channels), reads=(0, 1)))


def main() -> None:
    """Time the steps, print the ratios, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--precision", default="bf16-mixed")
    parser.add_argument("--encoder", default="vit-b")
    parser.add_argument("--nodes", type=int, choices=SIZES, help="the one size to measure")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    fabric = make_fabric(Options(arguments.device, precision=arguments.precision))
    device, cuda = fabric.device, fabric.device.type == "cuda"
    result: dict[str, object] = {"benchmark": "patch_transformer", **vars(arguments), "out": None}

    def whole(model: Symmetrized, inputs: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        with fabric.autocast():
            estimate = model.estimate(*inputs, mask=mask)
            return estimate.mean.float().square().mean() + 0.1 * estimate.losses["entropy"]

    def alone(bare: nn.Module, tokens: Tensor) -> Tensor:
        with fabric.autocast():
            encoded: Tensor = bare(tokens)
            return encoded.float().square().mean()

    for n, (channels, bonds, degree) in SIZES.items():
        if arguments.nodes not in (None, n):
            continue
        mask, *pairs = graphs(arguments.batch, n, degree, bonds, device)
        features = torch.rand(arguments.batch, n, channels, device=device) * mask.unsqueeze(-1)
        shares: dict[str, float | tuple[float, float]] = {"symmetrized": 0.0}
        if n == 444:
            shares |= {"dropped": 0.5, "hidden": (0.0, 0.5)}
        runs = {}
        for name, share in shares.items():
            model = symmetrize(make_base(n, arguments.encoder, share)).to(device)
            runs[name] = step_of(model, partial(whole, model, (features, *pairs), mask), cuda)
        base = make_base(n, arguments.encoder).to(device)
        tokens = torch.randn(arguments.batch, 1 + base.grid**2, base.cls.shape[0], device=device)
        runs["bare"] = step_of(base.encoder, partial(alone, base.encoder, tokens), cuda)
        times = side_by_side(runs, repeats=arguments.repeats, device=device)
        ratio = round(times["symmetrized"] / times["bare"], 3)
        kernels = {"kernels": kernel_times(runs["symmetrized"], device)} if arguments.kernels else {}
        result[f"n={n}"] = {**times, "ratio": ratio, **kernels}
        print(f"n = {n}: " + ", ".join(f"{name} {1e3 * span:.1f} ms" for name, span in times.items()) + f", {ratio}x")
    finish({**result, **provenance(device)}, arguments.out)


if __name__ == "__main__":
    main()
