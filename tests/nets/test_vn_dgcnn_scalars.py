"""Types of points beside their vectors: in the net, and for molecules under E(3) and S x E(3)."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from probsym import Symmetrized, errors, groups, nets, samplers, testing
from probsym.nets import VNDGCNN
from tests.nets import naive
from tests.nets.test_vn_dgcnn import build, normal, rotation, some_mask, symmetric_shape

TYPES = 4


def one_hot(*shape, seed=6):
    numbers = torch.randint(TYPES, shape, generator=torch.Generator().manual_seed(seed))
    return nn.functional.one_hot(numbers, TYPES).double()


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("n", [5, 20])
def test_agrees_with_the_formula(n, masked):
    net = build(hidden=12, scalars=TYPES + 1).train()
    mask = some_mask(6, n)
    given, mask = (mask, mask) if masked else (None, torch.ones_like(mask))
    x, kinds, charge = normal(6, 3, n, 3, 2), one_hot(6, n), normal(6, 3, n, 1).requires_grad_()
    features = net(*x.unbind(-1), kinds, charge, mask=given)
    both = torch.cat([kinds.unsqueeze(1).expand(-1, 3, -1, -1), charge], -1)
    scores, vectors = naive.vn_dgcnn(net, *([each[i][:, real] for i, real in enumerate(mask)] for each in (x, both)))
    weights, wanted = (normal(6, 3, n, seed=4), normal(6, 3, 3, 3, seed=5)), 0.0
    for i, real in enumerate(mask):
        assert_close(features.scores[i][:, real], scores[i], rtol=1e-8, atol=1e-9)
        assert_close(features.vectors[i], vectors[i], rtol=1e-8, atol=1e-9)
        wanted = wanted + (scores[i] * weights[0][i][:, real]).sum() + (vectors[i] * weights[1][i]).sum()
    loss = (features.scores * weights[0]).sum() + (features.vectors * weights[1]).sum()
    trained = [charge, *(parameter for parameter in net.parameters() if parameter.requires_grad)]
    assert_close(torch.autograd.grad(loss, trained), torch.autograd.grad(wanted, trained), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("n", [2, 5, 20])
def test_follows_rotations_and_permutations(n, masked):
    net, q = build(1, hidden=24, scalars=TYPES), rotation(3)
    p = torch.randperm(n, generator=torch.Generator().manual_seed(1))
    x, kinds = normal(6, 3, n, 3), one_hot(6, n)
    mask = some_mask(6, n + 2)[:, :n] if masked else None
    if masked:
        mask[:, 0] = True
        x[~mask.unsqueeze(1).expand(-1, 3, -1)], kinds[~mask] = torch.nan, torch.nan
    plain = net(x, kinds, mask=mask)
    moved = net((x @ q.T)[:, :, p], kinds[:, p], mask=mask[:, p] if masked else None)
    assert_close(moved.scores, plain.scores[..., p], rtol=0, atol=1e-9)
    assert_close(moved.vectors, q @ plain.vectors, rtol=0, atol=1e-9)
    if n > 2:
        others = net(x, kinds.roll(1, -1), mask=mask)
        assert (others.vectors - plain.vectors).abs().amax((-2, -1)).gt(1e-6).float().mean() > 0.6


def test_types_break_the_symmetry_of_a_shape():
    """An octahedron points nowhere; with one corner of another type it points there, and the corner has its score."""
    net, shape = build(1, hidden=24, scalars=TYPES), symmetric_shape("octahedron").expand(1, 1, 6, 3)
    kinds = torch.zeros(1, 6, TYPES).double()
    kinds[..., 0] = 1
    plain = net(shape, kinds)
    assert torch.equal(plain.vectors, torch.zeros_like(plain.vectors))
    kinds[0, 2] = torch.tensor([0, 1, 0, 0])  # the corner on the third axis
    features = net(shape, kinds)
    assert features.vectors[..., 2, :].abs().min() > 1e-6
    assert_close(features.vectors[..., :2, :], torch.zeros(1, 1, 2, 3).double())
    scores = features.scores[0, 0]
    assert_close(scores[[0, 1, 3, 4]], scores[:1].expand(4))
    assert (scores[[0, 5]] - scores[2]).abs().min() > 1e-6


def test_without_scalars_nothing_is_there():
    assert VNDGCNN(2).state_dict().keys() == VNDGCNN(2, scalars=0).state_dict().keys()
    assert not any("factor" in name or "scalars" in name for name in VNDGCNN(2).state_dict())
    assert VNDGCNN(2, scalars=3).perturbs == (0, 1)


def test_whole_numbers_and_shapes_without_draws():
    net, x, kinds = build(1, hidden=24, scalars=TYPES), normal(6, 5, 3), one_hot(6, 5)
    features = net(x, kinds.long())
    assert features.scores.shape == (6, 5)
    assert_close(net(x, kinds.unsqueeze(1)).scores, features.scores.unsqueeze(1))


def test_refuses_malformed_calls():
    net, x, kinds = VNDGCNN(1, scalars=TYPES).double(), normal(4, 3, 5, 3), one_hot(4, 5)
    with pytest.raises(errors.ShapeError, match=r"Expected 4 scalars behind 1 inputs of vectors \(got 0\)"):
        net(x)
    with pytest.raises(errors.ShapeError, match=r"\(got 8\)"):
        net(x, kinds, kinds)
    with pytest.raises(errors.ShapeError, match="Expected 0 scalars"):
        VNDGCNN(1).double()(x, kinds)
    with pytest.raises(errors.ShapeError, match="Expected input 1 to fit"):
        net(x, kinds[:, :4])
    with pytest.raises(errors.ShapeError, match="Expected input 1 to be"):
        net(x, kinds[:, 0])
    with pytest.raises(errors.DtypeError, match="Expected input 1 to be a tensor with axes"):
        net(x, torch.tensor(1.0))
    with pytest.raises(errors.RangeError, match="scalars to be 0 or more"):
        VNDGCNN(1, scalars=-1)


# molecules


class Energy(nn.Module):
    """One number from types and positions, which knows the places of atoms and the axes of space."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(TYPES + 3, 16), nn.Linear(16, 1)

    def forward(self, kinds, positions, mask):
        rows = torch.tanh(self.inner(torch.cat([kinds, positions], -1)))
        places = torch.cos(torch.arange(rows.shape[1], dtype=rows.dtype)).unsqueeze(-1)
        return (self.outer(rows) * (1 + places) * mask["n"].unsqueeze(-1)).sum((1, 2))


