import math

import pytest
import torch
from scipy import stats
from torch.testing import assert_close

from probsym.errors import DtypeError, RankError, ShapeError
from probsym.ops import gram_schmidt

DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-8}
both_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def normal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def off_orthonormal(q):
    return (q.mT @ q - torch.eye(q.shape[-1], dtype=q.dtype)).abs().max().item()


def ill_conditioned(name, d, dtype):
    """(8, d, d) matrices whose columns nearly depend on each other, on both sides of the tolerance."""
    z = normal(8, d, d)
    match name:
        case "gaussian":
            pass
        case "hilbert":
            z = 1 / (torch.arange(d)[:, None] + torch.arange(d) + 1.0).expand(8, d, d)
        case "graded singular values":
            u, _, v = torch.linalg.svd(z)
            z = u @ torch.diag(torch.logspace(0, -14, d, dtype=torch.float64)) @ v
        case "shrinking columns":
            z = z * torch.logspace(0, -7, d, dtype=torch.float64)
        case "close to the first column":
            size = 100 * TOLERANCE[dtype]
            z = torch.cat([z[..., :1], z[..., :1] + size * z[..., 1:]], dim=-1)
        case "low rank":
            z = z[..., : (d + 1) // 2] @ normal(8, (d + 1) // 2, d, seed=1)
    return z.to(dtype)


NAMES = [
    "gaussian",
    "hilbert",
    "graded singular values",
    "shrinking columns",
    "close to the first column",
    "low rank",
]


@both_dtypes
@pytest.mark.parametrize("d", [1, 2, 3, 8, 32])
@pytest.mark.parametrize("name", NAMES)
def test_columns_are_orthonormal_to_rounding(name, d, dtype):
    q = gram_schmidt(ill_conditioned(name, d, dtype), normal(8, d, d, dtype=dtype, seed=2))
    assert q.dtype == dtype
    assert off_orthonormal(q) < 4 * max(d, 2) * torch.finfo(dtype).eps


def test_one_pass_would_not_be_orthonormal():
    z = ill_conditioned("close to the first column", 8, torch.float64)
    columns = []
    for column in z[0].T:
        rest = column - sum((before @ column) * before for before in columns)
        columns.append(rest / rest.norm())
    assert off_orthonormal(torch.stack(columns, 1)) > 1e-11
    assert off_orthonormal(gram_schmidt(z)) < 1e-14


@pytest.mark.parametrize("d", [1, 2, 3, 8, 32])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-3), (torch.float64, 1e-11)])
def test_agrees_with_sign_fixed_qr(d, dtype, error):
    z = normal(2, 5, d, d, dtype=dtype)
    q, r = torch.linalg.qr(z.double())
    wanted = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    assert_close(gram_schmidt(z).double(), wanted, rtol=0, atol=error)


def test_spans_what_the_columns_span_in_their_order():
    z = normal(5, 4, 4)
    triangle = gram_schmidt(z).mT @ z
    assert triangle.tril(-1).abs().max() < 1e-14
    assert triangle.diagonal(dim1=-2, dim2=-1).min() > 0


@pytest.mark.parametrize("k", [1, 2, 4])
def test_fewer_columns_than_dimensions(k):
    z = normal(3, 5, 5)
    q = gram_schmidt(z[..., :k], normal(3, 5, k, seed=1))
    assert q.shape == (3, 5, k)
    assert_close(q, gram_schmidt(z)[..., :k])


def test_follows_rotations():
    z, turn = normal(6, 5, 3), gram_schmidt(normal(6, 5, 5, seed=1))
    assert_close(gram_schmidt(turn @ z), turn @ gram_schmidt(z))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_gradient(k):
    z = normal(2, 3, k).requires_grad_()
    assert torch.autograd.gradcheck(gram_schmidt, z)
    assert torch.autograd.gradgradcheck(gram_schmidt, z)


def test_gradient_is_blind_to_scale():
    z, cotangent = normal(3, 3).requires_grad_(), normal(3, 3, seed=1)
    (gradient,) = torch.autograd.grad(gram_schmidt(z), z, cotangent)
    (scaled,) = torch.autograd.grad(gram_schmidt(1e6 * z), z, cotangent)
    assert_close(scaled, gradient)
    assert abs((gradient * z).sum().item()) < 1e-13


