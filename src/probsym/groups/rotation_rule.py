"""Quadrature rules over the rotations in two and three dimensions, exact for polynomials up to a degree."""

import math

import torch
from torch import Tensor

from probsym.errors import DependencyError, GroupError, RangeError

LEBEDEV = (*range(3, 32, 2), *range(35, 132, 6))
"""The degrees for which there is a Lebedev rule on the sphere."""


def rotation_rule(d: int, degree: int) -> tuple[Tensor, Tensor]:
    """Rotations (count, d, d) and weights (count,), exact for polynomials up to a degree in the matrix entries.

    In the plane, these are degree + 1 equally spaced rotations. In space, each of these about the z axis is followed by
    rotations that bring the z axis to the points of a Lebedev rule: the former average over the angle about the axis,
    which leaves a polynomial on the sphere for the Lebedev rule. The Lebedev rules are those
    of Lebedev and Laikov (1999, "A quadrature formula for the sphere of the 131st algebraic order of accuracy"), from
    scipy.

    >>> [len(rotation_rule(3, degree)[0]) for degree in (0, 1, 2, 3, 5)]
    [1, 12, 18, 24, 84]
    """
    if degree < 0:
        raise RangeError(f"Expected degree to be 0 or more (got {degree})")
    if d == 1 or degree == 0:
        return torch.eye(d, dtype=torch.float64).unsqueeze(0), torch.ones(1, dtype=torch.float64)
    if d > 3:
        raise GroupError(f"Expected rotations of at most 3 dimensions for a quadrature rule (got {d})")
    angles = torch.arange(degree + 1, dtype=torch.float64) * (2 * math.pi / (degree + 1))
    turns = _turn(angles, d)
    if d == 2:
        return turns, torch.full((degree + 1,), 1 / (degree + 1), dtype=torch.float64)
    points, weights = sphere_rule(degree)
    longitude, latitude = torch.atan2(points[:, 1], points[:, 0]), torch.acos(points[:, 2].clamp(-1, 1))
    tilt = _turn(latitude, 3)[:, [[1], [2], [0]], [1, 2, 0]]  # about y in place of z: z goes towards x
    rotations = (_turn(longitude, 3) @ tilt).unsqueeze(1) @ turns
    return rotations.flatten(0, 1), (weights / (degree + 1)).repeat_interleave(degree + 1)


def sphere_rule(degree: int) -> tuple[Tensor, Tensor]:
    """The points (count, 3) and weights (count,) of the smallest Lebedev rule that is exact up to a degree."""
    order = next((available for available in LEBEDEV if available >= degree), None)
    if order is None:
        raise RangeError(f"Expected degree to be at most {LEBEDEV[-1]} in three dimensions (got {degree})")
    try:
        from scipy.integrate import lebedev_rule  # noqa: PLC0415
    except ImportError as error:
        raise DependencyError(
            "Expected scipy 1.15 or later for a rule in three dimensions (got none); it comes with probsym[lab]"
        ) from error
    points, weights = lebedev_rule(order)
    return torch.from_numpy(points.T.copy()), torch.from_numpy(weights) / (4 * math.pi)


def _turn(angle: Tensor, d: int) -> Tensor:
    """Rotations of the first two of d axes, (count, d, d)."""
    matrix = torch.eye(d, dtype=angle.dtype).repeat(len(angle), 1, 1)
    matrix[:, 0, 0] = matrix[:, 1, 1] = angle.cos()
    matrix[:, 1, 0], matrix[:, 0, 1] = angle.sin(), -angle.sin()
    return matrix
