"""What is measured on PATTERN and on peptides: accuracy averaged over classes, average precision, absolute error.

All are for the outputs of a whole set, as fractions or plain numbers, never in percent. Ranks of contacts are in
`probsym.lab.contacts`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import l1_loss

from probsym.errors import NonFiniteError, RangeError, ShapeError
from probsym.ops.argument_checks import check_size

PUBLISHED_BATCH = 128


def class_averaged_accuracy(
    scores: Tensor, labels: Tensor, mask: Tensor, batch: int | None = PUBLISHED_BATCH
) -> Tensor:
    """The share of nodes that are right, class by class, averaged over classes.

    As published for PATTERN, it is computed on the nodes of every `batch` graphs, in their order, and averaged over
    these batches, a smaller last one counting as much as the others. With None it is that of all nodes together. A
    class that no node has and none is given to is left out.

    Args:
        scores: (graphs, n, classes); the class with the highest score counts, the first of equal ones.
        labels: (graphs, n), integers.
        mask: (graphs, n), True for nodes.

    >>> scores, labels = torch.eye(2)[torch.tensor([[0, 0, 1, 1]])], torch.tensor([[0, 0, 0, 1]])
    >>> float(class_averaged_accuracy(scores, labels, torch.ones(1, 4, dtype=torch.bool)))  # 2 of 3, and 1 of 1
    0.8333333...
    """
    if scores.dim() != 3 or labels.shape != scores.shape[:2] or mask.shape != scores.shape[:2]:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (scores, labels, mask))
        raise ShapeError(f"Expected scores (graphs, n, classes), labels and mask (graphs, n) (got {shapes})")
    many = len(scores) if batch is None else check_size(batch, "batch")
    if not mask.any():
        raise ShapeError("Expected at least one node (got none)")
    _check_finite(scores[mask])
    from torchmetrics.functional.classification import multiclass_accuracy  # noqa: PLC0415, slow to import

    parts = zip(scores.argmax(-1).split(many), labels.split(many), mask.split(many), strict=True)
    nodes = [(chosen[real], true[real]) for chosen, true, real in parts if real.any()]
    accuracies = [multiclass_accuracy(*pair, scores.shape[-1], average="macro") for pair in nodes]
    return torch.stack(accuracies).double().mean()


def average_precision(scores: Tensor, labels: Tensor) -> Tensor:
    """The average precision of each label, averaged over labels.

    For a label it is `sum_k (R_k - R_(k-1)) P_k` over the distinct scores, from the highest on, with precision P_k and
    recall R_k of all that score at least as much: equal scores are taken together. As in the usual evaluator, of the
    Open Graph Benchmark, entries of NaN are not labelled and left out, and so is a label that is the same for all.

    Args:
        scores, labels: (examples, labels); only the order of scores within a label matters. Labels are 0 or 1.

    >>> float(average_precision(torch.tensor([[0.9], [0.8], [0.1]]), torch.tensor([[1], [0], [1]])))  # (1 + 2/3) / 2
    0.8333333...
    """
    if scores.dim() != 2 or scores.shape != labels.shape:
        raise ShapeError(f"Expected scores and labels (examples, labels) (got {_shapes(scores, labels)})")
    _check_finite(scores)
    from torchmetrics.functional.classification import binary_average_precision  # noqa: PLC0415, slow to import

    precisions = []
    for score, label in zip(scores.T, labels.T, strict=True):
        known = label == label  # noqa: PLR0124, what is not NaN
        true = label[known].long()
        if not torch.equal(true.to(label.dtype), label[known]) or (
            len(true) and not 0 <= true.min() <= true.max() <= 1
        ):
            raise RangeError("Expected labels to be 0, 1 or NaN (got others)")
        if true.any() and not true.all():
            # ranks in place of scores, which torchmetrics would put through a sigmoid that makes large ones equal
            values, rank = score[known].unique(return_inverse=True)
            precisions.append(binary_average_precision(rank.double() / len(values), true))
    if not precisions:
        raise RangeError("Expected a label that some examples have and others do not (got none)")
    return torch.stack(precisions).double().mean()


def mean_absolute_error(output: Tensor, targets: Tensor) -> Tensor:
    """The mean of `|output - targets|` over all numbers.

    >>> float(mean_absolute_error(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 4.0]])))
    1.5
    """
    if output.shape != targets.shape or output.numel() == 0:
        raise ShapeError(f"Expected output and targets of one shape, not empty (got {_shapes(output, targets)})")
    _check_finite(output)
    return l1_loss(output.double(), targets.double())


def _shapes(*tensors: Tensor) -> str:
    return " and ".join(str(tuple(tensor.shape)) for tensor in tensors)


def _check_finite(output: Tensor) -> None:
    if not output.isfinite().all():
        raise NonFiniteError("Expected finite outputs to measure (got NaN or infinity)")
