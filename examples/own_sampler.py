"""
A sampler of your own
=====================

The orientation of these points in the plane is arbitrary. This sampler rotates a cloud so that one of its points lies
on the x axis; far points are more likely to be chosen than near ones. It takes one class with three methods, and the
library can test whether the distribution is equivariant.
"""

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from probsym import Signature, Symmetrized, groups, samplers, testing
from probsym.ops.random_numbers import random_numbers
from probsym.signature import Term

# %%
# A sampler is a function of the input and of random numbers. ``noise`` makes the numbers and ``forward`` the elements.
# ``noise_terms`` says how the numbers transform: here there is one per point, which rotations do not change. Since
# ``random_numbers`` draws them, they also follow the ``seed`` of a call. The Gumbel trick chooses the point, with a
# probability that is a softmax of ``sharpness`` times the distance.


class Facing(samplers.Sampler):
    """The rotation that takes the x axis to a random point, of points (B, n, 2) under SO(2)."""

    def __init__(self, sharpness: float = 4.0) -> None:
        super().__init__()
        self.sharpness = sharpness

    def noise_terms(self, signature: Signature) -> tuple[Term, ...]:
        return (Term(signature.inputs[0].axes[:1]),)

    def noise(
        self, batch: samplers.Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0
    ) -> samplers.Noise:
        points = batch.inputs[0]
        shape = (len(points), draws, points.shape[1])
        uniform = random_numbers(shape, normal=False, dtype=batch.dtype, device=batch.device, generator=generator)
        return samplers.Noise((uniform,), {}, {}, {})

    def forward(self, batch: samplers.Batch, noise: samplers.Noise) -> samplers.Draw:
        points, (uniform,) = batch.inputs[0], noise.inputs
        gumbel = -(-uniform.clamp(min=1e-12).log()).log()
        chosen = (self.sharpness * points.norm(dim=-1).unsqueeze(1) + gumbel).argmax(-1)  # (B, K)
        towards = points.gather(1, chosen.unsqueeze(-1).expand(-1, -1, 2))
        x, y = nn.functional.normalize(towards, dim=-1).unbind(-1)
        rotation = torch.stack([torch.stack([x, -y], -1), torch.stack([y, x], -1)], -2)
        return samplers.Draw(uniform.shape[1], {"d": rotation}, {"d": rotation})


# %%
# ``assert_equivariant`` rotates the inputs together with the noise, and compares. It would detect, for example, a
# sampler that uses the absolute direction of a point.


def clouds(count: int) -> Tensor:
    """Arrows of six points that lie anyhow."""
    arrow = torch.tensor([[-1.0, 0], [-0.5, 0], [0, 0], [0.5, 0.4], [0.5, -0.4], [1.0, 0]])
    turns = groups.SO(2).haar((count,))
    return groups.SO(2).act(turns, arrow + 0.05 * torch.randn(count, 6, 2))


def draw(points: Tensor, estimates: dict[str, Tensor]) -> None:
    """One cloud as it came, and as the base sees it under each sampler."""
    figure, places = plt.subplots(1, 1 + len(estimates), figsize=(10, 3.4), sharex=True, sharey=True)
    for place, (title, seen) in zip(places, {"as it came": points.unsqueeze(0), **estimates}.items(), strict=True):
        for cloud in seen:
            place.scatter(*cloud.T, s=14, alpha=0.6, c=range(6), cmap="viridis")
        place.set(title=title, xticks=[], yticks=[])
        place.set_aspect("equal")
    figure.tight_layout()


def main() -> float:
    """Test it, and look at what the base gets to see; the share of the variance that uniform draws have."""
    torch.manual_seed(0)
    x = clouds(8)
    base = nn.Sequential(nn.Flatten(), nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 1))
    seen, variance = {}, {}
    for name, sampler in {"Haar()": samplers.Haar(), "Facing()": Facing(), "Facing(20)": Facing(20.0)}.items():
        model = Symmetrized(base, "n d -> k", {"d": groups.SO(2)}, sampler, samples=60)
        print(f"{name:11s}", testing.assert_equivariant(model.double(), x.double()))
        estimate = model.float().estimate(x)
        seen[name] = groups.SO(2).act(estimate.elements["d"][0].mT, x[:1].expand(60, -1, -1))
        variance[name] = float(estimate.stderr.square().mean())
    draw(x[0], seen)
    share = variance["Facing(20)"] / variance["Haar()"]
    print(f"variance of a prediction under Facing(20): {share:.0%} of that under Haar()")
    return share


if __name__ == "__main__":
    main()
    plt.show()
