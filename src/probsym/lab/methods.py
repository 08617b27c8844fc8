"""The ways to symmetrize that the paper compares, for graphs."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from probsym import groups, nets, samplers
from probsym.calls import takes_mask
from probsym.lab.recipe import Settings
from probsym.samplers import Sampler
from probsym.symmetrized import Symmetrized

Make = Callable[[Settings], Sampler]


def _gin(settings: Settings) -> nets.GIN:
    return nets.GIN(in_channels=2, dropout=settings.dropout)


GRAPH_METHODS: dict[str, Make] = {
    "ga": lambda settings: samplers.Haar(),
    # the frame itself, drawn from: its ranks come with the data, so that no step computes eigenvectors
    "fa": lambda settings: samplers.Frame(kind="sort", reads=(2,), exact=False),
    "canonical": lambda settings: samplers.Canonical(_gin(settings), reads=(0, 1)),
    "ps-fixed-noise": lambda settings: samplers.Learned(
        _gin(settings), settings.noise, settings.tau, reads=(0, 1), fixed_noise=True
    ),
    "ps": lambda settings: samplers.Learned(_gin(settings), settings.noise, settings.tau, reads=(0, 1)),
}


class WithoutRanks(nn.Module):
    """A model of (features, adjacency), where the ranks of nodes in the spectral frame come third."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base, self.masked = base, takes_mask(base)

    def forward(self, features: Tensor, adjacency: Tensor, ranks: Tensor, mask: Tensor | None = None) -> Tensor:
        """What the base makes of the graph."""
        return self.base(features, adjacency, mask=mask) if self.masked else self.base(features, adjacency)


def symmetrized_graphs(base: nn.Module, method: str, settings: Settings, output: str) -> Symmetrized:
    """A model of graphs (features, adjacency, ranks), invariant under S_n, with the output term "" or "k"."""
    draws = 1 if method == "canonical" else settings.samples
    eval_draws = 1 if method == "canonical" else settings.eval_samples
    return Symmetrized(
        WithoutRanks(base),
        f"n c, n n, n -> {output}",
        {"n": groups.S()},
        GRAPH_METHODS[method](settings),
        samples=draws,
        eval_samples=eval_draws,
    )
