"""What every group can do: the verbs that samplers, signatures and tests are written in."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from probsym.errors import DtypeError, GroupError, ShapeError

Axis = int | tuple[int, int]


class Group(ABC):
    """A group of transformations; one object stands for the group, plain tensors for its elements.

    An element is a tensor (*batch, *shape), where `shape` belongs to the group and the batch axes are free. It
    acts on one axis (or one pair of axes) of a tensor x that begins with the same batch axes, each of equal
    size or of size 1:

        act(compose(g, h), x) == act(g, act(h, x))        act(inverse(g), act(g, x)) == x

    Groups are values: two objects with the same parameters are equal, and print as they are written.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(str(value) for value in vars(self).values())})"

    @property
    @abstractmethod
    def kinds(self) -> frozenset[str]:
        """Which kinds of axes it acts on: "plain", "point", "axial", "grid"."""

    @property
    def takes_mask(self) -> bool:
        """Whether the items of an axis may be padding, and a mask say so."""
        return False

    @property
    def needs_square(self) -> bool:
        """Whether a grid must be as high as it is wide, since some element turns it by a quarter."""
        return False

    @abstractmethod
    def element_shape(self, size: int | None = None) -> tuple[int, ...]:
        """The trailing shape of an element; `size` is that of the axis where the group does not fix it."""

    @abstractmethod
    def axis_size(self, kind: str = "plain") -> int | None:
        """The size that an axis of this kind must have; None where any will do."""

    @abstractmethod
    def identity(
        self,
        batch: Sequence[int] = (),
        *,
        size: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
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
        """Move x by g along an axis, which transforms as its `kind` says."""

    @abstractmethod
    def features(
        self,
        batch: Sequence[int] = (),
        *,
        size: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Random features whose law no rotation or permutation changes; projecting them gives Haar samples."""

    @abstractmethod
    def move(self, g: Tensor, features: Tensor) -> Tensor:
        """How features follow the input: `project(move(g, z)) == compose(g, project(z))`."""

    @abstractmethod
    def project(self, features: Tensor, *, noise: Tensor | None = None) -> Tensor:
        """The element that features name. `noise`, drawn by `features()`, decides where they name several."""

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

        Features have a law that no element changes and `project` follows every element, so what they project
        to has an invariant law too, and the Haar measure is the only one.
        """

        def draw() -> Tensor:
            return self.features(batch, size=size, dtype=dtype, device=device, generator=generator)

        return self.project(draw(), noise=draw())

    def elements(self, *, size: int | None = None, device: torch.device | None = None) -> Tensor:
        """All elements of a finite group, (order, *shape), the identity first."""
        raise GroupError(f"Expected a finite group (got {self!r}, whose elements cannot be listed)")

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


def check_axis(x: Tensor, axis: Axis, batch: Sequence[int], size: int | None, group: Group) -> int:
    """`axis` counted from the front, after checking that it is one, follows the batch axes and has the right size."""
    if not isinstance(axis, int):
        raise GroupError(f"Expected one axis for {group!r} (got {axis})")
    if not -x.dim() <= axis < x.dim() or axis % x.dim() < len(batch):
        raise ShapeError(f"Expected axis to follow {len(batch)} batch axes in {x.dim()} axes (got {axis})")
    axis %= x.dim()
    if size is not None and x.shape[axis] != size:
        raise ShapeError(f"Expected size {size} on axis {axis} for {group!r} (got {x.shape[axis]})")
    own = x.shape[: len(batch)]
    if any(found not in (1, wanted) for found, wanted in zip(own, batch, strict=True)):
        raise ShapeError(f"Expected batch axes that broadcast to {tuple(batch)} (got {tuple(own)})")
    return axis


def matmul(left: Tensor, right: Tensor) -> Tensor:
    """The matrix product in the dtype of its factors, whatever autocast says: elements must stay in the group.

    On a GPU, `torch.set_float32_matmul_precision` applies to it; leave that at "highest" where rounding matters.
    """
    if left.dtype != right.dtype:
        raise DtypeError(f"Expected two elements of one dtype (got {left.dtype} and {right.dtype})")
    with torch.autocast(left.device.type, enabled=False):
        return left @ right


def act_by_matrix(matrix: Tensor, x: Tensor, axis: int) -> Tensor:
    """`x Q'` along an axis: matrix Q (*batch, d, d), x (*batch, ..., d, ...). Never below float32."""
    if not x.is_floating_point():
        raise DtypeError(f"Expected a floating tensor to rotate (got {x.dtype})")
    batch, d = matrix.dim() - 2, x.shape[axis]
    rows = x.movedim(axis, -1)
    dtype = torch.promote_types(torch.promote_types(matrix.dtype, x.dtype), torch.float32)
    flat = rows.reshape(*x.shape[:batch], rows.shape[batch:-1].numel(), d)
    moved = matmul(flat.to(dtype), matrix.mT.to(dtype))
    return moved.reshape(*matrix.shape[:batch], *rows.shape[batch:]).movedim(-1, axis).to(x.dtype)


def check_index(g: Tensor, group: Group) -> Tensor:
    """g, after checking that it holds indices."""
    if g.dtype != torch.long:
        raise DtypeError(f"Expected an element of {group!r} to be an int64 index (got {g.dtype})")
    return g


def check_parameter(value: int, what: str) -> None:
    """Refuse a dimension or a number of rotations that is not a positive whole number."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise GroupError(f"Expected the {what} to be 1 or more (got {value})")


def joint_batch(batch: Sequence[int], own: Sequence[int], what: str) -> tuple[int, ...]:
    """The batch axes asked for, together with those of a mask or centroid, which must broadcast to them."""
    try:
        joint = tuple(torch.broadcast_shapes(tuple(batch), tuple(own)))
    except RuntimeError:
        joint = ()
    if len(joint) < max(len(batch), len(own)) or (len(batch) > 0 and joint != tuple(batch)):
        raise ShapeError(f"Expected the batch axes of {what} to broadcast to {tuple(batch)} (got {tuple(own)})")
    return joint
