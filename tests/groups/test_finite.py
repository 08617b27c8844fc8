"""Finite groups by number: a user's own needs five verbs and has them all."""

import pytest
import torch
from torch import Tensor, nn

from examples.own_group import Shifts
from probsym import Symmetrized, groups, nets, samplers, testing
from probsym.errors import DtypeError, RangeError, ShapeError

BOTH = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


@BOTH
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_shifts_are_a_group(n: int, dtype: torch.dtype) -> None:
    testing.assert_group_laws(Shifts(n), dtype=dtype)


def test_a_shift_is_a_roll() -> None:
    x = torch.arange(10.0).view(2, 5)
    assert torch.equal(Shifts(5).act(torch.tensor([2, 0]), x), torch.stack([x[0].roll(2), x[1]]))


def test_inverses_come_from_the_products() -> None:
    assert Shifts(5).inverses().tolist() == [0, 4, 3, 2, 1]
    assert torch.equal(groups.Finite.inverses(groups.D(4)), groups.D(4).inverses())


def test_opposites_are_half_the_list_away() -> None:
    assert Shifts(8).opposite(torch.tensor([0, 3, 5])).tolist() == [4, 7, 1]


def test_opposites_follow_products_from_the_left() -> None:
    """In a group that does not commute, those of `Finite` itself."""
    group = groups.D(3)
    h, g = torch.cartesian_prod(group.elements(), group.elements()).T
    both = groups.Finite.opposite(group, group.compose(h, g))
    assert torch.equal(both, group.compose(h, groups.Finite.opposite(group, g)))


@BOTH
def test_weights_act_as_the_sum_over_elements(dtype: torch.dtype) -> None:
    group, weights = Shifts(4), torch.rand(3, 4, dtype=dtype)
    x = torch.randn(3, 4, 2, dtype=dtype)
    wanted = sum(weights[:, k, None, None] * x.roll(k, 1) for k in range(4))
    torch.testing.assert_close(group.act(weights, x, 1), wanted)
    undone = sum(weights[:, k, None, None] * x.roll(-k, 1) for k in range(4))
    torch.testing.assert_close(group.act(group.inverse(weights), x, 1), undone)


def test_gradients_reach_the_net_as_those_of_a_softmax() -> None:
    group, x = Shifts(4), torch.randn(3, 4, dtype=torch.float64)
    logits = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    _, carrier = group.choose(logits, tau=0.7)
    assert isinstance(carrier, Tensor)
    (gradient,) = torch.autograd.grad(group.act(carrier, x, 1).square().sum(), logits)
    hard = group.act(group.project(logits), x, 1)
    soft = torch.softmax(logits / 0.7, -1)
    moved = torch.stack([x.roll(k, 1) for k in range(4)], -1)
    (wanted,) = torch.autograd.grad((2 * hard.detach() * (moved * soft.unsqueeze(1)).sum(-1)).sum(), logits)
    torch.testing.assert_close(gradient, wanted)
    with torch.no_grad():
        assert group.choose(logits)[1].dtype == torch.long


def test_learned_draws_train_their_net() -> None:
    torch.manual_seed(0)
    group, score = Shifts(6), nn.Linear(6, 1)
    sampler = samplers.Learned(nets.Lifted(score, group, rank=1), noise=0.5, tau=1.0)
    model = Symmetrized(nn.Linear(6, 3), "n -> k", {"n": group}, sampler, samples=4)
    model(torch.randn(5, 6)).square().sum().backward()
    assert score.weight.grad is not None
    assert score.weight.grad.abs().max() > 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Shifts(4).project(torch.ones(3)), ShapeError, r"\(\*batch, 4\)"),
        (lambda: Shifts(4).inverse(torch.ones(3)), ShapeError, r"\(\*batch, 4\)"),
        (lambda: Shifts(4).act(torch.ones(4), torch.ones(4).long()), DtypeError, "to weigh the elements"),
        (lambda: Shifts(4).act(torch.tensor(1), torch.ones(5)), ShapeError, "size 4"),
        (lambda: Shifts(4).inverse(torch.tensor(1, dtype=torch.int32)), DtypeError, "int64"),
    ],
)
def test_refuses(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("g", [-1, 4, [0, 7]])
def test_elements_that_there_are_not_are_refused(g: int | list[int]) -> None:
    group, element = groups.C(4), torch.tensor(g)
    for verb in (group.inverse, group.matrix, lambda elements: group.compose(elements, elements)):
        with pytest.raises(RangeError, match=r"Expected elements of C\(4\) from 0 to 3 \(got (-1|4|7)\)"):
            verb(element)
    with pytest.raises(RangeError, match="Expected elements of C"):
        group.act(element, torch.ones(2).expand(*element.shape, 2))
    assert not bool(group.contains(element).all())


def test_permutations_that_are_none_are_refused() -> None:
    for g in ([0, 0, 1], [0, 1, 3], [-1, 0, 1]):
        for verb in (
            groups.S().inverse,
            groups.S().matrix,
            lambda permutation: groups.S().act(permutation, torch.ones(3)),
        ):
            with pytest.raises(RangeError, match="Expected a permutation"):
                verb(torch.tensor(g))
