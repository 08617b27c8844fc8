import math
from contextlib import suppress

import pytest
import torch
from torch.nn.functional import one_hot
from torch.testing import assert_close

from probsym.errors import DtypeError
from probsym.groups import C, D
from tests.groups.uniformity import seeded

every = pytest.mark.parametrize("group", [kind(m) for kind in (C, D) for m in (1, 2, 3, 4, 5, 12)], ids=repr)
some = pytest.mark.parametrize("group", [C(1), C(4), C(5), D(1), D(3), D(4)], ids=repr)
on_grids = pytest.mark.parametrize("group", [kind(m) for kind in (C, D) for m in (1, 2, 4)], ids=repr)


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=seeded(seed))


def by_hand(group, k):
    """Flip the y axis if k is among the second m elements, then turn by k / m of a full turn."""
    angle = 2 * math.pi * (k % group.m) / group.m
    turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.float64)
    flip = torch.diag(torch.tensor([1.0, -1.0 if k >= group.m else 1.0], dtype=torch.float64))
    return turn @ flip


@every
def test_matrices(group):
    elements = group.elements()
    assert len(elements) == group.order == group.m * (1 if isinstance(group, C) else 2)
    wanted = torch.stack([by_hand(group, k) for k in range(group.order)])
    assert_close(group.matrix(elements, dtype=torch.float64), wanted)


@every
def test_grids_are_exact_where_every_turn_is_a_multiple_of_a_quarter(group):
    assert group.kinds == {"plain", "axial", "grid"}
    assert group.exact_on("grid") == (group.m in (1, 2, 4))
    assert group.exact_on("plain")
    assert group.needs_square is (group.m == 4)


@pytest.mark.parametrize("group", [C(4), C(12), D(4), D(12)], ids=repr)
def test_quarter_turns_are_exact(group):
    quarters = group.matrix(group.elements()[:: group.m // 4], dtype=torch.float64)
    assert set(quarters.flatten().tolist()) == {-1.0, 0.0, 1.0}


@every
def test_composes_and_inverts_like_matrices(group):
    for g in range(group.order):
        inverse = group.inverse(torch.tensor(g)).item()
        assert_close(by_hand(group, inverse), by_hand(group, g).T)
        for h in range(group.order):
            product = group.compose(torch.tensor(g), torch.tensor(h)).item()
            assert_close(by_hand(group, product), by_hand(group, g) @ by_hand(group, h))


def test_compose_broadcasts():
    table = D(4).compose(D(4).elements().unsqueeze(-1), D(4).elements())
    assert table.shape == (8, 8)
    assert all(sorted(line) == list(range(8)) for line in [*table.tolist(), *table.T.tolist()])


@every
def test_vectors_turn_by_cosine_and_sine(group):
    x = normal(5, 2)
    for k in range(group.order):
        g = torch.tensor(k)
        assert_close(group.act(g, x), x @ by_hand(group, k).T)
        sign = -1 if k >= group.m else 1
        assert_close(group.act(g, x, kind="axial"), sign * x @ by_hand(group, k).T)


@pytest.mark.parametrize("axis", [1, 2, 3, -1, -2, -3])
def test_acts_along_any_axis(axis):
    g, x = torch.tensor([1, 7, 4]), normal(3, 2, 2, 2)
    matrices = torch.stack([by_hand(D(5), k) for k in g.tolist()])
    terms = {1: "bij,bjkl->bikl", 2: "bij,bkjl->bkil", 3: "bij,bklj->bkli"}
    assert_close(D(5).act(g, x, axis), torch.einsum(terms[axis % 4], matrices, x))


def moved_pixel(group, k, row, column, height, width):
    """Where the 2 x 2 matrix takes a pixel, with y upwards and the origin in the middle of the image."""
    x, y = column - (width - 1) / 2, (height - 1) / 2 - row
    x, y = (by_hand(group, k) @ torch.tensor([x, y], dtype=torch.float64)).tolist()
    return [round((height - 1) / 2 - y), round(x + (width - 1) / 2)]


SQUARES, RECTANGLES = [(1, 1), (4, 4), (5, 5)], [(2, 5), (3, 4)]
IMAGES = [
    (kind(m), *shape) for kind in (C, D) for m in (1, 2, 4) for shape in (SQUARES if m == 4 else SQUARES + RECTANGLES)
]


@pytest.mark.parametrize(("group", "height", "width"), IMAGES)
def test_a_hot_pixel_moves_like_the_vector_to_it(group, height, width):
    for k in range(group.order):
        for row in range(height):
            for column in range(width):
                image = torch.zeros(height, width)
                image[row, column] = 1
                moved = group.act(torch.tensor(k), image, (0, 1), "grid")
                assert moved.nonzero().tolist() == [moved_pixel(group, k, row, column, height, width)]


@on_grids
def test_one_element_per_image_and_channels_anywhere(group):
    g = torch.arange(7) % group.order
    x = normal(7, 2, 4, 4, 3)
    moved = group.act(g, x, (2, 3), "grid")
    assert torch.equal(moved, group.act(g, x, (-3, -2), "grid"))
    for i in range(7):
        for first in range(2):
            for last in range(3):
                assert torch.equal(moved[i, first, ..., last], group.act(g[i], x[i, first, ..., last], (0, 1), "grid"))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.float16], ids=str)
