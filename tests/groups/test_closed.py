"""Nothing outside `groups/` asks which class a group is; a group of a user's own is served by its verbs alone."""

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import probsym
from probsym import Symmetrized, groups, nets, samplers, testing
from probsym.errors import GroupError
from probsym.groups.base import Axis
from probsym.groups.element_checks import check_axis
from probsym.groups.matrices import act_by_matrix
from probsym.nets import Features

SOURCE = Path(probsym.__file__).parent
CONCRETE = {*groups.GROUPS, "PlanarGroup", "Polyhedral", "Finite"}


def asked(tree: ast.AST) -> list[str]:
    """The concrete groups that code asks for, by `isinstance`, `issubclass`, `type(...) is` or a class pattern."""
    concrete = []
    for node in ast.walk(tree):
        parts: list[ast.AST] = []
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            parts = [*node.args[1:]]
        elif isinstance(node, ast.Compare) and any(
            isinstance(operand, ast.Call) and isinstance(operand.func, ast.Name) and operand.func.id == "type"
            for operand in (node.left, *node.comparators)
        ):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchClass):
            parts = [node.cls]
        names = [child for part in parts for child in ast.walk(part) if isinstance(child, ast.Name | ast.Attribute)]
        concrete += [name for child in names if (name := getattr(child, "id", getattr(child, "attr", ""))) in CONCRETE]
    return concrete


def test_no_file_outside_groups_asks_which_class_a_group_is() -> None:
    files = [path for path in SOURCE.rglob("*.py") if "groups" not in path.relative_to(SOURCE).parts[:1]]
    assert len(files) > 100
    assert {str(path): concrete for path in files if (concrete := asked(ast.parse(path.read_text())))} == {}


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(group, S)",
        "isinstance(group, S | groups.E)",
        "issubclass(kind, (O, int))",
        "type(group) is SO",
        "match group:\n    case C(m=4):\n        pass",
    ],
)
def test_such_a_question_would_be_noticed(code: str) -> None:
    assert asked(ast.parse(code))


