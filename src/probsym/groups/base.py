"""What every group can do: the verbs that samplers, signatures and tests are written in."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor

from probsym.errors import GroupError, ShapeError
from probsym.ops import Order
from probsym.ops.random_numbers import normal_numbers, random_numbers
from probsym.ops.transforms import needs_gradient, traced

Axis = int | tuple[int, int]
Device = torch.device | None
Dtype = torch.dtype | None
Carrier = Tensor | Order
"""What acts in an element's place: an order, weights of a finite group's elements, or the element itself."""


class Group(ABC):
    """A group of transformations; one object stands for the group, plain tensors for its elements.

    An element is a tensor (*batch, *shape), where `shape` belongs to the group and the batch axes are free. It
    acts on one axis (or one pair of axes) of a tensor x that begins with the same batch axes, each of equal
    size or of size 1:

        act(compose(g, h), x) == act(g, act(h, x))        act(inverse(g), act(g, x)) == x

    Groups are values: two objects with the same parameters are equal, and print as they are written.

    Nothing outside this folder depends on the class of a group: samplers, nets and tests use only its verbs (methods).
    A group needs the abstract ones to act, and `random`, or `elements` if it is `finite`, to be tested. The others make
    it work with samplers; if one is missing, the error names it:

    - `feature_field`, `feature_shape`, `move`, `project`: features that give an element (all samplers but Enumerate);
    - `noise_laws`: the noise that `Learned` may add to its input;
    - `choose`, `carrier`, `entropy`, `prior`: what acts in place of an element and carries a gradient, how sharp it
      is, and how far it is from the identity;
    - `cardinality`, `elements`: all elements (Enumerate, `nets.Lifted`);
    - `opposite`, `stratum`, `from_uniform`: coupled (dependent) draws;
    - `frame`: what a frame for this group is computed from;
    - `quadrature`: a weighted quadrature rule over the group;
    - `renames`, `renaming`: where each item goes, so that arrays over pairs may be given as lists of edges;
    - `linear`, `linear_part`, `translation`, `with_translation`: translations, which act about a centroid.

    A verb that draws, such as `haar`, takes its numbers from `ops.random_numbers.random_numbers`, which also follows
    the `seed` of a call.
    """

    finite: ClassVar[bool] = False
    """Whether it has finitely many elements on an axis of given size."""
    compact: ClassVar[bool] = True
    """Whether it has a uniform distribution. If not, `haar` raises an error, unless it documents what it draws."""
    feature_field: ClassVar[str | None] = None
    """The field of `nets.Features` that names an element: "scores", "vectors", "logits", or a name of its own."""
    compares_features: ClassVar[bool] = False
    """Whether features are compared, so that equal ones tie: scores and logits. Random ones are then uniform on
    [0, 1), and otherwise normal."""
    frame: ClassVar[str | None] = None
    """What a frame is made of: "order", items sorted by keys; "axes", orthonormal axes of points; "signs", the
    signs of entries; None if there is none."""
    renames: ClassVar[bool] = False
    """Whether elements do no more than rearrange the items of an axis, and `renaming` says how."""
    reflects: ClassVar[bool] = True
    """Whether axes of determinant -1 are in it too, where a frame is made of axes."""

    @property
    def chooses(self) -> bool:
        """Whether elements are discrete choices, so that small changes of the features leave the element unchanged."""
        return self.compares_features

    def __repr__(self) -> str:
        own = "__dataclass_fields__" in type(self).__dict__  # of dataclasses, torch 2.11 cannot compile `vars`
        names = [field.name for field in fields(self)] if own else list(vars(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join([str(getattr(self, name)) for name in names])})"

    @property
    @abstractmethod
    def kinds(self) -> frozenset[str]:
        """The kinds of axes that the group acts on: "plain", "point", "axial", "grid"."""

    def exact_on(self, kind: str) -> bool:
        """Whether the laws of the action hold to rounding on an axis of this kind, not just for smooth images."""
        return True

    @property
    def takes_mask(self) -> bool:
        """Whether a mask may mark some items of the axis as padding; `haar` and `project` then take `mask=`.

        What acts in an element's place must then be an `Order`: only that moves real items before padding.
        """
        return False

    @property
    def needs_square(self) -> bool:
        """Whether a grid must be square, because some element rotates it by a quarter turn."""
        return False

    @abstractmethod
    def element_shape(self, size: int | None = None) -> tuple[int, ...]:
        """The trailing shape of an element; `size` is the size of the axis, for groups that do not fix it."""

    @abstractmethod
    def axis_size(self, kind: str = "plain") -> int | None:
        """The size that an axis of this kind must have; None if any size is allowed."""

    @abstractmethod
    def identity(
        self, batch: Sequence[int] = (), *, size: int | None = None, dtype: Dtype = None, device: Device = None
    ) -> Tensor:
        """The element that moves nothing."""

    @abstractmethod
    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """The product gh: first h, then g."""

    @abstractmethod
    def inverse(self, g: Tensor) -> Tensor:
        """The element that undoes g."""

    @abstractmethod
    def act(self, g: Tensor, x: Tensor, axis: Axis = -1, kind: str = "plain") -> Tensor:
        """Move x by g along an axis; `kind` says how that axis transforms."""

    def renaming(self, g: Tensor) -> Tensor:
        """Where each item goes, integers (*batch, n): `act(g, x)[renaming(g)[i]] == x[i]`."""
        self._lacks("renaming")

    def feature_shape(self, size: int | None = None) -> tuple[int, ...]:
        """The trailing shape of the features that determine an element."""
        self._lacks("feature_shape")

    def features(
        self,
        batch: Sequence[int] = (),
        *,
        size: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Random features whose distribution every element leaves unchanged; projecting them gives Haar samples."""
        shape, normal = (*batch, *self.feature_shape(size)), not self.compares_features
        return random_numbers(shape, normal=normal, dtype=dtype, device=device, generator=generator)

    def move(self, g: Tensor, features: Tensor) -> Tensor:
        """How features transform when g moves the input: `project(move(g, z)) == compose(g, project(z))`."""
        self._lacks("move")

    def project(self, features: Tensor, *, noise: Tensor | None = None) -> Tensor:
        """The element that the features determine; `noise`, drawn by `features()`, decides if several are possible."""
        self._lacks("project")

    def choose(
        self, features: Tensor, *, noise: Tensor | None = None, tau: float = 1.0, mask: Tensor | None = None
    ) -> tuple[Tensor, Carrier]:
        """The element that the features determine, and what acts in its place so that the features get a gradient.

        By default the element acts itself; whole numbers pass no gradient to the features, and a warning says so.
        `tau` is the temperature of the straight-through gradient, for groups that use one.
        """
        g = self.project(features, noise=noise)
        if needs_gradient(features) and not g.is_floating_point() and not traced():
            warnings.warn(
                f"Expected {self!r} to have the verb `choose`, which passes a gradient to the net's "
                f"{self.feature_field} (got its default, and elements of {g.dtype}: the net is not trained)",
                stacklevel=2,
            )
        return g, g

    def entropy(self, features: Tensor, carrier: Carrier, tau: float) -> Tensor | None:
        """How undecided the relaxed choice behind a straight-through gradient is, (*batch,); None if there is none."""
        return None

    def prior(self, features: Tensor, carrier: Carrier, tau: float) -> Tensor:
        """How far the chosen element is from the identity, (*batch,): a loss with its minimum at the identity."""
        self._lacks("prior")

    def carrier(self, g: Tensor, *, mask: Tensor | None = None) -> Carrier:
        """What acts in place of g; `mask` marks the real items, for groups that take one."""
        return g

    def noise_laws(self, kind: str = "plain") -> tuple[str, ...]:
        """Which of "uniform" and "normal" i.i.d. noise on an axis of this kind keeps its law under every element.

        "uniform" does if elements only rearrange the entries, "normal" if they are orthogonal maps.
        """
        return ()

    def close_call(self, features: Tensor, g: Tensor, mask: Tensor | None = None) -> Tensor:
        """Where rounding may decide which element the features determine: booleans (*batch,)."""
        return torch.zeros(self.check_element(g), dtype=torch.bool, device=g.device)

    @abstractmethod
    def contains(self, g: Tensor) -> Tensor:
        """Whether each g is an element, up to rounding: booleans (*batch,)."""

    @abstractmethod
    def matrix(self, g: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        """The matrix of g in the base representation, acting on columns, in the dtype asked for."""

    def haar(
        self,
        batch: Sequence[int] = (),
        *,
        size: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Elements drawn uniformly from the group.

        These are projections of random features. The law of the features is invariant and `project` is equivariant,
        so the law of the elements is invariant too, and the Haar measure is the only such law.
        """
        if not self.compact:
            raise GroupError(f"Expected a compact group, which has a uniform law (got {self!r})")
        if self.feature_field is None and self.finite:
            listed = self.elements(size=size, device=device)
            u = random_numbers(batch, normal=False, dtype=torch.float64, device=device, generator=generator)
            return listed[(u * len(listed)).long().clamp(max=len(listed) - 1)]

        def draw() -> Tensor:
            return self.features(batch, size=size, dtype=dtype, device=device, generator=generator)

        return self.project(draw(), noise=draw())

    def random(self, batch: Sequence[int] = (), **options: Any) -> Tensor:
        """Random elements for tests: uniform, with a random translation if the group has translations; projections of
        random features if it is not compact.

        The options are those of `haar`.
        """
        return self.haar(batch, **options) if self.compact else self.project(self.features(batch, **options))

    def cardinality(self, size: int | None = None) -> int:
        """How many elements a finite group has."""
        self._lists_none("cardinality")

    def elements(self, *, size: int | None = None, device: torch.device | None = None) -> Tensor:
        """All elements of a finite group, (cardinality, *shape), the identity first."""
        self._lists_none("elements")

    def among_real(self, listed: Tensor, mask: Tensor) -> Tensor:
        """Turn elements listed for m items into elements that put the at most m real items of each row first."""
        self._lacks("among_real")

    def opposite(self, g: Tensor, mask: Tensor | None = None) -> Tensor:
        """The product g s with a fixed s, as far from the identity as possible: `opposite(h g) = h opposite(g)`."""
        self._lacks("opposite")

    @property
    def stratifies(self) -> bool:
        """Whether the group has a finite subgroup to draw from without replacement."""
        return False

    def stratum_orders(
        self, batch: int, size: int | None, mask: Tensor | None, device: torch.device
    ) -> tuple[Tensor, int]:
        """How many elements the subgroup to draw from has for each batch item, (batch, 1), and the largest possible.

        By default the subgroup is the whole of a finite group.
        """
        most = self.cardinality(size)
        return torch.full((batch, 1), most, device=device), most

    def stratum(self, ranks: Tensor, size: int | None, dtype: torch.dtype) -> Tensor:
        """The elements of that subgroup numbered by ranks (batch, draws); on items, permutations of the first ones."""
        self._lacks("stratum")

    def uniform_shape(self, size: int | None = None) -> tuple[int, ...]:
        """The trailing shape of the numbers that `from_uniform` reads."""
        return self.feature_shape(size)

    def from_uniform(
        self, u: Tensor, dtype: torch.dtype, *, noise: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """The element given by float64 numbers in [0, 1), (*batch, *uniform_shape); uniform if they are.

        Elements are spread as evenly over the group as the numbers are over [0, 1). `noise` is as in `project`.
        """
        return self.project((u if self.compares_features else normal_numbers(u)).to(dtype), noise=noise)

    def quadrature(self, degree: int) -> tuple[Tensor, Tensor]:
        """Elements (count, *shape) and float64 weights (count,) that sum to one. Their weighted average of a
        polynomial in the entries of `matrix`, up to that degree, equals its average over the group."""
        self._lacks("quadrature")

    @property
    def linear(self) -> Group:
        """The group without its translations, which acts about the centroid of the points."""
        return self

    def linear_part(self, g: Tensor) -> Tensor:
        """The part of g without its translation: an element of `linear`."""
        return g

    def translation(self, g: Tensor) -> Tensor | None:
        """How far g moves the origin, (*batch, d); None for groups that do not translate."""
        return None

    def with_translation(self, g: Tensor, translation: Tensor) -> Tensor:
        """The element of the group with the given linear part and translation."""
        self._lacks("with_translation")

    def _lists_none(self, verb: str) -> NoReturn:
        if self.finite:
            self._lacks(verb)
        raise GroupError(f"Expected a finite group (got {self!r}, whose elements cannot be listed)")

    def _lacks(self, verb: str) -> NoReturn:
        raise GroupError(f"Expected a group that has the verb `{verb}` (got {self!r}, which has not)")

    def check_kind(self, kind: str) -> None:
        """Refuse an axis that this group does not act on."""
        if kind not in self.kinds:
            known = ", ".join(repr(name) for name in sorted(self.kinds))
            raise GroupError(f"Expected {self!r} to act on an axis of kind {known} (got {kind!r})")

    def check_element(self, g: Tensor) -> tuple[int, ...]:
        """The batch shape of g, after checking that the rest has the shape of an element."""
        shape = self.element_shape(g.shape[-1] if g.dim() else None)
        batch = g.dim() - len(shape)
        if batch < 0 or tuple(g.shape[batch:]) != shape:
            wanted = "".join(f", {size}" for size in shape)
            raise ShapeError(f"Expected an element of {self!r} to be (*batch{wanted}) (got {tuple(g.shape)})")
        return tuple(g.shape[:batch])