MOLECULES = {"E(3)": {"d": groups.E(3)}, "S x E(3)": {"n": groups.S(), "d": groups.E(3)}}


def potential(name):
    torch.manual_seed(0)
    bound = MOLECULES[name]
    net = nets.VNDGCNN(in_channels=1, hidden=24, scalars=TYPES, scores="n" in bound)
    sampler = samplers.Learned(net, noise=0.3, tau=0.1, reads=(1, 0))
    return Symmetrized(Energy(), "n c, n d:point -> ", bound, sampler, samples=3).double().eval()


def molecules():
    mask = torch.arange(6) < torch.tensor([[6], [4], [3]])
    return (one_hot(3, 6), 2 * normal(3, 6, 3)), {"n": mask}


@pytest.mark.parametrize("name", MOLECULES)
def test_energies_of_molecules_are_invariant(name, tmp_path):
    model, (inputs, mask) = potential(name), molecules()
    testing.assert_equivariant(model, *inputs, mask=mask)
    noise = model.noise(*inputs, mask=mask)
    assert [tuple(tensor.shape) for tensor in noise.inputs] == [(3, 3, 6, 3)]  # the positions alone
    swapped = inputs[0].roll(1, -1)
    here, there = (model.estimate(kinds, inputs[1], mask=mask, noise=noise) for kinds in (inputs[0], swapped))
    assert not torch.allclose(here.elements["d"], there.elements["d"])
    model.save_pretrained(tmp_path)
    loaded = Symmetrized.from_pretrained(tmp_path, base=model.base).double().eval()
    assert torch.equal(loaded(*inputs, mask=mask, noise=noise), here.mean)


@pytest.mark.parametrize("name", MOLECULES)
def test_forces_and_their_training(name):
    """Forces are those of the energy, and a loss in them reaches what reads the types."""
    model, ((kinds, positions), mask) = potential(name), molecules()
    positions.requires_grad_()
    energy = model(kinds, positions, mask=mask, seed=0)
    (forces,) = torch.autograd.grad(energy.sum(), positions, create_graph=True)
    step, along = 1e-5, normal(3, 6, 3, seed=9) * mask["n"].unsqueeze(-1)
    with torch.no_grad():
        ahead, behind = (model(kinds, positions + sign * step * along, mask=mask, seed=0) for sign in (1, -1))
    assert_close((forces * along).sum((1, 2)), (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-7)
    (forces.square().sum() + energy.square().sum()).backward()
    assert model.sampler.net.first.factor.weight.grad.abs().max() > 0