@both_dtypes
def test_noise_does_not_touch_generic_features(dtype):
    z = normal(50, 4, 4, dtype=dtype)
    assert torch.equal(gram_schmidt(z, 1e3 * normal(50, 4, 4, dtype=dtype, seed=1)), gram_schmidt(z))


@pytest.mark.parametrize("column", [0, 1, 2])
def test_noise_replaces_the_missing_column_only(column):
    z, noise = normal(5, 4, 4), normal(5, 4, 4, seed=1)
    filled = z.clone()
    filled[..., column] = noise[..., column]
    z[..., column] = z[..., :column].sum(-1)
    orthonormal, other = gram_schmidt(z, noise), gram_schmidt(z, normal(5, 4, 4, seed=2))
    assert_close(orthonormal, gram_schmidt(filled))
    assert torch.equal(orthonormal[..., :column], other[..., :column])
    assert not torch.isclose(orthonormal[..., column], other[..., column]).all(-1).any()


def test_one_degenerate_matrix_leaves_the_others_alone():
    z, noise = normal(4, 3, 3), normal(4, 3, 3, seed=1)
    generic = gram_schmidt(z)
    z[2] = 0
    orthonormal = gram_schmidt(z, noise)
    assert torch.equal(orthonormal[[0, 1, 3]], generic[[0, 1, 3]])
    assert_close(orthonormal[2], gram_schmidt(noise[2]))


@both_dtypes
def test_noise_takes_over_below_the_tolerance(dtype):
    """|Z| is the Frobenius norm, here 1 up to rounding."""
    noise = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 1.0]], dtype=dtype)
    for factor, kept in ((2.0, True), (0.5, False)):
        z = torch.tensor([[1.0, 0.0], [0.0, factor * TOLERANCE[dtype]], [0.0, 0.0]], dtype=dtype)
        assert gram_schmidt(z, noise)[:, 1].tolist() == ([0.0, 1.0, 0.0] if kept else [0.0, 0.0, 1.0])


@both_dtypes
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(("factor", "kept"), [(2.0, True), (0.5, False)])
def test_the_tolerance_is_relative_to_all_entries(factor, kept, size, dtype):
    """|Z| is four times the largest entry."""
    z, noise = torch.zeros(2, 16, 2, dtype=dtype)
    z[:, 0] = size
    z[0, 1], z[1, 1] = (sign * factor * TOLERANCE[dtype] * 4 * size / math.sqrt(2) for sign in (1, -1))
    noise[2, 1], noise[3, 1] = 1.0, -1.0
    assert gram_schmidt(z, noise)[:, 1].nonzero()[:, 0].tolist() == ([0, 1] if kept else [2, 3])


@both_dtypes
def test_without_noise_missing_columns_are_an_error(dtype):
    z = normal(2, 3, 4, 4, dtype=dtype)
    z[0, 1, :, 2] = z[0, 1, :, 0] - z[0, 1, :, 1]
    z[1, 2, :, 2] = 0
    with pytest.raises(RankError, match=r"Expected column 2 of the features .*\(got 2 of 6 matrices without"):
        gram_schmidt(z)
    with pytest.raises(RankError, match=r"Expected column 0 .*\(got 1 of 1 matrices without; give noise"):
        gram_schmidt(torch.zeros(3, 2, dtype=dtype))
    with pytest.raises(RankError, match="Expected column 1"):
        gram_schmidt(torch.ones(3, 2, dtype=dtype))


