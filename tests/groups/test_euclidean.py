from contextlib import suppress

import pytest
import torch
from torch.testing import assert_close

from probsym.errors import DtypeError
from probsym.groups import E, O
from tests.groups.uniformity import STANDARD_ERRORS, first_moments, orthogonal_second_moments, second_moments, seeded


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=seeded(seed))


def motions(d, *batch, seed=0):
    return E(d).haar(batch, centroid=3 * normal(*batch, d, seed=seed + 100), generator=seeded(seed))


def homogeneous(g):
    """[[Q, t], [0, 1]], entry by entry."""
    d = g.shape[0]
    matrix = torch.zeros(d + 1, d + 1, dtype=g.dtype)
    for i in range(d):
        for j in range(d + 1):
            matrix[i, j] = g[i, j]
    matrix[d, d] = 1
    return matrix


def test_a_point_turns_and_then_shifts():
    quarter = torch.tensor([[0.0, -1.0, 5.0], [1.0, 0.0, 7.0]])
    x = torch.tensor([1.0, 2.0])
    assert E(2).act(quarter, x, kind="point").tolist() == [3.0, 8.0]
    assert E(2).act(quarter, x).tolist() == [-2.0, 1.0]


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_matches_homogeneous_coordinates(d):
    group = E(d)
    for g, h in zip(motions(d, 6), motions(d, 6, seed=1), strict=True):
        x = normal(4, d)
        for kind, last in (("point", 1.0), ("plain", 0.0)):
            columns = torch.cat([x, torch.full((4, 1), last, dtype=x.dtype)], -1).T
            assert_close(group.act(g, x, kind=kind), (homogeneous(g) @ columns)[:d].T)
        assert_close(group.act(g, x, kind="axial"), torch.linalg.det(g[:, :d]) * (x @ g[:, :d].T))
        assert_close(group.matrix(g), homogeneous(g))
        assert_close(homogeneous(group.compose(g, h)), homogeneous(g) @ homogeneous(h))
        assert_close(homogeneous(group.inverse(g)), torch.linalg.inv(homogeneous(g)))


@pytest.mark.parametrize("axis", [1, 2, 3, -1, -2, -3])
def test_acts_along_any_axis(axis):
    g, x = motions(3, 4), normal(4, 3, 3, 3)
    terms = {1: "bij,bjkl->bikl", 2: "bij,bkjl->bkil", 3: "bij,bklj->bkli"}
    turned = torch.einsum(terms[axis % 4], g[..., :3], x)
    shape = [4, 1, 1, 1]
    shape[axis] = 3
    assert_close(E(3).act(g, x, axis), turned)
    assert_close(E(3).act(g, x, axis, "point"), turned + g[..., 3].reshape(shape))


@pytest.mark.parametrize("kind", ["plain", "axial", "point"])
def test_a_shared_axis_acts_like_copies(kind):
    g, x = motions(3, 2, 5), normal(2, 1, 4, 3, 2)
    moved = E(3).act(g, x, -2, kind)
    assert_close(moved, E(3).act(g, x.expand(2, 5, 4, 3, 2), -2, kind))
    assert_close(moved[1, 3], E(3).act(g[1, 3], x[1, 0], -2, kind))


@pytest.mark.parametrize("kind", ["plain", "axial", "point"])
def test_gradients_of_act(kind):
    inputs = motions(3, 2).requires_grad_(), normal(2, 3, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda g, x: E(3).act(g, x, 1, kind), inputs)
    shared = motions(2, 2, 3).requires_grad_(), normal(2, 1, 4, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda g, x: E(2).act(g, x, kind=kind), shared)


def test_differences_of_points_are_vectors():
    g, a, b = motions(3, 5), normal(5, 3), normal(5, 3, seed=1)
    difference = E(3).act(g, a, kind="point") - E(3).act(g, b, kind="point")
    assert_close(difference, E(3).act(g, a - b))