def test_grids_of_every_dtype(dtype):
    x = torch.arange(9).view(3, 3).remainder(4).to(dtype)
    moved = D(4).act(D(4).elements(), x.expand(8, 3, 3), (1, 2), "grid")
    assert moved.dtype == dtype
    for k in range(8):
        flipped = x.flip(0) if k >= 4 else x
        assert torch.equal(moved[k], flipped.rot90(k % 4))


@pytest.mark.parametrize("kind", ["plain", "axial", "grid"])
def test_a_shared_axis_acts_like_copies(kind):
    group, g = D(4), torch.randint(8, (2, 5), generator=seeded())
    weights = torch.softmax(normal(2, 5, 8), -1)
    axis, shape = ((-3, -2), (4, 4, 3)) if kind == "grid" else (-2, (4, 2, 3))
    x = normal(2, 1, *shape)
    for chosen in (g, weights):
        moved = group.act(chosen, x, axis, kind)
        assert_close(moved, group.act(chosen, x.expand(2, 5, *shape), axis, kind))
        assert_close(moved[1, 3], group.act(chosen[1, 3], x[1, 0], axis, kind))


@pytest.mark.parametrize("kind", ["plain", "axial", "grid"])
def test_gradients_of_act(kind):
    group, g, weights = D(4), torch.tensor([1, 6]), torch.softmax(normal(2, 8), -1).requires_grad_()
    axis, shape = ((1, 2), (3, 3)) if kind == "grid" else (-1, (3, 2))
    x = normal(2, *shape).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: group.act(g, x, axis, kind), x)
    assert torch.autograd.gradcheck(lambda w, x: group.act(w, x, axis, kind), (weights, x))
    assert torch.autograd.gradcheck(lambda w, x: group.act(w, x, axis, kind), (weights, normal(1, *shape)))


def test_contains():
    for group in (C(5), D(3)):
        inside = group.contains(torch.tensor([-1, 0, group.order - 1, group.order]))
        assert inside.tolist() == [False, True, True, False]


@some
def test_project_takes_the_largest_logit(group):
    logits = normal(6, group.order)
    wanted = [row.index(max(row)) for row in logits.tolist()]
    assert group.project(logits).tolist() == wanted
    assert group.project(logits, noise=100 * normal(6, group.order, seed=1)).tolist() == wanted


def test_ties_go_to_the_largest_noise_or_else_the_first():
    logits = torch.tensor([1.0, 3.0, 3.0, 3.0])
    assert C(4).project(logits).item() == 1
    assert C(4).project(logits, noise=torch.tensor([0.9, 0.1, 0.2, 0.3])).item() == 3


@some
def test_logits_follow_by_the_regular_representation(group):
    logits = normal(group.order)
    for g in group.elements():
        moved = group.move(g, logits)
        for h in group.elements():
            assert moved[group.compose(g, h)] == logits[h]


@some
@pytest.mark.parametrize("tau", [1.0, 0.3])
def test_straight_through_is_hard_forwards(group, tau):
    logits = normal(6, group.order)
    weights = group.straight_through(logits, tau=tau)
    assert torch.equal(weights, one_hot(logits.argmax(-1), group.order).double())
    tied, noise = torch.zeros_like(logits), normal(6, group.order, seed=1)
    assert torch.equal(group.straight_through(tied, noise=noise, tau=tau).argmax(-1), noise.argmax(-1))