def test_the_completion_is_uniform():
    """Where both columns point along x, the second is uniform on the circle in the other two axes."""
    z = torch.tensor([[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]).expand(8000, 3, 2)

    def angles(noise):
        second = gram_schmidt(z, noise)[..., 1]
        assert second[:, 0].abs().max() < 1e-6
        return (torch.atan2(second[:, 2], second[:, 1]) / (2 * math.pi) + 0.5).numpy()

    assert stats.kstest(angles(normal(8000, 3, 2, dtype=torch.float32)), "uniform").pvalue > 1e-4
    square = 2 * torch.rand(8000, 3, 2, generator=torch.Generator().manual_seed(0)) - 1
    assert stats.kstest((4 * angles(square)) % 1, "uniform").pvalue < 1e-4


@pytest.mark.parametrize(
    ("dtype", "exponents", "error"),
    [(torch.float32, [-30, -15, -5, 5, 15, 30], 1e-5), (torch.float64, [-300, -30, -10, 10, 30, 300], 1e-13)],
)
def test_scale_does_not_matter(dtype, exponents, error):
    z, noise = normal(5, 4, 4, dtype=dtype), normal(5, 4, 4, dtype=dtype, seed=1)
    z[0, :, 2] = z[0, :, 1]
    wanted = gram_schmidt(z, noise)
    for exponent in exponents:
        assert_close(gram_schmidt(z * 10.0**exponent, noise), wanted, rtol=0, atol=error)


def test_every_matrix_has_its_own_scale():
    z = normal(3, 4, 4)
    scales = torch.tensor([1e-200, 1.0, 1e200], dtype=torch.float64).view(3, 1, 1)
    assert_close(gram_schmidt(scales * z), gram_schmidt(z))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_halves_are_computed_and_returned_in_float32(dtype):
    z, noise = normal(20, 4, 4).to(dtype), normal(20, 4, 4, seed=1).to(dtype)
    z[0] = 0
    orthonormal = gram_schmidt(z, noise)
    assert orthonormal.dtype == torch.float32
    assert torch.equal(orthonormal, gram_schmidt(z.float(), noise.float()))


@both_dtypes
def test_autocast_is_switched_off(dtype):
    z, noise = normal(5, 4, 4, dtype=dtype), normal(5, 4, 4, dtype=dtype, seed=1)
    z[0] = 0
    with torch.autocast("cpu", dtype=torch.bfloat16):
        orthonormal = gram_schmidt(z, noise)
    assert torch.equal(orthonormal, gram_schmidt(z, noise))


def degenerate(name):
    z = normal(3, 4, 4)
    match name:
        case "zero":
            z.zero_()
        case "repeated columns":
            z[..., 1] = z[..., 0]
        case "zero column":
            z[..., 2] = 0
        case "rank one":
            z = z[..., :1].expand(3, 4, 4).clone()
        case "subnormal":
            z *= 1e-310
    return z


@pytest.mark.parametrize("name", ["zero", "repeated columns", "zero column", "rank one", "subnormal"])
def test_gradients_of_degenerate_features_are_finite(name):
    z, noise = degenerate(name).requires_grad_(), normal(3, 4, 4, seed=1)
    gram_schmidt(z, noise).backward(normal(3, 4, 4, seed=2))
    assert not z.grad.isnan().any()
    if name != "subnormal":
        assert z.grad.isfinite().all()


def test_replaced_columns_get_no_gradient():
    z, noise = normal(3, 4, 4), normal(3, 4, 4, seed=1)
    z[..., 1] = 2 * z[..., 0]
    z.requires_grad_()
    gram_schmidt(z, noise).backward(normal(3, 4, 4, seed=2))
    assert not z.grad[..., 1].any()
    assert z.grad[..., [0, 2, 3]].abs().amin((0, 1)).min() > 0
    zero = torch.zeros(4, 4, requires_grad=True)
    gram_schmidt(zero, noise[0]).sum().backward()
    assert not zero.grad.any()


@pytest.mark.parametrize(
    ("features", "noise", "error", "message"),
    [
        (torch.ones(3, 3).long(), None, DtypeError, r"features to be floating \(got torch.int64\)"),
        (torch.ones(3, 3).cfloat(), None, DtypeError, r"features to be floating \(got torch.complex64\)"),
        (torch.ones(3), None, ShapeError, r"1 <= k <= d \(got \(3,\)\)"),
        (torch.ones(2, 3), None, ShapeError, r"1 <= k <= d \(got \(2, 3\)\)"),
        (torch.ones(3, 0), None, ShapeError, r"1 <= k <= d \(got \(3, 0\)\)"),
        (torch.ones(3, 2), torch.ones(3, 3), ShapeError, r"noise to broadcast to \(3, 2\) \(got \(3, 3\)\)"),
    ],
)
def test_refuses(features, noise, error, message):
    with pytest.raises(error, match="Expected .*" + message):
        gram_schmidt(features, noise)


@pytest.mark.parametrize("shape", [(4, 3, 3), (2, 3, 3)])
def test_noise_of_another_batch_is_refused_or_broadcast(shape):
    features = torch.zeros(3, 3) if shape[0] == 4 else torch.zeros(5, 3, 3)
    try:
        orthonormal = gram_schmidt(features, normal(*shape, dtype=torch.float32))
    except ShapeError:
        return
    assert orthonormal.shape == shape
