"""Rules in place of draws: exact up to their degree, unbiased and equivariant in distribution above it."""

import pytest
import torch
from torch import Tensor

from probsym import Symmetrized, groups, samplers, testing
from probsym.errors import GroupError, RangeError

ROTATIONS = [groups.SO(2), groups.O(2), groups.SO(3), groups.O(3), groups.E(2), groups.SE(3)]
turning = pytest.mark.parametrize("group", ROTATIONS, ids=repr)


def points(group: groups.Group, batch: int = 3) -> Tensor:
    return torch.randn(batch, 4, group.axis_size(), dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def cubic(x: Tensor) -> Tensor:
    """A vector that is a polynomial of degree three in the points, with terms of all lower ones."""
    return x[:, 0] ** 3 + x[:, 1] ** 2 * x[:, 2].flip(-1) + x[:, 3] ** 2 - x[:, 1] + 0.5


def smooth(x: Tensor) -> Tensor:
    return torch.exp(x[:, 0].sin() + x[:, 1].flip(-1))


def model(group: groups.Group, base, degree: int, **options) -> Symmetrized:
    term = "n d:point" if isinstance(group, groups.E) else "n d"
    return Symmetrized(base, f"{term} -> d", {"d": group}, samplers.Quadrature(degree, **options))


@turning
def test_polynomials_are_averaged_exactly_up_to_the_degree(group: groups.Group) -> None:
    x = points(group)
    wanted = model(group, cubic, 9)(x)
    exact = model(group, cubic, 4)  # three of the base, one of the vector that comes out
    torch.testing.assert_close(exact(x), wanted, atol=1e-10, rtol=0)
    torch.testing.assert_close(exact(x), exact(x), atol=1e-10, rtol=0)  # whatever the turn is
    assert (model(group, cubic, 2)(x) - wanted).abs().max() > 1e-2


@turning
def test_a_fixed_rule_is_equivariant_up_to_its_degree_and_not_above(group: groups.Group) -> None:
    x = points(group)
    fixed = model(group, cubic, 4, random=False)
    assert torch.equal(fixed(x), fixed(x))
    assert testing.assert_equivariant(fixed, x).error < 1e-10
    with pytest.raises(AssertionError, match=r"Expected phi\(g x\) = g phi\(x\)"):
        testing.assert_equivariant(model(group, cubic, 2, random=False), x)


@pytest.mark.parametrize("group", [groups.O(2), groups.SE(3)], ids=repr)
def test_any_function_is_averaged_without_bias(group: groups.Group) -> None:
    x = points(group, 1).expand(600, -1, -1)
    values = model(group, smooth, 1)(x, generator=torch.Generator().manual_seed(1))
    wanted = model(group, smooth, 25)(points(group, 1))
    error = values.std(0) / len(values) ** 0.5
    assert ((values.mean(0) - wanted[0]).abs() / error).max() < 4
    assert error.min() > 0


@pytest.mark.parametrize("group", [groups.SO(2), groups.SO(3)], ids=repr)
def test_it_is_nearer_than_as_many_uniform_draws(group: groups.Group) -> None:
    x = points(group, 50)
    wanted = model(group, smooth, 25)(x)
    rule = model(group, smooth, 6)
    haar = Symmetrized(smooth, "n d -> d", {"d": group}, samples=rule.estimate(x[:1]).samples)
    assert (rule(x) - wanted).square().mean() < 0.1 * (haar(x) - wanted).square().mean()


def test_one_turned_rule_has_no_standard_error() -> None:
    estimate = model(groups.SO(3), smooth, 2).estimate(points(groups.SO(3)), tol=1e-3)
    assert estimate.stderr.isnan().all()
    assert estimate.samples == 18
    torch.testing.assert_close(estimate.weights.sum(1), torch.ones(3, dtype=torch.float64))


def test_products_are_rules_of_all_combinations() -> None:
    bound = {"d": groups.SO(2), "e": groups.C(3)}
    x = torch.randn(2, 2, 2, dtype=torch.float64)
    made = Symmetrized(lambda x: x.tanh(), "d e -> d e", bound, samplers.Quadrature(4))
    estimate = made.estimate(x)
    assert estimate.samples == 15
    assert (
        len(torch.cat([estimate.elements["d"].flatten(2), estimate.elements["e"].unsqueeze(-1)], -1)[0].unique(dim=0))
        == 15
    )
    assert testing.assert_equivariant(made, x).error < 1e-12


class Cyclic(groups.Finite):
    """Shifts of a few places; all print alike, and elements of unequal number do not compose."""

    kinds = frozenset({"plain"})
    order = 0

    def __init__(self, places: int) -> None:
        self.order = places

    def __repr__(self) -> str:
        return "Cyclic()"

    def axis_size(self, kind: str = "plain") -> int:
        return self.order

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        assert g.shape == h.shape
        return (g + h) % self.order

    def inverses(self, device: torch.device | None = None) -> Tensor:
        return -self.elements(device=device) % self.order

    def matrix(self, g: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        return torch.eye(self.order, dtype=dtype)[(torch.arange(self.order) - g.unsqueeze(-1)) % self.order]


class Mutable(Cyclic):
    """As those of a dataclass that is not frozen, no keys of a dictionary."""

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("group", [Cyclic, Mutable])
@pytest.mark.parametrize("random", [True, False])
def test_groups_that_print_alike_have_rules_of_their_own(random: bool, group: type[Cyclic]) -> None:
    x, bound = torch.arange(12.0).view(1, 3, 4), {"a": group(3), "b": group(4)}
    made = Symmetrized(lambda x: x[:, 0, 0] ** 2, "a b -> ", bound, samplers.Quadrature(2, random=random))
    assert made.estimate(x).samples == 12
    torch.testing.assert_close(made(x), x.square().mean((1, 2)))


def test_models_that_share_a_sampler_share_the_rules_of_equal_groups() -> None:
    sampler, x = samplers.Quadrature(3), torch.randn(2, 4, 3)
    for group in (groups.SO(3), groups.SO(3), groups.O(3), groups.O(3)):
        Symmetrized(lambda x: x[:, 0] ** 2, "n d -> d", {"d": group}, sampler)(x)
    assert [*sampler._rules] == [groups.SO(3), groups.O(3)]


def test_without_groups_there_is_one_element() -> None:
    x = torch.randn(2, 3)
    for sampler in (samplers.Quadrature(3), samplers.Energy(lambda x: x[:, 0], elements=4)):
        assert torch.equal(Symmetrized(lambda x: x, "c -> c", {}, sampler)(x), x)


def test_chunks_bound_what_the_base_sees() -> None:
    rows: list[int] = []
    made = Symmetrized(
        lambda x: rows.append(len(x)) or x[:, 0], "n d -> d", {"d": groups.SO(3)}, samplers.Quadrature(2), chunk=5
    )
    made(points(groups.SO(3), 1))
    assert rows == [5, 5, 5, 3]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: samplers.Quadrature(-1), RangeError, "degree to be a whole number"),
        (lambda: samplers.Quadrature(2.0), RangeError, "degree to be a whole number"),
        (lambda: samplers.Quadrature(2, limit=0), RangeError, "limit"),
        (
            lambda: Symmetrized(smooth, "n d -> d", {"d": groups.SO(3)}, samplers.Quadrature(5, limit=50)),
            GroupError,
            r"at most 50 elements in a rule of degree 5 \(got 84\)",
        ),
        (
            lambda: Symmetrized(smooth, "n d -> n", {"n": groups.S()}, samplers.Quadrature(2)),
            GroupError,
            r"verb `quadrature` \(got S\(\)",
        ),
        (
            lambda: Symmetrized(smooth, "n d -> d", {"d": groups.O(4)}, samplers.Quadrature(2)),
            GroupError,
            "at most 3 dimensions",
        ),
        (lambda: model(groups.SO(2), smooth, 2)(points(groups.SO(2)), samples=3), RangeError, "no samples for Quad"),
        (
            lambda: model(groups.SO(2), smooth, 2)(points(groups.SO(2)), coupling="antithetic"),
            RangeError,
            "no coupling for Quadrature",
        ),
    ],
)
def test_refuses(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()
