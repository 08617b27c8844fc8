"""Images under any angle: exact where pixels meet pixels, and close to it on smooth images."""

import math

import pytest
import torch
from torch import Tensor, nn

from probsym import Symmetrized, bases, groups, samplers, testing
from probsym.errors import DtypeError, GroupError, ShapeError
from probsym.groups.images import turn_image
from probsym.nets import Features

SIDE = 33


def smooth(batch: int = 3, side: int = SIDE) -> Tensor:
    """Gaussian spots of four pixels or more, well inside the disc, (batch, side, side, 2)."""
    generator = torch.Generator().manual_seed(0)
    line = torch.arange(side, dtype=torch.float64) - (side - 1) / 2
    total = torch.zeros(batch, side, side, 2, dtype=torch.float64)
    for _ in range(3):
        row, column = (2.5 * torch.randn(batch, 1, 1, 2, dtype=torch.float64, generator=generator).tanh() for _ in "rc")
        height = torch.randn(batch, 1, 1, 2, dtype=torch.float64, generator=generator)
        total += height * torch.exp(-((line.view(-1, 1, 1) - row) ** 2 + (line.view(-1, 1) - column) ** 2) / 32)
    return total


def disc(height: int, width: int) -> Tensor:
    row, column = (torch.arange(size) - (size - 1) / 2 for size in (height, width))
    return row.square().unsqueeze(1) + column.square() <= ((min(height, width) - 1) / 2) ** 2


@pytest.mark.parametrize("side", [1, 2, 7, 8])
def test_quarter_turns_are_exact_in_the_disc_and_zero_outside(side: int) -> None:
    x = torch.randn(2, 3, side, side, dtype=torch.float64)
    for k in range(4):
        wanted = torch.where(disc(side, side), torch.rot90(x, k, (2, 3)), 0)
        turned = groups.C(8).act(torch.tensor([2 * k, 2 * k]), x, (2, 3), "grid")
        torch.testing.assert_close(turned, wanted, atol=1e-12, rtol=0)
        q = groups.C(4).matrix(torch.tensor(k), dtype=torch.float64)
        torch.testing.assert_close(groups.SO(2).act(q, x, (-2, -1), "grid"), wanted, atol=1e-12, rtol=0)


def test_rectangles_turn_in_the_disc_of_their_shorter_side() -> None:
    x = torch.randn(5, 9, dtype=torch.float64)
    half = groups.C(6).act(torch.tensor(3), x, (0, 1), "grid")
    torch.testing.assert_close(half, torch.where(disc(5, 9), x.flip(0, 1), 0), atol=1e-12, rtol=0)


def test_places_are_read_between_four_pixels() -> None:
    """What the image of a linear function shows: itself, turned."""
    angle = 0.4
    q = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.float64)
    line = torch.arange(9, dtype=torch.float64) - 4
    x = 2 * line.expand(9, 9) - line.unsqueeze(1)  # (2, 1) . p, with y upwards
    wanted = torch.einsum(
        "i,ij,jrc->rc",
        torch.tensor([2.0, 1.0]).double(),
        q.T,
        torch.stack([line.expand(9, 9), -line.unsqueeze(1).expand(9, 9)]),
    )
    torch.testing.assert_close(turn_image(q, x, 0), torch.where(disc(9, 9), wanted, 0))


def test_exact_groups_stay_exact_and_have_no_disc() -> None:
    x = torch.randn(6, 6)
    assert torch.equal(groups.D(4).act(torch.tensor(1), x, (0, 1), "grid"), torch.rot90(x))
    assert groups.D(4).act(torch.tensor(1), torch.ones(6, 6), (0, 1), "grid").min() == 1


