import pytest
import torch
from torch.testing import assert_close

from probsym.groups import SE, SO, E
from tests.groups.uniformity import STANDARD_ERRORS, first_moments, orthogonal_second_moments, second_moments, seeded


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=seeded(seed))


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_haar_draws_motions_about_the_centroid(d):
    centroid = normal(200, d)
    g = SE(d).haar((200,), centroid=centroid, generator=seeded())
    assert torch.equal(g[..., d], centroid)
    assert_close(torch.linalg.det(g[..., :d]), torch.ones(200, dtype=torch.float64))


def test_haar_is_uniform():
    g = SE(3).haar((8000,), dtype=torch.float64, generator=seeded())
    assert first_moments(g[..., :3]) < STANDARD_ERRORS
    assert second_moments(g[..., :3], orthogonal_second_moments(3)) < STANDARD_ERRORS


def test_contains_refuses_reflections():
    g = SE(3).haar((5,), centroid=normal(5, 3), generator=seeded())
    mirrored = g * torch.tensor([-1.0, 1.0, 1.0, 1.0])
    assert SE(3).contains(g).all()
    assert not SE(3).contains(mirrored).any()
    assert E(3).contains(mirrored).all()


def test_the_linear_group_is_that_of_rotations():
    assert SE(3).linear == SO(3)
    assert E(3).linear.reflects
    assert not SE(3).linear.reflects


def test_the_product_of_motions_is_the_product_of_homogeneous_matrices():
    g, h = (SE(3).haar((4,), centroid=normal(4, 3, seed=s), generator=seeded(s)) for s in (1, 2))
    last = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64).expand(4, 1, 4)
    wanted = torch.cat([g, last], 1) @ torch.cat([h, last], 1)
    assert_close(SE(3).compose(g, h), wanted[:, :3])
    assert_close(SE(3).act(g, h[..., 3], kind="point"), wanted[:, :3, 3])


def test_axial_vectors_are_vectors():
    g, x = SE(3).haar((4,), dtype=torch.float64, generator=seeded()), normal(4, 6, 3)
    assert torch.equal(SE(3).act(g, x, kind="axial"), SE(3).act(g, x))
