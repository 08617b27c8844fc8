from contextlib import suppress
from itertools import permutations

import pytest
import torch
from torch.testing import assert_close

from probsym.errors import DtypeError
from probsym.groups import S
from tests.groups.uniformity import NEVER, seeded, uniform

group = S()
P = torch.tensor([2, 0, 3, 1])


def by_hand(p):
    matrix = torch.zeros(len(p), len(p), dtype=torch.float64)
    for j, place in enumerate(p.tolist()):
        matrix[place, j] = 1
    return matrix


def draws(*batch, n=4, seed=0):
    return group.haar(batch, size=n, generator=seeded(seed))


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=seeded(seed))


def test_conventions():
    q, x = torch.tensor([1, 3, 0, 2]), torch.tensor([10.0, 20.0, 30.0, 40.0])
    assert group.act(group.inverse(P), x).tolist() == [30.0, 10.0, 40.0, 20.0]
    assert group.act(P, x).tolist() == [20.0, 40.0, 10.0, 30.0]
    assert group.compose(P, q).tolist() == [0, 1, 2, 3]
    assert group.compose(q, q).tolist() == [3, 2, 1, 0]
    assert group.matrix(P).tolist() == [[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 1, 0]]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_matches_permutation_matrices(n):
    for p, q in zip(draws(6, n=n), draws(6, n=n, seed=1), strict=True):
        x = normal(n, 3)
        assert_close(group.matrix(p, dtype=torch.float64), by_hand(p))
        assert_close(group.act(p, x, 0), by_hand(p) @ x)
        assert_close(group.act(group.inverse(p), x, 0), by_hand(p).mT @ x)
        assert_close(group.act(group.inverse(p), x, 0), x[p])
        assert_close(by_hand(group.compose(p, q)), by_hand(p) @ by_hand(q))
        assert group.compose(p, q).tolist() == [p.tolist()[j] for j in q.tolist()]


@pytest.mark.parametrize("axis", [1, 2, 3, -1, -2, -3])
def test_acts_along_any_axis(axis):
    p, x = draws(3), normal(3, 4, 4, 4)
    matrices = torch.stack([by_hand(permutation) for permutation in p])
    terms = {1: "bij,bjkl->bikl", 2: "bij,bkjl->bkil", 3: "bij,bklj->bkli"}
    assert_close(group.act(p, x, axis), torch.einsum(terms[axis % 4], matrices, x))


def test_relabels_a_graph():
    adjacency = normal(4, 4)
    moved = group.act(P, group.act(P, adjacency, 0), 1)
    assert_close(moved, by_hand(P) @ adjacency @ by_hand(P).mT)


def test_a_shared_axis_acts_like_copies():
    p, x = draws(2, 5), normal(2, 1, 3, 4, 2).requires_grad_()
    copies = x.detach().expand(2, 5, 3, 4, 2).clone().requires_grad_()
    weights = normal(2, 5, 3, 4, 2, seed=1)
    (group.act(p, x, -2) * weights).sum().backward()
    (group.act(p, copies, -2) * weights).sum().backward()
    assert torch.equal(group.act(p, x, -2), group.act(p, copies, -2))
    assert_close(x.grad, copies.grad.sum(1, keepdim=True))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.float16, torch.complex64], ids=str)
def test_moves_every_dtype(dtype):
    p, x = draws(3), torch.arange(24).view(3, 4, 2).remainder(5).to(dtype)
    moved = group.act(p, x, 1)
    assert moved.dtype == dtype
    for i in range(3):
        assert torch.equal(moved[i, p[i]], x[i])


def test_gradient_in_x():
    p = draws(2)
    assert torch.autograd.gradcheck(lambda x: group.act(p, x, 1), normal(2, 4, 3).requires_grad_())
    assert torch.autograd.gradcheck(lambda x: group.act(p, x, -1), normal(1, 3, 4).requires_grad_())


def test_compose_broadcasts():
    p, q = draws(3, 1), draws(5, seed=1)
    product = group.compose(p, q)
    assert product.shape == (3, 5, 4)
    assert torch.equal(product[2, 3], p[2, 0][q[3]])


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8], ids=str)
def test_small_integers_are_refused_or_right(dtype):
    p, x = P.to(dtype), torch.arange(4)
    with suppress(DtypeError):
        assert group.compose(p, p).tolist() == group.compose(P, P).tolist()
        assert group.inverse(p).tolist() == group.inverse(P).tolist()
        assert torch.equal(group.act(p, x), group.act(P, x))


def test_project_is_the_descending_order():
    scores = normal(5, 7)
    wanted = [sorted(range(7), key=lambda j: -row[j]) for row in scores.tolist()]
    assert group.project(scores).tolist() == wanted


def test_ties_follow_the_noise_and_then_the_place():
    scores = torch.tensor([1.0, 2.0, 1.0, 2.0, 1.0])
    assert group.project(scores).tolist() == [1, 3, 0, 2, 4]
    assert group.project(scores, noise=torch.tensor([0.1, 0.2, 0.9, 0.3, 0.5])).tolist() == [3, 1, 2, 4, 0]
    assert group.project(torch.tensor([0.0, -0.0, 0.0]), noise=torch.tensor([0.1, 0.9, 0.5])).tolist() == [1, 2, 0]


