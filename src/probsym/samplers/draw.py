"""Group elements that were drawn for a batch, and how they act on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from probsym._internal.callables import takes_mask
from probsym.errors import GroupError, NonFiniteError, ShapeError, SignatureError
from probsym.groups.base import Carrier
from probsym.ops import Order, SoftSort
from probsym.ops.argument_checks import readable
from probsym.ops.edge_list import EdgeList, Input
from probsym.ops.refused_gradient import refused_gradient
from probsym.ops.transforms import traced
from probsym.samplers.batch import Batch
from probsym.signature import Term


@dataclass(frozen=True, eq=False)
class Draw:
    """K elements for each item of a batch.

    `elements` are plain tensors (B, K, ...) by axis, about the centroid where a group translates. `carriers` act
    in their place where more is needed than an element: an `Order` for S, which also knows the padding and may carry
    the gradient to its scores, and straight-through weights for finite groups. `weights` (B, K), None for equal ones,
    need not sum to one.
    `exact` (B,) tells for which items the average is the expectation itself and not an estimate of it, and `dependent`
    (B,) for which it is an estimate whose draws are not independent. `features` (B, K, ...) are what the elements were
    projected from, if a net named them.
    """

    count: int
    elements: Mapping[str, Tensor]
    carriers: Mapping[str, Carrier]
    weights: Tensor | None = None
    exact: Tensor | None = None
    dependent: Tensor | None = None
    features: Mapping[str, Tensor] = field(default_factory=dict)

    def check(self, batch: Batch, finite: bool) -> None:
        """Refuse a draw that does not fit the batch, and with `finite` features that are NaN or infinite."""
        if traced():
            return
        groups, size = batch.groups, (batch.count, self.count)
        for name, values in (("elements", self.elements), ("carriers", self.carriers)):
            if values.keys() != groups.keys():
                raise SignatureError(f"Expected {name} in a draw for axes {sorted(groups)} (got {sorted(values)})")
            for key, value in values.items():
                g = value.index if isinstance(value, Order) else value
                if tuple(g.shape[:2]) != size:
                    raise ShapeError(f"Expected {name} (B, K, ...) = {size} for axis {key!r} (got {tuple(g.shape)})")
        if self.weights is not None and tuple(self.weights.shape) != size:
            raise ShapeError(f"Expected weights (B, K) = {size} in a draw (got {tuple(self.weights.shape)})")
        for name, truth in (("exact", self.exact), ("dependent", self.dependent)):
            if truth is not None and (truth.dtype != torch.bool or tuple(truth.shape) != size[:1]):
                shape = tuple(truth.shape)
                raise ShapeError(f"Expected {name} to be booleans {size[:1]} in a draw (got {shape}, {truth.dtype})")
        for key, z in self.features.items() if finite else ():
            if readable(z) and not (right := torch.isfinite(_real(z.detach(), batch.mask_of(key)))).all():
                field, item = groups[key].linear.feature_field, int((~right.flatten(1).all(1)).nonzero()[0])
                raise NonFiniteError(
                    f"Expected finite {field} from the net for axis {key!r} (got NaN or infinity in item {item})"
                )

    def undo(self, batch: Batch) -> tuple[Input, ...]:
        """`rho_in(g)^-1 x`, each (B, K, ...): what the base is to see. Real items come first, padding last and zero.

        A list of edges comes as one for a batch of B * K, its nodes renamed.
        """
        turns = {key: batch.groups[key].inverse(turn) for key, turn in self._turns().items()}
        for key in turns.keys() & batch.masks.keys():
            raise GroupError(
                f"Expected the `carrier` of {batch.groups[key]!r} to be an Order on axis {key!r}, which has a mask: "
                f"only an Order puts real items first (got a {type(turns[key]).__name__})"
            )
        return tuple(
            self._renamed(batch, term, x) if isinstance(x, EdgeList) else self._moved(batch, term, x, turns, undo=True)
            for term, x in zip(batch.signature.inputs, batch.inputs, strict=True)
        )

    def apply(self, batch: Batch, outputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """`rho_out(g) y` for outputs (B, K, ...); points stay about the centroid.

        Where edges were renamed by a sort whose scores are to get a gradient, a backward pass is refused.
        """
        terms, turns = zip(batch.signature.outputs, self._guarded(batch, outputs), strict=True), self._turns()
        return tuple(self._moved(batch, term, y, turns, undo=False) for term, y in terms)

    def masks(self, batch: Batch) -> dict[str, Tensor]:
        """The masks as the base is to see them, (B, K, n): real items first."""
        sorted_masks = {}
        for name in batch.masks:
            mask = self._order(batch, name).sorted_mask()
            assert mask is not None
            sorted_masks[name] = mask.expand(-1, self.count, -1)
        return sorted_masks

    def rows(
        self, batch: Batch, function: Callable[..., Any], reads: Sequence[int] | None = None
    ) -> tuple[list[Input], dict[str, Any]]:
        """The arguments that a function of a sampler gets: moved inputs, (B * K, ...), all or those that it reads.

        Floating ones are in at least float32. `mask` is there by keyword if the function takes one.
        """
        moved = self.undo(batch)
        chosen = [moved[number] for number in (range(len(moved)) if reads is None else reads)]
        inputs = [x.flatten(0, 1) if isinstance(x, Tensor) else x for x in chosen]
        inputs = [x.to(batch.dtype) if x.is_floating_point() else x for x in inputs]
        if not takes_mask(function, given=len(batch.masks) > 0):
            return inputs, {}
        masks = {name: mask.flatten(0, 1) for name, mask in self.masks(batch).items()}
        items = {key for key, group in batch.groups.items() if group.takes_mask}
        by_axis = len(items.union(masks)) > 1
        return inputs, {"mask": masks or None if by_axis else next(iter(masks.values()), None)}

    def take(self, places: Tensor) -> Draw:
        """Of the draws of each batch item those at places, (B, K')."""

        def taken(x: Tensor) -> Tensor:
            return x.gather(1, places.view(*places.shape, *(1 for _ in x.shape[2:])).expand(-1, -1, *x.shape[2:]))

        return replace(
            self,
            count=places.shape[1],
            elements={key: taken(g) for key, g in self.elements.items()},
            carriers={
                key: replace(carrier, index=taken(carrier.index)) if isinstance(carrier, Order) else taken(carrier)
                for key, carrier in self.carriers.items()
            },
            weights=None if self.weights is None else taken(self.weights),
            features={key: taken(z) for key, z in self.features.items()},
        )

    def weighted(self, weights: Tensor) -> Draw:
        """The same draws with weights (B, K)."""
        return replace(self, weights=weights)

    def estimated(self, batch: Batch) -> Draw:
        """The same draws, of which no standard error is known."""
        return replace(self, exact=None, dependent=torch.ones(batch.count, dtype=torch.bool, device=batch.device))

    def chunk(self, start: int, stop: int) -> Draw:
        """The draws from `start` to `stop`."""
        if start <= 0 and stop >= self.count:
            return self
        return replace(
            self,
            count=min(stop, self.count) - start,
            elements={key: g[:, start:stop] for key, g in self.elements.items()},
            carriers={
                key: carrier.chunk(start, stop) if isinstance(carrier, Order) else carrier[:, start:stop]
                for key, carrier in self.carriers.items()
            },
            weights=None if self.weights is None else self.weights[:, start:stop],
            features={key: z[:, start:stop] for key, z in self.features.items()},
        )

    def _order(self, batch: Batch, name: str) -> Order:
        carrier = self.carriers.get(name)
        return carrier if isinstance(carrier, Order) else batch.packing(name, self.count)

    def _turns(self) -> dict[str, Tensor]:
        """What acts and is no order."""
        return {key: carrier for key, carrier in self.carriers.items() if not isinstance(carrier, Order)}

    def _moved(self, batch: Batch, term: Term, x: Tensor, turns: Mapping[str, Tensor], undo: bool) -> Tensor:
        groups, y = batch.groups, x.unsqueeze(1) if undo else x
        orders: dict[str, list[int]] = {}
        for axis, place in term.places():
            if axis.key in turns:
                kind = "plain" if axis.kind == "point" else axis.kind  # points are about their centroid here
                y = groups[axis.key].act(turns[axis.key], y, place, kind)
            elif isinstance(place, int) and (axis.key in groups or axis.key in batch.masks):
                orders.setdefault(axis.key, []).append(place)
        for key, places in orders.items():  # last, since on the way out they also zero the padding
            order = self._order(batch, key)
            y = order.sort(y, places, zeroed=True) if undo else order.unsort(y, places)
        return y.expand(-1, self.count, *y.shape[2:])

    def _renamed(self, batch: Batch, term: Term, edges: EdgeList) -> EdgeList:
        key = term.axes[0].key
        group = batch.groups[key]
        names = group.renaming(group.inverse(self.elements[key]))
        return edges.repeated(self.count).renamed(names.flatten(0, 1))

    def _guarded(self, batch: Batch, outputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The outputs, through which no gradient goes if it would be lost in the names of nodes."""
        guarded = tuple(outputs)
        for i, (term, x) in enumerate(zip(batch.signature.inputs, batch.inputs, strict=True)):
            if isinstance(x, EdgeList):
                carrier = self.carriers[term.axes[0].key]
                scores = carrier.scores if isinstance(carrier, SoftSort) else carrier
                if isinstance(scores, Tensor) and scores.is_floating_point():
                    guarded = refused_gradient(_lost(f"input {i} ({str(term)!r})"), guarded, scores)
        return guarded


def _real(features: Tensor, mask: Tensor | None) -> Tensor:
    """Features (B, K, n, ...) with zeros for padding, which a net may leave undefined."""
    if mask is None or features.shape[2:3] != mask.shape[2:]:
        return features
    return torch.where(mask.view(*mask.shape, *(1 for _ in features.shape[3:])), features, 0)


def _lost(label: str) -> str:
    return (
        f"Expected {label} to be a tensor in training, since the gradient of the scores that sort nodes goes through "
        f"all pairs (got EdgeList; samplers without a trained net, such as Haar and Frame, train on edges, and so "
        f"does a net with requires_grad_(False))"
    )
