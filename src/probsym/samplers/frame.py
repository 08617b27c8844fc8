"""Frame averaging: p(g|x) is uniform on a small set of elements that the input itself singles out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from probsym.errors import DtypeError, GroupError, RangeError, ShapeError, SignatureError, TracingError
from probsym.groups.orthogonal import determinant_sign
from probsym.ops import Order, descending
from probsym.ops.edge_list import EdgeList, numbers
from probsym.ops.ranks import lexicographic_ranks
from probsym.ops.transforms import hidden
from probsym.samplers import noise as noises
from probsym.samplers.base import Sampler, as_reads
from probsym.samplers.batch import Batch
from probsym.samplers.colour_ranks import colour_ranks
from probsym.samplers.draw import Draw
from probsym.samplers.noise import Noise
from probsym.samplers.principal_axes import CLOSE, closeness, principal_axes
from probsym.samplers.spectral_ranks import spectral_ranks
from probsym.samplers.tied_orders import list_orders
from probsym.samplers.weighted_frames import weighted_axes, weighted_orders
from probsym.signature import Signature, Term

KINDS = ("laplacian", "colours", "sort", "pca", "pose", "signs")


class Frame(Sampler):
    """Uniform on an equivariant frame, a set of elements that moves with the input. The kinds of frames:

    - "laplacian", for S on graphs: nodes sorted by the diagonals of the projectors onto the eigenspaces of the
      Laplacian, one eigenspace after the other; nodes that agree in all of them may come in any order.
    - "colours", for S on graphs of any size, dense or as an `EdgeList`, without eigenvalues: nodes sorted by their
      features, number of edges and colours after colour refinement (1-WL); nodes that agree in all of them may come in
      any order. See `samplers.colour_ranks`.
    - "sort", for S on sets: items sorted by their features, the first channel first.
    - "pca", for O, SO, E and SE: the principal axes with all signs (determinant 1 for SO and SE), and any orthonormal
      basis where eigenvalues repeat.
    - "pose", for S with one of those: the principal axes, then the points sorted by their coordinates along them.
    - "signs", for Signs: the first nonzero entry of each vector is made positive; zero vectors get both signs.

    Gradients reach the inputs through principal axes; orders are locally constant. Principal axes jump where
    eigenvalues cross, orders jump where items change places, and the model's output jumps with them. A `weighted` frame
    avoids this (Dym, Lawrence and Siegel 2024, "Equivariant Frames and the Impossibility of Continuous
    Canonicalization"): its elements come from points (pairs of points in space) or from sorts along many directions,
    and the weight of an element goes to zero where the element is lost; see `samplers.weighted_frames`. It works for S,
    or for one of O, SO, E and SE in two or three dimensions.

    Args:
        kind: one of the kinds above; the one that fits the groups if None.
        reads: indices of the inputs to use, the first for the axes; all that fit if None.
        exact: average over the whole frame. Two things then stay random: the basis of a repeated eigenspace, and
            orders of tied nodes if there are more than `limit`, of which the model's `samples` are drawn. If False, or
            if a call sets `samples`, that many elements are drawn from the frame.
        limit: the largest number of elements to list.
        weighted: use a weighted frame, as above; it is always averaged over as a whole.

    >>> from probsym import Symmetrized, groups
    >>> model = Symmetrized(lambda x: x[:, 0], "n d -> d", {"d": groups.O(3)}, Frame())
    >>> estimate = model.estimate(torch.randn(4, 5, 3))
    >>> estimate.samples, bool((estimate.stderr == 0).all())
    (8, True)
    """

    breaks_ties = True

    def __init__(
        self,
        kind: str | None = None,
        reads: Sequence[int] | None = None,
        exact: bool = True,
        limit: int = 1024,
        weighted: bool = False,
    ) -> None:
        super().__init__()
        if kind is not None and kind not in KINDS:
            raise RangeError(f"Expected kind to be one of {', '.join(KINDS)} (got {kind!r})")
        if limit < 1:
            raise RangeError(f"Expected limit to be 1 or more (got {limit})")
        if weighted and not exact:
            raise RangeError("Expected exact=True for a weighted frame (got False)")
        self.kind, self.exact, self.limit, self.weighted = kind, exact, limit, weighted
        self.lists_elements = exact
        self.reads = as_reads(reads)

    def extra_repr(self) -> str:
        return f"kind={self.kind!r}, reads={self.reads}, exact={self.exact}, weighted={self.weighted}"

    def uses_samples(self, signature: Signature) -> bool:
        return not self.exact or (not self.weighted and self._plan(signature)[0] in ("laplacian", "colours", "sort"))

    def drawing(self, samples: int) -> Sampler:
        if self.weighted:
            return super().drawing(samples)
        return Frame(self.kind, self.reads, exact=False)

    def check(self, signature: Signature) -> None:
        kind, _, d = self._plan(signature)
        if not self.read(signature):
            raise SignatureError(f"Expected an input of '{signature}' for a frame of kind {kind!r} (got none)")
        if kind in ("pca", "pose") and d is not None:
            group = signature.groups[d].linear
            shape, size = group.element_shape(), group.axis_size()
            if shape != (size, size):
                raise GroupError(
                    f"Expected elements of {group!r} to be matrices of their axis, of size {size}, for a frame of axes "
                    f"(got {shape})"
                )
        if self.weighted:
            size = None if d is None else signature.groups[d].linear.axis_size()
            if kind not in ("sort", "pca") or size not in (None, 2, 3):
                listing = ", ".join(repr(group) for group in signature.groups.values())
                raise GroupError(
                    f"Expected S, or one of O, SO, E, SE in 2 or 3 dimensions, for a weighted frame (got {listing})"
                )
        elif self.exact and d is not None:
            group = signature.groups[d].linear
            size = 2 ** ((group.axis_size() or 0) - (not group.reflects))
            if size > self.limit:
                raise GroupError(f"Expected at most {self.limit} signs to list, or exact=False (got {size})")

    def noise(self, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0) -> Noise:
        return noises.tie_breaks(batch, draws if self.uses_samples(batch.signature) else 1, generator)

    def forward(self, batch: Batch, noise: Noise) -> Draw:
        kind, n, d = self._plan(batch.signature)
        inputs = [(batch.inputs[i], batch.signature.inputs[i]) for i in self.read(batch.signature)]
        if kind == "laplacian" and isinstance(inputs[0][0], EdgeList):
            raise DtypeError(
                f"Expected '{inputs[0][1]}' to be a tensor for a frame of kind 'laplacian' (got EdgeList, which "
                f"kind='colours' reads)"
            )
        if d is not None:
            if self.weighted:
                return self._weighted_pose(batch, noise, inputs, d)
            return self._signs(batch, noise, inputs, d) if kind == "signs" else self._pose(batch, noise, inputs, n, d)
        assert n is not None
        if self.weighted:
            return self._weighted_orders(batch, noise, inputs, n)
        with torch.no_grad():
            if kind == "laplacian":
                classes = spectral_ranks(_adjacency(*inputs[0], n), batch.masks.get(n))
            elif kind == "colours":
                if any(hidden(numbers(x)) for x, _ in inputs):
                    raise TracingError(
                        "Expected a frame of kind 'sort' for an export or a vmap (got 'colours', refined until no more "
                        "nodes are told apart)"
                    )
                features = [_rows(x, term, n).mT for x, term in inputs if term.names.count(n) == 1]
                none = torch.zeros(batch.count, batch.sizes[n], 0, device=batch.device)
                graphs = [_edges(x, term, n) for x, term in inputs if term.names.count(n) == 2]
                classes = colour_ranks(torch.cat([none, *features], -1), graphs, batch.masks.get(n))
            else:
                keys = torch.cat([_rows(x, term, n).mT for x, term in inputs], -1)
                classes = lexicographic_ranks(keys, 0.0, batch.masks.get(n))
            return self._orders(batch, n, classes, noise.ties[n])

    def _plan(self, signature: Signature) -> tuple[str, str | None, str | None]:
        """The kind of frame, and the axes that permute and rotate."""
        items, turns, signs = (
            [key for key, group in signature.groups.items() if group.linear.frame == kind]
            for kind in ("order", "axes", "signs")
        )
        alone = len(signs) == 1 == len(signature.groups)
        if not alone and (len(items) > 1 or len(turns) > 1 or not 0 < len(items) + len(turns) == len(signature.groups)):
            listing = ", ".join(repr(group) for group in signature.groups.values()) or "none"
            raise GroupError(
                f"Expected S, or one of O, SO, E, SE, or both, or Signs, or a `frame` like theirs, for a frame "
                f"(got {listing})"
            )
        n, d = next(iter(items), None), next(iter(turns or signs), None)
        graph = any(term.names.count(n) == 2 for term in signature.inputs if n)
        fits: tuple[str, ...] = ("laplacian", "colours", "sort") if graph and not self.weighted else ("sort",)
        if d:
            fits = ("signs",) if alone else ("pose",) if n else ("pca",)
        if self.kind is not None and self.kind not in fits:
            raise GroupError(f"Expected a frame of kind {' or '.join(map(repr, fits))} here (got {self.kind!r})")
        return self.kind or fits[0], n, d

    def read(self, signature: Signature) -> tuple[int, ...]:
        """The inputs to look at: those with the axes that the kind needs, or what `reads` says."""
        kind, n, d = self._plan(signature)

        def fits(term: Term) -> bool:
            if kind == "laplacian":
                return term.names.count(n or "") == 2 and (d is None or d not in term.names)
            if kind == "colours":
                return term.names.count(n or "") in (1, 2)
            return (n is None or term.names.count(n) == 1) and (d is None or term.names.count(d) == 1)

        fitting = tuple(i for i, term in enumerate(signature.inputs) if fits(term))
        if self.reads is None:
            return fitting
        if not set(self.reads) <= set(fitting):
            raise SignatureError(f"Expected reads among the inputs {list(fitting)} for this frame (got {self.reads})")
        return self.reads

    def _pose(self, batch: Batch, noise: Noise, inputs: Sequence[tuple[Tensor, Term]], n: str | None, d: str) -> Draw:
        points = _rows(*inputs[0], d)
        if points.shape[1] == 0:
            raise ShapeError(f"Expected a vector or more along {d!r} to find principal axes of (got none)")
        with torch.no_grad():
            close = closeness(points, batch.centroids.get(d), batch.dtype)
        axes, simple = principal_axes(
            points, close, noise.completion[d].double(), signs=self.exact, reflects=batch.groups[d].reflects
        )
        rotation = axes.to(batch.dtype)
        elements: dict[str, Tensor] = {d: rotation}
        carriers: dict[str, Order | Tensor] = {d: rotation}
        draws = rotation.shape[1]
        if n is not None:
            mask = batch.mask_of(n)
            with torch.no_grad():
                keys = torch.cat([_coordinates(x, term, n, d, axes) for x, term in inputs], -1)
                tolerance = close.unsqueeze(1) * keys.abs().amax((-2, -1)).unsqueeze(-1)
                classes = lexicographic_ranks(keys, tolerance, mask)
            ties = noise.ties[n].expand(-1, draws, -1)
            elements[n] = _ordered(classes, ties, mask)
            carriers[n] = Order(elements[n], mask)
            simple = simple & _tie_free(classes, mask)
        exact, dependent = (simple, ~simple) if self.exact else (None, None)
        return Draw(draws, elements, carriers, exact=exact, dependent=dependent)

    def _signs(self, batch: Batch, noise: Noise, inputs: Sequence[tuple[Tensor, Term]], key: str) -> Draw:
        rows = torch.cat([_rows(x.detach(), term, key) for x, term in inputs], 1)
        there = rows.abs() > CLOSE[batch.dtype] * rows.abs().amax((1, 2), keepdim=True)
        first = there & (there.cumsum(1) == 1)
        signs = torch.where(first, rows.sign(), 0).sum(1, keepdim=True).to(batch.dtype)
        breaks = noise.completion[key]
        g = batch.groups[key].project(signs.expand_as(breaks), noise=breaks)
        clear = (signs != 0).flatten(1).all(1)
        exact, dependent = (clear, ~clear) if self.exact else (None, None)
        return Draw(g.shape[1], {key: g}, {key: g}, exact=exact, dependent=dependent)

    def _weighted_pose(self, batch: Batch, noise: Noise, inputs: Sequence[tuple[Tensor, Term]], d: str) -> Draw:
        points = _rows(*inputs[0], d)
        count = math.perm(points.shape[1], points.shape[2] - 1) * (1 + batch.groups[d].reflects)
        if count > self.limit:
            raise GroupError(f"Expected at most {self.limit} elements in a weighted frame (got {count})")
        close = closeness(points.detach(), batch.centroids.get(d), batch.dtype)
        axes, weights, spans = weighted_axes(
            points, noise.completion[d].double(), close, reflects=batch.groups[d].reflects
        )
        rotation = axes.to(batch.dtype)
        weights = weights.to(batch.dtype)
        return Draw(rotation.shape[1], {d: rotation}, {d: rotation}, weights, exact=spans, dependent=~spans)

    def _weighted_orders(self, batch: Batch, noise: Noise, inputs: Sequence[tuple[Tensor, Term]], n: str) -> Draw:
        keys = torch.cat([_rows(x, term, n).mT for x, term in inputs], -1)
        orders, weights, clear = weighted_orders(keys, noise.ties[n][:, :1], batch.masks.get(n), self.limit)
        carriers = {n: Order(orders, batch.mask_of(n))}
        return Draw(orders.shape[1], {n: orders}, carriers, weights.to(batch.dtype), exact=clear, dependent=~clear)

    def _orders(self, batch: Batch, n: str, classes: Tensor, ties: Tensor) -> Draw:
        mask, weights, exact = batch.mask_of(n), None, None
        orders = _ordered(classes.unsqueeze(1), ties, mask)
        if self.exact:
            if hidden(classes):
                raise TracingError(
                    "Expected Frame(exact=False), or samples, for an export or a vmap (got a frame to list, with a "
                    "number of orders that depends on the input)"
                )
            orders, weights, exact = list_orders(orders, classes, batch.masks.get(n), self.limit)
        return Draw(orders.shape[1], {n: orders}, {n: Order(orders, mask)}, weights, exact)


def _ordered(classes: Tensor, ties: Tensor, mask: Tensor | None) -> Tensor:
    """Items in the order of their ranks, those of one rank by larger ties first, padding last."""
    keys = -classes.to(ties.dtype).expand(ties.shape)
    return descending(keys, None if mask is None else mask.expand(ties.shape), ties)


def _rows(x: Tensor, term: Term, name: str) -> Tensor:
    """x as vectors along one axis, (B, rows, size), in float64."""
    place = 1 + term.names.index(name)
    return x.movedim(place, -1).flatten(1, -2).double() if x.dim() > 2 else x.unsqueeze(1).double()


def _coordinates(x: Tensor, term: Term, n: str, d: str, axes: Tensor) -> Tensor:
    """The coordinates of every item in the axes (B, K, d, d): (B, K, n, channels * d)."""
    points = x.movedim((1 + term.names.index(n), 1 + term.names.index(d)), (1, -1)).double()
    turned = points.flatten(1, -2).unsqueeze(1) @ axes
    if any(axis.key == d and axis.kind == "axial" for axis in term.axes):
        turned = turned * determinant_sign(axes)
    return turned.reshape(*axes.shape[:2], points.shape[1], points.shape[2:].numel())


def _adjacency(x: Tensor, term: Term, n: str) -> Tensor:
    """One symmetric matrix (B, n, n) from an input with the axis n twice; channels are summed."""
    first, second = (1 + place for place, name in enumerate(term.names) if name == n)
    matrix = x.double().movedim((first, second), (1, 2)).flatten(3).sum(-1) if x.dim() > 3 else x.double()
    return (matrix + matrix.mT) / 2


def _edges(x: Tensor | EdgeList, term: Term, n: str) -> EdgeList:
    """The entries of an input with the axis n twice that are not zero."""
    if isinstance(x, EdgeList):
        return x
    first, second = (1 + place for place, name in enumerate(term.names) if name == n)
    return EdgeList.from_dense(x.movedim((first, second), (1, 2)).flatten(3) if x.dim() > 3 else x)


def _tie_free(classes: Tensor, mask: Tensor | None) -> Tensor:
    """Whether no two real items of any draw (B, K, n) share a rank: booleans (B,)."""
    n = classes.shape[-1]
    places = torch.arange(n, device=classes.device)
    own = classes if mask is None else torch.where(mask, classes, n + places)
    ordered = own.sort(-1).values
    return (ordered[..., :-1] != ordered[..., 1:]).flatten(1).all(-1)
