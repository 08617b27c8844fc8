"""The ways to symmetrize that the paper compares: for graphs by name, else by their samplers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from probsym import groups, nets, samplers
from probsym._internal.callables import takes_mask
from probsym.lab.recipe import Settings
from probsym.samplers import Sampler
from probsym.symmetrized import Symmetrized

Make = Callable[[Settings, int], Sampler]
"""From the settings, and how many channels the nodes have."""


def _gin(settings: Settings, channels: int) -> nets.GIN:
    return nets.GIN(channels, dropout=settings.dropout)


GRAPH_METHODS: dict[str, Make] = {
    "ga": lambda settings, channels: samplers.Haar(),
    # the frame itself, drawn from: its ranks come with the data, so that no step computes eigenvectors
    "fa": lambda settings, channels: samplers.Frame(kind="sort", reads=(2,), exact=False),
    "canonical": lambda settings, channels: samplers.Canonical(_gin(settings, channels), reads=(0, 1)),
    "ps-fixed-noise": lambda settings, channels: samplers.Learned(
        _gin(settings, channels), settings.noise, settings.tau, reads=(0, 1), fixed_noise=True
    ),
    "ps": lambda settings, channels: samplers.Learned(
        _gin(settings, channels), settings.noise, settings.tau, reads=(0, 1)
    ),
}


def takes_draws(sampler: Sampler) -> bool:
    """Whether models can average over more or fewer draws of a sampler: not if it has one element or lists them."""
    return not sampler.lists_elements and not isinstance(sampler, samplers.Canonical)


def symmetrized(
    base: nn.Module,
    signature: str,
    bound: Mapping[str, groups.Group],
    sampler: Sampler,
    settings: Settings,
    **options: Any,
) -> Symmetrized:
    """A model with as many draws as the settings say, or one where the sampler takes no number of them."""
    draws = (settings.samples, settings.eval_samples) if takes_draws(sampler) else (1, 1)
    return Symmetrized(base, signature, bound, sampler, *draws, **options)


def needs_ranks(method: str | None) -> bool:
    """Whether a method reads the ranks of nodes in the spectral frame, which the data are then to bring."""
    return method == "fa"


class WithoutRanks(nn.Module):
    """A model of (features, adjacency), where the ranks of nodes in the spectral frame come third."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base, self.masked = base, takes_mask(base)

    def forward(self, features: Tensor, adjacency: Tensor, ranks: Tensor, mask: Tensor | None = None) -> Tensor:
        """What the base makes of the graph."""
        return self.base(features, adjacency, mask=mask) if self.masked else self.base(features, adjacency)


def symmetrized_graphs(
    base: nn.Module,
    method: str,
    settings: Settings,
    output: str,
    *,
    channels: int = 2,
    edges: bool = False,
    chunk: int | None = None,
) -> Symmetrized:
    """A model of graphs under S_n, with an output term such as "", "k" or "n k".

    Args:
        base: of features and adjacency, and features of edges.
        method: one of `GRAPH_METHODS`; for one that `needs_ranks`, these are to be the last input.
        channels: of the features of nodes.
        edges: whether they have features of edges.
        chunk: draws in one call of the base.
    """
    ranks = needs_ranks(method)
    inputs = f"n c, n n{', n n e' if edges else ''}{', n' if ranks else ''}"
    sampler = GRAPH_METHODS[method](settings, channels)
    base = WithoutRanks(base) if ranks else base
    return symmetrized(base, f"{inputs} -> {output}", {"n": groups.S()}, sampler, settings, chunk=chunk)
