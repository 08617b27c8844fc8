"""
A group that is not compact
===========================

Momenta of particles, which another observer sees boosted and turned: the Lorentz group. It has no uniform law, so
nothing can be averaged over it, and ``Haar`` says so. But a net can choose a frame from the momenta themselves, and
``Canonical`` then makes any network invariant.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from probsym import Symmetrized, bases, groups, samplers, testing
from probsym.errors import GroupError
from probsym.groups.base import Axis
from probsym.groups.element_checks import check_axis
from probsym.groups.matrices import act_by_matrix, matmul

RAPIDITIES = (0.0, 0.5, 1.0, 1.5, 2.0)

# %%
# An element is a matrix that keeps the product of four-vectors, (t, x, y, z) . (t, x, y, z) = t² - x² - y² - z², and
# the direction of time. Features are as many vectors as there are dimensions, the first of them a possible velocity:
# Gram-Schmidt with this product makes an element of them. Where they do not span, ``noise`` completes them. No noise
# has a law that boosts leave alone, so for such features alone, those of two particles say, a model is not equivariant.


@dataclass(frozen=True, repr=False)
class Lorentz(groups.Group):
    """Boosts, rotations and reflections of space, of d dimensions and time, which comes first."""

    d: int

    compact = False
    feature_field = "vectors"

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"plain"})

    def element_shape(self, size: int | None = None) -> tuple[int, ...]:
        return (self.d + 1, self.d + 1)

    feature_shape = element_shape

    def axis_size(self, kind: str = "plain") -> int:
        self.check_kind(kind)
        return self.d + 1

    def metric(self, like: Tensor) -> Tensor:
        """1 for time, -1 for space, in the dtype of another tensor."""
        return torch.cat([like.new_ones(1), -like.new_ones(self.d)])

    def identity(
        self,
        batch: Sequence[int] = (),
        *,
        size: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> Tensor:
        return torch.eye(self.d + 1, dtype=dtype, device=device).expand(*batch, -1, -1)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return matmul(g, h)

    def inverse(self, g: Tensor) -> Tensor:
        """The transpose, with the signs of the metric on both sides."""
        return g.mT * self.metric(g) * self.metric(g).unsqueeze(-1)

    def act(self, g: Tensor, x: Tensor, axis: Axis = -1, kind: str = "plain") -> Tensor:
        self.check_kind(kind)
        return act_by_matrix(g, x, check_axis(x, axis, self.check_element(g), self.d + 1, self))

    def features(self, batch: Sequence[int] = (), **options: object) -> Tensor:
        """Normal vectors, the first made faster in time than in space."""
        z = super().features(batch, **options)  # type: ignore[arg-type]
        time = z[..., 1:, :1].norm(dim=-2, keepdim=True) + 1
        return torch.cat([torch.cat([time, z[..., 1:, :1]], -2), z[..., 1:]], -1)

    def move(self, g: Tensor, features: Tensor) -> Tensor:
        return self.compose(g, features)

    def project(self, features: Tensor, *, noise: Tensor | None = None) -> Tensor:
        """Gram-Schmidt of the columns; what is left of one across a velocity is space."""
        metric, columns = self.metric(features), features[..., :0]
        least = torch.finfo(features.dtype).eps * features.detach().square().sum((-2, -1))[..., None, None]
        for column in range(self.d + 1):
            rest, square = self._rest(features[..., column, None], columns)
            if noise is not None:
                spare = self._rest(noise[..., column, None].to(features.dtype), columns)
                missing = square * metric[column] <= least
                rest, square = (torch.where(missing, *pair) for pair in zip(spare, (rest, square), strict=True))
            columns = torch.cat([columns, rest / (square * metric[column]).sqrt()], -1)
        return columns

    def _rest(self, vector: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        """What is left of a vector (*batch, d + 1, 1) across these columns, and its square."""
        metric = self.metric(vector)
        for _ in range(2):
            shares = columns.mT @ (metric.unsqueeze(-1) * vector) * metric[: columns.shape[-1]].unsqueeze(-1)
            vector = vector - columns @ shares
        return vector, (metric.unsqueeze(-1) * vector.square()).sum(-2, keepdim=True)

    def contains(self, g: Tensor) -> Tensor:
        off = (self.compose(self.inverse(g), g) - self.identity(dtype=g.dtype)).abs().amax((-2, -1))
        size = g.square().sum((-2, -1))
        return (off < 100 * torch.finfo(g.dtype).eps * size) & (g[..., 0, 0] > 0)

    def matrix(self, g: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        return g.to(dtype or g.dtype)


# %%
# A net for the frame: each of its vectors is a sum of the momenta, with weights that a network makes of products, which
# no element changes. Those of the first are positive, so that it is a velocity.


class Frame(nn.Module):
    """From momenta (..., n, 4) to four vectors, the columns of (..., 4, 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 4))

    def forward(self, momenta: Tensor) -> Tensor:
        total = Lorentz(3).metric(momenta) * momenta.sum(-2, keepdim=True)
        energies = (momenta * total).sum(-1, keepdim=True)  # where all are at rest together
        spread = energies.std(-2, keepdim=True)
        weights = self.weights(3 * (energies - energies.mean(-2, keepdim=True)) / spread)
        weights = torch.cat([nn.functional.softplus(weights[..., :1]), weights[..., 1:]], -1)
        return momenta.mT @ weights


