"""The eigenvectors of small matrices, against LAPACK's."""

import pytest
import torch

from probsym.errors import DtypeError, ShapeError
from probsym.groups import O
from probsym.ops import jacobi as module
from probsym.ops.jacobi import jacobi
from tests.host_waits import no_host_waits

DTYPES = [torch.float64, torch.float32]
SIZES = range(1, 9)
MANY = 500


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def with_values(values, generator):
    """Matrices with these eigenvalues, (MANY, d)."""
    q = O(values.shape[-1]).haar(values.shape[:1], dtype=torch.float64, generator=generator)
    matrix = (q * values.unsqueeze(1)) @ q.mT
    return (matrix + matrix.mT) / 2


def matrices(kind, d, dtype):
    generator = seeded(d)
    x = torch.randn(MANY, d, d, dtype=torch.float64, generator=generator)
    numbers = torch.rand(MANY, d, dtype=torch.float64, generator=generator)
    return {
        "random": x + x.mT,
        "points": x.mT @ x,
        "few points": x[:, : (d + 1) // 2].mT @ x[:, : (d + 1) // 2],
        "whole numbers": (x + x.mT).round(),
        "repeated": with_values((3 * numbers).floor(), generator),
        "nearly repeated": with_values(1 + 1e-6 * numbers, generator),
        "of all sizes": with_values(10 ** (-16 * numbers), generator),
        "nearly the identity": torch.eye(d, dtype=torch.float64) + 1e-15 * (x + x.mT),
        "ones": torch.ones(1, d, d, dtype=torch.float64),
    }[kind].to(dtype)


KINDS = [
    "random",
    "points",
    "few points",
    "whole numbers",
    "repeated",
    "nearly repeated",
    "of all sizes",
    "nearly the identity",
    "ones",
]


def errors(matrix, values, vectors):
    """The largest errors, in units of rounding and of the largest eigenvalue: orthogonality, residual, eigenvalues."""
    eps = torch.finfo(matrix.dtype).eps
    a, values, vectors = matrix.double(), values.double(), vectors.double()
    wanted = torch.linalg.eigvalsh(a)
    size = wanted.abs().amax(-1)
    off = vectors.mT @ vectors - torch.eye(a.shape[-1], dtype=torch.float64)
    residual = (a @ vectors - vectors * values.unsqueeze(-2)).abs().amax((-2, -1)) / size
    return [float(error.max()) / eps for error in (off.abs(), residual, (values - wanted).abs().amax(-1) / size)]


@pytest.mark.parametrize(("d", "dtype"), [*((d, torch.float64) for d in SIZES), (3, torch.float32), (8, torch.float32)])
@pytest.mark.parametrize("kind", KINDS)
def test_eigenvectors_to_rounding(kind, d, dtype):
    matrix = matrices(kind, d, dtype)
    values, vectors = jacobi(matrix)
    assert values.dtype == vectors.dtype == dtype
    assert bool((values.diff(dim=-1) >= 0).all())
    assert max(errors(matrix, values, vectors)) < 8 * d


@pytest.mark.parametrize("d", [3, 5, 8])
def test_two_sweeps_fewer_would_do(d, monkeypatch):
    monkeypatch.setattr(module, "MORE_SWEEPS", module.MORE_SWEEPS - 2)
    for kind in KINDS:
        matrix = matrices(kind, d, torch.float64)
        assert max(errors(matrix, *jacobi(matrix))) < 8 * d


@pytest.mark.parametrize("d", [2, 3, 8])
def test_vectors_are_those_of_lapack_up_to_sign(d):
    matrix = with_values(torch.arange(d, dtype=torch.float64).expand(MANY, d), seeded())
    vectors, wanted = jacobi(matrix)[1], torch.linalg.eigh(matrix)[1]
    torch.testing.assert_close(
        (vectors.mT @ wanted).abs(), torch.eye(d).double().expand(MANY, d, d), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 3, 8])
@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("kind", ["random", "few points", "repeated"])
def test_any_scale(kind, up, d, dtype):
    scale = (1e30 if dtype == torch.float64 else 1e15) ** (1 if up else -1)
    matrix = matrices(kind, d, dtype) * scale
    assert max(errors(matrix, *jacobi(matrix))) < 8 * d


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", SIZES)
def test_zero_and_diagonal_matrices_are_exact(d, dtype):
    values, vectors = jacobi(torch.zeros(2, d, d, dtype=dtype))
    assert not values.any()
    assert torch.equal(vectors, torch.eye(d, dtype=dtype).expand(2, d, d))
    given = torch.randn(50, d, dtype=dtype, generator=seeded()) * 10.0 ** torch.arange(-4, 4)[:d]
    values, vectors = jacobi(torch.diag_embed(given))
    wanted, order = given.sort(-1)
    assert torch.equal(values, wanted)
    assert torch.equal(vectors, torch.nn.functional.one_hot(order, d).mT.to(dtype))


@pytest.mark.parametrize("batch", [(), (1,), (0,), (2, 3), (2, 0, 3), (2, 1, 3)])
def test_batches_are_separate(batch):
    x = torch.randn(*batch, 5, 3, dtype=torch.float64, generator=seeded())
    matrix = x.mT @ x
    values, vectors = jacobi(matrix)
    assert values.shape == (*batch, 3)
    assert vectors.shape == (*batch, 3, 3)
    torch.testing.assert_close((vectors * values.unsqueeze(-2)) @ vectors.mT, matrix)
    for single, value in zip(matrix.reshape(-1, 3, 3), values.reshape(-1, 3), strict=True):
        torch.testing.assert_close(jacobi(single)[0], value)


def test_no_gradient_and_the_input_stays():
    matrix = torch.eye(3).add(1).requires_grad_()
    values, vectors = jacobi(matrix)
    assert not values.requires_grad
    assert not vectors.requires_grad
    assert torch.equal(matrix, torch.eye(3) + 1)


def test_numbers_that_are_none_stay_in_their_own_matrix():
    matrix = matrices("random", 3, torch.float64)[:3]
    matrix[1] = torch.nan
    values, vectors = jacobi(matrix)
    assert values[1].isnan().any()
    assert max(errors(matrix[::2], values[::2], vectors[::2])) < 24


def test_nothing_waits():
    matrix = matrices("random", 3, torch.float64)
    with no_host_waits():
        jacobi(matrix)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # that the compiler itself runs into
def test_compile_in_one_graph():
    matrix = matrices("repeated", 3, torch.float64)
    torch._dynamo.reset()
    decomposition = torch.compile(jacobi, backend="aot_eager", fullgraph=True)(matrix)
    assert max(errors(matrix, *decomposition)) < 24


@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        (torch.eye(3, dtype=torch.long), DtypeError, r"float32 or float64 \(got torch.int64\)"),
        (torch.eye(3, dtype=torch.bfloat16), DtypeError, r"float32 or float64 \(got torch.bfloat16\)"),
        (torch.ones(3), ShapeError, r"1 <= d <= 8 \(got \(3,\)\)"),
        (torch.ones(3, 2), ShapeError, r"\(got \(3, 2\)\)"),
        (torch.eye(9), ShapeError, r"\(got \(9, 9\)\)"),
        (torch.ones(2, 0, 0), ShapeError, r"\(got \(2, 0, 0\)\)"),
    ],
)
def test_refuses(matrix, error, message):
    with pytest.raises(error, match=message):
        jacobi(matrix)
