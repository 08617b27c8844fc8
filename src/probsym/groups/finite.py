"""What finite groups share whose elements are numbered: logits that name an element, and weights of all of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from probsym.errors import DtypeError, ShapeError
from probsym.groups.base import Axis, Carrier, Group, act_by_matrix, check_axis, check_index, matmul
from probsym.ops import descending
from probsym.ops.argument_checks import check_tau
from probsym.ops.transforms import needs_gradient

CLOSE = {torch.float64: 1e-12, torch.float32: 2e-5}
"""Gaps between scores or logits, relative to the largest, that rounding may close."""


class Finite(Group):
    """A finite group whose elements are numbered 0 to order - 1; 0 is the identity.

    An element is an integer tensor (*batch,). Features are logits (*batch, order), one for each element; they follow
    the input by the regular representation, and the largest names the element. `straight_through` makes that choice
    differentiable: the weights it returns are accepted by `act` and `inverse` wherever an element is.

    A group of your own needs `kinds`, `axis_size`, `order`, `compose` and `matrix`, and for noise `noise_laws`. On an
    axis of any length `axis_size` is None, and `act` is its own too; `docs/averages.md` has one.
    """

    finite = True
    feature_field = "logits"
    compares_features = True

    @property
    @abstractmethod
    def order(self) -> int:
        """How many elements there are."""

    def element_shape(self, size: int | None = None) -> tuple[int, ...]:
        return ()

    def identity(
        self,
        batch: Sequence[int] = (),
        *,
        size: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> Tensor:
        return torch.zeros(tuple(batch), dtype=torch.long, device=device)

    def cardinality(self, size: int | None = None) -> int:
        return self.order

    def elements(self, *, size: int | None = None, device: torch.device | None = None) -> Tensor:
        return torch.arange(self.order, device=device)

    def contains(self, g: Tensor) -> Tensor:
        return (check_index(g, self) >= 0) & (g < self.order)

    def inverses(self, device: torch.device | None = None) -> Tensor:
        """The inverse of every element, (order,): what the product with it makes the identity."""
        every = self.elements(device=device)
        return (self.compose(every.unsqueeze(1), every) == 0).long().argmax(1)

    def inverse(self, g: Tensor) -> Tensor:
        """The element that undoes g; of weights, the weights of the inverses."""
        if g.is_floating_point():
            self._check_weights(g)
            return g[..., self.inverses(g.device)]
        return self.inverses(g.device)[self._checked(g)]

    def act(self, g: Tensor, x: Tensor, axis: Axis = -1, kind: str = "plain") -> Tensor:
        """Move x by g, or by every element in proportion to weights g (*batch, order), through their matrices."""
        self.check_kind(kind)
        batch = self._batch(g, x)
        place = check_axis(x, axis, batch, self.axis_size(kind), self)
        dtype = torch.promote_types(x.dtype, torch.float32)
        matrices = self.matrix(self.elements(device=g.device), dtype=dtype)
        if kind == "axial":
            matrices = matrices * torch.linalg.det(matrices).sign()[:, None, None]
        if not g.is_floating_point():
            return act_by_matrix(matrices[g], x, place)
        return act_by_matrix(matmul(g.to(dtype), matrices.flatten(1)).unflatten(-1, matrices.shape[1:]), x, place)

    def feature_shape(self, size: int | None = None) -> tuple[int, ...]:
        return (self.order,)

    def move(self, g: Tensor, features: Tensor) -> Tensor:
        """Logits follow as `(g z)[h] = z[inverse(g) h]`."""
        self._check_weights(features)
        g = self._checked(g)
        source = self.compose(self.inverse(g).unsqueeze(-1), self.elements(device=g.device))
        batch = torch.broadcast_shapes(g.shape, features.shape[:-1])
        return features.expand(*batch, -1).gather(-1, source.expand(*batch, -1))

    def project(self, features: Tensor, *, noise: Tensor | None = None) -> Tensor:
        """The element with the largest logit; exact ties go to the largest `noise`, or else the first."""
        self._check_weights(features)
        return descending(features.detach(), ties=noise)[..., 0]

    def straight_through(self, features: Tensor, *, noise: Tensor | None = None, tau: float = 1.0) -> Tensor:
        """Weights (*batch, order): one at the projected element, with the gradient of `softmax(logits / tau)`."""
        check_tau(tau)
        places = torch.arange(self.order, device=features.device)
        hard = self.project(features, noise=noise).unsqueeze(-1) == places
        soft = torch.softmax(features.to(torch.promote_types(features.dtype, torch.float32)) / tau, dim=-1)
        return hard.to(soft.dtype) + (soft - soft.detach())

    def choose(
        self, features: Tensor, *, noise: Tensor | None = None, tau: float = 1.0, mask: Tensor | None = None
    ) -> tuple[Tensor, Carrier]:
        g = self.project(features, noise=noise)
        if needs_gradient(features):
            return g, self.straight_through(features, noise=noise, tau=tau)
        return g, g

    def entropy(self, features: Tensor, carrier: Carrier, tau: float) -> Tensor:
        """That of `softmax(logits / tau)`."""
        logs = torch.log_softmax(features.to(torch.promote_types(features.dtype, torch.float32)) / tau, dim=-1)
        return -(logs.exp() * logs).sum(-1)

    def prior(self, features: Tensor, carrier: Carrier, tau: float) -> Tensor:
        """-log p(identity), with p the softmax of logits / tau."""
        precise = features.to(torch.promote_types(features.dtype, torch.float32))
        return -torch.log_softmax(precise / tau, dim=-1)[..., 0]

    def close_call(self, features: Tensor, g: Tensor, mask: Tensor | None = None) -> Tensor:
        return too_close(features.topk(min(2, self.order)).values)

    def opposite(self, g: Tensor, mask: Tensor | None = None) -> Tensor:
        """The product with the element in the middle of the list."""
        return self.compose(g, torch.full_like(g, self.order // 2))

    @property
    def stratifies(self) -> bool:
        return True

    def stratum_orders(
        self, batch: int, size: int | None, mask: Tensor | None, device: torch.device
    ) -> tuple[Tensor, int]:
        return torch.full((batch, 1), self.order, device=device), self.order

    def stratum(self, ranks: Tensor, size: int | None, dtype: torch.dtype) -> Tensor:
        return ranks

    def quadrature(self, degree: int) -> tuple[Tensor, Tensor]:
        """All elements, which is exact for every function."""
        return self.elements(), torch.full((self.order,), 1 / self.order, dtype=torch.float64)

    def uniform_shape(self, size: int | None = None) -> tuple[int, ...]:
        return ()

    def from_uniform(
        self, u: Tensor, dtype: torch.dtype, *, noise: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        return (u * self.order).long().clamp(max=self.order - 1)

    def _batch(self, g: Tensor, x: Tensor) -> tuple[int, ...]:
        """The batch axes of elements or weights g that are to act on x."""
        if not g.is_floating_point():
            return tuple(self._checked(g).shape)
        self._check_weights(g)
        if not x.is_floating_point():
            raise DtypeError(f"Expected a floating tensor to weigh the elements of {self!r} (got {x.dtype})")
        return tuple(g.shape[:-1])

    def _checked(self, g: Tensor) -> Tensor:
        return check_index(g, self, self.order)

    def _check_weights(self, weights: Tensor) -> None:
        if not weights.is_floating_point() or weights.dim() < 1 or weights.shape[-1] != self.order:
            raise ShapeError(
                f"Expected floating logits or weights (*batch, {self.order}) for {self!r} "
                f"(got {tuple(weights.shape)}, {weights.dtype})"
            )


def too_close(ordered: Tensor, real: Tensor | None = None) -> Tensor:
    """Whether neighbours (*batch, n) differ, but by no more than rounding; exact ties are decided by noise."""
    gap = (ordered[..., :-1] - ordered[..., 1:]).abs()
    close = (gap != 0) & (gap <= CLOSE[ordered.dtype] * ordered.abs().amax(-1, keepdim=True))
    return (close if real is None else close & real).any(-1)
