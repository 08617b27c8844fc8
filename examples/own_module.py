"""
Your own module: a GRU on sets
==============================

Any torch module can be the base. This one reads a set item by item, like a sequence, so its answer depends on the
order. Once symmetrized, it does not.
"""

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from probsym import Symmetrized, groups, nets, samplers, testing


class LastState(nn.Module):
    """Reads a sequence and remembers; no two orders give the same."""

    def __init__(self, channels: int, width: int = 32) -> None:
        super().__init__()
        self.gru = nn.GRU(channels, width, batch_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """One number for x (batch, n, channels)."""
        return self.head(self.gru(x)[0][:, -1]).squeeze(-1)


# %%
# The task: the spread of six numbers, largest minus smallest. A learned order makes it easier for the GRU.


def main(steps: int = 400) -> float:
    """Learn the spread of a set of numbers, largest minus smallest; the test error against always saying the mean."""
    torch.manual_seed(0)
    model = Symmetrized(
        LastState(channels=1),
        "n c -> ",  # n items of c channels -> one invariant number
        {"n": groups.S()},
        sampler=samplers.Learned(nets.DeepSets(in_channels=1), noise=0.1, tau=0.1),
        samples=4,
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        x = torch.rand(64, 6, 1)
        estimate = model.estimate(x)
        loss = (estimate.mean - _spread(x)).square().mean()
        optimiser.zero_grad()
        (loss + 0.01 * estimate.losses["entropy"]).backward()
        optimiser.step()
    x = torch.rand(500, 6, 1)
    print(testing.assert_equivariant(model, x))
    with torch.no_grad():
        predicted = model.eval()(x)
    share = float((predicted - _spread(x)).square().mean() / _spread(x).var())
    draw(_spread(x), predicted)
    print(f"test error, as a share of the variance: {share:.3f}")
    return share


def draw(true: Tensor, predicted: Tensor) -> None:
    """Predicted against true values."""
    figure, place = plt.subplots(figsize=(4.2, 4))
    place.plot([0, 1], [0, 1], color="#bbbbbb", zorder=1)
    place.scatter(true, predicted, s=8, color="#1f5fa8")
    place.set(xlabel="spread of a set", ylabel="predicted", aspect="equal")
    figure.tight_layout()


def _spread(x: Tensor) -> Tensor:
    return (x.amax(1) - x.amin(1)).squeeze(-1)


if __name__ == "__main__":
    main()
    plt.show()
