"""Signs: multiply every entry of an axis by its own sign."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from probsym.errors import GroupError
from probsym.groups.base import Axis, Carrier, Device, Dtype
from probsym.groups.element_checks import check_axis
from probsym.groups.of_items import OfItems
from probsym.ops.precision import at_least_float32
from probsym.ops.transforms import needs_gradient

LARGEST_LISTED = 16
MOST_STRATIFIED = 12
"""Entries whose signs are drawn without replacement: 4096 choices."""
NONE = {torch.float64: 1e-10, torch.float32: 1e-5}
"""Features below this, relative to the largest, have no sign of their own."""


@dataclass(frozen=True, repr=False)
class Signs(OfItems):
    """The 2^n sign changes of the n entries of an axis, such as the sign ambiguities of n eigenvectors.

    An element is an int64 tensor (*batch, n) of 1 and -1. Features are n numbers, which change sign with the entries;
    their signs are the element. Nets return them as `Features(own={"signs": ...})`. `act` also takes floating-point
    numbers in place of signs: this carries the straight-through gradient, which is that of tanh(features / tau).

    >>> Signs().act(torch.tensor([1, -1]), torch.tensor([[2.0, 3.0], [4.0, 5.0]]).mT, axis=0).mT
    tensor([[ 2., -3.],
            [ 4., -5.]])
    """

    feature_field = "signs"
    frame = "signs"
    chooses = True

    def identity(
        self, batch: Sequence[int] = (), *, size: int | None = None, dtype: Dtype = None, device: Device = None
    ) -> Tensor:
        return torch.ones(*batch, self.known(size), dtype=torch.long, device=device)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        self._check_pair(g, h)
        return g * h

    def inverse(self, g: Tensor) -> Tensor:
        """g itself."""
        self.check_element(g)
        return g

    def act(self, g: Tensor, x: Tensor, axis: Axis = -1, kind: str = "plain") -> Tensor:
        """Multiply x by g along the axis; g may be floating."""
        self.check_kind(kind)
        batch = self.check_element(g)
        axis = check_axis(x, axis, batch, g.shape[-1], self)
        shape = [*batch, *(1 for _ in x.shape[len(batch) :])]
        shape[axis] = g.shape[-1]
        return x * g.view(shape).to(x.dtype)

    def noise_laws(self, kind: str = "plain") -> tuple[str, ...]:
        return ("normal",)

    def project(self, features: Tensor, *, noise: Tensor | None = None) -> Tensor:
        """The signs of features (*batch, n); where a feature is zero up to rounding, the sign of `noise`."""
        z = features.detach().to(at_least_float32(features.dtype))
        least = NONE[z.dtype] * z.abs().amax(-1, keepdim=True)
        z = z if noise is None else torch.where(z.abs() <= least, noise.to(z.dtype), z)
        return torch.where(z < 0, -1, 1)

    def choose(
        self, features: Tensor, *, noise: Tensor | None = None, tau: float = 1.0, mask: Tensor | None = None
    ) -> tuple[Tensor, Carrier]:
        g = self.project(features, noise=noise)
        if needs_gradient(features):
            soft = torch.tanh(features / tau)
            return g, g.to(soft.dtype) + (soft - soft.detach())
        return g, g

    def entropy(self, features: Tensor, carrier: Carrier, tau: float) -> Tensor:
        """The entropy of random signs with mean tanh(features / tau), averaged over the entries."""
        logs = torch.nn.functional.logsigmoid(torch.stack([features, -features]) * (2 / tau))
        return -(logs.exp() * logs).sum(0).mean(-1)

    def prior(self, features: Tensor, carrier: Carrier, tau: float) -> Tensor:
        """-log p(identity) for independent signs whose mean is tanh(features / tau)."""
        return -torch.nn.functional.logsigmoid(features * (2 / tau)).sum(-1)

    def close_call(self, features: Tensor, g: Tensor, mask: Tensor | None = None) -> Tensor:
        share = features.abs() / features.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(features.dtype).tiny)
        least = NONE[features.dtype]
        return ((share < 10 * least) & (share > least / 10)).any(-1)

    def contains(self, g: Tensor) -> Tensor:
        return (self._checked(g).abs() == 1).all(-1)

    def matrix(self, g: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        """The diagonal matrix, (*batch, n, n)."""
        return torch.diag_embed(self._checked(g)).to(dtype or torch.get_default_dtype())

    def cardinality(self, size: int | None = None) -> int:
        return 2 ** self.known(size)

    def elements(self, *, size: int | None = None, device: torch.device | None = None) -> Tensor:
        n = self.known(size)
        if n > LARGEST_LISTED:
            raise GroupError(f"Expected at most {LARGEST_LISTED} entries to list all signs (got {n})")
        return torch.tensor(list(product((1, -1), repeat=n)), device=device)

    def opposite(self, g: Tensor, mask: Tensor | None = None) -> Tensor:
        """g with all signs changed."""
        return -g

    def stratum_orders(
        self, batch: int, size: int | None, mask: Tensor | None, device: torch.device
    ) -> tuple[Tensor, int]:
        if self.known(size) > MOST_STRATIFIED:
            raise GroupError(f"Expected at most {MOST_STRATIFIED} entries to stratify (got {size})")
        return super().stratum_orders(batch, size, mask, device)

    def stratum(self, ranks: Tensor, size: int | None, dtype: torch.dtype) -> Tensor:
        places = torch.arange(self.known(size), device=ranks.device)
        return 1 - 2 * (ranks.unsqueeze(-1) >> places & 1)
