"""
A potential from a plain transformer
====================================

Energies that are invariant to rotations, and forces that are their gradient, in 60 lines. The transformer itself has no
rotational symmetry; it is averaged over a quadrature rule of 24 rotations and reflections.
"""

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from probsym import Symmetrized, groups, samplers
from probsym.data import Molecules, acetylacetone
from probsym.errors import DataError


class Energy(nn.Module):
    """A transformer without positional encodings: blind to the order of atoms, but not to how they lie in space."""

    def __init__(self, elements: int = 100, width: int = 64) -> None:
        super().__init__()
        self.types, self.places, self.head = nn.Embedding(elements, width), nn.Linear(3, width), nn.Linear(width, 1)
        layers = (nn.TransformerEncoderLayer(width, 4, width, 0.0, nn.functional.silu, batch_first=True) for _ in "12")
        self.layers = nn.Sequential(*layers)

    def forward(self, numbers: Tensor, positions: Tensor) -> Tensor:
        """One energy for atomic numbers (batch, n) and positions (batch, n, 3): a sum over the atoms."""
        with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):  # the one with second derivatives
            return self.head(self.layers(self.types(numbers) + self.places(positions))).sum((1, 2))


def main(steps: int = 300) -> float:
    """Learn energies and forces; the error of the forces on molecules not seen, as a share of their deviation."""
    torch.manual_seed(0)
    numbers, positions, energy, forces = _molecules()
    model = Symmetrized(Energy(), "n, n d:point -> ", {"d": groups.E(3)}, samplers.Quadrature(1))  # 24 poses
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(steps):
        few = torch.randint(50, len(energy), (16,))
        predicted, pushes = _energy_and_forces(model, numbers[few], positions[few])
        off = predicted - energy[few] + energy.mean()
        optimiser.zero_grad()
        (off.square().mean() / numbers.shape[1] + (pushes - forces[few]).square().mean()).backward()
        optimiser.step()
    _, pushes = _energy_and_forces(model, numbers[:50], positions[:50])
    draw(forces[:50], pushes.detach())
    return float((pushes.detach() - forces[:50]).square().mean().sqrt() / forces[:50].std())


def _energy_and_forces(model: nn.Module, numbers: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    energy = model(numbers, positions.requires_grad_())
    return energy, -torch.autograd.grad(energy.sum(), positions, create_graph=True)[0]


def _molecules() -> Molecules:
    """Acetylacetone if PROBSYM_DATA has it, else three atoms on springs, in random poses."""
    try:
        return Molecules(*(x.float() if x.is_floating_point() else x for x in acetylacetone()[0]["train_300k"]))
    except DataError:
        x = torch.randn(500, 3, 3, requires_grad=True)
        energy = ((x - x.roll(1, 1)).norm(dim=-1) - 2).square().sum(1)
        forces = -torch.autograd.grad(energy.sum(), x)[0]
        return Molecules(torch.tensor([[8, 1, 1]] * 500), x.detach(), energy.detach(), forces)


def draw(true: Tensor, predicted: Tensor) -> None:
    """Components of the forces: predicted against true."""
    figure, place = plt.subplots(figsize=(4.2, 4))
    ends = [float(true.min()), float(true.max())]
    place.plot(ends, ends, color="#bbbbbb", zorder=1)
    place.scatter(true.flatten(), predicted.flatten(), s=8, color="#1f5fa8")
    place.set(xlabel="force", ylabel="predicted", aspect="equal")
    figure.tight_layout()


if __name__ == "__main__":
    print(f"error of the forces, as a share of their deviation: {main():.3f}")
    plt.show()
