"""The laws that every group obeys, checked on random elements."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from probsym.errors import DependencyError, GroupError
from probsym.groups import Group
from probsym.groups.base import Carrier
from probsym.ops import Order

SMOOTH = 0.05
"""What bilinear sampling may lose of smooth images, relative to the values, where a group is not exact on them."""
SMALL = 720
"""Elements up to which all are listed and checked."""
DRAWS, WAVES = 2000, 8
"""How many elements are drawn, and of how many functions the averages tell whether their law is uniform."""
FEWEST, ENTRIES = 100, 2_000_000
"""How many are drawn at least where matrices are large, so that all together have about that many entries."""
STANDARD_ERRORS = 6.0
"""How far averages of a right law may be from what they should be."""


def assert_group_laws(
    group: Group,
    *,
    size: int | None = None,
    batch: Sequence[int] = (4,),
    dtype: torch.dtype = torch.float64,
    mask: Tensor | None = None,
    generator: torch.Generator | None = None,
    tolerance: float | None = None,
) -> None:
    """Check that a group obeys its laws on random elements, and raise `AssertionError` naming the first that fails.

    It checks closure, associativity, identity and inverse; that on every kind of axis `act` is an action, is linear
    (affine on points) and agrees with `matrix`; that Haar samples are elements; that `project` returns elements and is
    equivariant; that what `choose` and `carrier` return acts as the element does; that `elements` lists each element of
    a finite group once; that elements leave the laws in `noise_laws` unchanged; that `opposite` is equivariant; that
    averages by a `quadrature` rule are invariant; that `renaming` agrees with `act`; that an element is determined by
    its linear part and translation; and that up to 2000 elements from `haar`, from random features and from
    `from_uniform` look uniform, if the group is compact.

    Args:
        group: any `Group`, including your own.
        size: number of items, for groups that do not fix it, such as S. For grids, the side of a square image; use 32
            or more if images are rotated by any angle, for which the laws hold up to 5 % on smooth images.
        batch: batch axes of the random elements.
        dtype: dtype of features and tensors.
        mask: (*batch, size) for S: the real items, passed to `project` and `haar`.
        generator: source of all randomness; by default a fresh one with seed 0.
        tolerance: largest error allowed, relative to the values; by default 1e-9 in float64, 1e-4 in float32.

    >>> from probsym import groups
    >>> assert_group_laws(groups.SE(3))
    >>> assert_group_laws(groups.S(), size=7)
    """
    laws = _Laws(
        group,
        mask.shape[-1] if size is None and mask is not None else size,
        tuple(batch),
        dtype,
        mask,
        generator or torch.Generator().manual_seed(0),
        tolerance if tolerance is not None else 1e-9 if dtype == torch.float64 else 1e-4,
    )
    laws.algebra()
    laws.listing()
    for kind in sorted(group.kinds):
        if kind != "grid" or laws.size is not None:
            laws.action(kind)
            laws.noise(kind)
    laws.renaming()
    laws.projection()
    laws.carriers()
    laws.couplings()
    laws.quadrature()
    laws.translations()
    laws.uniformity()


@dataclass
class _Laws:
    group: Group
    size: int | None
    batch: tuple[int, ...]
    dtype: torch.dtype
    mask: Tensor | None
    generator: torch.Generator
    tolerance: float

    def element(self) -> Tensor:
        """A random element, which may be anywhere in the group."""
        return self.group.random(self.batch, size=self.size, dtype=self.dtype, generator=self.generator)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, dtype=self.dtype, generator=self.generator)

    def features(self, batch: tuple[int, ...]) -> Tensor:
        """Random ones, of the group without its translations."""
        group = self.group.linear
        return group.features(batch, size=self.size, dtype=self.dtype, generator=self.generator)

    def smooth(self, shape: tuple[int, ...]) -> Tensor:
        """Images of Gaussian spots, an eighth of the side in deviation, which end inside the disc."""
        places = self.coordinates(shape[-2]) / shape[-2]
        centre = 0.1 * torch.tanh(self.normal(*shape[:-3], 1, 1, 2, 2))
        return torch.exp(-32 * (places.unsqueeze(-2) - centre).square().sum(-1))

    def same(self, law: str, found: Tensor, wanted: Tensor, most: float | None = None) -> None:
        if found.shape != wanted.shape:
            raise AssertionError(
                f"{self.group!r} breaks '{law}': shapes {tuple(found.shape)} and {tuple(wanted.shape)}"
            )
        if found.numel() == 0:
            return
        error = (found.to(self.dtype) - wanted.to(self.dtype)).abs().max() / wanted.abs().max().clamp(min=1)
        most = self.tolerance if most is None else most
        if not error <= most:
            raise AssertionError(f"{self.group!r} breaks '{law}': error {error:.1e} above {most:.0e}")

    def holds(self, law: str, truth: Tensor) -> None:
        if not truth.all():
            raise AssertionError(f"{self.group!r} breaks '{law}': in {int((~truth).sum())} of {truth.numel()} cases")

    def algebra(self) -> None:
        group, (g, h, k) = self.group, (self.element() for _ in range(3))
        identity = group.identity(self.batch, size=self.size, dtype=self.dtype)
        self.holds("haar samples are elements", group.contains(g))
        self.holds("the identity is an element", group.contains(identity))
        self.holds("gh is an element", group.contains(group.compose(g, h)))
        self.holds("the inverse is an element", group.contains(group.inverse(g)))
        self.same("(gh)k = g(hk)", group.compose(group.compose(g, h), k), group.compose(g, group.compose(h, k)))
        self.same("1g = g", group.compose(identity, g), g)
        self.same("g1 = g", group.compose(g, identity), g)
        self.same("g inverse(g) = 1", group.compose(g, group.inverse(g)), identity)
        self.same("inverse(g) g = 1", group.compose(group.inverse(g), g), identity)
        matrix_g, matrix_h, product = (
            group.matrix(element, dtype=self.dtype) for element in (g, h, group.compose(g, h))
        )
        self.same("matrix(gh) = matrix(g) matrix(h)", product, matrix_g @ matrix_h)

    def listing(self) -> None:
        """Whether `elements`, where a group has it and is small, lists every element once."""
        group = self.group
        try:
            if group.cardinality(self.size) > SMALL:
                return
            listed = group.elements(size=self.size)
        except GroupError:
            return
        self.holds("cardinality() counts elements()", torch.tensor(group.cardinality(self.size) == len(listed)))
        identity = group.identity(size=self.size)
        self.holds(
            "elements() lists elements, the identity first", group.contains(listed) & (listed[0] == identity).all()
        )
        moved = group.compose(self.element()[(0,) * len(self.batch)].expand(listed.shape), listed)
        reached, wanted = (some.reshape(len(some), -1).unique(dim=0) for some in (moved, listed))
        self.same("elements() lists every element once", reached, wanted)
        self.holds("elements() repeats none", torch.tensor(len(wanted) == len(listed)))

    def action(self, kind: str) -> None:
        group, g, h = self.group, self.element(), self.element()
        axis, shape = self._place(kind)
        x, y = (self.normal(*shape) if group.exact_on(kind) else self.smooth(shape) for _ in range(2))

        def act(element: Tensor, tensor: Tensor) -> Tensor:
            return group.act(element, tensor, axis, kind)

        identity = group.identity(self.batch, size=self.size, dtype=self.dtype)
        most = None if group.exact_on(kind) else SMOOTH
        self.same(f"1x = x on {kind}", act(identity, x), x, most)
        self.same(f"(gh)x = g(hx) on {kind}", act(group.compose(g, h), x), act(g, act(h, x)), most)
        self.same(f"inverse(g) g x = x on {kind}", act(group.inverse(g), act(g, x)), x, most)
        self.same(f"g(x/2 + y/2) = gx/2 + gy/2 on {kind}", act(g, (x + y) / 2), (act(g, x) + act(g, y)) / 2)
        shared = self.normal(*(1 for _ in self.batch), *shape[len(self.batch) :])
        self.same(f"a shared x is moved like copies on {kind}", act(g, shared), act(g, shared.expand(shape)))
        if kind == "grid":
            places = self.coordinates(shape[-2])
            wanted = self.by_matrix(g, places, kind) * act(identity, torch.ones(shape, dtype=self.dtype))  # in the disc
            self.same(f"gx = matrix(g) x on {kind}", act(g, places.expand(shape)), wanted)
        else:
            self.same(f"gx = matrix(g) x on {kind}", act(g, x), self.by_matrix(g, x, kind))

    def _place(self, kind: str) -> tuple[int | tuple[int, int], tuple[int, ...]]:
        """The axis of this kind in a tensor, and the tensor's shape."""
        if kind == "grid":
            return (-3, -2), (*self.batch, self.size or 1, self.size or 1, 2)
        return -2, (*self.batch, 3, self.group.axis_size(kind) or self.size or 1, 2)

    def coordinates(self, side: int) -> Tensor:
        """An image whose pixels say where they are."""
        line = torch.arange(side, dtype=self.dtype) - (side - 1) / 2
        return torch.stack([line.expand(side, side), -line.unsqueeze(1).expand(side, side)], dim=-1)

    def by_matrix(self, g: Tensor, x: Tensor, kind: str) -> Tensor:
        matrix = self.group.matrix(g, dtype=self.dtype).unsqueeze(-3)
        if kind == "grid":  # the pixel that comes to place p is the one from inverse(g) p
            return x @ matrix
        d = x.shape[-2]
        linear, shift = matrix[..., :d, :d], matrix[..., :d, d:]
        if kind == "axial":
            linear = linear * torch.linalg.det(linear)[..., None, None]
        return linear @ x + (shift if kind == "point" else 0)

    def noise(self, kind: str) -> None:
        """Whether elements leave the laws of noise as they are: rearrange entries, or keep lengths."""
        group = self.group.linear
        if kind == "point" or not group.noise_laws(kind):
            return
        g = self.group.linear_part(self.element())
        axis, shape = self._place(kind)
        x = self.normal(*shape)
        y = group.act(g, x, axis, kind)
        axes = (-3, -2) if kind == "grid" else (-2,)
        for law in group.noise_laws(kind):
            if law == "uniform":
                before, after = (
                    tensor.movedim(axes, tuple(range(-len(axes), 0))).flatten(-len(axes)) for tensor in (x, y)
                )
                self.same(f"uniform noise keeps its law on {kind}", after.sort(-1).values, before.sort(-1).values)
            elif law == "normal":
                before, after = (tensor.square().sum(axes) for tensor in (x, y))
                self.same(f"normal noise keeps its law on {kind}", after, before)
            else:
                raise AssertionError(f"{self.group!r} has a law of noise that is not known: {law!r}")

    def renaming(self) -> None:
        """Whether items go where `renaming` says, where the group renames."""
        if not self.group.renames:
            return
        g, x = self.element(), self.normal(*self.batch, self.size or 1)
        self.same("act(g, x)[renaming(g)] = x", self.group.act(g, x).gather(-1, self.group.renaming(g)), x)

    def projection(self) -> None:
        group = self.group.linear
        if group.feature_field is None:
            return
        g = self.group.linear_part(self.element())
        features, noise = (self.features(self.batch) for _ in range(2))
        shape = tuple(features.shape[len(self.batch) :])
        if shape != group.feature_shape(self.size):
            raise AssertionError(f"{self.group!r} breaks 'features have feature_shape': {shape}")
        self.holds("project gives elements", group.contains(group.project(features, noise=noise)))
        chosen, _ = group.choose(features, noise=noise)
        self.same("choose names what project does", chosen, group.project(features, noise=noise))
        for name, z in {"": features, " on degenerate features": torch.zeros_like(features)}.items():
            projected = group.project(group.move(g, z), noise=group.move(g, noise))
            self.same(f"project(gz) = g project(z){name}", projected, group.compose(g, group.project(z, noise=noise)))
        if group.takes_mask and self.mask is not None:
            self.masked_projection(group, g, features, noise, self.mask)

    def carriers(self) -> None:
        """Whether what acts in an element's place acts as it does, in training too."""
        group, g = self.group.linear, self.group.linear_part(self.element())
        pairs: dict[str, tuple[Tensor, Carrier]] = {"carrier": (g, group.carrier(g))}
        if group.feature_field is not None:
            features, noise = (self.features(self.batch) for _ in range(2))
            pairs["choose"] = group.choose(features.requires_grad_(), noise=noise)
        for kind in sorted(group.kinds):
            if kind == "grid" and self.size is None:
                continue
            axis, shape = self._place(kind)
            x = self.normal(*shape)
            for verb, (element, carrier) in pairs.items():
                if isinstance(carrier, Order):
                    assert isinstance(axis, int)
                    moved, undone = carrier.unsort(x, axis), carrier.sort(x, axis)
                else:
                    moved, undone = (group.act(turn, x, axis, kind) for turn in (carrier, group.inverse(carrier)))
                law = f"what {verb} gives acts as its element on {kind}"
                self.same(law, moved.detach(), group.act(element.detach(), x, axis, kind))
                self.same(law, undone.detach(), group.act(group.inverse(element.detach()), x, axis, kind))

    def couplings(self) -> None:
        """Whether what couplings draw are elements that follow every element, where the group has the verbs."""
        group = self.group.linear
        g, h = (self.group.linear_part(self.element()) for _ in range(2))
        try:
            moved = group.opposite(group.compose(g, h))
        except GroupError:
            return
        self.same("opposite(gh) = g opposite(h)", moved, group.compose(g, group.opposite(h)))
        self.holds("opposite gives elements", group.contains(group.opposite(g)))

    def uniformity(self) -> None:
        """Whether elements that should be uniform have a law that no element changes."""
        group = self.group.linear
        if not group.compact:
            return
        entries = group.matrix(group.identity(size=self.size)).numel()
        count = (min(DRAWS, max(FEWEST, ENTRIES // entries)),)
        haar = group.haar(count, size=self.size, dtype=self.dtype, generator=self.generator)
        drawn, others = {"haar samples are uniform": haar}, haar
        if group.feature_field is not None:
            features, noise = (self.features(count) for _ in range(2))
            u = torch.rand((*count, *group.uniform_shape(self.size)), dtype=torch.float64, generator=self.generator)
            even = group.from_uniform(u, self.dtype, noise=noise)
            self.holds("from_uniform gives elements", group.contains(even))
            others = group.project(features, noise=noise)
            drawn |= {"projected features are uniform": others, "from_uniform gives uniform elements": even}
        elif group.finite:
            others = group.elements(size=self.size)
        for law, elements in drawn.items():
            self.uniform(law, *(group.matrix(some, dtype=self.dtype) for some in (elements, others[-WAVES:])))

    def uniform(self, law: str, drawn: Tensor, others: Tensor) -> None:
        """Whether matrices that were drawn have on average the same sines and cosines of entries as others times them.

        The others come from elsewhere where they can: those of a part of the group would not leave it.
        """
        waves = self.normal(WAVES, *drawn.shape[-2:]) / drawn.shape[-1] ** 0.5
        here = torch.einsum("wij,nij->nw", waves, drawn)
        there = torch.einsum("wij,oik,nkj->now", waves, others, drawn)
        off = torch.stack([there.cos() - here.cos().unsqueeze(1), there.sin() - here.sin().unsqueeze(1)])
        error = (off.mean(1).abs() / (off.std(1) / len(drawn) ** 0.5 + self.tolerance)).max()
        if not error < STANDARD_ERRORS:
            raise AssertionError(f"{self.group!r} breaks '{law}': an average is off by {error:.0f} standard errors")

    def quadrature(self) -> None:
        """Whether a rule averages products of two entries as the group does: no element changes their averages."""
        group, degree = self.group.linear, 2
        try:
            listed, weights = group.quadrature(degree)
        except (GroupError, DependencyError):
            return
        self.holds("a rule is made of elements", group.contains(listed))
        self.same("the weights of a rule sum to one", weights.sum(), torch.ones(()))
        matrices = group.matrix(listed, dtype=torch.float64)
        g = group.matrix(self.group.linear_part(self.element()), dtype=torch.float64)
        there, here = (
            torch.einsum("k,...kij,...kmn->...ijmn", weights, stack, stack)
            for stack in (g.unsqueeze(-3) @ matrices, matrices)
        )
        self.same("a rule averages as the group does", there, here.expand_as(there))

    def translations(self) -> None:
        """Whether an element is its linear part and its translation."""
        group, g = self.group, self.element()
        translation = group.translation(g)
        if translation is None:
            return
        linear = group.linear_part(g)
        self.holds("the linear part is an element of the linear group", group.linear.contains(linear))
        self.same("with_translation puts an element together", group.with_translation(linear, translation), g)
        x = self.normal(*self.batch, 3, translation.shape[-1])
        wanted = group.linear.act(linear, x) + translation.unsqueeze(-2)
        self.same("a point is turned, then translated", group.act(g, x, -1, "point"), wanted)

    def masked_projection(self, group: Any, g: Tensor, features: Tensor, noise: Tensor, mask: Tensor) -> None:
        mask = mask.expand(g.shape)
        drawn = group.haar(self.batch, generator=self.generator, mask=mask)
        self.holds("masked haar puts real items first", group.contains(drawn, mask=mask))
        plain = group.project(features, noise=noise, mask=mask)
        self.holds("masked project puts real items first", group.contains(plain, mask=mask))
        moved = group.project(group.move(g, features), noise=group.move(g, noise), mask=group.act(g, mask))
        real = torch.arange(mask.shape[-1]) < mask.sum(-1, keepdim=True)
        self.same("masked project(gz) = g project(z)", moved[real], group.compose(g, plain)[real])
