"""
Charged particles under rigid motions
=====================================

Where will five charged particles be a little later? If the particles are rotated or translated, so is the answer. A
plain message-passing network on coordinates does not have this symmetry; symmetrized under E(3), it does.
"""

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from probsym import Symmetrized, bases, groups, nets, samplers, testing
from probsym.data.nbody import published_start, simulate

FRAMES = (3, 13)

# %%
# The data are simulated, with Coulomb forces between random charges. ``edges`` holds the product of the charges and the
# squared distance for every pair.


def systems(count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Positions, velocities, pair features, and the positions ten frames later."""
    start = published_start(count)
    frames = simulate(start, FRAMES)
    arrays = (*frames[FRAMES[0]], frames[FRAMES[1]][0])
    position, velocity, target = (torch.from_numpy(array.swapaxes(1, 2).copy()).float() for array in arrays)
    charges = torch.from_numpy(start.charges).float().view(count, 5, 1)
    edges = torch.stack([charges * charges.mT, torch.cdist(position, position).square()], -1)
    return position, velocity, edges, target


# %%
# ``d:point`` marks coordinates, which rotate and translate; a plain ``d`` is a vector, which only rotates. The base
# predicts displacements, which ``residual=0`` adds to input 0 after the average. The network does not depend on the
# order of the particles, so ``n`` and ``m``, which index them, are not bound to a group.


def make_model() -> Symmetrized:
    """A network on coordinates, under E(3)."""
    return Symmetrized(
        bases.GNN("n 3, n 3, n n 2 -> n 3", width=32, layers=2),
        "n d:point, n d, n m e -> n d:point",
        {"d": groups.E(3)},
        sampler=samplers.Learned(nets.VNDGCNN(in_channels=2, hidden=24, scores=False), noise=1.0, reads=(0, 1)),
        samples=4,
        eval_samples=50,
        residual=0,
    )


def draw(position: Tensor, target: Tensor, predicted: Tensor) -> None:
    """Three systems seen from above: where particles are, where they go, and what the model says."""
    figure, places = plt.subplots(1, 3, figsize=(10, 3.4))
    for place, start, end, guess in zip(places, position, target, predicted, strict=False):
        for before, after in zip(start, end, strict=True):
            place.plot([before[0], after[0]], [before[1], after[1]], color="#bbbbbb", zorder=1)
        place.scatter(*start[:, :2].T, s=18, color="#888888", label="now")
        place.scatter(*end[:, :2].T, s=70, facecolors="none", edgecolors="#1f5fa8", label="later")
        place.scatter(*guess[:, :2].T, s=30, marker="x", color="#d1495b", label="predicted")
        place.set_aspect("equal", adjustable="datalim")
        place.set(xticks=[], yticks=[])
    places[0].legend(fontsize=8)
    figure.tight_layout()


def main(steps: int = 300, count: int = 700) -> float:
    """Train and test; the test error as a share of that of particles that fly straight on."""
    torch.manual_seed(0)
    *inputs, target = systems(count)
    train, test = slice(0, count - 200), slice(count - 200, None)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(steps):
        rows = torch.randint(0, count - 200, (64,))
        loss = nn.functional.mse_loss(model(*(tensor[train][rows] for tensor in inputs)), target[train][rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step:4d}  error {loss.item():.4f}")
    held_out = [tensor[test] for tensor in inputs]
    with torch.no_grad():
        predicted = model.eval()(*held_out)
    error = nn.functional.mse_loss(predicted, target[test])
    straight = nn.functional.mse_loss(held_out[0] + held_out[1], target[test])  # ten frames are one unit of time
    print(f"test error {error:.4f}; of particles that fly straight on {straight:.4f}")
    print(testing.assert_equivariant(model.double(), *(tensor[:20].double() for tensor in held_out)))
    draw(held_out[0], target[test], predicted)
    return float(error / straight)


if __name__ == "__main__":
    main()
    plt.show()
