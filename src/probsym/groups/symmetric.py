"""S: all permutations of a set whose size is read from the input."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probsym.errors import DtypeError, GroupError, ShapeError
from probsym.groups.base import Axis, Carrier
from probsym.groups.chosen import too_close
from probsym.groups.element_checks import check_axis, check_index, joint_batch
from probsym.groups.of_items import OfItems
from probsym.ops import Order, SoftSort, descending, invert, soft_sort
from probsym.ops.numbered_orders import numbered_orders
from probsym.ops.permute import check_permutation, inverted, moved
from probsym.ops.transforms import hidden

LARGEST_LISTED = 10
MOST_STRATIFIED = 7
"""Real items whose permutations are drawn without replacement: 5040 of them."""


@dataclass(frozen=True, repr=False)
class S(OfItems):
    """The symmetric group on the n items of an axis.

    An element is an index p (*batch, n): p[j] is the place in x of the item that the inverse of p
    moves to position j. So `act(inverse(p), x) = x[p]`, `matrix(p)[p[j], j] = 1` and `compose(p, q) = p[q]`.

    With a mask, `haar` and `project` return permutations that put the real items first, in an order that is
    drawn or given by the scores, and the padding last in its original order.

    >>> group, p = S(), torch.tensor([2, 0, 1])
    >>> group.act(group.inverse(p), torch.tensor([10.0, 20.0, 30.0]))
    tensor([30., 10., 20.])
    """

    feature_field = "scores"
    compares_features = True
    frame = "order"
    renames = True
    takes_mask = True

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        self._check_pair(g, h)
        check_permutation(g)
        check_permutation(h)
        g, h = torch.broadcast_tensors(g, h)
        return g.gather(-1, h)

    def inverse(self, g: Tensor) -> Tensor:
        return invert(self._checked(g))

    def act(self, g: Tensor, x: Tensor, axis: Axis = -1, kind: str = "plain") -> Tensor:
        self.check_kind(kind)
        axis = check_axis(x, axis, self._checked(g).shape[:-1], g.shape[-1], self)
        return moved(x, self.inverse(g), axis)

    def renaming(self, g: Tensor) -> Tensor:
        return self._checked(g)

    def project(self, features: Tensor, *, noise: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """The descending order of scores (*batch, n); `noise` (*batch, n), or else the place, breaks exact ties."""
        shape = torch.broadcast_shapes(*(tensor.shape for tensor in (features, noise, mask) if tensor is not None))
        features = features.expand(shape)
        return descending(
            features, None if mask is None else mask.expand(shape), None if noise is None else noise.expand(shape)
        )

    def choose(
        self, features: Tensor, *, noise: Tensor | None = None, tau: float = 1.0, mask: Tensor | None = None
    ) -> tuple[Tensor, Carrier]:
        order = soft_sort(features, mask=mask, ties=noise, tau=tau)
        return order.index, order

    def entropy(self, features: Tensor, carrier: Carrier, tau: float) -> Tensor | None:
        """The row entropy plus the column entropy of the relaxed permutation, averaged over the real items."""
        return carrier.entropy() if isinstance(carrier, SoftSort) else None

    def prior(self, features: Tensor, carrier: Carrier, tau: float) -> Tensor:
        """-log p(identity), averaged over the real items, under the Plackett-Luce model: items are drawn one after
        the other, each by the softmax of scores / tau over the items that are left."""
        mask = carrier.mask if isinstance(carrier, Order) else None
        logits = features / tau
        if mask is not None:
            logits = torch.where(mask, logits, torch.finfo(logits.dtype).min / 4)
        each = torch.logcumsumexp(logits.flip(-1), -1).flip(-1) - logits
        if mask is None:
            return each.mean(-1)
        return torch.where(mask, each, 0).sum(-1) / mask.sum(-1).clamp(min=1)

    def carrier(self, g: Tensor, *, mask: Tensor | None = None) -> Carrier:
        return Order(g, mask)

    def close_call(self, features: Tensor, g: Tensor, mask: Tensor | None = None) -> Tensor:
        ordered, real = features.gather(-1, g), Order(g, mask).sorted_mask()
        if real is None:
            return too_close(ordered)
        return too_close(torch.where(real, ordered, 0), real[..., 1:])

    def haar(
        self,
        batch: Sequence[int] = (),
        *,
        size: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        generator: torch.Generator | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Uniform permutations; with a mask (*batch, n), uniform orders of the real items, which come first."""
        if mask is not None:
            if mask.dtype != torch.bool:
                raise DtypeError(f"Expected mask to be boolean (got {mask.dtype})")
            if size not in (None, mask.shape[-1]):
                raise ShapeError(f"Expected a mask over {size} items (got {mask.shape[-1]})")
            size, device = mask.shape[-1], mask.device
            batch = joint_batch(batch, mask.shape[:-1], "mask")
        keys = [self.features(batch, size=size, device=device, generator=generator) for _ in range(2)]
        return self.project(keys[0], noise=keys[1], mask=mask)

    def contains(self, g: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Whether each g is a permutation and, given a mask, one that puts the real items first."""
        g = self._checked(g)
        places = torch.arange(g.shape[-1], device=g.device)
        inside = (g.sort(-1).values == places).all(-1)
        if mask is None:
            return inside
        first = mask.expand(g.shape).gather(-1, g.clamp(0, g.shape[-1] - 1))
        return inside & (first == (places < mask.sum(-1, keepdim=True))).all(-1)

    def matrix(self, g: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        """The permutation matrix, (*batch, n, n)."""
        check_permutation(self._checked(g))
        return super().matrix(g, dtype=dtype)

    def elements(self, *, size: int | None = None, device: torch.device | None = None) -> Tensor:
        """All n! permutations, in lexicographic order."""
        n = self.known(size)
        if n > LARGEST_LISTED:
            raise GroupError(
                f"Expected at most {LARGEST_LISTED} items to list all permutations "
                f"(got {n}, which has {math.factorial(n):.1e})"
            )
        numbers, left = torch.arange(math.factorial(n), device=device), torch.arange(n, 0, -1, device=device)
        behind = torch.tensor([math.factorial(items) for items in reversed(range(n))], device=device)
        return numbered_orders(numbers.unsqueeze(1), torch.zeros_like(left), left, behind, n)

    def cardinality(self, size: int | None = None) -> int:
        return math.factorial(self.known(size))

    def among_real(self, listed: Tensor, mask: Tensor) -> Tensor:
        """Turn permutations (count, m) into those of the real items of a mask (batch, n), at most m: (batch, count, n).

        A batch item with fewer than m real items takes from each permutation the order of the items it has, so each of
        its orders occurs equally often.
        """
        mask = mask.unsqueeze(1)
        scores = torch.zeros(mask.shape[0], len(listed), mask.shape[-1], device=listed.device)
        scores[..., : listed.shape[-1]] = -listed.to(scores.dtype)
        first = descending(torch.zeros(mask.shape, device=mask.device), mask).expand(scores.shape)
        return self.project(moved(scores, inverted(first)), mask=mask)

    def opposite(self, g: Tensor, mask: Tensor | None = None) -> Tensor:
        """The product g s, where s reverses the items, or only the real ones of a mask that broadcasts to g.

        >>> S().opposite(torch.tensor([2, 0, 1, 3]), torch.tensor([True, True, True, False]))
        tensor([1, 0, 2, 3])
        """
        places = torch.arange(g.shape[-1], device=g.device)
        real = g.shape[-1] if mask is None else mask.sum(-1, keepdim=True)
        return g.gather(-1, torch.where(places < real, real - 1 - places, places).expand(g.shape))

    def stratum_orders(
        self, batch: int, size: int | None, mask: Tensor | None, device: torch.device
    ) -> tuple[Tensor, int]:
        real = torch.full((batch,), self.known(size), device=device) if mask is None else mask.sum(-1)
        may = self.known(size) > MOST_STRATIFIED
        if may and (mask is None or hidden(mask) or bool((real > MOST_STRATIFIED).any())):
            raise GroupError(f"Expected at most {MOST_STRATIFIED} items to stratify (got {self.known(size)})")
        orders = [math.factorial(items) for items in range(MOST_STRATIFIED + 1)]
        return torch.tensor(orders, device=device)[real].unsqueeze(-1), orders[min(self.known(size), MOST_STRATIFIED)]

    def stratum(self, ranks: Tensor, size: int | None, dtype: torch.dtype) -> Tensor:
        """The permutations of the first items numbered by ranks, (batch, draws, n).

        The digits of a rank in the factorial number system say which earlier item each item is swapped with. With m
        real items all digits from the m-th on are zero, so that the items after them stay in place.
        """
        order = torch.arange(self.known(size), device=ranks.device).expand(*ranks.shape, -1).clone()
        for item in range(1, min(self.known(size), MOST_STRATIFIED)):
            digit = ranks // math.factorial(item) % (item + 1)
            other, own = (item - digit).unsqueeze(-1), order[..., item, None].clone()
            order[..., item, None] = order.gather(-1, other)
            order.scatter_(-1, other, own)
        return order

    def from_uniform(
        self, u: Tensor, dtype: torch.dtype, *, noise: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        return self.project(u, mask=mask)

    def _checked(self, g: Tensor) -> Tensor:
        if g.dim() < 1:
            raise ShapeError(f"Expected an element of S() to be (*batch, n) (got {tuple(g.shape)})")
        return check_index(g, self)
