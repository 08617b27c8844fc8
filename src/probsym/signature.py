"""Which axis of which tensor transforms under which group.

    signature = terms "->" terms            one term per tensor, separated by commas
    term      = axes separated by blanks    in the tensor's own order; a leading batch axis is implied
    axis      = name | name ":point" | name ":axial" | "(" name name ")"

A name bound to a group transforms under it; a name without a group is a channel axis, which does not transform. A
bound name may be repeated (`n n`). `d:point` also translates, plain `d` only rotates, `d:axial` is also multiplied by
the determinant. `(h w)` are two axes that a planar group moves together, bound by the key "h w". A term without axes
is one number per batch item.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from torch import Tensor

from probsym._internal.checks import check_count, check_finite, check_masked_channels, check_masks, check_tensors
from probsym.errors import MaskError, ShapeError, SignatureError
from probsym.groups import Group
from probsym.ops.edge_list import EdgeList, Input

_TOKEN = re.compile(r"\([^()]*\)(?!\S)|\S+")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Axis:
    """One axis of a term, or two that are moved together: `n`, `d:point`, `(h w)`."""

    key: str
    kind: str = "plain"

    @property
    def names(self) -> tuple[str, ...]:
        """The name of every tensor axis that it stands for."""
        return tuple(self.key.split())

    def __str__(self) -> str:
        if self.kind == "grid":
            return f"({self.key})"
        return self.key if self.kind == "plain" else f"{self.key}:{self.kind}"


@dataclass(frozen=True)
class Term:
    """The axes of one tensor, without the batch axis."""

    axes: tuple[Axis, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """One name for every axis of the tensor after the batch axis."""
        return tuple(name for axis in self.axes for name in axis.names)

    def places(self) -> list[tuple[Axis, int | tuple[int, int]]]:
        """Every axis with its place in the tensor, counted from the end, so that batch axes may come and go."""
        places: list[tuple[Axis, int | tuple[int, int]]] = []
        place = -len(self.names)
        for axis in self.axes:
            places.append((axis, (place, place + 1) if axis.kind == "grid" else place))
            place += len(axis.names)
        return places

    def __str__(self) -> str:
        return " ".join(str(axis) for axis in self.axes)


@dataclass(frozen=True)
class Signature:
    """A parsed signature together with the groups that its names are bound to.

    >>> import torch
    >>> from probsym import groups
    >>> signature = Signature.parse("n d:point, n n e -> n d", {"n": groups.S(), "d": groups.E(3)})
    >>> print(signature)
    n d:point, n n e -> n d
    >>> signature.check_inputs([torch.zeros(8, 5, 3), torch.zeros(8, 5, 5, 2)])
    {'n': 5, 'd': 3, 'e': 2}
    """

    inputs: tuple[Term, ...]
    outputs: tuple[Term, ...]
    groups: Mapping[str, Group]

    @staticmethod
    def parse(text: str, groups: Mapping[str, Group]) -> Signature:
        """Read the notation and check that the groups can act as it says."""
        bound = _read_groups(text, groups)
        if text.count("->") != 1:
            raise SignatureError(f"Expected one '->' between inputs and outputs in {text!r} (got {text.count('->')})")
        left, right = text.split("->")
        if not left.strip():
            raise SignatureError(f"Expected at least one input before '->' in {text!r} (got none)")
        signature = Signature(
            tuple(_Reader(part.strip(), f"input {i}", bound).term() for i, part in enumerate(left.split(","))),
            tuple(_Reader(part.strip(), f"output {i}", bound).term() for i, part in enumerate(right.split(","))),
            bound,
        )
        _check_bindings(signature)
        return signature

    def __str__(self) -> str:
        left, right = (", ".join(str(term) for term in terms) for terms in (self.inputs, self.outputs))
        return f"{left} -> {right}".rstrip()

    def __hash__(self) -> int:
        return hash((self.inputs, self.outputs, frozenset(self.groups.items())))

    def act(self, elements: Mapping[str, Tensor], inputs: Sequence[Input]) -> tuple[Input, ...]:
        """Move the inputs by group elements, one for each bound key: `rho_in(g) x`; lists of edges by new names."""
        return self._act(elements, self.inputs, inputs)

    def act_on_outputs(self, elements: Mapping[str, Tensor], outputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Move the outputs by group elements, one for each bound key: `rho_out(g) y`."""
        return cast("tuple[Tensor, ...]", self._act(elements, self.outputs, outputs))

    def _act(
        self, elements: Mapping[str, Tensor], terms: Sequence[Term], tensors: Sequence[Input]
    ) -> tuple[Input, ...]:
        if set(elements) != set(self.groups):
            raise SignatureError(f"Expected an element for each of {list(self.groups)} (got {list(elements)})")
        check_count(tensors, terms, "input" if terms is self.inputs else "output")
        moved: list[Input] = []
        for term, x in zip(terms, tensors, strict=True):
            if isinstance(x, EdgeList):
                key = term.axes[0].key
                moved.append(x.renamed(self.groups[key].renaming(elements[key])))
                continue
            y = x
            for axis, place in term.places():
                if axis.key in self.groups:
                    y = self.groups[axis.key].act(elements[axis.key], y, place, axis.kind)
            moved.append(y)
        return tuple(moved)

    def check_inputs(
        self, tensors: Sequence[Input], mask: Tensor | Mapping[str, Tensor] | None = None, *, finite: bool = False
    ) -> dict[str, int]:
        """Refuse inputs or masks that do not fit; return the size of every axis name.

        With `finite`, NaN and infinity outside the padding are refused too, and batch items without a real entry.
        """
        sizes = check_tensors(tensors, self.inputs, "input", self.groups, {})
        masks = self.masks(mask)
        check_masks(masks, self.groups, sizes, tensors[0])
        check_masked_channels(tensors, self.inputs, masks)
        if finite:
            check_finite(tensors, self.inputs, masks)
        return sizes

    def check_outputs(self, tensors: Sequence[Tensor], sizes: Mapping[str, int], *, batch: int | None = None) -> None:
        """Refuse outputs that do not fit the signature, or the sizes and the batch size that the inputs had."""
        check_tensors(tensors, self.outputs, "output", self.groups, sizes)
        if batch is not None and tensors[0].shape[0] != batch:
            raise ShapeError(
                f"Expected output 0 ({str(self.outputs[0])!r}) to have batch size {batch} (got {tensors[0].shape[0]})"
            )

    def masks(self, mask: Tensor | Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        """The masks by axis name. A single tensor masks the one input axis that qualifies.

        That is the axis bound to S or, if there is none, the only axis without a group. The latter must come first in
        one of its terms, so that a mask meant for an axis that a group moves is not applied to channels.
        """
        if mask is None or isinstance(mask, Mapping):
            return dict(mask or {})
        if not isinstance(mask, Tensor):
            raise MaskError(f"Expected a mask to be a tensor or {{axis: tensor}} (got {type(mask).__name__})")
        names = dict.fromkeys(name for term in self.inputs for name in term.names)
        bound = {name for key in self.groups for name in key.split()}
        items = [name for name in names if name in self.groups and self.groups[name].takes_mask]
        candidates = items or [name for name in names if name not in bound]
        first = {term.names[0] for term in self.inputs if term.names}
        if len(candidates) != 1 or not (items or candidates[0] in first):
            listing = ", ".join(repr(name) for name in candidates) or "none"
            raise MaskError(f"Expected masks as {{axis: mask}} unless exactly one axis qualifies (got {listing})")
        return {candidates[0]: mask}


def _read_groups(text: str, groups: Mapping[str, Group]) -> dict[str, Group]:
    """The bindings with their keys in canonical spelling."""
    if not isinstance(text, str) or not isinstance(groups, Mapping):
        types = f"{type(text).__name__} and {type(groups).__name__}"
        raise SignatureError(f"Expected a signature as text and groups as {{axis: group}} (got {types})")
    bound: dict[str, Group] = {}
    for key, group in groups.items():
        if not isinstance(key, str) or not key.split():
            raise SignatureError(f"Expected groups to be bound to axis names (got {key!r})")
        if not isinstance(group, Group):
            raise SignatureError(f"Expected {key!r} to be bound to a group (got {group!r})")
        name = " ".join(key.split())
        if name in bound:
            raise SignatureError(f"Expected one group for {name!r} (got {bound[name]!r} and {group!r})")
        bound[name] = group
    return bound


class _Reader:
    """Reads one term, and names it in its complaints."""

    def __init__(self, text: str, label: str, groups: Mapping[str, Group]) -> None:
        self.text, self.groups, self.where = text, groups, f"{label} ({text!r})"

    def term(self) -> Term:
        axes = [
            self._pair(token) if token.startswith("(") and token.endswith(")") else self._axis(token)
            for token in _TOKEN.findall(self.text)
        ]
        if not axes and self.where.startswith("input"):
            raise SignatureError(f"Expected an axis in {self.where} (got none)")
        for key, count in Counter(axis.key for axis in axes).items():
            if count > 1 and key not in self.groups:
                raise SignatureError(
                    f"Expected {key!r} once in {self.where}, since only an axis bound to a group may be repeated "
                    f"(got {count})"
                )
        rotated = [axis for axis in axes if axis.key in self.groups and self.groups[axis.key].axis_size(axis.kind)]
        if len(rotated) > 1 and any(axis.kind == "point" for axis in rotated):
            listing = ", ".join(f"'{axis}'" for axis in rotated)
            raise SignatureError(f"Expected no axis that rotates beside ':point' in {self.where} (got {listing})")
        return Term(tuple(axes))

    def _axis(self, token: str) -> Axis:
        name, colon, kind = token.partition(":")
        if not _NAME.fullmatch(name):
            raise SignatureError(f"Expected an axis name in {self.where} (got {token!r})")
        if colon and kind not in ("point", "axial"):
            raise SignatureError(f"Expected ':point' or ':axial' after {name!r} in {self.where} (got {token!r})")
        if colon and name not in self.groups:
            raise SignatureError(f"Expected {name!r} to be bound to a group in {self.where} (got {token!r} unbound)")
        return self._bound(Axis(name, kind or "plain"))

    def _pair(self, token: str) -> Axis:
        names = token[1:-1].split()
        if len(names) != 2 or names[0] == names[1] or not all(_NAME.fullmatch(name) for name in names):
            raise SignatureError(f"Expected two axis names in parentheses in {self.where} (got {token!r})")
        axis = Axis(" ".join(names), "grid")
        if axis.key not in self.groups:
            raise SignatureError(
                f"Expected {axis.key!r} to be bound to a group in {self.where} (got {token!r} unbound)"
            )
        return self._bound(axis)

    def _bound(self, axis: Axis) -> Axis:
        group = self.groups.get(axis.key)
        if group is not None and axis.kind not in group.kinds:
            raise SignatureError(f"Expected a group that acts on '{axis}' in {self.where} (got {group!r})")
        return axis


def _check_bindings(signature: Signature) -> None:
    """Refuse bindings without an input to read, names of two roles, and points without a centroid."""
    read = {axis.key: axis for term in signature.inputs for axis in term.axes}
    for key, group in signature.groups.items():
        if key not in read:
            raise SignatureError(f"Expected {key!r}, bound to {group!r}, to occur in an input of '{signature}'")
    axes = [axis for term in (*signature.inputs, *signature.outputs) for axis in term.axes]
    pairs = {name: axis for axis in axes if axis.kind == "grid" for name in axis.names}
    for axis in axes:
        for name in axis.names:
            if name in pairs and pairs[name] != axis:
                raise SignatureError(f"Expected {name!r} to occur as '{pairs[name]}' throughout (got '{axis}' too)")
    points = {axis.key for term in signature.inputs for axis in term.axes if axis.kind == "point"}
    for term in signature.outputs:
        for axis in term.axes:
            if axis.kind == "point" and axis.key not in points:
                raise SignatureError(
                    f"Expected an input with '{axis}' whose centroid output '{term}' can take (got none)"
                )
