"""Weighted frames: continuous where plain ones jump."""

import numpy as np
import pytest
import torch
from torch import Tensor

from probsym import Symmetrized, bases, groups, samplers, testing
from probsym.errors import GroupError, RangeError

GROUPS = [groups.SO(2), groups.O(2), groups.SO(3), groups.O(3), groups.E(3)]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def base(rows: int, d: int, gain: float = 1.0) -> bases.MLP:
    """Random weights, times the gain."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        network = bases.MLP([rows * d, 32, 1], activation="tanh", shape=()).double()
        for weight in network.parameters():
            weight.mul_(gain)
    return network


def on_points(group: groups.Group, n: int = 4, gain: float = 1.0, **options) -> Symmetrized:
    term = "n d:point" if isinstance(group, groups.E) else "n d"
    return Symmetrized(base(n, group.axis_size(), gain), f"{term} -> ", {"d": group}, samplers.Frame(**options))


def steps(model: Symmetrized, path: Tensor) -> tuple[float, float]:
    """The largest change of the output between neighbours of a path (steps, ...), and the mean one."""
    with torch.no_grad():
        y = model(path, generator=seeded())
    change = (y[1:] - y[:-1]).abs()
    return float(change.max()), float(change.mean())


def through_a_repeated_eigenvalue(d: int, count: int) -> Tensor:
    """Points whose principal axes change places half way, between two of an even number of steps."""
    x = torch.randn(4, d, dtype=torch.float64, generator=seeded(2))
    x = torch.linalg.svd(x - x.mean(0), full_matrices=False)[0]
    t = torch.linspace(-0.3, 0.3, count, dtype=torch.float64)
    scale = torch.ones(count, d, dtype=torch.float64)
    scale[:, 0], scale[:, 1] = 1.5 + t, 1.5 - t
    return x * scale.unsqueeze(1)


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_a_plain_frame_jumps_at_a_repeated_eigenvalue_and_a_weighted_one_does_not(group: groups.Group) -> None:
    long, short = (through_a_repeated_eigenvalue(group.axis_size(), count) for count in (400, 800))
    plain, weighted = (on_points(group, gain=5.0, weighted=by_weight) for by_weight in (False, True))
    for path in (long, short):
        jump, _ = steps(plain, path)
        assert jump > 0.15  # however short the steps
        most, mean = steps(weighted, path)
        assert most < 5 * mean
        assert most < jump / 100
    assert most < 0.0007
    assert most == pytest.approx(steps(weighted, long)[0] / 2, rel=0.02)  # steps half as long, changes half as large


def test_points_that_go_through_the_origin_or_a_line_jump_neither() -> None:
    t = torch.linspace(-1, 1, 2001, dtype=torch.float64)
    x = torch.randn(4, 3, dtype=torch.float64, generator=seeded(3))
    through = x.expand(len(t), -1, -1).clone()
    through[:, 0] = t.unsqueeze(1) * x[0]
    onto = x.expand(len(t), -1, -1).clone()
    onto[:, :, 1:] *= t.view(-1, 1, 1)  # all on one line half way
    for path in (through, onto):
        most, mean = steps(on_points(groups.SO(3), weighted=True), path)
        assert most < 10 * mean


def test_elements_and_weights() -> None:
    x = torch.randn(2, 4, 3, dtype=torch.float64, generator=seeded(4))
    estimate = on_points(groups.O(3), weighted=True).estimate(x)
    assert estimate.samples == 24
    assert groups.O(3).contains(estimate.elements["d"]).all()
    torch.testing.assert_close(estimate.weights.sum(1), torch.ones(2, dtype=torch.float64))
    assert (estimate.stderr == 0).all()
    q = estimate.elements["d"][0, 0]  # of the first point and the second
    seen = x[0] @ q
    torch.testing.assert_close(seen[0, 1:], torch.zeros(2, dtype=torch.float64), atol=1e-12, rtol=0)
    assert abs(seen[1, 2]) < 1e-12
    assert seen[0, 0] > 0
    assert seen[1, 1] > 0
    square, area = x[0].square().sum(-1), torch.linalg.cross(x[0, :1].expand(3, -1), x[0, 1:]).square().sum(-1)
    torch.testing.assert_close(estimate.weights[0, 0], square[0] / square.sum() * area[0] / area.sum() / 2)


@pytest.mark.parametrize("points", [torch.zeros(2, 4, 3), torch.arange(4.0).view(4, 1) * torch.ones(2, 4, 3)])
def test_points_that_do_not_span_are_completed_at_random(points: Tensor) -> None:
    model = Symmetrized(lambda x: x[:, 0].exp(), "n d -> d", {"d": groups.SO(3)}, samplers.Frame(weighted=True))
    x = points.double()
    estimate = model.estimate(x)
    assert estimate.stderr.isnan().all()
    assert groups.SO(3).contains(estimate.elements["d"]).all()
    assert testing.assert_equivariant(model, x).error < 1e-9
    assert testing.equivariance_gap(model, x, samples=40, generator=seeded(5)).p_value > 1e-3


def on_sets(n: int, channels: int, **options) -> Symmetrized:
    return Symmetrized(base(n, channels), "n c -> ", {"n": groups.S()}, samplers.Frame(**options))


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_sorts_do_not_jump_where_items_change_places(channels: int) -> None:
    t = torch.linspace(-1, 1, 2001, dtype=torch.float64)
    x = torch.randn(4, channels, dtype=torch.float64, generator=seeded(6)).expand(len(t), -1, -1).clone()
    x[:, :2, 1:] = torch.tensor([-1.0, 1.0]).view(2, 1)
    x[:, 0, 0] = x[:, 1, 0] + 0.3 * t  # the first channel of two items, which differ in the others
    most, mean = steps(on_sets(4, channels, weighted=True), x)
    assert most < 20 * mean
    if channels > 1:
        jump, usual = steps(on_sets(4, channels), x)
        assert jump > 20 * usual
        assert jump > 10 * most


def test_orders_are_weighted_by_the_smallest_gap() -> None:
    x = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]], dtype=torch.float64)
    estimate = on_sets(3, 2, weighted=True).estimate(x)
    assert estimate.samples == 4  # one more than there are pairs
    directions = np.random.RandomState(0).standard_normal((4, 2))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    places = x[0].numpy() @ directions.T
    gaps = np.diff(np.sort(places, 0), axis=0).min(0)
    torch.testing.assert_close(estimate.weights[0], torch.from_numpy(gaps / gaps.sum()))
    assert estimate.elements["n"][0].tolist() == np.argsort(-places, 0).T.tolist()


def test_padding_changes_nothing_and_equal_items_are_drawn() -> None:
    def counts(x: Tensor, mask: Tensor | None = None) -> Tensor:
        return (x * torch.tensor([1.0, 2.0, 3.0, 0.0, 0.0])[: x.shape[1]].view(1, -1, 1)).sum((1, 2)).tanh()

    model = Symmetrized(counts, "n c -> ", {"n": groups.S()}, samplers.Frame(weighted=True))
    x = torch.randn(2, 3, 2, generator=seeded(7))
    padded = torch.cat([torch.full((2, 2, 2), torch.nan), x], 1)
    mask = torch.arange(5).expand(2, -1) >= 2
    torch.testing.assert_close(model(padded, mask=mask), model(x))
    x[0, 1] = x[0, 0]
    assert model.estimate(x).stderr.isnan().tolist() == [True, False]
    estimate = model.estimate(x[:, :1])
    assert estimate.samples == 1
    assert (estimate.weights == 1).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: samplers.Frame(weighted=True, exact=False), RangeError, "exact=True for a weighted frame"),
        (
            lambda: on_points(groups.O(5), 2, weighted=True),
            GroupError,
            r"2 or 3 dimensions, for a weighted frame \(got O\(5\)",
        ),
        (
            lambda: Symmetrized(
                torch.sum, "n d -> ", {"n": groups.S(), "d": groups.O(3)}, samplers.Frame(weighted=True)
            ),
            GroupError,
            "for a weighted frame",
        ),
        (
            lambda: on_points(groups.O(3), weighted=True)(torch.randn(1, 24, 3)),
            GroupError,
            r"1024 elements .* \(got 1104\)",
        ),
        (lambda: on_sets(40, 3, weighted=True)(torch.randn(1, 40, 3)), GroupError, r"1024 directions .* \(got 1561\)"),
        (lambda: on_sets(4, 1, weighted=True)(torch.randn(1, 4, 1), samples=2), RangeError, "no samples for Frame"),
    ],
)
def test_refuses(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()
