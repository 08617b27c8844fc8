"""Moments against sums written out, and as a way to the gradient of a soft sort."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from probsym.errors import ShapeError
from probsym.ops import relaxation, soft_sort
from probsym.ops.chunks import pair_sums, sums_of
from probsym.ops.moments import moments


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_moments_are_sums_over_everything_else(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    left, right = torch.randn(2, 3, 4, 4, 5).to(dtype)
    sums = moments(left, right, [1, 2], left.shape[1])
    wanted = torch.einsum("bikc,bjkc->bij", left.double(), right.double())
    wanted += torch.einsum("bkic,bkjc->bij", left.double(), right.double())
    assert sums.dtype == torch.float32
    assert_close(sums.double(), wanted, rtol=1e-5, atol=1e-5)
    wanted = torch.einsum("bkic,bkjc->bij", left.double(), right.double())
    assert_close(moments(left, right, [2], left.shape[2]).double(), wanted, rtol=1e-5, atol=1e-5)


def test_moments_under_compile() -> None:
    x = torch.randn(2, 3, 3, 2).bfloat16()
    sums = torch.compile(lambda x: moments(x, x, [1, 2], x.shape[1]), fullgraph=True, backend="aot_eager")(x)
    assert_close(sums, moments(x, x, [1, 2], x.shape[1]))


@pytest.mark.parametrize("n", [1, 7, 150])
def test_sums_of_a_given_matrix(n: int) -> None:
    """Those that `pair_sums` has from its factors, chunk by chunk."""
    torch.manual_seed(0)
    points = torch.randn(2, n, dtype=torch.float64).sort(1, descending=True).values
    rate, (a, b) = torch.tensor([3.0, 0.5], dtype=torch.float64), torch.rand(2, 2, n, dtype=torch.float64)
    left, right = torch.randn(2, 2, n, 9, dtype=torch.float64)
    wanted = pair_sums(points, rate, a, b, [left], [right])
    for sums, reference in zip(sums_of(points, rate, a, b, left @ right.mT), wanted, strict=True):
        assert_close(sums, reference)


@pytest.mark.parametrize("outwards", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_gradient_in_low_precision(monkeypatch: pytest.MonkeyPatch, outwards: bool, masked: bool) -> None:
    """Of arrays that low precision holds exactly it is the usual one, whichever way it is taken."""
    torch.manual_seed(0)
    scores, mask = torch.randn(3, 2, 130), None
    if masked:
        mask = (torch.arange(130) < torch.tensor([[130], [100], [64]])).unsqueeze(1)
    x = torch.randint(-2, 3, (3, 1 if not outwards else 2, 130, 130, 2)).float()
    weights = torch.randint(-2, 3, (3, 2, 130, 130, 2)).float()

    def gradient() -> Tensor:
        own = scores.clone().requires_grad_()
        order = soft_sort(own, mask=mask, tau=0.1)
        moved = order.unsort(x, (2, 3)) if outwards else order.sort(x, (2, 3))
        (moved * weights).sum().backward()
        assert own.grad is not None
        return own.grad

    wanted, used = gradient(), list[torch.dtype]()

    def low(x: Tensor, axes: tuple[int, ...]) -> torch.dtype:
        used.append(x.dtype)
        return torch.bfloat16

    monkeypatch.setattr(relaxation, "_low_precision", low)
    actual = gradient()
    assert used
    assert_close(actual, wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))


@pytest.mark.parametrize("outwards", [False, True])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((12, 5), (2,)),
        ((5, 12), (3,)),
        ((5, 12, 12), (3, 4)),
        ((12, 5, 12), (2, 4)),
        ((12, 12, 5), (3, 2)),
        ((12, 12, 12), (2, 3, 4)),
        ((12, 3, 12, 12), (2, 5, 4)),
    ],
)
def test_low_precision_wherever_the_axes_are(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], axes: tuple[int, ...], outwards: bool
) -> None:
    torch.manual_seed(0)
    scores = torch.randn(3, 2, 12)
    x, weights = torch.randint(-2, 3, (2, 3, 2, *shape)).float()

    def gradient() -> Tensor:
        own = scores.clone().requires_grad_()
        order = soft_sort(own, tau=0.1)
        ((order.unsort(x, axes) if outwards else order.sort(x, axes)) * weights).sum().backward()
        assert own.grad is not None
        return own.grad

    wanted = gradient()
    monkeypatch.setattr(relaxation, "_low_precision", lambda x, axes: torch.bfloat16)
    assert_close(gradient(), wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # raised inside the tracer of torch itself
def test_compiled_gradient_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    scores, mask = torch.randn(3, 2, 12), torch.arange(12) < torch.tensor([12, 7, 9]).view(3, 1, 1)
    x, weights = torch.randint(-2, 3, (3, 1, 12, 12, 3)).float(), torch.randint(-2, 3, (3, 2, 12, 12, 3)).float()
    x.requires_grad_()
    monkeypatch.setattr(relaxation, "_low_precision", lambda x, axes: torch.bfloat16)

    def loss(scores: Tensor, x: Tensor) -> Tensor:
        return (soft_sort(scores, mask=mask, tau=0.1).sort(x, (2, 3)) * weights).sum()

    gradients = []
    for function in (loss, torch.compile(loss, backend="aot_eager", fullgraph=True, dynamic=False)):
        own = scores.clone().requires_grad_()
        gradients.append(torch.autograd.grad(function(own, x), (own, x)))
    assert_close(gradients[1], gradients[0])


@pytest.mark.parametrize("n", [8, 12])
def test_arrays_for_products_are_contiguous_and_filled_up(n: int) -> None:
    """Also those that are in the wanted precision already."""
    x = torch.randn(2, n, n, 3).bfloat16()
    array, axes = relaxation._outermost(x, (1, 2), torch.bfloat16)
    assert array.is_contiguous()
    assert axes == [1, 3]
    assert array.shape == (2, n, 3, 8 if n == 8 else 16)
    assert torch.equal(array[..., :n], x.transpose(2, 3))
    assert not array[..., n:].any()
    alone, axes = relaxation._outermost(x, (2,), torch.bfloat16)
    assert axes == [1]
    assert torch.equal(alone, x.transpose(1, 2))


def test_zeros_beyond_n_change_nothing() -> None:
    torch.manual_seed(0)
    left, right = torch.randn(2, 3, 5, 2, 5).bfloat16()
    filled = (torch.nn.functional.pad(x, (0, 3)) for x in (left, right))
    assert_close(moments(*filled, [1, 3], 5), moments(left, right, [1, 3], 5))
    with pytest.raises(ShapeError, match=r"Expected axes \[1, 3\] with 6 items at least \(got \(3, 5, 2, 5\)\)"):
        moments(left, right, [1, 3], 6)


def test_low_precision_is_for_gpus_under_autocast() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert relaxation._low_precision(torch.rand(2, 3, 3), (1, 2)) is None
