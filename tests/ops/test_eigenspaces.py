"""Eigenspaces against matrices that are put together from known ones."""

import pytest
import torch

from probsym.groups import O
from probsym.ops.eigenspaces import Eigenspaces, eigenspaces

CASES = {
    (5.0, 3.0, 1.0, -2.0): [0, 1, 2, 3],
    (3.0, 3.0, 1.0, 1.0): [0, 0, 1, 1],
    (2.0, 2.0, 2.0, 2.0): [0, 0, 0, 0],
    (0.0, 0.0, 0.0, 0.0): [0, 0, 0, 0],
    (4.0, 1e-14, 0.0, -1e-14): [0, 1, 1, 1],
    (1e-9, 0.5e-9, 0.0, 0.0): [0, 1, 2, 2],
    (1.0, -1.0, -1.0, -1.0): [0, 1, 1, 1],
}


def made(values, seed=0):
    q = O(4).haar((), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return q, q @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ q.mT


@pytest.mark.parametrize("values", CASES)
def test_spaces_are_found_largest_value_first(values):
    q, matrix = made(values)
    spaces = eigenspaces(matrix, 1e-9)
    assert spaces.space.tolist() == CASES[values]
    assert bool(spaces.simple()) == (len(set(CASES[values])) == 4)
    space = torch.tensor(CASES[values])
    for number in space.unique():
        basis, vectors = q[:, space == number], spaces.vectors[:, space == number]
        torch.testing.assert_close(vectors @ vectors.mT, basis @ basis.mT, rtol=0, atol=1e-8)


@pytest.mark.parametrize("values", CASES)
def test_diagonals_are_those_of_the_projectors(values):
    q, matrix = made(values)
    space, diagonals = torch.tensor(CASES[values]), eigenspaces(matrix, 1e-9).diagonals()
    for number in range(4):
        basis = q[:, space == number]
        torch.testing.assert_close(diagonals[:, number], (basis @ basis.mT).diagonal(), rtol=0, atol=1e-8)
    torch.testing.assert_close(diagonals.sum(-1), torch.ones(4, dtype=torch.float64))


def test_project_sends_each_column_to_its_space():
    q, matrix = made((3.0, 3.0, 1.0, 0.0))
    z = torch.randn(4, 4, dtype=torch.float64)
    plane = q[:, :2] @ q[:, :2].mT
    wanted = torch.stack(
        [plane @ z[:, 0], plane @ z[:, 1], *(torch.outer(q[:, i], q[:, i]) @ z[:, i] for i in (2, 3))], 1
    )
    torch.testing.assert_close(eigenspaces(matrix, 1e-9).project(z), wanted)


def test_projectors_do_not_depend_on_the_basis():
    _, matrix = made((2.0, 2.0, 2.0, 0.0))
    spaces = eigenspaces(matrix, 1e-9)
    turn = torch.block_diag(O(3).haar((), dtype=torch.float64), -torch.eye(1, dtype=torch.float64))
    other, z = Eigenspaces(spaces.vectors @ turn, spaces.space), torch.randn(4, 4, dtype=torch.float64)
    torch.testing.assert_close(other.project(z), spaces.project(z))
    torch.testing.assert_close(other.diagonals(), spaces.diagonals())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batches_are_separate_and_in_float64(dtype):
    matrices = torch.stack([made(values)[1] for values in CASES]).to(dtype).requires_grad_()
    spaces = eigenspaces(matrices, 1e-9 if dtype == torch.float64 else 1e-5)
    assert spaces.vectors.dtype == torch.float64
    assert not spaces.vectors.requires_grad
    assert spaces.space.tolist() == list(CASES.values())


def test_tolerance_is_relative_and_chains():
    values = torch.diag(torch.tensor([100.0, 2.0, 1.5, 1.0], dtype=torch.float64))
    assert eigenspaces(values, 0.006).space.tolist() == [0, 1, 1, 1]
    assert eigenspaces(values, 0.004).space.tolist() == [0, 1, 2, 3]
    assert eigenspaces(values * 1e-6, 0.006).space.tolist() == [0, 1, 1, 1]
