import pytest
import torch
from torch.testing import assert_close

from probsym.groups import O
from tests.groups.uniformity import (
    NEVER,
    STANDARD_ERRORS,
    first_moments,
    orthogonal_second_moments,
    same_law,
    second_moments,
    seeded,
    share_deviation,
)

DRAWS = 8000
dimensions = pytest.mark.parametrize("d", [2, 3, 5])


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=seeded(seed))


def draws(d, *batch, seed=0):
    return O(d).haar(batch, dtype=torch.float64, generator=seeded(seed))


def mirror(d):
    return torch.diag(torch.tensor([-1.0, *[1.0] * (d - 1)], dtype=torch.float64))


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_rows_are_multiplied_by_the_transpose(d):
    q, x = draws(d), normal(7, d)
    wanted = [[sum(q[i, j] * row[j] for j in range(d)).item() for i in range(d)] for row in x]
    assert_close(O(d).act(q, x), torch.tensor(wanted, dtype=torch.float64))
    assert_close(O(d).act(q, x), x @ q.T)


@pytest.mark.parametrize("axis", [1, 2, 3, -1, -2, -3])
def test_acts_along_any_axis(axis):
    q, x = draws(3, 4), normal(4, 3, 3, 3)
    terms = {1: "bij,bjkl->bikl", 2: "bij,bkjl->bkil", 3: "bij,bklj->bkli"}
    assert_close(O(3).act(q, x, axis), torch.einsum(terms[axis % 4], q, x))


def test_composes_and_inverts_like_matrices():
    g, h = draws(3, 2), draws(3, 2, seed=1)
    assert_close(O(3).compose(g, h), torch.einsum("bij,bjk->bik", g, h))
    assert_close(O(3).inverse(g), torch.linalg.inv(g))
    assert_close(O(3).matrix(g), g)


def test_an_axial_vector_takes_the_sign_of_the_determinant():
    group, x = O(3), normal(2, 3)
    g = torch.stack([torch.eye(3).double(), mirror(3)]) @ draws(3)
    signs = torch.linalg.det(g).round().unsqueeze(-1)
    assert sorted(signs.flatten().tolist()) == [-1, 1]
    assert_close(group.act(g, x, kind="axial"), signs * group.act(g, x))


def test_the_cross_product_is_axial():
    group, a, b = O(3), normal(50, 3), normal(50, 3, seed=1)
    g = draws(3, 50, seed=2)
    moved = torch.linalg.cross(group.act(g, a), group.act(g, b))
    assert_close(group.act(g, torch.linalg.cross(a, b), kind="axial"), moved)


@pytest.mark.parametrize("kind", ["plain", "axial"])
def test_a_shared_axis_acts_like_copies(kind):
    q, x = draws(3, 2, 5), normal(2, 1, 4, 3, 2)
    rotated = O(3).act(q, x, -2, kind)
    assert_close(rotated, O(3).act(q, x.expand(2, 5, 4, 3, 2), -2, kind))
    assert_close(rotated[1, 3], O(3).act(q[1, 3], x[1, 0], -2, kind))


@pytest.mark.parametrize("kind", ["plain", "axial"])
def test_gradients_of_act(kind):
    inputs = draws(3, 2).requires_grad_(), normal(2, 3, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda q, x: O(3).act(q, x, 1, kind), inputs)
    shared = draws(2, 2, 3).requires_grad_(), normal(2, 1, 4, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda q, x: O(2).act(q, x, kind=kind), shared)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_halves_are_rotated_in_float32_and_rounded_once(dtype):
    q, x = draws(5, 100).float(), normal(100, 8, 5).to(dtype)
    rotated = O(5).act(q, x)
    assert rotated.dtype == dtype
    assert torch.equal(rotated, (x.float() @ q.mT).to(dtype))


def test_autocast_does_not_reach_the_action():
    q, x = draws(5, 100).float(), normal(100, 8, 5).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rotated = O(5).act(q, x)
    assert torch.equal(rotated, O(5).act(q, x))


