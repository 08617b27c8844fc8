"""A training step of EXP-classify at the paper's sizes: MLP-PS, batch 100, 10 draws, graphs of up to 64 nodes.

On a GPU: the step launched from Python, compiled, captured as a CUDA graph, both, and in a user's own loop with a
compiled model, in mode "reduce-overhead" or captured, beside the bare MLP with its optimiser on as many rows. On any
device: the symmetrization alone, everything but the MLP, against its dense, literal form (the net on repeated graphs,
Sinkhorn on logarithms, permutation matrices).

Run: python benchmarks/exp_classify.py [--device cuda] [--precision tf32] [--out FILE]. The last line is JSON.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import finish, side_by_side
from benchmarks.soft_sort import dense, dense_entropy
from benchmarks.training_steps import bare_steps, read_arguments, training_steps
from probsym import Symmetrized, bases, groups, nets, samplers
from probsym.lab.provenance import provenance
from probsym.lab.recipes.exp_classify import ExpClassify
from probsym.lab.run import make_fabric
from probsym.nets.gin import Layer

BATCH, DRAWS, NODES = 100, 10, 64


def literal_scores(net: nets.GIN, x: Tensor, adjacency: Tensor, mask: Tensor) -> Tensor:
    """The net as its formula is written, on rows (rows, n, channels), with the virtual node in every matrix."""
    rows, n = mask.shape
    real = torch.cat([mask, mask.new_ones(rows, 1)], 1)
    matrix = torch.zeros(rows, n + 1, n + 1, device=x.device)
    matrix[:, :n, :n] = adjacency
    matrix[:, n], matrix[:, :, n] = real.float(), real.float()
    hidden = torch.cat([x, net.virtual.expand(rows, 1, -1)], 1)
    for layer in net.layers:
        assert isinstance(layer, Layer)
        loops = torch.diag_embed(real * (1 + layer.epsilon))
        hidden = (matrix + loops) @ hidden
        for linear, norm in ((layer.inner, layer.inner_norm), (layer.outer, layer.outer_norm)):
            flat = torch.nn.functional.batch_norm(
                linear(hidden)[real], None, None, norm.weight, norm.bias, training=True, eps=norm.eps
            )
            hidden = torch.zeros(rows, n + 1, flat.shape[-1], device=x.device).index_put((real,), torch.relu(flat))
    return net.head(hidden[:, :n]).squeeze(-1) * mask


def symmetrization(device: torch.device, repeats: int) -> dict[str, float]:
    """Median seconds of a step of everything but the MLP, ours and in the dense form, on the real graphs."""
    train = ExpClassify().load().train.to(device).take(slice(0, BATCH))
    features, adjacency = train.inputs[0], train.inputs[1]
    assert train.mask is not None
    mask = train.mask
    torch.manual_seed(0)
    net = nets.GIN(in_channels=2).to(device)
    generator = torch.Generator(device).manual_seed(0)
    weights = [
        torch.randn(BATCH * DRAWS, *x.shape[1:], generator=generator, device=device) for x in (features, adjacency)
    ]

    def base(x: Tensor, a: Tensor) -> Tensor:
        """A linear map: what an MLP passes back to its input is as dense."""
        return (x * weights[0]).flatten(1).sum(1) + (a * weights[1]).flatten(1).sum(1)

    model = Symmetrized(base, "n c, n n -> ", {"n": groups.S()}, samplers.Learned(net), samples=DRAWS)

    def ours() -> None:
        estimate = model.estimate(features, adjacency, mask=mask)
        (estimate.mean.mean() + 0.1 * estimate.losses["entropy"]).backward()

    def literal() -> None:
        noise = torch.rand(BATCH, DRAWS, NODES, 2, device=device)
        rows = ((features.unsqueeze(1) + noise) * mask[:, None, :, None]).flatten(0, 1)
        repeated, real = (tensor.repeat_interleave(DRAWS, 0) for tensor in (adjacency, mask))
        scores = literal_scores(net, rows, repeated, real).view(BATCH, DRAWS, NODES)
        each = mask.unsqueeze(1).expand_as(scores)
        moved, soft = dense(scores, adjacency.unsqueeze(1), each, padded=True, logarithmic=True)
        nodes = matrix(soft, scores).mT @ features.unsqueeze(1)
        total = (moved.flatten(0, 1) * weights[1]).sum() + (nodes.flatten(0, 1) * weights[0]).sum()
        (total / (BATCH * DRAWS) + 0.1 * dense_entropy(soft, each)).backward()

    def matrix(soft: Tensor, scores: Tensor) -> Tensor:
        """The straight-through permutation matrix."""
        index = torch.where(mask.unsqueeze(1), scores, -torch.inf).argsort(-1, descending=True)
        hard = torch.zeros_like(soft).scatter_(-2, index.unsqueeze(-2), 1.0)
        return (hard - soft).detach() + soft

    repeated = adjacency.repeat_interleave(DRAWS, 0), mask.repeat_interleave(DRAWS, 0)
    x = features.repeat_interleave(DRAWS, 0)
    wanted = net(x.unsqueeze(1), repeated[0], mask=repeated[1]).scores
    tolerance = 1e-3 if torch.get_float32_matmul_precision() == "highest" else 5e-2  # TF32 keeps three digits
    if wanted is None or not torch.allclose(literal_scores(net, x, *repeated), wanted.squeeze(1), atol=tolerance):
        raise SystemExit("the literal net computes something else")
    return side_by_side({"ours": ours, "dense": literal}, repeats=repeats, device=device)


def main() -> None:
    """Time the steps, print them, end with JSON."""
    arguments, options = read_arguments(__doc__)
    device = make_fabric(options).device
    result: dict[str, object] = {"benchmark": "exp_classify", "precision": arguments.precision}
    alone = symmetrization(device, arguments.repeats)
    result["symmetrization_seconds"], result["symmetrization_ratio"] = alone, round(alone["dense"] / alone["ours"], 2)
    print(f"symmetrization: ours {1e3 * alone['ours']:.1f} ms, dense {1e3 * alone['dense']:.1f} ms")
    mlp = bases.MLP([NODES * NODES + 2 * NODES, 2048, 4096, 2048, 10, 1], shape=()).to(device)
    rows = torch.rand(BATCH * DRAWS, NODES * NODES + 2 * NODES, device=device)
    steps = training_steps(
        "exp-classify/mlp-ps", options, bare_steps(mlp, (rows,), options, clip=0.1), arguments.repeats
    )
    result["step_seconds"] = steps
    for name, seconds in steps.items():
        print(f"step, {name}: {1e3 * seconds:.2f} ms")
    finish({**result, **provenance(device)}, arguments.out)


if __name__ == "__main__":
    main()