def test_noise_leaves_distinct_scores_alone():
    scores = normal(20, 9)
    assert torch.equal(group.project(scores, noise=1e6 * normal(20, 9, seed=1)), group.project(scores))


def test_masked_project_puts_padding_last_in_its_own_order():
    scores = torch.tensor([[3.0, 9.0, 5.0, 7.0, 4.0], [1.0, 2.0, 3.0, 4.0, 5.0]])
    mask = torch.tensor([[True, False, True, False, True], [False, True, True, True, True]])
    wanted = [[2, 4, 0, 1, 3], [4, 3, 2, 1, 0]]
    assert group.project(scores, mask=mask).tolist() == wanted
    assert group.project(scores.where(mask, torch.nan), noise=scores, mask=mask).tolist() == wanted
    assert group.project(scores[0], mask=mask).tolist() == [wanted[0], [1, 3, 2, 4, 0]]


@pytest.mark.parametrize(
    ("p", "inside"),
    [([0, 1, 2], True), ([2, 1, 0], True), ([0, 0, 1], False), ([1, 2, 3], False), ([-1, 0, 1], False)],
)
def test_contains(p, inside):
    assert group.contains(torch.tensor(p)).item() is inside


@pytest.mark.parametrize(
    ("p", "inside"), [([0, 2, 1], True), ([2, 0, 1], True), ([0, 1, 2], False), ([0, 2, 3], False)]
)
def test_contains_masked(p, inside):
    assert group.contains(torch.tensor(p), mask=torch.tensor([True, False, True])).item() is inside


@pytest.mark.parametrize("n", [1, 2, 4])
def test_elements_lists_every_permutation_once(n):
    listed = group.elements(size=n).tolist()
    assert listed == [list(p) for p in permutations(range(n))]
    assert listed[0] == group.identity(size=n).tolist()


ALL = group.elements(size=4)


def test_haar_is_uniform():
    assert uniform(draws(24000), ALL) > NEVER


def test_haar_is_uniform_whatever_it_is_composed_with():
    assert uniform(group.compose(P, draws(24000)), ALL) > NEVER
    assert uniform(group.compose(draws(24000), P), ALL) > NEVER


def test_the_chi_square_has_teeth():
    keys = group.features((24000,), size=4, generator=seeded())
    assert uniform(group.project(keys + 0.02 * torch.arange(4)), ALL) < NEVER
    swaps = torch.randint(4, (24000, 4), generator=seeded())
    naive = group.identity((24000,), size=4).clone()
    rows = torch.arange(24000)
    for j in range(4):
        other = naive[rows, swaps[:, j]]
        naive[rows, swaps[:, j]] = naive[:, j]
        naive[:, j] = other
    assert uniform(naive, ALL) < NEVER


MASK = torch.tensor([False, True, True, False, True])
REAL_FIRST = torch.tensor([[*order, 0, 3] for order in permutations([1, 2, 4])])


def test_masked_haar_is_uniform_over_orders_of_the_real_items():
    orders = group.haar((12000,), mask=MASK.expand(12000, -1), generator=seeded())
    assert uniform(orders, REAL_FIRST) > NEVER
    assert uniform(group.haar((12000,), mask=MASK, generator=seeded(1)), REAL_FIRST) > NEVER


def test_masked_haar_when_sizes_differ_in_the_batch():
    mask = torch.stack([MASK, torch.tensor([True, False, False, False, True])])
    orders = group.haar((8000, 2), mask=mask, generator=seeded())
    assert uniform(orders[:, 0], REAL_FIRST) > NEVER
    assert uniform(orders[:, 1], torch.tensor([[0, 4, 1, 2, 3], [4, 0, 1, 2, 3]])) > NEVER


def test_the_masked_chi_square_has_teeth():
    keys = group.features((12000,), size=5, generator=seeded())
    assert uniform(group.project(keys, mask=MASK), REAL_FIRST) > NEVER
    assert uniform(group.project(keys, mask=~MASK), REAL_FIRST) < NEVER
    assert uniform(group.project(keys + 0.02 * torch.arange(5), mask=MASK), REAL_FIRST) < NEVER


def test_batch_items_are_drawn_independently():
    pairs = draws(8000, 2, n=3).flatten(1)
    three = group.elements(size=3)
    both = torch.cat([three.repeat_interleave(6, 0), three.repeat(6, 1)], -1)
    assert uniform(pairs, both) > NEVER


def test_a_batched_mask_alone_gives_independent_draws():
    orders = group.haar(mask=torch.ones(50, 6, dtype=torch.bool), generator=seeded())
    assert orders.shape == (50, 6)
    assert len(orders.unique(dim=0)) > 1


def test_ties_among_the_keys_do_not_bias_haar():
    keys = torch.zeros(24000, 4)
    assert uniform(group.project(keys, noise=group.features((24000,), size=4, generator=seeded())), ALL) > NEVER
