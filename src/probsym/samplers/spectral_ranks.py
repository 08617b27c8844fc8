"""Ranks of the nodes of a graph by the eigenspaces of its Laplacian."""

import torch
from torch import Tensor

from probsym.ops.eigenspaces import eigenspaces
from probsym.ops.ranks import lexicographic_ranks


@torch.no_grad()
def spectral_ranks(adjacency: Tensor, mask: Tensor | None = None) -> Tensor:
    """The rank of every node in the order that the "laplacian" frame gives a graph, (B, n); equal where it ties.

    adjacency is (B, n, n), symmetric, mask booleans (B, n). To compute eigenvectors only once for each graph, give the
    model the ranks as an input, negated to keep the order, and use a frame of kind "sort": it is the same frame.

    >>> path = torch.tensor([[[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]])
    >>> ranks = spectral_ranks(path)[0]
    >>> bool(ranks[0] == ranks[2]), bool(ranks[0] == ranks[1])
    (True, False)
    """
    return lexicographic_ranks(spectral_keys(adjacency.double(), mask), 1e-6, mask)


def spectral_keys(adjacency: Tensor, mask: Tensor | None) -> Tensor:
    """For every node its share in each eigenspace of the Laplacian, (B, n, n)."""
    laplacian = torch.diag_embed(adjacency.sum(-1)) - adjacency
    if mask is not None:  # padding gets an eigenvalue of its own, above all others
        above = 3 * adjacency.abs().sum(-1).amax(-1, keepdim=True)
        above = torch.where(above > 0, above, 1)
        laplacian = laplacian + torch.diag_embed(torch.where(mask, 0, above))
    return eigenspaces(laplacian, 1e-8).diagonals()