@dataclass(frozen=True, repr=False)
class Boosts(groups.Group):
    """Boosts of the plane (t, x), which keep t^2 - x^2: not compact, and no noise keeps its law under them."""

    laws: tuple[str, ...] = ()
    compact = False
    feature_field = "boost"

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"plain"})

    def element_shape(self, size: int | None = None) -> tuple[int, ...]:
        return ()

    def axis_size(self, kind: str = "plain") -> int:
        return 2

    def identity(self, batch=(), *, size=None, dtype=None, device=None) -> Tensor:
        return torch.zeros(tuple(batch), dtype=dtype, device=device)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return g + h

    def inverse(self, g: Tensor) -> Tensor:
        return -g

    def act(self, g: Tensor, x: Tensor, axis: Axis = -1, kind: str = "plain") -> Tensor:
        return act_by_matrix(self.matrix(g), x, check_axis(x, axis, g.shape, 2, self))

    def contains(self, g: Tensor) -> Tensor:
        return g.isfinite()

    def matrix(self, g: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        rows = torch.stack([g.cosh(), g.sinh(), g.sinh(), g.cosh()], -1).unflatten(-1, (2, 2))
        return rows.to(dtype or g.dtype)

    def feature_shape(self, size: int | None = None) -> tuple[int, ...]:
        return ()

    def move(self, g: Tensor, features: Tensor) -> Tensor:
        return features + g

    def project(self, features: Tensor, *, noise: Tensor | None = None) -> Tensor:
        return features

    def noise_laws(self, kind: str = "plain") -> tuple[str, ...]:
        return self.laws


class Rapidity(nn.Module):
    """How fast the sum of all points moves: it follows boosts exactly."""

    def forward(self, x: Tensor, mask: None = None) -> Features:
        total = x.sum(-2)
        return Features(own={"boost": torch.atanh(total[..., 1] / total[..., 0])})


def timelike(dtype: torch.dtype = torch.float64) -> Tensor:
    x = torch.randn(6, 4, 2, dtype=dtype, generator=torch.Generator().manual_seed(0))
    return torch.stack([x[..., 0].abs() + x[..., 1].abs() + 0.5, x[..., 1]], -1)


def test_a_group_that_is_not_compact_keeps_its_laws() -> None:
    testing.assert_group_laws(Boosts())


@pytest.mark.parametrize("law", ["normal", "uniform"])
def test_a_law_of_noise_that_elements_change_is_caught(law: str) -> None:
    with pytest.raises(AssertionError, match=f"{law} noise keeps its law on plain"):
        testing.assert_group_laws(Boosts((law,)))


def test_uniform_noise_under_rotations_is_caught_and_normal_noise_is_not() -> None:
    class Wrong(groups.O):
        def noise_laws(self, kind: str = "plain") -> tuple[str, ...]:
            return "normal", "uniform"

    with pytest.raises(AssertionError, match=r"uniform noise keeps its law on (plain|axial)"):
        testing.assert_group_laws(Wrong(3))


def test_canonical_poses_serve_such_a_group_and_noise_is_refused_by_name() -> None:
    def bent(x: Tensor) -> Tensor:
        return x * x.sin()

    model = Symmetrized(bent, "m d -> m d", {"d": Boosts()}, samplers.Canonical(Rapidity()))
    assert testing.assert_equivariant(model, timelike()).error < 1e-9
    with pytest.raises(GroupError, match=r"Expected noise=0 for Boosts\(\(\)\), which has no `noise_laws` on 'd'"):
        Symmetrized(bent, "m d -> m d", {"d": Boosts()}, samplers.Learned(Rapidity()))
    with pytest.raises(GroupError, match=r"Expected a compact group, which has a uniform law \(got Boosts"):
        Symmetrized(bent, "m d -> m d", {"d": Boosts()})(timelike())
    with pytest.raises(GroupError, match="Expected a finite group"):
        Symmetrized(bent, "m d -> m d", {"d": Boosts()}, samplers.Enumerate())
    with pytest.raises(GroupError, match="for a frame"):
        Symmetrized(bent, "m d -> m d", {"d": Boosts()}, samplers.Frame())


def test_a_coupling_without_its_verb_names_it() -> None:
    class Plain(groups.O):
        def opposite(self, g: Tensor, mask: Tensor | None = None) -> Tensor:
            return groups.Group.opposite(self, g, mask)

    model = Symmetrized(lambda x: x[:, 0], "m d -> d", {"d": Plain(3)})
    with pytest.raises(GroupError, match=r"has the verb `opposite` \(got Plain\(3\), which has not\)"):
        model(torch.randn(2, 4, 3), samples=4, coupling="antithetic")


def test_a_group_without_features_is_refused_by_samplers_with_nets() -> None:
    class Nameless(groups.O):
        feature_field = None

    model = Symmetrized(lambda x: x[:, 0], "m d -> d", {"d": Nameless(3)}, samplers.FromHaar(lambda x: x[:, :3].mT))
    with pytest.raises(GroupError, match=r"has a `feature_field` for a sampler with a net \(got Nameless\(3\)\)"):
        model(torch.randn(2, 4, 3))


@dataclass(frozen=True, repr=False)
class Turns(groups.Group):
    """Cyclic shifts of an axis of any size, by the abstract verbs and a list of elements alone."""

    finite = True

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"plain"})

    def element_shape(self, size: int | None = None) -> tuple[int, ...]:
        return (2,)  # by how much, and of how many

    def axis_size(self, kind: str = "plain") -> None:
        return None

    def identity(self, batch=(), *, size=None, dtype=None, device=None) -> Tensor:
        return torch.tensor([0, size], device=device).expand(*batch, 2)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return torch.stack([(g[..., 0] + h[..., 0]) % g[..., 1], (g + 0 * h)[..., 1]], -1)

    def inverse(self, g: Tensor) -> Tensor:
        return torch.stack([-g[..., 0] % g[..., 1], g[..., 1]], -1)

    def act(self, g: Tensor, x: Tensor, axis: Axis = -1, kind: str = "plain") -> Tensor:
        return act_by_matrix(self.matrix(g, dtype=x.dtype), x, axis % x.dim())

    def contains(self, g: Tensor) -> Tensor:
        return (g[..., 0] >= 0) & (g[..., 0] < g[..., 1])

    def matrix(self, g: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        n = int(g[..., 1].flatten()[0])
        places = (torch.arange(n) + g[..., :1]) % n
        return nn.functional.one_hot(places, n).mT.to(dtype or torch.float32)

    def cardinality(self, size: int | None = None) -> int:
        assert size is not None
        return size

    def elements(self, *, size: int | None = None, device: torch.device | None = None) -> Tensor:
        assert size is not None
        return torch.stack([torch.arange(size), torch.full((size,), size)], -1)


def test_a_finite_group_without_a_list_of_elements_names_the_verb() -> None:
    class Unlisted(Turns):
        elements = groups.Group.elements
        cardinality = groups.Group.cardinality

    for verb in ("elements", "cardinality"):
        with pytest.raises(GroupError, match=rf"has the verb `{verb}` \(got Unlisted\(\)"):
            getattr(Unlisted(), verb)()


def test_a_list_of_elements_is_enough_to_be_tested_enumerated_and_drawn() -> None:
    testing.assert_group_laws(Turns(), size=5)
    x = torch.randn(3, 5, dtype=torch.float64)
    model = Symmetrized(lambda x: x * x[:, :1], "n -> n", {"n": Turns()}, samplers.Enumerate())
    assert model.estimate(x).samples == 5
    assert testing.assert_equivariant(model, x).error < 1e-12
    drawn = Symmetrized(model.base, "n -> n", {"n": Turns()}, samples=4000)
    torch.testing.assert_close(drawn(x), model(x), rtol=0, atol=0.2)


@dataclass(frozen=True, repr=False)
class Crystal(groups.Group):
    """Rotations of a cube about any point: the number of a rotation and a translation, (*batch, 4)."""

    compact = False
    kinds = frozenset({"plain", "point"})
    linear = groups.Octahedral()

    def element_shape(self, size: int | None = None) -> tuple[int, ...]:
        return (4,)

    def axis_size(self, kind: str = "plain") -> int:
        return 3

    def linear_part(self, g: Tensor) -> Tensor:
        return g[..., 0].long()

    def translation(self, g: Tensor) -> Tensor:
        return g[..., 1:]

    def with_translation(self, g: Tensor, translation: Tensor) -> Tensor:
        batch = torch.broadcast_shapes(g.shape, translation.shape[:-1])
        return torch.cat([g.expand(batch).unsqueeze(-1), translation.expand(*batch, 3)], -1)

    def identity(self, batch=(), *, size=None, dtype=None, device=None) -> Tensor:
        return torch.zeros(*batch, 4, dtype=dtype, device=device)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        q, r = self.linear_part(g), self.linear_part(h)
        return self.with_translation(
            self.linear.compose(q, r), self.linear.act(q, self.translation(h)) + self.translation(g)
        )

    def inverse(self, g: Tensor) -> Tensor:
        q = self.linear.inverse(self.linear_part(g))
        return self.with_translation(q, -self.linear.act(q, self.translation(g)))

    def act(self, g: Tensor, x: Tensor, axis: Axis = -1, kind: str = "plain") -> Tensor:
        y, t = self.linear.act(self.linear_part(g), x, axis), self.translation(g)
        shape = [*t.shape[:-1], *(1 for _ in y.shape[t.dim() - 1 :])]
        shape[axis] = 3
        return y + t.view(shape).to(y.dtype) if kind == "point" else y

    def contains(self, g: Tensor) -> Tensor:
        return self.linear.contains(self.linear_part(g))

    def matrix(self, g: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        q, t = self.linear.matrix(self.linear_part(g), dtype=dtype or g.dtype), self.translation(g).unsqueeze(-1)
        last = torch.eye(4, dtype=q.dtype)[3:].expand(*g.shape[:-1], 1, 4)
        return torch.cat([torch.cat([q, t.to(q.dtype)], -1), last], -2)

    def random(self, batch=(), *, generator=None, **options) -> Tensor:
        t = torch.randn(*batch, 3, dtype=options["dtype"], generator=generator)
        return self.with_translation(self.linear.haar(batch, generator=generator), t)


def second(x: Tensor) -> Tensor:
    return x[..., 1, 0] + x[..., 2, 1].square()


@pytest.mark.parametrize(
    "sampler",
    [
        samplers.Haar(),
        samplers.Enumerate(),
        samplers.Energy(second),
        samplers.Quadrature(1),
        samplers.Canonical(nets.Lifted(second, Crystal.linear)),
        samplers.Learned(nets.Lifted(second, Crystal.linear)),
    ],
    ids=lambda sampler: type(sampler).__name__,
)
def test_where_a_group_translates_its_finite_part_is_served(sampler: samplers.Sampler) -> None:
    testing.assert_group_laws(Crystal())
    x = torch.randn(3, 4, 3, dtype=torch.float64)
    model = Symmetrized(lambda x: x[:, 0] ** 2, "n d:point -> d:point", {"d": Crystal()}, sampler)
    assert testing.assert_equivariant(model, x).error < 1e-9
