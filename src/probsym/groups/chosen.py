"""What groups with one feature per element share: the largest feature determines the element."""

from __future__ import annotations

import torch
from torch import Tensor

from probsym.errors import ShapeError
from probsym.groups.base import Carrier, Group
from probsym.ops import descending
from probsym.ops.argument_checks import check_tau
from probsym.ops.precision import at_least_float32
from probsym.ops.transforms import needs_gradient

CLOSE = {torch.float64: 1e-12, torch.float32: 2e-5}
"""Gaps between features, relative to the largest, that rounding may close."""


class Chosen(Group):
    """A group with one feature per element, (*batch, elements); `act` also takes weights of that shape."""

    compares_features = True

    def straight_through(self, features: Tensor, *, noise: Tensor | None = None, tau: float = 1.0) -> Tensor:
        """Weights (*batch, elements): one-hot at the projected element, gradient of `softmax(features / tau)`."""
        check_tau(tau)
        self._check_weights(features)
        places = torch.arange(features.shape[-1], device=features.device)
        hard, soft = largest(features, noise).unsqueeze(-1) == places, torch.softmax(_scaled(features, tau), dim=-1)
        return hard.to(soft.dtype) + (soft - soft.detach())

    def choose(
        self, features: Tensor, *, noise: Tensor | None = None, tau: float = 1.0, mask: Tensor | None = None
    ) -> tuple[Tensor, Carrier]:
        check_tau(tau)
        g = self.project(features, noise=noise)
        return g, self.straight_through(features, noise=noise, tau=tau) if needs_gradient(features) else g

    def entropy(self, features: Tensor, carrier: Carrier, tau: float) -> Tensor:
        """The entropy of `softmax(features / tau)`."""
        logs = torch.log_softmax(_scaled(features, tau), dim=-1)
        return -(logs.exp() * logs).sum(-1)

    def prior(self, features: Tensor, carrier: Carrier, tau: float) -> Tensor:
        """-log p(identity), with p the softmax of features / tau."""
        return -torch.log_softmax(_scaled(features, tau), dim=-1)[..., 0]

    def close_call(self, features: Tensor, g: Tensor, mask: Tensor | None = None) -> Tensor:
        return too_close(features.topk(min(2, features.shape[-1])).values)

    def _check_weights(self, weights: Tensor) -> None:
        size = weights.shape[-1] if weights.dim() else 1
        if not weights.is_floating_point() or weights.dim() < 1 or self.feature_shape(size) != (size,):
            raise ShapeError(
                f"Expected floating logits or weights (*batch, {self.feature_shape(size)[0]}) for {self!r} "
                f"(got {tuple(weights.shape)}, {weights.dtype})"
            )


def largest(features: Tensor, noise: Tensor | None) -> Tensor:
    """The index of the largest feature; exact ties go to the largest `noise`, or to the first without noise."""
    return descending(features.detach(), ties=noise)[..., 0]


def _scaled(features: Tensor, tau: float) -> Tensor:
    return features.to(at_least_float32(features.dtype)) / tau


def too_close(ordered: Tensor, real: Tensor | None = None) -> Tensor:
    """Whether some neighbours of (*batch, n) differ by rounding only; exact ties do not count, noise breaks them."""
    gap = (ordered[..., :-1] - ordered[..., 1:]).abs()
    close = (gap != 0) & (gap <= CLOSE[ordered.dtype] * ordered.abs().amax(-1, keepdim=True))
    return (close if real is None else close & real).any(-1)
