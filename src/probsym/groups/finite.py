"""What finite groups with numbered elements share: logits that choose an element, and weights of all elements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from probsym.errors import DtypeError
from probsym.groups.base import Axis, Device, Dtype
from probsym.groups.chosen import Chosen, largest
from probsym.groups.element_checks import check_axis, check_index
from probsym.groups.matrices import act_by_matrix, matmul
from probsym.ops.precision import at_least_float32


class Finite(Chosen):
    """A finite group whose elements are numbered 0 to order - 1; 0 is the identity.

    An element is an integer tensor (*batch,). Features are logits (*batch, order), one for each element; they
    transform by the regular representation, and the largest chooses the element. `straight_through` makes that choice
    differentiable: the weights it returns are accepted by `act` and `inverse` wherever an element is.

    A group of your own needs `kinds`, `axis_size`, `order`, `compose` and `matrix`, and for noise `noise_laws`. If it
    acts on axes of any length, `axis_size` is None and it also needs its own `act`; `docs/averages.md` has an example.
    """

    finite = True
    feature_field = "logits"
    stratifies = True

    @property
    @abstractmethod
    def order(self) -> int:
        """How many elements there are."""

    def element_shape(self, size: int | None = None) -> tuple[int, ...]:
        return ()

    def identity(
        self, batch: Sequence[int] = (), *, size: int | None = None, dtype: Dtype = None, device: Device = None
    ) -> Tensor:
        return torch.zeros(tuple(batch), dtype=torch.long, device=device)

    def cardinality(self, size: int | None = None) -> int:
        return self.order

    def elements(self, *, size: int | None = None, device: torch.device | None = None) -> Tensor:
        return torch.arange(self.order, device=device)

    def contains(self, g: Tensor) -> Tensor:
        return (check_index(g, self) >= 0) & (g < self.order)

    def inverses(self, device: torch.device | None = None) -> Tensor:
        """The inverse of every element, (order,), found from the products that give the identity."""
        every = self.elements(device=device)
        return (self.compose(every.unsqueeze(1), every) == 0).long().argmax(1)

    def inverse(self, g: Tensor) -> Tensor:
        """The element that undoes g; if g holds weights, the weights of the inverses."""
        if g.is_floating_point():
            self._check_weights(g)
            return g[..., self.inverses(g.device)]
        return self.inverses(g.device)[self._checked(g)]

    def act(self, g: Tensor, x: Tensor, axis: Axis = -1, kind: str = "plain") -> Tensor:
        """Multiply x by the matrix of g, or for weights g (*batch, order), by the weighted sum of all matrices."""
        self.check_kind(kind)
        batch = self._batch(g, x)
        place = check_axis(x, axis, batch, self.axis_size(kind), self)
        dtype = at_least_float32(x.dtype)
        matrices = self.matrix(self.elements(device=g.device), dtype=dtype)
        if kind == "axial":
            matrices = matrices * torch.linalg.det(matrices).sign()[:, None, None]
        if not g.is_floating_point():
            return act_by_matrix(matrices[g], x, place)
        return act_by_matrix(matmul(g.to(dtype), matrices.flatten(1)).unflatten(-1, matrices.shape[1:]), x, place)

    def feature_shape(self, size: int | None = None) -> tuple[int, ...]:
        return (self.order,)

    def move(self, g: Tensor, features: Tensor) -> Tensor:
        """Logits transform as `(g z)[h] = z[inverse(g) h]`."""
        self._check_weights(features)
        g = self._checked(g)
        source = self.compose(self.inverse(g).unsqueeze(-1), self.elements(device=g.device))
        batch = torch.broadcast_shapes(g.shape, features.shape[:-1])
        return features.expand(*batch, -1).gather(-1, source.expand(*batch, -1))

    def project(self, features: Tensor, *, noise: Tensor | None = None) -> Tensor:
        """The element with the largest logit; exact ties go to the largest `noise`, or to the first without noise."""
        self._check_weights(features)
        return largest(features, noise)

    def opposite(self, g: Tensor, mask: Tensor | None = None) -> Tensor:
        """The product g s, where s is the element in the middle of the list."""
        return self.compose(g, torch.full_like(g, self.order // 2))

    def stratum(self, ranks: Tensor, size: int | None, dtype: torch.dtype) -> Tensor:
        return ranks

    def quadrature(self, degree: int) -> tuple[Tensor, Tensor]:
        """All elements with equal weights, which is exact for every function."""
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
