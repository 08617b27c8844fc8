"""What is measured on PCQM-Contact: where the true contacts of an atom rank among all atoms."""

from __future__ import annotations

import torch
from torch import Tensor

from probsym.errors import DtypeError, NonFiniteError, RangeError, ShapeError

HITS = (1, 3, 10)


def contact_metrics(scores: Tensor, contacts: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """Hits@1, 3, 10 and the mean reciprocal rank, for three sets of candidates that are never to be mixed.

    A contact (i, j) ranks by its score among those of (i, k) for all candidates k:

    - raw ("hits@1", ..., "mrr"): all atoms of the molecule, i itself and its other contacts among them. A molecule
      without contacts counts as zero. Both as by the benchmark's own evaluation;
    - filtered ("hits@1_filtered", ..., "mrr_filtered"): without the other contacts of i;
    - extended ("hits@1_extended", ..., "mrr_extended"): without the other contacts of i and without i itself.

    Molecules without contacts have no part in the last two.

    Where scores are equal, the rank is the mean of the best and the worst that the order of equal ones could give: 1,
    plus the number of candidates with a higher score, plus half the number of others with the same. So a model that
    gives all pairs one score gains nothing by it; the published evaluations leave it to the sort. Ranks are averaged
    within a molecule (reciprocals, or being at most 1, 3, 10), then over molecules. Both (i, j) and (j, i) count if
    both are given.

    Args:
        scores: (molecules, n, n), finite between atoms.
        contacts: (molecules, n, n), boolean.
        mask: (molecules, n), True for atoms.

    >>> scores = torch.tensor([[[9.0, 3.0, 2.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]])
    >>> contacts = torch.zeros(1, 3, 3, dtype=torch.bool)
    >>> contacts[0, 0, 2] = contacts[0, 0, 1] = True
    >>> metrics = contact_metrics(scores, contacts, torch.ones(1, 3, dtype=torch.bool))
    >>> [round(float(metrics[name]), 3) for name in ("mrr", "mrr_filtered", "mrr_extended")]
    [0.417, 0.5, 1.0]
    """
    _check(scores, contacts, mask)
    molecule, atom, other = contacts.nonzero().T
    row, own = scores[molecule, atom], scores[molecule, atom, other].unsqueeze(-1)
    place = torch.arange(scores.shape[-1], device=scores.device)
    candidates = mask[molecule] & (place != other.unsqueeze(-1))
    apart = candidates & ~contacts[molecule, atom]
    by_ending = {"": candidates, "_filtered": apart, "_extended": apart & (place != atom.unsqueeze(-1))}
    metrics = {}
    for ending, beside in by_ending.items():
        higher, equal = ((comparison & beside).sum(-1) for comparison in (row > own, row == own))
        rank = 1 + higher.double() + equal.double() / 2
        values = {f"hits@{many}": (rank <= many).double() for many in HITS} | {"mrr": 1 / rank}
        for name, value in values.items():
            metrics[f"{name}{ending}"] = _mean(value, molecule, len(scores), zeros=not ending)
    return metrics


def _mean(values: Tensor, molecule: Tensor, count: int, zeros: bool) -> Tensor:
    """Of the means within molecules; those without any are zero, or left out."""
    total = torch.bincount(molecule, values, count)
    many = torch.bincount(molecule, minlength=count)
    means = total / many.clamp_min(1)
    return means.mean() if zeros else means[many > 0].mean()


def _check(scores: Tensor, contacts: Tensor, mask: Tensor) -> None:
    if scores.dim() != 3 or scores.shape[1] != scores.shape[2] or contacts.shape != scores.shape:
        shapes = f"{tuple(scores.shape)} and {tuple(contacts.shape)}"
        raise ShapeError(f"Expected scores and contacts (molecules, n, n) (got {shapes})")
    if contacts.dtype != torch.bool or mask.dtype != torch.bool:
        raise DtypeError(f"Expected contacts and mask to be boolean (got {contacts.dtype} and {mask.dtype})")
    if mask.shape != scores.shape[:2]:
        raise ShapeError(f"Expected mask {tuple(scores.shape[:2])} (got {tuple(mask.shape)})")
    pairs = mask.unsqueeze(-1) & mask.unsqueeze(-2)
    if (contacts & ~pairs).any():
        raise RangeError("Expected contacts between atoms (got some on padding)")
    if not contacts.any():
        raise RangeError("Expected a molecule with contacts (got none)")
    if not scores[pairs].isfinite().all():
        raise NonFiniteError("Expected finite scores between atoms (got NaN or infinity)")
