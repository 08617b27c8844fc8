"""`assert_equivariant` on models that are, and on models that are not."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from probsym import Symmetrized, bases, groups, nets, samplers
from probsym.nets import Features
from probsym.ops import Order, descending
from probsym.samplers.draw import Draw
from probsym.samplers.noise import no_noise
from probsym.testing import assert_equivariant

S = {"n": groups.S()}
DTYPES = [torch.float64, torch.float32]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def points(dtype: torch.dtype = torch.float64, batch: int = 3) -> torch.Tensor:
    return torch.randn(batch, 5, 3, generator=seeded(), dtype=torch.float64).to(dtype)


class Unmoved(samplers.Haar):
    """Forgets to move its noise."""

    def move(self, signature, g, noise):
        return noise


class Upright(samplers.Haar):
    """Weighs elements by how little they turn the axes of the room, and not of the points."""

    def __init__(self, strength: float) -> None:
        super().__init__()
        self.strength = strength

    def forward(self, batch, noise):
        g = noise.elements["d"]
        return Draw(g.shape[1], {"d": g}, {"d": g}, weights=torch.softmax(self.strength * g[..., 0, 0], 1))


@pytest.mark.parametrize(("strength", "samples", "dtype"), [(5.0, 8, torch.float64), (0.05, 2000, torch.float32)])
def test_weights_that_do_not_follow_the_input_are_noticed(strength: float, samples: int, dtype: torch.dtype) -> None:
    model = Symmetrized(lambda x: x[:, 0], "n d -> d", {"d": groups.SO(3)}, Upright(strength), samples=samples)
    with pytest.raises(AssertionError, match="in batch item"):
        assert_equivariant(model, points(dtype))


class Undecided(samplers.Haar):
    """Leaves the first draw, and its weight, to rounding."""

    def forward(self, batch, noise):
        draw = super().forward(batch, noise)
        ordered = torch.arange(5, 0, -1, dtype=batch.dtype).repeat(batch.count, draw.count, 1)
        ordered[:, 0, 1] = 5 - 1e-12
        scores = torch.zeros_like(ordered).scatter(-1, draw.elements["n"], ordered)
        weights = torch.ones(batch.count, draw.count, dtype=batch.dtype)
        weights[:, 0] += batch.inputs[0][:, 0, 0].abs()
        return replace(draw, weights=weights, features={"n": scores})


def test_the_weight_of_a_draw_that_rounding_decides_is_left_out() -> None:
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", S, Undecided(), samples=4)
    assert assert_equivariant(model, points(batch=2)).unclear == 2


class ByPlace(samplers.Sampler):
    """Sorts by a score that depends on the place."""

    def noise(self, batch, draws, generator=None, *, start=0):
        return no_noise()

    def forward(self, batch, noise):
        scores = batch.inputs[0].sum(-1) + torch.arange(batch.sizes["n"])
        order = Order(descending(scores.unsqueeze(1)), batch.mask_of("n"))
        return Draw(1, {"n": order.index}, {"n": order})


class Axes(samplers.Haar):
    """Principal axes with the signs that `eigh` happens to give."""

    def forward(self, batch, noise):
        x = batch.inputs[0].detach()
        q = torch.linalg.eigh(x.mT @ x).eigenvectors.unsqueeze(1).expand_as(noise.elements["d"])
        return Draw(q.shape[1], {"d": q}, {"d": q})


class Identity(samplers.Haar):
    """Draws nothing."""

    def forward(self, batch, noise):
        g = {key: torch.arange(orders.shape[-1]).expand_as(orders) for key, orders in noise.elements.items()}
        return Draw(noise.draws(), g, {key: Order(orders, batch.mask_of(key)) for key, orders in g.items()})


class WrongScores(nn.Module):
    """A net that breaks its ties by place."""

    perturbs, extra_noise = (0,), 0

    def forward(self, x, mask=None):
        return Features(scores=(x.sum(-1) > 0).to(x.dtype) - 1e-3 * torch.arange(x.shape[-2]))


BROKEN = {
    "unmoved": ("n d -> d", S, Unmoved()),
    "by place": ("n d -> d", S, ByPlace()),
    "identity": ("n d -> d", S, Identity()),
    "signs": ("n d -> n", {"d": groups.O(3)}, Axes()),
    "net": ("n d -> d", S, samplers.Learned(WrongScores())),
    "net, canonical": ("n d -> d", S, samplers.Canonical(WrongScores())),
}


def base_of(signature: str):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return bases.MLP([15, 8, 5 if signature.endswith("n") else 3], activation="tanh")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BROKEN)
def test_broken_samplers_are_found(name: str, dtype: torch.dtype) -> None:
    signature, bound, sampler = BROKEN[name]
    model = Symmetrized(base_of(signature), signature, bound, sampler, samples=5).to(dtype)
    with pytest.raises(AssertionError, match=r"Expected phi\(g x\) = g phi\(x\) up to .* \(got an error of"):
        assert_equivariant(model, points(dtype), generator=seeded())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sampler", [samplers.Haar(), samplers.Enumerate(), samplers.Frame("sort")])
def test_right_samplers_pass(sampler: samplers.Sampler, dtype: torch.dtype) -> None:
    model = Symmetrized(base_of("n d -> d"), "n d -> d", S, sampler).to(dtype)
    report = assert_equivariant(model, points(dtype), generator=seeded())
    assert report.draws == 3
    assert report.unclear == 0
    assert 0 <= report.error < 1e-4


def test_without_groups() -> None:
    model = Symmetrized(base_of("n d -> d"), "n d -> d", {})
    assert assert_equivariant(model, points(torch.float32)).error == 0


def test_fixed_noise_is_named() -> None:
    sampler = samplers.Learned(nets.DeepSets(3), fixed_noise=True)
    model = Symmetrized(base_of("n d -> d"), "n d -> d", S, sampler, samples=5)
    with pytest.raises(AssertionError, match="its fixed noise belongs to the example"):
        assert_equivariant(model, points(torch.float32), index=torch.arange(3), generator=seeded())


class Scores(nn.Module):
    perturbs, extra_noise = (), 0

    def forward(self, x, mask=None):
        return Features(scores=x[..., 0].unsqueeze(1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_draws_at_rounding_distance_are_left_out(dtype: torch.dtype) -> None:
    x = points(dtype, batch=2)
    x[:, :, 0] = torch.tensor([0.5, 1.0, 2.0, 3.0, 4.0])
    x[1, 1, 0] = 0.5 + torch.finfo(dtype).eps
    model = Symmetrized(base_of("n d -> d"), "n d -> d", S, samplers.Learned(Scores()), samples=4).to(dtype)
    report = assert_equivariant(model, x, generator=seeded())
    assert (report.draws, report.unclear) == (8, 4)
    with pytest.raises(AssertionError, match="Expected some draw"):
        assert_equivariant(model, x[1:], generator=seeded())


def chirality(x: Tensor) -> Tensor:
    return torch.linalg.det(x[:, :3])


def corner(x: Tensor) -> Tensor:
    return x[:, 0, 0]


def first(x: Tensor) -> Tensor:
    return x[:, 0]


def turned_only(x: Tensor) -> Tensor:
    """Follows rotations of a square, but knows its mirror image."""
    turns = torch.stack([x.rot90(k, (1, 2)) for k in range(4)], 1)
    return (turns[:, :, 0, 0] * turns[:, :, 0, 1].square()).sum(1)


FAULTS = {
    "chirality": (chirality, "n d -> ", {"d": groups.O(3)}, (1, 5, 3)),
    "corner": (corner, "(i j) -> ", {"i j": groups.C(4)}, (1, 4, 4)),
    "first": (first, "n -> ", S, (1, 5)),
    "mirror": (turned_only, "(i j) -> ", {"i j": groups.D(4)}, (2, 4, 4)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_one_item_is_enough(name: str) -> None:
    """Up to half of all elements hide these faults; each of a hundred tests must meet one that does not."""
    function, signature, bound, shape = FAULTS[name]
    for seed in range(100):
        x = torch.randn(shape, dtype=torch.float64, generator=seeded(seed + 1000))
        with pytest.raises(AssertionError, match="got an error of"):
            assert_equivariant(function, x, signature=signature, groups=bound, generator=seeded(seed))


def test_one_item_is_enough_for_a_symmetrized_model() -> None:
    model = Symmetrized(lambda x: x[:, 0], "n -> ", S, Identity(), samples=3)
    for seed in range(100):
        x = torch.randn(1, 3, dtype=torch.float64, generator=seeded(seed + 1000))
        with pytest.raises(AssertionError, match="got an error of"):
            assert_equivariant(model, x, generator=seeded(seed))


@pytest.mark.parametrize(("batch", "calls"), [(1, 17), (5, 5), (16, 2), (40, 2)])
def test_every_call_has_the_batch_that_was_given(batch: int, calls: int) -> None:
    """Models may depend on the size of their batch: it is moved again rather than repeated."""
    sizes = []

    def total(x: Tensor) -> Tensor:
        sizes.append(x.shape[0])
        return x.sum(1)

    report = assert_equivariant(total, torch.randn(batch, 5, dtype=torch.float64), signature="n -> ", groups=S)
    assert report.draws == batch
    assert sizes == [batch] * calls


@pytest.mark.parametrize("seed", range(5))
def test_the_worst_item_is_named_by_its_place_in_the_batch(seed: int) -> None:
    def wrong(x: Tensor) -> Tensor:
        return x[:, 0] * torch.tensor([0.0, 1e-3, 1.0], dtype=x.dtype)

    x = torch.arange(1.0, 6.0, dtype=torch.float64).expand(3, -1)
    with pytest.raises(AssertionError, match="in batch item 2: "):
        assert_equivariant(wrong, x, signature="n -> ", groups=S, generator=seeded(seed))


def test_tolerance_is_respected() -> None:
    model = Symmetrized(base_of("n d -> d"), "n d -> d", {"n": groups.S(), "d": groups.SO(3)}, samples=5)
    x = points(torch.float32)
    error = assert_equivariant(model, x, generator=seeded()).error
    assert error > 0
    assert assert_equivariant(model, x, generator=seeded(), tolerance=error * 1.01).error == error
    with pytest.raises(AssertionError, match="got an error of"):
        assert_equivariant(model, x, generator=seeded(), tolerance=error / 2)


@pytest.mark.parametrize("fails", [False, True])
def test_leaves_everything_as_it_was(fails: bool) -> None:
    def base(x: torch.Tensor) -> torch.Tensor:
        if fails:
            raise KeyError("base")
        return x[:, 0]

    net = nets.GIN(3, hidden=4)
    model = Symmetrized(lambda x, a: base(x), "n d, n n -> d", S, samplers.Learned(net), samples=3)
    model.train()
    net.layers[1].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    next(net.parameters()).requires_grad_(False)
    trained = [parameter.requires_grad for parameter in model.parameters()]
    modes, state = [module.training for module in model.modules()], torch.get_rng_state()
    x = points(torch.float32)
    arguments = (model, x, torch.ones(3, 5, 5))
    if fails:
        with pytest.raises(KeyError):
            assert_equivariant(*arguments, generator=seeded())
    else:
        assert_equivariant(*arguments, generator=seeded())
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == trained
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_nan_is_not_equivariant() -> None:
    model = Symmetrized(lambda x: x[:, 0] / 0 * 0, "n d -> d", S)
    with pytest.raises(AssertionError, match="got an error of nan"):
        assert_equivariant(model, points())
