"""The rotation groups of the regular solids: their law tables, and the solids themselves."""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch

from probsym import Symmetrized, samplers
from probsym.groups import Icosahedral, Octahedral, Tetrahedral
from probsym.groups.polyhedral import GOLDEN
from tests.groups.test_rotation_rule import wigner
from tests.groups.uniformity import NEVER, seeded, uniform

CLASSES = {  # how many rotations there are of each trace, 1 + 2 cos(angle)
    Tetrahedral(): {3: 1, -1: 3, 0: 8},
    Octahedral(): {3: 1, -1: 9, 0: 8, 1: 6},
    Icosahedral(): {3: 1, -1: 15, 0: 20, round(GOLDEN, 6): 12, round(1 - GOLDEN, 6): 12},
}
CORNERS = {
    Tetrahedral(): [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)],
    Octahedral(): list(itertools.product((1, -1), repeat=3)),
    Icosahedral(): [tuple(np.roll((a, 0, b * GOLDEN), k)) for a in (1, -1) for b in (1, -1) for k in range(3)],
}
every = pytest.mark.parametrize("group", CLASSES, ids=repr)


@every
def test_matrices_are_the_rotations_of_the_solid(group) -> None:
    matrices = group.matrix(group.elements(), dtype=torch.float64)
    assert torch.linalg.det(matrices).sub(1).abs().max() < 1e-14
    assert Counter(round(trace, 6) for trace in matrices.diagonal(dim1=1, dim2=2).sum(1).tolist()) == CLASSES[group]
    corners = torch.tensor(CORNERS[group], dtype=torch.float64)
    moved = corners @ matrices.mT
    nearest = torch.cdist(moved, corners).min(-1)
    assert nearest.values.max() < 1e-14
    assert (nearest.indices.sort(-1).values == torch.arange(len(corners))).all()


@every
def test_the_law_table_is_that_of_the_matrices(group) -> None:
    elements, table = group.elements(), group.table
    assert (table.sort(0).values == elements.unsqueeze(1)).all()  # each element once in each row and column
    assert (table.sort(1).values == elements).all()
    matrices = group.matrices
    assert (matrices[table] - matrices.unsqueeze(1) @ matrices).abs().max() < 1e-14
    assert torch.equal(table[table], table[:, table])  # (gh)k = g(hk) for all


def test_the_icosahedral_group_is_simple() -> None:
    """The conjugates of any element but the identity generate it all."""
    group = Icosahedral()
    for g in (1, 2, 10, 30, 59):
        inside = {0, *group.table[group.table[:, g], group.inverses()].tolist()}
        while len(more := inside | {int(group.table[a, b]) for a in inside for b in inside}) > len(inside):
            inside = more
        assert len(inside) == 60


@pytest.mark.parametrize(("group", "degree"), [(Tetrahedral(), 2), (Octahedral(), 3), (Icosahedral(), 5)], ids=repr)
def test_averages_are_those_of_all_rotations_up_to_a_degree(group, degree: int) -> None:
    matrices = group.matrices.numpy()
    off = [np.abs(wigner(order, matrices).mean(0)).max() for order in range(1, degree + 2)]
    assert max(off[:-1]) < 1e-12
    assert off[-1] > 1e-2


@every
def test_enumeration_is_exact_and_haar_uniform(group) -> None:
    x = torch.randn(3, 4, 3, dtype=torch.float64)
    model = Symmetrized(lambda x: x[:, 0].exp(), "m d -> d", {"d": group}, samplers.Enumerate())
    wanted = sum((x[:, 0] @ q).exp() @ q.T for q in group.matrices) / group.order
    torch.testing.assert_close(model(x), wanted)
    assert model.estimate(x).samples == group.order
    assert uniform(group.haar((6000,), generator=seeded()).unsqueeze(-1), group.elements().unsqueeze(-1)) > NEVER
    half = group.matrices[group.opposite(torch.tensor(0))]
    assert torch.equal(half @ half, torch.eye(3, dtype=torch.float64))
