import pytest
import torch
from torch.testing import assert_close

from probsym.errors import RangeError
from probsym.nets.edge_convolution import ALL_PAIRS, EdgeConvolution, nearest
from tests.nets import naive


def normal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def literally(layer, x):
    """x (d, rows, n, channels) as the naive version has it, edge by edge."""
    points = x.movedim(0, 2)
    (edges,) = naive.leaky(layer.edge, [naive.edges(points, naive.nearest(points, layer.neighbours))])
    return naive.pool(layer.pool, edges).movedim(2, 0)


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize(("n", "neighbours"), [(1, 4), (3, 4), (5, 4), (16, 4), (17, 4), (40, 7), (20, 20), (18, 30)])
def test_agrees_with_edges_written_out(n, neighbours, d):
    torch.manual_seed(0)
    layer, x = EdgeConvolution(2, 3, neighbours).double(), normal(d, 4, n, 2)
    leaf, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    output, wanted = layer(leaf), literally(layer, other)
    assert_close(output, wanted, rtol=1e-8, atol=1e-9)
    parameters = [parameter for parameter in layer.parameters() if parameter.requires_grad]
    got = torch.autograd.grad(output.sin().sum(), [leaf, *parameters])
    assert_close(got, torch.autograd.grad(wanted.sin().sum(), [other, *parameters]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [5, 20])
def test_gradient_by_finite_differences(n):
    torch.manual_seed(0)
    layer, mask = EdgeConvolution(1, 2, 4).double(), torch.rand(2, n, generator=torch.Generator().manual_seed(1)) < 0.8
    assert torch.autograd.gradcheck(lambda x: layer(x, mask), normal(2, 2, n, 1).requires_grad_())


@pytest.mark.parametrize("n", [12, 30])
def test_neighbours_are_those_no_further_than_the_last(n):
    x = normal(3, 4, n, 2)
    real = torch.rand(4, n, generator=torch.Generator().manual_seed(1)) < 0.6
    real[0] = False
    real[0, :3] = True
    index, edges = nearest(x, real, 4)
    assert (index is None) == (n <= ALL_PAIRS)
    for r in range(4):
        for i in range(n):
            distance = (x[:, r, i, None] - x[:, r]).square().sum((0, 2))
            order = [j for j in distance.argsort().tolist() if real[r, j]][:4] if real[r, i] else []
            places = edges[:, r, i].nonzero().flatten()
            neighbours = places if index is None else index[places, r, i]
            assert sorted(neighbours.tolist()) == sorted(order)


@pytest.mark.parametrize("spread", [1.0, 1e-3])
def test_neighbours_at_one_distance_are_all_used(spread):
    """Around the centre of a square, all corners are second; to rounding, since one is nearest."""
    square = torch.tensor([[0.0, 0.0], [1, 0], [0, 1], [-1, 0], [0, -1]]).double() * spread
    square[1] *= 1 - 1e-15
    for n in (5, 20):
        x = torch.cat([square, 100 + normal(n - 5, 2)]).T[:, None, :, None]
        index, edges = nearest(x, None, 2)
        places = edges[:, 0, 0].nonzero().flatten()
        neighbours = places if index is None else index[places, 0, 0]
        # the far points give the scale below which distances are equal, here still far below the square
        assert sorted(neighbours.tolist()) == [0, 1, 2, 3, 4]


def test_far_from_the_origin_close_points_are_told_apart():
    line = torch.arange(6, dtype=torch.float32)[None, None, :, None] + 4096
    _, edges = nearest(line, None, 2)
    assert edges[:, 0].sum(0).tolist() == [2, 3, 3, 3, 3, 2]


def test_no_vector_of_an_edge_is_kept():
    kept = []
    layer, x = EdgeConvolution(2, 8, 4), torch.randn(7, 10, 16, 2)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: kept.append(tensor.numel()) or tensor, lambda tensor: tensor
    ):
        layer(x)
    assert max(kept) == 7 * 10 * 16 * 8  # a vector for each point


def test_refuses_malformed_sizes():
    with pytest.raises(RangeError, match="neighbours"):
        EdgeConvolution(2, 3, 0)
