"""Accuracies with their intervals."""

import math
from typing import Any

import torch
from torch import Tensor

Z = 1.959964


def interval(right: Tensor) -> list[float]:
    """Wilson's 95 % interval of a share, in percent, from booleans."""
    n, share = len(right), float(right.double().mean())
    middle, half = share + Z * Z / (2 * n), Z * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
    return [100 * (middle - half) / (1 + Z * Z / n), 100 * (middle + half) / (1 + Z * Z / n)]


def accuracies(predictions: Tensor, average: Tensor, labels: Tensor) -> dict[str, Any]:
    """Of answers (orientations, count, classes), in percent with 95 % intervals.

    `over_average` is how far they are above those of another model on the same images, as a mean of pairs.
    """
    right, other = (probabilities.argmax(-1) == labels for probabilities in (predictions, average))
    apart = (right.double() - other.double()) * 100
    half = Z * apart.std(1) / math.sqrt(len(labels))
    return {
        "accuracy": [100 * float(rows.double().mean()) for rows in right],
        "interval": [interval(rows) for rows in right],
        "over_average": apart.mean(1).tolist(),
        "over_average_interval": torch.stack([apart.mean(1) - half, apart.mean(1) + half], 1).tolist(),
    }