def softmax_pullback(logits, cotangent, tau):
    """d/dz_j sum_k v_k s_k = s_j (v_j - sum_k s_k v_k) / tau for s = softmax(z / tau)."""
    soft = (logits / tau).exp()
    soft = soft / soft.sum(-1, keepdim=True)
    return soft * (cotangent - (soft * cotangent).sum(-1, keepdim=True)) / tau


@some
@pytest.mark.parametrize("tau", [1.0, 0.3])
def test_straight_through_is_soft_backwards(group, tau):
    logits, cotangent = normal(6, group.order).requires_grad_(), normal(6, group.order, seed=1)
    group.straight_through(logits, tau=tau).backward(cotangent)
    assert_close(logits.grad, softmax_pullback(logits.detach(), cotangent, tau))


def test_the_gradient_through_act_weighs_every_element():
    group, x, cotangent = C(4), normal(3, 5, 5), normal(3, 5, 5, seed=1)
    logits = normal(3, 4, seed=2).requires_grad_()
    group.act(group.straight_through(logits, tau=0.5), x, (1, 2), "grid").backward(cotangent)
    worth = torch.stack([(x.rot90(k, (1, 2)) * cotangent).sum((1, 2)) for k in range(4)], -1)
    assert_close(logits.grad, softmax_pullback(logits.detach(), worth, 0.5))


def test_straight_through_of_halves_is_float32():
    assert C(4).straight_through(torch.zeros(4, dtype=torch.bfloat16)).dtype == torch.float32


CASES = [(group, kind) for group in (C(1), C(4), C(5), D(1), D(3), D(4)) for kind in ("plain", "axial", "grid")]


@pytest.mark.parametrize(("group", "kind"), [case for case in CASES if case[1] != "grid" or 4 % case[0].m == 0])
def test_weights_act_as_the_weighted_sum(group, kind):
    axis, shape = ((1, 2), (5, 5, 2)) if kind == "grid" else (-1, (3, 2))
    x, weights = normal(6, *shape), normal(6, group.order, seed=1)
    wanted = sum(
        weights[:, k].view(6, *(1 for _ in shape)) * group.act(torch.full((6,), k), x, axis, kind)
        for k in range(group.order)
    )
    assert_close(group.act(weights, x, axis, kind), wanted)


@pytest.mark.parametrize(("group", "kind"), [case for case in CASES if case[1] != "grid" or 4 % case[0].m == 0])
def test_one_hot_weights_act_as_the_element(group, kind):
    axis, shape = ((1, 2), (5, 5, 2)) if kind == "grid" else (-1, (3, 2))
    g = group.elements()
    x, weights = normal(group.order, *shape), one_hot(g, group.order).double()
    assert_close(group.act(weights, x, axis, kind), group.act(g, x, axis, kind))
    assert_close(group.act(group.inverse(weights), x, axis, kind), group.act(group.inverse(g), x, axis, kind))


@some
def test_inverse_of_weights_is_the_weights_of_the_inverses(group):
    weights = normal(3, group.order)
    inverse = group.inverse(weights)
    for k in range(group.order):
        assert torch.equal(inverse[:, group.inverse(torch.tensor(k))], weights[:, k])


def test_weights_leave_the_dtype_of_x_alone():
    weights = torch.tensor([0.25, 0.75, 0.0, 0.0], dtype=torch.float64)
    for dtype in (torch.float16, torch.float32, torch.float64):
        assert C(4).act(weights, torch.ones(2, dtype=dtype)).dtype == dtype
        assert C(4).act(weights, torch.ones(2, 2, dtype=dtype), (0, 1), "grid").dtype == dtype


def test_weights_on_an_integer_image_are_refused_or_right():
    weights, image = torch.full((4,), 0.25), torch.full((2, 2), 8)
    with suppress(DtypeError):
        assert_close(C(4).act(weights, image, (0, 1), "grid").double(), image.double())


def test_one_hot_weights_act_as_the_element_under_autocast():
    x, g = torch.tensor([1.0, 0.0]), torch.tensor(1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        turned = C(3).act(one_hot(g, 3).float(), x)
    assert_close(turned, C(3).act(g, x))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
def test_small_integers_are_refused_or_right(dtype):
    g, x = torch.tensor([1, 5], dtype=dtype), normal(2, 2)
    with suppress(DtypeError):
        assert D(3).inverse(g).tolist() == D(3).inverse(g.long()).tolist()
        assert D(3).compose(g, g).tolist() == D(3).compose(g.long(), g.long()).tolist()
        assert torch.equal(D(3).act(g, x), D(3).act(g.long(), x))