def test_acts_on_an_empty_batch():
    assert O(3).act(torch.eye(3).expand(0, 3, 3), torch.ones(0, 5, 3)).shape == (0, 5, 3)


def test_contains():
    q = draws(4, 5)
    assert O(4).contains(q).all()
    assert O(4).contains(mirror(4) @ q).all()
    assert O(4).contains(q.float()).all()
    assert not O(4).contains(q * (1 + 1e-6)).any()
    assert not O(4).contains(q + 1e-6).any()
    assert not O(4).contains(torch.zeros(4, 4))
    assert not O(4).contains(torch.full((4, 4), torch.nan))
    mixed = torch.stack([q[0], 2 * q[0]])
    assert O(4).contains(mixed).tolist() == [True, False]


def textbook(z):
    columns = []
    for column in z.T:
        rest = column.clone()
        for before in columns:
            rest = rest - (before @ column) * before
        columns.append(rest / rest.norm())
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8])
def test_project_is_the_gram_schmidt_of_the_columns(d):
    z = normal(6, d, d)
    assert_close(O(d).project(z), torch.stack([textbook(matrix) for matrix in z]), rtol=0, atol=1e-10)


def test_project_leaves_elements_alone():
    q = draws(5, 20)
    assert_close(O(5).project(q), q, rtol=0, atol=1e-14)


def test_gradient_of_project():
    assert torch.autograd.gradcheck(O(3).project, normal(2, 3, 3).requires_grad_())


def without_sign_fix(d, *batch, seed=0):
    return torch.linalg.qr(normal(*batch, d, d, seed=seed)).Q


@dimensions
def test_haar_has_the_moments_of_the_uniform_law(d):
    q = draws(d, DRAWS)
    assert first_moments(q) < STANDARD_ERRORS
    assert second_moments(q, orthogonal_second_moments(d)) < STANDARD_ERRORS


@dimensions
def test_the_moments_have_teeth(d):
    assert first_moments(without_sign_fix(d, DRAWS)) > STANDARD_ERRORS
    leaning = O(d).project(normal(DRAWS, d, d) + torch.eye(d))
    sign = normal(DRAWS, 1, 1, seed=1).sign()
    assert first_moments(sign * leaning) < STANDARD_ERRORS
    assert second_moments(sign * leaning, orthogonal_second_moments(d)) > STANDARD_ERRORS


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_half_of_haar_are_reflections(d):
    assert share_deviation(torch.linalg.det(draws(d, DRAWS)) > 0) < STANDARD_ERRORS
    assert share_deviation(torch.linalg.det(without_sign_fix(d, DRAWS)) > 0) > STANDARD_ERRORS


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_signs_on_the_diagonal_are_fair(d):
    def positive(q):
        return q.diagonal(dim1=-2, dim2=-1) > 0

    assert share_deviation(positive(draws(d, DRAWS))) < STANDARD_ERRORS
    assert share_deviation(positive(without_sign_fix(d, DRAWS))) > STANDARD_ERRORS


@dimensions
def test_haar_is_invariant_from_both_sides(d):
    fixed, q, r = draws(d, seed=7), draws(d, DRAWS, seed=8), draws(d, DRAWS, seed=9)
    assert same_law(q, fixed @ r) > NEVER
    assert same_law(q, r @ fixed) > NEVER
    assert same_law(q, mirror(d) @ r) > NEVER
    assert same_law(q, r.mT) > NEVER


@dimensions
def test_the_comparison_of_laws_has_teeth(d):
    fixed, q, r = draws(d, seed=7), without_sign_fix(d, DRAWS, seed=8), without_sign_fix(d, DRAWS, seed=9)
    assert same_law(q, r) > NEVER
    assert same_law(q, fixed @ r) < NEVER
    assert same_law(q, r @ fixed) < NEVER


def test_batch_items_are_drawn_independently():
    q = draws(3, DRAWS, 2).flatten(2)
    products = torch.einsum("ni,nj->nij", q[:, 0], q[:, 1]).flatten(1)
    assert first_moments(products) < STANDARD_ERRORS
