"""The relaxed sort exactly as the paper writes it, n x n matrices and all: slow, literal, and what we test against."""

from typing import NamedTuple

import torch
from torch import Tensor


class DenseSort(NamedTuple):
    hard: Tensor  # (*batch, n, n): eq(z 1', 1 sort(z)'), rows are places and columns positions; zero on padding
    soft: Tensor  # (*batch, n, n): Sinkhorn(-|z 1' - 1 sort(z)'| / tau); zero on padding
    real: Tensor  # (*batch, n): which places are real
    front: Tensor  # (*batch, n): which positions are real

    def straight_through(self) -> Tensor:
        return (self.hard - self.soft).detach() + self.soft

    def entropy(self) -> Tensor:
        """Row plus column entropy, mean over real items: (*batch,)."""
        terms = -self.soft * torch.where(self.soft > 0, self.soft, 1).log()
        return (terms.sum(-1) + terms.sum(-2)).sum(-1) / self.real.sum(-1).clamp(min=1)


def dense_sort(
    scores: Tensor,
    mask: Tensor | None = None,
    tau: float = 0.01,
    iterations: int = 20,
    unit: str = "norm",
    symmetric: bool = False,
) -> DenseSort:
    real = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand(scores.shape)
    kept = torch.where(real, scores, 0)
    kept = kept / kept.detach().abs().amax(-1, keepdim=True).clamp(min=1e-300)
    order = torch.argsort(torch.where(real, kept, -torch.inf), dim=-1, descending=True, stable=True)
    front = real.gather(-1, order)
    if unit == "norm":
        size = torch.linalg.vector_norm(kept, dim=-1, keepdim=True)
    else:
        ordered = kept.gather(-1, order)
        last = ordered.gather(-1, (front.sum(-1, keepdim=True) - 1).clamp(min=0))
        size = (ordered[..., :1] - last) / (front.sum(-1, keepdim=True) - 1).clamp(min=1)
    kept = kept / torch.where(size > 0, size, 1)
    distance = (kept.unsqueeze(-1) - kept.gather(-1, order).unsqueeze(-2)).abs()
    soft = torch.exp(-distance / tau) * real.unsqueeze(-1) * front.unsqueeze(-2)
    if symmetric:
        soft = _scale_symmetric(soft, order, iterations)
    else:
        for _ in range(iterations):
            soft = _divide(soft, soft.sum(-1, keepdim=True))
            soft = _divide(soft, soft.sum(-2, keepdim=True))
    hard = torch.zeros_like(soft).scatter_(-2, order.unsqueeze(-2), 1.0) * front.unsqueeze(-2)
    return DenseSort(hard, soft, real, front)


def _divide(matrix: Tensor, total: Tensor) -> Tensor:
    return matrix / torch.where(total > 0, total, 1)


def _scale_symmetric(kernel: Tensor, order: Tensor, iterations: int) -> Tensor:
    rows = order.unsqueeze(-1).expand_as(kernel)
    kernel = kernel.gather(-2, rows)  # rows in sorted order: now symmetric
    weights = torch.ones_like(kernel[..., :1])
    for _ in range(iterations):
        weights = torch.sqrt(_divide(weights, kernel @ weights))
    return torch.zeros_like(kernel).scatter(-2, rows, weights * kernel * weights.mT)
