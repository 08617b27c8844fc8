"""How elements that were drawn act on a batch."""

import pytest
import torch

from probsym import Signature, groups
from probsym.ops import SoftSort, soft_sort
from probsym.samplers import Batch, Draw, Haar

DTYPES = [torch.float64, torch.float32]
BOUND = {"n": groups.S(), "d": groups.E(3)}
MASK = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1]], dtype=torch.bool)


def drawn(text, bound, *inputs, mask=None, draws=3):
    batch = Batch.outline(Signature.parse(text, bound), inputs, mask).ready()
    return batch, Haar()(batch, Haar().noise(batch, draws, torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("masked", [False, True])
def test_undo_and_apply_are_products_with_matrices(masked, dtype):
    x, a = torch.randn(2, 4, 3, dtype=dtype), torch.randn(2, 4, 4, 2, dtype=dtype)
    mask = MASK if masked else None
    batch, draw = drawn("n d:point, n n e -> n d, d d, d:axial", BOUND, x, a, mask=mask)
    undone = draw.undo(batch)
    outputs = (
        torch.randn(2, 3, 4, 3, dtype=dtype),
        torch.randn(2, 3, 3, 3, dtype=dtype),
        torch.randn(2, 3, 3, dtype=dtype),
    )
    applied = draw.apply(batch, outputs)
    for b in range(2):
        real = torch.ones(4, dtype=dtype) if mask is None else mask[b].to(dtype)
        points = (x[b] - (x[b] * real[:, None]).sum(0) / real.sum()) * real[:, None]
        links = a[b] * (real[:, None] * real)[..., None]
        for k in range(3):
            p = groups.S().matrix(draw.elements["n"][b, k], dtype=dtype) * real[:, None]
            q = draw.elements["d"][b, k, :, :3]
            wanted = p.mT @ points @ q, torch.einsum("ij,ikc,kl->jlc", p, links, p)
            there = p @ outputs[0][b, k] @ q.mT, q @ outputs[1][b, k] @ q.mT, q @ outputs[2][b, k] * torch.linalg.det(q)
            for moved, want in zip([y[b, k] for y in (*undone, *applied)], (*wanted, *there), strict=True):
                torch.testing.assert_close(moved, want, rtol=0, atol=1e-12 if dtype == torch.float64 else 1e-5)


def test_garbage_that_the_base_leaves_on_padding_is_dropped():
    batch, draw = drawn("n c -> n c", {"n": groups.S()}, torch.ones(2, 4, 1), mask=MASK)
    y = torch.full((2, 3, 4, 1), torch.nan)
    y[:, :, :3] = 1
    y[1, :, 3] = 1
    (applied,) = draw.apply(batch, [y])
    assert torch.equal(applied[..., 0], MASK.unsqueeze(1).expand(2, 3, 4).float())


def test_masks_are_seen_real_items_first():
    batch, draw = drawn("n c -> c", {"n": groups.S()}, torch.ones(2, 4, 1), mask=MASK)
    assert torch.equal(draw.masks(batch)["n"][:, 1], torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]], dtype=torch.bool))
    assert draw.masks(batch)["n"].shape == (2, 3, 4)


def test_masked_axes_of_no_group_are_packed_and_unpacked():
    x = torch.randn(2, 4, 3)
    batch, draw = drawn("m d -> m d", {"d": groups.O(3)}, x, mask={"m": MASK})
    (undone,) = draw.undo(batch)
    assert not undone[0, :, 3].any()
    (back,) = draw.apply(batch, [undone])
    torch.testing.assert_close(back[:, 2], torch.where(MASK[..., None], x, 0))


@pytest.mark.parametrize(("start", "stop", "count"), [(0, 2, 2), (2, 5, 3), (1, 9, 4), (0, 5, 5), (0, 9, 5)])
def test_parts_are_slices_of_the_draws(start, stop, count):
    x, mask = torch.randn(2, 4, 3), MASK
    batch, whole = drawn("n d -> n d", {"n": groups.S(), "d": groups.O(3)}, x, mask=mask, draws=5)
    features = {"n": torch.rand(2, 5, 4)}
    whole = Draw(5, whole.elements, whole.carriers, torch.rand(2, 5), torch.tensor([True, False]), features=features)
    part = whole.chunk(start, stop)
    assert part.count == count
    for key in ("n", "d"):
        assert torch.equal(part.elements[key], whole.elements[key][:, start:stop])
    assert torch.equal(part.weights, whole.weights[:, start:stop])
    assert torch.equal(part.features["n"], features["n"][:, start:stop])
    assert torch.equal(part.exact, whole.exact)
    torch.testing.assert_close(part.undo(batch)[0], whole.undo(batch)[0][:, start:stop])
    y = torch.randn(2, 5, 4, 3)
    torch.testing.assert_close(part.apply(batch, [y[:, start:stop]])[0], whole.apply(batch, [y])[0][:, start:stop])
    assert part.masks(batch)["n"].shape[1] == count


def test_parts_of_learned_orders_keep_their_gradient():
    scores = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    batch = Batch.outline(
        Signature.parse("n c -> n c", {"n": groups.S()}), [torch.randn(2, 3, 2, dtype=torch.float64)]
    ).ready()

    def gradient(steps):
        order = soft_sort(scores, tau=0.1)
        draw = Draw(4, {"n": order.index}, {"n": order})
        parts = [draw.chunk(start, start + steps) for start in range(0, 4, steps)]
        assert all(isinstance(part.carriers["n"], SoftSort) for part in parts)
        total = sum((part.undo(batch)[0] * torch.arange(6.0).view(3, 2)).sum() for part in parts)
        return torch.autograd.grad(total, scores)[0]

    torch.testing.assert_close(gradient(4), gradient(1))
    torch.testing.assert_close(gradient(4), gradient(3))
    assert gradient(1).abs().sum() > 0
