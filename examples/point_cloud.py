"""
A point cloud under rotations and translations
==============================================

A plain set network learns to find the tip of an arrow from arrows that all point up. Symmetrized under SE(3), it finds
the tip of an arrow in any orientation.
"""

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from probsym import Symmetrized, groups, nets, samplers, testing

POINTS = 8

# %%
# The base: its output does not depend on the order of the points, but does depend on their orientation.


class PointNet(nn.Module):
    """A maximum over points: their order does not matter to it, their pose does."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.each = nn.Sequential(nn.Linear(3, width), nn.SiLU(), nn.Linear(width, width))
        self.head = nn.Sequential(nn.SiLU(), nn.Linear(width, 3))

    def forward(self, x: Tensor) -> Tensor:
        """One point for x (batch, n, 3)."""
        return self.head(self.each(x).amax(1))


# %%
# ``n d:point -> d:point`` maps a cloud of points to one point, which moves with the cloud. The axis ``n`` is not bound
# to a group, since the base already ignores the order of the points.


def main(steps: int = 300) -> float:
    """Learn the tip from arrows at one pose, be tested at all poses; the mean distance from the true tip."""
    torch.manual_seed(0)
    model = Symmetrized(
        PointNet(),
        "n d:point -> d:point",  # n points -> one point, which moves with them
        {"d": groups.SE(3)},
        sampler=samplers.Learned(nets.VNDGCNN(in_channels=1, hidden=24, scores=False), noise=0.1),
        samples=4,
        eval_samples=16,
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        points, tip = _arrows(64)
        loss = (model(points) - tip).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    points, tip = _arrows(200)
    pose = groups.SE(3).haar((200,), centroid=10 * torch.randn(200, 3))
    moved, there = groups.SE(3).act(pose, points, kind="point"), groups.SE(3).act(pose, tip, kind="point")
    with torch.no_grad():
        predicted = model.eval()(moved)
    distance = float((predicted - there).norm(dim=-1).mean())
    draw(moved, there, predicted)
    print(testing.assert_equivariant(model.double(), points.double()))
    print(f"mean distance from the tip, on arrows of length 2 that lie anyhow: {distance:.3f}")
    return distance


# %%
# Four test arrows and the tips that the model finds, each seen along the y axis.


def draw(points: Tensor, tips: Tensor, predicted: Tensor) -> None:
    """Clouds with their tips, true and predicted."""
    figure, places = plt.subplots(1, 4, figsize=(10, 2.8))
    for place, cloud, tip, guess in zip(places, points, tips, predicted, strict=False):
        place.scatter(cloud[:, 0], cloud[:, 2], s=16, color="#888888", label="points")
        place.scatter(tip[0], tip[2], s=110, facecolors="none", edgecolors="#1f5fa8", label="tip")
        place.scatter(guess[0], guess[2], s=40, marker="x", color="#d1495b", label="predicted")
        place.set(xticks=[], yticks=[])
        place.set_aspect("equal", adjustable="datalim")
    places[0].legend(fontsize=8)
    figure.tight_layout()


def _arrows(count: int) -> tuple[Tensor, Tensor]:
    """Points along the z axis, denser towards the tip, in random order, a little off the line; and the tip."""
    along = 2 * torch.linspace(0, 1, POINTS).sqrt().expand(count, POINTS)
    points = torch.stack([torch.zeros_like(along), torch.zeros_like(along), along], -1)
    points = points + 0.05 * torch.randn(count, POINTS, 3)
    order = torch.rand(count, POINTS).argsort(-1).unsqueeze(-1).expand_as(points)
    return points.gather(1, order), torch.tensor([0.0, 0.0, 2.0]).expand(count, 3)


if __name__ == "__main__":
    main()
    plt.show()
