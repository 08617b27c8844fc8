"""
A pretrained encoder on graphs
==============================

A vision transformer, symmetrized under all orders of the nodes, reads adjacency matrices as if they were images. On
this page a tiny, random ViT stands in for a pretrained one, so that nothing has to be downloaded. Pass your own as the
first argument of the program, as in ``python examples/pretrained_encoder.py google/vit-base-patch16-224-in21k``.
"""

import argparse
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import ViTConfig, ViTModel

from probsym import Symmetrized, bases, groups, nets, samplers, testing
from probsym.data import decorated_cycles

NODES = 12


def main(source: str | Path | None = None, steps: int = 200) -> float:
    """Train an encoder from a checkpoint to tell one cycle from two; the loss after the last step.

    `source` is a folder or a file of safetensors, or a hub id. A ViT that is tiny and random stands in if it is None.
    """
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        base = bases.PatchTransformer.from_pretrained(
            _tiny(Path(folder) / "vit") if source is None else source,
            "n 2, n n -> ",  # two numbers a node, and the adjacency matrix -> one number
            n=NODES,
            grid=4,  # 4 x 4 patches of 3 x 3 entries; positions are resized to it
        )
        print(base.loaded)
        model = Symmetrized(
            base,
            "n c, n n -> ",
            {"n": groups.S()},
            sampler=samplers.Learned(nets.GIN(in_channels=2), noise=1.0, tau=0.01),
            samples=4,
        )
        loss = _train(model, steps)
        graphs = decorated_cycles(8, NODES)
        inputs = graphs.features, graphs.adjacency
        print(testing.assert_equivariant(model, *inputs, mask=graphs.mask))
        model.eval().save_pretrained(Path(folder) / "symmetrized")
        again = Symmetrized.from_pretrained(Path(folder) / "symmetrized")
        noise = model.noise(*inputs, mask=graphs.mask)
        with torch.no_grad():
            saved, loaded = (each(*inputs, mask=graphs.mask, noise=noise) for each in (model, again))
        assert torch.equal(saved, loaded)
        draw(graphs.adjacency[0], model.estimate(*inputs, mask=graphs.mask).elements["n"][0])
        print(f"loss after {steps} steps: {loss:.3f}; saved and loaded again, with equal outputs")
    return loss


# %%
# The picture: the adjacency matrix of one graph as given, and as the encoder sees it under learned orders of its nodes.


def draw(adjacency: Tensor, orders: Tensor) -> None:
    """An adjacency matrix (n, n) by itself, and in several orders (draws, n)."""
    figure, places = plt.subplots(1, 1 + len(orders), figsize=(10, 2.4))
    seen = [adjacency, *(adjacency[order][:, order] for order in orders)]
    for place, image, title in zip(places, seen, ["as it came", *(["as it is read"] * len(orders))], strict=True):
        place.imshow(image.numpy(), cmap="Greys")
        place.set(xticks=[], yticks=[], title=title)
    figure.tight_layout()


def _train(model: Symmetrized, steps: int) -> float:
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-4)
    loss = torch.tensor(torch.nan)
    for _ in range(steps):
        graphs = decorated_cycles(32, NODES)
        estimate = model.train().estimate(graphs.features, graphs.adjacency, mask=graphs.mask)
        loss = binary_cross_entropy_with_logits(estimate.mean, graphs.labels)
        optimiser.zero_grad()
        (loss + 0.1 * estimate.losses["entropy"]).backward()
        optimiser.step()
    return float(loss.detach())


def _tiny(folder: Path) -> Path:
    """A checkpoint as the `transformers` library writes it."""
    config = ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=112)
    ViTModel(config).save_pretrained(folder)
    return folder


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", nargs="?", help="folder, file or hub id, like google/vit-base-patch16-224-in21k")
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    main(arguments.source, arguments.steps)
    plt.show()
