import pytest
import torch

from probsym.ops import sinkhorn_doubling

triton = pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 40])
@pytest.mark.parametrize("n", [1, 2, 5, 64, 188, 444, 2048])
def test_the_fused_kernel_is_the_doubling_scan(n: int, steps: int, symmetric: bool, masked: bool) -> None:
    from probsym.ops import sinkhorn_triton  # noqa: PLC0415

    rows = 5
    points = torch.randn(rows, n, dtype=torch.float64).sort(1, descending=True).values.to("cuda")
    rate = torch.tensor([0.3, 2.0, 30.0, 300.0, 3000.0]).to(points)
    real = None
    if masked:
        real = torch.arange(n).cuda() < torch.tensor([[n], [max(n // 2, 1)], [1], [n], [0]]).cuda()
    grads = torch.randn(2, rows, n, device="cuda", dtype=torch.float64)
    row_end = steps if symmetric else max(steps - 1, 0)
    results = []
    for backend in (sinkhorn_doubling, sinkhorn_triton):
        saved = backend.scale(points, rate, real, steps, symmetric)
        results.append([*saved, backend.unscale(points, rate, real, *saved, *grads, symmetric, row_end)])
    for wanted, actual in zip(*results, strict=True):
        assert actual.shape == wanted.shape
        if actual.numel():
            assert (actual - wanted).abs().max() <= 1e-11 * (1e-30 + wanted.abs().max())
