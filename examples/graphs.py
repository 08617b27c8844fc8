"""
Graphs that message passing cannot tell apart
=============================================

Does a graph have one long cycle or two short ones? Both look alike around every node, at any distance, so no
message-passing network can tell. A plain MLP on the adjacency matrix can, but its answer depends on how the nodes are
numbered. Here the MLP is made invariant to the numbering, and the distribution over numberings is learned with it.
"""

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from probsym import Symmetrized, bases, groups, nets, samplers, testing
from probsym.data import decorated_cycles
from probsym.lab.demo_picture import draw_graph

NODES = 20

# %%
# The model. The signature says what each axis means: ``n`` indexes nodes and is bound to ``S()``, the group of all
# permutations; ``c`` is not bound to a group. The empty output is one number per graph, the same for every numbering.


def make_model() -> Symmetrized:
    """An MLP under all orders of the nodes."""
    return Symmetrized(
        bases.MLP([NODES * NODES + 2 * NODES, 256, 256, 1], shape=()),
        "n c, n n -> ",
        {"n": groups.S()},
        sampler=samplers.Learned(nets.GIN(in_channels=2), noise=1.0, tau=0.01),
        samples=5,
        eval_samples=20,
    )


# %%
# Training is an ordinary loop. The only new part is ``estimate``, which also returns the losses of the sampler. The
# entropy loss keeps the relaxed permutations, which carry the gradient, close to real permutations.


def train(model: Symmetrized, steps: int) -> None:
    """Learn from graphs that are made as they are needed."""
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(steps):
        graphs = decorated_cycles(64, NODES)
        estimate = model.estimate(graphs.features, graphs.adjacency, mask=graphs.mask)
        loss = binary_cross_entropy_with_logits(estimate.mean, graphs.labels)
        optimizer.zero_grad()
        (loss + 0.1 * estimate.losses["entropy"]).backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step:4d}  loss {loss.item():.3f}")


# %%
# The pictures: a pair of graphs, in which message passing cannot tell nodes of the same colour apart, and the outputs
# of the trained model for unseen graphs.


def draw(chance: Tensor, labels: Tensor) -> None:
    """One pair of graphs, and the chances that the model gives to all."""
    figure, places = plt.subplots(1, 3, figsize=(10, 3.2))
    pair = decorated_cycles(2, NODES, torch.Generator().manual_seed(5))
    kinds = ("one cycle", "two cycles")
    for place, features, matrix, mask, title in zip(
        places, pair.features, pair.adjacency, pair.mask, kinds, strict=False
    ):
        size = int(mask.sum())
        draw_graph(place, features[:size], matrix[:size, :size])
        place.set_title(title)
    bins = torch.linspace(0, 1, 21).tolist()
    places[2].hist([chance[labels == 1].tolist(), chance[labels == 0].tolist()], bins, label=["one cycle", "two"])
    places[2].set(xlabel="chance given to one cycle", ylabel="unseen graphs")
    places[2].legend()
    figure.tight_layout()


def main(steps: int = 250) -> float:
    """Train, test and draw; the share of unseen graphs that are classified correctly."""
    torch.manual_seed(0)
    model = make_model()
    train(model, steps)
    graphs = decorated_cycles(400, NODES)
    with torch.no_grad():
        logits = model.eval()(graphs.features, graphs.adjacency, mask=graphs.mask)
    right = float(((logits > 0) == (graphs.labels > 0.5)).float().mean())
    print(f"classified correctly: {right:.1%} of {len(logits)} unseen graphs")
    few = graphs.features[:20], graphs.adjacency[:20]
    print(testing.assert_equivariant(model, *few, mask=graphs.mask[:20]))
    draw(logits.sigmoid(), graphs.labels)
    return right


if __name__ == "__main__":
    main()
    plt.show()