def test_undoing_an_element_about_the_centroid_centres_the_points():
    points = normal(4, 7, 3) + 10
    g = E(3).haar((4,), centroid=points.mean(1), generator=seeded())
    centred = E(3).act(E(3).inverse(g), points, kind="point")
    assert_close(centred.mean(1), torch.zeros(4, 3, dtype=torch.float64))
    assert_close(centred.norm(dim=-1), (points - points.mean(1, keepdim=True)).norm(dim=-1))


def test_an_element_is_its_linear_part_and_its_translation():
    q, t = O(3).haar((2, 5), dtype=torch.float64, generator=seeded()), normal(2, 1, 3)
    g = E(3).with_translation(q, t)
    assert g.shape == (2, 5, 3, 4)
    rotation, translation = E(3).linear_part(g), E(3).translation(g)
    assert torch.equal(rotation, q)
    assert torch.equal(translation, t.expand(2, 5, 3))
    assert torch.equal(E(3).with_translation(q[0, 0], t), torch.cat([q[0, 0].expand(2, 1, 3, 3), t.unsqueeze(-1)], -1))


def test_contains():
    g = motions(3, 4)
    assert E(3).contains(g).all()
    assert not E(3).contains(2 * g).any()
    broken = g.clone()
    broken[0, 0, 3], broken[1, 2, 3] = torch.inf, torch.nan
    broken[2, 0, 0] += 1e-3
    assert E(3).contains(broken).tolist() == [False, False, False, True]


def test_the_linear_group_names_elements_in_its_place():
    assert E(3).linear == O(3)
    assert E(3).feature_field is None
    assert not E(3).compact
    assert O(3).compact
    q = E(3).linear_part(motions(3, 4))
    assert O(3).linear_part(q) is q
    assert O(3).translation(q) is None


def test_random_motions_translate():
    g = E(3).random((8000,), dtype=torch.float64, generator=seeded())
    shift = E(3).translation(g)
    assert E(3).contains(g).all()
    assert float(shift.mean().abs()) < 0.05
    assert float(shift.std()) == pytest.approx(1, rel=0.02)


def test_haar_is_uniform_about_the_centroid():
    centroid = normal(8000, 3)
    g = E(3).haar((8000,), centroid=centroid, generator=seeded())
    assert torch.equal(g[..., 3], centroid)
    assert first_moments(g[..., :3]) < STANDARD_ERRORS
    assert second_moments(g[..., :3], orthogonal_second_moments(3)) < STANDARD_ERRORS
    assert first_moments(g[..., :3] + 0.05 * torch.eye(3)) > STANDARD_ERRORS


def test_haar_without_centroid_is_about_the_origin():
    g = E(3).haar((5, 2), dtype=torch.float64, generator=seeded())
    assert not g[..., 3].any()
    assert torch.equal(g[..., :3], O(3).haar((5, 2), dtype=torch.float64, generator=seeded()))


def test_batched_centroids_alone_give_independent_draws():
    g = E(3).haar(centroid=torch.zeros(50, 3), generator=seeded())
    assert g.shape == (50, 3, 4)
    assert len(g.unique(dim=0)) > 1


def test_haar_has_the_dtype_asked_for_with_a_centroid_too():
    assert E(3).haar((2,), dtype=torch.float64, centroid=torch.zeros(2, 3)).dtype == torch.float64


def test_a_translation_is_not_rounded():
    with suppress(DtypeError):
        assert E(2).with_translation(torch.eye(2), torch.tensor([0.1, 0.2], dtype=torch.float64))[0, 2].item() == 0.1


def test_the_inverse_is_exact_under_autocast():
    g, x = motions(3, 4).float(), normal(4, 5, 3).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        back = E(3).act(E(3).inverse(g), E(3).act(g, x, kind="point"), kind="point")
    assert_close(back, x, rtol=0, atol=1e-5)