def test_gradients_in_image_and_angle() -> None:
    q = groups.O(2).haar((2,), dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    x = torch.randn(2, 5, 6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()

    def act(q: Tensor, x: Tensor) -> Tensor:
        return groups.O(2).act(q, x, (1, 2), "grid").tanh()

    assert torch.autograd.gradcheck(act, (q, x), fast_mode=True)
    assert torch.autograd.gradgradcheck(act, (q, x), fast_mode=True)


def test_weights_act_as_the_sum_over_elements() -> None:
    group, x = groups.D(3), torch.randn(2, 7, 7, dtype=torch.float64)
    weights = torch.rand(2, 6, dtype=torch.float64)
    every = [group.act(torch.full((2,), k), x, (1, 2), "grid") for k in range(6)]
    wanted = sum(weights[:, k, None, None] * image for k, image in enumerate(every))
    torch.testing.assert_close(group.act(weights, x, (1, 2), "grid"), wanted)


class Moments(nn.Module):
    """Where the mass of an image lies, and where that of its square: two vectors that turn with it."""

    def forward(self, x: Tensor, mask: None = None) -> Features:
        line = torch.arange(x.shape[-2], dtype=x.dtype) - (x.shape[-2] - 1) / 2
        first, second = x[..., 0], x[..., 1] + x[..., 0].square()
        vectors = [
            torch.stack([(y * line).sum((-2, -1)), -(y * line.unsqueeze(1)).sum((-2, -1))], -1) for y in (first, second)
        ]
        return Features(vectors=torch.stack(vectors, -1))


def pooled(x: Tensor) -> Tensor:
    """Not symmetric at all: soft counts in four corners of the disc."""
    return (
        torch.stack(
            [x[:, :16, :16].sum((1, 2)), x[:, 16:, 16:].square().sum((1, 2)), x[:, 16:, :16].sin().sum((1, 2))], 1
        ).flatten(1)
        / 40
    )


@pytest.mark.parametrize(
    ("group", "sampler"),
    [
        (groups.SO(2), samplers.Haar()),
        (groups.O(2), samplers.Canonical(Moments())),
        (groups.SO(2), samplers.Quadrature(7)),
        (groups.D(6), samplers.Enumerate()),
        (groups.C(12), samplers.Energy(lambda x: x[:, :16].sum((1, 2, 3)), tau=2.0)),
        (groups.SO(2), samplers.Energy(lambda x: x[:, :16].sum((1, 2, 3)), tau=2.0, elements=8)),
    ],
    ids=lambda argument: type(argument).__name__ if isinstance(argument, samplers.Sampler) else repr(argument),
)
def test_models_of_smooth_images_are_equivariant_up_to_a_few_percent(
    group: groups.Group, sampler: samplers.Sampler
) -> None:
    model = Symmetrized(pooled, "(h w) c -> k", {"h w": group}, sampler, 1 if sampler.lists_elements else 4)
    report = testing.assert_equivariant(model, smooth(), tolerance=0.05, generator=torch.Generator().manual_seed(3))
    assert report.error > 1e-7  # not exact, or it would not be interpolated
    images = Symmetrized(lambda x: x.tanh() * x.mean(2, keepdim=True), "(h w) c -> (h w) c", {"h w": group}, sampler)
    testing.assert_equivariant(images, smooth(), tolerance=0.05, generator=torch.Generator().manual_seed(4))


def test_refuses() -> None:
    x = torch.ones(4, 4)
    with pytest.raises(DtypeError, match="floating image to turn by any angle"):
        groups.C(3).act(torch.tensor(1), x.long(), (0, 1), "grid")
    with pytest.raises(GroupError, match="pair of axes"):
        groups.SO(2).act(torch.eye(2), x, 0, "grid")
    with pytest.raises(ShapeError, match="next to each other"):
        groups.SO(2).act(torch.eye(2), x, (1, 0), "grid")
    with pytest.raises(GroupError, match="to act on an axis of kind"):
        groups.SO(3).act(torch.eye(3), x, (0, 1), "grid")
    with pytest.raises(GroupError, match=r"maps pixels to pixels \(got C\(3\)\)"):
        groups.C(3).grid_index(4, 4)
    with pytest.raises(GroupError, match=r"Expected noise=0 for SO\(2\), which has no `noise_laws` on '\(h w\)'"):
        Symmetrized(bases.MLP([32, 2]), "(h w) c -> k", {"h w": groups.SO(2)}, samplers.Learned(Moments()))
