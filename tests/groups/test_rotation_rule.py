"""Rules over rotations against Wigner matrices, which average to zero over the group."""

import sys

import numpy as np
import pytest
import torch
from scipy.special import sph_harm_y

from probsym import groups
from probsym.errors import DependencyError, GroupError, RangeError
from probsym.groups.rotation_rule import LEBEDEV, rotation_rule


def harmonics(order: int, points: np.ndarray) -> np.ndarray:
    """All spherical harmonics of an order at points (n, 3), (n, 2 order + 1)."""
    angles = np.arccos(np.clip(points[:, 2], -1, 1)), np.arctan2(points[:, 1], points[:, 0])
    return np.stack([sph_harm_y(order, m, *angles) for m in range(-order, order + 1)], 1)


def wigner(order: int, rotations: np.ndarray) -> np.ndarray:
    """How harmonics follow rotations (k, 3, 3): matrices (k, 2 order + 1, 2 order + 1)."""
    points = np.random.default_rng(order).normal(size=(4 * order + 8, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    inverse = np.linalg.pinv(harmonics(order, points))
    turned = np.einsum("kij,nj->kni", rotations, points).reshape(-1, 3)
    return inverse @ harmonics(order, turned).reshape(len(rotations), len(points), -1)


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 6, 9])
def test_wigner_matrices_average_to_zero_up_to_the_degree_and_not_above(degree: int) -> None:
    rotations, weights = (tensor.numpy() for tensor in groups.SO(3).quadrature(degree))
    off = [np.abs(np.einsum("k,kij->ij", weights, wigner(order, rotations))).max() for order in range(1, degree + 2)]
    assert max(off[:-1]) < 1e-10
    assert off[-1] > 1e-2
    assert abs(weights.sum() - 1) < 1e-12


@pytest.mark.parametrize("degree", [0, 1, 4, 7])
@pytest.mark.parametrize("group", [groups.SO(2), groups.O(2)], ids=repr)
def test_turns_of_the_plane_average_to_zero_up_to_the_degree_and_not_above(group: groups.O, degree: int) -> None:
    q, weights = group.quadrature(degree)
    angle = torch.atan2(q[:, 1, 0], q[:, 0, 0])
    off = [(weights * (order * angle).cos()).sum().abs() for order in range(1, degree + 2)]
    assert max([0.0, *off[:-1]]) < 1e-12
    assert off[-1] > 0.1
    assert len(weights) == (degree + 1) * (1 + group.reflects)
    assert ((weights * torch.linalg.det(q)).sum().abs() < 1e-12) == group.reflects


def test_reflections_of_space_are_as_many() -> None:
    q, weights = groups.O(3).quadrature(3)
    assert len(q) == 48
    assert groups.O(3).contains(q).all()
    assert (weights * torch.linalg.det(q)).sum().abs() < 1e-12
    third = torch.einsum("k,kij,kmn,kop->ijmnop", weights, q, q, q)  # of an odd degree
    assert third.abs().max() < 1e-12


def test_one_dimension_and_finite_groups_are_listed() -> None:
    assert groups.SO(1).quadrature(5)[0].tolist() == [[[1.0]]]
    assert groups.O(1).quadrature(5)[0].flatten().tolist() == [1.0, -1.0]
    elements, weights = groups.Icosahedral().quadrature(1)
    assert len(elements) == 60
    assert (weights == 1 / 60).all()


def test_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GroupError, match=r"at most 3 dimensions for a quadrature rule \(got 4\)"):
        groups.SO(4).quadrature(2)
    with pytest.raises(RangeError, match="degree to be 0 or more"):
        rotation_rule(2, -1)
    with pytest.raises(RangeError, match=f"at most {LEBEDEV[-1]} in three dimensions"):
        rotation_rule(3, LEBEDEV[-1] + 1)
    with pytest.raises(GroupError, match=r"verb `quadrature` \(got S\(\)"):
        groups.S().quadrature(2)
    monkeypatch.setitem(sys.modules, "scipy.integrate", None)
    with pytest.raises(DependencyError, match=r"scipy 1\.15 or later"):
        rotation_rule(3, 2)
    assert len(rotation_rule(2, 2)[0]) == 3
