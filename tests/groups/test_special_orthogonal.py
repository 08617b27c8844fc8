import pytest
import torch
from torch.testing import assert_close

from probsym.groups import SO, O
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
    return SO(d).haar(batch, dtype=torch.float64, generator=seeded(seed))


def test_acts_like_the_rotation_it_is():
    angle = torch.tensor(0.7, dtype=torch.float64)
    q = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(2, 2)
    x, y = normal(5, 2).unbind(-1)
    wanted = torch.stack([angle.cos() * x - angle.sin() * y, angle.sin() * x + angle.cos() * y], -1)
    assert SO(2).contains(q)
    for kind in ("plain", "axial"):
        assert_close(SO(2).act(q, torch.stack([x, y], -1), kind=kind), wanted)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8])
def test_project_multiplies_the_first_column_by_the_determinant(d):
    z = normal(40, d, d)
    q, wanted = SO(d).project(z), O(d).project(z)
    determinant = torch.linalg.det(wanted).round()
    assert set(determinant.tolist()) == {-1.0, 1.0}
    assert torch.equal(q[..., 1:], wanted[..., 1:])
    assert torch.equal(q[..., 0], wanted[..., 0] * determinant.unsqueeze(-1))
    assert_close(torch.linalg.det(q), torch.ones(40, dtype=torch.float64))


def test_gradient_of_project():
    assert torch.autograd.gradcheck(SO(3).project, normal(4, 3, 3).requires_grad_())


def test_contains_refuses_reflections():
    q = draws(3, 5)
    flip = torch.diag(torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64))
    assert SO(3).contains(q).all()
    assert not SO(3).contains(q @ flip).any()
    assert O(3).contains(q @ flip).all()
    assert not SO(3).contains(q * 1.001).any()


def test_all_of_haar_are_rotations():
    for d in (1, 2, 3, 5):
        assert_close(torch.linalg.det(draws(d, DRAWS)), torch.ones(DRAWS, dtype=torch.float64))
    assert torch.equal(draws(1, 5), torch.ones(5, 1, 1, dtype=torch.float64))


def expected_second_moments(d):
    """As in O(d), but in the plane Q = [[c, -s], [s, c]]: E Q11 Q22 = E c^2 = 1/2 and E Q12 Q21 = -E s^2 = -1/2."""
    expected = orthogonal_second_moments(d)
    if d == 2:
        expected[0, 0, 1, 1] = expected[1, 1, 0, 0] = 0.5
        expected[0, 1, 1, 0] = expected[1, 0, 0, 1] = -0.5
    return expected


@dimensions
def test_haar_has_the_moments_of_the_uniform_law(d):
    q = draws(d, DRAWS)
    assert first_moments(q) < STANDARD_ERRORS
    assert second_moments(q, expected_second_moments(d)) < STANDARD_ERRORS


def test_in_the_plane_second_moments_tell_rotations_from_reflections():
    assert second_moments(draws(2, DRAWS), orthogonal_second_moments(2)) > STANDARD_ERRORS
    assert second_moments(O(2).project(normal(DRAWS, 2, 2)), expected_second_moments(2)) > STANDARD_ERRORS


def small_turns(d, *batch, seed=0):
    skew = 0.4 * normal(*batch, d, d, seed=seed)
    return torch.linalg.matrix_exp(skew - skew.mT)


@dimensions
def test_the_moments_have_teeth(d):
    turns = small_turns(d, DRAWS)
    assert SO(d).contains(turns).all()
    assert first_moments(turns) > STANDARD_ERRORS
    assert second_moments(turns, expected_second_moments(d)) > STANDARD_ERRORS


@dimensions
def test_signs_on_the_diagonal_are_fair(d):
    assert share_deviation(draws(d, DRAWS).diagonal(dim1=-2, dim2=-1) > 0) < STANDARD_ERRORS
    assert share_deviation(small_turns(d, DRAWS).diagonal(dim1=-2, dim2=-1) > 0) > STANDARD_ERRORS


@dimensions
def test_haar_is_invariant_from_both_sides(d):
    fixed, q, r = draws(d, seed=7), draws(d, DRAWS, seed=8), draws(d, DRAWS, seed=9)
    assert same_law(q, fixed @ r) > NEVER
    assert same_law(q, r @ fixed) > NEVER
    assert same_law(q, r.mT) > NEVER


@dimensions
def test_the_comparison_of_laws_has_teeth(d):
    fixed, q, r = draws(d, seed=7), small_turns(d, DRAWS, seed=8), small_turns(d, DRAWS, seed=9)
    assert same_law(q, r) > NEVER
    assert same_law(q, fixed @ r) < NEVER
    assert same_law(q, r @ fixed) < NEVER
