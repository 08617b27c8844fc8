"""
A group of your own
===================

The starting point of these signals of eight values is arbitrary, so the model should be equivariant to cyclic shifts.
One class defines the group, and it works with every sampler. The class inherits most methods from ``Finite``, the base
class of groups whose elements are numbered.
"""

import tempfile
from dataclasses import dataclass

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from probsym import Symmetrized, groups, nets, samplers, testing


@dataclass(frozen=True, repr=False)
class Shifts(groups.Finite):
    """The n cyclic shifts of an axis of size n; element k moves every entry k places on."""

    n: int

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"plain"})

    @property
    def order(self) -> int:
        return self.n

    def axis_size(self, kind: str = "plain") -> int:
        self.check_kind(kind)
        return self.n

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return (g + h) % self.n

    def matrix(self, g: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        """Column j has its one in row j + k."""
        places = (torch.arange(self.n, device=g.device) + g.unsqueeze(-1)) % self.n
        return nn.functional.one_hot(places, self.n).mT.to(dtype or torch.get_default_dtype())

    def noise_laws(self, kind: str = "plain") -> tuple[str, ...]:
        """Entries only change places, so noise of any law keeps it."""
        return "uniform", "normal"


# %%
# ``assert_group_laws`` tests every operation. Then one network is symmetrized with every sampler that supports the
# group, tested, saved and loaded again.


def main() -> None:
    """Check the laws, then symmetrize one network with every sampler that can serve the group."""
    torch.manual_seed(0)
    group = Shifts(8)
    testing.assert_group_laws(group)
    score = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    lifted = nets.Lifted(score, group, axis=-1, rank=1)  # any net, made equivariant by asking it about every shift
    chosen: dict[str, samplers.Sampler] = {
        "Haar": samplers.Haar(),
        "Enumerate": samplers.Enumerate(),
        "Canonical": samplers.Canonical(lifted, tau=1.0),
        "Learned": samplers.Learned(lifted, noise=0.5, tau=1.0),
        "FromHaar": samplers.FromHaar(nn.Linear(8, 8), tau=1.0),
    }
    signal = torch.randn(4, 8)
    for name, sampler in chosen.items():
        samples = 1 if sampler.lists_elements else 8
        model = Symmetrized(nn.Linear(8, 8), "n -> n", {"n": group}, sampler, samples).eval()
        error = testing.assert_equivariant(model.double(), signal.double()).error
        with tempfile.TemporaryDirectory() as folder:
            model.float().save_pretrained(folder)
            loaded = Symmetrized.from_pretrained(folder, groups={"n": group}, base=model.base, sampler=sampler)
        noise = model.noise(signal)
        same = torch.equal(loaded(signal, noise=noise), model(signal, noise=noise))
        print(f"{name:10s} equivariant up to {error:.0e}, loaded again the same: {same}")
    haar = Symmetrized(nn.Linear(8, 8), "n -> n", {"n": group})
    exact = Symmetrized(haar.base, "n -> n", {"n": group}, samplers.Enumerate())(signal)
    offs = {}
    for coupling in ("independent", "antithetic", "quasi", "stratified"):
        offs[coupling] = (haar(signal, samples=8, coupling=coupling) - exact).square().mean().sqrt().item()
        print(f"{coupling:12s} 8 draws are off by {offs[coupling]:.1e}")
    draw(signal, exact, offs)


# %%
# Left: the exact average for one signal, and for the same signal shifted by three places; the output shifts with it.
# Right: how far averages of eight uniform draws are from the exact one, for different couplings of the draws.
# Stratified draws go through all eight shifts.


def draw(signal: Tensor, exact: Tensor, offs: dict[str, float]) -> None:
    """Signals and outputs, moved and not, and errors of couplings."""
    figure, places = plt.subplots(1, 2, figsize=(9, 3.2))
    for shift, style in ((0, "o-"), (3, "s--")):
        places[0].plot(signal[0].roll(shift), style, color="#bbbbbb", label=f"signal, moved by {shift}")
        places[0].plot(exact[0].detach().roll(shift), style, color="#1f5fa8", label=f"output, moved by {shift}")
    places[0].legend(fontsize=7)
    places[1].bar(list(offs), list(offs.values()), color="#1f5fa8")
    places[1].set_title("error of eight draws", fontsize=10)
    figure.tight_layout()


if __name__ == "__main__":
    main()
    plt.show()