# %%
# The task: the mass of the first two of four particles, from events as one observer sees them. An MLP learns it there.
# Seen by others, it is lost; the same MLP in frames that the net chooses does not change.


def events(count: int) -> tuple[Tensor, Tensor]:
    """Momenta (count, 4, 4) of particles with mass 0.1, and the mass of the first two of them together."""
    space = torch.randn(count, 4, 3)
    momenta = torch.cat([(space.square().sum(-1, keepdim=True) + 0.01).sqrt(), space], -1)
    pair = momenta[:, :2].sum(1)
    return momenta, (Lorentz(3).metric(pair) * pair.square()).sum(-1).sqrt()


def boosted(momenta: Tensor, rapidity: float) -> Tensor:
    """As an observer who moves along x sees them."""
    boost, angle = torch.eye(4, dtype=torch.float64), torch.tensor(rapidity, dtype=torch.float64)
    boost[0, 0] = boost[1, 1] = angle.cosh()
    boost[0, 1] = boost[1, 0] = angle.sinh()
    return Lorentz(3).act(boost, momenta)


def main(steps: int = 600) -> dict[str, list[float]]:
    """Check the laws, learn, and measure for other observers: errors relative to the spread of masses."""
    torch.manual_seed(0)
    group = Lorentz(3)
    testing.assert_group_laws(group)
    models: dict[str, nn.Module] = {"MLP": mlp(), "Canonical": symmetrized(samplers.Canonical(Frame()))}
    try:
        symmetrized(samplers.Haar())(events(1)[0])
    except GroupError as error:
        print(error)
    momenta, masses = events(1000)
    for model in models.values():
        optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(steps):
            seen, wanted = events(128)
            optimiser.zero_grad()
            (model(seen) - wanted).square().mean().backward()
            optimiser.step()
    errors: dict[str, list[float]] = {name: [] for name in models}
    for rapidity in RAPIDITIES:
        for name, model in models.items():
            with torch.no_grad():
                off = model.double()(boosted(momenta.double(), rapidity)) - masses
            errors[name].append((off.square().mean() / masses.var()).item())
    for name, values in errors.items():
        print(f"{name:10s} {values[0]:.2f} as seen in training, {values[-1]:.2f} at a rapidity of {RAPIDITIES[-1]}")
    precise = symmetrized(samplers.Canonical(Frame())).double()
    print(f"equivariant up to {testing.assert_equivariant(precise, momenta[:20].double()).error:.0e}")
    draw(errors)
    return errors


def mlp() -> bases.MLP:
    """From four momenta to a number."""
    return bases.MLP([16, 64, 64, 1], activation="silu", shape=())


def symmetrized(sampler: samplers.Sampler) -> Symmetrized:
    """The same, made invariant."""
    return Symmetrized(mlp(), "n d -> ", {"d": Lorentz(3)}, sampler)


def draw(errors: dict[str, list[float]]) -> None:
    """Errors by rapidity."""
    figure, place = plt.subplots(figsize=(4.8, 3.2))
    for (name, values), style in zip(errors.items(), ("s--", "o-"), strict=True):
        place.semilogy(RAPIDITIES, values, style, label=name)
    place.set(xlabel="rapidity of the observer", ylabel="squared error, share of the variance")
    place.legend(frameon=False)
    figure.tight_layout()


if __name__ == "__main__":
    main()
    plt.show()
